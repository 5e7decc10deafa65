"""Simulates one point: `simulate`, and the functions that sweeps and advice call. docs/model.md describes the machine."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import InvalidPoint, choice, integer
from warpsim.hardware.gpu import Gpu, as_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Kernel
from warpsim.kernels.files import kernel_for
from warpsim.reference import simulator as reference
from warpsim.results import provenance, schema
from warpsim.simulation.counters import engine_counts, reference_counts, variables
from warpsim.simulation.limits import MAX_CYCLES
from warpsim.simulation.point import ARGUMENTS, Point, free_stores, make_point, point_provenance, replicate_seed
from warpsim.simulation.policies import lists_policies
from warpsim.simulation.run import Bins, Capacity, run_machine
from warpsim.simulation.trace import RunSize, Trace

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.engine.machine import Machine
    from warpsim.engine.state import State

_LOGGER = logging.getLogger("warpsim")

Arrays = dict[str, NDArray[np.float64]]
"""Variable -> values, replicate first."""

ENGINES = ("compiled", "reference")

Pause = Callable[[], None]
"""Called between slices of a run, to end it by an exception."""

_Result = TypeVar("_Result")


@lists_policies
def simulate(
    gpu: Gpu | str | os.PathLike[str],
    kernel: Kernel | str | os.PathLike[str],
    *,
    warps: int | None = None,
    block_warps: int | None = None,
    launch: Launch | None = None,
    scheduler: str = Point.scheduler,
    memory: str = Point.memory,
    replicates: int = Point.replicates,
    seed: int = Point.seed,
    sms: int | None = Point.sms,
    warmup: int | None = Point.warmup,
    cycles: int = Point.cycles,
    threads: int = 1,
    trace: Trace | None = None,
    engine: str = "compiled",
    **arguments: Any,
) -> xr.Dataset:
    """Simulates one kernel on one chip, cycle by cycle.

    With an endless supply of blocks (no `launch.blocks`), the simulation counts `cycles` cycles after `warmup`: a steady state. A
    finite grid runs to completion; then `warmup` is 0, and the variable `cycles` is the grid's total time.

    Args:
        gpu: the chip: a Gpu from `load_gpu`, or its name or file.
        kernel: the program of every warp: a Kernel from `load_kernel` or a builder, or its name or file.
        warps: occupancy, in warps per SM; left out: as many as fit.
        block_warps: warps of a thread block; left out: the smallest that divides `warps` within the chip's limit on blocks.
        launch: the launch in full, in place of `warps` and `block_warps`.
        scheduler: scheduling policy (docs/model.md, section 3): {policies}.
        memory: memory model: "queue", "fixed" or "measured" (section 5).
        replicates: number of independent repetitions. Each has its own seed, a hash of `seed`, of the parameters, and of the
            replicate's number. The policy does not enter the hash, so policies are compared with common random numbers.
        seed: root of all randomness.
        sms: number of SMs to simulate, as a slice of the chip, with echoes for the others; left out: the whole chip.
        warmup: cycles before counting starts; left out: derived from a pilot run by MSER-5 (docs/model.md, 7). With 0, all
            warps begin their programs at cycle 0; otherwise they start at random phases (section 4).
        cycles: cycles that are counted; without effect on a finite grid.
        threads: number of threads. Replicates run at the same time; where there are at least twice as many threads, the SMs
            of each are divided as well, with at least 16 SMs to a thread. No number depends on it.
        trace: events to record. Adds the variables of `schema.TRACE_VARIABLES` that are asked for (docs/traces.md).
        engine: "compiled", or "reference": the same machine in plain Python, some 10,000 times slower. It gives the same
            numbers, and a debugger can step through it (`warpsim.reference`). It records no trace.
        arguments: arguments of the kernel's builder, such as `alpha=32`, if `kernel` is a name or a file.

    Returns:
        A Dataset with dimension `replicate`, and `op`, `quantile`, `state`, `slot`, `warps`. Each variable has the attributes
        `units` and `long_name`; the Dataset has `source`, `history` and `provenance`, from which `from_provenance` repeats the
        run. `warp_latency` is NaN where no warp retired in the window, as in an endless kernel. Where `warp_iterations` is below
        `schema.FEW_ITERATIONS`, the window is too short for a confidence interval.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument's value is not allowed, or the chip cannot hold the launch.
        DeadlockError: warps wait at different barriers (a ValueError).
        TraceLimitError: the trace takes more than its `max_bytes` (a ValueError); before the run where that can be known.
    """
    gpu, kernel = as_gpu(gpu), kernel_for(kernel, arguments, (*ARGUMENTS, "threads", "trace", "engine"))
    point = make_point(
        gpu, kernel, warps=warps, block_warps=block_warps, launch=launch, scheduler=scheduler, memory=memory,
        replicates=replicates, seed=seed, sms=sms, warmup=warmup, cycles=cycles,
    )  # fmt: skip
    if wrong := free_stores(point):
        _LOGGER.warning(wrong)
    return simulate_dataset(point, threads=threads, trace=trace, engine=engine)


def simulate_dataset(
    point: Point, *, threads: int = 1, trace: Trace | None = None, engine: str = "compiled"
) -> xr.Dataset:
    """As `simulate`, for a point; does not warn of what slices do not represent."""
    threads = integer("threads", threads, 1)
    engine = choice("engine", engine, ENGINES)
    labels: dict[str, Any] = {}
    if engine == "reference":
        if trace is not None:
            raise ValueError("trace: must be left out with engine = 'reference', which records none")
        known = settled(point)
        seeds = [replicate_seed(known.streams, n) for n in range(point.replicates)]
        arrays = _stacked([_run_reference(known.replicate(seed), seed) for seed in seeds])
    elif trace is None:
        arrays = simulate_point(point, threads)
    else:
        arrays, labels = trace_point(point, trace, threads)
    coordinates = schema.result_coordinates(point.replicates, schema.result_ops([point.gpu]))
    coordinates |= {"warps": np.arange(arrays["occupancy_fraction"].shape[1]), **labels}
    entry = f"simulate {point.gpu.name} {point.kernel.name} {point.scheduler} {point.memory}"
    return schema.build_dataset(arrays, coordinates, attrs=provenance.attributes(point_provenance(point, trace), entry))


def builder_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the keyword arguments of a call that `simulate` does not have: arguments of a kernel's builder."""
    own = (*ARGUMENTS, "threads", "trace", "engine")
    return {name: value for name, value in arguments.items() if name not in own}


