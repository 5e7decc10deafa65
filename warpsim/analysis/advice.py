"""Advice for a kernel on a chip: the occupancy that it needs, its limits, and the gain of each possible change.

Everything in the advice is simulated. Beside it stand the numbers of analytical models, under the names of their authors: the
needed warps of several models (`warpsim.analysis.estimates`), and the gain of each change by Volkov 2016 and Sim et al. 2012,
whose potential benefits are upper limits of the time that could be saved. See docs/bibliography.md.
"""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from warpsim.analysis.advice_changes import Change, changes
from warpsim.analysis.advice_models import potential, rates_by_model, savings, work
from warpsim.analysis.estimates import SIM, VOLKOV, Estimate, estimates
from warpsim.analysis.occupancy_search import Needed, OccupancySearch, Trial, all_launches, warps_held
from warpsim.arguments import check_fraction
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.sections import SLICE_SMS
from warpsim.kernels import Kernel
from warpsim.kernels.files import as_kernel
from warpsim.kernels.iteration import stores_run_free
from warpsim.models import volkov
from warpsim.models.parts.common import quantity
from warpsim.models.parts.counts import counts
from warpsim.results.schema import STATES, coordinate_attrs, labels
from warpsim.results.statistics import interval, paired_difference
from warpsim.simulation.api import Arrays, builder_arguments, simulate_point, trace_point
from warpsim.simulation.point import Point, make_point
from warpsim.simulation.trace import Trace
from warpsim.units import NEEDED_FRACTION

AS_IT_IS = "as it is"
"""Label of the original kernel on the dimension `change`."""

REPLICATES = 4
"""Default number of replicates of advice and comparisons; an interval needs several."""

TENTH = 0.1
"""Relative difference from the simulation above which the advice warns of a model."""

_CYCLES, _CYCLES_REPETITIONS = (20_000, 50_000), 8
_STREAMS = b"advice"  # common random numbers for all launches and changes, which reduces the variance of the gains


def advise(
    gpu: Gpu | str | os.PathLike[str],
    kernel: Kernel | str | os.PathLike[str],
    *,
    fraction: float = NEEDED_FRACTION,
    departure_delay: float | None = None,
    threads: int = 1,
    **arguments: Any,
) -> xr.Dataset:
    """Reports what limits a kernel on a chip, which occupancy it needs, and what changes would gain, by simulation.

    Args:
        gpu: the chip, or its name or file.
        kernel: any kernel, or its name or file.
        fraction: fraction of the peak that the needed occupancy attains.
        departure_delay: Delta of Sim et al. 2012 in cycles; their model needs it for accesses of several transactions
            (`models.gpuperf.parameters`).
        threads: number of threads. Replicates run at the same time; where there are at least twice as many threads, the SMs
            of each are divided as well, with at least 16 SMs to a thread.
        arguments: further arguments of `simulate`, and of the builder of a named kernel; `replicates` defaults to 4, and
            `sms` and `cycles` to the values of `quick`.

    Returns:
        The Dataset of `advice.advise_point`.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument's value is not allowed, or the chip cannot hold the launch.
        NotCoveredError: only some warps of the kernel reach its endless loop, or only some leave it.
    """
    builder = builder_arguments(arguments)
    settings = {name: value for name, value in arguments.items() if name not in builder}
    point = make_point(gpu, as_kernel(kernel, **builder), **{"replicates": REPLICATES, **settings})
    return advise_point(quick(point, settings), fraction=fraction, departure_delay=departure_delay, threads=threads)


def quick(point: Point, given: Container[str]) -> Point:
    """Returns a point in the shorter window, and the slice of the chip, that advice simulates by default.

    The slice has at most SLICE_SMS SMs; it is the whole chip if stores run free, which slices do not represent. The window holds
    several repetitions of the kernel, within limits that keep the advice a matter of seconds. A grid that ends runs whole.

    Args:
        point: the point.
        given: names of arguments that keep their values, among `sms` and `cycles`.
    """
    if point.finite:
        return point
    call: dict[str, Any] = {"block_warps": point.launch.block_warps}
    alone = volkov.latency_bound(point.gpu, point.kernel, **call)
    crowded = point.launch.resident_warps * volkov.throughput_bound(point.gpu, point.kernel, **call).cycles
    repetition = max(alone, crowded)
    settings: dict[str, Any] = {
        "sms": None if point.gpu.sms <= SLICE_SMS or stores_run_free(point.kernel) else SLICE_SMS,
        "cycles": int(np.clip(_CYCLES_REPETITIONS * repetition, *_CYCLES)),
    }
    return replace(point, **{name: value for name, value in settings.items() if name not in given})


