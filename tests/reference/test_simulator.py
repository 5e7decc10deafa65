"""The reference machine: exact results and identities of docs/model.md, and its rules by hand.

V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, reject, settings

from tests.support.cases import Case, small_gpu
from tests.support.strategies import cases
from warpsim import kernels as k
from warpsim.arguments import DeadlockError
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop
from warpsim.kernels.access import transactions
from warpsim.reference.result import SLOTS, STATES, Result
from warpsim.reference.simulator import simulate
from warpsim.results import schema
from warpsim.simulation.policies import POLICIES

ALU = Instruction("alu", dst="r1", src=["r1"])
LOAD = Instruction("load", dst="r1", src=["r1"])
FREE_LOAD = Instruction("load", dst="r2", src=["r0"])
BARRIER = Instruction("barrier")


def program(*body: Any) -> Kernel:
    return Kernel(name="test", inputs=("r0", "r1", "r2", "r3"), body=body)


def run(
    gpu: Gpu, kernel: Kernel, *, blocks: int | None = 1, size: int = 1, seats: int = 1, **options: Any
) -> Result:
    """Simulates `blocks` blocks of `size` warps, `seats` at a time, without memory contention, to the end."""
    launch = Launch(blocks=blocks, block_warps=size, resident_blocks=seats)
    defaults: dict[str, Any] = {"memory": "fixed", "seed": 1, "cycles": None}
    return simulate(gpu, kernel, launch, **(defaults | options))


def trace(result: Result, slot: int = 0, sm: int = 0) -> list[tuple[int, str]]:
    """Returns (cycle, op) of the instructions that a slot issued, without exits."""
    return [(t, op) for t, m, w, op in result.issues if (m, w) == (sm, slot) and op != "exit"]


def with_memory(gpu: Gpu, **changes: Any) -> Gpu:
    return gpu.model_copy(update={"memory": gpu.memory.model_copy(update=changes)})


def test_names_are_those_of_results() -> None:
    """The reference machine has copies, because it does not depend on them."""
    assert (STATES, SLOTS) == (schema.STATES, schema.SLOTS)


class TestPublished:
    """Section 8."""

    def test_listing_3_1(self) -> None:
        result = run(load_gpu("kepler"), k.listing_3_1())
        assert [t for t, _ in trace(result)] == [0, 301, 325, 334, 343]

    @pytest.mark.parametrize(("kind", "gap"), [("adds", 6), ("stores", 34)])
    def test_listing_3_2(self, kind: str, gap: int) -> None:
        result = run(load_gpu("fermi"), k.listing_3_2(kind))
        assert [t for t, _ in trace(result)] == [0, gap, 2 * gap, 3 * gap, 4 * gap, 5 * gap, 6 * gap]

    def test_listing_3_3(self) -> None:
        fermi = with_memory(load_gpu("fermi"), latency_cycles=512)  # the listing's load: 540 - 28
        result = run(fermi, k.listing_3_3(), size=2)
        assert trace(result) == [(0, "branch"), (28, "load"), (540, "alu"), (546, "barrier"), (580, "alu")]
        assert trace(result, slot=1) == [(0, "branch"), (32, "barrier"), (580, "alu")]

    def test_vector_add(self) -> None:
        kepler = load_gpu("kepler").model_copy(update={"sms": 1})  # the whole memory, so that nothing queues
        result = run(kepler, k.vector_add(), blocks=2)
        first = [(t, op) for t, _, _, op in result.issues if t < 544]
        assert [t for t, _ in first] == [0, 0, 3, 12, 21, 21, 30, 33, 33, 334, 343, 343]
        assert [op for t, op in first if t == 33] == ["load", "alu"]
        assert [op for t, op in first if t == 343] == ["store", "exit"]
        assert result.retired == [(0, 0, 0, 343), (1, 0, 544, 544 + 343)]

    @pytest.mark.parametrize("alpha", [0, 0.5, 1, 4, 32])
    @pytest.mark.parametrize("warps", [1, 2, 4])
    @pytest.mark.parametrize("scheduler", POLICIES)
    def test_throughput_where_warps_never_collide(self, alpha: float, warps: int, scheduler: str) -> None:
        gpu = small_gpu(sm={"schedulers": 4}, ops={"load": {"scope": "scheduler"}})
        adds, loads = Fraction(alpha).as_integer_ratio()
        period = loads * 40 + adds * 6
        result = run(
            gpu,
            k.mix(alpha),
            blocks=None,
            seats=warps,
            scheduler=scheduler,
            warmup=period,
            cycles=3 * period,
        )
        assert result.instructions == {op: 3 * warps * n for op, n in (("load", loads), ("alu", adds)) if n}

    @pytest.mark.parametrize(("interval", "width", "peak"), [(2, 1, "1/2"), ("2/3", 1, 1), ("2/3", 2, "3/2")])
    def test_throughput_bound(self, interval: Any, width: int, peak: Any) -> None:
        gpu = small_gpu(ops={"alu": {"interval_cycles": interval}}, issue={"width": width})
        result = run(gpu, k.chain("alu", ilp=2), blocks=None, seats=16, warmup=60, cycles=600)
        assert Fraction(result.instructions["alu"], 600) == Fraction(peak)

    @pytest.mark.parametrize(
        ("scheduler", "warps", "adds_per_cycle"),
        [
            ("oldest", 5, 0.416),
            ("gto", 5, 0.416),
            ("lrr", 5, 0.33),
            ("oldest", 6, 0.49),
            ("gto", 6, 0.49),
            ("lrr", 6, 0.36),
        ],
    )
    def test_convoys_of_figure_4_7(self, scheduler: str, warps: int, adds_per_cycle: float) -> None:
        """V Figure 4.7, with doubled times: with lrr, all warps compute at the same time and wait at the same time."""
        gpu = small_gpu(
            ops={"alu": {"interval_cycles": 2}, "load": {"scope": "scheduler"}}, memory={"latency_cycles": 24}
        )
        result = run(gpu, k.mix(4), blocks=None, seats=warps, scheduler=scheduler, cycles=480 + 2400)  # all warps start together
        adds = sum(1 for cycle, *_, op in result.issues if op == "alu" and cycle >= 480)
        assert adds / 2400 == pytest.approx(adds_per_cycle, abs=0.005)


class TestIssue:
    """Sections 2 and 3."""

    def test_fractional_interval_takes_two_and_one_in_turns(self) -> None:
        gpu = small_gpu(ops={"alu": {"interval_cycles": "2/3"}}, issue={"width": 2})
        result = run(gpu, k.chain("alu", ilp=8), blocks=None, seats=8, cycles=8)
        issued = [sum(t == cycle for t, *_ in result.issues) for cycle in range(8)]
        assert issued == [2, 1, 2, 1, 2, 1, 2, 1]

    @pytest.mark.parametrize(
        ("body", "cycles"),
        [
            ([ALU, FREE_LOAD], [0, 0]),
            ([FREE_LOAD, FREE_LOAD.model_copy(update={"dst": "r3"})], [0, 1]),  # not two loads
            ([FREE_LOAD, ALU, ALU], [0, 0, 6]),  # not three instructions
            ([ALU, ALU], [0, 6]),  # dependent
            ([ALU, Instruction("alu", dst="r1", src=["r0"])], [0, 6]),  # one destination
            ([BARRIER, FREE_LOAD], [0, 4]),  # not after a barrier
            ([Instruction("branch"), FREE_LOAD], [0, 2]),  # nor after a branch
            ([FREE_LOAD, BARRIER, ALU], [0, 0, 4]),
            ([ALU, Instruction("alu", dst="r2", src=["r0"])], [0, 1]),  # the unit takes one
        ],
    )
    def test_dual_issue(self, body: list[Instruction], cycles: list[int]) -> None:
        result = run(small_gpu(issue={"width": 2}), program(*body))
        assert [t for t, _ in trace(result)] == cycles

    def test_pair_has_the_larger_gap_and_the_larger_issue_slots(self) -> None:
        gpu = small_gpu(
            issue={"width": 2, "interval_cycles": 2},
            ops={"alu": {"gap_cycles": 5}, "sfu": {"issue_slots": 4, "gap_cycles": 3}},
        )
        sfu = Instruction("sfu", dst="r2", src=["r0"])
        result = run(gpu, program(ALU, sfu, FREE_LOAD.model_copy(update={"dst": "r3"})), seats=2, blocks=2)
        assert trace(result, 0) == [(0, "alu"), (0, "sfu"), (16, "load")]
        assert trace(result, 1) == [(8, "alu"), (8, "sfu"), (18, "load")]

    def test_bank_conflict_occupies_the_unit_delays_the_result_and_reissues(self) -> None:
        gpu = small_gpu(issue={"interval_cycles": 3}, ops={"smem": {"latency_to": {"alu": 20}}})
        smem = Instruction("smem", dst="r1", src=["r1"], ways=4)
        result = run(gpu, program(smem, ALU, ALU), blocks=2, seats=2)
        assert trace(result, 0) == [(0, "smem"), (20 + 3 * 2, "alu"), (32, "alu")]
        assert trace(result, 1)[0] == (3 * 4, "smem")

    def test_latency_to_depends_on_the_consumer(self) -> None:
        gpu = small_gpu(ops={"sfu": {"latency_cycles": 9, "latency_to": {"sfu": 13}}})
        sfu = Instruction("sfu", dst="r1", src=["r1"])
        assert [t for t, _ in trace(run(gpu, program(sfu, sfu, ALU)))] == [0, 13, 22]

    def test_branch_gap_depends_on_the_side(self) -> None:
        for warps, second in (((0,), 2), ((1,), 3)):
            body = Conditional(then=[ALU], orelse=[ALU], warps=warps)
            assert trace(run(small_gpu(), program(body)))[1] == (second, "alu")

    def test_diverging_warp_executes_both_sides_and_its_branch_is_not_taken(self) -> None:
        body = Conditional(then=[ALU], orelse=[Instruction("sfu", dst="r2")], diverges=True)
        assert trace(run(small_gpu(), program(body))) == [(0, "branch"), (2, "alu"), (3, "sfu")]

    @pytest.mark.parametrize(
        ("scheduler", "slots"),
        [
            ("lrr", [0, 1, 2, 0, 1, 2]),
            ("gto", [0, 0, 1, 1, 2, 2]),
            ("oldest", [0, 0, 1, 1, 2, 2]),
            ("grr", [0, 0, 1, 1, 2, 2]),
        ],
    )
    def test_policies(self, scheduler: str, slots: list[int]) -> None:
        two = program(ALU, Instruction("alu", dst="r2", src=["r0"]))
        result = run(small_gpu(), two, blocks=3, seats=3, scheduler=scheduler)
        assert [w for _, _, w, op in result.issues if op == "alu"] == slots

    @pytest.mark.parametrize(
        ("scheduler", "slots"),
        [("gto", [0, 0, 0, 0, 1, 1, 1, 1]), ("oldest", [0, 0, 0, 0, 1, 0, 0, 1])],
    )
    def test_greed_is_lost_at_a_stall(self, scheduler: str, slots: list[int]) -> None:
        """Warp 0 stalls in cycle 4. In cycle 5 both can issue, and warp 1 issued last."""
        gpu = small_gpu(ops={"alu": {"gap_cycles": 2}, "sfu": {"interval_cycles": 1}})
        sfu = Instruction("sfu", src=["r0"])
        result = run(gpu, program(sfu, sfu, sfu, ALU, sfu), blocks=2, seats=2, scheduler=scheduler)
        assert [w for _, _, w, _ in result.issues][:8] == slots

    @pytest.mark.parametrize(("scheduler", "slots"), [("gto", [0, 1, 0, 1, 2, 2]), ("grr", [0, 1, 2, 0, 1, 2])])
    def test_after_a_stall_the_next_slot_or_the_oldest(self, scheduler: str, slots: list[int]) -> None:
        """Each instruction stalls its warp for a cycle; in cycle 2 warps 0 and 2 can issue."""
        gpu = small_gpu(ops={"alu": {"gap_cycles": 2}})
        two = program(ALU, Instruction("alu", dst="r2", src=["r0"]))
        result = run(gpu, two, blocks=3, seats=3, scheduler=scheduler)
        assert [w for _, _, w, op in result.issues if op == "alu"] == slots

    def test_greed_is_for_a_warp_and_not_for_its_slot(self) -> None:
        """Warp 0 exits at 1, and warp 2 takes its slot at 2. It is the youngest, although its slot issued last."""
        sfu = Instruction("sfu", src=["r0"])
        gpu = small_gpu(block_launch_cycles=0, ops={"sfu": {"interval_cycles": 1}})
        result = run(gpu, program(sfu), blocks=3, seats=2, scheduler="gto")
        assert [(t, w) for t, _, w, _ in result.issues] == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 0), (5, 0)]

    def test_schedulers_take_turns_at_a_unit_of_the_sm(self) -> None:
        gpu = small_gpu(sm={"schedulers": 2}, ops={"smem": {"latency_cycles": 1}})
        smem = k.chain("smem", iterations=6)
        result = run(gpu, smem, blocks=2, seats=2)
        first = [w for t, _, w, op in result.issues if op == "smem"]
        assert first[:6] == [0, 1, 0, 1, 0, 1]


class TestBlocks:
    """Section 4."""

    def test_blocks_are_dealt_in_turn_seat_by_seat(self) -> None:
        result = run(small_gpu(sms=3), program(ALU), blocks=5, size=2, seats=2)
        assert [(number, sm) for number, sm, _, _ in result.retired] == [
            (0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 0), (7, 0), (8, 1), (9, 1),
        ]  # fmt: skip
        assert {slot for _, sm, slot, _ in result.issues if sm == 0} == {0, 1, 2, 3}

    @pytest.mark.parametrize(("block_launch", "start"), [(0, 41), (1, 41), (201, 241)])
    def test_next_block_starts_after_the_last_return(self, block_launch: int, start: int) -> None:
        result = run(small_gpu(block_launch_cycles=block_launch), program(LOAD), blocks=2)
        assert result.retired == [(0, 0, 0, 40), (1, 0, start, start + 40)]
        assert result.end == start + 41

    def test_supply_is_handed_out_in_the_order_of_the_seats(self) -> None:
        gpu = small_gpu(sms=2, block_launch_cycles=3)
        result = run(gpu, program(ALU), blocks=8, seats=2)
        starts = {number: (start, sm) for number, sm, start, _ in result.retired}
        assert [starts[number] for number in range(4, 8)] == [(5, 0), (5, 1), (6, 0), (6, 1)]

    def test_persistent_blocks_are_not_replaced(self) -> None:
        launch = Launch(block_warps=2, resident_blocks=2, persistent=True)
        result = simulate(small_gpu(sms=2), program(ALU), launch, memory="fixed", seed=1, cycles=None)
        assert [row[0] for row in result.retired] == list(range(8))

    def test_exit_can_be_the_last_arrival(self) -> None:
        leave = Conditional(then=[ALU, ALU, ALU, Instruction("exit")], warps=[1])
        result = run(small_gpu(), program(leave, BARRIER, ALU), size=2)
        last = next(t for t, _, slot, op in result.issues if (slot, op) == (1, "exit"))
        assert trace(result)[-2:] == [(3, "barrier"), (last + 4, "alu")]
        assert result.warp_cycles["barrier"] == (last - 3) + 3  # for the others, and the barrier's latency

    def test_barrier_waits_for_its_own_gaps_and_registers(self) -> None:
        result = run(small_gpu(), program(LOAD, BARRIER, ALU, BARRIER, ALU), size=2)
        assert [t for t, _ in trace(result)] == [0, 2, 40, 42, 46 + 1]
        assert [t for t, _ in trace(result, 1)] == [1, 3, 41, 43, 46 + 2]

    def test_deadlock_names_barriers_and_warps(self) -> None:
        body = Conditional(then=[BARRIER, ALU], orelse=[BARRIER], warps=[1])
        with pytest.raises(
            DeadlockError, match=r"warp 0 at body\[0\].orelse\[0\], warp 1 at body\[0\].then\[0\]"
        ):
            run(small_gpu(), program(body), size=2)
        assert issubclass(DeadlockError, ValueError)

    def test_barriers_of_different_blocks_are_apart(self) -> None:
        body = Conditional(then=[BARRIER, ALU], orelse=[BARRIER], warps=[1])
        result = run(small_gpu(), program(body), size=1, blocks=2, seats=2)
        assert [len(trace(result, slot)) for slot in (0, 1)] == [2, 2], "a branch and a barrier of each"


class TestMemory:
    """Section 5."""

    def test_loads_per_warp(self) -> None:
        loads = [Instruction("load", dst=f"r{i}", src=["r9"]) for i in range(4)]
        kernel = Kernel(name="test", inputs=("r9",), body=tuple(loads))
        result = run(small_gpu(memory={"loads_per_warp": 2}), kernel)
        assert [t for t, _ in trace(result)] == [0, 1, 40, 41]
        assert result.warp_cycles["lg_throttle"] == 38

    def test_loads_per_sm(self) -> None:
        gpu = small_gpu(
            sm={"schedulers": 2}, memory={"loads_per_sm": 1}, ops={"load": {"scope": "scheduler"}}
        )
        result = run(gpu, program(LOAD), blocks=2, seats=2)
        assert (trace(result, 0), trace(result, 1)) == ([(0, "load")], [(40, "load")])
        assert result.warp_cycles["lg_throttle"] == 40

    def test_stores_per_sm(self) -> None:
        gpu = small_gpu(sm={"schedulers": 2}, memory={"stores_per_sm": 1}, ops={"store": {"scope": "scheduler"}})
        result = run(gpu, program(Instruction("store", src=["r1"])), blocks=2, seats=2)
        assert (trace(result, 0), trace(result, 1)) == ([(0, "store")], [(40, "store")])
        assert result.warp_cycles["lg_throttle"] == 40

    def test_one_server_at_the_sustained_rate(self) -> None:
        gpu = small_gpu(sms=2, memory={"bandwidth_gbs": 16.0})  # 8 cycles for 128 bytes
        result = run(gpu, program(LOAD), blocks=4, seats=2)
        assert result.load_latencies == [40, 40 + 8, 40 + 15, 40 + 23]
        alone = run(gpu, program(LOAD), blocks=1, seats=1, sms=1)
        assert alone.load_latencies == [40]
        half = run(gpu, program(LOAD), blocks=2, seats=2, sms=1)
        assert half.load_latencies == [40, 40 + 15]  # a slice has the whole bus, on which the first load and its echo are before

    def test_extra_transactions_delay_and_overlap_with_waiting(self) -> None:
        strided = Instruction("load", dst="r1", src=["r1"], access=Access(pattern="stride", stride=2))
        facts = transactions(strided.access, small_gpu())
        assert (facts.requests, facts.extra) == (2, 4)
        assert run(small_gpu(), program(strided)).load_latencies == [40 + 4 * 2.5]
        slow = small_gpu(memory={"bandwidth_gbs": facts.bytes_per_request / 30})
        assert run(slow, program(strided)).load_latencies == [40 + 30]


class TestRandomStreams:
    """Section 6."""

    def test_policies_have_common_random_numbers(self) -> None:
        body = Loop(body=[Conditional(then=[ALU, LOAD], probability=0.3), ALU], trips=(1, 6))
        totals = {
            policy: run(small_gpu(), program(body), blocks=20, seats=4, scheduler=policy).instructions
            for policy in POLICIES
        }
        assert all(total == totals["lrr"] for total in totals.values())
        assert run(small_gpu(), program(body), blocks=20, seed=2).instructions != totals["lrr"]

    def test_random_trips_are_uniform(self) -> None:
        """600 warps, 2 to 4 trips: each within 5 standard deviations of 200; fails by chance once in 6e5 seeds."""
        alone = run(small_gpu(), program(Loop(body=[ALU], trips=(2, 4))), blocks=600)
        trips = [end - start for _, _, start, end in alone.retired]
        counts = {trip: trips.count(trip) for trip in sorted(set(trips))}
        assert list(counts) == [7, 13, 19]
        assert all(abs(count - 200) < 5 * (600 * 2 / 9) ** 0.5 for count in counts.values())


class TestAccounting:
    """Section 7."""

    def test_a_stall_has_the_state_of_the_constraint_that_ends_last(self) -> None:
        gpu = small_gpu(ops={"alu": {"gap_cycles": 3}, "sfu": {"latency_cycles": 9}})
        body = program(Instruction("sfu", dst="r1"), ALU, LOAD, BARRIER, ALU)
        result = run(gpu, body)
        # sfu 0, alu 9, load 15, barrier 16, alu 55, exit 58.
        assert [t for t, *_ in result.issues] == [0, 9, 15, 16, 55, 58]
        counted = {state: n for state, n in result.warp_cycles.items() if n}
        assert counted == {"selected": 6, "short_scoreboard": 8, "wait": 5 + 2, "long_scoreboard": 38}

    def test_the_first_of_equal_constraints_gives_the_state(self) -> None:
        gpu = small_gpu(ops={"alu": {"gap_cycles": 6}, "sfu": {"gap_cycles": 6}})
        assert run(gpu, program(Instruction("sfu", dst="r1"), ALU)).warp_cycles["wait"] == 5 + 5
        gpu = small_gpu(ops={"sfu": {"latency_cycles": 7}})
        both = Instruction("alu", dst="r3", src=["r1", "r2"])
        # sfu at 0 with latency 7 and alu at 1 with latency 6 end together: the first source gives the state.
        body = [Instruction("sfu", dst="r1"), Instruction("alu", dst="r2")]
        late = run(gpu, program(*body, both)).warp_cycles
        early = run(gpu, program(*body, both.model_copy(update={"src": ("r2", "r1")}))).warp_cycles
        assert (late["short_scoreboard"], late["wait"]) == (5, 0)
        assert (early["short_scoreboard"], early["wait"]) == (0, 5)

    def test_throttles_and_not_selected(self) -> None:
        sfu = program(Instruction("sfu", dst="r1"))
        result = run(small_gpu(), sfu, blocks=2, seats=2)  # sfu at 0 and 4, exits at 1 and 5
        counted = {state: n for state, n in result.warp_cycles.items() if n}
        assert counted == {"selected": 4, "not_selected": 1 + 0, "mio_throttle": 3}
        assert [t for t, *_ in result.issues] == [0, 1, 4, 5]

    def test_scheduler_slots(self) -> None:
        gpu = small_gpu(issue={"interval_cycles": 2}, ops={"sfu": {"issue_slots": 3}})
        result = run(gpu, program(Instruction("sfu", dst="r1"), ALU))
        assert [t for t, *_ in result.issues] == [0, 6, 8]
        assert result.scheduler_cycles == {"issued": 3, "busy": 6, "idle": 0}

    def test_window(self) -> None:
        whole = run(small_gpu(), k.mix(4), blocks=None, seats=3, warmup=1, cycles=299)
        edges = (1, 100, 200, 300)
        parts = [
            run(small_gpu(), k.mix(4), blocks=None, seats=3, warmup=begin, cycles=end - begin)
            for begin, end in itertools.pairwise(edges)
        ]
        assert parts[2].issues == whole.issues
        for state, count in whole.warp_cycles.items():
            assert sum(part.warp_cycles[state] for part in parts) == count
        assert [latency for part in parts for latency in part.load_latencies] == whole.load_latencies
        assert [part.end for part in parts] == [100, 200, 300]

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(cases(barriers="even"))
    def test_identities(self, case: Case) -> None:
        try:
            result = simulate(case.gpu, case.kernel, case.launch, **case.options, max_cycles=6000)
        except RuntimeError:  # too long for this test
            reject()
        except ValueError as error:  # the grid ends before counting starts
            assert "warmup" in str(error)
            reject()
        cycles = result.end - case.options["warmup"]
        sms = case.options["sms"] or case.gpu.sms
        occupied = sum(warps * n for warps, n in result.occupancy_cycles.items())
        assert sum(result.warp_cycles.values()) == occupied
        assert sum(result.scheduler_cycles.values()) == case.gpu.sm.schedulers * sms * cycles
        assert sum(result.occupancy_cycles.values()) == sms * cycles
        if case.options["cycles"] is None:
            assert sum(end - start + 1 for _, _, start, end in result.retired) == occupied  # Little
            assert sum(result.instructions.values()) == len(result.issues)
