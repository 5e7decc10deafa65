"""The report in a browser: it works offline; hover labels show the values of the store; selectors change the figures."""

import re

import numpy as np
import pytest
import xarray as xr

from tests.support.browser import chromium
from tests.support.small_plans import small_plan
from warpsim.analysis.at_points import bounds
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import load_kernel
from warpsim.results.schema import STATES
from warpsim.simulation.api import simulate
from warpsim.simulation.trace import Trace
from warpsim.store.create import create_store
from warpsim.store.zarr_store import open_results
from warpsim.sweeps.local import sweep
from warpsim.views.report import write_report


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "small.zarr"
    sweep(small_plan(gpu=["fermi", "kepler"], warps=[4, 8, 16]), store)
    return open_results(store)


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def opened(results, browser, tmp_path_factory):
    """Yields the page, its console messages, its requests, and its address."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    write_report(results, file, model=bounds, title="small sweep")
    page, messages, requests = load(browser, file)
    page.wait_for_selector(".panel .main-svg")
    return page, messages, requests, file.as_uri()


def load(browser, file):
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    return page, messages, requests


def panel(page, title):
    return page.locator("section.panel", has=page.get_by_role("heading", name=title, exact=True))


def hover(page, figure, selector, n):
    """Returns the hover label of the n-th mark."""
    figure.locator(selector).first.scroll_into_view_if_needed()
    box = figure.locator(selector).nth(n).bounding_box()
    page.mouse.move(0, 0)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    figure.locator(".hoverlayer .hovertext").wait_for()
    return figure.locator(".hoverlayer .hovertext").first.text_content()


def test_it_loads_without_console_messages_and_requests(opened):
    page, messages, requests, address = opened
    assert page.title() == "small sweep"
    assert page.locator(".panel .main-svg").count() >= 3
    assert messages == []
    assert requests == [address]


def test_a_hover_label_shows_the_value_of_the_store(opened, results):
    page, *_ = opened
    figure = panel(page, "Curves")
    figure.locator("select[name=y]").select_option("bandwidth")
    figure.locator("select[name=at-gpu]").select_option(label="kepler")
    figure.locator("select[name=at-alpha]").select_option(label="8")
    figure.locator("select[name=hue]").select_option("(none)")
    figure.locator("select[name=at-scheduler]").select_option(label="gto")
    expected = results["bandwidth"].sel(gpu="kepler", alpha=8, scheduler="gto").mean("replicate").values
    for n, warps in enumerate((4, 8, 16)):
        label = hover(page, figure, ".trace.scatter .points path", n)
        (value,) = re.findall(r"memory bandwidth of the chip: ([\d.]+) ± [\d.e-]+ GB/s", label)
        np.testing.assert_allclose(float(value), expected[n], rtol=1e-5)
        assert f"occupancy: {warps}" in label
        assert "scheduling policy: gto" in label
        assert "binds: latency" in label


def test_a_selector_changes_the_figure(opened, results):
    page, *_ = opened
    figure = panel(page, "Curves")

    def drawn():
        return figure.locator(".figure").evaluate("f => f.data.filter(t => t.showlegend !== false).map(t => [t.name, t.x, t.y])")

    figure.locator("select[name=y]").select_option("bandwidth")
    figure.locator("select[name=at-gpu]").select_option(label="kepler")
    figure.locator("select[name=x]").select_option("warps")
    figure.locator("select[name=hue]").select_option("scheduler")
    assert [name for name, *_ in drawn()] == ["lrr", "gto"]
    before = figure.locator(".trace.scatter .lines path").first.get_attribute("d")
    figure.locator("select[name=at-alpha]").select_option(label="1")
    assert figure.locator(".trace.scatter .lines path").first.get_attribute("d") != before
    figure.locator("select[name=hue]").select_option("alpha")
    assert [name for name, *_ in drawn()] == ["1", "8"]
    figure.locator("select[name=x]").select_option("gpu")
    expected = results["bandwidth"].mean("replicate").sel(scheduler="lrr", alpha=8)
    name, x, y = drawn()[1]
    assert (name, x) == ("8", ["fermi", "kepler"])
    index = int(figure.locator("select[name=at-warps]").input_value())
    np.testing.assert_allclose(y, expected.isel(warps=index), rtol=1e-5)


def test_every_variable_can_be_drawn_in_every_way(opened):
    page, messages, *_ = opened
    figure = panel(page, "Curves")
    for name in figure.locator("select[name=y] option").evaluate_all("all => all.map(o => o.value)"):
        figure.locator("select[name=y]").select_option(name)
        for kind in figure.locator("select[name=kind] option").evaluate_all("all => all.map(o => o.value)"):
            figure.locator("select[name=kind]").select_option(kind)
            assert figure.locator(".main-svg").count()
    assert messages == []


def test_the_map_shows_what_binds(opened):
    page, *_ = opened
    figure = panel(page, "What binds where")
    figure.locator(".heatmaplayer image, .heatmaplayer .hm").first.wait_for()
    label = figure.locator(".figure").evaluate("f => f.data[0].text[0][0]")
    assert re.search(r"what binds: (latency|bandwidth|issue|unit: \w+)", label)


def test_dragging_zooms_into_the_figure(opened):
    page, *_ = opened
    figure = panel(page, "Warp states")
    plot = figure.locator(".nsewdrag").first
    plot.scroll_into_view_if_needed()
    before = figure.locator(".figure").evaluate("f => [...f.layout.yaxis.range]")
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 200, steps=5)
    page.mouse.up()
    page.wait_for_timeout(300)
    after = figure.locator(".figure").evaluate("f => [...f.layout.yaxis.range]")
    assert after[1] - after[0] < before[1] - before[0]


def test_the_table_is_sorted_by_a_click(opened, results):
    page, *_ = opened
    head = page.locator("#table th", has_text="bandwidth")
    column = page.locator("#table th").all_text_contents().index(head.text_content())
    head.click()
    first = [float(text) for text in page.locator(f"#table td:nth-child({column + 1})").all_text_contents()]
    assert first == sorted(first)
    np.testing.assert_allclose(first[0], results["bandwidth"].mean("replicate").min(), rtol=1e-5)


def test_the_trace_of_a_run_is_drawn(browser, tmp_path):
    kept = Trace(occupancy=True, states=20)
    launch = Launch(blocks=12, block_warps=2)
    run = simulate(load_gpu("kepler"), load_kernel("vector_add"), launch=launch, warps=8, sms=1, replicates=2, trace=kept)
    write_report(run, tmp_path / "run.html", model=bounds)
    page, messages, _ = load(browser, tmp_path / "run.html")
    panel(page, "Occupancy over time").locator(".trace.scatter").first.wait_for()
    lines = panel(page, "Where the cycles go, line by line").locator(".figure")
    drawn = lines.evaluate("f => f.data.flatMap(t => t.x).reduce((a, b) => a + b)")
    np.testing.assert_allclose(drawn, run["line_warp_cycles"].mean("replicate").sum(), rtol=1e-5)
    assert messages == []


def test_all_states_are_drawn_and_look_different(browser, tmp_path):
    run = simulate(load_gpu("kepler"), load_kernel("vector_add"), warps=8, sms=1, warmup=500, cycles=900, trace=Trace(states=90))
    shares = xr.DataArray(np.ones(len(STATES)) / len(STATES), {"state": run["state"]})
    assigned = {name: run[name].sum("state") * shares for name in ("warp_cycles", "warp_cycles_over_time")}
    write_report(run.assign(assigned), tmp_path / "run.html")
    page, messages, _ = load(browser, tmp_path / "run.html")
    figure = panel(page, "Warp states over time").locator(".figure")
    figure.locator(".trace.bars").first.wait_for()
    colours = figure.evaluate("f => f.data.map(t => t.marker.color)")
    assert len(set(colours)) == len(colours) == len(STATES)
    drawn = figure.evaluate("f => f.data.flatMap(t => t.y).reduce((a, b) => a + b)")
    np.testing.assert_allclose(drawn, run["warp_cycles"].sum(), rtol=1e-4)
    assert messages == []


def test_long_names_leave_room_for_the_figure(results, browser, tmp_path):
    names = ["_ZN2at6native29vectorized_elementwise_kernel" + number for number in ("ILi4E" * 9, "ILi8E" * 9)]
    write_report(results.isel(gpu=0).assign_coords(scheduler=names), tmp_path / "long.html")
    page, messages, _ = load(browser, tmp_path / "long.html")
    figure = panel(page, "Curves").locator(".figure")
    figure.locator(".main-svg").first.wait_for()
    assert figure.evaluate("f => f._fullLayout._size.w") > 500
    assert len(set(figure.evaluate("f => f.data.map(t => t.name)"))) == 2
    assert messages == []


def test_a_page_without_points(browser, tmp_path):
    create_store(tmp_path / "empty.zarr", small_plan().layout())
    write_report(open_results(tmp_path / "empty.zarr"), tmp_path / "empty.html", model=bounds)
    page, messages, _ = load(browser, tmp_path / "empty.html")
    assert page.locator(".panel").count() == 0
    assert page.get_by_role("heading", name="Provenance").count() == 1
    assert messages == []


def test_it_is_readable_in_the_dark(opened):
    page, messages, *_ = opened
    try:
        page.emulate_media(color_scheme="dark")
        page.wait_for_selector(".main-svg[style*='background: rgb(29, 35, 41)']")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", dark))) < 40
        assert min(map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).color")))) > 200
    finally:
        page.emulate_media(color_scheme="light")
    page.wait_for_selector(".main-svg[style*='background: rgb(255, 255, 255)']")
    assert messages == []


def test_it_fits_a_narrow_window_and_no_headers_overlap(opened):
    page, messages, *_ = opened
    for width in (500, 1200):
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("[...document.querySelectorAll('th')].every((cell) => cell.scrollWidth <= cell.clientWidth)")
        widths = "[...document.querySelectorAll('.figure .main-svg')].map((figure) => figure.getBoundingClientRect().right)"
        assert max(page.evaluate(widths)) <= width
    assert messages == []


def test_what_binds_is_told_for_each_chip(opened):
    page, *_ = opened
    section = page.locator("section", has=page.get_by_role("heading", name="What binds", exact=True))
    rows = [row.locator("td").all_text_contents() for row in section.locator("tr").all()[1:]]
    assert {row[0] for row in rows} == {"fermi", "kepler"}
    assert sum(int(row[2]) for row in rows) == 24
