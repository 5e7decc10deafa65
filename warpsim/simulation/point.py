"""A point: one chip, one kernel and one launch, with every argument of `simulate` resolved.

A point is a value. Its identity omits labels that are only for people (names, titles, sources, comments). The seeds of its
replicates are hashes of that identity. `from_provenance` repeats a run from the JSON text of its provenance.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, fields, replace
from typing import Any

from warpsim.arguments import DeadlockError, InvalidPoint, choice, did_you_mean, integer, refusing_malformed
from warpsim.hardware.files import names_only
from warpsim.hardware.gpu import Gpu, as_gpu, described_with_table
from warpsim.hardware.memo import kept_by_object
from warpsim.hardware.residency import Launch, resolve_launch
from warpsim.hardware.sections import section
from warpsim.kernels import Kernel
from warpsim.kernels.files import as_kernel
from warpsim.kernels.iteration import MOST_STORES, stores_run_free
from warpsim.kernels.program import barriers_not_reached_by_all, has_contended_addresses, names_warps
from warpsim.kernels.traversal import issued
from warpsim.kernels.whatif import ending_in_l2
from warpsim.results.provenance import dump, load, provenance, read_call
from warpsim.simulation.identity import identity
from warpsim.simulation.limits import MAX_CYCLES, MAX_REPLICATES, MAX_SEED, check_limits
from warpsim.simulation.policies import as_policy
from warpsim.simulation.trace import Trace
from warpsim.units import MEMORY_OPS

FEW_ROUNDS = 12
"""Rounds of resident blocks, below which the slice of a finite grid is not to be relied on."""

MEMORY_MODELS = ("queue", "fixed", "measured")
"""Memory models (docs/model.md, section 5)."""


@dataclass(frozen=True)
class Point:
    """One parameter combination. The defaults of its fields are those of `simulate`, on the command line as well, and of a plan.

    What else simulates has further replicates, and times of launches another policy (`policies.REPLAYED`).

    Attributes:
        gpu: the chip.
        kernel: the program of every warp.
        launch: the launch, every field resolved.
        scheduler: the scheduling policy, one of `policies.POLICIES`.
        memory: the memory model, one of MEMORY_MODELS.
        replicates: number of independent repetitions.
        seed: root of all randomness.
        sms: number of simulated SMs; None: the whole chip.
        warmup: cycles before counting starts; None: derived from the run (`warpsim.simulation.warmup`); 0 where a grid runs
            to its end.
        cycles: cycles that are counted.
    """

    gpu: Gpu
    kernel: Kernel
    launch: Launch
    scheduler: str = "lrr"
    memory: str = "queue"
    replicates: int = 1
    seed: int = 2016
    sms: int | None = None
    warmup: int | None = None
    cycles: int = 100_000

    @property
    def finite(self) -> bool:
        """Whether the grid ends, so that it runs to completion."""
        return self.launch.finite

    @property
    def simulated_sms(self) -> int:
        """Number of SMs that are simulated: those of the slice, or of the whole chip."""
        return self.gpu.sms if self.sms is None else self.sms

    @property
    def rounds_are_few(self) -> bool:
        """Whether a slice runs fewer rounds of a grid's blocks than its echoes need to represent it (docs/validity.md)."""
        if self.simulated_sms == self.gpu.sms or not self.finite or self.kernel.ops.isdisjoint(MEMORY_OPS):
            return False
        assert self.launch.resident_blocks is not None
        return self.launch.persistent or (self.launch.blocks or 0) < FEW_ROUNDS * self.simulated_sms * self.launch.resident_blocks

    @property
    def phases(self) -> bool:
        """Whether the warps of the deal start at random phases of an iteration (docs/model.md, section 4)."""
        return not self.finite and self.warmup != 0

    @property
    def machine_gpu(self) -> Gpu:
        """The chip that is simulated: in the memory model `queue`, slices of large chips are those of a section.

        Where the warps of all SMs update a few addresses together, they are not (docs/model.md, section 5).
        """
        if self.sms is None or self.memory != "queue" or has_contended_addresses(self.kernel):
            return self.gpu
        return section(self.gpu, self.sms)

    def identity(self) -> dict[str, Any]:
        """Returns the parameters that determine the random numbers: all that the simulation reads, except the policy."""
        parts = identity(self.gpu, self.kernel, self.launch, self.memory)
        own = {name: getattr(self, name) for name in ("seed", "sms", "warmup", "cycles")}
        return parts | own | ({"cycles": type(self).cycles} if self.finite else {})  # a grid runs to its end, whatever they are

    def streams(self) -> bytes:
        """Returns the identity as bytes, from which `replicate_seed` derives seeds."""
        return json.dumps(self.identity(), sort_keys=True).encode()


DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Point) if field.name not in ("gpu", "kernel", "launch")}
"""Argument of `simulate` -> its default."""

ARGUMENTS = ("gpu", "kernel", "warps", "block_warps", "launch", *DEFAULTS)
"""Arguments of `make_point`."""


def free_stores(point: Point) -> str | None:
    """Returns what is wrong with a slice whose stores no loads hold back (docs/validity.md); None: the point is no such slice."""
    if point.simulated_sms == point.gpu.sms or not stores_run_free(point.kernel):
        return None
    return (
        f"the kernel has more than {MOST_STORES} stores for each load of DRAM: nothing ties the stores of the slice to those of "
        f"its echoes, so that it can get far too much or too little of the memory; sms = {point.gpu.sms} simulates the whole chip"
    )


def make_point(
    gpu: Gpu | str | os.PathLike[str],
    kernel: Kernel | str | os.PathLike[str],
    *,
    warps: int | None = None,
    block_warps: int | None = None,
    launch: Launch | None = None,
    **settings: Any,
) -> Point:
    """Checks the arguments of `simulate` and resolves the launch. `settings` are the fields of a Point that have defaults.

    Raises:
        TypeError: an argument is of the wrong type, or unknown.
        ValueError: an argument's value is not allowed, or the chip cannot hold the launch or lacks what the kernel needs
            (`InvalidPoint`), or warps can wait for each other at a barrier forever (`DeadlockError`), or times could exceed
            what the engine can hold.
    """
    gpu, kernel = as_gpu(gpu), as_kernel(kernel)
    unknown = [name for name in settings if name not in DEFAULTS]
    if unknown:
        raise TypeError(f"{unknown[0]}: must be one of {', '.join(ARGUMENTS)}{did_you_mean(unknown[0], ARGUMENTS)}")
    point = Point(gpu, kernel, resolve_launch(gpu, kernel, warps, block_warps, launch), **settings)
    point = replace(
        point, scheduler=as_policy(point.scheduler), memory=choice("memory", point.memory, MEMORY_MODELS)
    )
    if point.memory == "measured" and not gpu.memory.measured:
        needs = "a table of several loads (memory.distribution) with memory.measured = true"
        text = f"latency quantiles were not measured on {gpu.name}; use 'queue' or 'fixed', or a chip file with {needs}"
        raise InvalidPoint(f"memory = 'measured': {text}")
    _check_classes(gpu, kernel)
    _check_caches(gpu, kernel)
    _check_block_size(kernel, point.launch)
    uneven = barriers_not_reached_by_all(kernel)
    if uneven and point.launch.block_warps > 1:
        raise DeadlockError(
            f"kernel {kernel.name}: deadlock: the barrier at {', '.join(uneven)} is not reached by all warps of a block"
        )
    if kernel.endless and point.finite:
        raise ValueError(
            f"launch: must have an endless supply of blocks for {kernel.name}, which is an endless loop; leave out the number of "
            "blocks, or give the loop a number of trips, as iterations=10 (--set iterations=10) gives mix and others"
        )
    point = replace(
        point,
        replicates=integer("replicates", point.replicates, 1, MAX_REPLICATES),
        seed=integer("seed", point.seed, 0, MAX_SEED),
        sms=None if point.sms is None else integer("sms", point.sms, 1, gpu.sms),
        warmup=0 if point.finite else None if point.warmup is None else integer("warmup", point.warmup, 0, MAX_CYCLES),
        cycles=integer("cycles", point.cycles, 1, MAX_CYCLES),
    )
    point = replace(point, kernel=as_launched(gpu, kernel, point.launch))
    check_limits(point)
    return point


