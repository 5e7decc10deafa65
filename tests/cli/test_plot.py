"""warpsim plot: every kind of figure from complete, incomplete and empty stores, and errors."""

import pytest
from matplotlib import image
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import warpsim as ws
from tests.support.small_plans import small_plan
from warpsim import cli
from warpsim.cli import plot
from warpsim.store.create import create_store
from warpsim.store.zarr_store import open_results, open_store, pending_tiles
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.views.plots import KINDS, paper


@pytest.mark.parametrize(
    "arguments_text",
    [
        "--where alpha=8",
        "--y needed_warps",
        "--kind throughput --where alpha=8 --op alu",
        "--kind throughput --where scheduler=gto --no-models",
        "--kind latency --where alpha=1,8 --where scheduler=lrr",
        "--kind distribution --where alpha=1 --hue scheduler",
        "--kind states --where alpha=8 --where scheduler=gto --per instruction",
        "--kind roofline --where scheduler=gto",
        "--kind roofline --where warps=8 --hue scheduler",
        "--kind heatmap --where scheduler=gto --y bandwidth",
        "--kind needed-warps --fraction 0.1",
    ],
)
def test_every_kind_of_a_sweep(store, tmp_path, capsys, arguments_text):
    figure = tmp_path / "figure.png"
    assert cli.main(["plot", str(store), "--where", "gpu=kepler", *arguments_text.split(), "-o", str(figure)]) == 0
    assert capsys.readouterr().err == ""
    width, _ = image.imread(figure).shape[1], image.imread(figure).shape[0]
    assert width == 680  # 3.4 inches


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("occupancy", "lifelines")])
def test_every_kind_of_an_empty_store_shows_no_data(plan, tmp_path, capsys, monkeypatch, kind):
    out, texts = tmp_path / "out.zarr", []
    create_store(out, Plan.from_toml(plan).layout())
    monkeypatch.setattr(Axes, "text", lambda ax, x, y, text, **_: texts.append(text))
    where = ["--where", "gpu=kepler", "--where", "scheduler=gto", "--no-models"]
    where += ["--where", "alpha=8"] if kind in ("lines", "states", "distribution") else []
    assert cli.main(["plot", str(out), "--kind", kind, *where, "-o", str(tmp_path / "figure.png")]) == 0
    assert texts == ["no data"]
    assert "0 of 24 points" in capsys.readouterr().err


@pytest.mark.parametrize("fraction", ["0", "1.5"])
def test_a_fraction_that_is_none_is_refused_once(store, tmp_path, capsys, fraction):
    point = ["--where", "gpu=kepler", "--where", "scheduler=gto", "-o", str(tmp_path / "figure.png")]
    assert cli.main(["plot", str(store), "--kind", "needed-warps", "--fraction", fraction, *point]) == 2
    assert capsys.readouterr().err == f"warpsim: fraction = {float(fraction)}: must be above 0 and at most 1\n"


def test_models_that_do_not_cover_a_kernel_are_left_out_with_a_warning(tmp_path, capsys):
    out, figure = tmp_path / "out.zarr", tmp_path / "figure.png"
    sweep(small_plan(gpu="kepler", kernel="mix", alpha=[0, 1], warps=[4, 8]), out)
    only_scheduler = ["plot", str(out), "--kind", "needed-warps", "--where", "warps=4", "-o", str(figure)]
    assert cli.main(only_scheduler) == 2
    assert "must have one of the dimensions warps, warps_per_scheduler" in capsys.readouterr().err
    saved = tmp_path / "saved.zarr"
    open_results(out).sel(alpha=1).load().to_zarr(tmp_path / "part.zarr", consolidated=False)  # a part of a store, saved
    assert cli.main(["plot", str(tmp_path / "part.zarr"), "--kind", "lines", "-o", str(figure)]) == 0
    open_results(out).load().drop_attrs().assign_attrs(provenance="{}").to_zarr(saved, consolidated=False)
    assert cli.main(["plot", str(saved), "--kind", "throughput", "--where", "alpha=1", "-o", str(figure)]) == 0
    assert "without models: provenance: must be that of a call of sweep" in capsys.readouterr().err


def test_a_refused_figure_is_refused_in_one_sentence(tmp_path, capsys):
    ws.simulate("kepler", "mix", alpha=8, warps=4, sms=1, warmup=100, cycles=300).to_netcdf(tmp_path / "run.nc")
    for kind in ("throughput", "latency", "needed-warps"):
        assert cli.main(["plot", str(tmp_path / "run.nc"), "--kind", kind, "-o", str(tmp_path / "figure.png")]) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert said.startswith(f"warpsim: {tmp_path / 'run.nc'}: must have one of the dimensions warps")


def test_a_roofline_needs_one_chip_but_throughput_may_have_several(tmp_path, capsys):
    out, figure = tmp_path / "out.zarr", tmp_path / "figure.pdf"
    sweep(small_plan(warps=None, warps_per_scheduler=[1, 2], scheduler="gto"), out)
    assert cli.main(["plot", str(out), "--kind", "roofline", "-o", str(figure)]) == 2
    assert "select one value of gpu (g80, kepler) for a roofline, by .sel, or by --where gpu=g80" in capsys.readouterr().err
    assert cli.main(["plot", str(out), "--kind", "roofline", "--where", "gpu=g80", "-o", str(figure)]) == 0
    assert cli.main(["plot", str(out), "--kind", "throughput", "-o", str(figure)]) == 0
    assert cli.main(["plot", str(out), "--kind", "latency", "-o", str(figure)]) == 0
    assert capsys.readouterr().err == ""


