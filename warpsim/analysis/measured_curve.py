"""Fits the queue of a chip's memory to a curve that a user has measured, and writes the chip's file.

The curve is a CSV file with a header, in one of these forms:

* `bandwidth_gbs` and `latency_cycles`, or `latency_ns`: the mean latency of a load while the chip reads at that bandwidth.
* `warps` and `bandwidth_gbs`: the bandwidth of dependent coalesced loads of 128 bytes, one in flight for each of `warps` warps
  per SM.

Lines that begin with # are comments. Fitted are the unloaded latency, the rate of the DRAM stage and its number of servers. The
crossbar remains that of the chip, since a curve through DRAM does not show it; its rate grows with the sustained bandwidth.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import fdtri

from warpsim.analysis.calibration import curve, with_queue
from warpsim.arguments import InvalidPoint, shortened
from warpsim.hardware.architectures import SUSTAINED_SHARE, contention
from warpsim.hardware.chip_file import write_fitted_memory
from warpsim.hardware.consistency import AT_PINS
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.memory import Contention
from warpsim.hardware.sections import SLICE_SMS
from warpsim.simulation.point import Point
from warpsim.units import COALESCED_BYTES

SATURATED = 0.97
"""Share of the sustained bandwidth from which points are left out: the latency there depends on the loads in flight only."""

FEWEST_POINTS = 3
SERVER_FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Numbers of servers that the fit tries, over that of the chip's file."""

_FORMS = ({"bandwidth_gbs", "latency_cycles"}, {"bandwidth_gbs", "latency_ns"}, {"warps", "bandwidth_gbs"})
_NAMES = "bandwidth_gbs with latency_cycles or latency_ns, or warps with bandwidth_gbs"
_MOST = 1e8
_LATENCIES_OF_DRAM = (10, 20_000)  # cycles of an idle memory; the chips of the package have up to 706
_LEAST_GROWTH = 0.9  # of the latency, from the least to the highest bandwidth; less is no noise
_DOUBTFUL_PERCENT = 5.0
_CONFIDENCE, _CHANCE_PERCENT = 0.95, 0.1  # with which other servers are worse; what the simulation's own chance makes of errors
_AT_LIMIT = 0.002  # of a parameter of the search
_OCCUPANCIES = 20
_BEYOND = (1.15, 1.3, 1.5, 1.75, 2, 2.5, 3, 4, 6, 8)  # loads in flight over the most warps, where these attain too little
_RISE = 1.01  # of the bandwidth, from one occupancy to the next, below which it is noise
_RATES, _LATENCIES = (1.0, 1.6), (0.7, 1.3)  # limits of the search, over the sustained bandwidth and over the lowest latency

Floats = NDArray[np.float64]


class CurveError(InvalidPoint):
    """A file is not a measured curve, or it does not suit the chip."""


@dataclass(frozen=True)
class MeasuredCurve:
    """A measured curve.

    Attributes:
        bandwidth_gbs: bandwidths of the chip, float64[n].
        latency_cycles: mean latency at these, float64[n]; None: `warps` is given.
        warps: warps per SM at these, int64[n]; None: `latency_cycles` is given.
    """

    bandwidth_gbs: Floats
    latency_cycles: Floats | None = None
    warps: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class CurveFit:
    """A chip whose queue is fitted to a curve.

    Attributes:
        gpu: the chip.
        errors_percent: error of each point of the curve: of its latency, or of its bandwidth; NaN: a saturated point.
        rms_percent: rms of the errors of the points that were fitted.
        tried: numbers of servers that were tried, each with the rms of its best fit in percent.
        as_good: those, in ascending order, whose greater error may be chance, that of the chip among them; empty: not known.
        doubts: a sentence for each parameter that the curve does not tell, and for an error that is large; empty: none.
    """

    gpu: Gpu
    errors_percent: Floats
    rms_percent: float
    tried: Mapping[int, float] = field(default_factory=dict)
    as_good: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()


