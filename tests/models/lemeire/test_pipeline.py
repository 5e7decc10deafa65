"""The pipeline model: equation 1, Algorithm 1 against a literal copy, Tables I to III, and other chips."""

from __future__ import annotations

import heapq
import itertools

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Instruction, Loop, chain, matrix_multiply, mix, vector_add
from warpsim.models import NotCoveredError
from warpsim.models.lemeire import pipeline
from warpsim.models.lemeire.chip import Pipelines, PipelinesFileError
from warpsim.models.lemeire.graph import dependences

CHIPS = ("fermi_c2050", "pascal_gtx_1060")
LOOP = Instruction("branch", src=("r1",))


@pytest.fixture(params=CHIPS)
def chip(request):
    return pipeline.load_pipelines(request.param)


def benchmark(op, instructions):
    """A chain of dependent instructions of one class (L III.B)."""
    if op == "branch":
        return kernel(Loop(body=(LOOP,), trips=instructions))
    return chain(op, iterations=instructions)


def errors(chip, op, instructions=64, **options):
    """Algorithm 1 against equation 1 over all of L's occupancies, as fractions."""
    one = chip.ops[op]
    found = []
    for size, groups in pipeline.configurations(chip):
        made = pipeline.execution_cycles(
            chip, benchmark(op, instructions), groups=groups, resident_groups=groups, group_warps=size, **options
        )
        expected = pipeline.equation_1(
            one.issue_cycles, one.completion_cycles, warps=size * groups, instructions=instructions
        )
        found.append(made / float(expected) - 1)
    return np.array(found)


# Equation 1


def test_equation_1_has_the_shape_of_a_boat_hull():
    time = pipeline.equation_1(2, 10, warps=[1, 4, 5, 10], instructions=3)
    assert time.values.tolist() == [30, 36, 38, 68]
    assert time.attrs["units"] == "cycles"
    per_warp = [float(pipeline.equation_1(0.25, 6, warps=w, instructions=1000)) / w for w in (1, 12, 24, 48)]
    assert per_warp[0] > per_warp[1] > per_warp[2] == pytest.approx(per_warp[3], rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "issue_cycles = 0: must be above 0"),
        ((1, -1), "completion_cycles = -1: must be above 0"),
    ],
)
def test_equation_1_checks_its_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        pipeline.equation_1(*arguments, warps=1, instructions=1)
    with pytest.raises(ValueError, match="instructions = 0: must be at least 1"):
        pipeline.equation_1(1, 1, warps=1, instructions=0)
    with pytest.raises(ValueError, match="warps = 0"):
        pipeline.equation_1(1, 1, warps=0, instructions=1)


# Tables I and II


@pytest.mark.parametrize(("name", "combinations", "warp_counts"), [(CHIPS[0], 34, 18), (CHIPS[1], 78, 43)])
def test_the_occupancies_that_l_explores(name, combinations, warp_counts):
    found = pipeline.configurations(pipeline.load_pipelines(name))
    assert len(found) == combinations
    assert len({size * groups for size, groups in found}) == warp_counts


def test_a_warp_of_adds_takes_as_long_as_table_1_says(chip):
    assert chip.ops["alu"].issue_cycles == 32 * chip.compute_units / chip.compute_elements


@pytest.mark.parametrize("op", ["alu", "sfu", "branch", "load"])
def test_table_2_simulated_against_equation_1(chip, op):
    found = errors(chip, op)
    if chip.ops[op].issue_cycles.is_integer():
        assert not found.any()
    else:  # the pipeline looks again after a whole cycle, and so is late by up to three quarters of it
        late = 0.75 / chip.ops[op].completion_cycles
        assert (found >= 0).all()
        assert 0 < found.max() <= late
        assert not errors(chip, op, retry_cycles=0.25).any()


# Algorithm 1


