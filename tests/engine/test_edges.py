"""What random programs seldom reach: edges of windows, words and tables, and combinations of rules. Each is small.

The kill suite of the mutants runs all of it (`kill_suite.py`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.directed_cases import case, kernel, one
from tests.engine.test_against_reference import assert_same
from tests.support.cases import Case, paths, small_gpu
from tests.support.whole_run import whole_run
from warpsim.arguments import DeadlockError
from warpsim.engine.constants import LONGEST_KNOWN_WAIT
from warpsim.kernels import Access, Conditional, Cost, Hints, Instruction, Loop
from warpsim.simulation.run import TraceLimitError

LONG = {"block_launch_cycles": 600, "memory": {"latency_cycles": 600}}
"""Windows as long as they can be."""


def reads(*names: str, op: str = "alu", register: int = 1) -> Instruction:
    return one(op, register, reads=names)


TRIPLE, ODD, REUSE = reads("R2", "R4", "R6"), reads("R3", "R5", "R7"), reads("R2.reuse", "R3", "R4.reuse")
CHAIN = (TRIPLE, ODD, REUSE, REUSE, reads("R2", "R3.reuse", op="sfu"), reads("R9", "R3"))
MIXED = (one("load", 3), *CHAIN, REUSE, reads("R2.reuse", "R4", register=3), *CHAIN)
FETCH = {"lines": 8, "line_instructions": 16, "miss_cycles": 4, "stages": 2}
MANY = {"queue": {"crossbar_servers": 2, "dram_servers": 3, "crossbar_gbs": 60.0, "dram_gbs": 50.0}}
FEW = {"queue": {"crossbar_servers": 1, "dram_servers": 2, "crossbar_gbs": 20.0, "dram_gbs": 37.0}}
QUEUED = {"scope": "sm", "queue": 5, "lead_cycles": 11, "address_cycles": 4}
HIT = Access(l1_hit=0.1, l2_hit=0.5)
PAUSE = Instruction("alu", cost=Cost(gap_cycles=9), hints=Hints())
WRITES = {"mixed_rate": 0.5, "write_rate": 0.7, "write_burst_ns": 0.0, "read_delay_ns": 0.0, "idle_ns": 0.0}
STORES = [one("store", register) for register in (1, 2, 4)]


def counted(op: str = "load", **hints: Any) -> Instruction:
    return Instruction(op, hints=Hints(**hints))


def looped(*body: Any, trips: int | None = 6) -> Any:
    return kernel(Loop(body=body, trips=trips))


EDGES: dict[str, Case] = {
    **{
        f"units that refuse and ports that hold, issue interval {interval}": case(
            small_gpu(
                sm={"schedulers": 2}, issue={"interval_cycles": interval}, core={"register_banks": 2}, **LONG,
                ops={"alu": {"interval_cycles": 2 * interval}, "sfu": {"pipe": "math", "interval_cycles": 3 * interval}},
            ),
            looped(*CHAIN),
            blocks=2, size=8, seats=2, scheduler=scheduler,
        )
        for interval, scheduler in ((1, "lrr"), (2, "gto"))
    },
    **{
        f"busy schedulers over the words of a window, {interval}": case(
            small_gpu(
                issue={"interval_cycles": interval}, **LONG,
                ops={"alu": {"interval_cycles": 2 * interval + 1}, "sfu": {"pipe": "math", "interval_cycles": 3 * interval}},
            ),
            looped(one("alu"), one("sfu"), one("alu"), one("alu", 2), trips=36 // interval),
            blocks=1, size=4, seats=1,
        )
        for interval in (2, 3, 5)
    },
    **{
        f"fetch of plain runs, buffer of {buffer}, width {width}": case(
            small_gpu(
                sm={"schedulers": 2}, issue={"interval_cycles": 3 - width, "width": width},
                core={"register_banks": 2, "fetch": FETCH | {"buffer": buffer}}, **LONG,
                ops={"alu": {"interval_cycles": 2}, "sfu": {"pipe": "math", "interval_cycles": 4}},
            ),
            looped(*MIXED, trips=1),
            blocks=1, size=6, seats=1, scheduler=scheduler,
        )
        for buffer, width, scheduler in ((1, 1, "lrr"), (2, 1, "gto"), (3, 2, "gty"), (3, 1, "gty"))
    },
    **{
        f"fetch of independent additions, buffer of {buffer}": case(
            small_gpu(ops={"load": {"issue_slots": 3}}, core={"fetch": FETCH | {"buffer": buffer, "stages": 5}}),
            looped(*[Instruction("alu")] * 8, one("load"), one("alu"), trips=2), blocks=2, seats=1,
        )
        for buffer in (1, 2)
    },
    **{
        f"buffers that stay full, {buffer} entries, {stages} stages, {scheduler}": case(
            small_gpu(
                sm={"schedulers": 2}, core={"fetch": FETCH | {"buffer": buffer, "stages": stages, "lines": 9}}, **LONG,
                ops={"alu": {"latency_cycles": latency}, "sfu": {"pipe": "math", "interval_cycles": 4}},
            ),
            kernel(
                *[Instruction("alu")] * 7, Loop(body=[*[one("alu")] * 5, one("sfu"), one("load", 2)], trips=4),
                Conditional(then=(Instruction("alu"),) * 4, probability=0.5), Instruction("barrier"), *[Instruction("alu")] * 9,
            ),
            blocks=5, size=4, seats=2, scheduler=scheduler,
        )
        for buffer, stages, latency in ((1, 1, 1), (2, 1, 4), (2, 3, 4), (3, 2, 1), (3, 3, 2), (3, 4, 2), (5, 2, 6))
        for scheduler in ("lrr", "gto")
    },
    **{
        f"full buffers at the end of {length} instructions and {len(behind)} more, {scheduler}": case(
            small_gpu(
                sm={"schedulers": 2}, core={"fetch": FETCH | {"buffer": 3}}, warp_launch_cycles=3, **LONG,
                ops={"alu": {"latency_cycles": 3}},
            ),
            kernel(*[one("alu")] * length, *behind), blocks=12, size=2, seats=4, scheduler=scheduler,
        )
        for length in (5, 9, 14)
        for behind in ((), (one("load", 2), one("alu"), one("alu")))
        for scheduler in ("lrr", "gto")
    },
    **{
        f"windows of {cycles} cycles, {of}": case(
            small_gpu(
                sms=sms, block_launch_cycles=cycles, memory={"latency_cycles": cycles} | MANY,
                ops={"alu": {"latency_cycles": LONGEST_KNOWN_WAIT}, "sfu": {"latency_cycles": LONGEST_KNOWN_WAIT + 1}},
            ),
            looped(one("load"), one("alu"), one("sfu", 2), one("alu", 2), one("store", 2)),
            blocks=None, cycles=4000, size=4, memory="queue", **{"sms": 1} if of == "a slice" else {},
        )
        for cycles in (255, 256, 257, 511, 512, 513, 700)
        for sms, of in ((2, "the chip"), (3, "a slice"))
    },
    "one class alone is refused": case(
        small_gpu(ops={"alu": {"issue_slots": 3}, "sfu": {"interval_cycles": 10}}), looped(one("sfu"), one("alu"), trips=4),
        blocks=1, size=5, seats=1,
    ),
    "fetch on many schedulers": case(
        small_gpu(sms=3, sm={"schedulers": 4}, core={"fetch": FETCH | {"buffer": 2}}), looped(one("alu"), one("load"), trips=1),
        blocks=3, size=4, seats=1,
    ),
    "a line on its way is prefetched by another warp": case(
        small_gpu(core={"fetch": FETCH | {"line_instructions": 2, "prefetch_lines": 3, "prefetch_cycles": 3}}),
        paths([Instruction("alu")] * 3, [Instruction("alu")] * 3, of_warp=(0, 1)), blocks=2, seats=1,
    ),
    "stores that return long before they come to their limit": case(
        small_gpu(
            block_launch_cycles=300,
            memory={"latency_cycles": 300, "store_drain_cycles": 60, "stores_per_sm": 100, "bandwidth_gbs": 1000.0},
        ),
        looped(*[Instruction("store")] * 10, trips=6), blocks=1, size=8, seats=1,
    ),
    **{
        f"stores among loads that do not wait for DRAM, {memory}": case(
            small_gpu(memory=FEW | {"bandwidth_gbs": 30.0, "writes": WRITES}),
            looped(one("load"), one("store"), one("load", 2, access=HIT), trips=3), memory=memory,
        )
        for memory in ("fixed", "queue")
    },
    **{
        f"fetch by chance, {lines} lines": case(
            small_gpu(core={"fetch": FETCH | {"lines": lines, "line_instructions": 2, "miss_cycles": 7, "buffer": 2}}),
            paths([Instruction("alu")] * 4, [Instruction("alu")] * 3, [one("alu")] * 4, of_warp=(0, 1, 2, 0)),
            blocks=3, size=4, seats=2, scheduler="random",
        )
        for lines in (2, 3)
    },
    **{
        f"groups that wait for all but {at_most} of their loads, {group} in a group": case(
            small_gpu(sm={"schedulers": 1}),
            looped(
                *[counted("load", write=0)] * 2, PAUSE, counted("alu", waits=(0,), at_most=at_most), *[one("alu")] * 3,
                counted("alu", waits=(0,)), trips=2,
            ),
            blocks=2, size=3, seats=2, scheduler=f"two_level:{group}",
        )
        for at_most in (1, 2, 3)
        for group in (1, 2)
    },
    "an echo begins with the first step": case(
        small_gpu(sms=5, memory=MANY), kernel(one("load", access=HIT), one("alu")), blocks=None, cycles=900, sms=1, memory="queue"
    ),
    "an echo begins with the first step, with phases": case(
        small_gpu(sms=5, memory=MANY), kernel(one("load", access=HIT), one("alu")),
        blocks=None, cycles=700, warmup=600, sms=1, memory="queue",
    ),
    "more accesses under way than an echo looks back": case(
        small_gpu(sms=4, memory=FEW),
        looped(
            *[Instruction("load")] * 3, one("load", access=HIT), *[Instruction("load")] * 20, one("alu"), one("store"), trips=None
        ),
        blocks=None, size=1, seats=2, cycles=1_200, sms=1, memory="queue",
    ),
    "pauses of epochs between the accesses of a slice": case(
        small_gpu(sms=4, memory=MANY, ops={"sfu": {"latency_cycles": 700}, "alu": {"latency_cycles": 1300}}),
        looped(one("load"), one("load", 2), one("sfu", 1), one("load"), one("alu"), one("load", 2), trips=None),
        blocks=None, size=1, seats=3, cycles=6_000, sms=1, memory="queue",
    ),
    "an iteration of one cycle, with blocks that start one after another": case(
        small_gpu(launch_interval_cycles=7.3), looped(Instruction("alu"), trips=None), blocks=None, warmup=5, cycles=50, seats=3
    ),
    **{
        f"counters with many entries, {memory}, {scheduler}": case(
            small_gpu(sm={"schedulers": 2}, memory=MANY),
            looped(
                *[Instruction("load", access=HIT, hints=Hints(write=0))] * 12,
                counted("store", read=0), counted("alu", waits=(0,), at_most=7),
                *[counted("smem", write=1)] * 9, counted("alu", waits=(0, 1), at_most=2), counted("sfu", write=0),
                counted("alu", waits=(0,), at_most=1), trips=3,
            ),
            blocks=3, memory=memory, scheduler=scheduler,
        )
        for memory, scheduler in (("queue", "lrr"), ("fixed", "gto"), ("queue", "two_level:1"), ("fixed", "two_level:2"))
    },
    **{
        f"stalls at counters that count no load, {at_most}": case(
            small_gpu(ops={"smem": {"latency_cycles": 31}, "sfu": {"latency_cycles": 25}}),
            looped(
                counted("sfu", write=0), counted("smem", write=1), counted("load", write=2), counted("alu"),
                counted("alu", waits=(0,), at_most=at_most), counted("alu", waits=(2, 1), at_most=at_most),
                counted("alu", waits=(1,)), trips=2,
            ),
            size=4, seats=4, blocks=5, scheduler="two_level:2",
        )
        for at_most in (0, 1)
    },
    "counter 0 counts what is read": case(
        small_gpu(ops={"store": {"operand_cycles": 14}}), kernel(counted("store", read=0), counted("alu", waits=(0,))),
        blocks=1, size=1, seats=1,
    ),
    "a load from cycle 0 returns before one that hits L1, of which a warp may have two": case(
        small_gpu(
            block_launch_cycles=300, memory={"latency_cycles": 300, "loads_per_warp": 2, "l1_latency_cycles": 100},
            ops={"sfu": {"latency_cycles": 240}},
        ),
        kernel(
            Instruction("load", dst="r1"), one("sfu", 2), one("load", 2, access=Access(l1_hit=1.0)), Instruction("load", dst="r3")
        ),
        blocks=1, size=1, seats=1,
    ),
    "a load from cycle 0 is counted with one that hits L1 and returns later": case(
        small_gpu(
            block_launch_cycles=300, memory={"latency_cycles": 300, "l1_latency_cycles": 100},
            ops={"sfu": {"latency_cycles": 240}},
        ),
        kernel(
            counted("load", write=0), counted("sfu", write=1),
            Instruction("load", access=Access(l1_hit=1.0), hints=Hints(waits=(1,), write=0)),
            counted("alu", waits=(0,), at_most=1),
        ),
        blocks=1, size=1, seats=1,
    ),
    "results that one class sees later than another, some instructions on": case(
        small_gpu(ops={"smem": {"latency_to": {"alu": 40}}, "sfu": {"latency_to": {"alu": 33}}}),
        looped(one("smem"), one("sfu", 2), one("store", 3), one("alu", 2), one("alu"), one("store"), trips=2),
        blocks=2, size=1, seats=1,
    ),
    "all blocks start at once, later than the launch": case(
        small_gpu(grid_launch_cycles=100), kernel(one("alu"), one("load")), blocks=2, seats=2
    ),
    "loads that wait in a queue and hit L1": case(
        small_gpu(units={"lsu": QUEUED}, ops={"load": {"unit": "lsu", "interval_cycles": 7}}, sm={"schedulers": 2}),
        kernel(*[one("load", register, access=Access(l1_hit=0.9)) for register in (1, 2, 3)], one("alu", 3)),
        blocks=1, size=4, seats=1,
    ),
    "loads that wait in a queue and miss L1": case(
        small_gpu(units={"lsu": QUEUED}, ops={"load": {"unit": "lsu", "interval_cycles": 7}}, sm={"schedulers": 2}),
        kernel(*[one("load", register) for register in (1, 2, 3)], one("alu", 3)), blocks=1, size=4, seats=1,
    ),
    "a unit that refuses for more cycles than a word has": case(
        small_gpu(ops={"sfu": {"interval_cycles": 70}}, **LONG), looped(one("sfu"), *[one("alu")] * 9, trips=2),
        blocks=1, size=6, seats=1,
    ),
    "groups that wait for loads": case(
        small_gpu(memory=FEW), looped(one("load"), one("alu", 2), one("sfu", 2), one("alu"), one("alu", 2), trips=2),
        size=4, seats=4, blocks=5, scheduler="two_level:2", memory="queue",
    ),
    "a load that is back before its gap": case(
        small_gpu(sms=2, ops={"load": {"gap_cycles": 33}}, memory=FEW | {"l2_latency_cycles": 5}),
        looped(one("load", access=Access(l2_hit=0.4)), one("alu"), one("store", access=Access(l2_hit=0.2)), trips=3),
        seats=4, blocks=10, memory="queue",
    ),
    "loads that are served in another order than they return": case(
        small_gpu(sms=2, memory=FEW | {"transaction_latency_cycles": 9.0}),
        looped(
            one("load", 1, access=Access(pattern="stride", stride=4, l2_hit=0.3)), one("load", 2, access=Access(l2_hit=0.3)),
            Instruction("alu", dst="r3", src=("r1", "r2")), trips=3,
        ),
        seats=4, blocks=7, memory="queue",
    ),
    "a bus that turns": case(
        small_gpu(
            memory={
                "bandwidth_gbs": 8.0,
                "writes": {"mixed_rate": 0.7, "write_rate": 1.0, "write_burst_ns": 90.0, "read_delay_ns": 9.0, "idle_ns": 30.0},
            }
        ),
        looped(one("load"), one("store"), trips=20), size=4, blocks=12, memory="queue",
    ),
    **{
        f"stores that drain behind a bus that is {'taken' if gbs < 100 else 'free'}, {of} of {limit}, {memory}": case(
            small_gpu(
                sms=3, sm={"schedulers": 2}, issue={"width": 2}, block_launch_cycles=300, units={"lsu": unit},
                ops={name: {"unit": "lsu", "scope": unit["scope"], "interval_cycles": 2} for name in ("load", "store")},
                memory={"latency_cycles": 300, "store_drain_cycles": 5, "stores_per_sm": limit, "bandwidth_gbs": gbs},
            ),
            looped(one("load", 3), *STORES, one("alu"), one("alu", 4), *STORES, trips=None),
            size=4, seats=3, blocks=None, cycles=2_500, memory=memory, **({"sms": 1} if of == "a slice" else {}),
        )
        for gbs in (35.0, 140.0)
        for limit, unit in ((6, {"scope": "sm"}), (7, {"scope": "scheduler"}), (40, {"scope": "sm"}), (41, QUEUED))
        for of in ("the chip", "a slice")
        for memory in ("queue", "fixed")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str) -> None:
    assert_same(EDGES[name])


def last_wait(*body: Instruction, **memory: Any) -> dict[Any, int]:
    """Returns the warp-cycles of one warp after `exit`, by the step that caused them and their state."""
    gpu = small_gpu(memory={"l2_latency_cycles": 19, "store_drain_cycles": 40} | memory)
    seen = assert_same(case(gpu, kernel(*body), blocks=1, size=1, seats=1))
    return {(line, name): n for _, line, name, n in seen["caused_cycles"] if name in ("long_scoreboard", "drain")}


NEAR = Instruction("load", access=Access(l2_hit=1.0))
PAUSE = [Instruction("alu")] * 20
FAR = Instruction("load")


def test_of_two_loads_that_return_together_the_first_one_is_waited_for() -> None:
    """The first returns at 40, the second, from L2, at 21 + 19; `exit` issues at 22."""
    assert last_wait(FAR, *PAUSE, NEAR) == {(0, "long_scoreboard"): 18}


def test_of_a_store_and_a_load_that_return_together_the_load_is_waited_for() -> None:
    assert last_wait(Instruction("store"), *PAUSE, NEAR) == {(21, "long_scoreboard"): 18}
    assert last_wait(FAR, Instruction("alu"), Instruction("store"), store_drain_cycles=38) == {(0, "long_scoreboard"): 37}


def test_of_deadlocks_in_one_cycle_that_of_the_first_sm_is_reported() -> None:
    body = Conditional(then=[Instruction("barrier"), Instruction("alu")], orelse=[Instruction("barrier")], warps=(1,))
    stuck = case(small_gpu(sms=3), kernel(body), blocks=3, seats=1)
    with pytest.raises(DeadlockError, match=r"the warps of block 0 wait"):
        whole_run(stuck.gpu, stuck.kernel, stuck.launch, **stuck.options)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_trace_that_is_full_is_left_as_it_is(rows: int) -> None:
    full = case(small_gpu(), looped(one("alu"), one("load")), blocks=2)
    with pytest.raises(TraceLimitError, match=r"more than \d+ instructions"):
        whole_run(full.gpu, full.kernel, full.launch, **full.options, rows=rows)
