"""Figures of sweeps: curves, labels, defaults and errors."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.support.small_plans import small_plan
from warpsim.analysis import at_points
from warpsim.hardware.residency import Launch
from warpsim.results.schema import STATES
from warpsim.results.statistics import needed_warps
from warpsim.simulation.api import simulate
from warpsim.simulation.trace import Trace
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.views import plots
from warpsim.views.plots.curves import draw_model
from warpsim.views.report import write_report
from warpsim.views.timeline import write_timeline


@pytest.fixture(scope="module")
def results():
    return sweep(small_plan(gpu="kepler", alpha=[0, 1, 8, math.inf], warps=[4, 16, 48, 64], cycles=1500))


@pytest.fixture
def ax():
    return Figure().subplots()


def curves(ax: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Label of each curve in the legend -> its x and y."""
    data = {}
    for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
        line = handle if hasattr(handle, "get_xdata") else handle.lines[0]
        data[label] = (np.asarray(line.get_xdata()), np.asarray(line.get_ydata()))
    return data


def test_throughput_vs_warps(results, ax):
    chosen = results.sel(alpha=8)
    assert plots.throughput_vs_warps(chosen, ax, op="alu") is ax
    drawn = curves(ax)
    assert set(drawn) == {"scheduler lrr", "scheduler gto"}
    x, y = drawn["scheduler gto"]
    np.testing.assert_array_equal(x, [4, 16, 48, 64])
    np.testing.assert_allclose(y, chosen["throughput"].sel(op="alu", scheduler="gto").mean("replicate"))
    assert ax.get_xlabel() == "occupancy (warps/SM)"
    assert ax.get_ylabel() == "alu throughput (ops/cycle/SM)"


def test_models_are_drawn_as_curves(results, ax):
    chosen = results.sel(alpha=8)
    model = chosen.mean("replicate").sel(scheduler="lrr")
    plots.throughput_vs_warps(chosen, ax, op="load", models={"a model": model})
    np.testing.assert_allclose(curves(ax)["a model"][1], model["throughput"].sel(op="load"))


def test_curves_differ_by_marker_and_line_style(results, ax):
    plots.throughput_vs_warps(results.isel(scheduler=0), ax, op="alu")
    lines = [container.lines[0] for container in ax.containers]
    assert len(lines) == 4
    assert len({line.get_marker() for line in lines}) == 4
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-.", ":"]


def test_too_many_curves_are_refused(results, ax):
    wanted = "at most 7 curves, but alpha: 4, scheduler: 2 make 8; select some first, by .sel, or by --where alpha=0.0,1.0"
    with pytest.raises(ValueError, match=wanted):
        plots.throughput_vs_warps(results, ax, op="alu")


def test_unknown_operation_class(results, ax):
    with pytest.raises(ValueError, match="op = 'add': must be one of alu, sfu"):
        plots.throughput_vs_warps(results, ax, op="add")


def test_latency_vs_bandwidth(results, ax):
    chosen = results.sel(alpha=1)
    assert plots.latency_vs_bandwidth(chosen, ax) is ax
    x, y = curves(ax)["scheduler lrr"]
    np.testing.assert_allclose(x, chosen["bandwidth"].sel(scheduler="lrr").mean("replicate"))
    np.testing.assert_allclose(y, chosen["memory_latency"].sel(scheduler="lrr").mean("replicate"))
    assert ax.get_xlabel() == "memory bandwidth of the chip (GB/s)"
    assert ax.get_ylabel() == "mean memory latency (cycles)"


def test_needed_warps_vs_alpha(results, ax):
    assert plots.needed_warps_vs_alpha(results, ax, fraction=0.3) is ax
    expected = needed_warps(results, 0.3)["needed_warps"].sel(scheduler="gto")
    x, y = curves(ax)["scheduler gto"]
    np.testing.assert_array_equal(y, expected)
    assert ax.get_xscale() == "log"
    assert list(x[1:3]) == [1, 8]
    assert 0 < x[0] < 1 and 8 < x[3] < math.inf
    ticks = dict(zip(ax.get_xticks(), (text.get_text() for text in ax.get_xticklabels()), strict=True))
    assert ticks[x[0]] == "0" and ticks[x[3]] == "∞" and ticks[8.0] == "8"
    assert np.isfinite(y).any()


