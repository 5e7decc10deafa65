"""One chip, one kernel, one launch: `simulate`, and what it reports. docs/model.md is the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import integer
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Kernel
from warpsim.results import provenance, schema
from warpsim.simulation.counters import TraceRun, report, traced
from warpsim.simulation.point import Point, make_point, point_provenance, replicate_seed
from warpsim.simulation.run import Bins, Keep, drive
from warpsim.simulation.trace import Trace

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.engine.state import Machine, State
    from warpsim.simulation.trace_variables import Record

_Result = TypeVar("_Result")

def simulate(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: int | None = None,
    block_warps: int | None = None,
    launch: Launch | None = None,
    scheduler: str = Point.scheduler,
    memory: str = Point.memory,
    replicates: int = Point.replicates,
    seed: int = Point.seed,
    sms: int | None = Point.sms,
    warmup: int = Point.warmup,
    cycles: int = Point.cycles,
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
    threads = integer("threads", threads, 1)
    labels: dict[str, Any] = {}
    if trace is None:
        arrays = simulate_point(point, threads)
    else:
        arrays, labels = trace_point(point, trace, threads)
    coordinates = schema.result_coordinates(point.replicates, schema.result_ops([gpu]))
    coordinates |= {"warps": np.arange(arrays["occupancy_fraction"].shape[1]), **labels}
    entry = f"simulate {gpu.name} {kernel.name} {point.scheduler} {point.memory}"
    return schema.build_dataset(
        arrays, coordinates, attrs=provenance.attributes(point_provenance(point, trace), entry)
    )


def simulate_point(
    point: Point, threads: int = 1, *, streams: bytes | None = None, first: int = 0
) -> dict[str, NDArray[np.float64]]:
    """Runs all replicates of a point.

    Args:
        point: what to simulate.
        threads: replicates that run at a time.
        streams: what the seeds are a hash of, with the replicate's number; left out, a hash of the point. Points with the
            same streams meet the same random numbers.
        first: number of the first replicate.

    Returns:
        For every variable of `schema.VARIABLES` an array of shape (replicates, *own dimensions).

    Raises:
        DeadlockError: warps wait at different barriers.
    """
    base = point.streams() if streams is None else streams
    unseeded = _encode(point)

    def one(replicate: int) -> dict[str, NDArray[np.float64]]:
        machine, state, _ = _replicate(point, unseeded, replicate_seed(base, replicate))
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
    from warpsim.simulation.trace_variables import record, trace_arrays

    if not isinstance(trace, Trace):
        raise TypeError(f"trace = {trace!r}: a Trace, or None")
    base, unseeded = point.streams(), _encode(point)
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


def _replicate(point: Point, unseeded: Machine, seed: int, keep: Keep | None = None) -> tuple[Machine, State, Bins | None]:
    from warpsim.simulation.encode import with_seed

    machine = with_seed(unseeded, seed)
    return machine, *drive(machine, point.kernel.name, point.warmup, None if point.finite else point.cycles, keep)


def _encode(point: Point) -> Machine:
    from warpsim.simulation.encode import encode

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
    from warpsim.simulation.encode import encode, with_seed

    machine = with_seed(encode(gpu, kernel, launch, scheduler=scheduler, memory=memory, sms=sms), seed)
    keep = Keep(issues=rows, lives=rows, changes=rows, by_line=True)
    state, _ = drive(machine, kernel.name, warmup, cycles, keep)
    return traced(machine, state, list(gpu.ops), warmup)
