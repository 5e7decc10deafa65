"""One chip, one kernel, one launch: `simulate`, and what it reports. docs/model.md is the machine."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from warpsim.drive import Bins, DeadlockError, Keep, drive
from warpsim.gpu import Gpu
from warpsim.kernels.program import Kernel, barriers_not_reached_by_all
from warpsim.readout import TraceRun, report, traced
from warpsim.residency import InvalidPoint, Launch, resolve_launch
from warpsim.store import provenance, schema
from warpsim.trace import Trace

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.engine.state import Machine, State
    from warpsim.records import Record

_Result = TypeVar("_Result")

WARMUP = 20_000
CYCLES = 100_000
MOST_CYCLES = 10**12
"""Of a run: so many warp-cycles of a whole chip are counted exactly (2**53)."""

SCHEDULERS = ("lrr", "gto", "oldest", "random")
MEMORY_MODELS = ("queue", "fixed", "measured")


@dataclass(frozen=True)
class Point:
    """One parameter combination, every argument of `simulate` resolved. `warmup` is 0 where a grid runs to its end."""

    gpu: Gpu
    kernel: Kernel
    launch: Launch
    scheduler: str
    memory: str
    replicates: int
    seed: int
    sms: int | None
    warmup: int
    cycles: int

    @property
    def finite(self) -> bool:
        """Whether the grid ends, so that it runs to completion."""
        return self.launch.blocks is not None or self.launch.persistent


def make_point(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: int | None = None,
    block_warps: int | None = None,
    launch: Launch | None = None,
    scheduler: str = "lrr",
    memory: str = "queue",
    replicates: int = 1,
    seed: int = 2016,
    sms: int | None = None,
    warmup: int = WARMUP,
    cycles: int = CYCLES,
) -> Point:
    """Checks the arguments of `simulate`, and resolves the launch.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument's value is not allowed, or the chip cannot hold the launch; `DeadlockError` for a barrier
            that not all warps of a block reach.
    """
    if not isinstance(gpu, Gpu):
        raise TypeError(f"gpu = {gpu!r}: a Gpu, such as load_gpu returns")
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel = {kernel!r}: a Kernel, such as load_kernel or a builder of warpsim.kernels returns")
    scheduler = _choice("scheduler", scheduler, SCHEDULERS)
    memory = _choice("memory", memory, MEMORY_MODELS)
    if memory == "measured" and not gpu.memory.measured:
        raise InvalidPoint(f"memory = 'measured': latency quantiles were not measured on {gpu.name}; 'queue' or 'fixed'")
    resolved = resolve_launch(gpu, kernel, warps, block_warps, launch)
    uneven = barriers_not_reached_by_all(kernel)
    if uneven and resolved.block_warps > 1:
        raise DeadlockError(
            f"kernel {kernel.name}: deadlock: the barrier at {', '.join(uneven)} is not reached by all warps of a block"
        )
    if kernel.endless and (resolved.blocks is not None or resolved.persistent):
        raise ValueError(f"launch: without an end (blocks left out, not persistent) for {kernel.name}, which is an endless loop")
    point = Point(
        gpu=gpu,
        kernel=kernel,
        launch=resolved,
        scheduler=scheduler,
        memory=memory,
        replicates=_integer("replicates", replicates, 1),
        seed=_integer("seed", seed, 0),
        sms=None if sms is None else _integer("sms", sms, 1, gpu.sms),
        warmup=_integer("warmup", warmup, 0, MOST_CYCLES),
        cycles=_integer("cycles", cycles, 1, MOST_CYCLES),
    )
    if not point.finite:
        return point
    return Point(**{**vars(point), "warmup": 0})


def simulate(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: int | None = None,
    block_warps: int | None = None,
    launch: Launch | None = None,
    scheduler: str = "lrr",
    memory: str = "queue",
    replicates: int = 1,
    seed: int = 2016,
    sms: int | None = None,
    warmup: int = WARMUP,
    cycles: int = CYCLES,
    threads: int = 1,
    trace: Trace | None = None,
) -> xr.Dataset:
    """Simulates one kernel on one chip, cycle by cycle.

    With an endless supply of blocks (no `launch.blocks`) it counts `cycles` cycles after `warmup`: a steady state. A finite
    grid runs to completion, `warmup` is 0, and the variable `cycles` is its total time.

    Args:
        gpu: the chip, from `load_gpu`.
        kernel: the program of every warp, from `load_kernel` or a builder.
        warps: occupancy asked for, warps per SM; left out: as many as fit.
        block_warps: warps of a thread block; left out: the smallest that divides `warps` within the chip's limit on blocks.
        launch: the launch in full, in place of the two.
        scheduler: "lrr", "gto", "oldest" or "random" (docs/model.md, section 3).
        memory: "queue", "fixed" or "measured" (section 5).
        replicates: independent repetitions. Each has its own seed, a hash of `seed`, of all that is simulated and of the
            replicate's number. The scheduler is not in the hash: policies meet the same random latencies, so that their
            differences are sharp.
        seed: root of all randomness.
        sms: simulate a slice of so many SMs with its share of the memory system; left out: the whole chip.
        warmup: cycles before counting starts.
        cycles: cycles that are counted.
        threads: replicates that run at a time; no number depends on it.
        trace: what to keep of the run's course; adds the variables of `schema.TRACE_VARIABLES` that are asked for
            (docs/traces.md).

    Returns:
        A Dataset with dimension `replicate`, and `op`, `quantile`, `state`, `slot`, `warps`; each variable carries `units` and
        `long_name`, the Dataset `source`, `history` and `provenance`, from which `from_provenance` repeats the run.
        `warp_latency` is NaN where no warp retired in the window, as in an endless kernel.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument's value is not allowed, or the chip cannot hold the launch.
        DeadlockError: warps wait at different barriers (a ValueError).
        TraceLimitError: the trace takes more than its `max_bytes` (a ValueError); before the run where that can be known.
    """
    point = make_point(
        gpu, kernel, warps=warps, block_warps=block_warps, launch=launch, scheduler=scheduler, memory=memory,
        replicates=replicates, seed=seed, sms=sms, warmup=warmup, cycles=cycles,
    )  # fmt: skip
    threads = _integer("threads", threads, 1)
    labels: dict[str, Any] = {}
    if trace is None:
        arrays = simulate_point(point, threads)
    else:
        arrays, labels = trace_point(point, trace, threads)
    coordinates = schema.result_coordinates(point.replicates, schema.result_ops([gpu]))
    coordinates |= {"warps": np.arange(arrays["occupancy_fraction"].shape[1]), **labels}
    entry = f"simulate {gpu.name} {kernel.name} {point.scheduler} {point.memory}"
    return schema.build_dataset(
        arrays, coordinates, attrs=provenance.attributes(provenance.point_provenance(point, trace), entry)
    )


def simulate_point(
    point: Point, threads: int = 1, *, streams: bytes | None = None, first: int = 0, check: bool = False
) -> dict[str, NDArray[np.float64]]:
    """Runs all replicates of a point.

    Args:
        point: what to simulate.
        threads: replicates that run at a time.
        streams: what the seeds are a hash of, with the replicate's number; left out, a hash of the point. Points with the
            same streams meet the same random numbers.
        first: number of the first replicate.
        check: have the engine verify itself; an AssertionError says what is wrong.

    Returns:
        For every variable of `schema.VARIABLES` an array of shape (replicates, *own dimensions).

    Raises:
        DeadlockError: warps wait at different barriers.
    """
    base = _point_hash(point) if streams is None else hashlib.blake2b(streams, digest_size=32).digest()
    unseeded = _encode(point)

    def one(replicate: int) -> dict[str, NDArray[np.float64]]:
        machine, state, _ = _replicate(point, unseeded, replicate_seed(base, replicate), check=check)
        return report(machine, state, point.gpu, point.warmup)

    return _stacked(_each(range(first, first + point.replicates), one, threads))


def trace_point(point: Point, trace: Trace, threads: int = 1) -> tuple[dict[str, NDArray[np.float64]], dict[str, Any]]:
    """Runs all replicates of a point and keeps of their course what is asked for.

    Returns:
        What `simulate_point` returns, and the variables of the trace; and the labels of the trace's dimensions.

    Raises:
        TypeError: `trace` is not a Trace.
        DeadlockError: warps wait at different barriers.
        TraceLimitError: the trace takes more than its `max_bytes`.
    """
    from warpsim.records import record, trace_arrays

    if not isinstance(trace, Trace):
        raise TypeError(f"trace = {trace!r}: a Trace, or None")
    base, unseeded = _point_hash(point), _encode(point)
    chip = unseeded.chip[0]
    keep = trace.keep(
        replicates=point.replicates, sms=int(chip.sms), schedulers=int(chip.schedulers), issue_width=int(chip.issue_width),
        lines=len(unseeded.program), residents=int(chip.sms * chip.seats * chip.block_warps),
        blocks=int(chip.blocks) if point.finite else None, block_warps=point.launch.block_warps,
    )  # fmt: skip

    def one(replicate: int) -> tuple[dict[str, NDArray[np.float64]], Record]:
        machine, state, bins = _replicate(point, unseeded, replicate_seed(base, replicate), keep)
        return report(machine, state, point.gpu, point.warmup), record(machine, state, bins, trace)

    results = _each(range(point.replicates), one, threads)
    arrays, labels = trace_arrays(
        [kept for _, kept in results], trace, point.gpu, point.kernel, sms=int(chip.sms), block_warps=point.launch.block_warps
    )
    return _stacked([counts for counts, _ in results]) | arrays, labels


def _each(numbers: range, one: Callable[[int], _Result], threads: int) -> list[_Result]:
    if threads == 1 or len(numbers) == 1:
        return [one(replicate) for replicate in numbers]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, numbers))


def _stacked(results: Sequence[dict[str, NDArray[np.float64]]]) -> dict[str, NDArray[np.float64]]:
    return {name: np.stack([result[name] for result in results]) for name in results[0]}


def run(point: Point, seed: int) -> tuple[Machine, State]:
    """Runs one replicate in the engine; its counters are in the State.

    Raises:
        DeadlockError: warps wait at different barriers.
    """
    machine, state, _ = _replicate(point, _encode(point), seed)
    return machine, state


def _replicate(
    point: Point, unseeded: Machine, seed: int, keep: Keep | None = None, *, check: bool = False
) -> tuple[Machine, State, Bins | None]:
    from warpsim.encode import with_seed

    machine = with_seed(unseeded, seed)
    cycles = None if point.finite else point.cycles
    return machine, *drive(machine, point.kernel.name, point.warmup, cycles, keep, check=check)


def _encode(point: Point) -> Machine:
    from warpsim.encode import encode

    return encode(point.gpu, point.kernel, point.launch, scheduler=point.scheduler, memory=point.memory, sms=point.sms)


def trace_run(
    gpu: Gpu,
    kernel: Kernel,
    launch: Launch,
    *,
    scheduler: str = "lrr",
    memory: str = "queue",
    seed: int,
    warmup: int = 0,
    cycles: int | None = None,
    sms: int | None = None,
    rows: int = 1_000_000,
) -> TraceRun:
    """Runs one replicate, of which `seed` is the 64-bit seed, and keeps all that happens, at most `rows` of each kind.

    `launch` is as `resolve_launch` returns it; `cycles` None runs a finite grid to its end, with which a longer window ends.

    Raises:
        DeadlockError: warps wait at different barriers.
        TraceLimitError: there were more than `rows`.
        ValueError: the grid ends within `warmup`.
    """
    from warpsim.encode import encode, with_seed

    machine = with_seed(encode(gpu, kernel, launch, scheduler=scheduler, memory=memory, sms=sms), seed)
    keep = Keep(issues=rows, lives=rows, changes=rows)
    state, _ = drive(machine, kernel.name, warmup, cycles, keep)
    return traced(machine, state, list(gpu.ops), warmup)


def replicate_seed(point_hash: bytes, replicate: int) -> int:
    """The 64-bit seed of one replicate of a point."""
    digest = hashlib.blake2b(replicate.to_bytes(8, "little"), key=point_hash, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _point_hash(point: Point) -> bytes:
    """A hash of the root seed and of all that is simulated, by value, but for the scheduling policy."""
    by_value = {
        "gpu": provenance.dump(point.gpu),
        "kernel": provenance.dump(point.kernel),
        "launch": provenance.dump(point.launch),
        **{name: getattr(point, name) for name in ("memory", "seed", "sms", "warmup", "cycles")},
    }
    return hashlib.blake2b(json.dumps(by_value, sort_keys=True).encode(), digest_size=32).digest()


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} = {value!r}: one of {', '.join(allowed)}")
    if value not in allowed:
        raise ValueError(f"{name} = {value!r}: one of {', '.join(allowed)}")
    return value


def _integer(name: str, value: object, least: int, most: int | None = None) -> int:
    allowed = f"an integer from {least}" + ("" if most is None else f" to {most}")
    if isinstance(value, bool) or not isinstance(value, (int, SupportsIndex)):
        raise TypeError(f"{name} = {value!r}: {allowed}")
    number = operator.index(value)
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} = {number}: {allowed}")
    return number
