"""Tables of numbers in Markdown, and where an experiment's page takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_BEGIN, _END = "<!-- made by the experiment: begin -->", "<!-- made by the experiment: end -->"


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """A Markdown table: one row each, its keys the columns, in the order of the first row.

    Raises:
        ValueError: there are no rows, or they have different keys.
    """
    if not rows:
        raise ValueError("rows: at least one")
    columns = list(rows[0])
    if any(list(row) != columns for row in rows):
        raise ValueError(f"rows: all with the keys {', '.join(columns)}")
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def replace_block(page: Path, text: str) -> bool:
    """Puts `text` between the two marks of a page. False where the page cannot be written, as in an installed package.

    Raises:
        ValueError: the page has no such marks.
    """
    content = page.read_text(encoding="utf-8")
    if content.count(_BEGIN) != 1 or content.count(_END) != 1:
        raise ValueError(f"{page}: {_BEGIN} and {_END}, once each")
    before, rest = content.split(_BEGIN)
    _, after = rest.split(_END)
    try:
        page.write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}", encoding="utf-8")
    except OSError:
        return False
    return True
