"""Encoding of a chip, a kernel and a launch for the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import warpsim as ws
from tests.support.cases import small_gpu
from tests.support.strategies import examples
from warpsim import kernels
from warpsim.arguments import InvalidPoint
from warpsim.engine.constants import (
    BINS,
    LIMITED,
    LONGEST_WINDOW,
    RANK_BITS,
    REASON_BITS,
    STATES,
    UNITS,
    Kind,
    MemoryModel,
    Policy,
    WarpState,
)
from warpsim.engine.machine import CHIP, Machine
from warpsim.engine.units import cycle_of
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.hardware.whatif import changed_gpu
from warpsim.kernels import Conditional, Cost, Instruction, Kernel, Loop
from warpsim.results import schema
from warpsim.simulation import encode as encoding
from warpsim.simulation import point
from warpsim.simulation.encode import encode, factor_of, with_seed
from warpsim.simulation.limits import MAX_CYCLES, MAX_TICKS
from warpsim.simulation.lookahead import set_windows
from warpsim.simulation.policies import POLICIES

KEPLER = load_gpu("kepler")
LAUNCH = Launch(blocks=7, block_warps=2, resident_blocks=3)


def encoded(**changes: Any) -> Machine:
    call: dict[str, Any] = {"gpu": KEPLER, "kernel": kernels.listing_3_1(), "launch": LAUNCH}
    return encode(**(call | {"scheduler": "lrr", "memory": "fixed"} | changes))


def test_names_are_those_of_points_and_results() -> None:
    assert set(encoding._POLICIES) == set(POLICIES)
    assert set(encoding._MEMORY_MODELS) == set(point.MEMORY_MODELS)
    assert tuple(state.name.lower() for state in WarpState) == schema.STATES
    assert len(schema.STATES) == STATES


def test_the_states_that_name_a_wait_fit_into_its_word() -> None:
    of_pipes = {state for _, *waits in encoding._STATES_OF_PIPES.values() for state in waits}
    others = {WarpState.BARRIER, WarpState.LG_THROTTLE, WarpState.DRAIN}
    assert max(of_pipes | others) < 1 << REASON_BITS


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("memory", point.MEMORY_MODELS)
def test_policies_and_memory_models(policy: str, memory: str) -> None:
    chip = encoded(scheduler=policy, memory=memory).chip[0]
    assert Policy(chip.policy).name.lower() == policy
    assert MemoryModel(chip.memory).name.lower() == memory


def test_the_program() -> None:
    """V Listing 3.1 on Kepler: a chain of instructions that issue at 0, 301, 325, 334 and 343."""
    program = encoded().program
    assert program.kind.tolist() == [Kind.LOAD, *[Kind.COMPUTE] * 3, Kind.STORE, Kind.EXIT]
    assert [list(KEPLER.ops)[op] for op in program.op] == ["load", "smem", "alu", "sfu", "store", "exit"]
    assert program.delay.tolist() == [0, 24, 9, 9, 0, 0]
    assert program.reason[1:4].tolist() == [WarpState.SHORT_SCOREBOARD, WarpState.WAIT, WarpState.SHORT_SCOREBOARD]


def test_machines_of_different_launches_have_different_chips_alone() -> None:
    kernel = kernels.listing_3_1()
    one = encoded(kernel=kernel, scheduler="gto")
    other = encoded(kernel=kernel, launch=Launch(block_warps=3, resident_blocks=5, persistent=True))
    assert one.program is other.program and one.chip is not other.chip
    assert [(int(chip.blocks), int(chip.seats), int(chip.seat_of[7])) for chip in (one.chip[0], other.chip[0])] == [
        (7, 3, 3),
        (5 * KEPLER.sms, 5, 2),
    ]
    assert (Policy(one.chip[0].policy), Policy(other.chip[0].policy)) == (Policy.GTO, Policy.LRR)
    assert encoded(kernel=kernel, scheduler="gto").chip.tobytes() == one.chip.tobytes()


def test_what_follows_an_endless_loop_is_known() -> None:
    """The last add of each iteration is plain, and waits for itself alone; the load is awaited by the first add."""
    program = encoded(kernel=kernels.mix(alpha=3), launch=Launch(block_warps=2, resident_blocks=3)).program
    begin, load, add, _, last, end = range(6)
    assert program.kind[[begin, load, end]].tolist() == [Kind.LOOP_BEGIN, Kind.LOAD, Kind.LOOP_END]
    assert program.following.tolist()[:5] == [load, add, add + 1, last, load]
    assert program.plain.tolist()[:6] == [0, 0, 1, 1, 1, 0]
    assert program.delay[last] == KEPLER.ops["alu"].latency_cycles
    assert program.awaited.tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert program.own_delay[last] == program.next_delay[last - 1] == program.delay[last] << RANK_BITS
    assert not program.may_pair[[load, add, last]].any()


def test_what_follows_other_loops_is_not_known() -> None:
    add = Instruction("alu", dst="r1", src=("r1",))
    loop = Kernel(name="loop", inputs=("r1",), body=(Loop(body=(add, add), trips=2), Instruction("store", src=("r1",))))
    program = encoded(kernel=loop).program
    assert program.kind.tolist() == [Kind.LOOP_BEGIN, Kind.COMPUTE, Kind.COMPUTE, Kind.LOOP_END, Kind.STORE, Kind.EXIT]
    assert program.following.tolist()[1:3] == [2, -1]
    assert program.delay.tolist()[1:3] == [KEPLER.ops["alu"].latency_cycles, 0]
    assert program.may_pair.tolist()[1:] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (1, [1 + 9 + 1 + 13, 9 + 1 + 13, 1 + 13, 3 + 10, 61, 31, 1, 9 + 1, 1, 0, 9 + 1, 9 + 1, 1, 0, 0]),
        (2, [0 + 9 + 0 + 2, 9 + 0 + 2, 0 + 2, 2 + 0, 0, 0, 0, 9, 0, 0, 9, 9, 0, 0, 0]),
    ],
)
def test_the_fewest_cycles_to_a_barrier(width: int, expected: list[int]) -> None:
    """Gaps and known waits add up along the shortest way; with a width of 2, two that may issue together count as one."""
    add, slow = Instruction("alu", dst="r1", src=("r1",)), Instruction("alu", cost=Cost(gap_cycles=30))
    choice = Conditional(probability=0.5, then=(slow, slow), orelse=(add,))
    body = (Instruction("load", dst="r2"), add, add, choice, add, Instruction("barrier"), Loop(body=(add, add), trips=3))
    ops = {"alu": {"latency_cycles": 9}, "branch": {"gap_cycles": 2, "taken_gap_cycles": 3}}
    gpu, kernel = small_gpu(issue={"width": width}, ops=ops), Kernel(name="ways", inputs=("r1",), body=body)
    machine = encoded(gpu=gpu, kernel=kernel, launch=Launch(block_warps=2, resident_blocks=1))
    assert np.flatnonzero(machine.program.kind == Kind.BRANCH).tolist() == [3]
    assert np.flatnonzero(machine.program.kind == Kind.BARRIER).tolist() == [9]
    assert machine.details.to_barrier.tolist() == expected


def test_the_launch() -> None:
    chip = encoded().chip[0]
    assert (chip.blocks, chip.seats, chip.block_warps, chip.sms) == (7, 3, 2, KEPLER.sms)
    assert encoded(launch=LAUNCH.model_copy(update={"blocks": None})).chip[0].blocks < 0
    persistent = Launch(block_warps=2, resident_blocks=3, persistent=True)
    assert encoded(launch=persistent, sms=2).chip[0].blocks == 6


def test_a_slice_keeps_the_whole_memory_system() -> None:
    whole, slice_of_two = (encoded(memory="queue", sms=sms) for sms in (None, 2))
    for field in ("crossbar_servers", "dram_servers"):
        assert slice_of_two.chip[0][field] == whole.chip[0][field]
    for field in ("slice_cycles", "dram_cycles", "bus_cycles"):
        assert (slice_of_two.details[field] == whole.details[field]).all()
        assert whole.details[field].any()


def test_tables_of_quantiles() -> None:
    assert encoded(memory="fixed").quantiles.size == 0
    queue = encoded(memory="queue").quantiles
    assert queue.shape == (1, BINS + 1)
    assert (queue[0, :-1] + queue[0, 1:]).mean() / 2 == pytest.approx(KEPLER.memory.queue_latency_cycles)
    measured = encoded(memory="measured")
    assert measured.quantiles.shape == (len(measured.loads), BINS + 1)
    assert np.all(np.diff(measured.loads) > 0)


def test_a_table_of_the_same_name_with_other_numbers_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has been edited, and one of the same name in another folder."""
    words = [f"load_gbs,0,0.05,0.5,0.95,1\n10,100,200,{middle},400,500\n" for middle in (210, 300, 390)]
    gpu = changed_gpu(KEPLER, {})
    for number, text in enumerate(words):
        folder = tmp_path / ("here" if number < 2 else "there")
        folder.mkdir(exist_ok=True)
        (folder / "table.csv").write_text(text + "# edited\n" * number)
        monkeypatch.chdir(folder)
        memory = gpu.memory.model_copy(update={"distribution": "table.csv"})
        quantiles = encoded(gpu=gpu.model_copy(update={"memory": memory}), memory="queue").quantiles[0]
        middle = (210, 300, 390)[number]
        spread = (quantiles[BINS // 2] - quantiles[BINS // 20]) / (quantiles[-1] - quantiles[0])
        assert spread == pytest.approx((middle - 200) / 400, rel=0.01)


def test_the_window_is_at_most_the_smallest_latency() -> None:
    for latency in (1, 40, 100, 1000):
        gpu = small_gpu(memory={"latency_cycles": latency}, block_launch_cycles=1000)
        window = encode(gpu, kernels.chain("load"), LAUNCH, scheduler="lrr", memory="fixed").chip[0].window
        assert window == min(latency, LONGEST_WINDOW)


def test_a_store_that_drains_returns_before_the_window_ends() -> None:
    gpu = small_gpu(sms=4, memory={"latency_cycles": 300, "store_drain_cycles": 25}, block_launch_cycles=200)
    add = kernels.load_kernel("vector_add")
    whole, piece = (encode(gpu, add, LAUNCH, scheduler="lrr", memory="fixed", sms=sms).chip[0] for sms in (4, 2))
    assert (whole.window, whole.store_latency, whole.stores_counted) == (200, 25, 0)
    assert (piece.window, piece.store_latency, piece.stores_counted) == (200, 25 - 1, 0)


def test_an_sm_issues_as_many_stores_as_its_units_serve_and_their_queues_hold() -> None:
    machine = encode(load_gpu("a100"), kernels.load_kernel("vector_add"), LAUNCH, scheduler="lrr", memory="queue")
    chip, stores = machine.chip[0], np.flatnonzero(machine.classes["access"] == Kind.STORE)
    assert (chip.store_burst, chip.store_rate) == (1 + 4 * 5, 1)
    machine.classes["own_unit"][stores] = -1
    set_windows(machine)
    assert (chip.store_burst, chip.store_rate) == (4 + 4 * 5, 4)


def test_stores_that_may_hit_l2_do_not_wait_for_the_bus() -> None:
    for hit, waits in ((0.0, 1), (0.5, 0)):
        store = kernels.Instruction("store", access=kernels.Access(l2_hit=hit))
        program = kernels.Kernel(name="store", body=(store,))
        gpu = small_gpu(memory={"store_drain_cycles": 25})
        assert encode(gpu, program, LAUNCH, scheduler="lrr", memory="queue").chip[0].stores_pass_bus == waits


def test_registers_are_kept_where_a_step_without_hints_waits_for_them() -> None:
    hints = {"write": 0}
    body = [
        Instruction("load", dst="r0", hints=hints),
        Instruction("load", dst="r1", hints=hints),
        Instruction("alu", dst="r2", src=("r1", "r9")),
        Instruction("alu", dst="r3", src=("r0", "r2"), hints={"waits": [0]}),
    ]
    machine = encode(small_gpu(), Kernel(name="some", body=body, inputs=["r9"]), LAUNCH, scheduler="lrr", memory="fixed")
    assert machine.chip[0].registers == 1
    assert machine.program.dst[:4].tolist() == [-1, 0, -1, -1]
    assert machine.operands[machine.program.operands[2] : machine.program.operands_end[2]].tolist() == [0]
    assert machine.program.operands[3] == machine.program.operands_end[3]


def test_plain_steps_are_limited_where_the_unit_of_the_scheduler_can_refuse() -> None:
    half, of_sm = ({"alu": {"scope": scope, "interval_cycles": 2}} for scope in ("scheduler", "sm"))
    for ops, plain, limited in (({}, 1, 0), (half, 1, 1), (of_sm, 0, 0)):
        machine = encode(small_gpu(ops=ops), kernels.chain("alu"), LAUNCH, scheduler="lrr", memory="fixed")
        alu = machine.program[machine.program.kind == Kind.COMPUTE][0]
        assert (alu.plain, machine.hints is not None) == (plain | limited * LIMITED, limited == 1), ops


@examples(300)
@given(st.integers(1, MAX_TICKS), st.integers(0, 2 * MAX_CYCLES), st.integers(0, MAX_TICKS - 1))
@example(3, 2 * MAX_CYCLES, 2)
@example(MAX_TICKS, 2 * MAX_CYCLES, MAX_TICKS - 1)
@example(2**19, 2**40, 2**19 - 1)
@example(2**19 + 1, 2**40, 2**19)
def test_a_time_in_ticks_is_divided_without_a_division(tick: int, cycle: int, rest: int) -> None:
    chip = np.zeros(1, CHIP)[0]
    chip["tick"], chip["tick_factor"], chip["tick_shift"] = tick, *factor_of(tick)
    for ticks in (cycle * tick, cycle * tick + min(rest, tick - 1), cycle * tick + tick - 1):
        assert cycle_of(np.int64(ticks), chip) == cycle


def test_ticks_make_every_interval_whole() -> None:
    gpu = small_gpu(ops={"alu": {"interval_cycles": "2/3"}, "sfu": {"interval_cycles": "7/4"}})
    machine = encode(gpu, kernels.chain("alu"), LAUNCH, scheduler="lrr", memory="fixed")
    assert machine.chip[0].tick == 12
    program = machine.program[machine.program.kind == Kind.COMPUTE]
    assert program.unit_ticks.tolist() == [8] * len(program)


def test_seeds_leave_the_machine_as_it_is() -> None:
    machine = encoded()
    seeded = with_seed(machine, 2**64 - 1)
    assert (machine.chip[0].seed, seeded.chip[0].seed) == (0, 2**64 - 1)
    assert seeded.program is machine.program


def test_classes_are_as_many_as_the_chip_lists_but_units_are_limited() -> None:
    data = KEPLER.to_dict()
    shared = {**data["ops"]["alu"], "unit": "alus"}
    del shared["scope"]
    classes = data["ops"] | {f"op{i}": shared for i in range(200)}
    many = KEPLER.from_dict(data | {"units": {"alus": {"scope": "scheduler"}}, "ops": classes})
    kernel = Kernel(name="many", body=[Instruction(op, dst="r1") for op in list(many.ops)[-150:]])
    program = encoded(gpu=many, kernel=kernel).program
    assert [list(many.ops)[op] for op in program.op[:-1]] == list(many.ops)[-150:]
    units = KEPLER.from_dict(data | {"ops": data["ops"] | {f"op{i}": data["ops"]["alu"] for i in range(UNITS)}})
    with pytest.raises(ValueError, match=rf"gpu\.ops = {len(units.ops)} units: must be at most {UNITS}"):
        encoded(gpu=units)


def test_costs_of_an_instruction_replace_those_of_its_class() -> None:
    own = Cost(interval_cycles="5/2", latency_cycles=7, gap_cycles=3, issue_slots=4)
    access = Cost(requests=5, bytes_per_request=40.5, requested_bytes=99)
    body = [Instruction("smem", dst="r1", ways=3, cost=own), Instruction("load", dst="r2", cost=access)]
    machine = encoded(kernel=Kernel(name="own", body=body))
    first = machine.program[0]
    assert (first.unit_ticks / machine.chip[0].tick, first.latency, first.gap, first.busy) == (2.5, 7, 3, 4)
    second = machine.details[1]
    assert (second.requests, second.extra, second.request_bytes, second.asked_bytes) == (5, 0, 40.5, 99)


def test_a_tick_divides_the_intervals_of_conditionals() -> None:
    branch = Conditional(then=[Instruction("alu")], probability=0.5, cost=Cost(interval_cycles="5/2"))
    machine = encoded(kernel=Kernel(name="branch", body=[branch]))
    (place,) = np.flatnonzero(machine.program.kind == Kind.BRANCH)
    assert machine.program.unit_ticks[place] / machine.chip[0].tick == 2.5


def test_a_tick_divides_the_passes_by_which_an_interval_is_multiplied() -> None:
    passes = Instruction("smem", dst="r1", cost=Cost(passes="5/4"))
    machine = encoded(kernel=Kernel(name="passes", body=[passes]))
    assert machine.program.unit_ticks[0] / machine.chip[0].tick == 1.25 * float(KEPLER.ops["smem"].interval_cycles)


def test_intervals_without_a_small_common_denominator() -> None:
    primes = dict(zip(("alu", "sfu", "smem"), ("1/997", "1/991", "1/983"), strict=True))
    gpu = changed_gpu(KEPLER, {f"{op}.interval_cycles": interval for op, interval in primes.items()})
    with pytest.raises(ValueError, match=r"interval_cycles: those of kepler \(gpu\.ops\.\w+ 1/9.* need .* ticks"):
        encoded(gpu=gpu)


def test_a_very_long_way_to_the_endless_loop_is_refused():
    """Each warp would pass it before the run."""
    one = Instruction("alu")
    long = Loop(body=(Loop(body=(one,), trips=10**12),), trips=10**12)
    kernel = Kernel(name="long", body=(long, Loop(body=(one,), trips=None)))
    with pytest.raises(InvalidPoint, match=r"'long': a warp alone takes .* cycles to its endless loop, which .* give warmup = 0"):
        ws.simulate("kepler", kernel, warps=1, sms=1, warmup=5, cycles=10)
