"""Blocks of the reference machine: their start, their barriers and their retirement (section 4 of docs/model.md)."""

from __future__ import annotations

import math

from warpsim.arguments import DeadlockError
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Kernel
from warpsim.kernels.iteration import Iteration
from warpsim.reference.mbarriers import Arrival, Mbarrier
from warpsim.reference.sm import Launcher, Seat, Sm
from warpsim.reference.warp import Warp


class Blocks:
    """The blocks of a launch.

    Attributes:
        number: blocks of the grid; None: an endless supply.
        launcher: the supply.
        phases: where warps of the deal are in their programs; None: at the start.
        addresses: address of each place in the program.
        launched: all warps that have started, with their SMs.
    """

    def __init__(
        self,
        gpu: Gpu,
        kernel: Kernel,
        launch: Launch,
        seed: int,
        sms: list[Sm],
        phases: Iteration | None,
        addresses: dict[str, int],
    ) -> None:
        self.gpu, self.kernel, self.launch, self.seed, self.sms = gpu, kernel, launch, seed, sms
        self.phases, self.addresses = phases, addresses
        self.number = number_of_blocks(launch, len(sms))
        self.launcher = Launcher(self.number, gpu.launch_interval_cycles * gpu.sms / len(sms))
        self.launched: list[tuple[Sm, Warp]] = []

    def all_have_left(self, t: int) -> bool:
        """Returns whether the grid has ended."""
        waiting = any(seat.next_start is not None for sm in self.sms for seat in sm.seats)
        return self.launcher.is_empty and not waiting and not any(warp.resident(t) for _, warp in self.launched)

    # Starts

    def deal(self) -> None:
        """Deals the first blocks: one block per SM in turn, seat by seat."""
        for number in range(self.launch.resident_blocks):
            for sm in self.sms:
                seat = sm.seats[number]
                seat.due = 0 if self.number is None else self.gpu.grid_launch_cycles
                self.launcher.assign(seat, at_once=self.phases is not None)

    def assign_due(self, t: int) -> None:
        """Assigns blocks of the supply to the seats that are due in cycle t."""
        for seat in (seat for sm in self.sms for seat in sm.seats if seat.due == t):
            self.launcher.assign(seat)

    def start_due(self, sm: Sm, t: int) -> None:
        """Starts the blocks of an SM that start in cycle t."""
        for seat in sm.seats:
            if seat.next_start == t:
                self.start(sm, seat, t)

    def start(self, sm: Sm, seat: Seat, t: int) -> None:
        """Starts the block that has been assigned to a seat."""
        seat.next_start = None
        size = self.launch.block_warps
        draws_phase = t == 0 and self.phases is not None
        seat.block = [
            Warp(
                seat.next_block * size + i, i, seat.index * size + i, t, self.kernel, self.seed,
                launch=self.gpu.warp_launch_cycles, draws_phase=draws_phase,
            )
            for i in range(size)
        ]
        seat.mbarriers = {facts.name: Mbarrier(facts) for facts in self.kernel.mbarriers}
        if draws_phase:
            self.spread(seat.block, self.phases)
        if sm.constants is None:
            sm.constants = t + (0 if self.number is None else self.gpu.cold_constants_cycles)
        for warp in seat.block if not draws_phase else ():
            if warp.gap_end < sm.constants:
                warp.gap_end, warp.gap_state = sm.constants, "imc_miss"
        for warp in seat.block:
            warp.buffer.address = self.addresses[warp.next.place]
        self.launched += [(sm, warp) for warp in seat.block]

    def spread(self, block: list[Warp], phases: Iteration) -> None:
        """Puts the warps of a block that is dealt at cycle 0 into the middle of their programs."""
        for warp in block:
            phase = block[0].phase if phases.by_block else warp.phase
            position = phases.before_cycles + math.floor(phase * phases.cycles)
            follows = phases.barriers and warp is not block[0]
            warp.pass_alone(position, phases.alone, block[0].barriers if follows else None)

    # Barriers and retirement

    def seat_of(self, sm: Sm, warp: Warp) -> Seat:
        return sm.seats[warp.slot // self.launch.block_warps]

    def exit(self, sm: Sm, warp: Warp, t: int) -> None:
        """Retires the warp when its accesses have returned, and the block with its last warp."""
        warp.exited, warp.last_cycle = True, t
        self.retire(sm, warp)
        self.arrive(sm, warp, t)

    def retire(self, sm: Sm, warp: Warp) -> None:
        """Sets the last cycle of a warp that has exited, once its accesses have been served, and the start of the next block."""
        if any(access.unserved for access in warp.accesses):
            return
        warp.retired = max([warp.last_cycle, *(int(access.returns) for access in warp.accesses)])
        seat = self.seat_of(sm, warp)
        retirements = [other.retired for other in seat.block if other.retired is not None]
        if len(retirements) == len(seat.block):
            retirement = max(retirements)
            seat.due = max(retirement + self.gpu.block_launch_cycles, retirement + 1)

    def arrive(self, sm: Sm, warp: Warp, t: int) -> None:
        """Releases the live warps of a block when all have arrived at one barrier.

        Raises:
            DeadlockError: they wait at different barriers.
        """
        live = self.live(sm, warp)
        if not live or any(other.barrier is None for other in live):
            self.refuse_deadlock(sm, warp, t)
            return
        if len({other.barrier for other in live}) > 1 and not self.kernel.entries:
            where = ", ".join(f"warp {other.number} at {other.barrier}" for other in live)
            raise DeadlockError(
                f"deadlock at cycle {t}: the block's warps wait at different barriers, {where}"
            )
        for other in live:
            other.barrier = None
            other.barrier_passed = t
            other.barrier_end = t + self.gpu.ops["barrier"].latency_cycles

    def live(self, sm: Sm, warp: Warp) -> list[Warp]:
        """Returns the warps of a warp's block that have not issued `exit`."""
        return [other for other in self.seat_of(sm, warp).block if not other.exited]

    def arrive_at_mbarrier(self, sm: Sm, warp: Warp, name: str, arrival: Arrival) -> None:
        """A warp arrives at an mbarrier.

        Raises:
            DeadlockError: it is too many phases ahead of others.
        """
        mbarrier, number = self.seat_of(sm, warp).mbarriers[name], warp.arrived[name]
        warp.arrived[name] += 1
        phase = mbarrier.phase(number)
        if not mbarrier.has_room(number, arrival.issue) or not phase.lacks_arrivals:
            what = f"warp {warp.number} cannot arrive in phase {number} of {name}"
            raise DeadlockError(f"deadlock at cycle {arrival.issue}: {what}")
        phase.arrivals.append(arrival)

    def await_mbarrier(self, sm: Sm, warp: Warp, name: str, t: int) -> None:
        """A warp waits for the next phase of an mbarrier that it has not awaited.

        Raises:
            DeadlockError: all warps of its block are held, and none can arrive.
        """
        warp.phase_awaited = self.seat_of(sm, warp).mbarriers[name].awaited(warp.awaited[name])
        warp.awaited[name] += 1
        self.refuse_deadlock(sm, warp, t)

    def refuse_deadlock(self, sm: Sm, warp: Warp, t: int) -> None:
        """Raises a DeadlockError if all warps of a block are held, at least one at an mbarrier, so that none can arrive."""
        live = self.live(sm, warp)
        at_mbarrier = [other for other in live if other.phase_awaited is not None and other.phase_awaited.lacks_arrivals]
        if at_mbarrier and all(other.barrier is not None or other in at_mbarrier for other in live):
            where = ", ".join(f"warp {other.number} at {other.last_barrier}" for other in live)
            raise DeadlockError(f"deadlock at cycle {t}: the block's warps wait for each other, {where}")


def number_of_blocks(launch: Launch, sms: int) -> int | None:
    """Returns the blocks of the grid; None: an endless supply."""
    return sms * launch.resident_blocks if launch.persistent else launch.blocks
