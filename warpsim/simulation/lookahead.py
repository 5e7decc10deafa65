"""For how many cycles parts of the machine cannot affect each other, so that each of them can run alone.

SMs affect each other through memory and the supply of blocks (`window`), schedulers of an SM through barriers as well (`span`).
"""

from __future__ import annotations

import math

import numpy as np

from warpsim.arguments import InvalidPoint
from warpsim.engine.constants import LONGEST_WINDOW, Kind, MemoryModel
from warpsim.engine.machine import Machine
from warpsim.simulation.known_waits import at_mbarriers
from warpsim.simulation.readiness import behind_control


def set_windows(machine: Machine) -> None:
    """Fills in the windows in which SMs, and schedulers of an SM, cannot affect each other, and what they depend on.

    Args:
        machine: the machine, after `precompute_waits`. Its chip and details are modified in place.

    Raises:
        InvalidPoint: what an echo asks of DRAM can return before it has been served there.
    """
    chip, program = machine.chip[0], machine.program
    launch = max(int(chip["block_launch"]), 1)
    echoes = int(chip["sms"] < chip["of_sms"])  # their requests arrive half a cycle later, and return as if they had not
    least = [_least_latency(machine, drains=drains) - echoes for drains in (True, False)]
    if chip["memory"] == MemoryModel.QUEUE and machine.details["requests"].any():
        shortest = math.floor(_least_of_dram(machine) + 0.5)
        if shortest - echoes < 1:
            raise InvalidPoint(f"shortest latency of memory = {shortest} cycle: must be at least 2 in a slice of the chip (sms)")
    short, window = (max(1, min(LONGEST_WINDOW, launch, cycles)) for cycles in least)
    barriers = program["latency"][program["kind"] == Kind.BARRIER]
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


def _soonest_arrival(machine: Machine) -> int:
    """Returns the fewest cycles from the issue of a step that arrives at an mbarrier until it has arrived."""
    arrives, program = at_mbarriers(machine, "arrives"), machine.program
    copies = arrives & (program["kind"] == Kind.LOAD)
    least = [*program["latency"][arrives & ~copies].tolist()]
    if (machine.details["l1_hit"][copies] > 0).any():
        least.append(math.floor(float(machine.chip[0]["l1_latency"])))
    return max(1, min(least, default=LONGEST_WINDOW))


def _least_latency(machine: Machine, *, drains: bool) -> int:
    """Returns the smallest latency, in whole cycles, of a load that misses L1, or of a store if its return is noticed at once.

    On the return of a store that drains, a warp depends only once it has issued `exit`, and the next block starts some time
    after that. But a limit of stores in flight, a dependence counter and the echoes of a slice depend on it at once.
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