def read_curve(path: str | os.PathLike[str], gpu: Gpu) -> MeasuredCurve:
    """Reads a curve from a CSV file.

    Raises:
        CurveError: the file has no such columns, a cell is no positive number, there are fewer than three points with different
            bandwidths or warps, a latency or a bandwidth is impossible, or a latency, or the bandwidth of more warps, falls.
        OSError: the file cannot be read.
    """
    try:
        lines = [line for line in Path(path).read_text(encoding="utf-8-sig").splitlines() if line.strip() and line[0] != "#"]
        table = list(csv.reader(lines))
    except UnicodeDecodeError:
        raise CurveError(f"{path}: must be a CSV file in UTF-8") from None
    except csv.Error as error:
        raise CurveError(f"{path}: must be a CSV file: {error}") from None
    header = [name.strip() for name in table[0]] if table else []
    if set(header) not in _FORMS or len(set(header)) != len(header):
        raise CurveError(f"{path}: columns = {shortened(', '.join(map(_printable, header))) or 'none'}: must be {_NAMES}")
    rows = [_numbers(path, number, header, row) for number, row in enumerate(table[1:], 1)]
    columns = dict(zip(header, np.array(rows).reshape(-1, len(header)).T, strict=True))
    axis = "warps" if "warps" in columns else "bandwidth_gbs"
    different = len(np.unique(columns[axis]))
    if different < FEWEST_POINTS:
        what = f"points with different {axis} = {different}"
        raise CurveError(f"{path}: {what}: must be at least {FEWEST_POINTS}, to fit three parameters")
    if "warps" in columns:
        found = MeasuredCurve(columns["bandwidth_gbs"], warps=_whole_warps(path, columns["warps"], gpu))
    else:
        cycles = columns.get("latency_cycles")
        found = MeasuredCurve(columns["bandwidth_gbs"], columns["latency_ns"] * gpu.clock_ghz if cycles is None else cycles)
    _check_units(path, found, gpu)
    _check_growth(path, found)
    return found


def _whole_warps(path: str | os.PathLike[str], warps: Floats, gpu: Gpu) -> NDArray[np.int64]:
    """Returns numbers of warps as integers."""
    wrong = (warps % 1 != 0) | (warps > gpu.sm.max_warps)
    if wrong.any():
        allowed = f"must be an integer from 1 to {gpu.sm.max_warps}, the most of {gpu.name}"
        raise CurveError(f"{path}: warps = {warps[wrong][0]:g}: {allowed}")
    return warps.astype(np.int64)


def _check_units(path: str | os.PathLike[str], measured: MeasuredCurve, gpu: Gpu) -> None:
    """Checks that latencies and bandwidths are possible, as those in other units are not."""
    highest, most = measured.bandwidth_gbs.max(), gpu.sms * gpu.clock_ghz * COALESCED_BYTES
    if highest > most:
        allowed = f"must be at most {most:.4g}, with which each SM of {gpu.name} takes in {COALESCED_BYTES} bytes a cycle"
        raise CurveError(f"{path}: bandwidth_gbs = {highest:g}: {allowed}")
    least, latency = _LATENCIES_OF_DRAM[0], _lowest_latency(gpu, measured)
    if measured.latency_cycles is not None:
        latency = min(latency, float(measured.latency_cycles.min()))
    of_l2 = max(gpu.memory.l2_latency_cycles or 0, gpu.memory.l2_far_latency_cycles or 0)
    way = ", of bytes in flight over bandwidth" if measured.latency_cycles is None else ""
    what = f"{path}: latency = {latency:g} cycles{way}, at {gpu.clock_ghz:g} GHz"
    if not least <= latency <= _LATENCIES_OF_DRAM[1]:
        unit = "; latency_ns are nanoseconds" if measured.latency_cycles is not None else ""
        raise CurveError(f"{what}: the lowest must be from {least} to {_LATENCIES_OF_DRAM[1]}{unit}")
    if latency < of_l2:
        raise CurveError(f"{what}: must be at least {of_l2}, that of L2 of {gpu.name}; does a cache serve the loads?")


def _check_growth(path: str | os.PathLike[str], measured: MeasuredCurve) -> None:
    """Checks that a memory is not much faster where it is asked for more, or slower for more warps, as with mixed up columns."""
    axis, values, unit = measured.bandwidth_gbs, measured.latency_cycles, "cycles"
    if values is None:
        assert measured.warps is not None
        axis, values, unit = measured.warps.astype(float), measured.bandwidth_gbs, "GB/s"
    low, high = _mean_at(axis, values, axis.min()), _mean_at(axis, values, axis.max())
    if high < _LEAST_GROWTH * low:
        name, at = ("bandwidth", "warps") if unit == "GB/s" else ("latency", "GB/s")
        what = f"{name} at {axis.max():g} {at} = {high:g} {unit}"
        raise CurveError(f"{path}: {what}: must be at least that at {axis.min():g} {at}, {low:g}")


