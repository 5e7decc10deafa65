"""Mbarriers of the reference machine: the phases at which warps of a block arrive, and for which others wait (4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from warpsim.kernels.instruction import MOST_PHASES
from warpsim.kernels.instruction import Mbarrier as MbarrierFacts
from warpsim.reference.memory import Flight


@dataclass(frozen=True)
class Arrival:
    """A warp that has arrived.

    Attributes:
        issue: cycle of the issue.
        ready: cycle of the arrival for all but the copies.
        copies: asynchronous copies of the warp that had issued by then and report to the mbarrier.
    """

    issue: int
    ready: int
    copies: tuple[Flight, ...]

    @property
    def at(self) -> float:
        """The cycle of the arrival; infinite while it is not known."""
        return max([float(self.ready), *(copy.returns for copy in self.copies)])

    @property
    def known(self) -> int:
        """The cycle in which that becomes known, once it is."""
        return max([self.issue, *(copy.served for copy in self.copies)])


@dataclass
class Phase:
    """One phase of an mbarrier."""

    needed: int
    arrivals: list[Arrival] = field(default_factory=list)

    @property
    def lacks_arrivals(self) -> bool:
        return len(self.arrivals) < self.needed

    @property
    def complete(self) -> float:
        """C, infinite while it is not known."""
        return math.inf if self.lacks_arrivals else max(arrival.at for arrival in self.arrivals)

    @property
    def known(self) -> float:
        """The cycle in which C becomes known; infinite until then."""
        return math.inf if math.isinf(self.complete) else max(arrival.known for arrival in self.arrivals)


class Mbarrier:
    """A barrier in the shared memory of a block."""

    def __init__(self, facts: MbarrierFacts) -> None:
        self.facts = facts
        self.phases: list[Phase] = []
        self.complete_from_begin = Phase(0, [Arrival(-1, -1, ())])

    def phase(self, number: int) -> Phase:
        """Returns a phase; those below 0 have been complete before."""
        while len(self.phases) <= number:
            self.phases.append(Phase(self.facts.arrivals))
        return self.phases[number] if number >= 0 else self.complete_from_begin

    def awaited(self, number: int) -> Phase:
        """Returns the phase for which a warp waits that has awaited the mbarrier so often before."""
        return self.phase(number - self.facts.ahead)

    def has_room(self, number: int, t: int) -> bool:
        """Returns whether a warp can arrive in a phase at cycle t, since the one that many before is complete."""
        return self.phase(number - MOST_PHASES).complete <= t
