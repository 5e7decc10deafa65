"""The parallelism within a warp, from its basic blocks (S 5.3).

S is J. Sim, A. Dasgupta, H. Kim, R. Vuduc, A Performance Analysis Framework for Identifying Potential Benefits in
GPGPU Applications, 2012. What overlaps across the end of a block, as the rounds of a loop may, does not count. The
paper's mean over blocks divides the sum of value x executions by the number of blocks; it is divided by the
executions here, without which the mean would grow with them.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpsim.kernels.program import Instruction
from warpsim.kernels.statements import MEMORY_OPS
from warpsim.models.parts.counts import Counts


def instruction_parallelism(counted: Counts) -> float:
    """Return ILP: instructions over groups that may issue together, averaged over the blocks' executions.

    An instruction that reads a register written in its group begins the next one; issue is in order.
    """
    return _mean((len(b.instructions) / _groups(b.instructions), b.times) for b in counted.blocks)


def memory_parallelism(counted: Counts) -> float:
    """Return MLP: memory requests from a load to the first use of it, itself included; 1 without loads.

    The loads of a block are averaged, then the executions of the blocks that have any.
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
    """Return the memory requests up to the first use of what the first instruction loads."""
    found = 0
    for i, instruction in enumerate(instructions):
        if i and instructions[0].dst in instruction.src:
            break
        found += instruction.op in MEMORY_OPS
    return found


def _mean(values: Iterable[tuple[float, float]]) -> float:
    pairs = list(values)
    return sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)
