"""A result as one page of HTML that needs no network: figures to hover over and to change, the points, the provenance.

plotly draws the figures; its program (4.8 MB) is part of the page, compressed to 2 MB. Of the libraries that draw in a browser it
brings the least along: to embed vega-lite, altair needs a package of 33 MB, and bokeh, whose program has 1.3 MB, needs tornado,
pillow and seven more.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.results.statistics import OCCUPANCY_AXES
from warpsim.views import report_data
from warpsim.views.drafts import draft
from warpsim.views.report_data import MAX_POINTS, Reduced, numbers, reduce

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.analysis.bounds import Bounds

    Model = Callable[[xr.Dataset, tuple[str, ...]], Bounds]

_BINDS = "binds"
_TABLE = ("peak_fraction", "bandwidth", "memory_latency", "warp_latency", "occupancy")
_MOST_ROWS = 24
_RUN_PANELS = (
    ("Warp states", "warp_cycles"),
    ("Occupancy over time", "occupancy_over_time"),
    ("Warp states over time", "warp_cycles_over_time"),
    ("Where the cycles go, line by line", "line_warp_cycles"),
    ("Any other variable", "memory_latency_quantile"),
)


def write_report(
    results: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    model: Model | None = None,
    title: str = "warpsim",
    notes: Sequence[str] = (),
    limit: int = MAX_POINTS,
) -> None:
    """Write a result as a page.

    Args:
        results: of `simulate`, `sweep` or `open_results`, or a selection of their points.
        path: the file; it appears complete or not at all.
        model: says what binds at the points of a result, `warpsim.analysis.bounds.bounds`; left out, the page does not.
        title: of the page.
        notes: sentences that stand at its top, such as what of a store is missing.
        limit: points of the page at most; of more, every k-th value of the longest axes is taken, and the page says so.

    Raises:
        ValueError: these are not results of warpsim.
        ModuleNotFoundError: the package plotly is not installed.
    """
    text = page(results, model=model, title=title, notes=notes, limit=limit)
    with draft(path) as name, open(name, "w", encoding="utf-8") as file:
        file.write(text)


def page(
    results: xr.Dataset,
    *,
    model: Model | None = None,
    title: str = "warpsim",
    notes: Sequence[str] = (),
    limit: int = MAX_POINTS,
) -> str:
    """The page's text; arguments and errors are those of `write_report`."""
    plotly = _plotly()
    reduced = reduce(results, limit)
    there = int(np.isfinite(reduced.results["peak_fraction"].mean("replicate")).sum())
    entries = report_data.variables(reduced)
    dims = report_data.dimensions(reduced, entries)
    bounds = None if model is None else model(reduced.results, reduced.axes)
    if bounds is not None and bounds.kinds:
        _add_model(entries, bounds, reduced)
    data = {"axes": reduced.axes, "dims": dims, "variables": entries, "binds": _BINDS if _BINDS in entries else None,
            "panels": _panels(entries, reduced), "table": _table(entries, dims, reduced)}  # fmt: skip
    values = {
        "title": html.escape(title),
        "lead": html.escape(_lead(reduced, there)),
        "notes": "\n".join(f'<p class="note">{html.escape(note)}</p>' for note in [*notes, *_thinned(reduced)]),
        "bounds": "" if bounds is None else _bounds_section(bounds, reduced),
        "table_title": "Points" if reduced.axes else "All numbers",
        "provenance": _provenance(results.attrs),
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "plotly": plotly,
        "style": _file("report.css"),
        "script": _file("report.js"),
    }
    return Template(_file("report.html")).substitute(values)


