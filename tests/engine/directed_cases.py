"""Cases of one feature of docs/model.md each, so that the name of a failed case identifies the feature."""

from __future__ import annotations

from typing import Any

from tests.support.cases import Case, paths, small_gpu
from warpsim import kernels as k
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Conditional, Cost, Hints, Instruction, Kernel, Loop

REGISTERS = ("r0", "r1", "r2", "r3", "r4", "r5")


def kernel(*body: Any) -> Kernel:
    """Returns a kernel with these statements."""
    return Kernel(name="directed", inputs=REGISTERS, body=body)


def case(
    gpu: Gpu, program: Kernel, *, blocks: int | None = 4, size: int = 2, seats: int = 2, **options: Any
) -> Case:
    """Returns a case of a grid, by default one that runs to its end with deterministic memory."""
    launch = Launch(blocks=blocks, block_warps=size, resident_blocks=seats)
    defaults: dict[str, Any] = {"scheduler": "lrr", "memory": "fixed", "seed": 2016, "warmup": 0}
    ends = {"cycles": 600} if blocks is None else {"cycles": None}
    return Case(gpu, program, launch, defaults | ends | options)


def one(op: str, register: int = 1, **fields: Any) -> Instruction:
    """Returns an instruction of a chain of dependent instructions."""
    name = f"r{register}"
    return Instruction(op, src=(name,), **({} if op == "store" else {"dst": name}), **fields)


ALU, SFU, LOAD, STORE = one("alu"), one("sfu", 2), one("load", 3), one("store", 3)
BARRIER, EXIT = Instruction("barrier"), Instruction("exit")
HIT = Access(l1_hit=0.4, l2_hit=0.5)
LATE = HIT.model_copy(update={"l1_late_cycles": 37, "l2_late_cycles": 215})
SCATTERED = Access(pattern="random", l1_hit=0.2)
COPY = kernel(LOAD, one("load", 4), ALU, STORE, one("store", 4), SFU)
SLOW = {"bandwidth_gbs": 20.0}
QUEUED = {"scope": "sm", "queue": 2, "lead_cycles": 1, "address_cycles": 1}
FEW_SERVERS = {"queue": {"crossbar_servers": 2, "dram_servers": 3, "crossbar_gbs": 30.0, "dram_gbs": 25.0}}

SHARED = {"fma": {"scope": "scheduler"}, "port": {"scope": "sm"}}
SHARING = {"alu": {"unit": "fma"}, "sfu": {"unit": "fma"}, "load": {"unit": "port"}, "smem": {"unit": "port"}}

LONG_PATH = (LOAD, BARRIER, Loop(body=(ALU, ALU, one("smem", 4)), trips=3), BARRIER, STORE)
SHORT_PATH = (Loop(body=(SFU, one("load", 2)), trips=2), BARRIER, ALU)
PATHS = paths(LONG_PATH, SHORT_PATH, (ALU,), of_warp=(0, 1, 0, 2, 0))

