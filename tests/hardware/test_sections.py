"""Sections of large chips, of which slices are simulated (docs/model.md, section 5)."""

from fractions import Fraction

import pytest

import warpsim as ws
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.sections import LEAST_SERVERS, LEAST_SMS, MOST_SMS, ROUNDING, section
from warpsim.kernels import Access, Instruction, Kernel, Loop, mix
from warpsim.simulation.point import make_point

SECTIONS = {"v100": (25, 20, 60), "a100": (27, 20, 60), "h100": (19, 23, 138), "h200": (22, 32, 188), "h100_pcie": (30, 21, 63)}
"""Chip -> SMs and servers of both stages."""


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_its_share_of_the_memory(name):
    gpu = load_gpu(name)
    part = section(gpu, 4)
    queue, whole = part.memory.queue, gpu.memory.queue
    assert (part.sms, queue.crossbar_servers, queue.dram_servers) == SECTIONS[name]
    assert section(gpu, LEAST_SMS) is part and section(gpu, LEAST_SMS + 1) is gpu
    share = part.sms / gpu.sms
    rates = [(part.memory.bandwidth_gbs, gpu.memory.bandwidth_gbs), (queue.crossbar_gbs, whole.crossbar_gbs)]
    for rate, of in (*rates, (queue.dram_gbs, whole.dram_gbs)):
        assert rate == pytest.approx(share * of, rel=1e-12)
    assert part.sm == gpu.sm and part.ops == gpu.ops and part.memory.latency_cycles == gpu.memory.latency_cycles


@pytest.mark.parametrize("name", SECTIONS)
def test_its_number_of_sms_changes_the_servers_least(name):
    gpu = load_gpu(name)
    queue = gpu.memory.queue

    def change(sms):
        parts = [Fraction(servers * sms, gpu.sms) for servers in (queue.crossbar_servers, queue.dram_servers)]
        worst = max(abs(round(part) / part - 1) for part in parts)
        return worst if min(map(round, parts)) >= LEAST_SERVERS else 1

    changes = {sms: change(sms) for sms in range(LEAST_SMS, MOST_SMS + 1)}
    chosen = section(gpu, 1).sms
    assert changes[chosen] == min(changes.values()) <= ROUNDING
    assert all(changes[sms] > changes[chosen] for sms in range(LEAST_SMS, chosen))


def test_chips_with_few_sms_or_few_servers_have_no_sections():
    for name in ("gt200", "maxwell", "titan_x", "t4", "a40", "l40", "rtx4090", "rtx5090"):
        gpu = load_gpu(name)
        assert section(gpu, 4) is gpu


def test_a_section_starts_as_many_blocks_per_sm():
    gpu = load_gpu("v100").model_copy(update={"launch_interval_cycles": 3.0})
    assert section(gpu, 4).launch_interval_cycles == pytest.approx(3.0 * 80 / 25)


def test_which_slices_are_those_of_a_section():
    """In the model `queue`, where no kernel has all warps of the chip update a few addresses."""
    gpu = load_gpu("v100")
    assert make_point(gpu, mix(8), sms=4).machine_gpu.sms == 25
    assert make_point(gpu, mix(8), sms=20).machine_gpu is gpu
    assert make_point(gpu, mix(8)).machine_gpu is gpu
    assert make_point(gpu, mix(8), sms=4, memory="fixed").machine_gpu is gpu
    update = Instruction("reduction", src=("a", "x"), access=Access(contended_addresses=4))
    histogram = Kernel(name="histogram", inputs=("a", "x"), body=(Loop(body=(update,), trips=None),))
    assert make_point(gpu, histogram, sms=4).machine_gpu is gpu


def test_both_machines_simulate_the_section():
    """2 of 25 SMs of a V100: 23 of them are echoes, and bandwidth is that of the chip of 80 SMs."""
    settings = {"warps": 4, "sms": 2, "warmup": 600, "cycles": 1500}
    compiled, reference = (ws.simulate("v100", mix(alpha=2), engine=engine, **settings) for engine in ("compiled", "reference"))
    assert compiled.drop_attrs().equals(reference.drop_attrs())
    loads = compiled.ipc.sel(op="load").item() * 80
    assert compiled.bandwidth.item() == pytest.approx(loads * 128 * load_gpu("v100").clock_ghz, rel=0.01)
