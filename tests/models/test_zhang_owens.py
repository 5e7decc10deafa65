"""The model of Zhang and Owens against V 7.3."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

from tests.support.model_inputs import ADD, BARRIER, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Instruction, Loop
from warpsim.models import NotCoveredError, volkov, zhang_owens


def over_warps(*values):
    return xr.DataArray(list(values), dims="warps", coords={"warps": [1, 8, 32]})


MEASURED = {"alu": over_warps(0.04, 0.25, 0.25), "load": over_warps(0.0023, 0.017, 0.0277)}


@pytest.mark.parametrize("alpha", [0, 0.25, 1, 16, 512, math.inf])
def test_minimum_of_the_measurements(alpha):
    gpu = load_gpu("gt200")
    ds = zhang_owens.throughput(gpu, kernels.mix(alpha), warps=[1, 8, 32], measured=MEASURED)
    alu, mem = 32 * MEASURED["alu"], 32 * MEASURED["load"]  # operations per cycle
    if math.isinf(alpha):
        np.testing.assert_allclose(ds.throughput.sel(op="alu"), alu)
    elif alpha == 0:
        np.testing.assert_allclose(ds.throughput.sel(op="load"), mem)
    else:
        np.testing.assert_allclose(ds.throughput.sel(op="alu"), np.minimum(alu, alpha * mem))


def test_times_that_add():
    ds = zhang_owens.throughput(load_gpu("gt200"), kernels.mix(16), warps=8, measured=MEASURED, times="add")
    assert 1 / ds.ipc.sel(op="load").item() == pytest.approx(16 / 0.25 + 1 / 0.017)


def test_without_measurements_the_refined_model_predicts_them():
    gpu = load_gpu("gt200")
    n = [0, 2, 16, 32]
    ds = zhang_owens.throughput(gpu, kernels.mix(16), warps=n)
    alone = {op: volkov.throughput(gpu, kernels.chain(op), warps=n, refined=True).ipc.sel(op=op) for op in ("alu", "load")}
    np.testing.assert_allclose(ds.ipc.sel(op="load"), np.minimum(alone["alu"] / 16, alone["load"]))
    few = ds.ipc[1] / volkov.throughput(gpu, kernels.mix(16), warps=2).ipc
    assert 1.85 < few.sel(op="load").item() < 1.95  # V 7.3: up to 1.9 at alpha = 16


def test_stores_that_stay_in_l2_count_as_loads():
    gpu = load_gpu("a100")
    stays, leaves = (Instruction("store", src=("r1",), access=Access(l2_kept=kept)) for kept in (1.0, 0.0))
    assert list(zhang_owens.microbenchmarks(gpu, kernel(ADD, stays))) == ["alu", "load"]
    kept, moved = (zhang_owens.throughput(gpu, kernel(ADD, store), warps=[1, 8, 32]) for store in (stays, leaves))
    np.testing.assert_array_equal(kept.ipc, moved.ipc)


def test_microbenchmarks():
    gpu = load_gpu("fermi")
    body = (
        ADD,
        Instruction("smem", dst="r1", src=("r1",), ways=2),
        Instruction("load", dst="r2", access=Access(pattern="stride", stride=2)),
        Instruction("load", dst="r3", access=Access(bytes_per_thread=8)),
        Instruction("store", src=("r2",)),
    )
    chains = zhang_owens.microbenchmarks(gpu, kernel(*body))
    assert list(chains) == ["alu", "smem, 2-way", "load, stride 2", "load, thread 8", "load"]
    loop = chains["load, stride 2"].body[0]
    assert isinstance(loop, Loop) and loop.trips is None
    assert loop.body[0].access == Access(pattern="stride", stride=2)


def test_shared_memory_is_a_third_part():
    gpu = load_gpu("fermi")
    measured = {"alu": over_warps(0.05, 0.4, 1.0), "smem": over_warps(0.03, 0.3, 0.5)}
    ds = zhang_owens.throughput(gpu, kernels.mix(1, other="smem"), warps=[1, 8, 32], measured=measured)
    np.testing.assert_allclose(ds.ipc.sel(op="smem"), [0.03, 0.3, 0.5])
    assert ds.execution_time[1].item() == pytest.approx(8 / 0.3)


def test_missing_measurements_are_errors():
    gpu = load_gpu("gt200")
    with pytest.raises(ValueError, match="measured = alu: must also have load"):
        zhang_owens.throughput(gpu, kernels.mix(16), warps=8, measured={"alu": MEASURED["alu"]})
    with pytest.raises(ValueError, match=r"measured\['load'\]: has no throughput at 4, 5 warps"):
        zhang_owens.throughput(gpu, kernels.mix(16), warps=[4, 5, 8], measured=MEASURED)
    with pytest.raises(ValueError, match="times = 'or'"):
        zhang_owens.throughput(gpu, kernels.mix(16), warps=8, times="or")
    with pytest.raises(NotCoveredError, match="zhang_owens does not cover barrier"):
        zhang_owens.throughput(gpu, kernel(ADD, BARRIER), warps=8)
