"""Models beside a result: the model's own numbers, at the chips and programs that the provenance names."""

import math

import numpy as np
import pytest

import warpsim as ws
from tests.support.small_plans import small_plan
from warpsim.analysis import at_points as comparison
from warpsim.kernels import mix
from warpsim.models import volkov
from warpsim.sweeps.local import sweep


@pytest.fixture(scope="module")
def results():
    return sweep(small_plan(gpu=["g80", "kepler"], alpha=[1, 8, math.inf], warps=[4, 48]))


def test_throughput_has_the_axes_of_chips_and_programs_and_every_whole_occupancy(results):
    found = comparison.throughput(results)
    assert list(found) == ["basic model", "refined model"]
    for label, refined in comparison.MODELS.items():
        curves = found[label]["throughput"]
        assert dict(curves.sizes) == {"gpu": 2, "alpha": 3, "warps": 48, "op": 8}
        for name, most in (("g80", 24), ("kepler", 64)):
            warps = np.arange(1, min(most, 48) + 1)
            alone = volkov.throughput(ws.load_gpu(name), mix(alpha=8), warps=warps, refined=refined)["throughput"]
            drawn = curves.sel(gpu=name, alpha=8)
            np.testing.assert_allclose(drawn.sel(op="alu", warps=warps), alone.sel(op="alu"))
            assert drawn.sel(warps=slice(most + 1, None)).isnull().all()


def test_values_that_were_selected_are_kept(results):
    part = results.sel(gpu="kepler", alpha=8)
    curve = comparison.throughput(part)["basic model"]["throughput"].sel(op="load")
    assert curve.dims == ("warps",)
    alone = volkov.throughput(ws.load_gpu("kepler"), mix(alpha=8), warps=48)["throughput"].sel(op="load")
    assert float(curve.sel(warps=48)) == pytest.approx(float(alone))


def test_needed_warps_and_their_limit(results):
    basic = comparison.needed_warps(results, 0.5)["basic model"]["needed_warps"]
    assert basic.dims == ("gpu", "alpha")
    for name in ("g80", "kepler"):
        gpu = ws.load_gpu(name)
        for alpha in (1, 8, math.inf):
            needed = volkov.needed_warps(gpu, mix(alpha=alpha), fraction=0.5)
            shown = float(basic.sel(gpu=name, alpha=alpha))
            assert shown == pytest.approx(needed) if needed <= gpu.sm.max_warps else math.isnan(shown)


def test_contention_is_that_of_each_chip(results):
    (curve,) = comparison.contention(results).values()
    kepler = curve.sel(gpu="kepler")
    measured = ws.load_gpu("kepler").memory.contention
    at = float(kepler["bandwidth"][100])
    expected = measured.a_cycles + measured.b_cycles * at / (measured.c_gbs - at)
    assert float(kepler["memory_latency"][100]) == pytest.approx(expected)
    assert kepler["memory_latency"].attrs["units"] == "cycles"


def test_a_single_run_has_its_chip_and_kernel():
    gpu = ws.load_gpu("fermi")
    run = ws.simulate(gpu, mix(alpha=4), warps=8, sms=1, warmup=0, cycles=200)
    needed = comparison.needed_warps(run, 0.9)["refined model"]["needed_warps"]
    assert float(needed) == pytest.approx(volkov.needed_warps(gpu, mix(alpha=4), fraction=0.9, refined=True))


def test_occupancies_per_scheduler_and_warps_of_a_block():
    plan = small_plan(gpu="kepler", warps=None, warps_per_scheduler=[1, 2], block_warps=2, alpha=4)
    curve = comparison.throughput(sweep(plan))["basic model"]["throughput"].sel(op="load")
    assert curve.dims == ("warps_per_scheduler",)
    alone = volkov.throughput(ws.load_gpu("kepler"), mix(alpha=4), warps=[4, 8])["throughput"].sel(op="load")
    np.testing.assert_allclose(curve, alone)


def test_what_cannot_be_compared(results):
    with pytest.raises(ValueError, match="must have one of the dimensions warps, warps_per_scheduler"):
        comparison.throughput(results.isel(warps=0))
    with pytest.raises(ValueError, match="must have the attribute provenance"):
        comparison.contention(results.drop_attrs())
    with pytest.raises(ValueError, match="no point of it fits the chip; the first is gpu=g80, alpha=1, warps=48, scheduler=lrr"):
        comparison.needed_warps(results.sel(gpu=["g80"], warps=[48]))


def test_roofs_are_intensity_and_bounds_of_the_mix(results):
    roofs = comparison.roofs(results.sel(gpu="kepler"), "alu")
    assert roofs["intensity"].dims == ("alpha",)
    assert roofs["intensity"].values == pytest.approx([32 * 1 / 128, 32 * 8 / 128, math.inf])  # a load moves 128 bytes
    gpu = ws.load_gpu("kepler")
    assert float(roofs["arithmetic_roof"]) == pytest.approx(192)  # Kepler's CUDA cores (V Table 2.7)
    assert float(roofs["memory_roof"]) == pytest.approx(gpu.memory.bandwidth_gbs / gpu.clock_ghz / gpu.sms)
    at = roofs.sel(alpha=8)
    model = volkov.throughput(gpu, mix(alpha=8), warps=[1, 64])["throughput"].sel(op="alu")
    assert float(at["warp_roof"]) == pytest.approx(float(model.sel(warps=1)))
    assert float(at["throughput_bound"]) == pytest.approx(float(model.sel(warps=64)))
    with pytest.raises(ValueError, match="op = 'add': g80 has alu"):
        comparison.roofs(results, "add")
    assert comparison.roofs(results)["memory_roof"].dims == ("gpu",)
