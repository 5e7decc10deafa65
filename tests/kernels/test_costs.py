"""What an instruction costs on a chip, and the errors of costs of single instructions."""

import math
from fractions import Fraction

import pytest

import warpsim as ws
from tests.support.cases import small_gpu
from warpsim import Access, Conditional, Cost, Instruction
from warpsim.kernels.costs import costs_on

KEPLER = ws.load_gpu("kepler")


def test_an_instruction_has_the_costs_of_its_class_its_conflict_and_its_access():
    spent = costs_on(KEPLER, Instruction("smem", dst="r", ways=3))
    smem = KEPLER.ops["smem"]
    assert spent.unit_cycles == 3 * smem.interval_cycles
    assert spent.latency_cycles == smem.latency_cycles + 2 * smem.conflict_latency_cycles
    assert (spent.issue_slots, spent.reissues, spent.ways) == (smem.issue_slots, 2, 3)
    assert costs_on(KEPLER, Instruction("load", dst="r", access=Access(pattern="random"))).reissues == 28  # 32 - 4


@pytest.mark.parametrize(
    ("cost", "changed"),
    [
        ({"interval_cycles": "7/2"}, {"unit_cycles": Fraction(7, 2)}),
        ({"latency_cycles": 5}, {"latency_cycles": 5, "own_latency": True}),
        ({"gap_cycles": 9}, {"gap_cycles": 9, "taken_gap_cycles": 9}),
        ({"gap_ns": 100}, dict.fromkeys(("gap_cycles", "taken_gap_cycles"), math.ceil(100 * KEPLER.clock_ghz))),
        ({"issue_slots": 1}, {"issue_slots": 1, "reissues": 0}),
    ],
)
def test_a_cost_of_its_own_replaces_one_thing(cost, changed):
    plain, own = (costs_on(KEPLER, Instruction("smem", dst="r", ways=3, cost=c)) for c in (None, Cost(**cost)))
    assert {**vars(plain), **changed} == vars(own)


def test_a_branch_with_a_gap_of_its_own_has_it_on_both_sides():
    gpu = small_gpu(ops={"branch": {"gap_cycles": 2, "taken_gap_cycles": 8}})
    either = Conditional(then=[Instruction("alu")], probability=0.5)
    assert (costs_on(gpu, either.branch).gap_cycles, costs_on(gpu, either.branch).taken_gap_cycles) == (2, 8)
    either = Conditional(then=[Instruction("alu")], probability=0.5, cost=Cost(gap_cycles=5))
    assert (costs_on(gpu, either.branch).gap_cycles, costs_on(gpu, either.branch).taken_gap_cycles) == (5, 5)


@pytest.mark.parametrize(("chip", "cycles"), [("v100", 1), ("t4", 2)])
def test_since_volta_passes_take_time_in_the_data_stage_and_no_issue_slots(chip, cycles):
    """docs/model.md, section 2: a pass for each way of a conflict, and for each line and each 128 bytes of a global access."""
    gpu = ws.load_gpu(chip)
    assert gpu.core.pass_cycles == cycles and gpu.ops["load"].interval_cycles == gpu.ops["smem"].interval_cycles == cycles

    def data_cycles(op, **fields):
        spent = costs_on(gpu, Instruction(op, dst="r", **fields))
        assert spent.reissues == 0
        return spent.data_cycles

    assert [data_cycles("smem", ways=ways) for ways in (1, 2, 3, 32)] == [cycles, 2 * cycles, 3 * cycles, 32 * cycles]
    in_l1 = [Access(bytes_per_thread=size, l1_hit=1.0) for size in (4, 8, 16)]
    assert [data_cycles("load", access=access) for access in in_l1] == [cycles, 2 * cycles, 4 * cycles]
    assert data_cycles("load", access=Access(pattern="stride", stride=32, l1_hit=1.0)) == 32 * cycles
    cost = Cost(requests=1, bytes_per_request=32.0, requested_bytes=640)
    assert data_cycles("load", access=Access(l1_hit=1.0), cost=cost) == 5 * cycles
    assert data_cycles("load", access=Access(l1_hit=1.0), cost=Cost(passes="5/2")) == Fraction(5, 2) * cycles
    assert data_cycles("smem", ways=8, cost=Cost(interval_cycles=3)) == 0  # it is in the unit for all of them
    assert data_cycles("smem", ways=8, cost=Cost(interval_cycles=3, passes=2)) == 2 * cycles


