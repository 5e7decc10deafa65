"""The report: its numbers, its notes on what is left out, and errors."""

import itertools
import json
import re
import shutil
import sys

import numpy as np
import xarray as xr

from tests.support.small_plans import SHORT, small_plan
from tests.support.traced_result import traced_result
from warpsim import cli
from warpsim.analysis.at_points import bounds
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.models import volkov
from warpsim.results.statistics import interval
from warpsim.store.zarr_store import open_results
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.views.report import report_html
from warpsim.views.report_data import add_binned_occupancy, mean_and_half_width, thin

POINT = "--gpu kepler --kernel mix --warps 8 --sms 1 --warmup 0 --cycles 2000".split()


def page_data(text):
    """Returns the JSON data of a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(text)


def test_means_and_intervals_are_those_of_the_store(store):
    results = open_results(store)
    data = page_data(report_html(results, model=bounds))
    assert data["axes"] == ["gpu", "alpha", "warps", "scheduler"]
    for name in ("bandwidth", "memory_latency", "peak_fraction"):
        expected = interval(results[name])
        mean = np.array(data["variables"][name]["mean"], float)
        half = np.array(data["variables"][name]["half"], float)
        np.testing.assert_allclose(mean, expected["mean"].values.ravel(), rtol=1e-5)
        np.testing.assert_allclose(half, (expected["high"] - expected["mean"]).values.ravel(), rtol=1e-4, atol=1e-9)
    entry = data["variables"]["throughput"]
    ops = np.array(data["dims"]["op"]["texts"])[entry["indices"]["op"]]
    assert set(ops) == {"alu", "load"}
    expected = results["throughput"].sel(op=ops).mean("replicate").values.ravel()
    np.testing.assert_allclose(np.array(entry["mean"], float), expected, rtol=1e-5)
    shares = np.array(data["variables"]["warp_cycles"]["mean"], float).reshape(2, 2, 3, 2, -1).sum(-1)
    np.testing.assert_allclose(shares[np.isfinite(shares)], 100, rtol=1e-4)


def test_needed_warps(store):
    results = open_results(store).sel(gpu="kepler").assign_coords(warps=[4, 8, 48])
    results["peak_fraction"] = results["peak_fraction"] * 0 + xr.DataArray([0.5, 0.92, 0.95], dims="warps")
    data = page_data(report_html(results, model=bounds))
    entry = data["variables"]["needed_warps"]
    assert entry["dims"] == ["alpha", "scheduler"]
    assert entry["mean"] == [8, 8, 8, 8]
    expected = [0.9 * volkov.needed_warps(load_gpu("kepler"), mix(alpha=alpha)) for alpha in (1, 1, 8, 8)]
    np.testing.assert_allclose(entry["model"], expected, rtol=1e-5)
    assert "needed_warps" in [panel["y"] for panel in data["panels"]]


def test_the_busiest_program_lines_are_shown():
    lines = np.arange(100.0)
    run = xr.Dataset(
        {"peak_fraction": ("replicate", [0.5]), "line_warp_cycles": (("replicate", "line", "state"), lines[None, :, None])},
        {"line": range(100), "line_text": ("line", [f"alu r{i}" for i in range(100)]), "state": ["wait"]},
    )
    data = page_data(report_html(run))
    assert data["variables"]["line_warp_cycles"]["indices"]["line"] == list(range(40, 100))
    assert "The 60 of 100 lines with the most cycles." in [panel["hint"] for panel in data["panels"]]


def test_the_table_has_a_row_per_valid_point(store):
    results = open_results(store)
    data = page_data(report_html(results, model=bounds))
    assert [column["text"] for column in data["table"]["columns"][:6]] == [
        "gpu", "alpha", "warps", "scheduler", "binds", "peak_fraction",
    ]  # fmt: skip
    rows = data["table"]["rows"]
    assert len(rows) == int(results["valid"].sum()) == 20
    assert ["kepler", 8, 48, "gto"] in [row[:4] for row in rows]
    assert all(row[4] in data["variables"]["binds"]["categories"] for row in rows)


def test_the_page_is_self_contained_and_holds_the_provenance(store):
    text = report_html(open_results(store), model=bounds, title="<small>")
    assert "default-src 'none'" in text
    without_programs = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(?:src|href)=(?!\"data:)|url\(|@import", without_programs)
    assert "<title>&lt;small&gt;</title>" in text
    assert "sweep of 24 points, 2 replicates each" in text
    assert "</script>" not in json.dumps(page_data(text))


def many_points(points):
    """Returns a result with this number of points and a different number at each."""
    rng = np.random.default_rng(1)
    shape = (2, points // 2, 1)
    dims = ("scheduler", "alpha", "replicate")
    values = rng.random(shape)
    names = {"scheduler": ["lrr", "gto"], "alpha": np.linspace(0, 99, points // 2)}
    return xr.Dataset({"peak_fraction": (dims, values), "bandwidth": (dims, 100 * values, {"units": "GB/s"})}, names)


def test_a_hundred_thousand_points_are_thinned_and_the_page_states_it():
    results = many_points(100_000)
    thinned = thin(results)
    assert thinned.total_points == 100_000
    assert thinned.results.sizes["scheduler"] == 2
    assert thinned.results["alpha"].values[[0, -1]].tolist() == [0, 99]
    text = report_html(results)
    assert "The result has 100000 points; this page shows 3126 of them: 1563 of 50000 values of alpha." in text
    data = page_data(text)
    place = 1000
    alpha = data["dims"]["alpha"]["values"][place]
    expected = results["bandwidth"].sel(alpha=alpha)[0, 0]
    np.testing.assert_allclose(data["variables"]["bandwidth"]["mean"][place], expected, rtol=1e-5)


def test_few_points_are_not_thinned():
    assert thin(many_points(100)).thinned_axes == {}
    assert "this page shows" not in report_html(many_points(100))


def test_settings_that_change_together_are_shown():
    plan = Plan(gpu="kepler", kernel="mix", zip={"size": ["alpha", "warps"]}, alpha=[1, 8], warps=[4, 16], **SHORT)
    data = page_data(report_html(sweep(plan), model=bounds))
    assert data["dims"]["size"]["texts"] == ["alpha 1, warps 4", "alpha 8, warps 16"]
    assert [row[0] for row in data["table"]["rows"]] == ["alpha 1, warps 4", "alpha 8, warps 16"]
    assert data["variables"]["binds"]["mean"] == [0, 0]


def test_axes_of_names_are_thinned_last():
    results = many_points(8)
    thinned = thin(results, limit=4)
    assert thinned.thinned_axes == {"alpha": (2, 4)}
    assert thin(results, limit=2).results.sizes["scheduler"] == 1


def test_changes_of_occupancy_are_binned():
    results = traced_result()
    thinned = add_binned_occupancy(results)
    binned = thinned["occupancy_over_time"].sel(replicate=0)
    assert binned.dims == ("sm", "occupancy_time")
    edges = np.append(binned["occupancy_time"].values, 182)
    widths = np.diff(edges)
    steps = [2] * 150 + [1] * 31 + [0]  # SM 0 by cycle, from the changes
    expected = [np.mean(steps[int(a) : int(b)]) for a, b in itertools.pairwise(edges)]
    np.testing.assert_allclose(binned.sel(sm=0), expected)
    np.testing.assert_allclose((binned.sel(sm=0) * widths).sum(), sum(steps))
    np.testing.assert_allclose(binned.sel(sm=1), 1.0)
    assert "bandwidth_over_time" in thinned


def test_existing_bins_are_kept():
    results = traced_result()
    results["occupancy_over_time"] = (("replicate", "sm", "time"), np.ones((2, 2, 2)))
    assert add_binned_occupancy(results) is results


def test_one_replicate_can_be_selected(store):
    results = open_results(store)
    data = page_data(report_html(results.isel(replicate=1), model=bounds))
    mean = np.array(data["variables"]["bandwidth"]["mean"], float)
    np.testing.assert_allclose(mean, results["bandwidth"].isel(replicate=1).values.ravel(), rtol=1e-5)
    assert data["variables"]["bandwidth"]["half"] is None


def test_missing_replicates_do_not_count():
    mean, half = mean_and_half_width(np.array([[1.0, np.nan, 3.0], [np.nan] * 3]))
    assert mean[0] == 2.0
    assert half is not None
    np.testing.assert_allclose(half[0], 12.706 * 1.0, rtol=1e-4)  # Student's t, 1 degree of freedom, times sqrt(2 / 2)
    assert np.isnan(mean[1])


def test_an_incomplete_store_is_reported_with_a_note(tmp_path, capsys):
    sweep(small_plan(), tmp_path / "half.zarr", tiles=[0])
    output = tmp_path / "half.html"
    assert cli.main(["report", str(tmp_path / "half.zarr"), "-o", str(output)]) == 0
    output_text = capsys.readouterr().out
    missing = r"\d+ of 24 points, 1 of \d+ tiles; \d+ tiles pending, 0 failed\."
    assert re.search(f"^Incomplete sweep: {missing}", output_text)
    assert "No point is done for gpu kepler" in output_text
    assert "No point is done for gpu kepler" in output.read_text()
    assert {row[0] for row in page_data(output.read_text())["table"]["rows"]} == {"g80"}


def test_an_empty_store_is_reported_with_a_note(tmp_path, capsys):
    from warpsim.store.zarr_store import create_store

    create_store(tmp_path / "empty.zarr", small_plan().layout())
    assert cli.main(["report", str(tmp_path / "empty.zarr"), "-o", str(tmp_path / "page.html")]) == 0
    assert "Incomplete sweep: 0 of 24 points" in capsys.readouterr().out
    text = (tmp_path / "page.html").read_text()
    assert "Incomplete sweep: 0 of 24 points" in text
    assert "sweep of 24 points" in text
    assert page_data(text)["panels"] == page_data(text)["table"]["rows"] == []


def test_saved_results_and_a_point(tmp_path, capsys):
    from warpsim.simulation.api import simulate

    run = simulate(load_gpu("kepler"), mix(alpha=2), warps=8, sms=1, warmup=0, cycles=200, replicates=2)
    run.to_zarr(tmp_path / "run.zarr", zarr_format=2)
    run.to_netcdf(tmp_path / "run.nc", engine="scipy")
    wanted = float(run["bandwidth"].mean())
    for source in (["run.zarr"], ["run.nc"]):
        assert cli.main(["report", str(tmp_path / source[0]), "-o", str(tmp_path / "run.html")]) == 0
        data = page_data((tmp_path / "run.html").read_text())
        np.testing.assert_allclose(data["variables"]["bandwidth"]["mean"], [wanted], rtol=1e-5)
    assert cli.main(["report", *POINT, "--set", "alpha=2", "-o", str(tmp_path / "point.html")]) == 0
    text = (tmp_path / "point.html").read_text()
    assert "What binds: latency" in text
    assert "Resource: Memory system" in text
    rows = page_data(text)["table"]["rows"]
    assert [row[0] for row in rows if row[1] == "alu"] == ["ipc", "throughput"]
    assert "±" not in capsys.readouterr().out


def test_errors_state_what_is_allowed(store, tmp_path, monkeypatch, capsys):
    output = str(tmp_path / "page.html")

    def refused(*arguments):
        assert cli.main(["report", *arguments]) == 2
        return capsys.readouterr().err

    assert "needs either OUT.zarr, or --gpu and --kernel" in refused("-o", output)
    assert "needs either OUT.zarr, or --gpu and --kernel" in refused(str(store), *POINT, "-o", output)
    assert "--block-warps: only with --gpu and --kernel" in refused(str(store), "--block-warps", "4", "-o", output)
    assert "--set: only with --gpu and --kernel" in refused(str(store), "--set", "alpha=4", "-o", output)
    assert "needs --kernel as well" in refused("--gpu", "kepler", "-o", output)
    assert "no such store" in refused(str(tmp_path / "none.zarr"), "-o", output)
    assert "page.txt: must end in one of .html" in refused(str(store), "-o", str(tmp_path / "page.txt"))
    assert "must be a file in a folder that exists" in refused(str(store), "-o", str(tmp_path / "none" / "page.html"))
    assert "warps = 5: must be one of 4, 8, 48" in refused(str(store), "--where", "warps=5", "-o", output)
    (tmp_path / "text.nc").write_text("no result")
    assert "a result saved by to_netcdf" in refused(str(tmp_path / "text.nc"), "-o", output)
    other = tmp_path / "other.zarr"
    xr.Dataset({"a": 1}, attrs={"provenance": "x"}).to_zarr(other, zarr_format=2)
    assert "results: must hold peak_fraction" in refused(str(other), "-o", output)
    shutil.rmtree(other)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert "pip install 'warpsim[report]'" in refused(str(store), "-o", output)
    assert not (tmp_path / "page.html").exists()


def test_a_selection_is_reported(store, tmp_path):
    arguments = ["--where", "gpu=kepler", "--where", "warps=4,48"]
    assert cli.main(["report", str(store), *arguments, "-o", str(tmp_path / "page.html")]) == 0
    data = page_data((tmp_path / "page.html").read_text())
    assert data["axes"] == ["alpha", "warps", "scheduler"]
    assert data["dims"]["warps"]["values"] == [4, 48]
