"""warpsim advise: reports the occupancy that a kernel needs, what limits it, and what changes would gain."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpsim.cli.common import (
    DONE,
    Commands,
    add_point_options,
    add_workers,
    counted,
    new_command,
    request,
    requested_point,
    residency_text,
)
from warpsim.cli.output import add_json, dataset_json, print_json
from warpsim.cli.windows import warn_beyond_peak, warn_of_free_stores, warn_of_short_windows, warn_of_small_grids
from warpsim.units import NEEDED_FRACTION

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.simulation.point import Point

_BENEFITS = {
    "b_memlp": "memory-level parallelism",
    "b_itilp": "inter-thread ILP",
    "b_serial": "no serialization",
    "b_fp": "essential work only",
}
_STATES_SHOWN, _LINES_SHOWN = 3, 5
_LEAST_SHOWN = 0.01  # of the warp-cycles, for a program line
_WIDTH, _LINE_WIDTH = 110, 72
_LEGEND = (
    "Gains are ratios of work per cycle, with half the width of their 95 % intervals. Volkov 2016 and Sim et al. 2012 predict "
    "the gain of the same change; the limit is the largest gain that Sim et al. allow for its kind of change. ILP is "
    "instruction-level parallelism; inter-thread ILP is that of all warps of an SM together."
)
_BELIEVE = (
    "* differs from the simulation of the same change by more than a tenth, or is a limit exceeded by as much. Believe the "
    "simulation: it runs the changed machine cycle by cycle, with random latencies, queues, and warps that compete for issue and "
    "units, which the models leave out."
)
_UNDECIDED = (
    "? differs from the simulated mean by more than a tenth, but lies within its interval. The simulation is too short to "
    "tell; ask for more --replicates or --cycles."
)


def add(commands: Commands) -> None:
    """Adds the command."""
    text = "simulate which occupancy a kernel needs on a chip, what limits it, and what changes would gain"
    new_command(commands, "advise", _run, text, _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    from warpsim.analysis.advice import REPLICATES
    from warpsim.hardware.sections import SLICE_SMS

    own = {
        "replicates": f"number of replicates (default: {REPLICATES})",
        "sms": f"simulate only N SMs, with echoes for the others (default: the whole chip, but at most {SLICE_SMS})",
        "warmup": "cycles before counting starts (default: derived by a pilot run)",
        "cycles": "cycles that are counted (default: several repetitions of the kernel)",
    }
    add_point_options(parser, texts=own)
    parser.add_argument(
        "--fraction", type=float, default=NEEDED_FRACTION, metavar="F",
        help="fraction of the peak that the needed occupancy attains (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--departure-delay", type=float, metavar="N", help="cycles between memory transactions, for the model of Sim et al."
    )
    add_workers(parser)
    add_json(parser, "every variable of the advice")


def _run(options: argparse.Namespace) -> int:
    from warpsim.analysis.advice import REPLICATES, advise_point, quick
    from warpsim.results.windows import short_windows

    if options.replicates is None:
        options.replicates = REPLICATES
    given = [name for name in ("sms", "cycles") if getattr(options, name) is not None]
    with request():
        point = quick(requested_point(options), given)
        ds = advise_point(point, fraction=options.fraction, departure_delay=options.departure_delay, threads=options.workers)
    warn_of_free_stores(point)
    warn_of_short_windows(short_windows(ds))
    warn_beyond_peak(ds["share"])
    warn_of_small_grids(point)
    if options.json:
        print_json(dataset_json(ds))
    else:
        print(_page(point, ds))
    return DONE


def _page(point: Point, ds: xr.Dataset) -> str:
    """Returns the text that the command prints."""
    warmup = "a derived warm-up" if point.warmup is None else point.warmup
    window = "to the end of the grid" if point.finite else f"{counted(point.cycles, 'cycle')} after {warmup}"
    return "\n".join([
        f"{point.gpu.title}: {point.kernel.title or point.kernel.name}",
        f"{residency_text(point.launch)}, {point.scheduler}, memory {point.memory}; simulated: {window}, "
        f"{point.simulated_sms} of {counted(point.gpu.sms, 'SM')}, {counted(point.replicates, 'replicate')}",
        "",
        *_filled(_headline(ds)),
        "",
        _launches(ds),
        "",
        _estimates(ds),
        "",
        _facts(ds),
        "",
        _lines(ds),
        "",
        _changes(ds),
        "",
        *_filled(_LEGEND),
        *_below_zero(ds),
        *(line for text in _warnings(ds) for line in _filled(text)),
    ])  # fmt: skip


def _headline(ds: xr.Dataset) -> str:
    """Returns the simulated answer: how many warps attain the fraction of the peak, and how sure that is."""
    peak = f"{ds.attrs['fraction']:.0%} of the peak"
    now, most, present_size = int(ds.warps), int(ds.most_warps), int(ds.block_warps)
    needed, fewest = float(ds.needed_warps), float(ds.fewest_warps)
    size = f"in blocks of {counted(present_size, 'warp')}"
    attained = _share(ds, now, present_size)
    if math.isnan(fewest):
        at = f"the largest occupancy that fits, {most} warps per SM, attains {_share(ds, most)}"
        best = ds.isel(trial=int(ds.share.values.argmax()))
        told = f"No launch attains {peak}: {at}"
        if best.share >= ds.attrs["fraction"]:  # the search takes more warps to attain no less
            told = f"T{at[1:]}, less than {peak}, but {int(best.trial_warps)} warps per SM attain {_attained(best)} %"
        return f"{told}. There are {now} warps now, which attain {attained}."
    if math.isnan(needed):
        told = f"In{size[2:]}, no launch attains {peak}. "
    else:
        low, high = float(ds.needed_warps_low), float(ds.needed_warps_high)
        sure = "" if math.isnan(low) or low == high else f" (95 % interval: {low:.0f} to {_or_none(high)})"
        told = f"{needed:.0f} warps per SM {size} attain {peak}{sure}: {_share(ds, int(needed), present_size)}. "
    other = ""
    if fewest != needed:
        other_size = int(ds.fewest_block_warps)
        share = _share(ds, int(fewest), other_size)
        other = f"In blocks of {counted(other_size, 'warp')}, {fewest:.0f} warps per SM attain it: {share}. "
    present = "This is the present launch." if now == needed else f"There are {now} warps now, which attain {attained}."
    return told + other + present


def _or_none(warps: float) -> str:
    return "none that fits" if math.isnan(warps) else f"{warps:.0f}"


def _share(ds: xr.Dataset, warps: int, block_warps: int | None = None) -> str:
    """Returns the share of the peak that a launch attains; left out, `block_warps` is that with which it attains most."""
    same = (ds.trial_warps == warps) & (True if block_warps is None else ds.trial_block_warps == block_warps)
    return f"{_attained(ds.isel(trial=int(ds.share.where(same, -1.0).values.argmax())))} %"


def _attained(trial: xr.Dataset) -> str:
    """Returns the share of the peak that one simulated launch attains, in %."""
    from warpsim.views.text_table import plus_minus

    half = 100 * float(trial.share_high - trial.share)
    return f"{100 * float(trial.share):.1f}{plus_minus(half)}"


def _launches(ds: xr.Dataset) -> str:
    """Returns a table of the launches that were simulated."""
    from warpsim.views.text_table import text_table

    rows = []
    for number in range(ds.sizes["trial"]):
        at = ds.isel(trial=number)
        warps, size = int(at.trial_warps), int(at.trial_block_warps)
        rows.append((str(warps), f"{warps // size} of {counted(size, 'warp')}", _attained(at)))
    return text_table(rows, ("warps/SM", "blocks", "% of the peak, simulated"))


def _estimates(ds: xr.Dataset) -> str:
    """Returns a table of the needed warps by each model, and the throughput of the launch that follows from it."""
    from warpsim.views.text_table import significant, text_table

    rows = []
    for author in ds.author.values:
        at = ds.sel(author=author)
        warps, launch = float(at.estimated_warps), int(at.estimated_launch)
        by_model, simulated = 1000 * float(at.estimated_rate), 1000 * float(at.estimated_rate_simulated)
        rows.append((
            str(author), f"{warps:.1f}" if math.isfinite(warps) else "no number",
            f"{launch} at most" if warps > launch else str(launch),
            f"{significant(by_model, 4)}{'*' if bool(at.estimate_differs) else ''}", significant(simulated, 4),
            f"{100 * float(at.estimated_share):.1f}",
        ))  # fmt: skip
    per = f"{ds.attrs['per']}s/1000 cycles/SM"
    header = ("needed warps by", "warps/SM", "as a launch", f"{per} by the model", "simulated", "% of the peak, simulated")
    return text_table(rows, header)


def _facts(ds: xr.Dataset) -> str:
    from warpsim.views.text_table import plus_minus, significant, text_table

    per = ds.attrs["per"]
    hidden = "" if ds.limiter == ds.tightest else f"; with latency hidden: {ds.tightest.item()}"
    covered = bool(ds.limiter_sim.item())
    by_sim = f"{ds.limiter_sim.item()} (Sim et al.)" if covered else f"not covered by Sim et al.: {ds.attrs['not_covered']}"
    half = float(ds.rate_high - ds.rate)
    shares = sorted(zip(ds.warp_share.values, ds.state.values, strict=True), reverse=True)[:_STATES_SHOWN]
    rates = [(name, rate) for name, rate in _by_model(ds.model_rate) if not math.isnan(rate)]
    models = ", ".join(f"{significant(1000 * rate, 4)} by {name}" for name, rate in rates)
    return text_table([
        ("limited by", f"{ds.limiter.item()} (Volkov){hidden}; {by_sim}"),
        ("throughput", f"{significant(1000 * float(ds.rate), 4)}{plus_minus(1000 * half)} {per}s per 1000 cycles and SM, "
         f"simulated; {models}"),
        *([("could be saved", f"at most, of the time, by Sim et al.: {_savings(ds)}")] if covered else []),
        ("warps are", ", ".join(f"{state} {share:.0%}" for share, state in shares if share > 0)),
    ])  # fmt: skip


def _lines(ds: xr.Dataset) -> str:
    """Returns a table of the program lines at which warps wait most, or for which they do."""
    from warpsim.views.text_table import text_table

    waits, waits_for = ds.line_share.drop_sel(state="selected"), ds.line_caused_share.drop_sel(state=["selected", "not_selected"])
    at, caused = (each.sum("state").values for each in (waits, waits_for))
    longest = sorted(range(ds.sizes["line"]), key=lambda line: -max(at[line], caused[line]))[:_LINES_SHOWN]
    rows = [
        (
            textwrap.shorten(f"{line}: {ds.line_text.values[line]}", _LINE_WIDTH, placeholder=" ..."),
            f"{at[line]:.0%}", str(waits.state.values[int(waits.values[line].argmax())]) if at[line] >= _LEAST_SHOWN else "",
            f"{caused[line]:.0%}",
        )
        for line in sorted(longest) if max(at[line], caused[line]) >= _LEAST_SHOWN
    ]  # fmt: skip
    return text_table(rows, ("program line (shares of the warp-cycles)", "wait at it", "mostly", "wait for it"))


def _by_model(values: xr.DataArray) -> Iterator[tuple[str, float]]:
    for name in reversed(values.model.values):
        yield str(name), float(values.sel(model=name))


def _changes(ds: xr.Dataset) -> str:
    """Returns a table of the changes: their gains by the models and by simulation."""
    from warpsim.views.text_table import plus_minus, text_table

    rows = []
    for name in ds.change.values[1:]:
        at = ds.sel(change=name)
        predicted = [f"{_gain(value)}{_mark(at, author)}" for author, value in _by_model(at.predicted)]
        simulated = _gain(float(at.gain)) + plus_minus(float(at.gain_high - at.gain))
        limit = _gain(float(at.potential)) + ("*" if bool(at.potential_exceeded) else "")
        rows.append((str(name), simulated, *predicted, limit, _BENEFITS.get(str(at.benefit.item()), "")))
    models = (str(name) for name in reversed(ds.model.values))
    return text_table(rows, ("change", "simulated gain", *models, "limit", "kind of change by Sim et al."))


def _mark(at: xr.Dataset, author: str) -> str:
    here = at.sel(model=author)
    if not bool(here.predicted_differs):
        return ""
    return "?" if bool(here.predicted_within) else "*"


def _savings(ds: xr.Dataset) -> str:
    shares = zip(ds.saving_of.values, ds.saving.values, strict=True)
    return ", ".join(f"{_BENEFITS[str(name)]} {share:.0%}" for name, share in shares)


def _warnings(ds: xr.Dataset) -> Iterator[str]:
    """Yields a sentence on models that contradict the simulation, and one on those that it is too short to judge."""
    differs, within = ds.predicted_differs.values, ds.predicted_within.values
    if bool(ds.estimate_differs.any()) or bool(ds.potential_exceeded.any()) or (differs & ~within).any():
        yield _BELIEVE
    if (differs & within).any():
        yield _UNDECIDED


def _below_zero(ds: xr.Dataset) -> list[str]:
    """Explains a negative benefit of only essential work; no lines if it is not negative."""
    saving = ds.saving.sel(saving_of=["b_fp", "b_itilp"])
    if not float(saving[0]) < 0:
        return []
    return _filled(
        f"The saving by essential work only is below 0 because the essential work of Sim et al. (equation 18) includes the "
        f"latency that their inter-thread ILP (equation 20) counts as saved. Only their sum is meaningful: at most "
        f"{float(saving.sum()):.0%} of the time."
    )


def _filled(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)


def _gain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"
