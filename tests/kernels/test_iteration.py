"""One iteration of a kernel: the time of each instruction alone, derived by hand from the chip's numbers."""

from collections import Counter

import pytest

from tests.support.cases import small_gpu
from warpsim import kernels as k
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Cost, Instruction, Kernel, Loop
from warpsim.kernels.iteration import END, iteration, iteration_instructions, loaded_cycles, places, stores_for_each_load
from warpsim.kernels.steps import flatten
from warpsim.kernels.traversal import expected_executions

ALU, LOAD = Instruction("alu", dst="r1", src=("r1",)), Instruction("load", dst="r1", src=("r1",))
BARRIER = Instruction("barrier")


def kernel(*body):
    return Kernel(name="k", inputs=("r1", "r2"), body=body)


@pytest.mark.parametrize("name", ["g80", "gt200", "fermi", "kepler", "maxwell"])
@pytest.mark.parametrize("alpha", [0, 4, 32])
def test_a_group_of_the_mix_takes_the_latencies_of_its_instructions(name, alpha):
    """mem_lat + alpha alu_lat (V 4.1), with the mean latency of the memory model."""
    gpu = load_gpu(name)
    adds = alpha * gpu.ops["alu"].latency_cycles
    assert iteration(gpu, k.mix(alpha), "fixed").cycles == gpu.memory.latency_cycles + adds
    assert abs(iteration(gpu, k.mix(alpha), "queue").cycles - gpu.memory.queue_latency_cycles - adds) <= 0.5


def test_independent_instructions_overlap():
    gpu = load_gpu("kepler")
    found = iteration(gpu, k.chain("load", 4), "fixed")
    gap = gpu.ops["load"].gap_cycles
    assert found.cycles == gpu.memory.latency_cycles  # three gaps, then the rest of the first load's latency
    assert [found.alone[f"body[0].body[{i}]"] for i in range(4)] == [gap, gap, gap, gpu.memory.latency_cycles - 3 * gap]


def test_loops_and_conditionals_count_by_their_expected_executions():
    gpu = load_gpu("kepler")
    alu, branch = gpu.ops["alu"].latency_cycles, max(gpu.ops["branch"].gap_cycles, 1)
    looped = kernel(Loop(body=[ALU], trips=(2, 4)), Conditional(then=[ALU], probability=0.25), LOAD)
    found = iteration(gpu, looped, "fixed")
    end = found.alone[END]
    load = gpu.ops["load"].gap_cycles  # nobody waits for its result
    assert found.alone["body[1]"] == max(branch, alu)  # the result of the loop
    assert found.cycles == int(3 * alu + alu + 0.25 * alu + load + end + 0.5)
    assert iteration_instructions(looped) == 3 + 1 + 0.25 + 1 + 1
    assert found.by_block and not found.barriers and found.before_cycles == 0


def test_what_follows_an_early_exit_counts_for_the_warps_that_go_on():
    leaves = Conditional(then=[Instruction("exit")], probability=0.75)
    looped = kernel(ALU, leaves, Loop(body=[ALU, ALU], trips=10), LOAD)
    as_a_side = kernel(ALU, Conditional(then=[Loop(body=[ALU, ALU], trips=10), LOAD], probability=0.25))
    assert iteration_instructions(looped) == iteration_instructions(as_a_side) == 1 + 1 + 0.25 * 21 + 1
    gpu = load_gpu("kepler")
    branch, rest = (iteration(gpu, one, "fixed").cycles for one in (kernel(ALU, leaves), looped))
    work = iteration(gpu, kernel(Loop(body=[ALU, ALU], trips=10), LOAD), "fixed").cycles
    assert rest - branch == pytest.approx(0.25 * work, abs=gpu.ops["alu"].latency_cycles)
    assert stores_for_each_load(kernel(LOAD, leaves, Instruction("store"))) == 0.25


def test_warps_leave_a_loop_early():
    """Half of those that are left leave in each trip, so that of 16 warps 8, 4, 2 and 1 execute the load."""
    body = [ALU, Conditional(then=[Instruction("exit")], probability=0.5), LOAD]
    found = Counter[str]()
    for one, times in expected_executions([Loop(body=body, trips=4), Instruction("store")]):
        found[one.op] += times
    assert found == {"alu": 15 / 8, "branch": 15 / 8, "exit": 15 / 16, "load": 15 / 16, "store": 1 / 16}


