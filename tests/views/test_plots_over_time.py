"""Figures of one run over time, from traces that the tests make by hand."""

import math

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import load_kernel, mix
from warpsim.simulation.api import simulate
from warpsim.simulation.trace import Trace
from warpsim.views import plots

CYCLE = {"units": "cycles", "long_name": "cycle"}


@pytest.fixture
def ax():
    return Figure().subplots()


def occupancy_trace(*rows, cycles=100):
    """Returns a trace of occupancy from rows of cycle, SM and number of warps, with padding at the end."""
    table = np.array([*rows, (np.nan, np.nan, np.nan)], float)[None]
    attrs = {"cycle": CYCLE, "sm": {"units": "1"}, "warps": {"units": "warps/SM"}}
    data = {f"occupancy_change_{name}": (("replicate", "change"), table[..., i], attrs[name]) for i, name in enumerate(attrs)}
    return xr.Dataset({**data, "cycles": ("replicate", [float(cycles)])})


def warp_trace(*rows):
    """Returns a trace of warps from rows of start, last cycle, SM, slot and block, with padding at the end."""
    table = np.array([*rows, [np.nan] * 5], float)[None]
    names = ("start", "end", "sm", "slot", "block")
    return xr.Dataset({f"warp_{name}": (("replicate", "warp"), table[..., i]) for i, name in enumerate(names)})


def test_exact_occupancy_is_a_line_of_steps(ax):
    run = occupancy_trace((10, 0, 8), (40, 0, 4), (50, 0, 8))
    assert plots.occupancy_over_time(run, ax) is ax
    steps = ax.patches[0].get_data()
    assert steps.edges.tolist() == [10, 40, 50, 110]
    assert steps.values.tolist() == [8, 4, 8]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (cycles)", "resident warps (warps/SM)")
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert set(texts) == {"SM 0", "mean over time: 7.6"}


def test_several_sms_have_a_mean_between_minimum_and_maximum(ax):
    run = occupancy_trace((0, 0, 8), (0, 1, 6), (20, 1, 2), (60, 0, 4))
    plots.occupancy_over_time(run, ax)
    steps = ax.patches[0].get_data()
    assert steps.edges.tolist() == [0, 20, 60, 100]
    assert steps.values.tolist() == [7, 5, 3]
    band = ax.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (2, 8)
    one = plots.occupancy_over_time(run, Figure().subplots(), sm=1)
    assert one.patches[0].get_data().values.tolist() == [6, 2, 2]


def test_binned_occupancy(ax):
    run = xr.Dataset(
        {
            "occupancy_over_time": (("replicate", "sm", "time"), [[[8.0, 6.0, 7.0], [4.0, 2.0, 3.0]]], {"units": "warps/SM"}),
            "cycles": ("replicate", [50.0]),
        },
        coords={"sm": [0, 1], "time": [0, 20, 40]},
    )
    plots.occupancy_over_time(run, ax)
    steps = ax.patches[0].get_data()
    assert steps.edges.tolist() == [0, 20, 40, 50]
    assert steps.values.tolist() == [6, 4, 5]


def test_bins_of_a_later_replicate_begin_after_its_own_warm_up(ax):
    run = xr.Dataset(
        {
            "occupancy_over_time": (("replicate", "sm", "time"), [[[8.0, 6.0]], [[4.0, 2.0]]], {"units": "warps/SM"}),
            "cycles": ("replicate", [40.0, 40.0]),
            "warmup_cycles": ("replicate", [100.0, 107.0]),
        },
        coords={"sm": [0], "time": [100, 120]},
    )
    plots.occupancy_over_time(run, ax, replicate=1)
    assert ax.patches[0].get_data().edges.tolist() == [107, 127, 147]


