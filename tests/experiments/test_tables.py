"""The experiments' tables: published numbers beside simulated ones, as Markdown."""

from pathlib import Path

import numpy as np
import pytest
from _tables import comparison, count_within, markdown_table, read_rows, replace_tables, with_grid
from scipy.stats import t


def test_a_row_has_students_interval() -> None:
    values = [1.0, 2.0, 4.0]
    row = comparison("V Table 1", "kepler", "peak, GB/s", 2.0, values, "prediction")
    half = t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert list(row) == ["source", "chip", "quantity", "published", "simulated", "error, %", "class"]
    assert row["simulated"] == f"2.333 ± {half:.2g}"
    assert row["error, %"] == "+16.7"


@pytest.mark.parametrize("values", [5.0, [5.0], [5.0, 5.0]])
def test_a_deterministic_result_has_no_interval(values) -> None:
    assert comparison("V", "g80", "warps", 5, values, "input")["simulated"] == "5"


def test_a_number_that_is_unknown_or_not_attained_has_no_error() -> None:
    unknown = comparison("V", "g80", "warps", None, [5.0], "prediction")
    assert (unknown["published"], unknown["error, %"]) == ("not in our copy", "")
    never = comparison("V", "g80", "warps", 5, [5.0, np.nan], "prediction")
    assert (never["simulated"], never["error, %"]) == ("not attained", "")


def test_rows_are_counted_by_kind() -> None:
    rows = [comparison("V", "g80", "x", 100, [value], kind) for value, kind in
            ((101, "fit"), (101.5, "fit"), (90, "input"), (float("nan"), "fit"))]  # fmt: skip
    assert count_within(rows, "fit", 1) == (1, 2)
    assert count_within(rows, "input", 10) == (1, 1)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind = 'guess': must be one of input, fit, prediction"):
        comparison("V", "g80", "x", 1, [1], "guess")


def test_a_markdown_table_has_the_keys_of_its_rows_as_columns() -> None:
    assert markdown_table([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]) == "| a | b |\n| --- | --- |\n| 1 | x |\n| 2 | y |\n"
    with pytest.raises(ValueError, match="rows: must hold at least one row"):
        markdown_table([])
    with pytest.raises(ValueError, match="rows: must all have the keys a, b"):
        markdown_table([{"a": 1, "b": 2}, {"b": 2, "a": 1}])


def test_only_the_text_between_the_markers_of_a_page_is_replaced(tmp_path) -> None:
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- made by the experiment: begin -->\nold\n<!-- made by the experiment: end -->\nafter\n")
    assert replace_tables(page, "new\n")
    assert page.read_text() == (
        "before\n<!-- made by the experiment: begin -->\n\nnew\n\n<!-- made by the experiment: end -->\nafter\n"
    )
    page.write_text("no markers")
    with pytest.raises(ValueError, match="exactly once"):
        replace_tables(page, "new")


def test_the_number_of_a_finite_grid_is_shown_where_it_differs() -> None:
    row = comparison("V", "g80", "x", 100, [100, 102], "fit")
    assert with_grid(row, [100, 102], 100.5) == row | {"finite grid": ""}
    assert with_grid(row, [100, 102], [97, 98])["finite grid"] == "97.5"
    assert with_grid(row, [100, 102], np.nan)["finite grid"] == "not attained"
    assert with_grid(row, [np.nan], np.nan)["finite grid"] == ""


def test_rows_of_a_file_are_read_without_its_comments(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("# in us, measured\nname,us\nfirst,3\n# a remark\nsecond,4.5\n", encoding="utf-8")
    assert read_rows(tmp_path / "table.csv") == [{"name": "first", "us": "3"}, {"name": "second", "us": "4.5"}]