def test_warps_that_have_left_execute_no_later_side():
    sides = [Conditional(warps=(0, 1), then=[Instruction("exit")]), Conditional(warps=(1, 2), then=[LOAD]), ALU]
    for warps, load, alu in ((4, 1 / 4, 2 / 4), (2, 0.0, 0.0), (None, 1 / 4, 1 / 2)):
        found = {one.op: times for one, times in expected_executions(sides, warps) if one.op != "branch"}
        assert (found["load"], found["alu"]) == (load, alu)


def test_sides_of_sides_are_those_of_their_warps():
    """Of four warps the last one executes the inner side, and not one half of one half."""
    inner = Conditional(warps=(3,), then=[LOAD], orelse=[Instruction("store")])
    for outer in ([inner], [Loop(body=[inner], trips=2)]):
        found = Counter[str]()
        for one, times in expected_executions([Conditional(warps=(2, 3), then=outer, orelse=[ALU])], 4):
            found[one.op] += times
        trips = 1 if outer == [inner] else 2
        assert found == {"branch": 1 + trips / 2, "load": trips / 4, "store": trips / 4, "alu": 1 / 2}


def test_a_conditional_takes_its_own_gap():
    gpu = load_gpu("kepler")
    own = gpu.ops["branch"].gap_cycles + gpu.ops["alu"].latency_cycles + 7
    side = Instruction("alu", dst="r2", src=("r2",))
    found = iteration(gpu, kernel(Conditional(then=[side], probability=0.5, cost=Cost(gap_cycles=own)), LOAD), "fixed")
    assert found.alone["body[0]"] == own


def test_each_conditional_takes_its_own_gap():
    """The branch of a conditional is made when it is asked for; the costs of one must not stand for those of another."""
    gpu = load_gpu("kepler")
    first, side = gpu.ops["branch"].gap_cycles + gpu.ops["alu"].latency_cycles + 7, Instruction("alu", dst="r2", src=("r2",))
    gaps = range(first, first + 40)
    conditionals = [Conditional(then=[side], probability=0.5, cost=Cost(gap_cycles=gap)) for gap in gaps]
    found = iteration(gpu, kernel(*conditionals, LOAD), "fixed")
    assert [found.alone[f"body[{number}]"] for number in range(len(gaps))] == list(gaps)


def test_what_precedes_an_endless_loop_is_not_part_of_it():
    gpu = load_gpu("kepler")
    endless = kernel(LOAD, ALU, Loop(body=[ALU, ALU], trips=None))
    found = iteration(gpu, endless, "fixed")
    alu = gpu.ops["alu"].latency_cycles
    assert (found.before_cycles, found.cycles) == (gpu.memory.latency_cycles + alu, 2 * alu)
    assert not found.by_block
    assert iteration_instructions(endless) == 2


def test_hits_shorten_a_load_by_their_probability():
    gpu = small_gpu()
    half = Instruction("load", dst="r1", src=("r1",), access=Access(l2_hit=0.5))
    mean = (gpu.memory.l2_latency_cycles + gpu.memory.latency_cycles) / 2
    found = iteration(gpu, kernel(Loop(body=[half], trips=None)), "fixed")
    assert found.cycles == int(mean + 0.5)


def test_barriers_that_only_some_warps_reach_keep_nobody_in_step():
    some = Loop(body=[Conditional(then=[BARRIER], warps=(1,)), ALU], trips=None)
    assert not iteration(load_gpu("kepler"), kernel(some), "fixed").barriers
    assert iteration(load_gpu("kepler"), kernel(Loop(body=[BARRIER, ALU], trips=None)), "fixed").barriers


def test_under_load_an_iteration_takes_what_the_busiest_part_takes():
    gpu = load_gpu("kepler")
    requests = 64 * gpu.sms * 128 / gpu.bandwidth_bytes_per_cycle
    assert loaded_cycles(gpu, k.mix(0), 64) == pytest.approx(requests)
    assert loaded_cycles(gpu, k.mix(32), 4) == pytest.approx(gpu.memory.latency_cycles + 32 * gpu.ops["alu"].latency_cycles)


@pytest.mark.parametrize("program", [k.vector_add(), k.matrix_multiply(), k.mix(2.5), k.worksheet_3_2()])
def test_places_are_the_lines_of_the_program(program):
    assert len(places(program)) == sum(step.instruction is not None for step in flatten(program).steps)
    assert iteration(load_gpu("kepler"), program, "queue").alone.keys() == set(places(program))
