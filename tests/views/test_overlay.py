"""The figure of all models and the simulation."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from warpsim.views.plots import overlay


def results(**rates):
    warps = np.array([4, 8, 12])
    return xr.Dataset(
        {
            "throughput": (("replicate", "warps"), np.array([[1.0, 2.0, 2.9], [1.0, 2.0, 3.1]]), {"units": "ops/cycle/SM"}),
            "model_throughput": (("model", "warps"), np.array(list(rates.values())).reshape(-1, 3)),
        },
        coords={"warps": ("warps", warps, {"units": "warps/SM", "long_name": "occupancy"}), "model": list(rates)},
        attrs={"op": "load"},
    )


def test_each_model_has_a_letter_on_its_curve_and_in_the_legend():
    made = overlay(results(first=[1, 2, 3], second=[1, 1, 1]), Figure().subplots())
    labels = [text.get_text() for text in made.get_legend().get_texts()]
    assert labels == ["simulation, 95 % interval", "A  first", "B  second"]
    letters = [text.get_text() for text in made.texts]
    assert sorted(letters) == ["A", "A", "B", "B"]
    places = [text.get_position() for text in made.texts]
    assert len({x for x, _ in places}) == 4  # letters do not overlap
    for letter, (x, y) in zip(letters, places, strict=True):
        assert y == pytest.approx(x / 4 if letter == "A" else 1)
    assert made.get_ylabel() == "load throughput (ops/cycle/SM)"
    assert 3.1 < made.get_ylim()[1] < 9


def test_models_that_are_alike_share_a_curve_and_those_far_above_have_none():
    made = overlay(results(first=[1, 2, 3], second=[1, 2, 2.99], far=[9, 9, 9], third=[1, 2, 2.9]), Figure().subplots())
    labels = [text.get_text() for text in made.get_legend().get_texts()]
    assert labels[1:] == ["A  first\nB  second", "D  third", "not drawn, since they lie above:\nC  far"]
    assert sorted({text.get_text() for text in made.texts}) == ["A", "D"]


def test_no_curve_is_cut_off_that_comes_near_the_simulation():
    made = overlay(results(first=[1, 2, 3], steep=[2, 4, 6]), Figure().subplots())
    assert 6 < made.get_ylim()[1] < 6.5
    high = overlay(results(first=[1, 2, 3], steep=[2, 4, 100]), Figure().subplots())
    assert high.get_ylim() == (0, pytest.approx(2.5 * 3.1))
    assert [text.get_text() for text in high.get_legend().get_texts()][1:] == ["A  first", "B  steep ↑", "↑ goes on above"]


def test_the_interval_lies_in_the_figure():
    made = overlay(results(first=[1, 2, 3]), Figure().subplots())
    assert made.get_ylim()[1] > 3 + 12.706 * 0.1


def test_one_replicate_has_no_interval():
    made = overlay(results(first=[1, 2, 3]).isel(replicate=[0]), Figure().subplots())
    assert [text.get_text() for text in made.get_legend().get_texts()] == ["simulation", "A  first"]
    assert not made.containers[0].has_yerr


def test_no_two_curves_have_the_same_style():
    many = {f"m{k}": [1, 1 + k / 20, 1 + k / 10] for k in range(16)}
    made = overlay(results(**many), Figure().subplots())
    lines = [line for line in made.get_lines() if str(line.get_label())[:1].isalpha() and "  m" in str(line.get_label())]
    assert len({(line.get_color(), str(line._unscaled_dash_pattern)) for line in lines}) == len(lines) == 16


def test_occupancies_are_marked_at_whole_warps_per_scheduler():
    made = overlay(results(first=[1, 2, 3]), Figure().subplots())
    assert all(tick == int(tick) for tick in made.get_xticks())


def test_the_interval_is_drawn():
    made = overlay(results(first=[1, 2, 3]), Figure().subplots())
    (bars,) = made.containers
    segments = bars.lines[2][0].get_segments()
    low, high = segments[2][:, 1]
    assert (low, high) == pytest.approx((3 - 12.706 * 0.1, 3 + 12.706 * 0.1), rel=1e-3)  # Student's t with 1 degree of freedom


def test_models_that_do_not_cover_an_occupancy_have_a_gap():
    made = overlay(results(first=[1, np.nan, np.nan]), Figure().subplots())
    assert [(text.get_text(), text.xy) for text in made.texts] == [("A", (4, 1))]
    assert [text.get_text() for text in made.get_legend().get_texts()][1] == "A  first"


def test_wrong_results():
    with pytest.raises(ValueError, match="must have the variable model_throughput"):
        overlay(results(first=[1, 2, 3]).drop_vars("model_throughput"), Figure().subplots())
    many = results(**{f"m{k}": [1, 2, 3] for k in range(53)})
    with pytest.raises(ValueError, match="must have at most 52 models, but have 53"):
        overlay(many, Figure().subplots())


def test_a_model_of_a_single_point_is_drawn_with_its_letter_beside_it():
    made = overlay(results(first=[1, 2, 3], point=[np.nan, np.nan, 2.5], gap=[1, np.nan, 4]), Figure().subplots())
    assert sorted(text.get_text() for text in made.texts) == ["A", "A", "B", "C"]
    dashes = [line for line in made.get_lines() if line.get_marker() == "_" and line.get_markersize() == 9]
    assert [line.get_xydata().tolist() for line in dashes] == [[[12, 2.5]], [[4, 1], [12, 4]]]


def test_letters_do_not_cover_the_simulation_at_a_single_occupancy():
    one = results(first=[1, 2, 3], second=[1, 2, 2.9]).isel(warps=[2])
    made = overlay(one, Figure().subplots())
    assert [text.get_text() for text in made.texts] == ["A", "B"]
    places = [text.get_position()[0] for text in made.texts]
    assert max(places) < 0 and len(set(places)) == 2  # in points, to the left of the marks
