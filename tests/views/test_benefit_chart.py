"""The benefit chart: positions of its points and arrows."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.models.sim_2012 import gpuperf
from warpsim.views.plots import benefit_chart

FERMI = load_gpu("fermi")


def drawn(results):
    return benefit_chart(results, Figure().subplots())


def test_points_and_arrows():
    results = gpuperf.benefits(FERMI, kernels.mix(8, "sfu"), warps=8)
    ax = drawn(results)
    before, after = ax.lines[:2]
    assert before.get_xydata().tolist() == [[float(results.t_mem), float(results.t_comp)]]
    assert after.get_xydata().tolist() == [[float(results.t_mem_exposed), float(results.t_comp)]]
    ends = [text.xy for text in ax.texts]
    assert ends[0] == (float(results.t_mem_exposed), float(results.t_comp - results.b_itilp))
    assert ax.get_xlabel() == "cost of memory operations (cycles)"


def test_memory_arrow_goes_left_to_the_ideal_cost():
    results = gpuperf.benefits(FERMI, kernels.mix(0), warps=4)
    ax = drawn(results)
    left = ax.texts[-1]
    assert left.xy[0] == pytest.approx(float(results.t_mem_min))
    assert left.xyann == (float(results.t_mem_exposed), float(results.t_comp))


def test_a_marker_for_each_occupancy():
    ax = drawn(gpuperf.benefits(FERMI, kernels.mix(32), warps=[4, 16]))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "warps = 4" in texts and "warps = 16" in texts
    assert len(texts) == len(set(texts))


def test_wrong_results():
    results = gpuperf.benefits(FERMI, kernels.mix(32), warps=[4, 16])
    with pytest.raises(ValueError, match=r"results: must have t_comp, as results of models.gpuperf.benefits do"):
        drawn(results.drop_vars("t_comp"))
    with pytest.raises(ValueError, match="results: must have at most one dimension, but have warps, alpha"):
        drawn(results.expand_dims(alpha=2).transpose("warps", "alpha"))
