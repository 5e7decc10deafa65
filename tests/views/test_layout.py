"""Legends and labels of figures, which cover neither curves nor each other, and the style of a paper."""

import itertools
import math

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from warpsim.views import plots

LONG = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEvT0_"


@pytest.mark.parametrize("names", [["lrr", "gto"], ["two_level", "a_policy_with_a_long_name"], [LONG + "1", LONG + "2"]])
def test_the_legend_covers_no_curve_and_lies_in_the_figure(names):
    values = np.linspace(0, 4, 48).reshape(3, 2, 4, 2, 1)
    coords = {"alpha": [1.0, 8.0, math.inf], "scheduler": names, "warps": [4, 16, 48, 64], "replicate": [0, 1], "op": ["alu"]}
    chosen = xr.DataArray(values, coords=coords).to_dataset(name="throughput")
    models = {name: chosen.mean("replicate").isel(scheduler=0) for name in ("Volkov", "Volkov, latency under load")}
    with plots.paper():
        figure = Figure(figsize=plots.KINDS["throughput"].size, layout="constrained")
        made = plots.throughput_vs_warps(chosen, figure.subplots(), op="alu", models=models)
        figure.draw_without_rendering()
        legend, axes = made.get_legend().get_window_extent(), made.get_window_extent()
    assert legend.y0 >= axes.y1
    assert legend.x0 >= 0 and legend.x1 <= figure.bbox.x1
    assert axes.height > figure.bbox.height / 3


@pytest.mark.parametrize(
    ("values", "marked"),
    [
        (range(1, 65), [8, 16, 24, 32, 40, 48, 56, 64]),
        (range(17), [0, 2, 4, 6, 8, 10, 12, 14, 16]),
        (range(4, 68, 4), [8, 16, 24, 32, 40, 48, 56, 64]),
        (range(1_000_000, 65_000_000, 1_000_000), [32_000_000, 64_000_000]),
        ([f"kernel_{number}" for number in range(64)], [f"kernel_{number}" for number in range(3, 64, 4)]),
    ],
)
@pytest.mark.parametrize("across", ["x", "y"])
def test_labels_of_many_columns_or_rows_do_not_touch(values, marked, across):
    cells = xr.DataArray(np.linspace(0, 1, 2 * len(values)).reshape(2, -1), coords={"other": [1, 2], "of": list(values)})
    with plots.paper():
        figure = Figure(figsize=plots.KINDS["heatmap"].size, layout="constrained")
        other = {"x": "of", "hue": "other"} if across == "x" else {"x": "other", "hue": "of"}
        made = plots.heatmap(cells.to_dataset(name="peak_fraction"), figure.subplots(), **other)
        figure.draw_without_rendering()
        axis = made.xaxis if across == "x" else made.yaxis
        labels = axis.get_ticklabels()
        boxes = [label.get_window_extent() for label in labels]
    assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
    if across == "x":
        assert [label.get_text() for label in labels] == list(map(str, marked))


def test_long_names_fit_and_do_not_touch():
    coords = {"kernel": [LONG, "copy", "vector_add"], "warps": [4, 8], "replicate": [0]}
    results = xr.DataArray(np.linspace(0, 1, 6).reshape(3, 2, 1), coords=coords).to_dataset(name="peak_fraction")
    for kind, options in (("lines", {"hue": "warps"}), ("needed-warps", {"fraction": 0.1})):
        with plots.paper():
            figure = Figure(figsize=plots.KINDS[kind].size, layout="constrained")
            made = plots.draw(kind, results, figure.subplots(), x="kernel", **options)
            figure.draw_without_rendering()
            boxes = [label.get_window_extent() for label in made.get_xticklabels()]
        assert not any(one.overlaps(two) for one, two in itertools.pairwise(boxes))
        assert min(box.y0 for box in boxes) >= 0
        assert made.get_window_extent().height > figure.bbox.height / 5
        assert made.get_xticklabels()[0].get_text() == f"{LONG[:12]}…{LONG[-11:]}"


def test_the_style_of_a_paper_does_not_depend_on_other_settings():
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 30.0}):
        with plots.paper():
            assert mpl.rcParams["font.size"] == 7.5
            assert mpl.rcParams["font.family"] == ["DejaVu Sans"]
        assert mpl.rcParams["font.size"] == 30.0


@pytest.mark.parametrize("kind", ["pdf", "png", "svg"])
def test_equal_figures_are_equal_files(kind, tmp_path, monkeypatch):
    files = [tmp_path / f"{day}.{kind}" for day in (1, 2)]
    for day, file in enumerate(files, 1):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(86_400 * day))
        with plots.paper():
            figure = Figure()
            figure.subplots().plot([1, 2])
            plots.save(figure, file)
    assert files[0].read_bytes() == files[1].read_bytes()
