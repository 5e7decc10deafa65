"""SMs of the reference machine: execution units, warp schedulers, and slots for thread blocks.

Numbers in parentheses are sections of docs/model.md.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.operations import Unit as UnitFacts
from warpsim.kernels.costs import Costs
from warpsim.reference.fetch import FrontEnd
from warpsim.reference.mbarriers import Mbarrier
from warpsim.reference.memory import Flight, Stream
from warpsim.reference.policies import Policy, make_policy
from warpsim.reference.ports import RegisterPorts
from warpsim.reference.warp import Warp
from warpsim.units import MEMORY_OPS


class Unit:
    """An execution unit of a scheduler or of the SM, perhaps with a queue of each scheduler (2, 3)."""

    def __init__(self, facts: UnitFacts | None) -> None:
        self.facts = facts if facts is not None and facts.queue is not None else None
        self.free = Fraction(0)
        self.data_free = Fraction(0)  # of its data stage
        self.address_free: Counter[int] = Counter()  # by scheduler
        self.departures: defaultdict[int, list[int]] = defaultdict(list)  # by scheduler

    def accepts(self, scheduler: int, t: int) -> bool:
        if self.facts is None:
            return self.free < t + 1
        return sum(g > t for g in self.departures[scheduler]) < self.facts.queue

    def occupy(self, scheduler: int, t: int, costs: Costs) -> int:
        """Takes an instruction that issues in cycle `t`; returns how long it waits in the queue, and for the data stage."""
        arrival = t if self.facts is None else t + self.facts.lead_cycles
        begin = passes = max(self.free, Fraction(arrival))
        if costs.data_cycles > 0:
            passes = max(begin, self.data_free)
            self.data_free = passes + costs.data_cycles
        self.free = max(begin + costs.unit_cycles, passes)
        if self.facts is None:
            return math.floor(passes) - arrival
        address = max(self.address_free[scheduler], arrival)
        self.address_free[scheduler] = address + self.facts.address_cycles
        leaves = max(address, math.floor(begin))
        self.departures[scheduler] = [g for g in self.departures[scheduler] if g > t] + [leaves]
        return max(leaves, math.floor(passes)) - arrival


class Scheduler:
    """A warp scheduler. It has the warps in the slots w with w mod `schedulers` = its index (1)."""

    def __init__(self, index: int, policy: Policy, banks: int | None, front_end: FrontEnd | None) -> None:
        self.index = index
        self.front_end = front_end
        self.ports = None if banks is None else RegisterPorts(banks)
        self.ports_free = 0  # the cycle before which the register ports let it issue nothing
        self.policy = policy
        self.next_issue = 0
        self.last: Warp | None = None  # the warp of its last issue


@dataclass
class Seat:
    """Slot of one block.

    Attributes:
        index: its number in the SM.
        block: the warps of the block that is there.
        mbarriers: those of that block.
        due: cycle in which it is to get another block; None: it has one, or the supply is used up.
        next_start: cycle in which that block starts, once it has been assigned.
        next_block: its number.
    """

    index: int
    block: list[Warp] = field(default_factory=list)
    mbarriers: dict[str, Mbarrier] = field(default_factory=dict)
    due: int | None = None
    next_start: int | None = None
    next_block: int = 0


class Launcher:
    """The supply of blocks, which start one after another if the chip has a launch interval (4).

    Attributes:
        blocks: blocks of the grid; None: without end.
        interval: cycles between two starts; 0: any number start together.
        following: number of the next block.
        free: time from which the next block can start.
    """

    def __init__(self, blocks: int | None, interval: float) -> None:
        self.blocks, self.interval = blocks, interval
        self.following, self.free = 0, 0.0

    @property
    def is_empty(self) -> bool:
        return self.following == self.blocks

    def assign(self, seat: Seat, *, at_once: bool = False) -> None:
        """Assigns the next block to a seat that is due, if there is one; `at_once`: it does not wait for its turn."""
        due, seat.due = seat.due, None
        if due is None or self.is_empty:
            return
        seat.next_block, seat.next_start = self.following, due
        self.following += 1
        if not at_once:
            seat.next_start = max(due, math.ceil(self.free))
            self.free = max(self.free, due) + self.interval


class Sm:
    """A streaming multiprocessor: schedulers, units, and seats."""

    def __init__(
        self, index: int, gpu: Gpu, seats: int, seed: int, instructions: int, banks: int | None, policy: str
    ) -> None:
        n, fetch = gpu.sm.schedulers, gpu.core.fetch
        front_ends = [None if fetch is None else FrontEnd(fetch, instructions) for _ in range(n)]
        self.index = index
        policies = [make_policy(policy, n, Stream.of_scheduler(seed, index * n + s)) for s in range(n)]
        self.schedulers = [Scheduler(s, policies[s], banks, front_ends[s]) for s in range(n)]
        self.units = {
            (gpu.unit_of(op), s): Unit(gpu.units.get(gpu.unit_of(op)))
            for op, facts in gpu.ops.items()
            for s in (range(n) if facts.scope == "scheduler" else [None])
        }
        accessing = {gpu.unit_of(op) for op in MEMORY_OPS if op in gpu.ops}
        in_order = dict.fromkeys(gpu.unit_of(op) for op in gpu.ops)
        of_sm = {gpu.unit_of(op) for op, facts in gpu.ops.items() if facts.scope == "sm"}
        self.shared = [unit for unit in in_order if unit in of_sm | accessing]
        self.issued = 0  # instructions of shared units
        self.last_issue = {(unit, s): s - n for unit in self.shared for s in range(n)}  # in the numbering of `issued`
        self.seats = [Seat(r) for r in range(seats)]
        self.flights: dict[str, list[Flight]] = {"load": [], "store": []}
        self.last_resident = 0  # resident warps in the last cycle
        self.constants: int | None = None  # cycle from which its warps have the constants that they read first

    def precedence(self, scheduler: Scheduler, unit: str) -> tuple[int, int]:
        """Returns a sort key: picks of units issue in ascending order of it (3)."""
        if unit not in self.shared:
            return -1, scheduler.index
        return self.shared.index(unit), self.last_issue[unit, scheduler.index]

    def note_issue(self, scheduler: Scheduler, unit: str) -> None:
        """Records that a scheduler has issued an instruction to a shared unit, for `precedence`."""
        if unit in self.shared:
            self.issued += 1
            self.last_issue[unit, scheduler.index] = self.issued

    def in_flight(self, kind: str, t: int) -> int:
        """Returns how many of its loads, or of its stores, return after cycle t; forgets the others."""
        self.flights[kind] = [flight for flight in self.flights[kind] if flight.returns > t]
        return len(self.flights[kind])

    def warps(self, t: int) -> list[Warp]:
        """Returns the resident warps in the order of their slots."""
        return [warp for seat in self.seats for warp in seat.block if warp.resident(t)]
