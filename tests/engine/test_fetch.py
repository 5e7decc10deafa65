"""Instruction fetch, in both machines: the timelines of Huerta et al. 2025, Figure 4, and what follows from docs/model.md."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

import warpsim as ws
from tests.engine.directed_cases import case, kernel, one
from tests.engine.test_against_reference import assert_same
from tests.support.cases import Case, small_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Cost, Instruction, Kernel, Loop
from warpsim.reference import simulator
from warpsim.reference.result import Result

FETCH = {"lines": 32, "line_instructions": 16, "miss_cycles": 16}
"""The figure shows that a line has 16 instructions, and that one is there within 16 cycles."""


def run(*body: Any, warps: int = 4, fetch: dict[str, int] | None = None, policy: str = "gty") -> Result:
    gpu = small_gpu(core={} if fetch is None else {"fetch": fetch})
    launch = Launch(blocks=1, block_warps=warps, resident_blocks=1)
    kernel = Kernel(name="directed", body=body)
    options = {"scheduler": policy, "memory": "fixed", "seed": 1, "cycles": None}
    assert_same(Case(gpu, kernel, launch, options))
    return simulator.simulate(gpu, kernel, launch, **options)


def timeline(result: Result) -> list[tuple[int, int, int]]:
    """Returns (warp, begin, end) of runs of issues without a bubble, from the first issue on."""
    first = result.issues[0][0]
    issues = [(t - first, slot) for t, _, slot, _ in result.issues]
    runs = groupby(enumerate(issues), key=lambda item: (item[1][1], item[1][0] - item[0]))
    spans = [(slot, [t for _, (t, _) in members]) for (slot, _), members in runs]
    return [(slot, cycles[0], cycles[-1] + 1) for slot, cycles in spans]


def program(cost: Cost | None = None) -> list[Instruction]:
    """Returns 31 independent instructions, of which the second has a cost; with the exit they are 32."""
    return [Instruction("alu", cost=cost if k == 1 else None) for k in range(31)]


def test_figure_4a() -> None:
    expected = [(3, 0, 16), (2, 16, 48), (3, 48, 64), (1, 64, 96), (0, 96, 128)]
    assert timeline(run(*program(), fetch=FETCH)) == expected


def test_figure_4b() -> None:
    """The figure has four bubbles after a stall count of four, which is a distance of five; Listing 2 has four."""
    expected = [(3, 0, 2), (2, 2, 4), (1, 4, 6), (3, 6, 36), (2, 36, 66), (1, 66, 96), (0, 96, 98), (0, 102, 132)]
    assert timeline(run(*program(Cost(gap_cycles=5)))) == expected


def test_figure_4c() -> None:
    """An instruction that yields keeps its warp from the next cycle: a gap of two."""
    expected = [(3, 0, 2), (2, 2, 4), (3, 4, 34), (2, 34, 64), (1, 64, 66), (0, 66, 68), (1, 68, 98), (0, 98, 128)]
    assert timeline(run(*program(Cost(gap_cycles=2)))) == expected


def test_a_buffer_of_two_entries_ends_greed() -> None:
    """Two stages from fetch to issue need three entries (Huerta et al. 2025, 5.2)."""
    alone = timeline(run(*program(), warps=1, fetch=FETCH | {"buffer": 3, "line_instructions": 64}))
    assert alone == [(0, 0, 32)]
    assert len(timeline(run(*program(), warps=1, fetch=FETCH | {"buffer": 1, "line_instructions": 64}))) > 1


def test_prefetched_lines_save_misses() -> None:
    cold = FETCH | {"line_instructions": 4, "miss_cycles": 40}
    without, ahead = (run(*program(), warps=1, fetch=cold | {"prefetch_lines": n}) for n in (0, 8))
    assert without.end > ahead.end + 7 * 30
    assert without.warp_cycles["no_instruction"] > 5 * ahead.warp_cycles["no_instruction"]


def test_a_loop_that_fits_misses_once_and_jumps_refill_the_buffer() -> None:
    result = run(Loop(body=[Instruction("alu")] * 8, trips=10), warps=1, fetch=FETCH)
    assert result.warp_cycles["no_instruction"] == 16 + 2 + 9  # the first line, the stages, and a bubble after each jump
    small = run(Loop(body=[Instruction("alu")] * 40, trips=5), warps=1, fetch=FETCH | {"lines": 2})
    large = run(Loop(body=[Instruction("alu")] * 40, trips=5), warps=1, fetch=FETCH | {"lines": 4})
    assert small.end > large.end + 3 * 3 * 10


def test_a_jump_ends_a_full_buffer() -> None:
    """The first instruction of the loop takes its time, so that the buffer fills; more than it holds are behind the loop."""
    loop = Loop(body=[Instruction("alu", cost=Cost(gap_cycles=6)), *[Instruction("alu")] * 4], trips=3)
    result = run(loop, *[Instruction("alu")] * 6, warps=1, fetch=FETCH)
    assert result.warp_cycles["no_instruction"] == 16 + 2 + 2  # the line, the stages, and a bubble after each jump


def test_a_branch_over_one_instruction_ends_a_full_buffer() -> None:
    """The warp that executes the instruction goes straight on; the other one fetches anew, and has a bubble."""
    skip = Conditional(then=[Instruction("alu")], warps=(0,))
    body = [Instruction("alu", cost=Cost(gap_cycles=20)), skip, *[Instruction("alu")] * 6]
    straight, both = (run(*body, warps=warps, fetch=FETCH | {"buffer": 8, "stages": 8}) for warps in (1, 2))
    assert both.warp_cycles["no_instruction"] > 2 * straight.warp_cycles["no_instruction"]


def test_a_taken_branch_jumps() -> None:
    skip = Conditional(then=[Instruction("alu")] * 4, warps=(0,))
    result = run(skip, Instruction("alu"), warps=2, fetch=FETCH)
    assert result.instructions["branch"] == 2 and result.warp_cycles["no_instruction"] > 0


def test_a_line_on_its_way_is_not_replaced() -> None:
    """Two warps in different lines, and a cache of one: each gets its line in turn, and neither waits for ever."""
    sides = Conditional(then=[Instruction("alu")] * 6, orelse=[Instruction("alu")] * 6, warps=(0,))
    result = run(sides, warps=2, fetch=FETCH | {"lines": 1, "line_instructions": 4, "miss_cycles": 9})
    assert result.instructions["alu"] == 12 and result.end < 200


@pytest.mark.parametrize("policy", ["gty", "lrr", "random", "two_level:2"])
@pytest.mark.parametrize("width", [1, 2])
def test_blocks_windows_and_ports(policy: str, width: int) -> None:
    """Blocks that follow one another, jumps, pairs, units that refuse, and register ports, over many windows."""
    fetch = {"lines": 3, "line_instructions": 4, "miss_cycles": 23, "prefetch_lines": 1}
    core = {"fetch": fetch, "register_banks": 2}
    gpu = small_gpu(sms=2, sm={"schedulers": 2}, issue={"width": width}, core=core, memory={"latency_cycles": 30})
    add = Instruction("alu", dst="r1", src=("r1",), reads=("R2", "R4", "R6"))
    some = Conditional(then=[add, Instruction("sfu", dst="r2")], orelse=[Instruction("load", dst="r2")], probability=0.5)
    body = [Loop(body=[add, some, Instruction("load", dst="r3"), add], trips=(1, 4)), Instruction("store", src=("r3",)), add]
    kernel = Kernel(name="directed", inputs=("r1", "r2", "r3"), body=body)
    launch = Launch(blocks=11, block_warps=3, resident_blocks=2)
    options = {"scheduler": policy, "memory": "queue", "seed": 3, "cycles": None}
    assert assert_same(Case(gpu, kernel, launch, options))["warp_cycles"]["no_instruction"] > 100
    endless = Kernel(name="directed", inputs=("r1", "r2", "r3"), body=[*body, Loop(body=[*body, add], trips=None)])
    steady = {**options, "warmup": 70, "cycles": 400}
    assert_same(Case(gpu, endless, Launch(block_warps=3, resident_blocks=2), steady))


@pytest.mark.parametrize("miss", range(3, 9))
def test_a_buffer_stays_full_once_all_lines_are_there(miss: int) -> None:
    """The first instructions take their time, so that the buffer is full whenever the last line comes."""
    fetch = {"lines": 16, "line_instructions": 4, "prefetch_lines": 4, "prefetch_cycles": 9, "stages": 3, "miss_cycles": miss}
    for slow in range(1, 9):
        for latency in (4, 5, 6, 7):
            ops, memory = {"alu": {"latency_cycles": latency}}, {"latency_cycles": 600}
            gpu = small_gpu(core={"fetch": fetch | {"buffer": 3}}, ops=ops, block_launch_cycles=600, memory=memory)
            body = [*[one("alu")] * slow, *[Instruction("alu")] * (18 - slow)]
            assert_same(case(gpu, kernel(*body), blocks=1, size=1, seats=1))


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(("buffer", "stages"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
def test_results_that_are_soon_there(buffer: int, stages: int, width: int) -> None:
    """Warps issue in successive cycles, alone or in pairs, up to a jump, after it, and up to the end of the program."""
    fetch = {"buffer": buffer, "stages": stages, "prefetch_lines": 3, "prefetch_cycles": 2, "miss_cycles": 5}
    core = {"fetch": fetch | {"lines": 16, "line_instructions": 8}}
    add, other, load = Instruction("alu", dst="r1", src=("r1",)), Instruction("sfu", dst="r2"), Instruction("load", dst="r3")
    body = [*[add] * 4, other, load, Loop(body=[add, add, other, load, add], trips=3), add, load, other, *[add] * 5]
    for latency in (1, 2, 3):
        gpu = small_gpu(issue={"width": width}, core=core, ops={"alu": {"latency_cycles": latency}})
        for size in (1, 3):
            assert_same(case(gpu, Kernel(name="directed", body=body, inputs=("r1",)), blocks=3, size=size, seats=2))


def test_the_api_simulates_fetch() -> None:
    gpu = small_gpu(core={"fetch": FETCH})
    kernel = Kernel(name="directed", body=program())
    launch = Launch(blocks=1, block_warps=1, resident_blocks=1)
    for engine in ("compiled", "reference"):
        result = ws.simulate(gpu, kernel, launch=launch, memory="fixed", engine=engine)
        assert float(result.warp_cycles.sel(state="no_instruction")[0]) == 34


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"prefetch_lines = 32: must be below lines = 32"):
        small_gpu(core={"fetch": FETCH | {"prefetch_lines": 32}})
