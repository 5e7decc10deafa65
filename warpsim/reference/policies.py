"""Scheduling policies of the reference machine. docs/model.md, section 3.

A policy is a class. Each scheduler has an object of it, which keeps the policy's state: `pick` prefers one of the issuable warps,
and changes nothing; `issued` tells what the scheduler has issued. To try a policy of your own, add its class to POLICIES.
"""

from __future__ import annotations

import math

from warpsim import units
from warpsim.reference.memory import Stream
from warpsim.reference.warp import Warp


class Policy:
    """The policy of one scheduler."""

    def __init__(self, schedulers: int, stream: Stream) -> None:
        self.schedulers = schedulers  # of the SM: the slots of this one are so far apart
        self.stream = stream  # the scheduler's own random stream (6)
        self.last: Warp | None = None  # the warp of the last issue

    def pick(self, warps: list[Warp]) -> Warp:
        """Returns one of the issuable warps, which are given in the order of their slots; there is at least one."""
        raise NotImplementedError

    def issued(self, warp: Warp, warps: list[Warp], t: int) -> None:
        """The scheduler has issued an instruction of a warp, or a pair, in cycle t; its resident warps are given."""
        self.last = warp


class LooseRoundRobin(Policy):
    """Prefers the issuable warp in the next slot after that of the last issue."""

    def pick(self, warps: list[Warp]) -> Warp:
        pointer = -1 if self.last is None else self.last.slot
        behind = [warp for warp in warps if warp.slot > pointer]
        return (behind or warps)[0]


class Oldest(Policy):
    """Prefers the issuable warp that was launched first."""

    def pick(self, warps: list[Warp]) -> Warp:
        return min(warps, key=lambda warp: warp.number)


class GreedyThenOldest(Oldest):
    """Prefers the warp of the last issue, and then the oldest."""

    def pick(self, warps: list[Warp]) -> Warp:
        return self.last if self.last in warps else super().pick(warps)


class GreedyThenYoungest(Policy):
    """Prefers the warp of the last issue, and then the youngest."""

    def pick(self, warps: list[Warp]) -> Warp:
        return self.last if self.last in warps else max(warps, key=lambda warp: warp.number)


class GreedyThenRoundRobin(Policy):
    """Prefers the warp in the slot of the last issue, and then that in the next slot that has an issuable one."""

    def pick(self, warps: list[Warp]) -> Warp:
        pointer = 0 if self.last is None else self.last.slot
        from_there = [warp for warp in warps if warp.slot >= pointer]
        return (from_there or warps)[0]


class Random(Policy):
    """Prefers any issuable warp, with equal probability. Each pick makes one draw."""

    def pick(self, warps: list[Warp]) -> Warp:
        return warps[math.floor(self.stream.uniform() * len(warps))]


class TwoLevel(Policy):
    """Round robin within fetch groups and among them: one is in front until all its warps are stalled at loads.

    Source: Narasiman et al. 2011.
    """

    def __init__(self, schedulers: int, stream: Stream, size: int = 8) -> None:
        super().__init__(schedulers, stream)
        self.size = size
        self.front = 0
        self.latest: dict[int, int] = {}  # group -> slot of its last issue

    def group(self, warp: Warp) -> int:
        return warp.slot // self.schedulers // self.size

    def pick(self, warps: list[Warp]) -> Warp:
        def order(warp: Warp) -> tuple[bool, int, bool, int]:
            group = self.group(warp)
            return group < self.front, group, warp.slot <= self.latest.get(group, -1), warp.slot

        return min(warps, key=order)

    def issued(self, warp: Warp, warps: list[Warp], t: int) -> None:
        active = {self.group(other) for other in warps if other is not warp and other.active(t)}
        while self.front not in active | {self.group(warp)}:
            self.front = (self.front + 1) % (units.MAX_WARPS // self.size)
        self.latest[self.group(warp)] = warp.slot


# The names must be those of `simulation.policies.POLICIES`; a test asserts it.
POLICIES: dict[str, type[Policy]] = {
    "lrr": LooseRoundRobin,
    "gto": GreedyThenOldest,
    "oldest": Oldest,
    "random": Random,
    "gty": GreedyThenYoungest,
    "grr": GreedyThenRoundRobin,
    "two_level": TwoLevel,
}


def make_policy(name: str, schedulers: int, stream: Stream) -> Policy:
    """Returns the policy of a scheduler by its name, such as "gto" or "two_level:4"."""
    name, _, size = name.partition(":")
    return TwoLevel(schedulers, stream, int(size)) if size else POLICIES[name](schedulers, stream)
