"""Expected number of executions of each instruction by a warp, for the models that count instructions.

Hong and Kim 2009 (HK) and Sim et al. 2012 (S; docs/bibliography.md) count the instructions of a warp and the transactions of its
accesses. Counts are expected values over the sides of conditionals and the trips of loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpsim.hardware.gpu import Gpu
from warpsim.kernels.access import Transactions, conflict_ways
from warpsim.kernels.costs import access_transactions
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel, names_warps
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.models.parts.common import NotCoveredError

_EXIT = Instruction("exit")
_ALL = 1 - 1e-12  # share of the warps that counts as all warps


class Block(NamedTuple):
    """A basic block: instructions without a jump, and the number of `times` that a warp executes them.

    `extra` marks the shorter side of a divergent conditional, which a warp executes only because its threads diverge.
    """

    instructions: tuple[Instruction, ...]
    times: float
    extra: bool = False


@dataclass(frozen=True)
class Counts:
    """Instructions that a warp executes.

    Attributes:
        per: "warp", or "repetition" of an endless loop; instructions before that loop are left out.
        blocks: basic blocks in program order.
    """

    per: str
    blocks: tuple[Block, ...]

    def __iter__(self) -> Iterator[tuple[Instruction, float]]:
        """Yields pairs (instruction, expected number)."""
        for block in self.blocks:
            for instruction in block.instructions:
                yield instruction, block.times

    @property
    def total(self) -> float:
        """Expected number of instructions."""
        return sum(count for _, count in self)

    @property
    def ops(self) -> dict[str, float]:
        """Operation class -> expected number of instructions."""
        found: dict[str, float] = {}
        for instruction, count in self:
            found[instruction.op] = found.get(instruction.op, 0.0) + count
        return found

    def accesses(self, gpu: Gpu) -> list[tuple[Instruction, Transactions, float]]:
        """Returns the accesses to global memory: tuples (instruction, transactions on the chip, expected number)."""
        made = ((instruction, access_transactions(gpu, instruction), count) for instruction, count in self)
        return [(instruction, counted, count) for instruction, counted, count in made if counted is not None]


def counts(gpu: Gpu, kernel: Kernel, *, block_warps: int | None = None) -> Counts:
    """Counts the instructions that a warp executes, in one repetition if the kernel is endless.

    A warp whose threads diverge executes both sides (HK 6.3). If the kernel treats the warps of a block differently, the
    counts are means over these warps. A conditional counts as one branch, the end of a warp as one exit.

    Args:
        gpu: the chip.
        kernel: any kernel.
        block_warps: warps of a thread block; only needed if the kernel treats them differently.

    Raises:
        ValueError: `block_warps` is missing or below 1, or the chip lacks an operation class.
        NotCoveredError: some warps never reach the endless loop.
    """
    if block_warps is not None and block_warps < 1:
        raise ValueError(f"block_warps = {block_warps}: must be at least 1")
    if block_warps is None and names_warps(kernel):
        raise ValueError(f"block_warps = None: must be a number, since {kernel.name} treats the warps of a block differently")
    missing = sorted(kernel.ops - gpu.ops.keys())
    if missing:
        raise ValueError(f"op = {missing[0]!r}: {gpu.name} has {', '.join(gpu.ops)}")
    per = "warp"
    found: list[Block] = []
    share = 1 / block_warps if block_warps and names_warps(kernel) else 1.0
    for warp in range(round(1 / share)):
        per, blocks = _of_warp(kernel, warp)
        found += [Block(b.instructions, b.times * share, b.extra) for b in blocks]
    return Counts(per, tuple(found))


def bank_conflicts(gpu: Gpu, counted: Counts) -> float:
    """Returns the expected number of extra passes through shared memory: k - 1 for a k-way bank conflict (V 2.6).

    An access with passes of its own makes these.
    """
    return float(sum((_shared_passes(gpu, instruction) - 1) * count for instruction, count in counted))


def _shared_passes(gpu: Gpu, instruction: Instruction) -> float:
    own = instruction.cost.passes if instruction.cost and instruction.op == "smem" else None
    return conflict_ways(instruction, gpu) if own is None else float(own)


def _of_warp(kernel: Kernel, warp: int) -> tuple[str, list[Block]]:
    last = kernel.body[-1] if kernel.endless else None
    before: list[Block] = []
    left = _run(kernel.body[:-1] if last else (*kernel.body, _EXIT), warp, before)
    if not isinstance(last, Loop):
        return "warp", before
    if left < _ALL:
        raise NotCoveredError(f"{kernel.name}: not all warps reach its endless loop")
    body: list[Block] = []
    stays = _run(last.body, warp, body)
    if stays >= _ALL:
        return "repetition", body
    return "warp", before + [Block(b.instructions, b.times / (1 - stays), b.extra) for b in body]


def _run(statements: tuple[Statement, ...], warp: int, blocks: list[Block]) -> float:
    """Appends the basic blocks that a warp executes; returns the probability that the warp continues after them."""
    line: list[Instruction] = []
    alive = 1.0

    def end() -> None:
        if line and alive > 0:
            blocks.append(Block(tuple(line), alive))
        line.clear()

    for statement in statements:
        if isinstance(statement, Instruction):
            line.append(statement)
            if statement.op == "exit":
                end()
                alive = 0.0
            continue
        inner: list[Block] = []
        if isinstance(statement, Loop):
            end()
            factor, stays = _repeated(statement, _run(statement.body, warp, inner))
        else:
            line.append(statement.branch)
            end()
            factor, stays = 1.0, _conditional(statement, warp, inner)
        blocks += [Block(b.instructions, alive * factor * b.times, b.extra) for b in inner]
        alive *= stays
    end()
    return alive


def _repeated(loop: Loop, stays: float) -> tuple[float, float]:
    """Returns the expected number of executions of a loop body, and the probability to leave the loop at its end."""
    trips = np.arange(loop.trip_range[0], loop.trip_range[1] + 1)
    if stays >= _ALL:
        return float(trips.mean()), 1.0
    powers = stays**trips
    return float(((1 - powers) / (1 - stays)).mean()), float(powers.mean())


def _conditional(statement: Conditional, warp: int, blocks: list[Block]) -> float:
    then: list[Block] = []
    orelse: list[Block] = []
    stays = [_run(statement.then, warp, then), _run(statement.orelse, warp, orelse)]
    if statement.diverges:
        shorter = min(then, orelse, key=lambda side: sum(len(b.instructions) * b.times for b in side))
        blocks += [Block(b.instructions, b.times, b.extra or side is shorter) for side in (then, orelse) for b in side]
        return 1.0
    share = statement.falls_through(warp)
    for side, weight in ((then, share), (orelse, 1 - share)):
        blocks += [Block(b.instructions, weight * b.times, b.extra) for b in side if weight > 0]
    return share * stays[0] + (1 - share) * stays[1]
