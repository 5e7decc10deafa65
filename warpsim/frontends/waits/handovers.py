"""Buffers that some warps of a block hand over to others: which barriers in shared memory become mbarriers of the kernel.

Instructions that name the same barrier in some execution belong together, and so do their barriers: mostly they are an array, one
for each stage of a pipeline, which warps use in turn. So they are one mbarrier of docs/model.md, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.machine_code.flow import Place
from warpsim.kernels.handovers import passes, runs_to_its_end
from warpsim.kernels.instruction import MOST_PHASES, Mbarrier
from warpsim.kernels.program import MOST_MBARRIERS, Kernel

_PHASE = 0x80000000
"""The bit of a test's operand that names the phase after which it asks, the first one 0."""


@dataclass(frozen=True)
class Handover:
    """What an instruction does at an mbarrier."""

    role: Literal["arrives", "awaits", "reports"]
    name: str


class PhaseLog:
    """At which barriers warps arrive, report copies and wait, as an execution goes on.

    Attributes:
        barriers: an instruction -> addresses of the barriers that it has named.
        arrivals: instructions with which warps arrive: of those that expect copies, that or the last copy after it.
        copies: bulk copies that report to a barrier.
        tests: instructions that test a phase.
        is_known: whether all barriers that were named are known.
    """

    def __init__(self, warps: int) -> None:
        self.barriers: dict[Place, set[int]] = {}
        self.arrivals: set[Place] = set()
        self.copies: set[Place] = set()
        self.tests: set[Place] = set()
        self.is_known = True
        self._first: dict[int, set[int | None]] = {}  # barrier -> phases after which the first tests of warps ask
        self._tested: dict[int, NDArray[np.bool_]] = {}
        self._open: dict[tuple[int, int], Place] = {}  # barrier and warp that expects copies -> where, or its last copy since
        self._reported: set[tuple[int, int]] = set()  # barriers and warps with copies that nobody has announced
        self._replaced: set[Place] = set()  # arrivals after which the same warp has arrived again in the same phase
        self._tests = np.zeros(warps, np.int64)  # of each warp so far
        self._latest: dict[tuple[int, int], tuple[Place, int]] = {}  # barrier and warp -> its latest arrival, tests before it

    def copy(self) -> PhaseLog:
        """Returns a log that goes on by itself."""
        other = PhaseLog(len(self._tests))
        other.barriers = {place: set(named) for place, named in self.barriers.items()}
        other.arrivals, other.copies = set(self.arrivals), set(self.copies)
        other.tests, other.is_known = set(self.tests), self.is_known
        other._first = {barrier: set(phases) for barrier, phases in self._first.items()}
        other._tested = dict(self._tested)
        other._open, other._reported = dict(self._open), set(self._reported)
        other._replaced, other._tests = set(self._replaced), self._tests
        other._latest = dict(self._latest)
        return other

    def follow(self, place: Place, role: str, warps: NDArray[np.bool_], barrier: int, operand: int) -> None:
        """Notes what an instruction does at a barrier: it arrives, expects copies, copies in bulk, or tests the phase.

        Args:
            place: of the instruction.
            role: what it does.
            warps: those that do it.
            barrier: address of the barrier; negative if it is not known.
            operand: of a test, the phase after which it asks; negative if it is not known.
        """
        if barrier < 0:
            self.is_known = False
            return
        self.barriers.setdefault(place, set()).add(barrier)
        by = (barrier, int(np.argmax(warps)))
        again = role in ("arrive", "expect") and self._arrive_again(place, warps, barrier)
        if role == "test":
            self._tests = self._tests + warps
            self.tests.add(place)
            tested = self._tested.get(barrier, np.zeros_like(warps))
            if (warps & ~tested).any():
                self._first.setdefault(barrier, set()).add(None if operand < 0 else int(operand & _PHASE > 0))
            self._tested[barrier] = tested | warps
        elif role == "arrive":
            self.arrivals.add(place)
            if again:
                self._open.pop(by, None)
            self._reported.discard(by)
        elif role == "bulk":
            self.copies.add(place)
            if by in self._open:
                self._open[by] = place
            else:
                self._reported.add(by)
        elif by in self._reported:  # it announces copies that have been made
            self._reported.remove(by)
            self.arrivals.add(place)
        else:
            if by in self._open and not again:
                self.arrivals.add(self._open[by])
            self._open[by] = place

    def _arrive_again(self, place: Place, warps: NDArray[np.bool_], barrier: int) -> bool:
        """Some warps arrive, or expect copies. Returns whether one has done so elsewhere since its last test, in the same phase.

        So do warps of which one thread announces bytes and the others arrive. The latest arrival stands for all of them.
        """
        again = False
        for warp in np.flatnonzero(warps).tolist():
            before, then = self._latest.get((barrier, warp), (place, 0))
            if before != place and then == self._tests[warp]:
                self._replaced.add(before)
                again = True
            self._latest[barrier, warp] = place, int(self._tests[warp])
        return again

    def groups(self) -> Iterator[tuple[set[Place], set[int]]]:
        """Yields the instructions that name the same barriers, and these."""
        left = dict(self.barriers)
        while left:
            place, barriers = left.popitem()
            places, grown = {place}, True
            while grown:
                more = {other for other, named in left.items() if not named.isdisjoint(barriers)}
                barriers = barriers.union(*(left.pop(other) for other in more))
                places, grown = places | more, bool(more)
            yield places, barriers

    def ahead(self, barriers: set[int]) -> int | None:
        """Returns how many phases of some barriers together are complete at the start; None if warps do not agree on it.

        A warp that first asks for phase 1 of a barrier finds it complete; one that asks after its own arrival does not.
        """
        phases = set[int | None]().union(*(self._first.get(barrier, set()) for barrier in barriers))
        if phases == {1}:
            return len(barriers)
        return 0 if phases <= {0, None} and len(phases) == 1 else None

    def all_arrivals(self) -> set[Place]:
        """Returns the instructions with which warps arrive, those of phases included that are still open."""
        return (self.arrivals | set(self._open.values())) - self._replaced


