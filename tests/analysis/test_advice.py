"""Advice: predicted and simulated gains against exact values."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim
from tests.support.model_inputs import BARRIER, LOAD, STENCIL, kernel
from warpsim import kernels
from warpsim.analysis.advice import AS_IT_IS, TENTH, advise, quick
from warpsim.analysis.estimates import LONGEST_GRAPH, SIM, VOLKOV, estimates
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Instruction, Loop
from warpsim.models import NotCoveredError, volkov
from warpsim.models.lemeire import pipeline
from warpsim.models.sim_2012 import gpuperf
from warpsim.simulation.point import make_point

FERMI = load_gpu("fermi")
SMALL = {"sms": 1, "memory": "fixed", "warmup": 2000, "cycles": 6000, "replicates": 2}


@pytest.fixture(scope="module")
def mix():
    return advise(FERMI, kernels.mix(8), warps=4, **{**SMALL, "cycles": 65_700})  # 100 repetitions of a warp


def test_the_first_is_the_original(mix):
    first = mix.isel(change=0)
    assert str(first.change.item()) == AS_IT_IS
    assert (first.gain, first.benefit) == (1, "")
    assert (first.predicted == 1).all() and not first.predicted_differs.any()
    assert np.isnan(first.potential)


def test_what_binds_and_what_is_needed(mix):
    assert (mix.limiter, mix.tightest, mix.limiter_sim) == ("latency", "memory", "latency")
    assert mix.estimated_warps.sel(author=VOLKOV) == pytest.approx(volkov.needed_warps(FERMI, kernels.mix(8), fraction=0.9))
    assert (mix.warps, mix.most_warps) == (4, 48)
    assert mix.rate == pytest.approx(4 / (513 + 8 * 18), rel=0.02)
    assert mix.model_rate.sel(model=VOLKOV) == pytest.approx(4 / (513 + 8 * 18))
    assert mix.warp_share.sum() == pytest.approx(1)
    assert mix.warp_share.idxmax() == "long_scoreboard"
    assert mix.attrs["per"] == "repetition" and mix.attrs["not_covered"] == ""


def test_lemeire_et_al_are_asked_about_kernels_that_are_not_too_long(mix):
    lemeire = mix.sel(author="Lemeire et al.")
    assert lemeire.estimated_warps == pytest.approx(pipeline.needed_warps(FERMI, kernels.mix(8), fraction=0.9))
    assert lemeire.estimated_rate == pytest.approx(lemeire.estimated_rate_simulated, rel=0.25)  # L Figure 2
    long = make_point(FERMI, kernels.mix(8, iterations=LONGEST_GRAPH // 9 + 1), warps=4, **SMALL)
    assert "Lemeire et al." not in estimates(long, 0.9) and VOLKOV in estimates(long, 0.9)
    ends = estimates(make_point(FERMI, kernels.vector_add(), warps=8, sms=1), 0.9)["Lemeire et al."]
    warps = ends.launch.resident_blocks * ends.launch.block_warps
    ipc = pipeline.throughput(FERMI, kernels.vector_add(), warps=warps, block_warps=ends.launch.block_warps)["ipc"]
    assert ends.rate == pytest.approx(float(ipc.sel(op="store")))  # one store per warp


def test_gains_of_a_latency_bound_kernel(mix):
    # 4 warps do not disturb each other, so that V's latencies are all there is.
    gains = {str(name): float(gain) for name, gain in zip(mix.change.values, mix.gain.values, strict=True)}
    assert gains["no memory latency"] == pytest.approx(657 / (2 + 8 * 18), rel=0.03)  # some loads meet
    assert gains["twice the ILP"] == pytest.approx(2, rel=0.05)
    assert gains["twice the memory bandwidth"] == pytest.approx(1, abs=0.02)
    # Adds still issue every other cycle, that is 16 for 8.
    assert gains["no arithmetic latency"] == pytest.approx(657 / (513 + 16), rel=0.03)  # more loads meet
    np.testing.assert_allclose(mix.gain, mix.predicted.sel(model=VOLKOV), rtol=0.08)
    assert ((mix.gain_low <= mix.gain) & (mix.gain <= mix.gain_high)).all()


def test_potentials_are_those_of_sim_et_al(mix):
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
    assert (ds.limiter, ds.limiter_sim) == ("sfu", "sfu")
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
    assert any(str(change).startswith("16 warps per SM") for change in ds.change.values)
    assert ds.gain.sel(change="no memory latency") > 1.5


def test_lines_at_which_warps_wait_and_for_which(mix):
    """A repetition of 657 cycles: the first add waits for the load, 513 cycles after its issue, and all others for 18."""
    assert list(mix.line_text.values[1:3]) == ["  load r1 <- r1", "  alu r1 <- r1 # FADD R1, R1, R2"]
    at, caused = (657 * mix[name].sel(state="long_scoreboard").values for name in ("line_share", "line_caused_share"))
    assert at == pytest.approx([0, 0, 512, *[0] * 9])
    assert caused == pytest.approx([0, 512, *[0] * 10])
    assert (657 * mix.line_share.sel(state="wait", line=[1, 3, 9]).values) == pytest.approx([17] * 3)
    np.testing.assert_allclose(mix.line_share.sum("line"), mix.warp_share)


def test_one_replicate_has_no_interval():
    ds = advise(FERMI, kernels.chain("alu"), warps=8, **{**SMALL, "replicates": 1})
    assert np.isnan(ds.gain_low[1:]).all() and np.isnan(ds.rate_low)
    assert not np.isnan(ds.gain).any()


def test_a_kernel_that_sim_et_al_do_not_cover_is_reported():
    far = kernels.chain("load", pattern="random")
    ds = advise(FERMI, far, warps=8, **SMALL)
    assert "departure_delay is needed" in ds.attrs["not_covered"]
    assert np.isnan(ds.predicted.sel(model=SIM)).all() and np.isnan(ds.potential).all() and np.isnan(ds.saving).all()
    assert ds.limiter_sim == ""
    assert not np.isnan(ds.predicted.sel(model=VOLKOV)).any()
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


@pytest.fixture(scope="module")
def stencil():
    """3 loads, 40 adds and one access to shared memory per iteration, on the whole chip, in 2 blocks of 8 warps."""
    return advise("kepler", STENCIL, warps=16, block_warps=8)


def test_the_needed_occupancy_is_simulated(stencil):
    # The models name 15.7 warps, of which two blocks attain 71 %. Four blocks are needed.
    assert (stencil.needed_warps, stencil.needed_warps_low, stencil.needed_warps_high) == (32, 32, 32)
    share = dict(zip(stencil.trial_warps.values.tolist(), stencil.share.values.tolist(), strict=True))
    assert share[16] == pytest.approx(0.71, abs=0.02)
    assert share[24] < 0.9 <= share[32]
    volkov_says = stencil.sel(author=VOLKOV)
    assert float(volkov_says.estimated_warps) == pytest.approx(15.8, abs=0.2)
    assert volkov_says.estimated_launch == 16
    assert volkov_says.estimated_share == share[16]


def test_blocks_of_another_size_may_need_fewer_warps(stencil):
    assert 24 < stencil.fewest_warps <= 32
    assert stencil.fewest_warps % stencil.fewest_block_warps == 0


def test_models_that_contradict_the_simulation_are_marked(stencil):
    at = stencil.sel(author=VOLKOV)
    assert at.estimated_rate / at.estimated_rate_simulated > 1 + TENTH and at.estimate_differs
    more = stencil.sel(change="32 warps per SM", model=VOLKOV)
    assert more.predicted == pytest.approx(1.09, abs=0.01) and more.gain > 1.3
    assert more.predicted_differs and not more.predicted_within
    np.testing.assert_array_equal(stencil.predicted_differs, abs(stencil.predicted / stencil.gain - 1) > TENTH)
    free = stencil.sel(change="no memory latency")
    assert free.gain > 1.1 * free.potential and free.potential_exceeded


def test_no_launch_may_suffice():
    few = advise(FERMI, kernels.chain("load"), warps=2, block_warps=1, **SMALL)  # of which at most 8 fit
    assert np.isnan(few.needed_warps) and few.fewest_warps > 8
    assert f"{int(few.fewest_warps)} warps per SM" in few.change.values
    none = advise("g80", kernel(BARRIER, LOAD), warps=2, block_warps=2, **SMALL)
    assert np.isnan(none.needed_warps) and np.isnan(none.fewest_warps)
    assert f"{int(none.most_warps)} warps per SM, as many as fit" in none.change.values


def test_advice_on_long_warps_counts_after_the_start():
    """At first the memory takes up more requests than it serves; a warm-up of 10,000 cycles gave twice the peak here."""
    pair = [Instruction("load", dst=f"r{i}", src=("a",)) for i in range(2)]
    loop = Loop(body=(*pair, Instruction("alu", dst="r2", src=("r0", "r1"))), trips=60)
    long = kernels.Kernel(name="long", inputs=("a", "r2"), body=(loop,))
    found = advise("rtx4090", long, block_warps=8, sms=2, replicates=2, cycles=20_000)
    assert 0.95 < found.share.max() < 1.05


def test_models_are_asked_about_the_blocks_that_a_small_grid_puts_on_an_sm():
    # 15 SMs have a block of 2 warps each, where 8 blocks would fit.
    arguments = {"memory": "fixed", "replicates": 1}
    grid = advise(FERMI, kernels.vector_add(), launch=Launch(blocks=15, block_warps=2), **arguments)
    assert (grid.warps, grid.limiter, grid.tightest) == (16, "latency", "memory")
    by_volkov = volkov.throughput(FERMI, kernels.vector_add(), warps=2, block_warps=2)
    assert grid.model_rate.sel(model=VOLKOV) == pytest.approx(2 / float(by_volkov.latency_bound))
    assert grid.sel(author=VOLKOV).estimated_rate == grid.model_rate.sel(model=VOLKOV)
    assert grid.predicted.sel(model=VOLKOV, change="no memory latency") > 2


def test_quick_windows():
    point = make_point("fermi", kernels.mix(8))
    assert (quick(point, ()).sms, quick(point, ()).warmup, quick(point, ()).cycles) == (8, None, 20_000)
    long = quick(make_point("kepler", kernels.mix(512)), ())
    assert long.sms is None and 20_000 < long.cycles <= 50_000
    assert quick(point, ("sms", "cycles")) == point
    grid = make_point("fermi", kernels.vector_add(), launch=Launch(blocks=4, block_warps=2))
    assert quick(grid, ()) == grid
