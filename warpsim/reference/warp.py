"""Warps of the reference machine: the path through the kernel, registers, and stalls.

Numbers in parentheses are sections of docs/model.md.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.operations import Op
from warpsim.kernels import Conditional, Hints, Instruction, Kernel, Loop
from warpsim.kernels.costs import Costs
from warpsim.kernels.instruction import COUNTERS, MOST_COUNTED
from warpsim.reference.mbarriers import Phase
from warpsim.reference.memory import Flight, Stream
from warpsim.units import ACCESS_KINDS

SCOREBOARD = {
    "math": "wait",
    "none": "wait",
    "mio": "short_scoreboard",
    "lg": "long_scoreboard",
    "tex": "long_scoreboard",
    "branch": "wait",
    "imc": "imc_miss",
    "membar": "membar",
    "sleep": "sleeping",
}
"""Pipe of the writer -> state of a warp that waits for the register (7)."""

GAP = dict.fromkeys(SCOREBOARD, "wait") | {
    "branch": "branch_resolving",
    "imc": "imc_miss",
    "membar": "membar",
    "sleep": "sleeping",
}
"""Pipe of an instruction -> state of a warp in the gap after it (7)."""


@dataclass(frozen=True)
class Step:
    """An instruction on a warp's path, and its place in the kernel, which identifies a barrier."""

    place: str
    instruction: Instruction

    @property
    def op(self) -> str:
        return self.instruction.op

    @property
    def access_kind(self) -> str | None:
        """Whether it is a load or a store for the memory system; None: neither (2)."""
        return ACCESS_KINDS.get(self.op)


def walk(body: tuple, place: str, warp: Warp, first: int = 0) -> Iterator[Step]:
    """Yields a warp's steps in program order (2), from the statement with index `first` on.

    The caller requests the next step after the last one has issued, and none after an exit.
    """
    for index, statement in enumerate(body[first:], first):
        here = f"{place}[{index}]"
        if isinstance(statement, Loop):
            trips = warp.draw_trips(statement)
            while trips is None or trips > 0:
                yield from walk(statement.body, f"{here}.body", warp)
                trips = None if trips is None else trips - 1
        elif isinstance(statement, Conditional):
            yield Step(here, statement.branch)
            first = warp.takes_first(statement)
            warp.branch_taken = not first and not statement.diverges
            if first or statement.diverges:
                yield from walk(statement.then, f"{here}.then", warp)
            if not first or statement.diverges:
                yield from walk(statement.orelse, f"{here}.orelse", warp)
        else:
            yield Step(here, statement)
    if place == "body":
        yield Step("end", Instruction(op="exit"))


@dataclass(frozen=True)
class Write:
    """The last write of a register, or what a dependence counter counts until it has a result.

    Attributes:
        op: operation class.
        issue: cycle of the issue.
        costs: costs of the instruction.
        load: the load that writes it; None for other classes.
        place: place of the instruction in the kernel.
    """

    op: Op
    issue: int
    costs: Costs
    load: Flight | None
    place: str

    def ready(self, consumer: str) -> float:
        """Returns the first cycle in which an instruction of class `consumer` can use the register (3); infinite if not known."""
        if self.load is not None:
            return self.load.returns
        to_consumer = 0 if self.costs.own_latency else self.op.latency_for(consumer) - self.op.latency_cycles
        return self.issue + self.costs.latency_cycles + to_consumer

    @property
    def ends(self) -> float:
        """The first cycle in which a counter does not count it; infinite if not known."""
        return self.load.returns if self.load is not None else self.issue + self.costs.latency_cycles

    @property
    def served(self) -> int:
        """The cycle in which its load is served, while its return is not known; otherwise 0."""
        return self.load.served if self.load is not None and math.isinf(self.load.returns) else 0


@dataclass(frozen=True)
class Read:
    """What a dependence counter counts until its operands have been read; with the attributes of `Write`."""

    op: Op
    ends: float
    place: str
    served: int = 0