@pytest.mark.parametrize(("chip", "cycles"), [("v100", 4), ("t4", 0), ("a100", 2), ("rtx4090", 2), ("h100", 1)])
def test_what_comes_from_l2_takes_the_time_of_passes(chip, cycles):
    """docs/model.md, section 2: a line of 128 bytes comes in so many cycles, in which L1 makes no pass, except on Turing."""
    gpu = ws.load_gpu(chip)

    def data_cycles(op="load", **fields):
        spent = costs_on(gpu, Instruction(op, **fields))
        assert spent.unit_cycles == gpu.ops["load"].interval_cycles
        return spent.data_cycles

    a_pass = gpu.core.pass_cycles
    assert data_cycles(access=Access(l1_hit=1.0)) == data_cycles("store", access=Access()) == a_pass
    assert data_cycles(access=Access()) == data_cycles(access=Access(l2_hit=1.0)) == a_pass + cycles
    for access, cost in ((Access(l1_hit=0.75), None), (Access(), Cost(requests=1, bytes_per_request=32.0))):
        assert data_cycles(access=access, cost=cost) == a_pass + Fraction(cycles, 4)
    assert costs_on(gpu, Instruction("load", access=Access(), cost=Cost(interval_cycles=7))).data_cycles == 0


def test_an_asynchronous_copy_passes_again_to_shared_memory():
    """One past L1 does not: it takes as long as its passes, or as shared memory takes in 128 bytes a cycle."""
    gpu = ws.load_gpu("h100")
    for fields in ({}, {"bytes_per_thread": 8}, {"pattern": "stride", "stride": 32}):
        access = Access(l1_hit=1.0, **fields)
        load, copy = (costs_on(gpu, Instruction(op, dst="r", access=access)).data_cycles for op in ("load", "async_copy"))
        assert copy == 2 * load
    for fields, cycles in (({"l1_hit": 1.0}, 4), ({}, 4), ({"pattern": "stride", "stride": 8}, 32)):
        past = Instruction("async_copy", dst="r", access=Access(bytes_per_thread=16, **fields))
        assert costs_on(gpu, past).data_cycles == cycles


def test_passes_of_accesses_do_not_slow_other_classes():
    """A Turing has a pass in every second cycle; its branches and barriers pass at the interval of their classes."""
    t4 = ws.load_gpu("t4")
    assert t4.core.pass_cycles == 2
    for op, interval in (("barrier", 2), ("branch", 1), ("exit", 1)):
        spent = costs_on(t4, Instruction(op))
        assert spent.unit_cycles == t4.ops[op].interval_cycles == interval and spent.data_cycles == 0
    assert costs_on(t4, Instruction("smem", dst="r", ways=3)).data_cycles == 6


def test_passes_of_its_own_are_the_ways_of_a_conflict_where_conflicts_are_reissued():
    plain, own = (costs_on(KEPLER, Instruction("smem", dst="r", cost=cost)) for cost in (None, Cost(passes=3)))
    assert (own.unit_cycles, own.data_cycles) == (3 * plain.unit_cycles, 0)


def test_port_sectors_replace_those_of_the_access_with_and_without_requests():
    for others in ({}, {"requests": 1, "bytes_per_request": 128.0}):
        plain, own = (
            costs_on(KEPLER, Instruction("store", src=["r"], cost=cost)).access
            for cost in (Cost(**others) if others else None, Cost(port_sectors=40, **others))
        )
        assert own.port_sectors == 40 != plain.port_sectors
        assert (own.requests, own.bytes_per_request) == (plain.requests, plain.bytes_per_request)


def test_requests_replace_those_of_the_pattern():
    cost = Cost(requests=2, bytes_per_request=50.0)
    access = costs_on(KEPLER, Instruction("load", dst="r", access=Access(pattern="random"), cost=cost)).access
    assert (access.requests, access.extra, access.bytes_per_request, access.requested_bytes) == (2, 0, 50.0, 128)


