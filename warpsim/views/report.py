"""Writes a result as one HTML page that works offline: interactive figures, a table of the points, and the provenance.

Plotly draws the figures. The page includes the JavaScript of plotly (4.8 MB), compressed to 2 MB. Of the libraries that draw in a
browser, plotly has the smallest dependencies: altair needs a package of 33 MB to embed vega-lite, and bokeh (1.3 MB of
JavaScript) needs nine packages, among them tornado and pillow.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.atomic_file import write_text
from warpsim.results.statistics import OCCUPANCY_AXES
from warpsim.units import NEEDED_FRACTION
from warpsim.views import report_data
from warpsim.views.report_data import MAX_POINTS, Thinned, json_numbers, thin

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.analysis.at_points import Bounds

    Model = Callable[[xr.Dataset, tuple[str, ...]], Bounds]

_BINDS = "binds"
_CHIPS = "gpu"
_TABLE_VARIABLES = ("peak_fraction", "bandwidth", "memory_latency", "warp_latency", "occupancy")
_MAX_ROWS = 24
"""Variables of a run with a longer dimension are not listed in the table."""
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
    """Writes a result as an HTML page.

    Args:
        results: results of `simulate`, `sweep` or `open_results`, or a selection of their points.
        path: the file, which is written atomically.
        model: determines what binds at each point, such as `warpsim.analysis.at_points.bounds`; None: the page does not show it.
        title: title of the page.
        notes: sentences at the top of the page, such as a note that a store is incomplete.
        limit: upper limit on the points of the page. If there are more, the page shows every k-th value of the longest axes,
            and states this.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: these are not results of warpsim.
        ModuleNotFoundError: the package plotly is not installed.
    """
    text = report_html(results, model=model, title=title, notes=notes, limit=limit)
    write_text(path, text)


def report_html(
    results: xr.Dataset,
    *,
    model: Model | None = None,
    title: str = "warpsim",
    notes: Sequence[str] = (),
    limit: int = MAX_POINTS,
) -> str:
    """Returns the text of the page. Arguments and errors are those of `write_report`."""
    plotly = _packed_plotly()
    thinned = thin(results, limit)
    simulated = int(np.isfinite(thinned.results["peak_fraction"].mean("replicate")).sum())
    entries = report_data.drawable_variables(thinned)
    dims = report_data.dimensions(thinned, entries)
    bounds = None if model is None else model(thinned.results, thinned.axes)
    if bounds is not None and bounds.kinds:
        _add_model_numbers(entries, bounds, thinned)
    data = {"axes": thinned.axes, "dims": dims, "variables": entries, "binds": _BINDS if _BINDS in entries else None,
            "panels": _panels(entries, thinned), "table": _table(entries, dims, thinned)}  # fmt: skip
    values = {
        "title": html.escape(title),
        "lead": html.escape(_summary_line(thinned, simulated)),
        "notes": "\n".join(f'<p class="note">{html.escape(note)}</p>' for note in [*notes, *_thinning_note(thinned)]),
        "bounds": "" if bounds is None else _bounds_section(bounds, thinned),
        "table_title": "Points" if thinned.axes else "All numbers",
        "provenance": _provenance(results.attrs),
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "plotly": plotly,
        "style": _page_file("report.css"),
        "script": _page_file("report.js"),
    }
    return Template(_page_file("report.html")).substitute(values)


def _packed_plotly() -> str:
    """Returns the JavaScript of plotly, compressed by gzip and encoded in base64."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a report needs the package {error.name}: pip install 'warpsim[report]'") from None
    packed = gzip.compress(get_plotlyjs().encode(), mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _page_file(name: str) -> str:
    return (resources.files("warpsim.views") / "page" / name).read_text(encoding="utf-8")


def _summary_line(thinned: Thinned, simulated: int) -> str:
    """Returns a sentence on the number of points and replicates."""
    counts = thinned.results["peak_fraction"].notnull().sum("replicate")
    most = int(counts.max())
    least = int(counts.where(counts > 0).min()) if most else 0
    replicates = str(most) if least == most else f"{least} to {most}"
    each = f"{replicates} replicates; means with 95 % intervals" if most > 1 else "one replicate, so without intervals"
    if not thinned.axes:
        return f"A single run: {each}."
    sizes = " × ".join(f"{thinned.results.sizes[axis]} {axis}" for axis in thinned.axes)
    return f"{simulated} simulated points ({sizes}), each with {each}."


def _thinning_note(thinned: Thinned) -> list[str]:
    """Returns a note on the points that are left out, if any."""
    if not thinned.thinned_axes:
        return []
    shown = int(np.prod([thinned.results.sizes[axis] for axis in thinned.axes]))
    axes = ", ".join(f"{kept} of {total} values of {axis}" for axis, (kept, total) in thinned.thinned_axes.items())
    of = f"{shown} of {thinned.total_points} points ({axes})"
    return [f"This page shows {of}; a selection with --where AXIS=VALUE shows the rest."]


def _add_model_numbers(entries: dict[str, dict[str, Any]], model: Bounds, thinned: Thinned) -> None:
    """Adds the model's numbers to the variables, and a variable for what binds."""
    for name, by_op in (("throughput", model.throughput), ("ipc", model.ipc)):
        if name in entries:
            ops, zero = thinned.results["op"].values, np.where(model.binds < 0, np.nan, 0.0)
            shown = ops[entries[name]["indices"]["op"]] if ops.ndim else ops.reshape(1)
            of_shown = np.stack([by_op.get(op, zero) for op in shown], axis=-1)
            entries[name]["model"] = json_numbers(of_shown if ops.ndim else of_shown[..., 0])
    for name, values in (("bandwidth", model.bandwidth), ("peak_fraction", model.peak_fraction)):
        if name in entries:
            entries[name]["model"] = json_numbers(values)
    if "needed_warps" in entries:
        along = next(i for i, axis in enumerate(thinned.axes) if axis in OCCUPANCY_AXES)
        needed = np.fmax.reduce(NEEDED_FRACTION * model.full_warps, axis=along)
        entries["needed_warps"]["model"] = json_numbers(needed)
    if thinned.axes:
        binds = [kind if kind >= 0 else None for kind in model.binds.ravel().tolist()]
        entries[_BINDS] = {"label": "what binds", "units": "1", "dims": list(thinned.axes), "indices": {}, "mean": binds,
                           "half": None, "categories": model.kinds}  # fmt: skip


def _panels(entries: Mapping[str, Any], thinned: Thinned) -> list[dict[str, Any]]:
    """Returns the figures of the page: title, kind, variable and hint of each."""
    if "peak_fraction" not in entries:  # nothing has been simulated yet
        return []

    def panel(title: str, kind: str, y: str, hint: str = "") -> dict[str, Any]:
        return {"title": title, "kind": kind, "y": y, "hint": hint}

    if not thinned.axes:
        stacked = ("warp_cycles", "warp_cycles_over_time", "line_warp_cycles")
        panels = [panel(title, "stacked" if y in stacked else "curves", y) for title, y in _RUN_PANELS if y in entries]
        lines = thinned.results.sizes.get("line", 0)
        for shown in panels:
            if shown["y"] == "line_warp_cycles" and lines > report_data.MAX_LINES:
                shown["hint"] = f"The {report_data.MAX_LINES} of {lines} lines with the most cycles."
        return panels
    panels = [panel("Curves", "curves", "peak_fraction")]
    if "warp_cycles" in entries:
        panels.append(panel("Warp states", "stacked", "warp_cycles"))
    if entries.get("needed_warps", {}).get("dims"):
        gap = " Curves have gaps where none does." if None in entries["needed_warps"]["mean"] else ""
        hint = f"The smallest occupancy shown that attains {100 * NEEDED_FRACTION:g} % of a throughput limit.{gap}"
        panels.append(panel("Warps needed", "curves", "needed_warps", hint))
    if _BINDS in entries and sum(size > 1 for size in thinned.results["peak_fraction"].sizes.values()) > 1:
        hint = "By Volkov's model. Any other variable can be selected and shown as a map."
        panels.append(panel("What binds where", "map", _BINDS, hint))
    return panels


def _table(entries: Mapping[str, Any], dims: Mapping[str, Any], thinned: Thinned) -> dict[str, Any]:
    return _point_table(entries, dims, thinned) if thinned.axes else _run_table(entries, dims)


def _point_table(entries: Mapping[str, Any], dims: Mapping[str, Any], thinned: Thinned) -> dict[str, Any]:
    """Returns a table with a row per simulated point: its values on the axes, what binds, and its numbers."""
    axes = list(thinned.axes)
    columns = [_column(axis, dims[axis], bool(dims[axis]["values"])) for axis in axes]
    binds = entries.get(_BINDS)
    if binds:
        columns.append(_column(_BINDS, binds, False))
    shown = {name: entries[name] for name in _TABLE_VARIABLES if name in entries}
    for name, entry in shown.items():
        columns.append(_column(name, entry, True))
        if entry["half"] is not None:
            columns.append({"text": "±", "units": "95 %", "numeric": True})
    rows = []
    for flat_index, index in enumerate(np.ndindex(*(thinned.results.sizes[axis] for axis in axes))):
        if all(entry["mean"][flat_index] is None for entry in shown.values()):
            continue
        row: list[Any] = [(dims[axis]["values"] or dims[axis]["texts"])[i] for axis, i in zip(axes, index, strict=True)]
        if binds:
            row.append("" if binds["mean"][flat_index] is None else binds["categories"][binds["mean"][flat_index]])
        for entry in shown.values():
            row += [entry[name][flat_index] for name in ("mean", "half") if entry[name] is not None]
        rows.append(row)
    return {"columns": columns, "rows": rows}


def _run_table(entries: Mapping[str, Any], dims: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table with a row per number of a run, without variables that have a long dimension."""
    numbers = {"mean": "mean", "half": "± 95 %", "model": "model"}
    if all(entry["half"] is None for entry in entries.values()):
        del numbers["half"]
    rows = []
    for name, entry in entries.items():
        if any(len(indices) > _MAX_ROWS for indices in entry["indices"].values()):
            continue
        labels = [[dims[dim]["texts"][i] for i in entry["indices"][dim]] for dim in entry["dims"]]
        for flat_index, index in enumerate(np.ndindex(*map(len, labels))):
            of = ", ".join(texts[i] for texts, i in zip(labels, index, strict=True))
            found = [entry[what][flat_index] if entry.get(what) is not None else None for what in numbers]
            rows.append([name, of, *found, _unit(entry)])
    titles = ["variable", "of", *numbers.values(), "units"]
    return {"columns": [{"text": text, "units": "", "numeric": text in numbers.values()} for text in titles], "rows": rows}


def _column(name: str, of: Mapping[str, Any], numeric: bool) -> dict[str, Any]:
    return {"text": name, "label": of["label"], "units": _unit(of), "numeric": numeric}


def _unit(thing: Mapping[str, Any]) -> str:
    return "" if thing["units"] == "1" else str(thing["units"])


def _bounds_section(model: Bounds, thinned: Thinned) -> str:
    """Returns a section on what binds: a table over the points of a sweep, or the worksheet of a run."""
    if not model.kinds:
        reason = html.escape(model.missing or "the chip can hold no point")
        return f"<section><h2>What binds</h2><p>Unknown: {reason}.</p></section>"
    explanation = (
        "By the model of V. Volkov (<i>Understanding Latency Hiding on GPUs</i>, 2016, sections 3.5 to 3.7): throughput is the "
        "smaller of occupancy / latency bound and the throughput bound, which is that of a unit, of L2, of the bandwidth, of the "
        "loads in flight, or of issue."
    )
    if not thinned.axes:
        sheet = "" if model.worksheet is None else f"<pre>{html.escape(str(model.worksheet))}</pre>"
        per = "" if model.worksheet is None else f" Its latency bound is {model.latency:.6g} cycles per {model.worksheet.per}."
        binds = html.escape(model.kinds[0])
        return f'<section><h2>What binds: {binds}</h2><p class="hint">{explanation}{per}</p>{sheet}</section>'
    done = np.isfinite(thinned.results["peak_fraction"].mean("replicate").values)
    attained = thinned.results["peak_fraction"].mean("replicate").values
    rows = []
    for chip, of_chip in _chips(thinned):
        counted = Counter(model.binds[done & of_chip & (model.binds >= 0)].tolist())
        for kind, count in counted.most_common():
            fractions = attained[done & of_chip & (model.binds == kind)]
            cells = (chip, model.kinds[kind], str(count), f"{fractions.min():.3g} to {fractions.max():.3g}")
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells if cell) + "</tr>")
    chips = "<th>chip</th>" if _CHIPS in thinned.axes else ""
    head = f"<tr>{chips}<th>binds</th><th>points</th><th>simulated fraction of the tightest limit</th></tr>"
    table = f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'
    return f'<section><h2>What binds</h2><p class="hint">{explanation}</p>{table}</section>'


def _chips(thinned: Thinned) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yields the chips of a sweep with the points of each; "" with all points if the chip is not an axis."""
    shape = [thinned.results.sizes[axis] for axis in thinned.axes]
    if _CHIPS not in thinned.axes:
        yield "", np.ones(shape, bool)
        return
    place = thinned.axes.index(_CHIPS)
    for number, chip in enumerate(thinned.results[_CHIPS].values.tolist()):
        here = np.zeros(shape, bool)
        here[(slice(None),) * place + (number,)] = True
        yield str(chip), here


def _provenance(attrs: Mapping[str, Any]) -> str:
    """Returns a table of program, history and settings, and the complete record in a section that can be unfolded."""
    rows = [("program", str(attrs.get("source", "unknown"))), ("history", str(attrs.get("history", "unknown")))]
    text = attrs.get("provenance", "")
    try:
        record = json.loads(text)
        rows += [("software", ", ".join(f"{name} {version}" for name, version in record["software"].items()))]
        settings = record["call"].get("settings", record["call"])
        rows += [(name, _setting_text(value)) for name, value in settings.items() if value is not None]
        text = json.dumps(record, indent=1)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    lines = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    record_text = f"<details><summary>complete record</summary><pre>{html.escape(text)}</pre></details>" if text else ""
    return f'<div class="scroll"><table>{lines}</table></div>{record_text}'


def _setting_text(value: Any) -> str:
    """Returns a setting on one line: an object by its name, a long list by its first and last values."""
    if isinstance(value, dict):
        return str(value.get("name") or ", ".join(f"{key} {item}" for key, item in value.items() if item is not None))
    if isinstance(value, list):
        items = [_setting_text(item) for item in value]
        return ", ".join(items if len(items) <= 12 else [*items[:5], "…", *items[-5:]])
    return str(value)