def limits(hints: Hints) -> Iterator[tuple[int, int]]:
    """Yields (counter, what it may count at most) for an instruction to be eligible (3)."""
    yield from ((counter, hints.at_most) for counter in sorted(set(hints.waits)))
    yield from ((counter, MOST_COUNTED - 1) for counter in (hints.write, hints.read) if counter is not None)


class Buffer:
    """The instruction buffer of a warp: when its entries can issue, in program order, and the next address to fetch."""

    def __init__(self, address: int) -> None:
        self.entries: list[int] = []
        self.address = address

    def has_instruction(self, t: int) -> bool:
        return bool(self.entries) and self.entries[0] <= t

    def issue(self, issued: int, following: int) -> None:
        """The instruction at an address has issued, and one at another address follows."""
        self.entries.pop(0)
        if following != issued + 1:
            self.entries, self.address = [], following


class Warp:
    """A launched warp. It is resident from cycle `start` to cycle R, inclusive."""

    def __init__(
        self,
        number: int,
        index: int,
        slot: int,
        start: int,
        kernel: Kernel,
        seed: int,
        *,
        launch: int = 0,
        draws_phase: bool = False,
    ) -> None:
        self.number = number  # in the grid: block number * block_warps + index
        self.index = index  # in the block
        self.slot = slot
        self.start = start
        self.stream = Stream.of_warp(seed, number)
        self.phase = self.stream.uniform() if draws_phase else 0.0
        self.gap_end = start + index * launch  # `launch`: cycles by which the warps of its block start one after another
        self.gap_state = "wait"
        self.writes: dict[str, Write] = {}
        self.counted: dict[int, list[Write | Read]] = {counter: [] for counter in range(COUNTERS)}
        self.loads: list[Flight] = []
        self.accesses: list[Flight] = []  # its loads, and its stores if it waits for them at its end
        self.barriers = 0  # passed before cycle 0
        self.barrier: str | None = None  # the place of the barrier at which it waits
        self.last_barrier = ""  # the place of its latest barrier, or of the instruction that awaited an mbarrier later
        self.barrier_passed = start - 1  # cycle of the last arrival at its latest barrier
        self.barrier_end = start  # that cycle + the barrier's latency
        self.reported: defaultdict[str, list[Flight]] = defaultdict(list)  # asynchronous copies that report to each mbarrier
        self.arrived: Counter[str] = Counter()  # how often at each mbarrier
        self.awaited: Counter[str] = Counter()  # how often it has waited for each mbarrier
        self.phase_awaited: Phase | None = None  # that for which it has waited latest
        self.branch_taken = False
        self.exited = False
        self.last_cycle = start  # cycle of its exit
        self.retired: int | None = None  # R
        self.buffer = Buffer(0)
        self.program = walk(kernel.body, "body", self, kernel.entry_of(number))
        self.next = next(self.program)
        self.last_issued = self.next.place  # the place of its last instruction; the first one's before it has issued

    def pass_alone(self, position: int, alone: Mapping[str, int], barriers: int | None) -> None:
        """Passes the instructions that the warp executes alone in `position` cycles, and just so many barriers if given (4)."""
        passed = 0
        while self.next.op != "exit":
            at_last = barriers is not None and self.next.op == "barrier" and self.barriers >= barriers
            if self.barriers >= (barriers or 0) and (passed >= position or at_last):
                break
            self.last_issued = self.next.place
            self.barriers += self.next.op == "barrier"
            passed += alone[self.next.place]
            self.next = next(self.program)
        self.gap_end = self.start + max(0, passed - position)

    def draw_trips(self, loop: Loop) -> int | None:
        """Returns the trip count of a loop; makes one draw if it is random (6). None: endless."""
        low, high = loop.trip_range
        if low < high:
            return low + math.floor(self.stream.uniform() * (high - low + 1))
        return None if loop.trips is None else low

    def takes_first(self, conditional: Conditional) -> bool:
        """Returns whether the warp takes the first body; makes one draw if that is random (6)."""
        if conditional.probability is not None:
            return self.stream.uniform() < conditional.probability
        return conditional.warps is not None and self.index in conditional.warps

    def stall(self, gap_end: int) -> tuple[float, str, str]:
        """Returns the cycle in which the last constraint of the table ends, its state, and the place of its cause (7)."""
        step = self.next
        ends = [
            (float(gap_end), 0, self.gap_state, self.last_issued),
            (float(self.barrier_end), 0, "barrier", self.last_barrier),
        ]
        if self.phase_awaited is not None:
            ends.append((self.phase_awaited.complete, 0, "barrier", self.last_barrier))
        hints = step.instruction.hints
        for register in (*step.instruction.src, step.instruction.dst) if hints is None else ():
            if register in self.writes:
                write = self.writes[register]
                ends.append((write.ready(step.op), write.served, SCOREBOARD[write.op.pipe], write.place))
        for counter, at_most in () if hints is None else limits(hints):
            counted = sorted(self.counted[counter], key=lambda one: (one.ends, one.served))
            if len(counted) > at_most:
                last = counted[-1 - at_most]
                ends.append((last.ends, last.served, SCOREBOARD[last.op.pipe], last.place))
        end, _, state, cause = max(ends, key=lambda end: end[:2])  # max returns the first of equal ends
        return end, state, cause

    def may_load(self, gpu: Gpu, t: int) -> bool:
        """Returns whether the warp's limit of loads in flight leaves room for its next step (5)."""
        limit = gpu.memory.loads_per_warp
        return self.next.access_kind != "load" or limit is None or sum(load.returns > t for load in self.loads) < limit

    def last_access(self) -> Flight:
        """Returns the access that returns last; of equals a load rather than a store, and the first one issued (7)."""

        def key(access: Flight) -> tuple[float, int, bool]:
            return access.returns, access.served if math.isinf(access.returns) else 0, access.op == "load"

        return max(self.accesses, key=key)

    def active(self, t: int) -> bool:
        """Returns whether the warp can go on without a load that returns after cycle t, for the policy `two_level` (3)."""
        hints = self.next.instruction.hints
        named = (self.writes.get(register) for register in (*self.next.instruction.src, self.next.instruction.dst))
        waited = [write for write in named if write is not None]
        if hints is not None:
            counts = [[one for one in self.counted[counter] if one.ends > t] for counter in hints.waits]
            waited = [one for counted in counts if len(counted) > hints.at_most for one in counted if isinstance(one, Write)]
        return not self.exited and all(write.load is None or write.load.returns <= t for write in waited)

    def held(self, t: int) -> bool:
        """Returns whether a barrier holds the warp, up to and including the cycle of the last arrival, or an mbarrier (4, 7)."""
        at_mbarrier = self.phase_awaited is not None and t <= self.phase_awaited.known
        return self.barrier is not None or t <= self.barrier_passed or at_mbarrier

    def line(self, t: int) -> str:
        """Returns the place to which the warp-cycle belongs: the next step, or the barrier that holds the warp (7)."""
        return self.last_barrier if self.held(t) else self.next.place

    def stalled(self, t: int) -> tuple[str, str]:
        """Returns the state of the warp in a cycle in which it is not eligible, and the place of the cause (7)."""
        if self.exited:
            last = self.last_access()
            return "long_scoreboard" if last.op == "load" else "drain", last.place
        if self.held(t):
            return "barrier", self.last_barrier
        end, state, cause = self.stall(self.gap_end)
        return (state, cause) if end > t else ("lg_throttle", self.next.place)

    def eligible(self, t: int, gpu: Gpu) -> bool:
        if self.exited or self.held(t):
            return False
        return self.stall(self.gap_end)[0] <= t and self.may_load(gpu, t)

    def resident(self, t: int) -> bool:
        return self.retired is None or t <= self.retired
