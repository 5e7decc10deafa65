"""experiments/prior_models: its analysis of results, and the closed forms of V chapter 7."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from warpsim.cli.experiment import experiments_dir
from warpsim.hardware.gpu import load_gpu
from warpsim.models import volkov


@pytest.fixture(scope="module")
def estimates():
    file = Path(experiments_dir()) / "prior_models" / "estimates.py"
    spec = importlib.util.spec_from_file_location("prior_models_estimates", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hong_and_kim_on_gt200(estimates):
    n = np.arange(1, 33)  # V 7.1
    time = np.where(n <= 434 / 132 + 1, 434 + 4 * 33, 4 * n * 33)
    np.testing.assert_allclose(estimate_of(estimates, "hong_kim", "gt200", 32, n), 32 * 33 * n / time)


@pytest.mark.parametrize(("chip", "alpha", "mwp_peak_bw"), [("fermi", 32, 30.7), ("kepler", 32, 40.3), ("maxwell", 64, 29.9)])
def test_sim_et_al(estimates, chip, alpha, mwp_peak_bw):
    gpu = load_gpu(chip)
    latency, alu = gpu.memory.latency_cycles, gpu.ops["alu"].latency_cycles
    n = np.arange(1, gpu.sm.max_warps + 1)
    cpi = np.maximum(alu / n, 1 / gpu.issue_ipc)  # V 7.4
    t_comp = (alpha + 1) * n * cpi
    cwp, mwp = np.minimum(n, 1 + latency / ((alpha + 1) * cpi)), np.minimum(n, mwp_peak_bw)
    t_mem = n * latency / np.minimum(mwp, np.maximum(1, cwp - 1))
    time = np.maximum(t_comp, t_mem + np.where(cwp > mwp, 0, t_comp / n))
    estimated = estimate_of(estimates, "sim", chip, alpha, n)
    np.testing.assert_allclose(estimated, 32 * n * (alpha + 1) / time, rtol=5e-3)


def estimate_of(estimates, name, chip, alpha, warps):
    return estimates.estimate(name, load_gpu(chip), [alpha], warps).isel(alpha=0).values


def made_up_results():
    """Returns results in which each policy is better at one occupancy, and 3 warps per scheduler are invalid."""
    values = np.array([[[1.0, 3.0], [6.0, 2.0], [np.nan, np.nan]]] * 2)[..., None] * np.array([0.9, 1.1])
    return xr.Dataset(
        {"throughput": (("gpu", "alpha", "warps_per_scheduler", "scheduler", "replicate", "op"), values[None, ..., None])},
        coords={
            "gpu": ["fermi"],
            "alpha": [1.0, np.inf],
            "warps_per_scheduler": [1, 2, 3],
            "warps": (("gpu", "warps_per_scheduler"), [[2, 4, 6]]),
            "scheduler": ["lrr", "gto"],
            "op": ["alu"],
        },
    )


def test_the_better_policy_is_used(estimates):
    simulated = estimates.simulated(made_up_results(), load_gpu("fermi"))
    assert simulated.dims == ("alpha", "warps", "replicate")
    np.testing.assert_allclose(simulated.mean("replicate"), [[3, 6]] * 2)
    np.testing.assert_array_equal(simulated.warps, [2, 4])


def test_quotients_and_their_extremes(estimates):
    gpu = load_gpu("fermi")
    simulated = estimates.simulated(made_up_results(), gpu)
    ratio = estimates.quotients("basic", gpu, simulated)
    assert ratio.alpha.values == [1.0]  # V 7.9: from 1 to 512
    expected = 32 * 2 * 2 / (513 + 18) / np.array([2.7, 3.3])
    np.testing.assert_allclose(ratio.sel(alpha=1, warps=2), expected)
    np.testing.assert_allclose(estimates.extreme(ratio, "largest"), expected)
    np.testing.assert_allclose(estimates.extreme(ratio, "smallest"), expected)  # both points increase by the same factor


def test_needed(estimates):
    gpu = load_gpu("maxwell")
    n = np.arange(1, 65)
    throughput = estimates.estimate("basic", gpu, [1, 49, 512], n)
    needed = estimates.needed(throughput, gpu)
    np.testing.assert_array_equal(needed, np.ceil(volkov.mix_needed_warps(gpu, [1, 49, 512], fraction=0.9)))
    assert np.isnan(estimates.needed(throughput.sel(warps=[1, 2]), gpu)).all()
