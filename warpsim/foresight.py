"""Waits that are known before the run: most instructions are followed by one that waits for them alone, or for nothing.

The engine then skips the comparison of registers. What is foreseen is what it would have found (docs/model.md, section 3).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from warpsim.engine.state import CLASSES, WHEEL, Kind, Machine, WarpState

NOTHING = -1


def foresee(machine: Machine, targets: Collection[int]) -> None:
    """Fills in `delay` and `reason` of the steps of a program where the wait for the next step is known.

    Args:
        machine: everything else of it is encoded.
        targets: the steps that are reached from elsewhere than the one before.
    """
    chip, program = machine.chip[0], machine.program
    registers = [machine.operands[step.operands : step.operands_end].tolist() for step in program]
    latency_to = chip.latency_to.reshape(CLASSES, CLASSES)

    def wait(writer: np.record, reader: np.record) -> int:
        return int(writer.latency + latency_to[writer.op, reader.op])

    def is_ready(register: int, before: int) -> bool:
        """Whether a register is ready for step `before` + 1 earlier than the delay of step `before` is over."""
        reader, elapsed = program[before + 1], 0
        for i in range(before, -1, -1):
            elapsed += int(program[i].delay)  # at least so long from its issue to that of the next step
            if program[i].dst == register:
                return bool(program[i].kind == Kind.COMPUTE) and wait(program[i], reader) < elapsed
            if register in registers[i] and (latency_to[:, program[i].op] >= latency_to[:, reader.op]).all():
                return True  # it was when step i issued
            if i in targets or program[i - 1].kind >= Kind.LOOP_BEGIN:
                return False
        return False

    for i in range(len(program) - 1):
        ins, following = program[i], program[i + 1]
        if ins.kind != Kind.COMPUTE or following.kind >= Kind.LOOP_BEGIN:
            continue
        if following.kind == Kind.LOAD and chip.loads_per_warp > 0:
            continue
        own = wait(ins, following) if ins.dst in registers[i + 1] else 0
        if (own <= 0 and chip.issue_width == 2) or max(own, ins.gap) >= WHEEL:
            continue  # they may issue together; or the wheel does not reach so far
        ins.delay, ins.reason = (own, chip.dependency[ins.op]) if own > ins.gap else (ins.gap, WarpState.WAIT)
        if not all(is_ready(register, i) for register in registers[i + 1] if register != ins.dst):
            ins.delay, ins.reason = 0, 0

    overwritten = (program.delay[:-1] > 0) & (program.dst[:-1] == program.dst[1:])
    program.dst[:-1][overwritten] = NOTHING  # no one else reads it