def simulate_point(
    point: Point,
    threads: int = 1,
    *,
    streams: bytes | None = None,
    first: int = 0,
    spread: int = 0,
    check: bool = False,
    pause: Pause | None = None,
) -> Arrays:
    """Runs all replicates of a point.

    Args:
        point: what to simulate.
        threads: number of threads. Replicates run at the same time; where there are at least twice as many threads, the SMs
            of each are divided as well, with at least 16 SMs to a thread.
        streams: what the seeds are hashes of, together with the replicate's number; left out: the point's identity. Points
            with the same streams have common random numbers.
        first: number of the first replicate.
        spread: cycles after a given warm-up within which the windows of replicates begin, as `settled` finds them.
        check: whether the engine verifies its own state; an AssertionError then says what is wrong.
        pause: called several times per second by each thread; an exception that it raises ends the simulation.

    Returns:
        For every variable of `schema.VARIABLES` an array of shape (replicates, *own dimensions).

    Raises:
        DeadlockError: warps wait at different barriers.
    """
    base = point.streams() if streams is None else streams
    unseeded = _encode(point)
    known = settled(point, base, unseeded=unseeded, spread=spread, threads=threads, pause=pause)

    def one(replicate: int, pause: Pause | None) -> Arrays:
        seed = replicate_seed(base, replicate)
        point = known.replicate(seed)
        machine, state, _ = _run(point, unseeded, seed, threads=threads // point.replicates, check=check, pause=pause)
        return _variables(point, machine, state)

    return _stacked(_each(range(first, first + point.replicates), one, threads, pause))


def compile_engine(points: Iterable[Point]) -> None:
    """Compiles the engine for some points, or loads its machine code, so that the time of later work holds no compilation.

    There is an engine for up to 16, 32 and 64 warps per scheduler each, with and without options of the core; each that the
    points need is run for a cycle. Of points with the same chip, classes and number of lanes, one tells what they need. Points
    that a machine cannot be made for (`encode`) are left out: whoever simulates them says why.
    """
    from warpsim.engine.state import lanes_for

    examined: dict[tuple[int, frozenset[str], int], Point] = {}
    done = set()
    for point in points:
        lanes = lanes_for(point.launch.resident_warps, point.gpu.sm.schedulers)
        if examined.setdefault((id(point.gpu), point.kernel.ops, lanes), point) is not point:  # it is kept, as its id is
            continue
        endless = point.launch.model_copy(update={"blocks": None, "persistent": False})
        short: dict[str, Any] = {"replicates": 1, "sms": 1, "warmup": 1, "cycles": 1}
        with suppress(InvalidPoint):
            engine = lanes, _encode(point).reads is None
            if engine not in done:
                simulate_point(replace(point, launch=endless, **short))
                done.add(engine)


class Settled(NamedTuple):
    """A point with what does not change from replicate to replicate.

    Attributes:
        point: the point with its warm-up.
        streams: what the seeds of its replicates are hashes of.
        spread: cycles after the warm-up within which the windows of its replicates begin (docs/model.md, section 7).
    """

    point: Point
    streams: bytes
    spread: int = 0

    def replicate(self, seed: int) -> Point:
        """Returns the point as the replicate with a seed runs it: its warm-up ends when its window begins."""
        from warpsim.simulation.warmup import window_offset

        assert self.point.warmup is not None
        return replace(self.point, warmup=self.point.warmup + window_offset(seed, self.spread)) if self.spread else self.point


def settled(
    point: Point,
    streams: bytes | None = None,
    *,
    unseeded: Machine | None = None,
    spread: int = 0,
    threads: int = 1,
    pause: Pause | None = None,
) -> Settled:
    """Returns the point with its warm-up, derived by a pilot run if it is not given.

    Whoever calls `simulate_point` several times for one point calls this once.

    Args:
        point: the point.
        streams: as in `simulate_point`.
        unseeded: the point as it is encoded, if the caller has it.
        spread: as in `simulate_point`, if the warm-up is given; else it is derived, too.
        threads: threads that run the pilot.
        pause: as in `simulate_point`.

    Raises:
        DeadlockError: warps wait at different barriers.
    """
    from warpsim.simulation.encode import with_seed
    from warpsim.simulation.warmup import derived_warmup

    base = point.streams() if streams is None else streams
    if point.warmup is not None:
        return Settled(point, base, spread)
    encoded = _encode(point) if unseeded is None else unseeded

    def machine_of(replicate: int) -> Machine:
        return with_seed(encoded, replicate_seed(base, replicate))

    warmup, spread = derived_warmup(point, machine_of, threads=threads, pause=pause)
    return Settled(replace(point, warmup=warmup), base, spread)


def simulate_replicate(point: Point, seed: int) -> Arrays:
    """Runs one replicate of a point, whose warm-up is given, by its 64-bit seed; the arrays have no dimension `replicate`.

    Raises:
        DeadlockError: warps wait at different barriers.
    """
    machine, state, _ = _run(point, _encode(point), seed)
    return _variables(point, machine, state)


def trace_point(point: Point, trace: Trace, threads: int = 1) -> tuple[Arrays, dict[str, Any]]:
    """Runs all replicates of a point and records the events that are asked for.

    Returns:
        What `simulate_point` returns, with the variables of the trace; the labels of the trace's dimensions.

    Raises:
        TypeError: `trace` is not a Trace.
        DeadlockError: warps wait at different barriers.
        TraceLimitError: the trace takes more than its `max_bytes`.
    """
    from warpsim.simulation.trace_variables import Recording, recording, trace_arrays

    if not isinstance(trace, Trace):
        raise TypeError(f"trace = {trace!r}: must be a Trace, or None")
    base, unseeded = point.streams(), _encode(point)
    known = settled(point, base, unseeded=unseeded, threads=threads)
    chip = unseeded.chip[0]
    size = RunSize(
        replicates=point.replicates, sms=int(chip.sms), schedulers=int(chip.schedulers), issue_width=int(chip.issue_width),
        lines=len(unseeded.program), residents=int(chip.sms * chip.seats * chip.block_warps),
        block_warps=point.launch.block_warps, blocks=int(chip.blocks) if point.finite else None,
        cycles=None if point.finite else point.cycles,
    )  # fmt: skip
    capacity = trace.capacity(size)

    def one(replicate: int, pause: Pause | None) -> tuple[Arrays, Recording]:
        seed = replicate_seed(base, replicate)
        point = known.replicate(seed)
        machine, state, bins = _run(point, unseeded, seed, capacity, threads=threads // point.replicates, pause=pause)
        return _variables(point, machine, state), recording(machine, state, bins, trace)

    results = _each(range(point.replicates), one, threads)
    recordings = [recorded for _, recorded in results]
    arrays, labels = trace_arrays(
        recordings, trace, point.gpu, point.kernel, sms=int(chip.sms), block_warps=point.launch.block_warps
    )
    return _stacked([counted for counted, _ in results]) | arrays, labels


def _each(
    numbers: range, one: Callable[[int, Pause | None], _Result], threads: int, pause: Pause | None = None
) -> list[_Result]:
    """Runs replicates in threads. An interruption (Ctrl-C, an error) ends those that run, and starts no others."""
    if threads == 1 or len(numbers) == 1:
        return [one(replicate, pause) for replicate in numbers]
    stop = threading.Event()

    def pause_or_stop() -> None:
        if stop.is_set():
            raise _StoppedError
        if pause is not None:
            pause()

    pool = ThreadPoolExecutor(threads)
    try:
        return list(pool.map(lambda replicate: one(replicate, pause_or_stop), numbers))
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


class _StoppedError(Exception):
    """Another thread has ended the simulation."""


def _stacked(results: Sequence[Arrays]) -> Arrays:
    return {name: np.stack([result[name] for result in results]) for name in results[0]}


def _run(
    point: Point,
    unseeded: Machine,
    seed: int,
    capacity: Capacity | None = None,
    *,
    threads: int = 1,
    check: bool = False,
    pause: Pause | None = None,
) -> tuple[Machine, State, Bins | None]:
    from warpsim.simulation.encode import with_seed

    assert point.warmup is not None
    machine = with_seed(unseeded, seed)
    cycles = None if point.finite else point.cycles
    began = time.perf_counter()
    options: dict[str, Any] = {"threads": threads, "check": check, "pause": pause}
    state, bins = run_machine(machine, point.kernel, point.warmup, cycles, capacity, **options)
    _LOGGER.debug(
        "%s, %s, %d blocks of %d warps per SM, seed %#018x: %d cycles in %.3g s", point.gpu.name, point.kernel.name,
        point.launch.resident_blocks, point.launch.block_warps, seed, int(state.clock[0].cycle), time.perf_counter() - began,
    )  # fmt: skip
    return machine, state, bins


def _variables(point: Point, machine: Machine, state: State) -> Arrays:
    assert point.warmup is not None
    return variables(engine_counts(machine, state, point.gpu, point.warmup), point, int(machine.chip[0].sms))


def _encode(point: Point) -> Machine:
    from warpsim.simulation.encode import encode

    return encode(
        point.machine_gpu, point.kernel, point.launch, scheduler=point.scheduler, memory=point.memory, sms=point.sms,
        phases=point.phases,
    )  # fmt: skip


def _run_reference(point: Point, seed: int) -> Arrays:
    """Runs one replicate on the reference machine."""
    assert point.warmup is not None
    cycles = None if point.finite else point.cycles
    result = reference.simulate(
        point.machine_gpu, point.kernel, point.launch, scheduler=point.scheduler, memory=point.memory, seed=seed,
        warmup=point.warmup, cycles=cycles, sms=point.sms, max_cycles=MAX_CYCLES,
    )  # fmt: skip
    sms = point.simulated_sms
    return variables(reference_counts(result, point.machine_gpu, point.launch, sms, point.warmup), point, sms)
