"""Tables as plain text, and intervals in their cells."""

from __future__ import annotations

import io
import math
import shutil
import sys
from collections.abc import Callable, Sequence

_UNLIMITED = 100_000


def text_table(rows: Sequence[Sequence[str]], header: Sequence[str] = (), *, width: int | None = None) -> str:
    """Lays out rows in columns that are separated by two spaces.

    Args:
        rows: the cells of each row.
        header: the titles of the columns; none: a table without a header.
        width: cells are wrapped so that lines have at most this many characters. None: the width of the terminal, or no limit
            if standard output is not a terminal.
    """
    from rich.console import Console
    from rich.table import Table

    if width is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNLIMITED
    table = Table(*header, box=None, show_header=bool(header), pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*row)
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def significant(value: float, digits: int) -> str:
    """Returns a number with so many significant digits; a large one in full, without an exponent."""
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text


def _two_digits(value: float) -> str:
    return significant(value, 2)


def plus_minus(half: float, text: Callable[[float], str] = _two_digits) -> str:
    """Returns what follows a mean: " ± " and half the width of its interval; "" where there is no interval, which is NaN.

    Args:
        half: half the width; NaN with fewer than two replicates.
        text: returns the width as text.
    """
    return "" if math.isnan(half) else f" ± {text(half)}"
