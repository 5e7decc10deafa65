"""When a warp makes the accesses of its program: what it spends on the instructions between them, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.execution.steps import Step
from warpsim.frontends.machine_code.flow import Flow
from warpsim.frontends.waits.dependences import Waits
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import load_distribution

MOST_AHEAD = 256
"""Accesses of a warp between one and the wait for it, at most; what it waits for later counts as awaited there."""

_DRAWN = 64
"""Latencies of the memory from which those of accesses are drawn."""


@dataclass(frozen=True)
class Times:
    """What takes how many cycles on a chip, for the order of accesses in time.

    Attributes:
        l1, l2: until data of an access that hits is there.
        memory: of one that does not; each of them is equally likely.
        schedulers: of an SM.
        block_launch: from the end of a block to the start of the next one.
        warp_launch: between the warps of a block that start.
        launch_interval: between the blocks of the chip that start with the launch.
        barrier: from the arrival of the last warp at a barrier on.
    """

    l1: int = 0
    l2: int = 0
    memory: tuple[int, ...] = (0,)
    schedulers: int = 1
    block_launch: int = 0
    warp_launch: int = 0
    launch_interval: float = 0.0
    barrier: int = 0


NO_TIMES = Times()
"""Of warps that make accesses in turn: all data is there at once."""


def times_of(chip: Gpu) -> Times:
    """Returns the times of a chip."""
    distribution = load_distribution(chip.memory.distribution).scaled(chip.memory.queue_latency_cycles)
    latencies = distribution.quantile((np.arange(_DRAWN) + 0.5) / _DRAWN)
    return Times(
        l1=chip.memory.l1_latency_cycles or 0,
        l2=round(chip.memory.mean_l2_latency_cycles or 0),
        memory=tuple(round(float(cycles)) for cycles in latencies),
        schedulers=chip.sm.schedulers,
        block_launch=chip.block_launch_cycles,
        warp_launch=chip.warp_launch_cycles,
        launch_interval=chip.launch_interval_cycles,
        barrier=chip.ops["barrier"].latency_cycles,
    )


@dataclass(frozen=True)
class Timing:
    """When a warp makes the accesses of its program, and when it ends.

    Attributes:
        spent: int64[calls + 1]: cycles of the instructions from the access before, or from the start.
        arrives: int64[calls]: how many accesses the warp has made when it waits for the data of this one; 0: it does not.
        lead: int64[calls]: cycles of the instructions from that wait to the access behind it.
        barriers: int64[calls + 1]: barriers that the warp has passed before.
    """

    spent: NDArray[np.int64]
    arrives: NDArray[np.int64]
    lead: NDArray[np.int64]
    barriers: NDArray[np.int64]

    @staticmethod
    def in_turn(calls: int) -> Timing:
        """Returns that of warps that make so many accesses in turn, and wait for nothing."""
        nothing = np.zeros(calls + 1, np.int64)
        return Timing(np.ones(calls + 1, np.int64), nothing[1:], nothing[1:], nothing)


class Clock:
    """When a warp makes its accesses, as an execution goes on: what it spends, waits for, and passes in between.

    Args:
        flow: the kernel.
        waits: for which instructions each one waits.
        tick: cycles that an instruction takes at least, as all warps of a scheduler issue one by one.
    """

    def __init__(self, flow: Flow, waits: Waits, tick: int) -> None:
        self.flow, self.waits, self.tick = flow, waits, tick
        self.block, self.next, self.cycles, self.barriers = 0, 0, 0, 0
        self.calls: list[tuple[int, int]] = []  # of each access: cycles before it, and barriers
        self.awaited: dict[int, tuple[int, int]] = {}  # access -> accesses before the wait for it, and cycles
        self.under_way: dict[int, list[int]] = {}  # instruction -> its accesses that no wait has been for
        self.copied: list[list[int]] = []  # asynchronous copies that no wait has been for: their accesses

    def enter(self, block: int) -> None:
        """The execution comes to a block of the flow."""
        self.block, self.next = block, self.flow.blocks[block].code.start

    def go_on(self, end: int) -> None:
        """The instructions of the block up to one, exclusive, are executed."""
        for index in range(self.next, end):
            one = self.flow.function.code[index]
            for writer in self.waits.get((self.block, index), ()):
                self._wait_for(self.under_way.pop(writer, []))
            self.cycles += max(self.tick, 1 if one.control is None else one.control.stall)
            self.barriers += one.base == "BAR"
        self.next = max(self.next, end)

    def wait_for_copies(self, left: int) -> None:
        """Waits for all asynchronous copies but the latest ones."""
        arrived = max(0, len(self.copied) - left)
        self._wait_for([call for calls in self.copied[:arrived] for call in calls])
        del self.copied[:arrived]

    def make(self, step: Step, accesses: int) -> None:
        """An instruction makes one or several accesses."""
        made = [*range(len(self.calls), len(self.calls) + accesses)]
        self.calls += [(self.cycles, self.barriers)] * accesses
        if step.role in ("copy", "bulk"):
            self.copied.append(made)
        else:
            self.under_way.setdefault(step.index, []).extend(made)

    def _wait_for(self, calls: list[int]) -> None:
        self.awaited.update(dict.fromkeys(calls, (len(self.calls), self.cycles)))

    def timing(self, kept: NDArray[np.int64]) -> Timing:
        """Returns the timing of those accesses that are kept, by number. What is left out between them takes no time."""
        last = int(kept[-1]) + 1 if len(kept) else 0
        made = [*self.calls, (self.cycles, self.barriers)]
        cycles, barriers = np.array([*(made[call] for call in kept), made[last]], np.int64).T
        spent = cycles - np.array([made[call - 1][0] if call else 0 for call in (*kept, last)], np.int64)
        arrives, lead = np.zeros(len(kept), np.int64), np.zeros(len(kept), np.int64)
        places = {int(call): place for place, call in enumerate(kept)}
        for call, (position, at) in self.awaited.items():
            if (place := places.get(call)) is not None:
                arrives[place] = min(int(np.searchsorted(kept, position)) + (position > last), place + MOST_AHEAD)
                lead[place] = min(cycles[arrives[place]] - at, spent[arrives[place]]) if arrives[place] <= len(kept) else 0
        return Timing(spent, arrives, np.maximum(lead, 0), barriers)
