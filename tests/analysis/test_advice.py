"""Advice: predicted and simulated gains against exact values."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim
from tests.support.model_inputs import LOAD, kernel
from warpsim import kernels
from warpsim.analysis.advice import AS_IT_IS, advise
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Instruction, Loop
from warpsim.models import NotCoveredError, volkov
from warpsim.models.sim_2012 import gpuperf

FERMI = load_gpu("fermi")
SMALL = {"sms": 1, "memory": "fixed", "warmup": 2000, "cycles": 6000, "replicates": 2}


@pytest.fixture(scope="module")
def mix():
    return advise(FERMI, kernels.mix(8), warps=4, **{**SMALL, "cycles": 65_700})  # 100 repetitions of a warp


def test_the_first_is_the_original(mix):
    first = mix.isel(change=0)
    assert str(first.change.item()) == AS_IT_IS
    assert (first.gain, first.predicted_s, first.predicted_v, first.benefit) == (1, 1, 1, "")
    assert np.isnan(first.potential)


def test_what_binds_and_what_is_needed(mix):
    assert (mix.limiter, mix.tightest, mix.limiter_s) == ("latency", "memory", "latency")
    assert mix.needed_warps == pytest.approx(volkov.needed_warps(FERMI, kernels.mix(8), fraction=0.9))
    assert (mix.warps, mix.most_warps) == (4, 48)
    assert mix.rate == pytest.approx(4 / (513 + 8 * 18), rel=0.02)
    assert mix.rate_v == pytest.approx(4 / (513 + 8 * 18))
    assert mix.warp_share.sum() == pytest.approx(1)
    assert mix.warp_share.idxmax() == "long_scoreboard"
    assert mix.attrs["per"] == "repetition" and mix.attrs["not_covered"] == ""


def test_gains_of_a_latency_bound_kernel(mix):
    # 4 warps do not disturb each other, so that V's latencies are all there is.
    gains = {str(name): float(gain) for name, gain in zip(mix.change.values, mix.gain.values, strict=True)}
    assert gains["no memory latency"] == pytest.approx(657 / (2 + 8 * 18), rel=0.03)  # some loads meet
    assert gains["twice the ILP"] == pytest.approx(2, rel=0.05)
    assert gains["twice the memory bandwidth"] == pytest.approx(1, abs=0.02)
    # Adds still issue every other cycle, that is 16 for 8.
    assert gains["no arithmetic latency"] == pytest.approx(657 / (513 + 16), rel=0.02)
    np.testing.assert_allclose(mix.gain, mix.predicted_v, rtol=0.08)
    assert ((mix.gain_low <= mix.gain) & (mix.gain <= mix.gain_high)).all()


def test_potentials_are_those_of_s(mix):
    costs = gpuperf.benefits(FERMI, kernels.mix(8), warps=4)
    for name in ("b_memlp", "b_itilp"):
        at = mix.potential[list(mix.benefit.values).index(name)]
        assert at == pytest.approx(float(costs.t_exec / (costs.t_exec - costs[name])))
    assert np.isnan(mix.potential.sel(change="twice the ILP"))
    for name in gpuperf.BENEFITS:
        assert mix.saving.sel(saving_of=name) == pytest.approx(float(costs[name] / costs.t_exec))


def test_bank_conflicts_cost_their_ways():
    # Eight passes for each access, and latency that many warps hide.
    ds = advise(FERMI, kernels.chain("smem", ways=8), warps=48, **SMALL)
    assert ds.limiter == "smem"
    free = ds.sel(change="no bank conflicts")
    assert free.benefit == "b_serial"
    assert free.gain == pytest.approx(8, rel=0.02)
    assert ds.sel(change="twice the smem units").gain == pytest.approx(2, rel=0.02)


def test_a_faster_unit_where_it_binds():
    ds = advise(FERMI, kernels.chain("sfu"), warps=32, **SMALL)
    assert (ds.limiter, ds.limiter_s) == ("sfu", "sfu")
    assert ds.gain.sel(change="twice the sfu units") == pytest.approx(2, rel=0.02)
    assert ds.gain.sel(change="no arithmetic latency") == pytest.approx(1, abs=0.02)


def test_kernels_that_end_are_counted_by_warp():
    ds = advise(FERMI, kernels.vector_add(), warps=8, **SMALL)
    assert ds.attrs["per"] == "warp"
    assert ds.rate.attrs["units"] == "warps/cycle/SM"
    assert ds.gain.sel(change="no memory latency") > 1.5


def test_a_grid_that_ends_keeps_its_blocks():
    launch = Launch(blocks=48, block_warps=2, resident_blocks=4)
    ds = advise(FERMI, kernels.vector_add(), launch=launch, sms=1, memory="fixed", replicates=2)
    assert (ds.warps, ds.most_warps) == (8, 16)
    assert "16 warps per SM" in ds.change.values
    assert ds.gain.sel(change="no memory latency") > 1.5


def test_one_replicate_has_no_interval():
    ds = advise(FERMI, kernels.chain("alu"), warps=8, **{**SMALL, "replicates": 1})
    assert np.isnan(ds.gain_low[1:]).all() and np.isnan(ds.rate_low)
    assert not np.isnan(ds.gain).any()


def test_a_kernel_that_s_does_not_cover_is_reported():
    far = kernels.chain("load", pattern="random")
    ds = advise(FERMI, far, warps=8, **SMALL)
    assert "departure_delay is needed" in ds.attrs["not_covered"]
    assert np.isnan(ds.predicted_s).all() and np.isnan(ds.potential).all() and np.isnan(ds.saving).all()
    assert ds.limiter_s == ""
    assert not np.isnan(ds.predicted_v).any()
    assert advise(FERMI, far, warps=8, departure_delay=20, **SMALL).attrs["not_covered"] == ""


def test_it_is_public():
    assert warpsim.advise is advise


def test_wrong_arguments():
    with pytest.raises(ValueError, match="fraction = 2: must be above 0 and at most 1"):
        advise(FERMI, kernels.mix(8), warps=4, fraction=2, **SMALL)
    with pytest.raises(ValueError, match="cycles = 3: must be larger, since nothing issued in them"):
        advise(FERMI, kernels.mix(0), warps=1, **{**SMALL, "cycles": 3})
    uneven = Conditional(probability=0.5, then=(Instruction("exit"),))
    with pytest.raises(NotCoveredError, match="leave its endless loop"):
        advise(FERMI, kernel(uneven, Loop(body=(LOAD,), trips=None)), warps=4, **SMALL)
