"""Waits that are known before the run: most instructions are followed by one that waits for them alone, or for nothing.

The engine then skips the comparison of registers. What is foreseen is what it would have found (docs/model.md, section 3).
"""

from __future__ import annotations

from collections.abc import Collection

from warpsim.engine.state import CLASSES, WHEEL, Kind, Machine, WarpState

NOTHING = -1


def foresee(machine: Machine, targets: Collection[int]) -> None:
    """Fills in `delay`, `reason` and `foreseen_dst` of the steps of a program where the wait for the next step is known.

    Args:
        machine: everything else of it is encoded.
        targets: the steps that are reached from elsewhere than the one before.
    """
    chip, program = machine.chip[0], machine.program
    kind, op, dst, gap, latency = (program[name].tolist() for name in ("kind", "op", "dst", "gap", "latency"))
    spans = zip(program.operands.tolist(), program.operands_end.tolist(), strict=True)
    used = machine.operands.tolist()
    registers = [used[begin:end] for begin, end in spans]
    delay, reason = [0] * len(program), [0] * len(program)
    extra = chip.latency_to.reshape(CLASSES, CLASSES)
    no_sooner = (extra[:, :, None] >= extra[:, None, :]).all(axis=0).tolist()  # by classes of two readers, whoever writes
    extra, dependency = extra.tolist(), chip.dependency.tolist()
    pairs, few_loads = chip.issue_width == 2, chip.loads_per_warp > 0

    def is_ready(register: int, before: int) -> bool:
        """Whether a register is ready for step `before` + 1 earlier than the delay of step `before` is over."""
        reader, elapsed = op[before + 1], 0
        for i in range(before, -1, -1):
            elapsed += delay[i]  # at least so long from its issue to that of the next step
            if dst[i] == register:
                return bool(kind[i] == Kind.COMPUTE and latency[i] + extra[op[i]][reader] < elapsed)
            if register in registers[i] and no_sooner[op[i]][reader]:
                return True  # it was when step i issued
            if i in targets or kind[i - 1] >= Kind.LOOP_BEGIN:
                return False
        return False

    for i in range(len(program) - 1):
        if kind[i] != Kind.COMPUTE or kind[i + 1] >= Kind.LOOP_BEGIN or (kind[i + 1] == Kind.LOAD and few_loads):
            continue
        own = latency[i] + extra[op[i]][op[i + 1]] if dst[i] in registers[i + 1] else 0
        if (own <= 0 and pairs) or max(own, gap[i]) >= WHEEL:
            continue  # they may issue together; or the wheel does not reach so far
        delay[i], reason[i] = (own, dependency[op[i]]) if own > gap[i] else (gap[i], int(WarpState.WAIT))
        if not all(is_ready(register, i) for register in registers[i + 1] if register != dst[i]):
            delay[i], reason[i] = 0, 0

    program.delay[:], program.reason[:] = delay, reason
    overwritten = (program.delay[:-1] > 0) & (program.dst[:-1] == program.dst[1:])
    program.foreseen_dst[:-1][overwritten] = NOTHING