def advise_point(
    point: Point, *, fraction: float = NEEDED_FRACTION, departure_delay: float | None = None, threads: int = 1
) -> xr.Dataset:
    """Reports what limits a point, which occupancy it needs, and what changes would gain, by simulation.

    The needed occupancy is the smallest that attains a fraction of the peak, which is the tightest throughput limit of the
    hardware (`peak_fraction`). A gain is the work per cycle with a change over that without; the gain of the original is 1.
    Models are asked about the warps that an SM holds, which are fewer than fit where the grid has few blocks. All simulations
    use common random numbers. Intervals are 95 % confidence intervals (Student's t over replicates), and NaN for one
    replicate.

    Args:
        point: the point to simulate.
        fraction: as for `advise`.
        departure_delay: as for `advise`.
        threads: as for `advise`.

    Returns:
        A Dataset. Without dimension:

        - `needed_warps`, `needed_warps_low`, `needed_warps_high`: the smallest occupancy in warps per SM, in blocks of
          the present size, and its interval: the smallest occupancies at which the upper and the lower bound of the share
          attain the fraction. NaN where no launch does;
        - `fewest_warps`, `fewest_block_warps`: the same in blocks of any size that the kernel allows, and that size;
        - `warps`, `block_warps`, `most_warps`: the present occupancy and size, and the largest occupancy that fits;
        - `rate`, `rate_low`, `rate_high`: throughput in warps or repetitions per cycle and SM;
        - `limiter`, `tightest`: the bound that binds by Volkov, now and once latency is hidden; `limiter_sim`: by Sim et al.

        Over `trial`, the launches that the search has simulated, from few to many warps: `trial_warps`, `trial_block_warps`,
        `warp_iterations`, iterations of a warp in the window, and `share`, `share_low`, `share_high`, the attained share of
        the peak. The present launch is among them.

        Over `author`, the models that give a needed occupancy: `estimated_warps`, not rounded; `estimated_launch`, the
        occupancy of the launch of present blocks that follows from it; for that launch `estimated_rate`, by the model,
        `estimated_rate_simulated`, and `estimated_share`, simulated; and `estimate_differs`, whether the two rates differ by
        more than a tenth.

        Over `change`, the first of which is `AS_IT_IS`:

        - `gain`, `gain_low`, `gain_high`: simulated gain and its interval;
        - `predicted`, `predicted_differs`, also over `model` (Sim et al. 2012, Volkov 2016): the predicted gain, and whether
          it differs from the simulated one by more than a tenth; `predicted_within`: whether it lies in the interval, so that
          the simulation is too short to tell;
        - `potential`: largest gain by Sim et al., time over (time - benefit); `potential_exceeded`: whether the simulated gain
          exceeds it by more than a tenth; `benefit`: the name of that benefit, or "".

        Over `saving_of`, the four benefits of Sim et al.: `saving`, the largest share of the time that each could save. Over
        `state`: `warp_share`, the warp states of the original. Over `model`: `model_rate`, its throughput.

        Over `line`, the program lines of the original, with `line_text`, in which the source line of a kernel from machine code
        stands, and over `state`: `line_share`, the share of all warp-cycles by the line that warps have before them, and
        `line_caused_share`, the same by the line that caused them (docs/traces.md).

        Attributes: `per` ("warp" or "repetition"), `fraction`, and `not_covered`, which says why Sim et al. do not cover the
        kernel, or is "". Their values are NaN if they do not cover the kernel.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1, the chip lacks an operation class or a cache latency, or nothing
            issues in `cycles`.
        NotCoveredError: only some warps of the kernel reach its endless loop, or only some leave it.
    """
    check_fraction(fraction)
    search = OccupancySearch(point, _STREAMS, threads)
    if not (search.trial(point.launch).ipc > 0).all():
        raise ValueError(_idle(point, AS_IT_IS))
    needed = search.needed(fraction)
    advised = estimates(point, fraction, departure_delay=departure_delay)
    at_advised = {author: search.trial(estimate.launch) for author, estimate in advised.items()}

    target = needed.any_size if needed.trial is None else needed.trial
    found = [Change(AS_IT_IS, point), *changes(point, None if target is None else target.launch)]
    simulated = [_simulated(change.point, search) for change in found]
    worked = np.stack([work(change, arrays["ipc"]) for change, arrays in zip(found, simulated, strict=True)])
    if not (worked > 0).all():
        raise ValueError(_idle(point, found[int(np.argmin(worked.min(axis=1)))].name))
    names = np.array([change.name for change in found], dtype=np.dtypes.StringDType())
    rates = xr.DataArray(worked, dims=("change", "replicate"), coords={"change": names})
    by_model, costs, why = rates_by_model(found, departure_delay)
    counted = counts(point.gpu, point.kernel, block_warps=point.launch.block_warps)
    per = f"{counted.per}s/cycle/SM"
    ds = xr.Dataset(
        {
            **_needed_variables(point, needed),
            **_trial_variables(search),
            **_estimate_variables(advised, at_advised, counted.total, per),
            **_gain_variables(found, rates, by_model, costs),
            **_present_variables(simulated[0], rates, by_model, per),
            **_line_variables(point, threads),
            **_limiter_variables(point, costs),
        },
        attrs={
            "source": "warpsim.analysis.advice",
            "gpu": point.gpu.name,
            "kernel": point.kernel.name,
            "per": counted.per,
            "fraction": fraction,
            "not_covered": why,
        },
    )
    ds["state"].attrs = coordinate_attrs("state")
    ds["line"].attrs, ds["line_text"].attrs = coordinate_attrs("line"), coordinate_attrs("line_text")
    ds["change"].attrs = {"units": "1", "long_name": "change"}
    ds["model"].attrs = coordinate_attrs("model")
    ds["author"].attrs = {"units": "1", "long_name": "author of a model"}
    return ds


