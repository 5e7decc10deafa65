"""What-if studies: chips and kernels with single fields changed."""

import pytest

from tests.support.small_plans import SHORT
from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.whatif import changed_gpu
from warpsim.kernels import mix
from warpsim.kernels.whatif import changed_kernel
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

KEPLER = load_gpu("kepler")


def test_a_field_of_an_operation_class_is_found_without_ops():
    changed = changed_gpu(KEPLER, {"alu.latency_cycles": 4, "memory.latency_cycles": 100, "clock_ghz": 2.0})
    expected = KEPLER.to_dict()
    expected["ops"]["alu"]["latency_cycles"] = 4
    expected["memory"]["latency_cycles"] = 100
    expected["clock_ghz"] = 2.0
    assert changed.to_dict() == expected
    assert changed_gpu(KEPLER, {"ops.alu.interval_cycles": "2/3"}).ops["alu"].interval_cycles == pytest.approx(2 / 3)
    assert changed_gpu(KEPLER, {}) is KEPLER


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"alu.latency_cycles": -1}, "gpu.alu.latency_cycles = -1 on kepler.*ops.alu.latency_cycles"),
        ({"alu.latency": 4}, "ops.alu.latency = 4: unknown key"),
        ({"sm.max_warps": 2}, "sm.schedulers = 4: must be at most sm.max_warps = 2"),
        ({"fp64.latency_cycles": 4}, "kepler has no operation class fp64; it has alu"),
        ({"clock_ghz.x": 4}, "gpu.clock_ghz.x: kepler has no such field"),
        ({"name": "mine"}, "a changed chip keeps its name"),
    ],
)
def test_what_would_be_no_chip(fields, message):
    with pytest.raises(InvalidPoint, match=f"(?s){message}"):
        changed_gpu(KEPLER, fields)


def test_the_resources_of_a_kernel():
    changed = changed_kernel(mix(alpha=4), {"registers_per_thread": 63})
    assert changed.registers_per_thread == 63
    assert changed.body == mix(alpha=4).body
    with pytest.raises(ValueError, match=r"kernel.body: must be one of kernel.registers_per_thread, kernel.shared"):
        changed_kernel(mix(alpha=4), {"body": ()})
    with pytest.raises(ValueError, match=r"kernel.registers_per_thread = 0: "):
        changed_kernel(mix(alpha=4), {"registers_per_thread": 0})


def test_fields_are_axes(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(
        'gpu.name = "kepler"\ngpu.alu.latency_cycles = [9, 18, 36]\nkernel.name = "mix"\n'
        "kernel.registers_per_thread = [16, 64]\nalpha = inf\nwarps = 4\ncycles = 9000\nsms = 1\n"
    )
    plan = Plan.from_toml(file)
    assert plan.grid.axes == ("gpu.alu.latency_cycles", "kernel.registers_per_thread")
    results = sweep(plan).isel(replicate=0)
    assert results["gpu.alu.latency_cycles"].attrs["units"] == "cycles"
    # a warp's chain of adds issues once in a latency: 4 warps, 4 / latency
    ipc = results["ipc"].sel({"op": "alu", "kernel.registers_per_thread": 16})
    assert ipc.values == pytest.approx([4 / 9, 4 / 18, 4 / 36], rel=0.01)
    assert results["valid"].values.tolist() == [[True, False]] * 3  # at most 63 registers per thread
    again = Plan.from_provenance(plan.attributes()["provenance"])
    assert again.record() == plan.record()


def test_a_field_that_no_chip_can_have_is_refused_and_one_that_some_have_is_not():
    with pytest.raises(ValueError, match=r"gpu.alu.latency_cycles = -4 on g80"):
        Plan(gpu=["g80", "kepler"], kernel="mix", **{"gpu.alu.latency_cycles": [4, -4]})
    plan = Plan(gpu=["g80", "kepler"], kernel="mix", warps=8, **SHORT, **{"gpu.memory.bandwidth_gbs": [60.0, 170.0]})
    assert sweep(plan)["valid"].values.tolist() == [[True, False], [True, True]]  # g80 has pins for 86.4 GB/s