def _plotly() -> str:
    """Plotly's program as the page unpacks it."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a report needs the package {error.name}: pip install 'warpsim[report]'") from None
    packed = gzip.compress(get_plotlyjs().encode(), mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _file(name: str) -> str:
    return (resources.files("warpsim.views") / "page" / name).read_text(encoding="utf-8")


def _lead(reduced: Reduced, there: int) -> str:
    there_are = reduced.results["peak_fraction"].notnull().sum("replicate")
    most = int(there_are.max())
    least = int(there_are.where(there_are > 0).min()) if most else 0
    replicates = str(most) if least == most else f"{least} to {most}"
    each = f"{replicates} replicates; means with 95 % intervals" if most > 1 else "one replicate, so without intervals"
    if not reduced.axes:
        return f"A single run: {each}."
    sizes = " × ".join(f"{reduced.results.sizes[axis]} {axis}" for axis in reduced.axes)
    return f"{there} simulated points ({sizes}), each with {each}."


def _thinned(reduced: Reduced) -> list[str]:
    if not reduced.kept:
        return []
    shown = int(np.prod([reduced.results.sizes[axis] for axis in reduced.axes]))
    parts = ", ".join(f"{kept} of {there} values of {axis}" for axis, (kept, there) in reduced.kept.items())
    return [
        f"The result has {reduced.points} points; this page shows {shown} of them: {parts}. Each number is that of its point; "
        "none is averaged over points. A selection (--where AXIS=VALUE) shows the rest."
    ]


def _add_model(entries: dict[str, dict[str, Any]], model: Bounds, reduced: Reduced) -> None:
    """Give variables the model's numbers, and add the variable that says what binds."""
    for name, by_op in (("throughput", model.throughput), ("ipc", model.ipc)):
        if name in entries:
            ops = reduced.results["op"].values[entries[name]["keep"]["op"]]
            nothing = np.where(model.binds < 0, np.nan, 0.0)
            entries[name]["model"] = numbers(np.stack([by_op.get(op, nothing) for op in ops], axis=-1))
    for name, values in (("bandwidth", model.bandwidth), ("peak_fraction", model.peak_fraction)):
        if name in entries:
            entries[name]["model"] = numbers(values)
    if "needed_warps" in entries:
        along = next(i for i, axis in enumerate(reduced.axes) if axis in OCCUPANCY_AXES)
        entries["needed_warps"]["model"] = numbers(np.fmax.reduce(report_data.NEEDED * model.full_warps, axis=along))
    if reduced.axes:
        binds = [place if place >= 0 else None for place in model.binds.ravel().tolist()]
        entries[_BINDS] = {"label": "what binds", "units": "1", "dims": list(reduced.axes), "keep": {}, "mean": binds,
                           "half": None, "categories": model.kinds}  # fmt: skip


def _panels(entries: Mapping[str, Any], reduced: Reduced) -> list[dict[str, Any]]:
    if "peak_fraction" not in entries:  # nothing has been simulated yet
        return []

    def panel(title: str, kind: str, y: str, hint: str = "") -> dict[str, Any]:
        return {"title": title, "kind": kind, "y": y, "hint": hint}

    if not reduced.axes:
        stacked = ("warp_cycles", "warp_cycles_over_time", "line_warp_cycles")
        panels = [panel(title, "stacked" if y in stacked else "curves", y) for title, y in _RUN_PANELS if y in entries]
        lines = reduced.results.sizes.get("line", 0)
        for one in panels:
            if one["y"] == "line_warp_cycles" and lines > report_data.MAX_LINES:
                one["hint"] = f"The {report_data.MAX_LINES} of {lines} lines with the most cycles."
        return panels
    panels = [panel("Curves", "curves", "peak_fraction")]
    if "warp_cycles" in entries:
        panels.append(panel("Warp states", "stacked", "warp_cycles"))
    if entries.get("needed_warps", {}).get("dims"):
        hint = "The smallest of the occupancies that are shown at which 90 % of a throughput limit is attained."
        panels.append(panel("Warps needed", "curves", "needed_warps", hint))
    if _BINDS in entries and sum(size > 1 for size in reduced.results["peak_fraction"].sizes.values()) > 1:
        hint = "By Volkov's model; choose any other variable to see it as a map."
        panels.append(panel("What binds where", "map", _BINDS, hint))
    return panels


def _table(entries: Mapping[str, Any], dims: Mapping[str, Any], reduced: Reduced) -> dict[str, Any]:
    return _point_table(entries, dims, reduced) if reduced.axes else _run_table(entries, dims)


def _point_table(entries: Mapping[str, Any], dims: Mapping[str, Any], reduced: Reduced) -> dict[str, Any]:
    """A row for each point that was simulated: its place on the axes, what binds, and its numbers."""
    axes = list(reduced.axes)
    columns = [_column(axis, dims[axis], bool(dims[axis]["values"])) for axis in axes]
    binds = entries.get(_BINDS)
    if binds:
        columns.append(_column(_BINDS, binds, False))
    shown = {name: entries[name] for name in _TABLE if name in entries}
    for name, entry in shown.items():
        columns.append(_column(name, entry, True))
        if entry["half"] is not None:
            columns.append({"text": "±", "units": "95 %", "numeric": True})
    rows = []
    for flat, place in enumerate(np.ndindex(*(reduced.results.sizes[axis] for axis in axes))):
        if all(entry["mean"][flat] is None for entry in shown.values()):
            continue
        row: list[Any] = [(dims[axis]["values"] or dims[axis]["texts"])[i] for axis, i in zip(axes, place, strict=True)]
        if binds:
            row.append("" if binds["mean"][flat] is None else binds["categories"][binds["mean"][flat]])
        for entry in shown.values():
            row += [entry["mean"][flat]] if entry["half"] is None else [entry["mean"][flat], entry["half"][flat]]
        rows.append(row)
    return {"columns": columns, "rows": rows}


