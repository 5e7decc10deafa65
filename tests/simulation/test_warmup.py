"""The derived warm-up: MSER on known series, and the warm-ups of points."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.kernels import Conditional, Instruction, Kernel, Loop, mix
from warpsim.reference.memory import mix as mix64
from warpsim.results.schema import FEW_ITERATIONS
from warpsim.simulation.api import settled, simulate_point
from warpsim.simulation.pilot import LEAST_BATCH, MARGIN, batch_cycles, longest_warmup, pilot_batches, pilots
from warpsim.simulation.point import make_point, replicate_seed
from warpsim.simulation.warmup import mser, window_offset

SMALL = {"sms": 1, "cycles": 10_000}


def brute_force(batches):
    """Returns the truncation that minimizes the squared standard error, from its definition."""
    n = len(batches)
    errors = [sum((y - np.mean(batches[d:])) ** 2 for y in batches[d:]) / (n - d) ** 2 for d in range(n // 2 + 1)]
    return int(np.argmin(errors))


@pytest.mark.parametrize("seed", range(5))
def test_mser_minimizes_the_squared_standard_error(seed):
    generator = np.random.default_rng(seed)
    series = generator.standard_normal(60) + 5 * np.exp(-np.arange(60) / 6)
    assert mser(series) == brute_force(series)


def test_mser_leaves_out_a_transient_and_nothing_else():
    noise = np.random.default_rng(1).standard_normal(100)
    assert mser(np.where(np.arange(100) < 12, 20.0, 0.0) + noise) == pytest.approx(12, abs=2)
    assert mser(noise) <= 25
    assert mser(np.ones(10)) == 0
    assert mser(np.arange(40.0)) == 20  # it never leaves out more than half


def test_a_point_has_one_warmup_for_all_replicates_and_a_given_one_stays():
    point = make_point("kepler", mix(alpha=8), warps=16, replicates=3, **SMALL)
    together, second = simulate_point(point), simulate_point(make_point("kepler", mix(alpha=8), warps=16, **SMALL), first=1)
    warmup = int(together["warmup_cycles"][0])
    assert (together["warmup_cycles"] == warmup).all()
    assert (warmup // batch_cycles(point) - 1) % MARGIN == 0 and warmup % batch_cycles(point) == 0
    assert all(np.array_equal(together[name][1], second[name][0], equal_nan=True) for name in together)
    given = ws.simulate("kepler", mix(alpha=8), warps=16, warmup=700, **SMALL)
    assert given.warmup_cycles.values.tolist() == [700]


def test_windows_of_few_iterations_begin_at_random_times_of_an_iteration():
    """Of 512 adds and a load, some 4900 cycles, a window of 10,000 holds two. Whoever runs the replicates, they begin alike."""
    point = make_point("kepler", mix(alpha=512), warps=4, replicates=12, **SMALL)
    known = settled(point)
    assert known.spread == pytest.approx(512 * 9 + 301, rel=0.02)
    together, apart = simulate_point(point), simulate_point(known.point, streams=known.streams, spread=known.spread)
    begins = together["warmup_cycles"] - known.point.warmup
    assert all(np.array_equal(together[name], apart[name], equal_nan=True) for name in together)
    assert 0 <= begins.min() < known.spread / 3 and 2 / 3 * known.spread < begins.max() < known.spread
    assert begins.tolist() == [window_offset(replicate_seed(known.streams, n), known.spread) for n in range(12)]
    assert settled(make_point("kepler", mix(alpha=8), warps=16, **SMALL)).spread == 0
    assert settled(make_point("kepler", mix(alpha=512), warps=4, warmup=700, **SMALL)).spread == 0


def test_the_begin_of_a_window_has_its_own_stream():
    """mix(mix(seed) - golden), of which the first number counts (docs/model.md, section 6)."""
    seed, golden = 2016, 0x9E3779B97F4A7C15
    state = mix64((mix64(seed) - golden) % 2**64)
    assert window_offset(seed, 1000) == (mix64((state + golden) % 2**64) >> 11) * 1000 // 2**53
    assert window_offset(seed, 0) == 0


def test_the_reference_machine_begins_its_windows_alike():
    point = {"warps": 2, "sms": 1, "cycles": 600, "replicates": 3, "memory": "fixed"}
    compiled, reference = (ws.simulate("kepler", mix(alpha=64), engine=engine, **point) for engine in ("compiled", "reference"))
    assert len(set(compiled.warmup_cycles.values)) == 3
    assert compiled.drop_attrs().equals(reference.drop_attrs())


def test_policies_share_their_random_numbers_whatever_their_warmups():
    seeds = {make_point("kepler", mix(alpha=8), scheduler=policy, **SMALL).streams() for policy in ("lrr", "gto")}
    assert len(seeds) == 1


def test_the_pilot_is_bounded_for_long_and_short_programs():
    for kernel, cycles in ((mix(alpha=512), 100_000), (mix(float("inf")), 100_000), (mix(8, iterations=10**6), 2_000)):
        point = make_point("kepler", kernel, warps=8, cycles=cycles)
        batch, number = batch_cycles(point), pilot_batches(point)
        assert batch >= LEAST_BATCH and 20 <= number <= 200
        assert batch * number <= max(2 * cycles, 20 * LEAST_BATCH)
        assert batch < longest_warmup(point) <= 1.5 * max(2 * cycles, 20 * LEAST_BATCH) + batch


def test_slices_take_several_pilots():
    assert [pilots(make_point("maxwell", mix(alpha=8), sms=sms)) for sms in (1, 3, 8, None)] == [8, 3, 1, 1]


def test_finite_grids_have_neither_warmup_nor_iterations():
    ds = ws.simulate("kepler", ws.kernels.vector_add(), launch=ws.Launch(blocks=8, block_warps=4), sms=1)
    assert ds.warmup_cycles.item() == 0
    assert np.isnan(ds.warp_iterations.item())


def test_iterations_are_those_of_a_warp():
    ds = ws.simulate("kepler", mix(alpha=32), warps=1, memory="fixed", sms=1, warmup=1_000, cycles=100_000)
    period = 301 + 32 * 9
    assert ds.warp_iterations.item() == pytest.approx(100_000 / period, abs=1)


def test_warps_of_an_endless_run_are_out_of_phase_and_resident_from_the_start():
    trace = ws.Trace(issues=(0, 600), occupancy=True)
    ds = ws.simulate("kepler", mix(alpha=0), warps=64, memory="fixed", sms=1, warmup=600, cycles=600, trace=trace)
    first = ds.issue_cycle.values[0][np.unique(ds.issue_slot.values[0], return_index=True)[1]]
    assert len(first) == 64
    assert 0 <= first.min() < 20 and 240 < first.max() < 320  # uniform over the 301 cycles of an iteration
    assert np.histogram(first, 3, (0, 301))[0].min() > 8
    assert ds.occupancy.item() == 64
    together = ws.simulate("kepler", mix(alpha=0), warps=64, memory="fixed", sms=1, warmup=0, cycles=600, trace=trace)
    assert together.issue_cycle.values[0][:64].max() < 100


@pytest.mark.parametrize("warps", [range(8), range(1)])
def test_the_iteration_that_windows_are_shorter_than_is_that_of_the_warps_of_a_block(warps):
    """All warps of a block execute the side of 600 adds, some 5400 cycles, or one of eight does: 750 adds a block, 680 cycles."""
    one = Instruction("alu", dst="a", src=("a",))
    body = (Loop(body=(one, Conditional(then=(one,) * 600, warps=tuple(warps))), trips=None),)
    kernel = Kernel(name="some", inputs=("a",), block_warps=8, body=body)
    point = make_point("kepler", kernel, warps=8, **SMALL)
    known = settled(point)
    issued = simulate_point(known.point)["instructions"].sum() / (1 + 1 + 600 * len(warps) / 8)
    iteration = 8 * 10_000 / issued
    assert known.spread == (pytest.approx(iteration, rel=0.1) if iteration > 10_000 / FEW_ITERATIONS else 0)