def _idle(point: Point, name: str) -> str:
    """Returns the message that nothing issued in the window of a point with a change."""
    return f"cycles = {point.cycles}: must be larger, since nothing issued in them ({name})"


def _needed_variables(point: Point, needed: Needed) -> dict[str, xr.DataArray]:
    def warps(trial: Trial | None, text: str) -> xr.DataArray:
        return quantity(np.nan if trial is None else trial.warps, "warps/SM", text)

    text = "needed occupancy"
    fewest = needed.any_size
    return {
        "needed_warps": warps(needed.trial, text),
        "needed_warps_low": warps(needed.low, f"lower bound of {text}"),
        "needed_warps_high": warps(needed.high, f"upper bound of {text}"),
        "fewest_warps": warps(fewest, f"{text} with blocks of any size"),
        "fewest_block_warps": quantity(
            np.nan if fewest is None else fewest.launch.block_warps, "warps/block", "size of such a block"
        ),
        "warps": quantity(point.launch.resident_warps, "warps/SM", "occupancy"),
        "block_warps": quantity(point.launch.block_warps, "warps/block", "size of a block"),
        "most_warps": quantity(all_launches(point)[-1].resident_warps, "warps/SM", "largest occupancy"),
    }


def _trial_variables(search: OccupancySearch) -> dict[str, xr.DataArray]:
    trials = sorted(search.trials.values(), key=lambda trial: (trial.warps, trial.launch.block_warps))
    half = np.array([trial.half for trial in trials])
    share = np.array([trial.share for trial in trials])
    columns = {
        "trial_warps": (np.array([trial.warps for trial in trials]), "warps/SM", "occupancy of a simulated launch"),
        "trial_block_warps": (np.array([trial.launch.block_warps for trial in trials]), "warps/block", "size of its blocks"),
        "warp_iterations": (
            np.array([trial.arrays["warp_iterations"].mean() for trial in trials]), "1", "iterations of a warp in the window"
        ),
        "share": (share, "1", "attained share of the peak"),
        "share_low": (share - half, "1", "lower bound of the attained share"),
        "share_high": (share + half, "1", "upper bound of the attained share"),
    }
    return {name: quantity(xr.DataArray(values, dims="trial"), unit, text) for name, (values, unit, text) in columns.items()}


def _estimate_variables(
    advised: dict[str, Estimate], trials: dict[str, Trial], instructions: float, per: str
) -> dict[str, xr.DataArray]:
    simulated = np.array([trial.ipc.mean() / instructions for trial in trials.values()])
    rates = np.array([estimate.rate for estimate in advised.values()])
    warps = np.array([estimate.warps for estimate in advised.values()])
    launched = np.array([estimate.launch.resident_warps for estimate in advised.values()])
    shares = np.array([trial.share for trial in trials.values()])
    columns = {
        "estimated_warps": (warps, "warps/SM", "needed occupancy by a model"),
        "estimated_launch": (launched, "warps/SM", "occupancy of the launch that follows from it"),
        "estimated_rate": (rates, per, "throughput of that launch by the model"),
        "estimated_rate_simulated": (simulated, per, "simulated throughput of that launch"),
        "estimated_share": (shares, "1", "share of the peak that it attains, simulated"),
        "estimate_differs": (np.abs(rates / simulated - 1) > TENTH, "1", "the two throughputs differ by over a tenth"),
    }
    coords = {"author": labels(list(advised))}
    return {
        name: quantity(xr.DataArray(values, dims="author", coords=coords), unit, text)
        for name, (values, unit, text) in columns.items()
    }