def literally(chip, program, group_warps, resident, groups):
    """L Algorithm 1 word by word: an idle pipeline has an issue event every cycle."""
    nodes = dependences(program)
    timings = [pipeline.timing(chip, node.instruction) for node in nodes]
    lines = list(dict.fromkeys(t.pipeline for t in timings))
    ready = {line: [] for line in lines}
    order, serial = itertools.count(), itertools.count()
    done, alive, events = {}, {}, []

    def look_for_ready(group, warps):
        for warp, number in itertools.product(warps, range(len(nodes))):
            task, after = (group, warp, number), {before for before, _ in nodes[number].after}
            if done.get(task) is None and all(complete(group, warp, before) for before in after):
                done[task] = False
                ready[timings[number].pipeline].append((next(order), task))

    def complete(group, warp, number):
        warps = range(group_warps) if nodes[number].instruction.op == "barrier" else (warp,)
        return all(done.get((group, w, number)) for w in warps)

    def start():
        group = next(serial)
        alive[group] = group_warps * len(nodes)
        look_for_ready(group, range(group_warps))

    for _ in range(min(resident, groups)):
        start()
    for line in lines:
        heapq.heappush(events, (0.0, 1, line))
    while alive:
        time, kind, what = heapq.heappop(events)
        if kind == 1:
            if ready[what]:
                _, task = ready[what].pop(0)
                heapq.heappush(events, (time + timings[task[2]].completion, 0, task))
                heapq.heappush(events, (time + timings[task[2]].issue, 1, what))
            else:
                heapq.heappush(events, (time + 1, 1, what))
            continue
        group, warp, number = what
        done[what] = True
        alive[group] -= 1
        barrier = nodes[number].instruction.op == "barrier"
        look_for_ready(group, range(group_warps) if barrier else (warp,))
        if alive[group] == 0:
            del alive[group]
            if next(serial) < groups:
                serial = itertools.chain([max([group, *alive]) + 1 if alive else group + 1], serial)
                start()
    return time


@pytest.mark.parametrize(
    ("program", "group_warps", "resident", "groups"),
    [
        (chain("alu", iterations=9), 1, 5, 12),
        (mix(3, iterations=4), 2, 3, 3),
        (mix(2, "sfu", iterations=4), 4, 5, 11),
        (vector_add(), 2, 6, 13),
        (matrix_multiply(8, width=24, table_iii=True), 2, 3, 7),
        (matrix_multiply(16, width=32, ways=8, table_iii=True), 8, 2, 3),
    ],
)
def test_skipping_idle_retries_changes_nothing(chip, program, group_warps, resident, groups):
    arguments = {"group_warps": group_warps, "groups": groups}
    made = pipeline.execution_cycles(chip, program, resident_groups=resident, **arguments)
    assert made == literally(chip, program, resident=resident, **arguments)


def test_figure_1_for_one_warp(chip):
    program = kernel(
        Instruction("alu", dst="i"),
        Instruction("load", dst="x", src=("i",)),
        Instruction("load", dst="y", src=("i",)),
        Instruction("alu", dst="z", src=("x", "y")),
        Instruction("store", src=("i", "z")),
    )
    one = {"groups": 1, "resident_groups": 1, "group_warps": 1}
    index, memory = chip.ops["alu"], chip.ops["load"]
    expected = index.completion_cycles + memory.issue_cycles + memory.completion_cycles
    expected += index.completion_cycles + memory.issue_cycles  # fmadd, and the store has been issued
    assert pipeline.execution_cycles(chip, program, retry_cycles=0.25, **one) == expected
    assert expected == {"Fermi": 603, "Pascal": 414}[chip.generation]


def test_a_trip_of_matrix_multiply_by_hand():
    fermi = pipeline.load_pipelines("fermi_c2050")
    program = matrix_multiply(8, width=8, table_iii=True)
    loaded = 20 + 45 + 20 + 479  # the second warp's B
    shared = loaded + 47 + 40  # stored, and past the barrier
    first_sum = shared + 2 * (16 + 1) + 47  # behind the 16 reads of the other warp, and one of its own
    multiplied = first_sum + 8 * 18 + 40
    written = multiplied + 58 + 23 + 23  # the loop, and two stores
    assert pipeline.execution_cycles(fermi, program, groups=1, resident_groups=1, group_warps=2) == written == 1020


def test_a_barrier_waits_for_the_group_alone():
    fermi = pipeline.load_pipelines("fermi_c2050")
    program = kernel(LOAD, BARRIER, ADD)
    together = pipeline.execution_cycles(fermi, program, groups=1, resident_groups=1, group_warps=4)
    assert together == 3 * 23 + 521 + 40 + 3 * 1 + 18
    apart = pipeline.execution_cycles(fermi, program, groups=4, resident_groups=4, group_warps=1)
    assert apart == 3 * 23 + 521 + 40 + 18