DIRECTED: dict[str, Case] = {
    "paths": case(small_gpu(sm={"schedulers": 2}), PATHS, blocks=7, size=3),
    "paths of an endless supply": case(small_gpu(sm={"schedulers": 2}), PATHS, blocks=None, size=2, warmup=300),
    "paths with random numbers": case(
        small_gpu(sms=2), paths((one("load", 3, access=HIT), ALU), (ALU, SFU), of_warp=(1, 0, 0)), blocks=9, memory="queue"
    ),
    "classes that share units": case(
        small_gpu(sm={"schedulers": 2}, units=SHARED, ops=SHARING),
        kernel(Loop(body=(ALU, SFU, LOAD, one("smem", 4)), trips=4)),
        seats=4,
    ),
    "own units that refuse one scheduler for long": case(
        small_gpu(sm={"schedulers": 2}, ops={"sfu": {"interval_cycles": 70}}),
        paths((Loop(body=(SFU,), trips=4),), (Loop(body=(ALU, one("alu", 4), one("alu", 5), SFU), trips=3),), of_warp=(0, 1)),
        seats=4,
    ),
    "classes that share a unit with a limit of loads": case(
        small_gpu(sm={"schedulers": 2}, units=SHARED, ops=SHARING, memory={"loads_per_sm": 2}),
        kernel(Loop(body=(LOAD, one("smem", 4), STORE), trips=4)),
        seats=4,
    ),
    "costs of single instructions": case(
        small_gpu(ops={"alu": {"latency_to": {"sfu": 2}}}),
        kernel(
            one("alu", cost=Cost(latency_cycles=11)),
            one("sfu", cost=Cost(interval_cycles="7/3", gap_cycles=3)),
            one("alu", cost=Cost(issue_slots=3)),
            one("load", 3, cost=Cost(requests=3, bytes_per_request=48.0, requested_bytes=64)),
            Conditional(then=(ALU,), orelse=(SFU,), probability=0.5, cost=Cost(gap_cycles=9)),
            one("store", 3, cost=Cost(interval_cycles=5)),
        ),
        memory="queue",
    ),
    "passes behind the input of a unit": case(
        small_gpu(sm={"schedulers": 2}, core={"replays": "unit"}, units={"lsu": QUEUED}, ops={"smem": {"unit": "lsu"}}),
        kernel(Loop(body=[one("smem", k, cost=Cost(passes=n)) for k, n in enumerate((5, 1, 1, 3))] + [one("alu", 2)], trips=4)),
        size=4,
    ),
    "one warp": case(small_gpu(), COPY, blocks=1, size=1, seats=1),
    "many SMs": case(small_gpu(sms=3, memory=SLOW), COPY, blocks=11),
    "a slice": case(small_gpu(sms=3, memory=SLOW), COPY, blocks=7, sms=2),
    "a slice of the queue": case(small_gpu(sms=3, memory=FEW_SERVERS), COPY, blocks=7, sms=2, memory="queue"),
    "more stores than there is room for between the stages": case(
        small_gpu(sms=2, memory=FEW_SERVERS),
        kernel(Loop(body=[STORE, one("store", 4)], trips=150)),
        seats=2,
        blocks=8,
        size=2,
        memory="queue",
    ),
    **{
        f"echoes of a slice, {memory}": case(
            small_gpu(sms=7, memory=FEW_SERVERS | {"measured": True, "bandwidth_gbs": 45.0}),
            kernel(Loop(body=[one("load", access=Access(l1_hit=0.2, l2_hit=0.3)), STORE, one("load", 4), ALU], trips=60)),
            blocks=None,
            cycles=2_600,
            warmup=400,
            sms=2,
            memory=memory,
        )
        for memory in ("fixed", "queue", "measured")
    },
    "echoes of many loads under way": case(
        small_gpu(sms=4, memory=FEW_SERVERS | {"loads_per_sm": 30}, issue={"width": 2}),
        kernel(
            Loop(body=[Instruction("load", dst=f"r{n}", src=("r1",)) for n in range(3, 24)], trips=(1, 3)),
            STORE,
            Loop(body=[one("load", 3), one("store", 4), ALU], trips=None),
        ),
        blocks=None,
        cycles=2_000,
        warmup=300,
        size=1,
        seats=3,
        sms=1,
        memory="queue",
    ),
    "echoes of loads that counters count": case(
        small_gpu(sms=4, memory=FEW_SERVERS | {"loads_per_sm": 30}),
        kernel(
            Loop(
                body=[
                    Instruction("load", dst="r1", src=("r0",), access=Access(l2_hit=0.5), hints=Hints(write=0)),
                    Instruction("load", dst="r2", src=("r0",), access=Access(l1_hit=0.4), hints=Hints(write=3)),
                    one("load", 3),
                    Instruction("alu", dst="r3", src=("r1",), hints=Hints(waits=(0,), at_most=2)),
                    Instruction("load", dst="r4", src=("r3",)),
                    Instruction("store", src=("r2", "r4"), hints=Hints(waits=(3,), at_most=1)),
                ],
                trips=None,
            ),
        ),
        blocks=None,
        cycles=2_500,
        warmup=300,
        size=2,
        sms=1,
        memory="queue",
    ),
    "echoes of warps that end with counted loads under way": case(
        small_gpu(sms=4, memory=FEW_SERVERS | {"loads_per_sm": 30}),
        kernel(
            Loop(
                body=[
                    Instruction("load", access=Access(l2_hit=0.4), hints=Hints(write=0)),
                    Instruction("alu", hints=Hints(waits=(0,), at_most=2)),
                ],
                trips=(2, 6),
            )
        ),
        blocks=None,
        cycles=3_000,
        warmup=300,
        size=1,
        seats=3,
        sms=1,
        memory="queue",
    ),
    "a slice of scattered accesses": case(
        small_gpu(sms=2, memory=FEW_SERVERS),
        kernel(Loop(body=[one("load", access=SCATTERED), ALU, one("store", 3, access=SCATTERED)], trips=None)),
        blocks=None,
        cycles=3_000,
        sms=1,
        memory="queue",
    ),
    "four schedulers": case(small_gpu(sm={"schedulers": 4}), k.mix(3, iterations=5), seats=4, blocks=9),
    "more schedulers than warps": case(small_gpu(sm={"schedulers": 4}), COPY, size=1, seats=2),
    "issue interval": case(small_gpu(issue={"interval_cycles": 2}), COPY, seats=3),
    "issue slots": case(small_gpu(ops={"alu": {"issue_slots": 3}, "load": {"issue_slots": 8}}), COPY),
    "dual issue": case(small_gpu(issue={"width": 2}, ops={"alu": {"interval_cycles": "2/3"}}), COPY, seats=3),
    "dual issue, the second takes more slots": case(
        small_gpu(issue={"width": 2, "interval_cycles": 2}, ops={"sfu": {"issue_slots": 5}}),
        kernel(ALU, SFU, LOAD),
    ),
    "dual issue, one unit of the SM": case(
        small_gpu(issue={"width": 2}, sm={"schedulers": 3}, ops={"alu": {"scope": "sm"}}), COPY, seats=3
    ),
    "dual issue, what the second writes is written again": case(
        small_gpu(issue={"width": 2}, ops={"alu": {"interval_cycles": "1/2"}}),
        kernel(SFU, ALU, Instruction("alu", dst="r1", src=("r4",)), ALU),
    ),
    "dual issue without latency": case(
        small_gpu(issue={"width": 2}, ops={"alu": {"latency_cycles": 0, "interval_cycles": "1/3"}}),
        kernel(ALU, ALU, ALU, LOAD, ALU, BARRIER, ALU),
    ),
    "fractional interval": case(
        small_gpu(ops={"alu": {"interval_cycles": "4/3"}}), k.chain("alu", 4, iterations=9)
    ),
    "long fractional interval": case(
        small_gpu(sm={"schedulers": 2}, ops={"sfu": {"interval_cycles": "37/7", "scope": "sm"}}),
        k.chain("sfu", 3, iterations=9),
        seats=4,
    ),
    "gaps": case(small_gpu(ops={"alu": {"gap_cycles": 9}, "store": {"gap_cycles": 34}}), COPY),
    "latency to a class": case(
        small_gpu(ops={"sfu": {"latency_to": {"sfu": 13, "branch": 25, "store": 0}}}),
        kernel(
            SFU, SFU, Conditional(then=[ALU], probability=1.0, src=("r2",)), one("store", 2), one("alu", 2)
        ),
    ),
    "a result that a later instruction awaits": case(
        small_gpu(ops={"alu": {"latency_cycles": 24}}), kernel(ALU, one("alu", 2), ALU, one("alu", 2), SFU, ALU)
    ),
    "one destination": case(
        small_gpu(issue={"width": 2}), kernel(LOAD, Instruction("alu", dst="r3", src=("r1",)), ALU)
    ),
    "bank conflicts": case(
        small_gpu(sm={"schedulers": 2}),
        kernel(
            one("smem", ways=4), one("smem", access=Access(pattern="stride", stride=2)), one("smem", 2), ALU
        ),
    ),
    "nested loops": case(
        small_gpu(), kernel(Loop(body=[ALU, Loop(body=[SFU, LOAD], trips=3), STORE], trips=2))
    ),
    "random trips": case(
        small_gpu(), kernel(Loop(body=[ALU, Loop(body=[LOAD], trips=(1, 4))], trips=(1, 3)), STORE)
    ),
    "random trips without a choice draw nothing": case(
        small_gpu(), kernel(Loop(body=[Conditional(then=[ALU], orelse=[SFU], probability=0.5)], trips=(3, 3)))
    ),
    "endless loop": case(small_gpu(sms=2), k.mix(2.5), blocks=None, seats=3, warmup=100),
    "branch by probability": case(
        small_gpu(),
        kernel(Loop(body=[Conditional(then=[ALU, LOAD], orelse=[SFU], probability=0.4)], trips=6)),
    ),
    "branch by warp": case(
        small_gpu(), kernel(Conditional(then=[ALU, LOAD], orelse=[SFU, SFU], warps=(1, 2))), size=3
    ),
    "branch past the end": case(small_gpu(), kernel(Conditional(then=[ALU, LOAD], warps=(1,)))),
    "divergence": case(
        small_gpu(), kernel(ALU, Conditional(then=[ALU, LOAD], orelse=[SFU], diverges=True), ALU)
    ),
    "branch instruction": case(
        small_gpu(issue={"width": 2}), kernel(ALU, Instruction("branch", src=("r1",)), SFU, ALU)
    ),
    "early exit": case(
        small_gpu(),
        kernel(LOAD, Conditional(then=[SFU, EXIT], probability=0.5), BARRIER, ALU),
        size=4,
        blocks=9,
    ),
    "barriers": case(
        small_gpu(sm={"schedulers": 2}), kernel(LOAD, BARRIER, ALU, BARRIER, ALU), size=4, blocks=5
    ),
    "barrier in a loop": case(
        small_gpu(), kernel(Loop(body=[LOAD, ALU, BARRIER], trips=3)), size=3, memory="queue"
    ),
    "barrier without latency": case(
        small_gpu(sm={"schedulers": 3}, ops={"barrier": {"latency_cycles": 0}}),
        kernel(LOAD, BARRIER, ALU, BARRIER, SFU),
        size=4,
        memory="queue",
    ),
    "barrier whose gap ends with it": case(
        small_gpu(ops={"barrier": {"latency_cycles": 6, "gap_cycles": 6}}), kernel(ALU, BARRIER, ALU, BARRIER, SFU)
    ),
    "barrier that exits free": case(
        small_gpu(), kernel(Conditional(then=[SFU, LOAD, SFU, EXIT], warps=(0, 2)), BARRIER, ALU), size=3
    ),
    "deadlock": case(small_gpu(), kernel(Conditional(then=[BARRIER, ALU], orelse=[BARRIER], warps=(1,)))),
    "deadlock at an exit": case(
        small_gpu(),
        kernel(
            Conditional(then=[LOAD, ALU, one("alu", 3), EXIT], warps=(2,)),
            Conditional(then=[BARRIER, ALU], orelse=[BARRIER], warps=(1,)),
        ),
        size=3,
    ),
    "replacement at once": case(small_gpu(block_launch_cycles=0), COPY, blocks=9),
    "replacement": case(small_gpu(sms=2, block_launch_cycles=50), k.vector_add(), blocks=13),
    "blocks that start in one window, not in the order of seats": case(
        small_gpu(block_launch_cycles=60, memory={"latency_cycles": 70}, sm={"max_warps": 16}),
        kernel(LOAD, Loop(body=[SFU, ALU], trips=(1, 9)), ALU, SFU),
        blocks=30,
        size=1,
        seats=8,
    ),
    "a grid smaller than the chip": case(small_gpu(sms=3), COPY, blocks=2),
    "steady replacement": case(small_gpu(sms=2), COPY, blocks=None, warmup=77, cycles=500, memory="queue"),
    "phases of warps": case(
        small_gpu(sms=2),
        kernel(LOAD, Loop(body=[ALU, Loop(body=[LOAD, one("load", access=HIT)], trips=(1, 4)), SFU], trips=None)),
        blocks=None,
        warmup=9,
    ),
    "phases of blocks that end": case(
        small_gpu(), kernel(Loop(body=[ALU, Conditional(then=[LOAD], probability=0.3)], trips=9)), blocks=None, seats=4, warmup=9
    ),
    "phases between barriers": case(
        small_gpu(sm={"schedulers": 2}),
        kernel(LOAD, BARRIER, ALU, Conditional(then=[ALU, LOAD], orelse=[SFU], warps=(1, 2)), BARRIER, one("alu", 3)),
        size=4,
        blocks=None,
        warmup=9,
    ),
    "phases in a loop with a barrier": case(
        small_gpu(),
        kernel(
            BARRIER,
            Loop(body=[ALU, Conditional(then=[ALU, LOAD], orelse=[SFU, SFU], probability=0.5), BARRIER, ALU], trips=None),
        ),
        size=3,
        blocks=None,
        warmup=9,
    ),
    "phases after the last barrier": case(
        small_gpu(),
        kernel(LOAD, Conditional(then=[SFU, LOAD], warps=(0, 2)), BARRIER, Loop(body=[ALU, SFU], trips=None)),
        size=3,
        blocks=None,
        warmup=9,
    ),
    "fixed, slow": case(small_gpu(sms=2, memory=SLOW), k.mix(1), blocks=None, seats=4),
    "a window that ends after the grid": case(small_gpu(sms=2), COPY, blocks=5, warmup=30, cycles=5000),
    "a window that ends soon after the grid": case(small_gpu(), COPY, blocks=2, cycles=250),
    "a window that ends within the grid": case(small_gpu(sms=2), COPY, blocks=9, warmup=100, cycles=100, memory="queue"),
    "a grid that ends within the warmup": case(small_gpu(), COPY, blocks=1, warmup=250, cycles=100),
    "requests": case(
        small_gpu(memory=SLOW), kernel(one("load", access=Access(pattern="stride", stride=2)), ALU)
    ),
    "scattered": case(
        small_gpu(), kernel(one("load", access=SCATTERED), one("store", access=SCATTERED), ALU)
    ),
    "scattered, queue": case(
        small_gpu(sms=2, memory=FEW_SERVERS),
        kernel(one("load", access=SCATTERED), ALU, STORE),
        memory="queue",
    ),
    "caches": case(small_gpu(memory=SLOW), kernel(Loop(body=[one("load", access=HIT), STORE], trips=9))),
    "data on its way": case(small_gpu(memory=SLOW), kernel(Loop(body=[one("load", access=LATE), one("alu")], trips=9))),
    "the last load returns first": case(small_gpu(), kernel(LOAD, one("load", 4, access=Access(l1_hit=1.0)))),
    "caches, queue": case(
        small_gpu(memory=FEW_SERVERS),
        kernel(Loop(body=[one("load", access=HIT), STORE], trips=9)),
        memory="queue",
    ),
    "queue": case(small_gpu(sms=2, memory=FEW_SERVERS), k.mix(2), blocks=None, seats=4, memory="queue"),
    "loads of a warp": case(small_gpu(memory={"loads_per_warp": 2}), k.chain("load", 4, iterations=3)),
    "loads of a warp, in a window": case(
        small_gpu(sm={"schedulers": 2}, memory={"loads_per_warp": 1, "bandwidth_gbs": 20.0}, ops={"alu": {"latency_cycles": 24}}),
        kernel(Loop(body=(one("load", 3), ALU, Instruction("load", dst="r4", src=("r1",)), SFU), trips=None)),
        blocks=None,
        warmup=53,
        cycles=120,
        memory="queue",
    ),
    "loads of an SM": case(
        small_gpu(sms=2, sm={"schedulers": 2}, issue={"width": 2}, memory={"loads_per_sm": 3}), COPY, seats=4
    ),
    "stores of an SM": case(
        small_gpu(sms=2, sm={"schedulers": 2}, issue={"width": 2}, memory={"stores_per_sm": 3}), COPY, seats=4
    ),
    "both limits": case(
        small_gpu(memory={"loads_per_warp": 1, "loads_per_sm": 2, "stores_per_sm": 1}, issue={"width": 2}),
        COPY,
        seats=4,
        memory="queue",
    ),
    "measured": case(
        small_gpu(sms=2, memory={"measured": True, "bandwidth_gbs": 150.0}),
        kernel(Loop(body=[LOAD, one("load", 4), one("load", 4, access=HIT), STORE], trips=None)),
        blocks=None,
        seats=4,
        memory="measured",
        cycles=4800,
    ),
    "measured, a slice": case(
        small_gpu(sms=3, memory={"measured": True, "bandwidth_gbs": 150.0}),
        kernel(Loop(body=[LOAD, one("load", 4, access=SCATTERED), STORE], trips=None)),
        blocks=None,
        memory="measured",
        cycles=4700,
        sms=1,
    ),
}
