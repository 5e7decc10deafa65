"""The page of the report: its numbers, and its notes on what is left out."""

import json
import re

import numpy as np
import xarray as xr

from tests.support.report_pages import many_points, page_data
from tests.support.small_plans import SHORT
from warpsim.analysis.at_points import bounds
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.models import volkov
from warpsim.results.statistics import interval
from warpsim.store.zarr_store import open_results
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.views.report import report_html
from warpsim.views.report_data import thin


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
    (panel,) = [panel for panel in data["panels"] if panel["y"] == "needed_warps"]
    assert "gap" not in panel["hint"]
    some = results.assign(peak_fraction=results["peak_fraction"] * xr.DataArray([0.5, 1.0], dims="alpha"))
    (panel,) = [panel for panel in page_data(report_html(some))["panels"] if panel["y"] == "needed_warps"]
    assert panel["hint"].endswith("Curves have gaps where none does.")


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


def test_a_hundred_thousand_points_are_thinned_and_the_page_states_it():
    results = many_points(100_000)
    thinned = thin(results)
    assert thinned.total_points == 100_000
    assert thinned.results.sizes["scheduler"] == 2
    assert thinned.results["alpha"].values[[0, -1]].tolist() == [0, 99]
    text = report_html(results)
    assert "This page shows 3126 of 100000 points (1563 of 50000 values of alpha); a selection with --where" in text
    data = page_data(text)
    place = 1000
    alpha = data["dims"]["alpha"]["values"][place]
    expected = results["bandwidth"].sel(alpha=alpha)[0, 0]
    np.testing.assert_allclose(data["variables"]["bandwidth"]["mean"][place], expected, rtol=1e-5)


def test_few_points_are_not_thinned():
    assert "this page shows" not in report_html(many_points(100))


def test_settings_that_change_together_are_shown():
    plan = Plan(gpu="kepler", kernel="mix", zip={"size": ["alpha", "warps"]}, alpha=[1, 8], warps=[4, 16], **SHORT)
    data = page_data(report_html(sweep(plan), model=bounds))
    assert data["dims"]["size"]["texts"] == ["alpha 1, warps 4", "alpha 8, warps 16"]
    assert [row[0] for row in data["table"]["rows"]] == ["alpha 1, warps 4", "alpha 8, warps 16"]
    assert data["variables"]["binds"]["mean"] == [0, 0]


def test_one_replicate_can_be_selected(store):
    results = open_results(store)
    data = page_data(report_html(results.isel(replicate=1), model=bounds))
    mean = np.array(data["variables"]["bandwidth"]["mean"], float)
    np.testing.assert_allclose(mean, results["bandwidth"].isel(replicate=1).values.ravel(), rtol=1e-5)
    assert data["variables"]["bandwidth"]["half"] is None
