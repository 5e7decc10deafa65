"""Text tables: plain and unwrapped in a file, wrapped at a terminal."""

import math
import sys

from warpsim.views.text_table import plus_minus, significant, text_table

ROWS = [("g80", "a [bold] title :smile: of 2006"), ("kepler", "±1")]


def test_columns_are_as_wide_as_their_widest_cell_and_cells_are_printed_literally():
    assert text_table(ROWS, ("name", "title")) == (
        "name    title\ng80     a [bold] title :smile: of 2006\nkepler  ±1"
    )
    assert text_table(ROWS) == "g80     a [bold] title :smile: of 2006\nkepler  ±1"


def test_cells_are_wrapped_to_a_width():
    assert text_table(ROWS, width=24) == "g80     a [bold] title\n        :smile: of 2006\nkepler  ±1"


def test_only_a_terminal_limits_the_width(monkeypatch):
    long = [("name", "x" * 500)]
    assert len(text_table(long)) == 506
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, text_table(long).splitlines())) == 40


def test_an_interval_follows_its_mean():
    assert plus_minus(0.1234) == " ± 0.12"
    assert plus_minus(12.345, "{:.1f}".format) == " ± 12.3"
    assert plus_minus(math.nan) == ""


def test_large_numbers_have_no_exponent():
    assert [significant(value, 5) for value in (1.23456, 99999.6, 336112.4, 0.0)] == ["1.2346", "100000", "336112", "0"]
    assert significant(1.2e-7, 5) == "1.2e-07"
    assert plus_minus(849.6) == " ± 850"