def test_waiting_groups_start_when_others_end():
    fermi = pipeline.load_pipelines("fermi_c2050")
    alone = pipeline.execution_cycles(fermi, chain("load", iterations=3), groups=1, resident_groups=1, group_warps=1)
    in_turn = pipeline.execution_cycles(fermi, chain("load", iterations=3), groups=5, resident_groups=1, group_warps=1)
    assert in_turn == 5 * alone == 5 * 3 * 521


# Matrix multiplication with Tables I to III (L IV.C)


def performance(chip, tile, ways, width=64):
    """Occupancies in warps, and floating-point operations per second; the grid is that of 1024 x 1024."""
    warps = tile * tile // 32
    counts = [groups for size, groups in pipeline.configurations(chip) if size == warps]
    program = matrix_multiply(tile, width=width, ways=ways, table_iii=True)
    blocks = 12 * chip.compute_units * max(counts)
    flop = 2 * tile * tile * width * blocks
    times = [pipeline.execution_time(chip, program, blocks=blocks, warps=n * warps, block_warps=warps) for n in counts]
    return [n * warps for n in counts], flop / np.array(times)


@pytest.mark.parametrize("tile", [8, 16])
def test_matrix_multiply_at_all_occupancies_with_and_without_conflicts(chip, tile):
    occupancies, plain = performance(chip, tile, 1)
    _, conflicts = performance(chip, tile, 8)
    assert (conflicts < plain).all()
    assert (np.diff(plain) > -0.02 * plain[1:]).all()  # more warps never harm, but for the last wave
    peak = 2 * chip.compute_elements * chip.clock_ghz * 1e9
    assert (plain < peak).all()
    # With conflicts local memory is the bottleneck: 2 tile reads and 2 stores a trip, of which the reads conflict.
    trip = 2 * tile * chip.ops["smem_conflict"].issue_cycles + 2 * chip.ops["smem"].issue_cycles
    bound = 32 * 2 * tile / trip * chip.compute_units * chip.clock_ghz * 1e9
    assert conflicts.max() == pytest.approx(bound, rel=0.06)
    assert (conflicts <= bound).all()
    program = matrix_multiply(tile, width=64, ways=8, table_iii=True)
    arguments = {"warps": occupancies[-1], "block_warps": tile * tile // 32}
    assert pipeline.bottleneck(chip, program, **arguments) == "local memory"
    assert pipeline.bottleneck(chip, program, **(arguments | {"warps": 8, "block_warps": 8})) == "latency"


# Throughput, on L's chips and on any other


def test_throughput_of_chains_is_the_lesser_of_both_bounds():
    fermi = load_gpu("fermi")
    ds = pipeline.throughput(fermi, chain("alu"), warps=[1, 8, 17, 18, 19, 48])
    assert ds.ipc.sel(op="alu").values == pytest.approx([1 / 18, 8 / 18, 17 / 18, 1, 1, 1])
    assert ds.bottleneck.values.tolist() == ["latency"] * 3 + ["alu"] * 3
    assert ds.throughput.sel(op="alu").values[-1] == pytest.approx(32)
    assert ds.attrs["source"] == "warpsim.models.pipeline, L IV.A"
    pascal = pipeline.load_pipelines("pascal_gtx_1060")
    rates = pipeline.throughput(pascal, chain("load"), warps=[1, 31, 32, 64])
    assert rates.ipc.sel(op="load").values == pytest.approx([1 / 378, 31 / 378, 1 / 12, 1 / 12])
    assert "bandwidth" not in rates


def test_throughput_of_a_mix_is_that_of_a_warp_alone_where_warps_never_collide():
    maxwell = load_gpu("maxwell")
    ds = pipeline.throughput(maxwell, mix(4), warps=1, retry_cycles=0.25)
    assert float(ds.ipc.sel(op="load")) == pytest.approx(1 / (368 + 4 * 6), rel=1e-3)
    finite = pipeline.throughput(maxwell, mix(4, iterations=10), warps=1, retry_cycles=0.25)
    assert float(finite.ipc.sel(op="alu")) == pytest.approx(4 / (368 + 4 * 6), rel=1e-3)
    bytes_per_cycle = float(ds.ipc.sel(op="load")) * 128 * maxwell.sms
    assert float(ds.bandwidth) == pytest.approx(bytes_per_cycle * maxwell.clock_ghz)


def test_needed_warps_are_where_the_two_lines_of_equation_1_meet(chip):
    for op in ("alu", "sfu", "load"):
        one = chip.ops[op]
        assert pipeline.needed_warps(chip, chain(op)) == pytest.approx(one.completion_cycles / one.issue_cycles)
    assert pipeline.needed_warps(chip, chain("load", ilp=2), fraction=0.5) == pytest.approx(
        0.25 * (chip.ops["load"].completion_cycles + chip.ops["load"].issue_cycles) / chip.ops["load"].issue_cycles, rel=0.05
    )
    with pytest.raises(ValueError, match="fraction = 0: must be above 0"):
        pipeline.needed_warps(chip, chain("alu"), fraction=0)


def test_memory_bounds_the_vector_add():
    kepler = load_gpu("kepler")
    ds = pipeline.throughput(kepler, vector_add(), warps=[4, 64])
    assert ds.bottleneck.values.tolist() == ["latency", "global memory"]
    assert float(ds.bandwidth[-1]) == pytest.approx(kepler.memory.bandwidth_gbs, rel=0.01)
    assert float(ds.busy.sel(pipeline="global memory")[-1]) == pytest.approx(1, abs=0.01)


def test_matrix_multiply_runs_on_any_chip():
    ds = pipeline.throughput(load_gpu("kepler"), matrix_multiply(16, width=64), warps=[8, 64])
    assert float(ds.ipc.sel(op="alu")[1]) > float(ds.ipc.sel(op="alu")[0]) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warps": -1}, "warps = -1: must be at least 0"),
        *[
            ({"warps": warps}, f"warps = {warps}: must be a whole number from 1")
            for warps in (0, 0.5, 2.5, np.inf)
        ],
        ({"warps": 65}, "warps = 65: must be at most 64"),
        ({"warps": 8, "block_warps": 3}, "block_warps = 3: must divide warps = 8"),
        ({"warps": 8, "retry_cycles": 0.0}, "retry_cycles = 0.0: must be at least 1/5040"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        pipeline.throughput(load_gpu("kepler"), mix(4), **options)


def test_missing_classes_and_kernels_that_are_not_covered(chip):
    with pytest.raises(ValueError, match=f"op = 'fp64': {chip.name} has"):
        pipeline.throughput(chip, chain("fp64"), warps=1)
    with pytest.raises(ValueError, match="ways = 2: must be 1 on"):
        pipeline.throughput(chip, chain("smem", ways=2), warps=1)
    with pytest.raises(ValueError, match="kernel = mix: must end"):
        pipeline.execution_time(chip, mix(4), blocks=1, warps=1)
    with pytest.raises(ValueError, match="groups = 0: must be at least 1"):
        pipeline.execution_cycles(chip, vector_add(), groups=0, resident_groups=1, group_warps=1)
    with pytest.raises(NotCoveredError, match="trips"):
        pipeline.throughput(chip, kernel(Loop(body=(ADD,), trips=(1, 2))), warps=1)


# The files


def test_the_chips_that_come_with_the_package():
    assert pipeline.list_pipelines() == list(CHIPS)
    with pytest.raises(ValueError, match="'pascal' is unknown"):
        pipeline.load_pipelines("pascal")


def test_all_errors_of_a_file_are_reported(chip):
    data = chip.model_dump()
    data["ops"]["alu"]["issue_cycles"] = 0
    data["clock"] = 1.0
    del data["compute_units"]
    with pytest.raises(PipelinesFileError) as caught:
        Pipelines.from_dict(data, "chip.toml")
    text = str(caught.value)
    assert "chip.toml: ops.alu.issue_cycles = 0: must be a number from 0.001 to 1e9" in text
    assert "chip.toml: clock = 1.0: unknown key" in text
    assert "chip.toml: compute_units is missing: must be an integer from 1" in text
