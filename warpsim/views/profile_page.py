"""A page of HTML that shows a replayed launch: measured beside simulated, in tables and as bars of stall reasons."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from warpsim.atomic_file import write_text

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
th, td { padding: 0.15rem 0.9rem 0.15rem 0; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child, .left { text-align: left; }
td.text { text-align: left; white-space: normal; min-width: 24rem; }
.bar { display: inline-block; height: 0.7rem; vertical-align: middle; }
.measured { background: #4c78a8; } .simulated { background: #f58518; }
"""
_BAR_REM = 14


@dataclass(frozen=True)
class Table:
    """A table of a page: its title, the titles of its columns, and its cells. A last column without a title holds text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_profile_page(
    path: str | os.PathLike[str],
    title: str,
    lines: Sequence[str],
    tables: Sequence[Table],
    measured: Mapping[str, float],
    simulated: Mapping[str, float],
) -> None:
    """Writes the page, which needs no other file.

    Args:
        path: file to write.
        title: headline.
        lines: sentences below the headline.
        tables: in their order on the page.
        measured: state -> share of the warp cycles, for the bars.
        simulated: the same of the simulation.
    """
    parts = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(line)}</p>" for line in lines)]
    parts.append(_bars(measured, simulated))
    parts += [_table(table) for table in tables]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    text = f"<head>{head}<style>{_STYLE}</style></head><body>{''.join(parts)}</body>"
    write_text(path, f'<!doctype html><html lang="en">{text}</html>\n')


def _bars(measured: Mapping[str, float], simulated: Mapping[str, float]) -> str:
    most = max((*measured.values(), *simulated.values()), default=0.0)
    if not most:
        return ""
    rows = []
    for state in sorted({*measured, *simulated}, key=lambda s: -max(measured.get(s, 0.0), simulated.get(s, 0.0))):
        cells = "".join(
            f'<td class="left"><span class="bar {kind}" style="width:{_BAR_REM * shares.get(state, 0.0) / most:.2f}rem"></span>'
            f" {100 * shares.get(state, 0.0):.1f} %</td>"
            for kind, shares in (("measured", measured), ("simulated", simulated))
        )
        rows.append(f"<tr><td>{escape(state)}</td>{cells}</tr>")
    header = '<tr><th>share of the warp cycles</th><th class="left">measured</th><th class="left">simulated</th></tr>'
    return f'<div class="wide"><table>{header}{"".join(rows)}</table></div>'


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        last = f'<{tag} class="text">' if not table.header[-1] else f"<{tag}>"
        begins = [f"<{tag}>"] * (len(cells) - 1) + [last]
        return "<tr>" + "".join(f"{begin}{escape(cell)}</{tag}>" for begin, cell in zip(begins, cells, strict=True)) + "</tr>"

    body = "".join(row(cells, "td") for cells in table.rows)
    return f'<h2>{escape(table.title)}</h2><div class="wide"><table>{row(table.header, "th")}{body}</table></div>'
