"""warpsim advise: reports what limits a kernel on a chip, and what changes would gain."""

from __future__ import annotations

import argparse
import math
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

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.simulation.point import Point

_BENEFITS = {"b_memlp": "MLP", "b_itilp": "ITILP", "b_serial": "serial", "b_fp": "FP"}
_LEGEND = (
    "V is the model of Volkov 2016, S that of Sim et al. 2012. Benefits of S: MLP, more memory-level parallelism; ITILP, more",
    "inter-thread instruction-level parallelism; serial, no serialization; FP, only essential (floating-point) computation.",
)
_STATES_SHOWN = 3


def add(commands: Commands) -> None:
    """Adds the command."""
    text = "report what limits a kernel on a chip, and simulate what changes would gain"
    new_command(commands, "advise", _run, text, _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    from warpsim.analysis.advice import REPLICATES

    add_point_options(parser, replicates=f"number of replicates (default: {REPLICATES})")
    parser.add_argument(
        "--fraction", type=float, default=0.9, metavar="F",
        help="fraction of the peak that the needed occupancy attains (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--departure-delay", type=float, metavar="N", help="cycles between memory transactions, for the model of Sim et al."
    )
    add_workers(parser)


def _run(options: argparse.Namespace) -> int:
    from warpsim.analysis.advice import REPLICATES, advise_point

    if options.replicates is None:
        options.replicates = REPLICATES
    point = requested_point(options)
    with request():
        ds = advise_point(point, fraction=options.fraction, departure_delay=options.departure_delay, threads=options.workers)
    print(_page(point, ds))
    return DONE


def _page(point: Point, ds: xr.Dataset) -> str:
    """Returns the text that the command prints."""
    from warpsim.views.text_table import text_table

    per = ds.attrs["per"]
    hidden = "" if ds.limiter == ds.tightest else f"; with latency hidden: {ds.tightest.item()}"
    by_s = f"{ds.limiter_s.item()} (S)" if ds.limiter_s.item() else f"not covered (S): {ds.attrs['not_covered']}"
    half = float(ds.rate_high - ds.rate)
    shares = sorted(zip(ds.warp_share.values, ds.state.values, strict=True), reverse=True)[:_STATES_SHOWN]
    facts = [
        ("limited by", f"{ds.limiter.item()} (V){hidden}; {by_s}"),
        ("throughput", f"{1000 * float(ds.rate):.4g}{_plus_minus(1000 * half)} {per}s per 1000 cycles and SM, simulated;"
         f" {1000 * float(ds.rate_v):.4g} by V, {1000 * float(ds.rate_s):.4g} by S"),
        ("needed warps", f"{float(ds.needed_warps):.1f} per SM for {ds.attrs['fraction']:.0%} of the peak (V);"
         f" there are {int(ds.warps)}, and {int(ds.most_warps)} fit"),
        *([("could be saved", f"at most {_savings(ds)} of the time (S)")] if ds.limiter_s.item() else []),
        ("warps are", ", ".join(f"{state} {share:.0%}" for share, state in shares if share > 0)),
    ]  # fmt: skip
    rows = []
    for name in ds.change.values[1:]:
        at = ds.sel(change=name)
        rows.append((
            str(name), _BENEFITS.get(str(at.benefit.item()), ""), _gain(float(at.potential)), _gain(float(at.predicted_s)),
            _gain(float(at.predicted_v)), _gain(float(at.gain)) + _plus_minus(float(at.gain_high - at.gain)),
        ))  # fmt: skip
    return "\n".join([
        f"{point.gpu.title}: {point.kernel.title or point.kernel.name}",
        f"{residency_text(point.launch)}, {point.scheduler}, memory {point.memory}, {counted(point.replicates, 'replicate')}",
        "",
        text_table(facts),
        "",
        text_table(rows, ("change", "benefit", "potential", "S", "V", "simulated")),
        "",
        "Gains are ratios of work per cycle: the potential is the upper bound by S; S and V are predictions for the change;",
        "the simulated gain has half the width of its 95 % interval.",
        *_below_zero(ds),
        *_LEGEND,
    ])  # fmt: skip


def _savings(ds: xr.Dataset) -> str:
    shares = zip(ds.saving_of.values, ds.saving.values, strict=True)
    return ", ".join(f"{_BENEFITS[str(name)]} {share:.0%}" for name, share in shares)


def _below_zero(ds: xr.Dataset) -> list[str]:
    """Explains a negative benefit of only essential computation; no lines if it is not negative."""
    saving = ds.saving.sel(saving_of=["b_fp", "b_itilp"])
    if not float(saving[0]) < 0:
        return []
    return [
        "FP is below 0 because the essential computation of S (equation 18) includes the latency that ITILP (equation 20) counts",
        f"as saved. Only their sum is meaningful: at most {float(saving.sum()):.0%} of the time.",
    ]


def _gain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _plus_minus(half: float) -> str:
    return "" if math.isnan(half) else f" ± {half:.2g}"
