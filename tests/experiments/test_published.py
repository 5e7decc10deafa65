"""Rows of published numbers beside ours."""

import numpy as np
import pytest
from scipy.stats import t

from warpsim.views.published import comparison, within


def test_a_row_has_students_interval() -> None:
    values = [1.0, 2.0, 4.0]
    row = comparison("V Table 1", "kepler", "peak, GB/s", 2.0, values, "prediction")
    half = t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert list(row) == ["source", "chip", "quantity", "published", "simulated", "error, %", "class"]
    assert row["simulated"] == f"2.333 ± {half:.2g}"
    assert row["error, %"] == "+16.7"


@pytest.mark.parametrize("values", [5.0, [5.0], [5.0, 5.0]])
def test_a_deterministic_result_has_none(values) -> None:
    assert comparison("V", "g80", "warps", 5, values, "input")["simulated"] == "5"


def test_what_is_not_known_or_not_attained_has_no_error() -> None:
    unknown = comparison("V", "g80", "warps", None, [5.0], "prediction")
    assert (unknown["published"], unknown["error, %"]) == ("not in our copy", "")
    never = comparison("V", "g80", "warps", 5, [5.0, np.nan], "prediction")
    assert (never["simulated"], never["error, %"]) == ("not attained", "")


def test_the_count_is_of_one_kind() -> None:
    rows = [comparison("V", "g80", "x", 100, [value], kind) for value, kind in
            ((101, "fit"), (101.5, "fit"), (90, "input"), (float("nan"), "fit"))]  # fmt: skip
    assert within(rows, "fit", 1) == (1, 2)
    assert within(rows, "input", 10) == (1, 1)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind = 'guess': one of input, fit, prediction"):
        comparison("V", "g80", "x", 1, [1], "guess")
