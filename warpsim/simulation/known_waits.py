"""Precomputes the wait before an instruction where it depends only on the previous one.

The engine then skips the comparison of registers, and elsewhere it looks only at those that may not be ready (readiness.py). The
result is the same (docs/model.md, section 3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.engine.constants import CAUSE_BITS, LONGEST_KNOWN_WAIT, REASON_BITS, Kind
from warpsim.engine.machine import Machine
from warpsim.simulation.readiness import NOTHING, readiness


def precompute_waits(machine: Machine) -> Machine:
    """Fills in the fields of STEP under "Known waits", where the wait before the next step is known.

    Args:
        machine: the machine; all fields except those of this module must be encoded. Its chip and program are modified in place.

    Returns:
        The machine with other `operands`: the registers at which steps have to look, since they may not be ready. They have new
        numbers, and all other registers are forgotten.
    """
    chip, program = machine.chip[0], machine.program
    kind, op, gap = (program[name].tolist() for name in ("kind", "op", "gap"))
    spans = zip(program["operands"].tolist(), program["operands_end"].tolist(), strict=True)
    used = machine.operands.tolist()
    registers = [used[begin:end] for begin, end in spans]
    delay, reason = [0] * len(program), [0] * len(program)
    dependency, in_gap = machine.classes["dependency"].tolist(), machine.classes["after"].tolist()
    pairs, few_loads = chip["issue_width"] == 2, chip["loads_per_warp"] > 0
    counts = [False] * len(program) if not len(machine.hints) else are_counted(machine.hints).tolist()
    waits = counts if not len(machine.hints) else ((machine.hints["waits"] > 0) | counts).tolist()
    held = at_mbarriers(machine, "awaits").tolist()
    following = _following(machine)
    ready = readiness(machine, registers, following)

    for i, after in enumerate(following):
        own = ready.to_next[i]
        if kind[i] != Kind.COMPUTE or after == NOTHING or (kind[after] == Kind.LOAD and few_loads) or waits[after] or held[i]:
            continue
        if (own == 0 and pairs) or max(own, gap[i]) > LONGEST_KNOWN_WAIT:
            continue  # both may issue together, or the wait does not fit into a lane of the engine
        if ready.decides[i]:
            delay[i], reason[i] = (own, dependency[op[i]]) if own > gap[i] else (gap[i], in_gap[op[i]])

    program["delay"][:], program["reason"][:] = delay, reason
    overwritten = (program["delay"] > 0) & (program["dst"] == program["dst"][following])
    cause = np.arange(len(program)) << REASON_BITS
    program["known_wait"][:] = (program["delay"] << CAUSE_BITS + REASON_BITS) | cause | program["reason"]
    program["following"] = following
    program["may_pair"], program["awaited"] = _together(machine, following, registers)
    operands = _keep(machine, ready.uncertain)
    program["known_dst"] = np.where(overwritten, NOTHING, program["dst"])
    return machine._replace(operands=operands)


def at_mbarriers(machine: Machine, role: str) -> NDArray[np.bool_]:
    """Returns which steps have a role, `arrives` or `awaits`, at an mbarrier."""
    none = np.zeros(len(machine.program), bool)
    steps: NDArray[np.bool_] = machine.mbarriers[role] >= 0 if len(machine.mbarriers) else none
    return steps


def _keep(machine: Machine, uncertain: list[list[int]]) -> NDArray[np.int32]:
    """Numbers the registers anew that some step has to look at, and forgets the others; returns the machine's `operands`."""
    program, operands = machine.program, [register for registers in uncertain for register in registers]
    kept, ends = sorted(set(operands)), np.cumsum([len(registers) for registers in uncertain])
    place = np.full(machine.chip[0]["registers"] + 1, NOTHING)  # the last one for steps that write none
    place[kept] = np.arange(len(kept))
    program["operands"][1:], program["operands_end"] = ends[:-1], ends
    program["operands"][0], program["dst"] = 0, place[program["dst"]]
    machine.chip[0]["registers"] = len(kept)
    return place[operands].astype(np.int32)


def are_counted(hints: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns for each step whether a dependence counter counts it."""
    counted: NDArray[np.bool_] = (hints["write"] >= 0) | (hints["read"] >= 0)
    return counted


def _is_counted_for(hints: NDArray[Any], step: int, after: int) -> bool:
    """Returns whether a step waits until the counter is 0 that counts another step until its result can be used."""
    if not len(hints) or hints["write"][step] < 0:
        return False
    return bool(hints["waits"][after] >> hints["write"][step] & 1 and hints["at_most"][after] == 0)


def _following(machine: Machine) -> list[int]:
    """Returns for each step the instruction that certainly follows, at no cost and without a draw, or NOTHING."""
    kind, target, low = machine.program["kind"].tolist(), machine.details["target"].tolist(), machine.details["low"].tolist()
    certain = [NOTHING] * len(kind)
    for i in range(len(kind) - 1):
        step, passed = i + 1, 0
        while kind[step] == Kind.JUMP or (kind[step] == Kind.LOOP_END and low[step] < 0 and passed < len(kind)):
            step, passed = target[step], passed + 1
        if kind[step] < Kind.LOOP_BEGIN:
            certain[i] = step
    return certain


def _together(machine: Machine, following: list[int], registers: list[list[int]]) -> tuple[list[bool], list[bool]]:
    """Returns for each step whether the next one may issue in the same cycle, and whether it waits for what this one loads."""
    chip, program = machine.chip[0], machine.program
    kind, dst, delay = program["kind"].tolist(), program["dst"].tolist(), program["delay"].tolist()
    misses = (machine.details["l1_hit"] == 0).tolist()
    names_mbarrier = (at_mbarriers(machine, "arrives") | at_mbarriers(machine, "awaits")).tolist()
    pairs, awaited = [], []
    for i, after in enumerate(following):
        load, certain = kind[i] == Kind.LOAD, after != NOTHING
        waits = dst[i] in registers[after] or _is_counted_for(machine.hints, i, after)
        awaited.append(load and misses[i] and certain and waits)
        alone = awaited[i] or delay[i] > 0 or (load and certain and kind[after] == Kind.LOAD)
        pairs.append(bool(chip["issue_width"] == 2 and kind[i] <= Kind.STORE and not alone and not names_mbarrier[i]))
    return pairs, awaited