def test_a_point_of_a_model_without_neighbours_is_drawn(ax):
    """A line shows nothing of it."""
    line = xr.DataArray([3.0, np.nan, 5.0, 6.0], dims="warps", coords={"warps": [4, 8, 16, 32]})
    draw_model(ax, 0, "model", [(line["warps"].values, line.values, line)], [])
    dashes = [one for one in ax.get_lines() if one.get_marker() == "_"]
    assert [(list(one.get_xdata()), list(one.get_ydata())) for one in dashes] == [([4], [3.0])]


def test_the_legend_mentions_gaps_of_needed_warps_once(results, ax):
    peak = results["peak_fraction"]  # of alpha = 8 no occupancy attains the peak
    results = results.assign(peak_fraction=xr.where(results.alpha == 8, 0.9, 1.0) * peak / peak.max("warps"))
    most = results["peak_fraction"].mean("replicate").max("warps").round(9)
    assert (most < 1).all("scheduler").values.tolist() == [False, False, True, False]
    plots.needed_warps_vs_alpha(results, ax, fraction=1.0)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["scheduler lrr", "scheduler gto", "gap: nothing attains 100%"]
    half_done = plots.needed_warps_vs_alpha(results.where(results.alpha == 0), Figure().subplots(), fraction=0.3)
    assert len(half_done.get_legend().get_texts()) == 2  # a missing point is no gap
    never = plots.needed_warps_vs_alpha(results.sel(alpha=[8]), Figure().subplots(), fraction=1.0)
    assert [text.get_text() for text in never.texts] == ["no simulated point attains 100%"]
    assert never.get_ylim()[0] == 0 and not len(never.get_yticks())
    model = xr.Dataset({"needed_warps": ("alpha", [1.0, math.nan])}, coords={"alpha": [0.5, 16.0]})
    with_model = plots.needed_warps_vs_alpha(results, Figure().subplots(), fraction=0.1, models={"a model": model})
    assert with_model.get_legend().get_texts()[-1].get_text() == "gap: nothing attains 10%"


def test_needed_warps_of_one_replicate_have_no_bars(results):
    def bars(chosen, fraction=0.3):
        drawn = plots.needed_warps_vs_alpha(chosen, Figure().subplots(), fraction=fraction)
        segments = [container.lines[2][0].get_segments() for container in drawn.containers]
        return sum(len(segment) > 0 for of_curve in segments for segment in of_curve)

    assert bars(results) > 0
    assert bars(results.isel(replicate=[0])) == bars(results.isel(replicate=0)) == 0


def test_needed_warps_of_models_may_be_given_or_computed(results, ax):
    computed = results.isel(scheduler=0).mean("replicate")
    given = xr.Dataset({"needed_warps": ("alpha", [1.0, 2.0])}, coords={"alpha": [0.5, 16.0]})
    plots.needed_warps_vs_alpha(results, ax, fraction=0.3, models={"computed": computed, "given": given})
    drawn = curves(ax)
    np.testing.assert_array_equal(drawn["computed"][1], needed_warps(computed, 0.3)["needed_warps"])
    np.testing.assert_array_equal(drawn["given"][0], [0.5, 16.0])


def test_plot_chooses_occupancy_and_policies(results, ax):
    assert plots.plot(results.sel(alpha=8), ax) is ax
    assert set(curves(ax)) == {"scheduler lrr", "scheduler gto"}
    assert ax.get_xlabel() == "occupancy (warps/SM)"
    assert ax.get_ylabel() == "largest fraction of a hardware\nthroughput limit"


def test_plot_of_a_variable_by_state(results, ax):
    chosen = results.sel(alpha=8, scheduler="gto")
    plots.plot(chosen.isel(state=slice(0, 3)), ax, y="warp_cycles", x="warps", hue="state")
    assert set(curves(ax)) == {"state selected", "state not_selected", "state wait"}


def test_plot_of_needed_warps(results, ax):
    plots.plot(results, ax, y="needed_warps")
    assert ax.get_xscale() == "log"
    assert len(curves(ax)) == 2


def test_plot_over_policies(results, ax):
    plots.plot(results.sel(alpha=8), ax, x="scheduler", hue="warps")
    assert len(curves(ax)) == 4


