"""Which steps can be refused, which are ordered, and which are plain, so that a scheduler runs ahead with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.engine.constants import ACCESS_BITS, LIMITED, LONGEST_INTERVAL, RANK_BITS, READING_CYCLES, RESOLVED, Kind
from warpsim.engine.machine import Machine
from warpsim.simulation.core_options import reads_of_banks
from warpsim.simulation.known_waits import are_counted, at_mbarriers
from warpsim.simulation.readiness import behind_control


def find_refusable(machine: Machine) -> NDArray[np.int64]:
    """Fills in which classes can be refused by their unit or by a limit of the SM, after `precompute_waits`.

    Returns them. Those come first that a scheduler may not find free because of what others have issued.
    """
    chip, program = machine.chip[0], machine.program
    kind, op = program["kind"], program["op"]
    instructions = kind < Kind.LOOP_BEGIN
    late = np.maximum(program["unit_ticks"], program["data_ticks"]) > program["busy"] * chip["tick"]
    classes, refusable = machine.classes, machine.classes["refusable"]
    unit = classes["unit"][op]
    for number in set(op[instructions].tolist()):
        access = classes["access"][number]
        at_limit = access > 0 and chip["per_sm"][access - 1] > 0
        contended = classes["own_unit"][number] == 0 and chip["schedulers"] > 1
        alike = instructions & (unit == classes["unit"][number])
        waiting = classes["queue"][number] > 0
        refusable[number] = at_limit or contended or waiting or late[alike].any() or _may_pair_in_unit(machine, alike)
    refusing = np.flatnonzero(refusable)
    by_others = ((classes["own_unit"] == 0) & (classes["queue"] == 0) | (classes["access"] > 0))[refusing]
    machine.chip["contended"] = np.count_nonzero(by_others)
    return np.concatenate([refusing[by_others], refusing[~by_others]])


def find_plain_steps(machine: Machine) -> None:
    """Fills in what STEP says of ordered and plain steps; the machine is modified in place, after `find_refusable`."""
    chip, program, classes = machine.chip[0], machine.program, machine.classes
    kind, op, delay = (program[name] for name in ("kind", "op", "delay"))
    refusable, unit = classes["refusable"], classes["unit"][op]
    ordered = (kind == Kind.BARRIER) | (kind == Kind.EXIT) | ((kind < Kind.LOOP_BEGIN) & (classes["shared"][op] > 0))
    ordered |= at_mbarriers(machine, "arrives") | at_mbarriers(machine, "awaits")
    program["ordered"] = ordered
    of_sm = (refusable > 0) & ((classes["own_unit"] == 0) | (classes["queue"] > 0))
    alone = ~(ordered | of_sm[op] | (program["data_ticks"] > 0))
    if len(machine.reads):
        alone &= (reads_of_banks(machine.reads) <= READING_CYCLES).all(axis=1)
    plain = (kind == Kind.COMPUTE) & (delay > 0) & alone
    if len(machine.hints):
        plain &= ~are_counted(machine.hints)
    chip["interval"] = program["busy"][plain].min() if plain.any() else 1
    plain &= (program["busy"] == chip["interval"]) & (chip["interval"] <= LONGEST_INTERVAL)
    limited = np.where(refusable[op] > 0, LIMITED, 0)
    program["plain"], program["own_delay"] = plain * (1 | limited), np.where(plain, delay << RANK_BITS, 0)
    program["uses"], program["ports"] = unit << ACCESS_BITS | classes["access"][op], classes["ports"][op]
    program["next_uses"] = program["uses"][program["following"]]
    if has_options(machine):
        resolved = _resolved(machine, alone)
        program["plain"][resolved] = RESOLVED | limited[resolved]
    program["next_delay"] = program["own_delay"][program["following"]]
    program["run"] = _runs(program) if chip["interval"] == 1 else 0


def has_options(machine: Machine) -> bool:
    """Returns whether a machine, of which the plain steps are known, needs the loop that serves options (`Machine`)."""
    chip, limited = machine.chip[0], machine.program["plain"] & LIMITED
    return bool(chip["banks"] > 0 or chip["buffer"] > 0 or len(machine.hints) or len(machine.mbarriers) or limited.any())


def _resolved(machine: Machine, alone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which steps are plain but for the wait that follows them, or are branches, of those that use nothing shared."""
    chip, program = machine.chip[0], machine.program
    steps: NDArray[np.bool_] = alone & (program["busy"] == chip["interval"]) & (chip["interval"] <= LONGEST_INTERVAL)
    steps &= (program["kind"] == Kind.COMPUTE) & (program["delay"] == 0) | (program["kind"] == Kind.BRANCH)
    if chip["issue_width"] > 1 or chip["loads_per_warp"] > 0:
        steps[:] = False
    if len(machine.hints):
        steps &= ~are_counted(machine.hints)
    return steps


def _runs(program: NDArray[Any]) -> list[int]:
    """Returns how many plain steps of equal delays stand in a row from each step on, none of which writes a register in use."""
    alone = ((program["plain"] == 1) & (program["known_dst"] < 0)).tolist()
    following, delay, runs = program["following"].tolist(), program["own_delay"].tolist(), [0] * (len(program) + 1)
    for i in range(len(program) - 1, -1, -1):
        goes_on = following[i] == i + 1 and delay[i + 1] == delay[i]
        runs[i] = (1 + (runs[i + 1] if goes_on else 0)) if alone[i] else 0
    return runs[:-1]


def _may_pair_in_unit(machine: Machine, steps: NDArray[np.bool_]) -> bool:
    """Returns whether two of these steps, which are all those of a unit, may issue in the same cycle."""
    program = machine.program
    if machine.chip[0]["issue_width"] < 2:
        return False
    first = np.flatnonzero(steps & (program["delay"] == 0) & (program["kind"] <= Kind.STORE))
    unit = machine.classes["unit"]
    units_after = ({int(unit[op]) for op in _classes_after(machine, int(step))} for step in first)
    return any(int(unit[program["op"][step]]) in after for step, after in zip(first, units_after, strict=True))


def _classes_after(machine: Machine, step: int) -> set[int]:
    """Returns the operation classes of the steps that can follow a step that is not a branch."""
    program, ahead = machine.program, [step + 1]
    classes: set[int] = set()
    seen: set[int] = set()
    while ahead:
        i = ahead.pop()
        if i in seen or i >= len(program):
            continue
        seen.add(i)
        if program["kind"][i] < Kind.LOOP_BEGIN:
            classes.add(int(program["op"][i]))
            continue
        ahead += behind_control(int(program["kind"][i]), i, int(machine.details["target"][i]), endless=False)
    return classes