Handovers = tuple[dict[Place, Handover], dict[Mbarrier, int]]
"""What instructions do at mbarriers, and of how many barriers in shared memory each of these consists."""


def handovers(log: PhaseLog, is_for_all: Mapping[Place, bool]) -> Handovers:
    """Returns what instructions do at mbarriers, and these, with one arrival each; nothing if the execution does not tell it.

    Barriers to whose tests all warps of a block come stay what they are otherwise. `is_for_all` says so of each test.
    """
    found: dict[Place, Handover] = {}
    mbarriers: dict[Mbarrier, int] = {}
    arrivals = log.all_arrivals()
    for places, barriers in sorted(log.groups(), key=lambda group: min(group[1])):
        tests = places & log.tests
        if not tests or all(is_for_all[test] for test in tests):
            continue
        ahead = log.ahead(barriers)
        if ahead is None or ahead > MOST_PHASES or not places & arrivals or not log.is_known or len(mbarriers) == MOST_MBARRIERS:
            return {}, {}
        name = f"mbarrier{len(mbarriers)}"
        mbarriers[Mbarrier(name=name, arrivals=1, ahead=ahead)] = len(barriers)
        found |= {place: Handover("awaits", name) for place in tests}
        found |= {place: Handover("arrives", name) for place in places & arrivals}
        found |= {place: Handover("reports", name) for place in (places & log.copies) - arrivals}
    return found, mbarriers


def with_arrivals(kernel: Kernel, barriers: Mapping[Mbarrier, int]) -> Kernel | None:
    """Returns a kernel whose mbarriers have as many arrivals as warps arrive; None if it would not do what the machine code does.

    That is where a block would not come to its end, or where warps do not arrive once in each phase for which others wait.

    Args:
        kernel: with one arrival each.
        barriers: of how many barriers in shared memory its mbarriers consist.
    """
    assert kernel.block_warps is not None
    if not kernel.mbarriers:
        return kernel
    passed = [each for warp in range(kernel.block_warps) if (each := passes(kernel.body, warp)) is not None]
    if len(passed) < kernel.block_warps:
        return None
    mbarriers = []
    for mbarrier in kernel.mbarriers:
        arrived = [times for each in passed if (times := each["arrives", mbarrier.name])]
        awaited = [times for each in passed if (times := each["awaits", mbarrier.name])]
        not_awaited = {times + mbarrier.ahead - waits for times in arrived for waits in awaited}
        if not arrived or any(not 0 <= phases <= barriers[mbarrier] for phases in not_awaited):  # at most one of each barrier
            return None
        mbarriers.append(mbarrier.model_copy(update={"arrivals": len(arrived)}))
    found = kernel.model_copy(update={"mbarriers": tuple(mbarriers)})
    return found if runs_to_its_end(found) else None
