"""Instructions of a kernel on a chip by class, for the models that add up their times.

Most models before Volkov's add up instructions by class, each with its own latency and peak throughput; some follow the
instructions in program order. Latencies and throughputs come from `warpsim.models.parts.costs`, so that all models start from
the parameters of the simulator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import xarray as xr

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Conditional, Instruction, Kernel, Loop
from warpsim.kernels.program import names_warps
from warpsim.kernels.statements import Statement
from warpsim.models.parts.common import NotCoveredError, quantity, result
from warpsim.models.parts.costs import MEMORY, Cost, cost, issue_uses
from warpsim.models.parts.counts import counts
from warpsim.units import MEMORY_OPS

MOST_INSTRUCTIONS = 200_000
"""Largest number of instructions that the models follow in program order."""

_CONTROL = ("barrier", "exit")


@dataclass(frozen=True)
class Part:
    """Equal instructions of a kernel.

    Attributes:
        instruction: one of the instructions.
        count: expected number per warp or repetition.
        latencies: consumer's operation class -> latency of the result in cycles; "" is any other class.
        interval: least cycles of an SM between two of the instructions: the reciprocal of their peak throughput.
        requested_bytes: bytes of global memory that one instruction requests.
        traffic_bytes: bytes that the memory system moves for one instruction, without cache hits.
    """

    instruction: Instruction
    count: float
    latencies: dict[str, float]
    interval: float
    requested_bytes: float
    traffic_bytes: float

    @property
    def op(self) -> str:
        """The operation class."""
        return self.instruction.op

    @property
    def latency(self) -> float:
        """Cycles until an instruction of the same class may use the result."""
        return self.latencies.get(self.op, self.latencies[""])


@dataclass(frozen=True)
class ClassCounts:
    """Instructions of a warp, or of one repetition of its endless loop (`per`)."""

    gpu: Gpu
    per: str
    parts: tuple[Part, ...]

    @property
    def instructions(self) -> dict[str, float]:
        """Operation class -> expected instructions."""
        counts: dict[str, float] = defaultdict(float)
        for part in self.parts:
            counts[part.op] += part.count
        return dict(counts)

    @property
    def total(self) -> float:
        """Expected instructions."""
        return sum(part.count for part in self.parts)

    def of(self, *ops: str) -> tuple[Part, ...]:
        """Returns the parts of some operation classes."""
        return tuple(part for part in self.parts if part.op in ops)

    @property
    def accesses(self) -> tuple[Part, ...]:
        """The accesses to global memory."""
        return self.of(*MEMORY_OPS)

    @property
    def arithmetic(self) -> tuple[Part, ...]:
        """All instructions except loads, stores, barriers and exits."""
        return tuple(p for p in self.parts if p.op not in (*MEMORY_OPS, *_CONTROL))

    @property
    def memory_latency(self) -> float:
        """Mean latency of the loads in cycles; NaN without loads."""
        loads = count(self.of("load"))
        return sum(p.count * p.latency for p in self.of("load")) / loads if loads else float("nan")


def count(parts: Iterable[Part]) -> float:
    """Returns the number of instructions in some parts."""
    return sum(part.count for part in parts)


def busy(parts: Iterable[Part]) -> float:
    """Returns the cycles of an SM that some parts take one after the other at their peak rates."""
    return sum(part.count * part.interval for part in parts)


def class_counts(gpu: Gpu, kernel: Kernel) -> ClassCounts:
    """Returns the instructions of a warp, or of one repetition if the kernel is endless.

    Counts are expected values, and both sides of a divergent conditional count. The end of a warp is an exit.

    Raises:
        NotCoveredError: the kernel treats the warps of a block differently, or not all warps reach its endless loop.
        ValueError: the chip lacks an operation class, or the latency of a cache that the kernel hits.
    """
    if names_warps(kernel):
        raise NotCoveredError(f"{kernel.name}: it treats the warps of a block differently; volkov covers that")
    counted = counts(gpu, kernel)
    found: dict[Instruction, float] = defaultdict(float)
    for instruction, number in counted:
        found[instruction.model_copy(update={"dst": None, "src": (), "comment": ""})] += number
    return ClassCounts(gpu, counted.per, tuple(_part(gpu, i, number) for i, number in found.items() if number > 0))


def part_of(gpu: Gpu, instruction: Instruction) -> Part:
    """Returns one instruction on a chip.

    Raises:
        ValueError: the chip lacks the operation class, or the latency of a cache that the instruction hits.
    """
    return _part(gpu, instruction, 1.0)


def sequence(kernel: Kernel, model: str) -> tuple[Instruction, ...]:
    """Returns the instructions of a warp, or of one repetition of an endless loop, in program order.

    Raises:
        NotCoveredError: the kernel has conditionals, or loops with a random number of trips, or executes more than
            `MOST_INSTRUCTIONS`.
    """
    body = _loop(kernel).body if kernel.endless else (*kernel.body, Instruction("exit"))
    found = tuple(islice(_unrolled(kernel, body, model), MOST_INSTRUCTIONS + 1))
    if len(found) > MOST_INSTRUCTIONS:
        raise NotCoveredError(f"{kernel.name}: {model} covers at most {MOST_INSTRUCTIONS} instructions, or an endless loop")
    return found


def refuse(kernel: Kernel, model: str, *ops: str) -> None:
    """Checks that a kernel has no instruction of some operation classes.

    Raises:
        NotCoveredError: the kernel has one.
    """
    for op in ops:
        if op in kernel.ops:
            raise NotCoveredError(f"{kernel.name}: {model} does not cover {op} instructions")


def dataset(
    of: ClassCounts,
    rate: xr.DataArray,
    warps: xr.DataArray,
    *,
    source: str,
    **others: xr.DataArray,
) -> xr.Dataset:
    """Returns the result of a model from its rate.

    Args:
        of: instructions of the kernel.
        rate: warps, or repetitions, per cycle and SM.
        warps: warps per SM.
        source: name of the model, and equations.
        others: further variables.

    Returns:
        A Dataset with `ipc(op)`, `throughput(op)`, `bandwidth` as from `simulate`, and `execution_time`, the cycles
        in which an SM executes all its warps once, or one repetition of their endless loop.
    """
    gbs = units.bytes_per_cycle_to_gbs(of.gpu.sms, of.gpu.clock_ghz)
    requested = sum(part.count * part.requested_bytes for part in of.parts)
    found = {
        "bandwidth": rate * requested * gbs,
        "execution_time": quantity((warps / rate.where(rate != 0)), "cycles", f"time of the SM's warps per {of.per}"),
    }
    ipc = {op: rate * number for op, number in of.instructions.items()}
    return result(of.gpu, ipc, {**found, **others}, source=source)


def _loop(kernel: Kernel) -> Loop:
    last = kernel.body[-1]
    assert isinstance(last, Loop)
    return last


def _part(gpu: Gpu, instruction: Instruction, number: float) -> Part:
    costs: Cost = cost(gpu, instruction, float(gpu.memory.latency_cycles))
    held = [use.cycles * times for use, times in costs.uses]
    issued = sum(use.cycles * times for use, times in issue_uses(gpu, "", costs.slots, costs.reissues))
    moved = sum(use.cycles * times for use, times in costs.uses if use.resource == MEMORY)
    return Part(
        instruction=instruction,
        count=number,
        latencies=costs.latency,
        interval=max([*held, issued]),
        requested_bytes=sum(use.requested_bytes for use, _ in costs.uses),
        traffic_bytes=moved * gpu.bandwidth_bytes_per_cycle / gpu.sms,
    )


def _unrolled(kernel: Kernel, statements: tuple[Statement, ...], model: str) -> Iterable[Instruction]:
    for statement in statements:
        if isinstance(statement, Instruction):
            yield statement
        elif isinstance(statement, Conditional):
            raise NotCoveredError(f"{kernel.name}: {model} does not cover conditionals")
        else:
            low, high = statement.trip_range
            if low != high:
                raise NotCoveredError(f"{kernel.name}: {model} does not cover random numbers of trips")
            for _ in range(low):
                yield from _unrolled(kernel, statement.body, model)
