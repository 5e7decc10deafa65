"""The roofline, and what the models share: the listing, the profile, arrays of alpha."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim import kernels, models
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Loop
from warpsim.models import NotCoveredError, roofline
from warpsim.models.parts.profile import profile, sequence


@pytest.mark.parametrize("alpha", [0, 0.25, 1, 8, 16, 128, math.inf])
def test_two_roofs(alpha):
    gpu = load_gpu("gt200")  # its peak is 8 adds a cycle, and nothing else binds
    ds = roofline.throughput(gpu, kernels.mix(alpha), warps=[1, 32])
    loads = min(0.25 / alpha if alpha else math.inf, 0.0277)
    expected = 8 if math.isinf(alpha) else 32 * alpha * loads
    np.testing.assert_allclose(ds.throughput.sel(op="alu"), expected, rtol=2e-3)  # V Table 4.1 has three digits
    assert roofline.bottleneck(gpu, kernels.mix(alpha)) == ("memory" if alpha < 0.25 / 0.0277 else "alu")


def test_ridge():
    gpu = load_gpu("gt200")
    assert roofline.ridge(gpu) == pytest.approx(240 * 1.296 / gpu.memory.bandwidth_gbs)
    intensity = roofline.throughput(gpu, kernels.mix(4), warps=8).operational_intensity
    assert intensity.item() == pytest.approx(4 / 4)  # an add to a byte: each thread adds 4 times and loads 4 bytes


def test_stride_halves_the_slope():
    gpu = load_gpu("fermi")
    near, far = (roofline.throughput(gpu, kernels.mix(1, pattern="stride", stride=s), warps=8).bandwidth for s in (1, 2))
    assert near.item() == pytest.approx(161)
    assert far.item() == pytest.approx(161 / 2)


def test_a_kernel_of_neither_is_not_covered():
    with pytest.raises(NotCoveredError, match="sfu_chain: roofline covers"):
        roofline.throughput(load_gpu("fermi"), kernels.chain("sfu"), warps=8)


def test_execution_time():
    gpu = load_gpu("fermi")
    times = roofline.execution_time(gpu, kernels.mix(math.inf), warps=[0, 1, 8])
    np.testing.assert_allclose(times, [0, 1, 8])
    assert times.attrs["units"] == "cycles"


# The listing


def test_every_name_is_a_model():
    assert len(set(models.NAMES)) == len(models.NAMES)
    for name in models.NAMES:
        module = getattr(models, name)
        assert module is models.load(name)
        assert callable(module.throughput)
        assert name in dir(models)


def test_every_model_broadcasts_and_names_its_results_alike():
    for name in models.NAMES:
        model = models.load(name)
        program = kernels.chain("load") if name == "littles_law" else kernels.mix(8)  # which covers one kind at a time
        ds = model.throughput(load_gpu("fermi"), program, warps=[1, 2, 48])
        assert ds.ipc.dims == ("warps", "op"), name
        assert ds.bandwidth.dims == ("warps",), name
        np.testing.assert_allclose(ds.throughput, 32 * ds.ipc)
        assert name in ds.attrs["source"]


def test_the_page_of_the_models_is_complete():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = {cells[1].strip(" `"): cells[3] for cells in (line.split("|") for line in page.splitlines()) if len(cells) == 6}
    assert sorted(rows.keys() - {"model", "---"}) == sorted(models.NAMES)
    for name in models.NAMES:
        said = {word.split("=")[0] for word in re.findall(r"`([a-z_0-9=]+)", rows[name])} - {"refined"}
        public = {f for f in ("needed_warps", "execution_time", "bottleneck") if hasattr(models.load(name), f)}
        assert public <= said, name
        assert all(hasattr(models.load(name), f) for f in said), name


def test_an_unknown_model():
    with pytest.raises(ValueError, match=r"name = 'best': one of .*volkov"):
        models.load("best")
    with pytest.raises(AttributeError, match="best"):
        models.best  # noqa: B018


def test_over_alpha():
    gpu = load_gpu("kepler")
    ds = models.over_alpha(models.volkov.throughput, gpu, [0, 1, math.inf], warps=[1, 64])
    assert ds.ipc.dims == ("alpha", "warps", "op")
    closed = models.volkov.mix_throughput(gpu, [0, 1, math.inf], [1, 64])
    np.testing.assert_allclose(ds.ipc, closed.ipc)
    needed = models.over_alpha(models.volkov.needed_warps, gpu, [0, 1], fraction=0.9)
    np.testing.assert_allclose(needed, models.volkov.mix_needed_warps(gpu, [0, 1], fraction=0.9))


# The profile


def test_profile_takes_the_mean():
    body = (LOAD, Loop(body=(ADD,), trips=(2, 4)), Conditional(probability=0.25, then=(ADD,), orelse=(BARRIER,)))
    counts = profile(load_gpu("fermi"), kernel(*body)).instructions
    assert counts == pytest.approx({"load": 1, "alu": 3.25, "branch": 1, "barrier": 0.75, "exit": 1})
    leaves = Conditional(probability=0.25, then=(Instruction("exit"),))
    counts = profile(load_gpu("fermi"), kernel(leaves, ADD)).instructions
    assert counts == pytest.approx({"branch": 1, "exit": 1, "alu": 0.75})
    both = Conditional(diverges=True, then=(ADD,), orelse=(ADD, ADD))
    assert profile(load_gpu("fermi"), kernel(Loop(body=(both,), trips=None))).instructions == {"branch": 1, "alu": 3}


def test_profile_of_a_mix():
    of = profile(load_gpu("maxwell"), kernels.mix(4))
    assert of.per == "repetition"
    assert of.instructions == {"alu": 4, "load": 1}
    (adds,), (loads,) = of.arithmetic, of.accesses
    assert (adds.latency, adds.interval, loads.latency, loads.requested_bytes) == (6, 0.25, 368, 128)
    assert 1 / loads.interval == pytest.approx(0.0814, abs=5e-5)  # V Table 4.1


def test_profile_of_caches():
    gpu = load_gpu("fermi")
    load = Instruction("load", dst="r1", access=Access(l1_hit=0.25))
    of = profile(gpu, kernel(load))
    (part,) = of.accesses
    assert part.traffic_bytes == pytest.approx(0.75 * 128)
    assert of.memory_latency == pytest.approx(0.25 * 18 + 0.75 * 513)


def test_sequence():
    program = kernel(Loop(body=(LOAD, Loop(body=(ADD,), trips=2)), trips=2))
    assert [i.op for i in sequence(program, "model")] == [*(["load", "alu", "alu"] * 2), "exit"]
    with pytest.raises(NotCoveredError, match="model does not cover conditionals"):
        sequence(kernel(Conditional(probability=0.5, then=(ADD,))), "model")
    with pytest.raises(NotCoveredError, match="random numbers of trips"):
        sequence(kernel(Loop(body=(ADD,), trips=(1, 2))), "model")
    with pytest.raises(NotCoveredError, match="at most 200000 instructions"):
        sequence(kernel(Loop(body=(Loop(body=(ADD,), trips=10**9),), trips=10**9)), "model")
    with pytest.raises(NotCoveredError, match="tells the warps of a block apart"):
        profile(load_gpu("fermi"), kernels.listing_3_3())


@pytest.mark.parametrize("name", sorted({*models.NAMES} - {"roofline", "pipeline"}))  # the same at any; from 1 warp on
@pytest.mark.parametrize("program", [kernels.mix(8), kernels.chain("load"), kernels.listing_3_2("stores")], ids=lambda k: k.name)
def test_nothing_is_issued_without_warps_and_arrays_are_points(name, program):
    gpu, model = load_gpu("fermi"), models.load(name)
    try:
        over = model.throughput(gpu, program, warps=[0, 4, 8]).ipc.sum("op")
    except NotCoveredError:
        pytest.skip(f"{name} does not cover {program.name}")
    one_by_one = [model.throughput(gpu, program, warps=n).ipc.sum().item() for n in (0, 4, 8)]
    assert over.values.tolist() == pytest.approx(one_by_one, nan_ok=False)
    assert over[0] == 0 and over[1] > 0