def test_a_figure_of_results_on_disk(tmp_path, ax):
    plan = small_plan(alpha=[1, 2])
    on_disk = sweep(plan, tmp_path / "out.zarr").sel(gpu="kepler")
    plots.plot(on_disk, ax, y="needed_warps")
    plots.plot(on_disk.sel(alpha=1, warps=8), ax, x="scheduler", y="bandwidth")
    ax.figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": "ipcs"}, "y = 'ipcs': must be needed_warps or one of cycles"),
        ({"x": "gpu"}, "x = 'gpu': must be one of alpha, warps, scheduler"),
        ({"hue": "memory"}, "hue = 'memory': must be one of alpha, warps, scheduler"),
        ({}, r"select one value of alpha \(0.0, 1.0, 8.0, inf\), by .sel, or by --where alpha=0.0; or make it x or hue"),
    ],
)
def test_wrong_requests(results, ax, arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.plot(results, ax, **arguments)


def test_a_selection_has_no_occupancies_of_other_chips():
    both = sweep(small_plan(warps="multiples of schedulers up to 6"))
    assert both["warps"].values.tolist() == [1, 2, 3, 4, 5, 6]
    assert plots.select(both, {"gpu": "kepler"})["warps"].values.tolist() == [4]
    assert plots.select(both, {"gpu": "g80"})["warps"].values.tolist() == [1, 2, 3, 4, 5, 6]
    assert plots.select(both, {"gpu": "kepler", "warps": [3, 4]})["warps"].values.tolist() == [3, 4]
    assert plots.select(both.assign(valid=both["valid"] & False), {"gpu": "kepler"}).sizes["warps"] == 6
    xr.testing.assert_identical(plots.select(both, {}), both)


def test_select(results):
    chosen = plots.select(results, {"alpha": 8, "scheduler": "gto"})
    xr.testing.assert_identical(chosen, results.sel(alpha=8, scheduler="gto"))
    xr.testing.assert_identical(plots.select(results, {"alpha": 8, "scheduler": "GTO"}), chosen)
    grown = results.isel(warps=[1, 3, 0, 2], alpha=[2, 0, 1, 3])
    xr.testing.assert_identical(plots.select(grown, {"scheduler": "gto"}), plots.select(results, {"scheduler": "gto"}))
    several = plots.select(results, {"alpha": [8, 0], "scheduler": "gto"})
    xr.testing.assert_identical(several, results.sel(alpha=[8, 0], scheduler="gto"))
    with pytest.raises(ValueError, match=r"alpha = 3: must be one of 0.0, 1.0, 8.0, inf"):
        plots.select(results, {"alpha": [8, 3]})
    with pytest.raises(ValueError, match="ilp: must be one of the axes alpha, warps"):
        plots.select(results, {"ilp": 1})
    with pytest.raises(ValueError, match=r"alpha = 3: must be one of 0.0, 1.0, 8.0, inf"):
        plots.select(results, {"alpha": 3})
    long = results.isel(alpha=[0] * 300).assign_coords(alpha=np.arange(300))
    with pytest.raises(ValueError, match=r"alpha = 300: must be one of 0-299$"):
        plots.select(long, {"alpha": 300})
    with pytest.raises(ValueError, match=r"alpha = 3: must be one of 0\.5, .*, 9\.5, \.\.\., 290\.5, .*, 299\.5$"):
        plots.select(long.assign_coords(alpha=np.arange(300) + 0.5), {"alpha": 3})
    with pytest.raises(ValueError, match=r"must be one of .*, did you mean 'gto'\?"):
        plots.select(results, {"scheduler": "gtoo"})


def test_numbers_among_names_are_selected_as_numbers(results):
    fractions = results.assign_coords(alpha=["1/2", "1", "7/3", "2.5"])
    for wanted, text in ((1, "1"), (1.0, "1"), ("1", "1"), (2.5, "2.5"), ("7/3", "7/3")):
        assert plots.select(fractions, {"alpha": wanted})["alpha"].item() == text
    assert plots.select(fractions, {"alpha": ["7/3", 1]})["alpha"].values.tolist() == ["7/3", "1"]
    for wanted in (2, True):
        with pytest.raises(ValueError, match=f"alpha = {wanted}: must be one of 1/2, 1, 7/3, 2.5"):
            plots.select(fractions, {"alpha": wanted})


def test_stacked_states_add_up_to_the_occupancy(results, ax):
    chosen = results.sel(alpha=8, scheduler="gto")
    assert plots.stacked_states(chosen, ax) is ax
    bars = {bar.get_label(): np.array([part.get_height() for part in bar]) for bar in ax.containers}
    assert {"selected", "long scoreboard"} <= set(bars)
    np.testing.assert_allclose(sum(bars.values()), chosen["occupancy"].mean("replicate"))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["4", "16", "48", "64"]
    cycles = chosen["warp_cycles"].mean("replicate")
    for per, whole in (("share", cycles.sum("state")), ("instruction", chosen["instructions"].mean("replicate").sum("op"))):
        drawn = plots.stacked_states(chosen, Figure().subplots(), per=per)
        bars = {bar.get_label(): np.array([part.get_height() for part in bar]) for bar in drawn.containers}
        np.testing.assert_allclose(bars["selected"], cycles.sel(state="selected") / whole)
    with pytest.raises(ValueError, match="per = 'warp': must be one of occupancy, instruction, share"):
        plots.stacked_states(chosen, ax, per="warp")


def test_missing_occupancies_have_no_bar_and_no_mark(results, ax):
    chosen = results.sel(alpha=8, scheduler="gto")
    plots.stacked_states(chosen.where(chosen.warps != 16), ax)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["4", "48", "64"]
    assert {len(bar) for bar in ax.containers} == {3}


def test_states_differ_by_hatch_and_a_single_point_is_a_single_bar(results, ax):
    plots.stacked_states(results.sel(alpha=8, scheduler="gto", warps=64), ax, per="share")
    assert {len(bar) for bar in ax.containers} == {1}
    assert sum(bar[0].get_height() for bar in ax.containers) == pytest.approx(1.0)
    hatches = [bar[0].get_hatch() for bar in ax.containers]
    assert len(set(hatches)) == len(hatches) > 2


def test_all_states_look_different(results, ax):
    point = results.sel(alpha=8, scheduler="gto", warps=64)
    everything = point["warp_cycles"].sum("state") / len(STATES)
    plots.stacked_states(point.assign(warp_cycles=everything.expand_dims(state=list(STATES), axis=-1)), ax)
    looks = [(bar[0].get_hatch(), bar[0].get_facecolor()) for bar in ax.containers]
    assert len({hatch for hatch, _ in looks}) == len(looks) == len(STATES)
    assert all(one[1] != other[1] for one, other in itertools.pairwise(looks))


def test_latency_distribution_shows_the_quantiles(results, ax):
    chosen = results.sel(alpha=1)
    assert plots.latency_distribution(chosen, ax) is ax
    boxes = [patch.get_path().vertices[:, 1] for patch in ax.patches]
    assert len(boxes) == 8  # four occupancies, two policies
    quantiles = chosen["memory_latency_quantile"].sel(scheduler="lrr", warps=64).mean("replicate")
    box = boxes[3]
    assert box.min() == pytest.approx(float(quantiles.sel(quantile=0.25)))
    assert box.max() == pytest.approx(float(quantiles.sel(quantile=0.75)))
    assert ax.get_ylabel() == "latency of single loads (cycles)"
    with pytest.raises(ValueError, match=r"quantile: must include 0.05, 0.25, 0.5, 0.75, 0.95; got 0.5$"):
        plots.latency_distribution(chosen.sel(quantile=[0.5]), ax)


def test_heatmap_of_any_two_axes(results, ax):
    chosen = results.sel(scheduler="gto")
    assert plots.heatmap(chosen, ax) is ax
    (mesh,) = ax.collections
    np.testing.assert_allclose(mesh.get_array(), chosen["peak_fraction"].mean("replicate").values)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("occupancy (warps/SM)", "arithmetic instructions per other\ninstruction")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "1", "8", "∞"]
    assert len(ax.texts) == 16
    other = plots.heatmap(results.sel(alpha=8), Figure().subplots(), x="scheduler", hue="warps", y="bandwidth")
    assert (other.get_xlabel(), other.get_ylabel()) == ("scheduling policy", "occupancy (warps/SM)")
    holes = plots.heatmap(chosen.where(chosen.warps < 64), Figure().subplots())
    assert len(holes.texts) == 12