def test_errors_for_missing_traces_and_wrong_values(ax):
    with pytest.raises(ValueError, match=r"trace=ws.Trace\(occupancy=True\).*it has cycles$"):
        plots.occupancy_over_time(xr.Dataset({"cycles": ("replicate", [1.0])}), ax)
    with pytest.raises(ValueError, match=r"must have the variable warp_start; it has cycles$"):
        plots.warp_lifelines(xr.Dataset({"cycles": ("replicate", [1.0])}), ax)
    with pytest.raises(ValueError, match="sm = 3: must be one of 0"):
        plots.occupancy_over_time(occupancy_trace((0, 0, 8)), ax, sm=3)
    with pytest.raises(ValueError, match="sm = 3: must be one of 0, 2"):
        plots.warp_lifelines(warp_trace((0, 9, 0, 0, 0), (0, 9, 2, 0, 1)), ax, sm=3)
    with pytest.raises(ValueError, match="replicate = 1: must be an integer from 0 to 0"):
        plots.warp_lifelines(warp_trace((0, 9, 0, 0, 0)), ax, replicate=1)
    with pytest.raises(ValueError, match=r"stop = 0.0: must be after start = 5"):
        plots.warp_lifelines(warp_trace((0, 9, 0, 0, 0)), ax, start=5.0, stop=0.0)
    for start, stop in ((-math.inf, None), (None, math.inf)):
        with pytest.raises(ValueError, match=r"^(start|stop) = -?inf: must be a finite number of cycles"):
            plots.warp_lifelines(warp_trace((0, 9, 0, 0, 0)), ax, start=start, stop=stop)
    with pytest.raises(ValueError, match=r"start = 10: must be before the last cycle, 9"):
        plots.warp_lifelines(warp_trace((0, 9, 0, 0, 0)), ax, start=10)


def test_an_empty_trace_has_a_note():
    for draw, run in ((plots.occupancy_over_time, occupancy_trace()), (plots.warp_lifelines, warp_trace())):
        drawn = draw(run, Figure().subplots())
        assert [text.get_text() for text in drawn.texts] == ["no data"]


def test_the_slot_of_a_single_warp_is_marked_at_a_whole_number(ax):
    plots.warp_lifelines(warp_trace((0, 9, 0, 0, 0)), ax)
    assert [tick for tick in ax.get_yticks() if -0.5 <= tick <= 0.5] == [0]


def test_lifelines_are_bars_from_the_first_to_the_last_cycle_in_the_warps_slots(ax):
    run = warp_trace((0, 9, 0, 0, 0), (0, 19, 0, 1, 0), (5, 9, 1, 0, 1), (30, 39, 0, 0, 2))
    assert plots.warp_lifelines(run, ax) is ax
    boxes = [path.get_extents() for path in ax.collections[0].get_paths()]
    assert [(box.x0, box.x1) for box in boxes] == [(0, 10), (0, 20), (30, 40)]
    assert [(box.y0 + box.y1) / 2 for box in boxes] == [0, 1, 0]
    assert ax.get_ylabel() == "warp slot of SM 0"
    part = plots.warp_lifelines(run, Figure().subplots(), start=15.0, stop=25.0)
    assert len(part.collections[0].get_paths()) == 1
    assert part.get_xlim() == (15, 25)


def test_the_bar_of_a_warp_without_an_end_reaches_to_the_end_of_the_trace(ax):
    plots.warp_lifelines(warp_trace((0, 9, 0, 0, 0), (4, np.nan, 0, 1, 1), (8, 29, 0, 0, 2)), ax)
    assert [path.get_extents().x1 for path in ax.collections[0].get_paths()] == [10, 30, 30]


def test_warps_without_an_end_reach_to_the_end_of_the_run(ax):
    plots.warp_lifelines(
        simulate(load_gpu("kepler"), mix(8), warps=8, sms=1, warmup=100, cycles=400, trace=Trace(warps=True)), ax
    )
    assert ax.get_xlim() == (0, 500)


def test_each_replicate_ends_after_its_own_warm_up():
    kernel, trace = load_kernel("vector_add"), Trace(warps=True)
    run = simulate(load_gpu("kepler"), kernel, warps=8, sms=1, replicates=3, cycles=2_000, trace=trace)
    ends = (run["warmup_cycles"] + run["cycles"]).values.tolist()
    assert len(set(ends)) > 1
    drawn = [plots.warp_lifelines(run, Figure().subplots(), replicate=number) for number in range(3)]
    assert [ax.get_xlim()[1] for ax in drawn] == ends


