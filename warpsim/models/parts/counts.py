"""How often a warp executes each instruction: what the models need that count instructions.

HK is Hong & Kim 2009, S Sim et al. 2012; both count the instructions of a warp, and the transactions of its
accesses. Counts are expectations over chance: over the sides of conditionals, and the trips of loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpsim.hardware.gpu import Gpu
from warpsim.kernels.access import Transactions, conflict_ways, transactions
from warpsim.kernels.program import Conditional, Instruction, Kernel, Loop, Statement
from warpsim.kernels.statements import MEMORY_OPS
from warpsim.models.parts.common import NotCoveredError
from warpsim.models.parts.warp_path import names_warps

_EXIT = Instruction("exit")
_ALL = 1 - 1e-12  # the share of the warps that counts as all of them


class Block(NamedTuple):
    """A basic block: instructions without a jump, and how many `times` a warp executes them.

    `extra` says that a warp executes it only because its threads part: of the two sides, the shorter.
    """

    instructions: tuple[Instruction, ...]
    times: float
    extra: bool = False


@dataclass(frozen=True)
class Counts:
    """What a warp executes.

    Attributes:
        per: "warp", or "repetition" of the kernel's endless loop; what comes before the loop is left out.
        blocks: the basic blocks, in program order.
    """

    per: str
    blocks: tuple[Block, ...]

    def __iter__(self) -> Iterator[tuple[Instruction, float]]:
        """Yield (instruction, expected number)."""
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
        """Return the accesses of global memory: (instruction, its transactions on a chip, expected number)."""
        return [
            (instruction, transactions(instruction.access, gpu), count)
            for instruction, count in self
            if instruction.op in MEMORY_OPS and instruction.access is not None
        ]


def counts(gpu: Gpu, kernel: Kernel, *, block_warps: int | None = None) -> Counts:
    """Count what a warp of a kernel executes; of an endless kernel, in one repetition.

    A warp whose threads part executes both sides (HK 6.3). Warps that a kernel tells apart by their place in
    the block are averaged. A conditional counts as one branch, the end of a warp as one exit.

    Args:
        gpu: the chip.
        kernel: any kernel.
        block_warps: warps of a thread block; only needed where the kernel tells them apart.

    Raises:
        ValueError: `block_warps` is missing or below 1, or the chip lacks an operation class.
        NotCoveredError: some warps never reach the endless loop.
    """
    if block_warps is not None and block_warps < 1:
        raise ValueError(f"block_warps = {block_warps}: at least 1")
    if block_warps is None and names_warps(kernel):
        raise ValueError(f"block_warps = None: a number, as {kernel.name} tells the warps of a block apart")
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
    """Return the expected extra passes through the banks: of a k-way conflict, k - 1 (V 2.6)."""
    return sum((conflict_ways(instruction, gpu) - 1) * count for instruction, count in counted)


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
    """Append the basic blocks that a warp executes; return the probability that it goes on behind them."""
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
            line.append(Instruction("branch", src=statement.src))
            end()
            factor, stays = 1.0, _conditional(statement, warp, inner)
        blocks += [Block(b.instructions, alive * factor * b.times, b.extra) for b in inner]
        alive *= stays
    end()
    return alive


def _repeated(loop: Loop, stays: float) -> tuple[float, float]:
    """Return how often a loop's body is executed, and the probability to leave it at its end."""
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
    share = statement.probability
    if share is None:
        share = float(warp in (statement.warps or ()))
    for side, weight in ((then, share), (orelse, 1 - share)):
        blocks += [Block(b.instructions, weight * b.times, b.extra) for b in side if weight > 0]
    return share * stays[0] + (1 - share) * stays[1]
