"""Changes of advice: their effects, and which changes a kernel gets."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim import kernels
from warpsim.analysis.advice_changes import changes
from warpsim.analysis.occupancy_search import all_launches
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Cost, Instruction
from warpsim.kernels.costs import costs_on
from warpsim.models import volkov
from warpsim.models.parts.counts import bank_conflicts, counts
from warpsim.simulation.point import make_point

CONFLICT = Instruction("smem", dst="r2", src=("r1",), ways=4)
SFU = Instruction("sfu", dst="r2", src=("r1",))


def changed(chip, program, needed=1, **arguments):
    """Changes by name; `needed` warps in blocks of 1 or 2 suffice, or None do."""
    point = make_point(load_gpu(chip), program, **{"warps": 8, "block_warps": 2, "sms": 1, **arguments})
    launch = None if needed is None else next(one for one in all_launches(point) if one.resident_warps >= needed)
    return point, {change.name: change for change in changes(point, launch)}


def test_all_of_a_kernel_with_everything():
    parts = Conditional(diverges=True, then=(ADD,), orelse=(ADD, ADD))
    _, found = changed("kepler", kernel(LOAD, CONFLICT, SFU, BARRIER, parts, ADD), needed=20)
    assert {name: change.benefit for name, change in found.items()} == {
        "no memory latency": "b_memlp",
        "no arithmetic latency": "b_itilp",
        "twice the ILP": "",
        "no bank conflicts": "",
        "no barriers": "",
        "no divergence": "",
        "SFU as fast as adds": "",
        "no serialization": "b_serial",
        "no shared memory, no jumps": "b_fp",
        "twice the memory bandwidth": "",
        "20 warps per SM": "",
    }


def test_a_single_cause_of_serialization_is_its_benefit():
    _, found = changed("kepler", kernels.chain("smem", ways=8))
    assert found["no bank conflicts"].benefit == "b_serial"
    assert "no serialization" not in found
    assert "no shared memory, no jumps" not in found  # nothing would be left


def test_changes_without_effect_are_left_out():
    _, found = changed("fermi", kernels.chain("alu"), needed=8)
    assert list(found) == ["no arithmetic latency", "twice the ILP", "twice the alu units"]
    _, found = changed("kepler", kernels.chain("load"), memory="measured")
    assert "no memory latency" not in found and "no arithmetic latency" not in found
    assert "twice the memory bandwidth" not in found
    assert "twice the memory bandwidth" in changed("kepler", kernels.chain("load"))[1]


def test_changes_remove_latencies():
    point, found = changed("maxwell", kernels.worksheet_3_2())
    gpu = found["no memory latency"].point.gpu
    assert (gpu.memory.latency_cycles, gpu.memory.queue_latency_cycles, gpu.memory.transaction_latency_cycles) == (4, 4, 0)
    assert gpu.memory.bandwidth_gbs == point.gpu.memory.bandwidth_gbs
    gpu = found["no arithmetic latency"].point.gpu
    assert all(gpu.ops[op].latency_for("alu") == gpu.ops[op].gap_cycles == 1 for op in ("alu", "sfu", "smem"))
    assert gpu.unit_ipc("sfu") == point.gpu.unit_ipc("sfu")


def test_changes_remove_serialization():
    point, found = changed("kepler", kernel(LOAD, CONFLICT, SFU, BARRIER))
    every = found["no serialization"].point
    counted = counts(every.gpu, every.kernel)
    assert bank_conflicts(every.gpu, counted) == 0
    assert "barrier" not in counted.ops
    assert every.gpu.unit_ipc("sfu") == point.gpu.unit_ipc("alu")
    assert found["no bank conflicts"].point.gpu == point.gpu


@pytest.mark.parametrize(
    ("chip", "program", "name"),
    [
        ("fermi", kernels.chain("alu"), "twice the alu units"),
        ("fermi", kernels.chain("sfu"), "twice the sfu units"),
        ("kepler", kernels.chain("load"), "twice the memory bandwidth"),
        ("fermi", kernels.mix(32), "twice the issue rate"),
        ("kepler", kernels.mix(32), "twice the issue rate"),
    ],
)
def test_doubling_doubles_the_tightest_resource(chip, program, name):
    point, found = changed(chip, program)
    gpu = found[name].point.gpu
    tightest = volkov.bottleneck(point.gpu, program)
    before, after = (volkov.throughput_bound(g, program).totals for g in (point.gpu, gpu))
    for resource, cycles in before.items():
        assert after[resource] == pytest.approx(cycles / 2 if resource == tightest else cycles)


def test_schedulers_are_doubled_where_they_issue_every_cycle():
    _, found = changed("kepler", kernels.mix(32))
    gpu = found["twice the issue rate"].point.gpu
    assert gpu.sm.schedulers == 8
    assert gpu.ops["alu"].interval_cycles == 2 * Fraction(load_gpu("kepler").ops["alu"].interval_cycles)


def test_needed_warps_are_the_fewest_that_suffice():
    _, found = changed("fermi", kernels.mix(32), needed=29.3)
    launch = found["30 warps per SM"].point.launch
    assert launch.resident_warps == 30
    _, found = changed("fermi", kernels.mix(32), needed=None)
    assert "48 warps per SM, as many as fit" in found
    _, found = changed("fermi", kernels.mix(32), needed=8)
    assert not [name for name in found if "warps" in name]


def test_blocks_with_barriers_keep_their_size():
    _, found = changed("fermi", kernel(LOAD, BARRIER), needed=None)
    launch = found["16 warps per SM, as many as fit"].point.launch
    assert (launch.resident_blocks, launch.block_warps) == (8, 2)


@pytest.mark.parametrize("gpu", ["v100", "t4", "a100", "h100"])
def test_units_that_several_classes_share_are_doubled_for_all_of_them(gpu):
    _, found = changed(gpu, kernels.chain("smem"))
    assert "twice the lsu units" in found


def test_a_data_stage_is_doubled_where_accesses_make_many_passes():
    conflict = kernel(Instruction("smem", dst="r1", ways=4))
    point, found = changed("a100", conflict, memory="fixed")
    twice = found["twice the rate of the lsu data stage"].point.gpu
    before, after = (volkov.throughput_bound(gpu, conflict).totals for gpu in (point.gpu, twice))
    assert after == before | {"lsu data stage": before["lsu data stage"] / 2} and before["lsu data stage"] == 4 * before["lsu"]
    assert twice.core.fill_bytes == 2 * point.gpu.core.fill_bytes


def test_l2_is_doubled_where_it_serves_all_accesses():
    stores = kernel(Instruction("store", src=("r1",), access=Access(pattern="stride", stride=8, l2_hit=1.0)))
    point, found = changed("a100", stores, memory="queue")
    twice = found["twice the rate of L2"].point.gpu
    before, after = (volkov.throughput_bound(gpu, stores).totals for gpu in (point.gpu, twice))
    assert after == pytest.approx(before | {"L2": before["L2"] / 2})
    assert not [name for name in changed("a100", stores, memory="fixed")[1] if "L2" in name]


def test_matrix_units_are_doubled_for_instructions_that_say_how_much_they_multiply():
    product = Instruction("tensor", dst="r1", cost=Cost(multiply_adds=4096, operands="tf32"))
    point, found = changed("a100", kernel(product), memory="fixed")
    twice = found["twice the tensor units"].point.gpu
    assert costs_on(point.gpu, product).unit_cycles == 2 * costs_on(twice, product).unit_cycles == 32