@pytest.mark.parametrize(
    ("op", "cost", "message"),
    [
        ("load", {"latency_cycles": 3}, "cost.latency_cycles = 3: must be left out for load, since the memory system"),
        ("store", {"latency_cycles": 3}, "cost.latency_cycles = 3: must be left out for store, since the memory system"),
        ("branch", {"latency_cycles": 3}, "cost.latency_cycles = 3: must be left out, since branch writes no register"),
        ("alu", {"requested_bytes": 4}, "cost.requested_bytes = 4: must be left out for alu; only load, store, texture, atomic"),
        ("load", {"requests": 3}, "requests, bytes_per_request = 3, None: must be given together, or neither"),
        ("alu", {"multiply_adds": 8}, "multiply_adds, operands = 8, None: must be given together, or neither"),
        ("alu", {"multiply_adds": 8, "operands": "f16", "interval_cycles": 2}, "interval_cycles = 2: must be left out with"),
        ("alu", {"multiply_adds": 8, "operands": "f15"}, "operands = \"f15\": must be"),
        ("alu", {"gap_cycles": 0}, "gap_cycles = 0: must be an integer from 1 to 1000000"),
        ("alu", {"gap_ns": 10_001}, "gap_ns = 10001: must be an integer from 1 to 10000"),
        ("alu", {"gap_ns": 5, "gap_cycles": 5}, "gap_ns = 5: must be left out with gap_cycles"),
        ("alu", {"interval_cycles": "1/0"}, 'interval_cycles = "1/0": must be a number above 0'),
        ("load", {"requests": 2000, "bytes_per_request": 1.0}, "requests = 2000: must be an integer from 1 to 1024"),
    ],
)
def test_errors(op, cost, message):
    with pytest.raises(ValueError) as caught:
        Instruction(op, **({} if op in ("store", "branch") else {"dst": "r"}), cost=Cost(**cost))
    assert message in str(caught.value)


def test_costs_in_a_file(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('name = "own"\nbody = [{op = "alu", dst = "r", cost = {gap_cycles = 4, interval_cycles = "3/2"}}]\n')
    assert ws.load_kernel(path).body[0].cost == Cost(gap_cycles=4, interval_cycles="3/2")
    path.write_text('name = "own"\nbody = [{op = "alu", dst = "r", cost = {gap = 4}}]\n')
    with pytest.raises(ws.KernelFileError, match=r"body\[0\].cost.gap"):
        ws.load_kernel(path)


def test_what_ifs_without_conflicts_drop_costs_that_contain_the_conflict():
    from warpsim.kernels.whatif import without_conflicts

    cost = Cost(interval_cycles=8, gap_cycles=3)
    kernel = ws.Kernel(name="x", body=[Instruction("smem", dst="r", ways=4, cost=cost)])
    assert without_conflicts(kernel).body[0].cost == Cost(gap_cycles=3)


@pytest.mark.parametrize(
    ("instruction", "cycles"),
    [
        (Instruction("smem", dst="r"), (2, 1)),
        (Instruction("smem", dst="r", ways=5), (2, 5)),
        (Instruction("load", dst="r"), (2, 1)),
        (Instruction("load", dst="r", access=Access(bytes_per_thread=16)), (2, 4)),
        (Instruction("load", dst="r", access=Access(pattern="random")), (2, 32)),
        (Instruction("alu", dst="r"), (1, 0)),
        (Instruction("smem", dst="r", ways=5, cost=Cost(interval_cycles=3)), (3, 0)),
        (Instruction("smem", dst="r", ways=5, cost=Cost(passes="7/2")), (2, Fraction(7, 2))),
    ],
)
def test_passes_take_time_in_the_data_stage_and_no_issue_slots(instruction, cycles):
    gpu = small_gpu(core={"replays": "unit"}, ops={op: {"interval_cycles": 2} for op in ("smem", "load", "store")})
    spent = costs_on(gpu, instruction)
    assert ((spent.unit_cycles, spent.data_cycles), spent.reissues) == (cycles, 0)


def test_a_time_is_rounded_up_to_cycles_and_not_beyond():
    """100 ns at 2.49 GHz are 249 cycles, which a product of floating-point numbers exceeds."""
    l40 = ws.load_gpu("l40")
    assert l40.clock_ghz == 2.49
    gaps = {ns: costs_on(l40, Instruction("sleep", cost=Cost(gap_ns=ns))).gap_cycles for ns in (100, 101, 10_000)}
    assert gaps == {100: 249, 101: 252, 10_000: 24_900}
