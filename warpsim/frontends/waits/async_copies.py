"""Asynchronous copies into shared memory, and what waits for them: groups of copies, and barriers in shared memory (mbarrier).

`cp.async` copies some bytes for each thread (LDGSTS). `cp.async.bulk` and `cp.async.bulk.tensor` of Hopper and later copy a whole
array, or a box of a tensor, for one thread (UBLKCP, UTMALDG). A warp waits for all but the latest groups of its copies (DEPBAR),
or until a barrier to which the copies report has come to its next phase; they make CUDA C++'s `cuda::barrier` and
`cuda::pipeline`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.machine_code.flow import Place
from warpsim.frontends.machine_code.memory_instructions import space_of
from warpsim.frontends.machine_code.operands import Address, Immediate, Register, conditions, operands
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import UNKNOWN, Values
from warpsim.frontends.waits.handovers import PhaseLog
from warpsim.kernels.instruction import MOST_COUNTED
from warpsim.units import WARP_LANES

BULK_UNIT_BYTES = 16
"""Unit of the length of a bulk copy."""

PHASE_WORD_OFFSET = 4
"""Offset of the word of a barrier whose sign is its phase."""

_SIGN = 0x80000000
_DIFFERS_UNDER_MASK = 0x48
"""Table of LOP3 for (a ^ c) & b."""


@dataclass(frozen=True)
class Bulk:
    """A copy that one thread makes for all.

    Attributes:
        address: in global memory; None: a tensor map holds it.
        length: register with the bytes, in units of BULK_UNIT_BYTES; None: a tensor map says it.
        barrier: register with the address of the barrier to which a copy into shared memory reports; None: there is none.
    """

    address: Address | None
    length: Register | None
    barrier: str | None


def bulk_of(one: MachineInstruction) -> Bulk | None:
    """Returns the bulk copy from or to global memory that an instruction makes; None for other instructions."""
    return _bulk(one.opcode, one.operands) if one.base.startswith(("UBLK", "UTMA")) and space_of(one) else None


@lru_cache(maxsize=4096)
def _bulk(opcode: str, text: str) -> Bulk | None:
    base, _, rest = opcode.partition(".")
    parts = operands(text)
    places = [part for part in parts if isinstance(part, Address) and part.terms]
    if base not in ("UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG") or len(places) < 2:
        return None
    loads = base == "UTMALDG" or rest.startswith("S")
    to_barrier = _next_register(places[0].terms[0][0].name) if loads else None
    if base.startswith("UTMA"):
        return Bulk(None, None, to_barrier)
    length = next((part for part in parts if isinstance(part, Register)), None)
    where = places[1] if loads else places[0]
    pair = tuple((Register(term.name, suffix=".64"), factor) for term, factor in where.terms)
    return Bulk(Address(pair, where.offset), length, to_barrier)


def corner_of(one: MachineInstruction) -> tuple[Register, ...]:
    """Returns the registers with the coordinates at which a load by a tensor map begins, the innermost one first.

    They follow those with the places of the copy and its barrier in shared memory. Other instructions have none.
    """
    dimensions = re.search(r"\.([1-5])D\b", one.opcode)
    bulk = bulk_of(one)
    if dimensions is None or one.base != "UTMALDG" or bulk is None or bulk.barrier is None:
        return ()
    names = [bulk.barrier]
    for _ in range(int(dimensions[1])):
        names.append(_next_register(names[-1]))
    return tuple(map(Register, names[1:]))


def bulk_units(one: MachineInstruction, length: int) -> int:
    """Returns the length of a bulk copy, or UNKNOWN. The upper half of the register names the blocks of a cluster that get it."""
    return length & 0xFFFF if length >= 0 and ".MULTICAST" in one.opcode else length


def _next_register(name: str) -> str:
    found = re.match(r"(\D+)(\d+)$", name)
    return f"{found[1]}{int(found[2]) + 1}" if found else name


def is_past_l1(one: MachineInstruction) -> bool:
    """Returns whether a copy of threads passes by L1, as those of 16 bytes do (CUDA Programming Guide, "Using LDGSTS")."""
    return one.base == "LDGSTS" and ".BYPASS" in one.opcode


def is_phase_test(one: MachineInstruction) -> bool:
    """Returns whether an instruction asks if a barrier in shared memory has come to its next phase.

    Before Hopper, the phase is the sign of the barrier's second word, which is compared with the one that the warp knows.
    """
    if one.base == "SYNCS":
        return ".PHASECHK" in one.opcode
    return one.opcode == "LOP3.LUT" and _compares_signs(one.operands)


def is_peek(rest: Sequence[MachineInstruction]) -> bool:
    """Returns whether a phase test asks ahead of the wait for the phase, which comes later unless the test succeeds.

    Args:
        rest: the test, and the instructions after it in its block. Where a warp waits, a jump among them depends on the test.
    """
    test = rest[0]
    if test.base != "SYNCS" or not is_phase_test(test):
        return False
    flag = operands(test.operands)[0]
    jumps = [one for one in rest[1:] if one.base in ("BRA", "JMP", "BRX", "EXIT")]
    return isinstance(flag, Register) and all(flag.name not in {part.name for part in conditions(one)} for one in jumps)


@lru_cache(maxsize=65536)
def _compares_signs(text: str) -> bool:
    parts = operands(text)
    if len(parts) < 6 or not (isinstance(parts[0], Register) and parts[0].name.startswith("P")):
        return False
    given = [part.value if isinstance(part, Immediate) else None for part in (parts[3], parts[5])]
    return given == [_SIGN, _DIFFERS_UNDER_MASK]


def phase_word(one: MachineInstruction) -> str | None:
    """Returns the register that holds the word of the barrier which a phase test before Hopper compares."""
    parts = operands(one.operands)
    return parts[2].name if one.base == "LOP3" and isinstance(parts[2], Register) else None


Role = Literal["copy", "bulk", "commit", "report", "expect", "arrive", "wait", "test"]
"""What an instruction does with copies: it makes one, or a bulk copy; it ends a group; it has the copies so far report to a
barrier; it tells a barrier how many bytes to expect; it arrives there without any; it waits for groups; it tests the phase of a
barrier."""


def role_of(one: MachineInstruction) -> Role | None:
    """Returns what an instruction does with asynchronous copies; None: nothing."""
    if one.base == "LDGSTS":
        return "copy"
    if one.base == "LDGDEPBAR":
        return "commit"
    if one.base == "ARRIVES":
        return "report"
    if one.base == "DEPBAR":
        return "wait"
    if is_phase_test(one):
        return "test"
    if one.base == "SYNCS" and ".ARRIVE" in one.opcode:
        return "arrive" if one.opcode.endswith("T0") else "expect"
    bulk = bulk_of(one)
    return "bulk" if bulk is not None else None


def barrier_address(one: MachineInstruction) -> Address | None:
    """Returns the address of the barrier that an instruction names; None: it names none."""
    bulk = bulk_of(one)
    if bulk is not None:
        return None if bulk.barrier is None else Address(((Register(bulk.barrier), 1),), 0)
    return next((part for part in operands(one.operands) if isinstance(part, Address)), None)


class CopyLog:
    """Which copies the warps have under way at each wait, and how long bulk copies are, as an execution goes on.

    Attributes:
        left: a wait, or a test of a barrier -> how many later copies of its own a warp had made by then than those for which it
            waits -> how often. At a barrier to which no copies report, these are those of the barrier to which its copies
            reported least recently: as where consumers tell the producer of the copies that a buffer is free.
    """

    def __init__(self, warps: int) -> None:
        self.left: dict[Place, Counter[int]] = {}
        self._made = np.zeros(warps, np.int64)
        self._groups: dict[int | None, list[Values]] = {}
        self._reported: dict[int, Values] = {}
        self._lengths: dict[Place, Counter[int]] = {}
        self._reporting: set[Place] = set()  # bulk copies into shared memory, of which barriers expect the bytes
        self._expected = 0
        self.phases = PhaseLog(warps)

    def copy(self) -> CopyLog:
        """Returns a log that goes on by itself."""
        other = CopyLog(len(self._made))
        other.left = {place: counts.copy() for place, counts in self.left.items()}
        other._made, other._reported, other._expected = self._made, dict(self._reported), self._expected
        other._groups = {counter: list(groups) for counter, groups in self._groups.items()}
        other._lengths = {place: counts.copy() for place, counts in self._lengths.items()}
        other._reporting, other.phases = set(self._reporting), self.phases.copy()
        return other

    def follow(
        self, place: Place, one: MachineInstruction, role: Role, warps: NDArray[np.bool_], barrier: int, length: int
    ) -> None:
        """Notes what an instruction does.

        Args:
            place: of the instruction.
            one: the instruction.
            role: what it does.
            warps: those that do it, for one thread each.
            barrier: address of the barrier that it names, or UNKNOWN.
            length: of a bulk copy, in units of BULK_UNIT_BYTES; bytes that the barrier is to expect; or the phase that a test
                asks for; or UNKNOWN.
        """
        if role == "expect":
            self._expected += max(0, length) * int(warps.sum())
        elif role == "bulk":
            bytes_moved = bulk_units(one, length) * BULK_UNIT_BYTES if length >= 0 else UNKNOWN
            self._lengths.setdefault(place, Counter())[bytes_moved] += int(warps.sum())
        reports = role == "bulk" and barrier_address(one) is not None
        if one.base == "SYNCS" or reports:
            self.phases.follow(place, role, warps, barrier, length)
        if reports:
            self._reporting.add(place)
        if role == "copy" or reports:
            self._made = self._made + warps
        if role in ("bulk", "report") and barrier >= 0:
            self._reported[barrier] = self._made
        if role == "commit":
            groups = self._groups.setdefault(None if one.control is None else one.control.write, [])
            groups.append(self._made)
            del groups[: -MOST_COUNTED - 1]
        elif role == "wait":
            counter, left = counter_and_left(one)
            groups = self._groups.get(counter, [])
            if len(groups) > left:
                self._note(place, groups[-1 - left], warps)
        elif role == "test" and barrier in self._reported:
            self._note(place, self._reported[barrier], warps)
        elif role == "test" and barrier >= 0 and self._reported:  # others say that a buffer is free: the one filled first
            reported = np.stack(list(self._reported.values()))
            self._note(place, np.where(reported > 0, reported, self._made).min(axis=0), warps)

    def _note(self, place: Place, awaited: Values, warps: NDArray[np.bool_]) -> None:
        here = warps & (awaited > 0)
        if here.any():
            self.left.setdefault(place, Counter()).update((self._made - awaited)[here].tolist())

    def left_at(self, place: Place) -> int | None:
        """Returns how many later copies a warp has mostly made at a wait; None: it waits for no copies."""
        return self.left[place].most_common(1)[0][0] if place in self.left else None

    def bytes_of(self, place: Place) -> int | None:
        """Returns the mean length of a bulk copy in bytes; None: it is not known.

        The copies into shared memory whose length a tensor map says have together the bytes that barriers are told to expect
        beyond the other ones; those out of it are taken to be as long.
        """
        known = {length: n for length, n in self._lengths.get(place, {}).items() if length >= 0}
        if known:
            return round(sum(length * n for length, n in known.items()) / sum(known.values()))
        expected = [self._lengths[each] for each in self._reporting]
        all_known = sum(length * n for each in expected for length, n in each.items() if length >= 0)
        others = sum(each[UNKNOWN] for each in expected)
        return round((self._expected - all_known) / others) if others and self._expected > all_known else None


def counter_and_left(one: MachineInstruction) -> tuple[int, int]:
    """Returns the counter that a DEPBAR names, and how many it leaves; counter -1 in forms that are not foreseen."""
    found = re.match(r"g?[sS][bB](\d)\s*,\s*(0x[0-9a-f]+|\d+)", one.operands)
    return (int(found[1]), int(found[2], 0)) if found else (-1, 0)


def listed_counters(one: MachineInstruction) -> tuple[int, ...]:
    """Returns the counters in the braces of a DEPBAR, for all of whose instructions it waits."""
    found = re.search(r"\{([\d, ]+)\}", one.operands) if one.base == "DEPBAR" else None
    return tuple(map(int, found[1].split(","))) if found else ()


def first_lanes(active: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns of each warp the first active thread alone."""
    lanes = active.reshape(-1, WARP_LANES)
    return np.asarray((lanes & (np.cumsum(lanes, axis=1) == 1)).ravel())


def first_of(values: Values, active: NDArray[np.bool_]) -> int:
    """Returns the value of the first active thread; UNKNOWN if there is none."""
    spread = np.broadcast_to(values, active.shape)[active]
    return int(spread[0]) if len(spread) else UNKNOWN