def _gain_variables(
    found: list[Change], rates: xr.DataArray, by_model: xr.DataArray, costs: xr.Dataset | None
) -> dict[str, xr.DataArray]:
    """Returns the gains of the changes, simulated and by models, from the rates with each of them."""
    names = rates["change"].values
    gains = (paired_difference(rates, "change", relative=True) + 1).reindex(change=names, fill_value=1.0)
    mean, low, high = (gains[name].reset_coords(drop=True) for name in ("mean", "low", "high"))
    predicted = by_model / by_model.isel(change=0)
    limits = np.array([potential(costs, change.benefit) for change in found])
    columns = {
        "gain": (mean, "simulated gain"),
        "gain_low": (low, "lower bound of simulated gain"),
        "gain_high": (high, "upper bound of simulated gain"),
        "predicted": (predicted, "predicted gain"),
        "predicted_differs": (abs(predicted / mean - 1) > TENTH, "predicted gain differs from the simulated one by over a tenth"),
        "predicted_within": ((predicted >= low) & (predicted <= high), "predicted gain lies in the simulated interval"),
        "potential": (mean.copy(data=limits), f"potential gain by {SIM}"),
        "potential_exceeded": (mean > (1 + TENTH) * limits, "simulated gain exceeds the potential by over a tenth"),
        "benefit": (
            mean.copy(data=np.array([change.benefit for change in found], dtype=object)), f"potential benefit by {SIM}"
        ),
        "saving": (savings(costs), f"largest share of the time that could be saved, by {SIM}"),
    }
    return {name: quantity(values, "1", text) for name, (values, text) in columns.items()}


def _present_variables(arrays: Arrays, rates: xr.DataArray, by_model: xr.DataArray, per: str) -> dict[str, xr.DataArray]:
    """Returns where the warp-cycles of the original go, and its throughput, simulated and by models."""
    cycles, rate = arrays["warp_cycles"].sum(axis=0), interval(rates.isel(change=0, drop=True))
    shares = xr.DataArray(cycles / cycles.sum(), dims="state", coords={"state": list(STATES)})
    return {
        "warp_share": quantity(shares, "1", "share of warp-cycles"),
        "rate": quantity(rate["mean"].values, per, "simulated throughput"),
        "rate_low": quantity(rate["low"].values, per, "lower bound of simulated throughput"),
        "rate_high": quantity(rate["high"].values, per, "upper bound of simulated throughput"),
        "model_rate": quantity(by_model.isel(change=0, drop=True), per, "throughput by a model"),
    }


def _line_variables(point: Point, threads: int) -> dict[str, xr.DataArray]:
    """Returns at which program lines of the original the warp-cycles are, and which lines cause them."""
    arrays, lines = trace_point(point, Trace(states=True), threads)
    at, caused = (arrays[name].sum(axis=0) for name in ("line_warp_cycles", "line_caused_warp_cycles"))
    coords = {"line": lines["line"], "line_text": lines["line_text"], "state": list(STATES)}
    columns = {
        "line_share": (at, "share of warp-cycles, by program line"),
        "line_caused_share": (caused, "share of warp-cycles, by the program line that caused them"),
    }
    return {
        name: quantity(xr.DataArray(cycles / at.sum(), dims=("line", "state"), coords=coords), "1", text)
        for name, (cycles, text) in columns.items()
    }


def _limiter_variables(point: Point, costs: xr.Dataset | None) -> dict[str, xr.DataArray]:
    """Returns what limits a point, by models."""
    call: dict[str, Any] = {"block_warps": point.launch.block_warps}
    now = volkov.bottleneck(point.gpu, point.kernel, warps=warps_held(point, point.launch), **call)
    return {
        "limiter": quantity(now, "1", f"bound that binds by {VOLKOV}"),
        "tightest": quantity(
            volkov.bottleneck(point.gpu, point.kernel, **call), "1", f"tightest bound on throughput by {VOLKOV}"
        ),
        "limiter_sim": quantity("" if costs is None else costs.bottleneck.item(), "1", f"bound that binds by {SIM}"),
    }


def _simulated(point: Point, search: OccupancySearch) -> Arrays:
    """Returns the simulation of a changed point; that of another launch may be among the trials."""
    if replace(point, launch=search.point.launch) == search.point:
        return search.trial(point.launch).arrays
    return simulate_point(point, threads=search.threads, streams=search.streams)
