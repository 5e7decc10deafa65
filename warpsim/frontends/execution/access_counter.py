"""Counts the accesses of an execution: how many warps make each of them, and to how many sectors and banks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from warpsim.frontends.accesses.patterns import rows_named
from warpsim.frontends.accesses.tally import Active, Tally, for_each
from warpsim.frontends.execution import windows
from warpsim.frontends.execution.evaluation import add_counts
from warpsim.frontends.execution.local_memory import interleaved
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.execution.trips import Mask, warps_of
from warpsim.frontends.machine_code.cubin import RESERVED_SHARED_BYTES
from warpsim.frontends.machine_code.flow import Place
from warpsim.frontends.machine_code.flow import place as place_in
from warpsim.frontends.machine_code.memory_instructions import bytes_per_thread, is_update, space_of
from warpsim.frontends.machine_code.operands import read
from warpsim.frontends.values import UNKNOWN, Values
from warpsim.units import WARP_LANES

if TYPE_CHECKING:
    from warpsim.frontends.execution.evaluator import Evaluator


class AccessCounter:
    """Counts the accesses of an execution.

    Attributes:
        run: the execution, which has a record of what was counted.
        reached: bytes of shared memory, up to the end of the accesses with known addresses.
    """

    def __init__(self, run: Evaluator) -> None:
        self.run = run
        self.reached = 0
        self._latest = Active(run.alive, run.weights)

    def active(self, mask: Mask) -> Active:
        """Returns what follows from the threads that make an access, as those of the access before mostly did."""
        if self._latest.mask is not mask:
            self._latest = Active(mask, self.run.weights)
        return self._latest

    def count(self, place: Place, step: Step, active: Mask) -> None:
        """Counts one execution of an instruction at a place by some threads."""
        run, space = self.run, space_of(step.one)
        tally = run.record.accesses.get(place)
        if tally is None:
            tally = run.record.accesses[place] = Tally()
        where = run.addresses_of(step)
        self._count_in(step, space, where, active, tally)
        add_counts(run.record.made, place, self.active(active).warps)
        if step.role != "bulk":
            self._count_distances(place, step, space, where, active)
        if not windows.is_generic(step.one) or not step.addresses:
            return
        generic = for_each(run.state.address(step.addresses[0]), active)
        for window in windows.UPPER_WORDS:
            where = windows.within(generic, window, run.state.special["SR_CgaCtaId"])
            whole = active & ~np.repeat(warps_of(active & (where < 0)), WARP_LANES)  # of warps with no thread elsewhere
            if whole.any():
                self._count_in(step, window, where, whole, run.record.windows.setdefault((*place, window), Tally()))

    def _count_in(self, step: Step, space: str | None, where: Values, active: Mask, tally: Tally) -> None:
        """Counts accesses to some addresses of a memory, and how much of shared memory they reach."""
        self._tally(step, space, where, active, tally)
        if space == "shared":
            named = rows_named(step.one) if step.one.base in ("LDSM", "STSM") else WARP_LANES
            naming = active if named == WARP_LANES else active & (np.arange(active.shape[-1]) % WARP_LANES < named)
            last = int(np.where(naming, where, UNKNOWN).max())
            self.reached = max(self.reached, last + bytes_per_thread(step.one) - _shared_base(self.run.function.arch))

    def _tally(self, step: Step, space: str | None, where: Values, active: Mask, tally: Tally) -> None:
        if space == "local":
            where = interleaved(for_each(where, active), bytes_per_thread(step.one))
        tally.record(where, self.active(active), atomic=is_update(step.one))

    def _count_distances(self, place: Place, step: Step, space: str | None, known: Values, active: Mask) -> None:
        """Counts the addresses of warps of which it is not known where they begin, but the distances of the threads' ones."""
        bases = self.run.bases
        if bases is None or not step.addresses or bases.values.keys().isdisjoint(read(step.one)):
            return
        unknown = warps_of(active & (known < 0))
        with bases.instead(self.run.state):
            where = self.run.addresses_of(step)
        here = active & np.repeat(unknown & ~warps_of(active & (where < 0)), WARP_LANES)
        if here.any():
            self._tally(step, space, where, here, self.run.record.distances.setdefault(place, Tally()))

    def note_what_is_odd(self, spaces: Mapping[Place, str]) -> None:
        """Notes accesses beyond the block's shared memory, and those of instructions that now and then are of another memory.

        `spaces` has the memories of the instructions with generic addresses that always access the same one.
        """
        run = self.run
        if self.reached > run.shared_bytes:
            what = f"accesses reach byte {self.reached} of shared memory, and a block has {run.shared_bytes}"
            how = "give the bytes of dynamic shared memory as the third part of launch, or blocks as the kernel expects them"
            run.notes[f"{what}: {how}"] = None
        for (number, index, space), tally in run.record.windows.items():
            if (number, index) not in spaces:
                where, opcode = place_in(run.function, index), run.function.code[index].opcode
                share = f"{tally.warps / run.record.accesses[number, index].warps:.2%}"
                what = f"{opcode} accesses {space} memory of its own in {share} of its executions, and other memory in the others"
                run.notes[f"{where}: {what}: taken as accesses of global memory"] = None


def _shared_base(arch: int) -> int:
    """Returns the address of a block's first byte of shared memory."""
    return RESERVED_SHARED_BYTES if arch >= 90 else 0