def test_errors_list_the_dimensions_and_options_that_exist(store, tmp_path, capsys):
    wrong = {
        "--x ilp": "x = 'ilp': must be one of alpha, warps, scheduler",
        "--kind heatmap --where scheduler=gto --hue memory": "hue = 'memory': must be one of alpha",
        "--kind states": "select one value of alpha (1, 8); scheduler (lrr, gto), by .sel, or by --where alpha=1; or make it x",
        "--kind latency --per share": "per: is not an option of kind latency; it has models",
        "--kind occupancy": "must have a trace of occupancy, from simulate(..., trace=ws.Trace(occupancy=True))",
        "--kind lifelines": "must have the variable warp_start; it has cycles, warmup_cycles, warp_iterations, instructions",
        "--kind pie": "--kind pie: must be one of lines, throughput",
        "--where ilp=3": "ilp: must be one of the axes alpha, warps, scheduler",
    }
    for arguments_text, message in wrong.items():
        arguments = ["plot", str(store), "--where", "gpu=kepler", *arguments_text.split(), "-o", str(tmp_path / "figure.png")]
        assert cli.main(arguments) == 2, arguments_text
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


ONE = "--where gpu=kepler --where alpha=8 --where scheduler=gto".split()


@pytest.mark.parametrize("state", ["wait", "wait,selected"])
@pytest.mark.parametrize("per", ["occupancy", "share", "instruction"])
def test_some_states_are_not_drawn_as_if_they_were_all(store, tmp_path, capsys, state, per):
    command = ["plot", str(store), *ONE, "--kind", "states", "--per", per, "--where", f"state={state}"]
    assert cli.main([*command, "-o", str(tmp_path / "f.png")]) == 2
    assert "state: must be left as it is, since all states together are the occupancy" in capsys.readouterr().err
    assert not (tmp_path / "f.png").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--kind", "throughput", "--op", "alu", "--where", "op=alu"], ""),
        (["--kind", "lines", "--y", "ipc", "--where", "op=alu"], ""),
        (["--kind", "lines", "--y", "warp_cycles", "--where", "state=wait"], ""),
        (["--kind", "throughput", "--op", "load", "--where", "op=alu"], "op = 'load': must be one of alu"),
        (["--kind", "distribution", "--where", "quantile=0.5"], "quantile: must include"),
        (["--kind", "lines", "--where", "warps=4,8,4"], "warps = 4: is given twice"),
    ],
)
def test_one_class_state_or_quantile_of_a_store(store, tmp_path, capsys, options, says):
    code = cli.main(["plot", str(store), *ONE, *options, "-o", str(tmp_path / "f.png")])
    assert says in capsys.readouterr().err
    assert (code, (tmp_path / "f.png").exists()) == ((2, False) if says else (0, True))


def test_a_saved_run_has_a_title(tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda figure, text, **_: titles.append(text))
    run = ws.simulate("kepler", "mix", alpha=8, warps=8, sms=1, warmup=0, cycles=200)
    for number, saved in enumerate((run, run.assign_attrs(provenance="unknown"))):
        saved.to_netcdf(tmp_path / f"{number}.nc")
        assert cli.main(["plot", str(tmp_path / f"{number}.nc"), "--kind", "states", "-o", str(tmp_path / "figure.png")]) == 0
    assert titles == ["kepler, mix, lrr, memory queue, sms 1", ""]


def test_plot_of_a_half_finished_and_of_an_empty_store(plan, tmp_path, capsys, monkeypatch):
    out, figure = tmp_path / "out.zarr", tmp_path / "figure.svg"
    request = ["plot", str(out), "--kind", "throughput", "--where", "gpu=kepler", "--where", "alpha=8", "-o", str(figure)]
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda figure, text, **_: titles.append(text))
    create_store(out, Plan.from_toml(plan).layout())
    tiles = len(small_plan().tiles())
    assert cli.main(request) == 0
    missing = f"0 of 24 points, 0 of {tiles} tiles; {tiles} tiles pending"
    assert f"out.zarr: Incomplete sweep: {missing}" in capsys.readouterr().err
    assert cli.main(["sweep", str(plan), str(out), "--share", "1/2"]) == 0
    capsys.readouterr()
    assert cli.main(request) == 0
    done = tiles - len(pending_tiles(open_store(out)))
    assert 0 < done < tiles
    assert f"{done} of {tiles} tiles; {tiles - done} tiles pending, 0 failed" in capsys.readouterr().err
    assert [title.rpartition(", ")[2] for title in titles] == [f"{n} of {tiles} tiles" for n in (0, done)]
    assert titles[0].startswith("kepler, mix, alpha 8, ")


@pytest.mark.parametrize("kind", ["states --where alpha=1", "roofline"])
def test_the_note_on_missing_points_is_above_a_legend_outside_the_axes(plan, tmp_path, capsys, kind):
    out = tmp_path / "out.zarr"
    assert cli.main(["sweep", str(plan), str(out), "--share", "1/2"]) == 0
    arguments = ["plot", str(out), "--kind", *kind.split(), "--where", "gpu=kepler", "--where", "scheduler=gto", "-o", "f.png"]
    with paper():
        figure = plot.make_figure(cli.make_parser().parse_args(arguments))
        figure.draw_without_rendering()
    (ax, *_), title = figure.axes, figure.texts[0]
    legend = ax.get_legend().get_window_extent()
    assert title.get_text().splitlines()[-1].startswith("Incomplete sweep")
    assert ax.get_window_extent().y1 < legend.y0 < legend.y1 <= title.get_window_extent().y0