def _run_table(entries: Mapping[str, Any], dims: Mapping[str, Any]) -> dict[str, Any]:
    """A row for each number of the run, but for long lists of them."""
    heads = (("variable", False), ("of", False), ("mean", True), ("± 95 %", True), ("model", True), ("units", False))
    rows = []
    for name, entry in entries.items():
        if any(len(places) > _MOST_ROWS for places in entry["keep"].values()):
            continue
        kept = [[dims[dim]["texts"][i] for i in entry["keep"][dim]] for dim in entry["dims"]]
        for flat, place in enumerate(np.ndindex(*map(len, kept))):
            of = ", ".join(texts[i] for texts, i in zip(kept, place, strict=True))
            half, model = (entry[what][flat] if entry.get(what) is not None else None for what in ("half", "model"))
            rows.append([name, of, entry["mean"][flat], half, model, _unit(entry)])
    return {"columns": [{"text": text, "units": "", "numeric": numeric} for text, numeric in heads], "rows": rows}


def _column(name: str, of: Mapping[str, Any], numeric: bool) -> dict[str, Any]:
    return {"text": name, "label": of["label"], "units": _unit(of), "numeric": numeric}


def _unit(thing: Mapping[str, Any]) -> str:
    return "" if thing["units"] == "1" else str(thing["units"])


def _bounds_section(model: Bounds, reduced: Reduced) -> str:
    """What binds, in a table: over the points of a sweep, or the worksheet of a run."""
    if not model.kinds:
        why = html.escape(model.missing or "the chip can hold no point")
        return f"<section><h2>What binds</h2><p>Not known: {why}.</p></section>"
    told = (
        "By V. Volkov's model (<i>Understanding Latency Hiding on GPUs</i>, 2016, 3.5 to 3.7): throughput is the smaller of "
        "occupancy / latency bound and the throughput bound, which is that of a unit, of the bandwidth, or of issue."
    )
    if not reduced.axes:
        sheet = "" if model.worksheet is None else f"<pre>{html.escape(str(model.worksheet))}</pre>"
        per = "" if model.worksheet is None else f" Its latency bound is {model.latency:.6g} cycles per {model.worksheet.per}."
        binds = html.escape(model.kinds[0])
        return f'<section><h2>What binds: {binds}</h2><p class="hint">{told}{per}</p>{sheet}</section>'
    done = np.isfinite(reduced.results["peak_fraction"].mean("replicate").values)
    attained = reduced.results["peak_fraction"].mean("replicate").values
    counted = Counter(model.binds[done & (model.binds >= 0)].tolist())
    rows = []
    for place, count in counted.most_common():
        here = attained[done & (model.binds == place)]
        cells = (html.escape(model.kinds[place]), str(count), f"{here.min():.3g} to {here.max():.3g}")
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "<tr><th>binds</th><th>points</th><th>simulated fraction of the tightest limit</th></tr>"
    return f'<section><h2>What binds</h2><p class="hint">{told}</p><table>{head}{"".join(rows)}</table></section>'


def _provenance(attrs: Mapping[str, Any]) -> str:
    """Program, history, settings, and the whole record to unfold."""
    rows = [("program", str(attrs.get("source", "not known"))), ("history", str(attrs.get("history", "not known")))]
    text = str(attrs.get("provenance", ""))
    try:
        record = json.loads(text)
        rows += [("software", ", ".join(f"{name} {version}" for name, version in record["software"].items()))]
        settings = record["call"].get("settings", record["call"])
        rows += [(name, _said(value)) for name, value in settings.items() if value is not None]
        text = json.dumps(record, indent=1)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    lines = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    record_text = f"<details><summary>the whole record</summary><pre>{html.escape(text)}</pre></details>" if text else ""
    return f'<div class="scroll"><table>{lines}</table></div>{record_text}'


def _said(value: Any) -> str:
    """A setting in a line: an object by its name, a long list by its ends."""
    if isinstance(value, dict):
        return str(value.get("name") or ", ".join(f"{key} {item}" for key, item in value.items() if item is not None))
    if isinstance(value, list):
        items = [_said(item) for item in value]
        return ", ".join(items if len(items) <= 12 else [*items[:5], "…", *items[-5:]])
    return str(value)
