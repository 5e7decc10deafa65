"""Blocks without work: those whose warps leave at once, since their threads lie beyond the data.

Where a guard lets whole warps through and splits none, it asks for the index of the thread, and the last blocks of the grid are
those that leave. A guard that depends on data splits warps. So the blocks with work are simulated, which pass the guard. If the
guard were drawn for each warp, every block would hold slots of warps that are gone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from warpsim.hardware.residency import Launch
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.kernels.traversal import expected_instructions, walk
from warpsim.profiles.launch import ProfiledInstruction
from warpsim.simulation.endless import without_exits
from warpsim.units import WARP_LANES

_NEARLY_ALL = 0.99
"""Share of the work behind a guard, and of the threads that are active there, at least."""


def blocks_with_work(kernel: Kernel, launch: Launch, code: tuple[ProfiledInstruction, ...]) -> tuple[Kernel, Launch]:
    """Returns the kernel, and the launch without its last blocks if these leave at an index guard, which all others pass."""
    body, share = _passed(without_exits(kernel.body), {one.address: one for one in code})
    blocks = math.ceil(share * (launch.blocks or 1))
    if not launch.blocks or blocks >= launch.blocks:
        return kernel, launch
    return kernel.model_copy(update={"body": body}), launch.model_copy(update={"blocks": blocks})


def _passed(
    statements: tuple[Statement, ...], code: Mapping[int, ProfiledInstruction]
) -> tuple[tuple[Statement, ...], float]:
    """Returns statements whose index guards let all warps through, and the share of the warps that they let through."""
    for index, one in enumerate(statements):
        if isinstance(one, Loop):
            break
        if isinstance(one, Conditional) and one.probability is not None:
            sides = ((one.then, one.probability, 1.0), (one.orelse, 1.0 - one.probability, 0.0))
            side, share, certain = max(sides, key=lambda side: side[1] * expected_instructions(side[0]))
            if share * expected_instructions(side) >= _NEARLY_ALL * expected_instructions(statements) and _is_whole(side, code):
                body, within = _passed(side, code)
                passed = one.model_copy(update={"probability": certain, "then" if certain else "orelse": body})
                return (*statements[:index], passed, *statements[index + 1 :]), share * within
    return statements, 1.0


def _is_whole(statements: tuple[Statement, ...], code: Mapping[int, ProfiledInstruction]) -> bool:
    """Returns whether the first instruction of some statements is executed by whole warps."""
    first = next((one for _, one in walk(statements) if isinstance(one, Instruction) and one.comment.startswith("0x")), None)
    counted = None if first is None else code.get(int(first.comment.split()[0], 16))
    if counted is None or not counted.executed:
        return False
    threads = counted.counts.get("thread_inst_executed") or counted.counts.get("thread_inst_executed_true", 0.0)
    return threads >= _NEARLY_ALL * WARP_LANES * counted.executed