def test_successive_blocks_alternate_between_dark_and_light(ax):
    order = [(turn, block_slot, warp) for turn in range(3) for block_slot in range(4) for warp in range(2)]
    rows = [(100 * turn, 100 * turn + 90, 0, 2 * block_slot + warp, 7 * turn + block_slot) for turn, block_slot, warp in order]
    plots.warp_lifelines(warp_trace(*rows), ax)
    brightness = ax.collections[0].get_facecolor()[:, :3].mean(axis=1).reshape(3, 4, 2)
    assert (brightness[..., 0] == brightness[..., 1]).all()
    dark = brightness[..., 0] < 0.45
    assert (dark[1:] != dark[:-1]).all()
    assert (dark[:, 1:] != dark[:, :-1]).all()


def test_adjacent_blocks_have_different_colours(ax):
    order = [(turn, block_slot, 30 * turn + 10 * block_slot) for turn in range(6) for block_slot in range(3)]
    rows = [(begin, begin + 25, 0, block_slot, 5 * (6 * block_slot + turn)) for turn, block_slot, begin in order]
    plots.warp_lifelines(warp_trace(*rows), ax)
    colours = ax.collections[0].get_facecolor()
    for a, (begin, end, _, block_slot, _) in enumerate(rows):
        for b, (other, _, _, beside, _) in enumerate(rows):
            if abs(block_slot - beside) == 1 and begin <= other <= end:
                assert tuple(colours[a]) != tuple(colours[b])


def test_states_over_time_are_bars_of_bins(ax):
    cycles = np.array([[[100.0, 300.0], [50.0, 150.0], [20.0, 0.0]]])  # two SMs, bins of 20, 20 and 10 cycles
    run = xr.Dataset(
        {
            "cycles": ("replicate", [50.0]),
            "occupancy": ("replicate", [cycles.sum() / (2 * 50)], {"units": "warps/SM"}),
            "warp_cycles": (("replicate", "state"), cycles.sum(axis=1)),
            "instructions": (("replicate", "op"), [[40.0]]),
            "warp_cycles_over_time": (("replicate", "time", "state"), cycles),
            "instructions_over_time": (("replicate", "time"), [[10.0, 20.0, 10.0]]),
        },
        coords={"state": ["selected", "wait"], "time": ("time", [1000, 1020, 1040], {"units": "cycles", "long_name": "time"})},
    )
    plots.stacked_states(run, ax, x="time")
    heights = {bar.get_label(): [part.get_height() for part in bar] for bar in ax.containers}
    assert heights == {"selected": pytest.approx([2.5, 1.25, 1.0]), "wait": pytest.approx([7.5, 3.75, 0.0])}
    assert ax.get_xlabel() == "time (cycles)"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1000", "1020", "1040"]
    each = plots.stacked_states(run, Figure().subplots(), x="time", per="instruction")
    assert [part.get_height() for part in each.containers[1]] == [30, 7.5, 0]
    with pytest.raises(ValueError, match="must have the variable warp_cycles_over_time; it has cycles"):
        plots.stacked_states(run.drop_vars("warp_cycles_over_time"), ax, x="time")


def test_states_over_time_of_replicates_of_different_lengths():
    grid = Launch(blocks=40, block_warps=4)
    trace = Trace(states=20, occupancy=20)
    run = simulate(load_gpu("kepler"), load_kernel("vector_add"), launch=grid, sms=1, replicates=3, trace=trace)
    missing = run["warp_cycles_over_time"].isnull().any(["time", "state"])
    assert missing.any() and not missing.all()
    for shown in (run, run.isel(replicate=[0]), run.isel(replicate=0)):
        bars = plots.stacked_states(shown, Figure().subplots(), x="time").containers
        heights = np.sum([[part.get_height() for part in bar] for bar in bars], axis=0)
        occupancy, cycles = shown["occupancy_over_time"].isel(sm=0), shown["cycles"] - shown["time"]
        cycles = cycles.clip(0, float(shown["time"][1]))
        if "replicate" in shown.dims:
            occupancy = occupancy.weighted(cycles).mean("replicate")
        np.testing.assert_allclose(heights, occupancy.fillna(0.0))


def test_many_bins_are_areas_without_frames(ax):
    trace = Trace(states=100)
    run = simulate(load_gpu("kepler"), mix(8), warps=4, sms=1, warmup=100, cycles=400, trace=trace)
    bars = plots.stacked_states(run, ax, x="time").containers[0]
    assert {(bar.get_width(), bar.get_linewidth()) for bar in bars} == {(1.0, 0.0)}
    assert all(swatch.get_linewidth() > 0 for swatch in ax.get_legend().get_patches())  # selected is white
