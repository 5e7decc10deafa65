"""warpsim compare: compares all models that cover a kernel with the simulation, in a figure and tables."""

from __future__ import annotations

import argparse
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.cli.common import (
    DONE,
    FIGURES,
    INTEGER_OPTIONS,
    Commands,
    add_kernel_options,
    add_run_options,
    add_workers,
    check_output,
    counted,
    given_options,
    new_command,
    request,
    requested_kernel,
)
from warpsim.cli.output import add_json, dataset_json, print_json
from warpsim.cli.windows import warn_of_short_windows

if TYPE_CHECKING:
    import xarray as xr

_INTEGERS = tuple(name for name in INTEGER_OPTIONS if name != "warps")  # here `warps` is a list
_SIZE = (7.0, 4.4)
"""Width and height of the figure in inches, with its legend at the side."""
_LINE_WIDTH = 100


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "compare", _run, "compare all models with the simulation, over occupancy", _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    from warpsim.analysis.advice import REPLICATES
    from warpsim.hardware.sections import MOST_SMS, SLICE_SMS

    add_kernel_options(parser)
    parser.add_argument(
        "--warps", metavar="N,N", help="occupancies in warps per SM (default: every multiple of the schedulers that fits)"
    )
    parser.add_argument(
        "--op",
        help="operation class whose throughput is compared (default: the first of load, async_copy and alu that the kernel has)",
    )
    texts = {
        "replicates": f"number of replicates (default: {REPLICATES})",
        "sms": f"simulate only N SMs, with echoes for the others (default: {SLICE_SMS} of a chip of more than {MOST_SMS}, else "
        "the whole chip)",
    }
    add_run_options(parser, _INTEGERS, texts=texts)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FIGURE", help="also draw a figure into this .png, .pdf or .svg file"
    )
    add_json(parser, "every number of the comparison")
    add_workers(parser)


def _run(options: argparse.Namespace) -> int:
    from warpsim.analysis.comparison import compare, default_sms
    from warpsim.results.windows import short_windows

    with request():
        gpu, kernel = requested_kernel(options)
        if options.output is not None:
            check_output(options.output, FIGURES)
        given = {**given_options(options, _INTEGERS), "threads": options.workers}
        comparison = compare(gpu, kernel, warps=_occupancies(options.warps), op=options.op, **given)
    results = comparison.results
    warn_of_short_windows(short_windows(results))
    if options.output is not None:
        _draw(results, f"{gpu.title}: {kernel.title or kernel.name}", options.output)
    if options.json:
        print_json({
            **dataset_json(results.drop_vars("provenance")), "not_covered": comparison.not_covered, "notes": comparison.notes,
        })  # fmt: skip
        return DONE
    print(f"{gpu.title}: {kernel.title or kernel.name}")
    simulated = given.get("sms", default_sms(gpu, kernel))
    if simulated < gpu.sms:
        print(f"simulated: {counted(simulated, 'SM')} of {gpu.sms}; --sms {gpu.sms} simulates all")
    print(f"{results.attrs['op']} throughput in {results['throughput'].attrs['units']}, errors against the simulation in %\n")
    print(_by_occupancy(results))
    print(f"\n{_by_model(results)}")
    for title, texts in (("Not covered", comparison.not_covered), ("Notes", comparison.notes)):
        if texts:
            lines = (textwrap.fill(f"{name}: {text}", _LINE_WIDTH, subsequent_indent="    ") for name, text in texts.items())
            print(f"\n{title}:", *lines, sep="\n  ")
    if options.output is not None:
        print(f"\nfigure: {options.output}")
    return DONE


def _draw(results: xr.Dataset, title: str, output: Path) -> None:
    from matplotlib.figure import Figure

    from warpsim.views.plots import overlay, paper, save

    with paper():
        figure = Figure(figsize=_SIZE, layout="constrained")
        overlay(results, figure.subplots()).set_title(title, loc="left")
        save(figure, output)


def _occupancies(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--warps {text}: must be integers separated by commas, such as 4,8,16") from None


def _by_occupancy(results: xr.Dataset) -> str:
    """Returns a table with a row per occupancy: the simulated throughput and the error of each model."""
    from warpsim.results.statistics import half_width
    from warpsim.views.plots.overlay import LETTERS
    from warpsim.views.text_table import plus_minus, significant, text_table

    rows = []
    for n in results["warps"].values.tolist():
        here = results.sel(warps=n)
        values = here["throughput"].values
        errors = ["-" if math.isnan(error) else _percent(error) for error in here["error"].values.tolist()]
        rows.append([str(n), f"{significant(values.mean(), 4)}{plus_minus(float(half_width(values)))}", *errors])
    return text_table(rows, ["warps", "simulation", *LETTERS[: results.sizes["model"]]])


def _percent(error: float) -> str:
    """Returns an error in whole per cent with its sign; what rounds to 0 has none."""
    return f"{100 * error:+.0f}" if abs(error) > 0.005 else "0"


def _by_model(results: xr.Dataset) -> str:
    """Returns a table with a row per model: its letter, its errors, and the bound that binds at each occupancy."""
    import numpy as np

    from warpsim.views.plots.overlay import LETTERS
    from warpsim.views.text_table import text_table

    rows = []
    warps = results["warps"].values.tolist()
    for letter, name in zip(LETTERS, results["model"].values.tolist(), strict=False):
        here = results.sel(model=name)
        errors = here["error"].values
        worst = int(np.nanargmax(np.abs(errors)))
        mean = f"{100 * np.nanmean(np.abs(errors)):.1f}"
        bounds = _spans(warps, here["bottleneck"].values.tolist())
        rows.append([letter, name, mean, f"{_percent(float(errors[worst]))} at {warps[worst]}", bounds])
    return text_table(rows, ["", "model", "mean |error|, %", "largest, at warps", "bound that binds, at warps"])


def _spans(warps: list[int], words: list[str]) -> str:
    """Joins equal neighbours, such as "latency 4-28, memory 32-64"."""
    spans: list[tuple[str, int, int]] = []
    for n, word in zip(warps, words, strict=True):
        if spans and spans[-1][0] == word:
            spans[-1] = (word, spans[-1][1], n)
        else:
            spans.append((word, n, n))
    return ", ".join(f"{word} {low}" if low == high else f"{word} {low}-{high}" for word, low, high in spans if word)