def as_launched(gpu: Gpu, kernel: Kernel, launch: Launch) -> Kernel:
    """Returns the kernel of a launch: where it ends, and L2 has a known latency, stores that stay there are hits."""
    return ending_in_l2(kernel) if launch.finite and gpu.memory.l2_latency_cycles is not None else kernel


def _check_block_size(kernel: Kernel, launch: Launch) -> None:
    """Refuses a block size for which a program was not made, if what some of its warps do goes by their place in the block."""
    made_for = kernel.block_warps
    if made_for not in (None, launch.block_warps) and names_warps(kernel):
        raise InvalidPoint(
            f"block_warps = {launch.block_warps}: must be {made_for}, the size of block for which {kernel.name} was made, since "
            "some warps of a block go ways of their own; import it again for another size"
        )


def _check_classes(gpu: Gpu, kernel: Kernel) -> None:
    """Refuses a kernel with instructions of a class that the chip lacks."""
    missing = sorted(kernel.ops - gpu.ops.keys())
    if missing:
        code = f"machine code for {gpu.architecture} or before"
        older = f"; {code} needs no others (arch = {gpu.architecture!r} of everyday kernels)" if gpu.architecture else ""
        raise InvalidPoint(
            f"kernel: operation class {missing[0]!r} of {kernel.name}: {gpu.name} has {', '.join(gpu.ops)}{older}"
        )


def _check_caches(gpu: Gpu, kernel: Kernel) -> None:
    """Refuses a kernel that hits a cache whose latency the chip's file does not state."""
    latencies = {"l1": gpu.memory.l1_latency_cycles, "l2": gpu.memory.l2_latency_cycles}
    for level, hit in _highest_hits(kernel).items():
        if hit > 0 and latencies[level] is None:
            raise InvalidPoint(
                f"access.{level}_hit = {hit}: must be 0 on {gpu.name}, whose file does not state memory.{level}_latency_cycles"
            )


@kept_by_object
def _highest_hits(kernel: Kernel) -> dict[str, float]:
    """Returns the highest hit probability of all accesses of a kernel, by cache."""
    accesses = [one.access for one in issued(kernel.body) if one.access is not None]
    return {level: max((getattr(one, f"{level}_hit") for one in accesses), default=0.0) for level in ("l1", "l2")}


def replicate_seed(streams: bytes, replicate: int) -> int:
    """Returns the 64-bit seed of one replicate: a hash of `streams` (`Point.streams`) and of the replicate's number."""
    key = hashlib.blake2b(streams, digest_size=32).digest()
    digest = hashlib.blake2b(replicate.to_bytes(8, "little"), key=key, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def point_provenance(point: Point, trace: Trace | None = None) -> str:
    """Returns the provenance of one simulated point and its trace as JSON text, which `from_provenance` reads."""
    call = {name: dump(getattr(point, name)) for name in ("gpu", "kernel", "launch")}
    call["latency_table"] = point.gpu.latency_table
    if point.gpu.own_table is not None:
        call["own_table"] = point.gpu.own_table
    call |= {name: getattr(point, name) for name in DEFAULTS}
    if trace is not None:
        call["trace"] = dump(trace)
    return provenance("simulate", call)


def from_provenance(text: str) -> dict[str, Any]:
    """Returns the keyword arguments with which `warpsim.simulate` repeats the run of a provenance text.

    Raises:
        ValueError: the text is not the provenance of a `simulate` call, or names a file, which is not opened.
    """
    call = read_call(text, "simulate")
    table, own = call.pop("latency_table", None), call.pop("own_table", None)
    types = {"gpu": Gpu, "kernel": Kernel, "launch": Launch, "trace": Trace}
    with refusing_malformed("provenance", any_type=True), names_only():
        required = {"gpu": described_with_table(call["gpu"], own), "kernel": call["kernel"]}
        arguments = {name: load(types[name], value) if name in types else value for name, value in (call | required).items()}
        gpu = arguments["gpu"]
        if table is not None and gpu.latency_table != table:
            raise ValueError(f"provenance: the table of latencies {gpu.memory.distribution!r} has changed since")
    return arguments
