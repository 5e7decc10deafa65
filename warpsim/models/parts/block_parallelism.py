"""Parallelism within a warp, from its basic blocks (S 5.3).

Instructions that overlap across the end of a block, such as those of two iterations of a loop, do not count. The paper divides
the sum of value x executions by the number of blocks; here it is divided by the executions, since the mean would otherwise grow
with them. S is Sim et al. 2012 (docs/bibliography.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from warpsim.kernels.instruction import Instruction
from warpsim.models.parts.counts import Counts
from warpsim.units import MEMORY_OPS


def instruction_parallelism(counted: Counts) -> float:
    """Returns the ILP of a warp: instructions per group that may issue together, averaged over the executions of the blocks.

    Issue is in order. An instruction that reads a register written in its group begins the next group.
    """
    return _mean((len(b.instructions) / _groups(b.instructions), b.times) for b in counted.blocks)


def memory_parallelism(counted: Counts) -> float:
    """Returns the MLP of a warp: memory requests from a load, including it, to the first use of its result.

    It is averaged over the loads of a block, then over the executions of the blocks with loads. Without loads it is 1.
    """
    found = []
    for block in counted.blocks:
        local = [_requests(block.instructions[i:]) for i, at in enumerate(block.instructions) if at.op == "load"]
        if local:
            found.append((sum(local) / len(local), block.times))
    return _mean(found) if found else 1.0


def _groups(instructions: tuple[Instruction, ...]) -> int:
    groups, written = 1, set[str]()
    for instruction in instructions:
        if written & set(instruction.src):
            groups, written = groups + 1, set()
        if instruction.dst is not None:
            written.add(instruction.dst)
    return groups


def _requests(instructions: tuple[Instruction, ...]) -> int:
    """Returns the number of memory requests before the first use of the first instruction's result."""
    found = 0
    for i, instruction in enumerate(instructions):
        if i and instructions[0].dst in instruction.src:
            break
        found += instruction.op in MEMORY_OPS
    return found


def _mean(values: Iterable[tuple[float, float]]) -> float:
    pairs = list(values)
    return sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)
