"""Echoes of a slice: warps that stand for those of the SMs that are not simulated.

An echo makes accesses to memory and waits for them. What it executes between them is a sample from the slice. Numbers in
parentheses are sections of docs/model.md.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpsim.kernels.access import Transactions
from warpsim.kernels.outstanding import MOST_OUTSTANDING, outstanding
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Loop
from warpsim.kernels.steps import flatten
from warpsim.kernels.traversal import walk

if TYPE_CHECKING:
    from warpsim.reference.memory import Flight, Stream

EPOCH = 256  # cycles
MOST_TRANSITIONS, LEAST_TRANSITIONS, TRANSITIONS = 1 << 15, 1 << 8, 1 << 24  # room for an instruction; for all of them


@dataclass(frozen=True)
class Made:
    """What an access asks for.

    Attributes:
        place: place of its instruction in the kernel.
        level: level that serves it, `l2` or `memory`.
        facts: its requests.
        is_write: whether it is a store.
        late: cycles for which its data is still on its way to the level that serves it.
    """

    place: str
    level: str
    facts: Transactions
    is_write: bool
    late: int = 0


@dataclass(frozen=True)
class Transition:
    """How one access of a warp slot of the slice followed another.

    Attributes:
        cycle: cycle in which the second one issued.
        made: the second one.
        begins: whether it is the first one of its warp.
        gap: cycles from what it waited for.
    """

    cycle: int
    made: Made
    begins: bool
    gap: int


@dataclass(frozen=True)
class Waits:
    """For which earlier accesses a warp waits: for all, unless something else is said here.

    Attributes:
        left: place of an access -> place of a load -> how many of its latest executions may be under way.
        limits: place of an access -> dependence counter -> how many of those that it counts may be under way.
        counted: place of a load -> the counter that counts it.
        unread: loads for which a warp waits at its end only.
        drains: whether it waits for its stores at its end.
    """

    left: dict[str, dict[str, int]] = field(default_factory=dict)
    limits: dict[str, dict[int, int]] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    drains: bool = False

    @staticmethod
    def of(kernel: Kernel, drains: bool) -> Waits:
        """Returns for which earlier accesses a warp of a kernel waits."""
        issued = [number for number, step in enumerate(flatten(kernel).steps) if step.kind in ("issue", "branch")]
        places = [place for place, statement in walk(kernel.body) if not isinstance(statement, Loop)]
        place = dict(zip(issued, [*places, "end"], strict=True))
        found = outstanding(kernel)
        return Waits(
            {place[access]: {place[load]: times for load, times in loads.items()} for access, loads in found.loads.items()},
            {place[access]: counters for access, counters in found.counters.items()},
            {place[load]: counter for load, counter in found.counted.items()},
            frozenset(place[load] for load in found.unread),
            drains,
        )

    def anchor(self, sequence: Sequence, place: str, begins: bool) -> float:
        """Returns in which cycle all is back for which an access of an instruction waits, or the one before it issued."""
        flights = list(reversed(sequence.flights))
        issue = flights[0].issue
        later = [n for n, flight in enumerate(flights) if flight.returns > issue]
        return max([issue, *(flights[n].returns for n in later if not self.is_left(n, flights, place, begins))])

    def is_left(self, n: int, flights: list[Flight], place: str, begins: bool) -> bool:
        """Returns whether an access of an instruction does not wait for the n-th of the latest ones; 0 is the latest one."""
        flight = flights[n]
        if flight.is_write:
            return not (begins and self.drains)
        if begins or flight.place in self.unread:
            return not begins
        counter = self.counted.get(flight.place)
        if counter is None:
            return sum(other.place == flight.place for other in flights[:n]) < self.left.get(place, {}).get(flight.place, 0)
        alike = [other for other in flights if self.counted.get(other.place) == counter]  # of equals, the latest is left
        last = sorted(alike, key=lambda other: -other.returns)[: self.limits.get(place, {}).get(counter, 0)]
        return any(other is flight for other in last)


class Sequence:
    """The latest accesses of a warp slot or of an echo."""

    def __init__(self) -> None:
        self.flights: deque[Flight] = deque(maxlen=MOST_OUTSTANDING)
        self.place = ""

    def add(self, flight: Flight, place: str) -> None:
        self.flights.append(flight)
        self.place = place


class Track(Sequence):
    """The latest accesses of a warp slot of the slice."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Made  # the first access