def test_roofline_has_points_at_their_intensity_and_roofs_at_their_occupancy(results, ax):
    chosen = results.sel(scheduler="gto")
    values = {"intensity": [0, 0.25, 2, np.inf], "warp_roof": [0, 0.1, 0.5, 2], "throughput_bound": [0, 4, 32, 128]}
    roofs = xr.Dataset({name: ("alpha", value) for name, value in values.items()}, coords={"alpha": chosen["alpha"].values})
    roofs = roofs.assign(arithmetic_roof=64.0, memory_roof=16.0)
    roofs["intensity"].attrs = {"units": "ops/byte", "long_name": "intensity"}
    assert plots.roofline(chosen, ax, roofs=roofs) is ax
    x, y = curves(ax)["roof of memory, arithmetic"]
    assert x.tolist() == [0.125, 4, 8] and y.tolist() == [2, 64, 64]
    x, y = curves(ax)["16 warps per SM"]
    assert x[1:3].tolist() == [0.25, 2] and np.isnan(y[[0, 3]]).all()
    np.testing.assert_allclose(y[1:3], chosen["throughput"].sel(op="alu", warps=16, alpha=[1, 8]).mean("replicate"))
    lines = [line.get_ydata() for line in ax.get_lines()]
    assert any(np.allclose(line[1:3], [1.6, 8]) for line in lines if len(line) == 4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("intensity (ops/byte)", "alu throughput (ops/cycle/SM)")
    assert "not shown: alpha 0, ∞" in [text.get_text() for text in ax.get_legend().get_texts()]
    fewer = plots.roofline(chosen.where(chosen.warps < 64), Figure().subplots(), roofs=roofs)
    shown = {text for text in curves(fewer) if "warps per SM" in text}
    assert shown == {"4 warps per SM", "16 warps per SM", "48 warps per SM"}
    policies = plots.roofline(results.sel(warps=16), Figure().subplots(), roofs=roofs)
    assert {"scheduler lrr", "scheduler gto"} <= set(curves(policies))
    with pytest.raises(ValueError, match="must have the variable intensity; it has warp_roof"):
        plots.roofline(chosen, ax, roofs=roofs.drop_vars("intensity"))


@pytest.mark.parametrize(
    ("draw", "arguments", "message"),
    [
        (plots.heatmap, {"alpha": 8, "scheduler": "gto"}, "peak_fraction must have two axes with several values"),
        (plots.heatmap, {}, r"select one value of scheduler \(lrr, gto\)"),
        (plots.stacked_states, {"alpha": 8}, r"select one value of scheduler \(lrr, gto\), by .*; or make it x$"),
        (plots.latency_distribution, {"scheduler": "gto"}, r"select one value of alpha \(0.0, 1.0, 8.0, inf\)"),
    ],
)
def test_other_axes_with_several_values_are_refused(results, ax, draw, arguments, message):
    with pytest.raises(ValueError, match=message):
        draw(results.sel(arguments), ax)


@pytest.mark.parametrize("draw", [plots.heatmap, plots.stacked_states, plots.latency_distribution])
def test_missing_axes_are_refused(results, ax, draw):
    with pytest.raises(ValueError, match="x = 'ilp': must be one of alpha, warps"):
        draw(results.sel(scheduler="gto"), ax, x="ilp")


def test_every_kind_is_a_function_with_a_line_of_help_and_fits_a_column():
    for name, kind in plots.KINDS.items():
        assert kind.text.endswith((".", ")")), name
        assert kind.size[0] == 3.4 and kind.size[1] <= 5


def test_unknown_kinds_and_options(results, ax):
    with pytest.raises(ValueError, match="kind = 'pie': must be one of lines, throughput"):
        plots.draw("pie", results, ax)
    with pytest.raises(ValueError, match="fraction: is not an option of kind throughput; it has op, models"):
        plots.draw("throughput", results, ax, fraction=0.5)


def test_errors_list_the_variables_and_dimensions_that_exist(results, ax):
    with pytest.raises(ValueError, match=r"must have the variable memory_latency; it has ipc, bandwidth$"):
        plots.latency_vs_bandwidth(results[["ipc", "bandwidth"]], ax)
    with pytest.raises(ValueError, match="must have one of the dimensions warps, warps_per_scheduler; got "):
        plots.latency_vs_bandwidth(results.isel(warps=0), ax)


def test_an_empty_figure_of_needed_warps_says_so_and_has_no_ticks(results, ax):
    plots.plot(results.assign(peak_fraction=results["peak_fraction"] * 0.1), ax, y="needed_warps")
    assert [text.get_text() for text in ax.texts] == ["no simulated point attains 90%"]
    assert not len(ax.get_yticks())
    model = xr.Dataset({"needed_warps": ("alpha", [4.0, 8.0])}, coords={"alpha": [0.5, 16.0]})
    low = results.assign(peak_fraction=results["peak_fraction"] * 0.1)
    with_model = plots.needed_warps_vs_alpha(low, Figure().subplots(), models={"a model": model})
    assert [text.get_text() for text in with_model.texts] == ["no simulated point attains 90%"]
    assert len(with_model.get_yticks())


@pytest.mark.parametrize("y", ["peak_fraction", "ipc", "memory_latency", "needed_warps"])
def test_lines_start_at_0(results, ax, y):
    chosen = results.sel(scheduler="gto")
    chosen = chosen.sel(op="load") if y in chosen and "op" in chosen[y].dims else chosen
    plots.plot(chosen, ax, y=y, hue=None if y == "needed_warps" else "alpha")
    assert ax.get_ylim()[0] == 0


def test_missing_points_are_left_out_and_an_empty_result_has_a_note(results, ax):
    chosen = results.sel(alpha=8)
    half = chosen.where(chosen.warps <= 16)
    plots.throughput_vs_warps(half, ax)
    assert np.isfinite(curves(ax)["scheduler lrr"][1]).tolist() == [True, True, False, False]
    for kind in ("throughput", "latency", "distribution"):
        empty = plots.draw(kind, chosen.where(False), Figure().subplots())
        assert [text.get_text() for text in empty.texts] == ["no data"]
    assert plots.throughput_vs_warps(chosen.where(False), Figure().subplots()).get_xlim() == (4, 64)


def test_models_with_several_curves_have_the_colours_of_their_simulated_curves(results, ax):
    chosen = results.sel(scheduler="gto", alpha=[1, 8])
    plots.throughput_vs_warps(chosen, ax, models={"a model": chosen.mean("replicate").isel(alpha=[1])})
    np.testing.assert_allclose(curves(ax)["a model"][1], chosen["throughput"].sel(op="load", alpha=8).mean("replicate"))
    both = plots.throughput_vs_warps(chosen, Figure().subplots(), models={"a model": chosen.mean("replicate")})
    drawn = [line for line in both.get_lines() if line.get_marker() == "None" and line.get_alpha()]
    assert [line.get_color() for line in drawn] == [c.lines[0].get_color() for c in both.containers]
    assert [text.get_text() for text in both.get_legend().get_texts()].count("a model") == 1


def test_needed_warps_of_kernels_without_alpha(ax):
    plan = Plan(gpu="kepler", kernel=["load_chain", "add_chain"], warps=[4, 16, 64], scheduler=["lrr", "gto"], sms=1, cycles=1500)
    kernels = sweep(plan)
    models = {"Volkov": at_points.needed_warps(kernels, 0.3)["Volkov"]}
    plots.needed_warps_vs_alpha(kernels, ax, fraction=0.3, models=models)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["load_chain", "add_chain"]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "Volkov" in labels and "scheduler gto" in labels
    assert all(float(tick).is_integer() for tick in ax.get_yticks())
    single = plots.needed_warps_vs_alpha(kernels.sel(kernel="load_chain", scheduler="gto"), Figure().subplots(), fraction=0.3)
    (bars,) = single.containers
    assert np.isfinite(bars.lines[0].get_ydata()).all() and single.get_xlabel() == ""


def test_titles_say_what_was_held_fixed(results):
    assert plots.held_fixed(results) == "kepler, mix, memory queue, sms 1"
    assert plots.held_fixed(results.sel(alpha=8, scheduler=["gto"])) == "kepler, mix, alpha 8, gto, memory queue, sms 1"


def test_titles_do_not_tell_the_dimensions_of_a_trace():
    trace = Trace(occupancy=True, warps=True, states=1)
    run = simulate("kepler", "vector_add", launch=Launch(blocks=1, block_warps=1), sms=1, trace=trace)
    assert run.sizes["warp"] == 1
    assert plots.held_fixed(run) == ""


def test_occupancies_are_marked_at_whole_warps(results, ax):
    plots.plot(results.sel(alpha=8), ax)
    assert [tick for tick in ax.get_xticks() if 0 <= tick <= 64] == [*range(0, 65, 8)]


def test_only_results_are_drawn(results, ax):
    drawing = [kind.draw for name, kind in plots.KINDS.items() if name != "roofline"]
    for draw in (*drawing, partial(plots.roofline, roofs=results), plots.overlay, plots.benefit_chart):
        with pytest.raises(TypeError, match=r"results = DataArray: must be an xarray\.Dataset"):
            draw(results["bandwidth"], ax)


def test_only_results_are_written(results, tmp_path):
    for write in (write_report, write_timeline):
        with pytest.raises(TypeError, match=r"results = DataArray: must be an xarray\.Dataset"):
            write(results["bandwidth"], tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
