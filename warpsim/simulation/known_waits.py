"""Precomputes the wait before an instruction where it depends only on the previous one.

The engine then skips the comparison of registers, and elsewhere it looks only at those that may not be ready (readiness.py). The
result is the same (docs/model.md, section 3). This module also precomputes for how many cycles parts of the machine cannot
affect each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import InvalidPoint
from warpsim.engine.constants import (
    ACCESS_BITS,
    CAUSE_BITS,
    LIMITED,
    LONGEST_INTERVAL,
    LONGEST_KNOWN_WAIT,
    LONGEST_WINDOW,
    RANK_BITS,
    REASON_BITS,
    RESOLVED,
    Kind,
    MemoryModel,
)
from warpsim.engine.machine import Machine
from warpsim.simulation.readiness import NOTHING, behind_control, readiness


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
    counts = [False] * len(program) if not len(machine.hints) else _counted(machine.hints).tolist()
    waits = counts if not len(machine.hints) else ((machine.hints["waits"] > 0) | counts).tolist()
    held = _of_mbarriers(machine, "awaits").tolist()
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


def _of_mbarriers(machine: Machine, role: str) -> NDArray[np.bool_]:
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


def _counted(hints: NDArray[Any]) -> NDArray[np.bool_]:
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
    names_mbarrier = (_of_mbarriers(machine, "arrives") | _of_mbarriers(machine, "awaits")).tolist()
    pairs, awaited = [], []
    for i, after in enumerate(following):
        load, certain = kind[i] == Kind.LOAD, after != NOTHING
        waits = dst[i] in registers[after] or _is_counted_for(machine.hints, i, after)
        awaited.append(load and misses[i] and certain and waits)
        alone = awaited[i] or delay[i] > 0 or (load and certain and kind[after] == Kind.LOAD)
        pairs.append(bool(chip["issue_width"] == 2 and kind[i] <= Kind.STORE and not alone and not names_mbarrier[i]))
    return pairs, awaited


def precompute_lookahead(machine: Machine) -> NDArray[np.int64]:
    """Fills in the windows in which parts of the machine cannot affect each other, and the steps that are refusable or ordered.

    Args:
        machine: the machine, after `precompute_waits`. Its chip, classes and program are modified in place.

    Returns:
        The classes that are refusable; int64[n].

    Raises:
        InvalidPoint: what an echo asks of DRAM can return before it has been served there.
    """
    chip, program = machine.chip[0], machine.program
    kind, op, delay = (program[name] for name in ("kind", "op", "delay"))
    instructions = kind < Kind.LOOP_BEGIN
    launch = max(int(chip["block_launch"]), 1)
    echoes = int(chip["sms"] < chip["of_sms"])  # their requests arrive half a cycle later, and return as if they had not
    least = [_least_latency(machine, drains=drains) - echoes for drains in (True, False)]
    if chip["memory"] == MemoryModel.QUEUE and machine.details["requests"].any():
        shortest = math.floor(_least_of_dram(machine) + 0.5)
        if shortest - echoes < 1:
            raise InvalidPoint(f"shortest latency of memory = {shortest} cycle: must be at least 2 in a slice of the chip (sms)")
    short, window = (max(1, min(LONGEST_WINDOW, launch, cycles)) for cycles in least)
    barriers = program["latency"][kind == Kind.BARRIER]
    stores = machine.details["drain"] >= 0
    chip["store_latency"] = short
    chip["stores_counted"] = len(machine.hints) and (machine.hints["write"][stores] >= 0).any()
    chip["stores_pass_bus"] = not (machine.details["l2_hit"][stores] > machine.details["l1_hit"][stores]).any()
    chip["store_burst"], chip["store_rate"] = _most_stores(machine)
    chip["most_extra"] = machine.latency_to.max(initial=0)
    chip["window"], chip["most_requests"] = window, machine.details["requests"].max()
    chip["span"] = min(window, max(int(barriers.min()), 1)) if len(barriers) else window
    if len(machine.mbarriers):
        chip["span"] = min(chip["span"], _soonest_arrival(machine))
    elif len(barriers):
        machine.details["to_barrier"] = _to_barrier(machine)

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

    ordered = (kind == Kind.BARRIER) | (kind == Kind.EXIT) | (instructions & (classes["shared"][op] > 0))
    ordered |= _of_mbarriers(machine, "arrives") | _of_mbarriers(machine, "awaits")
    program["ordered"] = ordered
    of_sm = (refusable > 0) & ((classes["own_unit"] == 0) | (classes["queue"] > 0))
    alone = ~(ordered | of_sm[op] | (program["data_ticks"] > 0))
    plain = (kind == Kind.COMPUTE) & (delay > 0) & alone
    if len(machine.hints):
        plain &= ~_counted(machine.hints)
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
    return np.flatnonzero(refusable)


def _to_barrier(machine: Machine) -> list[int]:
    """Returns the fewest cycles from each step's issue to the warp's next barrier or `exit`, up to LONGEST_WINDOW."""
    ways = _ways(machine)
    ends = np.isin(machine.program["kind"], (Kind.BARRIER, Kind.EXIT))
    cycles: list[int] = np.where(ends, 0, LONGEST_WINDOW).tolist()
    changes = True
    while changes:  # backwards, so that a pass finds the shortest ways but for those that lead back
        changes = False
        for step in range(len(ways) - 1, -1, -1):
            fewest = min((passed + cycles[after] for after, passed in ways[step]), default=0)
            if fewest < cycles[step]:
                cycles[step], changes = fewest, True
    return cycles


def _ways(machine: Machine) -> list[list[tuple[int, int]]]:
    """Returns for each step those that can come after it, each with the cycles that lie between their issues, at least."""
    program, details = machine.program, machine.details
    kinds, targets, taken_gaps = program["kind"].tolist(), details["target"].tolist(), details["taken_gap"].tolist()
    gaps = np.where(program["may_pair"] > 0, 0, np.maximum(program["gap"], program["delay"])).tolist()
    endless = (details["low"] < 0).tolist()
    ways: list[list[tuple[int, int]]] = []
    for step, (kind, target) in enumerate(zip(kinds, targets, strict=True)):
        if kind == Kind.EXIT:
            ways.append([])
        elif kind >= Kind.LOOP_BEGIN:
            ways.append([(after, 0) for after in behind_control(kind, step, target, endless=endless[step])])
        elif kind == Kind.BRANCH:
            ways.append([(step + 1, gaps[step]), (target, taken_gaps[step])])
        else:
            ways.append([(step + 1, gaps[step])])
    return ways


def _runs(program: NDArray[Any]) -> list[int]:
    """Returns how many plain steps of equal delays stand in a row from each step on, none of which writes a register in use."""
    alone = ((program["plain"] == 1) & (program["known_dst"] < 0)).tolist()
    following, delay, runs = program["following"].tolist(), program["own_delay"].tolist(), [0] * (len(program) + 1)
    for i in range(len(program) - 1, -1, -1):
        goes_on = following[i] == i + 1 and delay[i + 1] == delay[i]
        runs[i] = (1 + (runs[i + 1] if goes_on else 0)) if alone[i] else 0
    return runs[:-1]


def _soonest_arrival(machine: Machine) -> int:
    """Returns the fewest cycles from the issue of a step that arrives at an mbarrier until it has arrived."""
    arrives, program = _of_mbarriers(machine, "arrives"), machine.program
    copies = arrives & (program["kind"] == Kind.LOAD)
    least = [*program["latency"][arrives & ~copies].tolist()]
    if (machine.details["l1_hit"][copies] > 0).any():
        least.append(math.floor(float(machine.chip[0]["l1_latency"])))
    return max(1, min(least, default=LONGEST_WINDOW))


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
        steps &= ~_counted(machine.hints)
    return steps


def _least_latency(machine: Machine, *, drains: bool) -> int:
    """Returns the smallest latency, in whole cycles, of a load that misses L1, or of a store if its return is noticed at once.

    On the return of a store that drains, a warp depends only once it has issued `exit`, and the next block starts some time
    after that. But a limit of stores in flight, a dependence counter, and the echoes of a slice take notice of it at once.
    """
    chip, details = machine.chip[0], machine.details
    least = _least_of_dram(machine)
    if (details["l2_hit"] > details["l1_hit"]).any():
        least = min(least, float(chip["l2_latency"]))
    if drains and (details["drain"] >= 0).any():
        least = min(least, float(details["drain"].max()))
    return math.floor(least + 0.5)


def _least_of_dram(machine: Machine) -> float:
    """Returns the smallest latency of a load from DRAM in cycles."""
    fixed = machine.chip[0]["memory"] == MemoryModel.FIXED
    return float(machine.chip[0]["latency"] if fixed else machine.quantiles[:, 0].min())


def _most_stores(machine: Machine) -> tuple[int, float]:
    """Returns how many stores an SM can issue in c cycles, at most, as a and b of a + b * c, where its stores are limited.

    Those that begin in these cycles at a unit follow each other by its time; the others still wait in its queues at the end.
    """
    chip, program = machine.chip[0], machine.program
    burst, rate, schedulers = 0, 0.0, int(chip["schedulers"])
    stores = program[program["kind"] == Kind.STORE]
    for unit in np.unique(machine.classes["unit"][stores["op"]]):
        steps = stores[machine.classes["unit"][stores["op"]] == unit]
        facts = machine.classes[steps["op"]]
        units = schedulers if facts["own_unit"].any() else 1
        burst += units + schedulers * int(facts["queue"].max())
        rate += units * float(chip["tick"]) / max(int(steps["unit_ticks"].min()), 1)
    return burst, rate


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
        ahead += [int(machine.details["target"][i])] if program["kind"][i] != Kind.LOOP_BEGIN else []
        ahead += [i + 1] if program["kind"][i] != Kind.JUMP else []
    return classes