def _printable(text: str) -> str:
    """Returns a text without what a terminal obeys, as of a file that is no text."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _numbers(path: str | os.PathLike[str], number: int, header: Sequence[str], row: Sequence[str]) -> list[float]:
    """Returns the numbers of a point."""
    allowed = f"must be a number above 0, and up to {_MOST:.0f}"
    if len(row) != len(header):
        raise CurveError(f"{path}: point {number} = {shortened(_printable(','.join(row)))}: must be {len(header)} numbers")
    found = []
    for name, cell in zip(header, row, strict=True):
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not 0 < value <= _MOST:
            raise CurveError(f"{path}: point {number}, {name} = {shortened(_printable(cell.strip()))}: {allowed}")
        found.append(value)
    return found


def fit_measured(
    gpu: Gpu,
    measured: MeasuredCurve,
    *,
    sustained_gbs: float | None = None,
    only: Sequence[int] | None = None,
    factors: Sequence[float] = SERVER_FACTORS,
    cycles: int = 20_000,
    most_runs: int = 40,
    seed: int = Point.seed,
) -> CurveFit:
    """Fits unloaded latency, DRAM rate and DRAM servers of a chip to a curve, with common random numbers.

    Points at more than SATURATED of the sustained bandwidth are left out where latencies are compared.

    Args:
        gpu: the chip to start from.
        measured: the curve.
        sustained_gbs: the sustained bandwidth; None: that of the chip, or the highest of the curve where that is greater.
        only: the points to fit, by number from 0; the errors are those of all points. None: all of them.
        factors: numbers of servers to try, over that of the chip.
        cycles: length of each run.
        most_runs: evaluations of the curve for each number of servers.
        seed: of all runs.

    Raises:
        CurveError: fewer than three points are left, or `sustained_gbs` is below the curve or not a number above 0.
    """
    peak = _sustained(gpu, measured, sustained_gbs)
    fitted = measured.bandwidth_gbs <= SATURATED * peak
    if measured.warps is not None:
        fitted[:] = True  # equal occupancies are compared, which saturation does not disturb
    kept = fitted.copy()
    if only is not None:
        kept &= np.isin(np.arange(len(kept)), only)
    if kept.sum() < FEWEST_POINTS:
        what = f"points below {SATURATED:.0%} of the sustained {peak:g} GB/s = {kept.sum()}"
        raise CurveError(f"{what}: must be at least {FEWEST_POINTS}, to fit three parameters")
    start = _lowest_latency(gpu, measured)

    def chip(parameters: Floats, servers: int) -> Gpu:
        latency, rate = start * parameters[0], peak * parameters[1]
        whole = max(1, round(latency))
        queue = gpu.memory.queue.model_copy(update={
            "latency_offset_cycles": round(float(latency) - whole, 2),
            "crossbar_gbs": round(gpu.memory.queue.crossbar_gbs * max(1.0, peak / gpu.memory.bandwidth_gbs), 1),
            "dram_servers": servers,
            "dram_gbs": round(float(rate), 1),
            "fit_rms_percent": None,
        })  # fmt: skip
        memory = {"latency_cycles": whole, "bandwidth_gbs": peak, "pin_bandwidth_gbs": _pins(gpu, peak)}
        return with_queue(gpu.model_copy(update={"memory": gpu.memory.model_copy(update=memory)}), queue)

    tried: dict[int, tuple[float, Floats]] = {}
    for servers in sorted({max(1, round(factor * gpu.memory.queue.dram_servers)) for factor in factors}):

        def rms(parameters: Floats, servers: int = servers) -> float:
            found = errors(chip(parameters, servers), measured, cycles=cycles, seed=seed)
            return float(np.sqrt(np.mean(found[kept] ** 2)))

        search = minimize(
            rms,
            x0=[1.0, 1.1],
            method="Nelder-Mead",
            bounds=[_LATENCIES, _RATES],
            options={"xatol": 1e-3, "fatol": 1e-4, "maxfev": most_runs, "initial_simplex": [[1.0, 1.1], [0.97, 1.1], [1.0, 1.2]]},
        )
        tried[servers] = float(search.fun), search.x
    best = min(tried, key=lambda servers: tried[servers][0])
    percents = {servers: round(100 * rms, 2) for servers, (rms, _) in tried.items()}
    found = chip(tried[best][1], best)
    queue = found.memory.queue.model_copy(update={"fit_rms_percent": percents[best]})
    result = _with_contention(with_queue(found, queue))
    every = np.where(fitted, 100 * np.expm1(errors(result, measured, cycles=cycles, seed=seed)), np.nan)
    fit = CurveFit(result, every, percents[best], percents, _as_good(percents, int(kept.sum())))
    return replace(fit, doubts=tuple(_doubts(fit, tried[best][1], start)))


def _as_good(percents: Mapping[int, float], points: int) -> tuple[int, ...]:
    """Returns the numbers of servers that cannot be told from the best, by an F test of independent errors."""
    least, free = min(percents.values()), max(1, points - FEWEST_POINTS)
    most = max(least * math.sqrt(1 + fdtri(1, free, _CONFIDENCE) / free), least + _CHANCE_PERCENT)
    return tuple(sorted(servers for servers, percent in percents.items() if percent <= most))


def _doubts(fit: CurveFit, parameters: Floats, start: float) -> Iterator[str]:
    """Yields a sentence for what is doubtful in a fit: its error, parameters at a limit of the search, and the servers."""
    queue, found = fit.gpu.memory.queue, fit.gpu.memory.queue_latency_cycles
    if fit.rms_percent > _DOUBTFUL_PERCENT:
        sustained = f"is {fit.gpu.memory.bandwidth_gbs:g} GB/s what the chip sustains?"
        yield f"rms error = {fit.rms_percent:g} %: at most {_DOUBTFUL_PERCENT:g} % is expected; {sustained}"
    low, high = _LATENCIES
    if not low + _AT_LIMIT < parameters[0] < high - _AT_LIMIT:
        limits = f"from {low:g} to {high:g} times {start:.4g}, that at the least load of the curve"
        yield f"unloaded latency = {found:.4g} cycles: this is a limit of the search, {limits}"
    if parameters[1] > _RATES[1] - _AT_LIMIT:
        yield f"dram_gbs = {queue.dram_gbs:g}: this is the limit of the search, {_RATES[1]:g} times the sustained bandwidth"
    if len(fit.as_good) > 1:
        what = "with other rates, these numbers fit as well, by the errors of the points"
        yield f"dram_servers = {queue.dram_servers}, of {', '.join(map(str, fit.as_good))}: {what}"
    elif len(fit.tried) > 1 and queue.dram_servers in (min(fit.tried), max(fit.tried)):
        tried = f"from {min(fit.tried)} to {max(fit.tried)}"
        yield f"dram_servers = {queue.dram_servers}: this is a limit of the search, {tried}; a fit of the new chip tries others"


def _with_contention(gpu: Gpu) -> Gpu:
    """Returns a chip whose mean latency, as models know it, is that of its latency and its queue."""
    found = Contention.model_validate(contention(gpu.memory.model_dump(include={"latency_cycles", "queue"}), gpu.clock_ghz))
    return gpu.model_copy(update={"memory": gpu.memory.model_copy(update={"contention": found})})


def _sustained(gpu: Gpu, measured: MeasuredCurve, given: float | None) -> float:
    """Returns the sustained bandwidth in GB/s, 1 % below the highest of the curve at the least, for the noise of a plateau."""
    highest = float(measured.bandwidth_gbs.max())
    if given is None:
        return max(gpu.memory.bandwidth_gbs, highest)
    if not 0.99 * highest <= given <= _MOST:
        raise CurveError(f"sustained bandwidth = {given:g} GB/s: must be at least the highest of the curve, {highest:g}")
    return given


def _pins(gpu: Gpu, sustained_gbs: float) -> float:
    """Returns the bandwidth of the pins in GB/s: that of the chip, unless loads or stores alone would then pass it."""
    writes = gpu.memory.writes.write_rate if gpu.memory.writes else 1.0
    if gpu.memory.pin_bandwidth_gbs >= sustained_gbs * max(1.0, writes / AT_PINS):
        return gpu.memory.pin_bandwidth_gbs
    return round(sustained_gbs / SUSTAINED_SHARE * max(1.0, writes * SUSTAINED_SHARE), 1)


def errors(gpu: Gpu, measured: MeasuredCurve, *, cycles: int = 20_000, seed: int = Point.seed) -> Floats:
    """Returns log(simulated / measured) at each point: of latencies at equal bandwidth, or of bandwidths at equal occupancy."""
    sms = min(SLICE_SMS, gpu.sms)
    if measured.warps is not None:
        different, of_point = np.unique(measured.warps, return_inverse=True)
        found = curve(gpu, [int(warps) for warps in different], cycles=cycles, seed=seed, sms=sms)
        return np.asarray(np.log(found["bandwidth"][of_point] / measured.bandwidth_gbs))
    assert measured.latency_cycles is not None
    occupancies = sorted({max(1, round(n)) for n in np.geomspace(1, gpu.sm.max_warps, _OCCUPANCIES)})
    occupancies = _attainable(gpu, occupancies)
    found = curve(gpu, occupancies, cycles=cycles, seed=seed, sms=sms)
    kept = _rising(found["bandwidth"])
    bandwidth, latency = list(found["bandwidth"][kept]), list(found["memory_latency"][kept])
    highest = measured.bandwidth_gbs[measured.bandwidth_gbs <= SATURATED * gpu.memory.bandwidth_gbs].max(initial=0.0)
    for in_flight in _BEYOND:  # where one load of each warp in flight does not attain the bandwidths of the curve
        if bandwidth[-1] >= highest:
            break
        loads = math.ceil(in_flight)
        warps = _attainable(gpu, [round(gpu.sm.max_warps * in_flight / loads)])
        found = curve(gpu, warps, cycles=cycles, seed=seed, sms=sms, loads=loads)
        if found["bandwidth"][0] > _RISE * bandwidth[-1]:
            bandwidth.append(found["bandwidth"][0])
            latency.append(found["memory_latency"][0])
    return np.asarray(np.log(np.interp(measured.bandwidth_gbs, bandwidth, latency) / measured.latency_cycles))


def _rising(bandwidth: Floats) -> list[int]:
    """Returns the places at which the bandwidth is clearly above that of all lower occupancies; beyond, it is saturated."""
    kept = [0]
    for place in range(1, len(bandwidth)):
        if bandwidth[place] > _RISE * bandwidth[kept[-1]]:
            kept.append(place)
    return kept


def _attainable(gpu: Gpu, occupancies: Sequence[int]) -> list[int]:
    """Returns occupancies that some block size attains: above the chip's most blocks, multiples of max_warps // max_blocks."""
    whole = max(1, gpu.sm.max_warps // gpu.sm.max_blocks)
    return sorted({max(1, n if n <= gpu.sm.max_blocks else n // whole * whole) for n in occupancies})


def _lowest_latency(gpu: Gpu, measured: MeasuredCurve) -> float:
    """Returns the latency at the least load of the curve in cycles; by Little's law from bandwidth and occupancy."""
    if measured.latency_cycles is not None:
        return _mean_at(measured.bandwidth_gbs, measured.latency_cycles, measured.bandwidth_gbs.min())
    assert measured.warps is not None
    fewest = int(measured.warps.min())
    bytes_in_flight = COALESCED_BYTES * fewest * gpu.sms
    return bytes_in_flight / _mean_at(measured.warps, measured.bandwidth_gbs, fewest) * gpu.clock_ghz


def _mean_at(axis: NDArray[Any], values: Floats, place: float) -> float:
    """Returns the mean of the values of a curve at a place of its axis, so that the order of its points does not matter."""
    return float(values[axis == place].mean())


def write_fitted(
    path: str | os.PathLike[str], base: str | os.PathLike[str], fit: CurveFit, source: str, sustained_gbs: float | None = None
) -> None:
    """Writes the file of a fitted chip: that of `base` with the fitted values, which name their source. Its stem is the name.

    `sustained_gbs` is that of `fit_measured`.

    Raises:
        ValueError: the result is not a valid chip file.
        OSError: the file cannot be written.
    """
    points = int(np.isfinite(fit.errors_percent).sum())
    fitted = f"fitted: {source}, {points} points, rms {fit.rms_percent:g} %"
    if len(fit.as_good) > 1:
        fitted += f"; {', '.join(map(str, fit.as_good))} servers fit as well"
    bandwidth = f"the highest of {source}" if sustained_gbs is None else f"given for the fit to {source}"
    write_fitted_memory(path, base, fit.gpu.memory, fitted, bandwidth)