class Echo(Sequence):
    """A warp that is not simulated.

    Attributes:
        stream: its random stream.
        lag: cycles by which its first access is later than the earliest one that an echo of its slot can make.
        following: how its next access follows; None if it has found no transition yet.
        earliest: cycle before which its next access cannot issue.
    """

    def __init__(self, stream: Stream, iteration: int) -> None:
        super().__init__()
        self.stream = stream
        self.lag = math.floor(self.stream.uniform() * iteration)
        self.following: Transition | None = None
        self.earliest = 0

    def due(self, waits: Waits) -> float:
        """Returns the cycle of its next access; infinite if not known."""
        if self.following is None:
            return math.inf
        if not self.flights:
            return max(self.earliest, self.following.gap)
        anchor = waits.anchor(self, self.following.made.place, self.following.begins)
        return max(self.earliest, anchor + self.following.gap)


class Pools:
    """The transitions of the slice, by the place of the first access."""

    def __init__(self, places: int) -> None:
        room = 1 << max(TRANSITIONS // max(places, 1), 1).bit_length() - 1
        room = min(max(room, LEAST_TRANSITIONS), MOST_TRANSITIONS)
        self.latest, self.of_epoch = room // 2, room * 5 // 32
        self.transitions: defaultdict[str, list[Transition]] = defaultdict(list)

    def record(self, place: str, transition: Transition) -> None:
        pool = self.transitions[place]
        begin = transition.cycle // EPOCH * EPOCH
        if len(pool) - bisect.bisect_left(pool, begin, key=lambda known: known.cycle) < self.of_epoch:
            pool.append(transition)

    def choose(self, place: str, t: int, stream: Stream) -> Transition | None:
        """Returns one of the latest transitions, of those that are known in cycle `t`; None if there is none."""
        pool = self.transitions[place]
        known = bisect.bisect_left(pool, (t // EPOCH - 1) * EPOCH, key=lambda transition: transition.cycle)
        if known == 0:
            return None
        back = math.floor(stream.uniform() * min((known + 1) // 2, self.latest))
        return pool[known - 1 - back]


class Echoes:
    """The echoes of a slice.

    Args:
        slots: its warp slots (SM, slot), in order.
        streams: the random streams of the echoes.
        iteration: cycles over which their first accesses are spread.
        waits: for which earlier accesses a warp waits.
    """

    def __init__(self, slots: list[tuple[int, int]], streams: list[Stream], iteration: int, waits: Waits) -> None:
        self.tracks = {slot: Track() for slot in slots}
        self.echoes = [Echo(stream, iteration) for stream in streams]
        self.phases = iteration > 0
        self.pools = Pools(len(waits.left))
        self.waits = waits

    def of(self, slot: tuple[int, int]) -> list[Echo]:
        """Returns the echoes of a warp slot."""
        return self.echoes[list(self.tracks).index(slot) :: len(self.tracks)]

    def note(self, slot: tuple[int, int], made: Made, flight: Flight, start: int) -> None:
        """Notes an access of the slice that leaves its SM, of a warp that started in cycle `start`."""
        track, t = self.tracks[slot], flight.issue
        if track.flights:
            if self.phases and len(track.flights) == 1:
                self.begin(slot, track.first, t + 2 * EPOCH)
            begins = start > track.flights[-1].issue
            gap = max(t - self.waits.anchor(track, made.place, begins), 0)
            self.pools.record(track.place, Transition(t, made, begins, gap))
        else:
            track.first = made
            if not self.phases:
                self.begin(slot, made, t)
        track.add(flight, made.place)

    def begin(self, slot: tuple[int, int], made: Made, t: int) -> None:
        """Has the echoes of a warp slot begin with an access, in cycle `t` or each so much later as its lag."""
        for echo in self.of(slot):
            echo.following, echo.earliest = Transition(t, made, True, 0), t + echo.lag

    def find_transitions(self, t: int) -> None:
        """Has the echoes ask again that have found no transition, at the start of an epoch."""
        if t % EPOCH == 0:
            for echo in self.echoes:
                if echo.flights and echo.following is None:
                    self.choose(echo, t)

    def choose(self, echo: Echo, t: int) -> None:
        echo.following, echo.earliest = self.pools.choose(echo.place, t, echo.stream), t

    def due(self, t: int) -> Iterator[tuple[Echo, Made]]:
        """Yields the echoes that make an access in cycle `t`, and the access."""
        self.find_transitions(t)
        for echo in self.echoes:
            while echo.due(self.waits) == t:
                assert echo.following is not None
                yield echo, echo.following.made
