"""Executes blocks of a launch trip by trip, and walks their accesses through the caches of a chip.

Most addresses are affine in the block index: then a few neighbouring blocks are executed, and those of some waves are walked.
So they are where blocks differ by where each instruction begins, of which the first calls of all blocks tell. Otherwise
consecutive blocks of a few SMs are executed and walked, with their share of L2.
"""
from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.accesses import bytes_per_thread, space_of
from warpsim.frontends.async_copies import BULK_UNIT_BYTES, bulk_of, bulk_units, first_of, is_past_l1
from warpsim.frontends.caches import BYPASS_L1, CACHED, STORE, Accesses, Caches, Hits, hits
from warpsim.frontends.dependences import Waits
from warpsim.frontends.evaluate import MAX_STEPS, Evaluator
from warpsim.frontends.evaluation import Given
from warpsim.frontends.flow import Place
from warpsim.frontends.geometry import Geometry
from warpsim.frontends.integers import UNKNOWN, Values
from warpsim.frontends.sass import MachineInstruction
from warpsim.frontends.steps import Step
from warpsim.frontends.timing import Clock
from warpsim.frontends.trips import Mask
from warpsim.units import LINE_BYTES, WARP_LANES

MOST_THREADS = 16384
"""Threads that are executed where addresses are not affine in the block index."""

MOST_WALKED = 2_000_000
"""Lines of accesses of warps that are walked, about, unless the first accesses of two waves make more."""

_FEWEST_WAVES, _MOST_WAVES = 2, 4
"""Waves of blocks that are walked. Blocks of the second one may be the first to access what the later ones find in L2. All
accesses of two waves go before further waves, since later accesses displace data to which still later ones come back."""

_FEWEST_CALLS, _CALLS_FOR_LOADS = 32, 128
"""First accesses of a block that are walked in any case; and as many as are walked for the sake of loads that come later."""

_SAMPLED_CALLS = 64
"""Accesses of a block of which the lines are counted."""

_MOST_WORK = 100_000_000
"""Instructions of threads that are executed; what comes later is left out."""

_MOST_THREADS_OF_FIRSTS, _THREADS_TOGETHER = 1_500_000, 65_536
"""Threads that are executed for the sake of the first calls of instructions, as many as in four waves of the largest chip; and
those of them that are executed together."""

_MOST_ADDRESSES, _MOST_CALLS = 8_000_000, 10_000
"""Addresses that are kept, and accesses of a block."""

_FAR_SHARES = (0.23, 0.81)
"""Where in a grid those blocks are that tell whether addresses are affine in the block index all over it."""

_MOST_APART = 1 / 32
"""Share of blocks whose threads are not all moved by the same, at most, where an address wraps."""

BlockIndex = tuple[int, int, int]


def kind_of(one: MachineInstruction) -> int:
    """Returns how the caches treat an access to global memory."""
    if (bulk := bulk_of(one)) is not None:
        return BYPASS_L1 if bulk.barrier is not None else STORE
    if one.base in ("RED", "REDG", "ATOM", "ATOMG"):
        return BYPASS_L1
    if one.base.startswith("ST"):
        return STORE
    return BYPASS_L1 if is_past_l1(one) or "STRONG" in one.opcode.split(".") else CACHED


def hits_of(given: Given, waits: Waits, caches: Caches, *, made_up: bool = False) -> dict[Place, Hits]:
    """Returns for each access whose addresses are known how often it hits.

    Args:
        given: the kernel and its launch.
        waits: for which instructions each one waits.
        caches: those of the chip.
        made_up: whether addresses that begin where data says count as known: each number in memory names other data (bases.py).
    """
    if not any(space_of(one) == "global" for one in given.flow.function.code):
        return {}
    geometry = given.geometry
    tick = -(-caches.resident * geometry.block_warps // caches.times.schedulers)
    wave = min(geometry.blocks, caches.sms * caches.resident)
    recorder = _Recorder(given, waits, tick, _neighbours(geometry), made_up=made_up)
    if not recorder.execute_blocks():
        return {}
    walked = _walked(given, recorder, caches, wave)
    if walked is None:
        sms = max(1, min(caches.sms, MOST_THREADS // (2 * caches.resident * geometry.block_warps * WARP_LANES)))
        count = min(geometry.blocks, 2 * sms * caches.resident)
        recorder = _Recorder(given, waits, tick, _middle(geometry, count), made_up=made_up)
        if not recorder.execute_blocks():  # of so many blocks few instructions are executed, perhaps no access
            return {}
        all_calls, none = np.arange(len(recorder.calls)), np.zeros((count, 3), np.int64)
        accesses = recorder.accesses(count, np.arange(count), none, None, None, all_calls)
        walked = hits(accesses, caches, min(sms, count), geometry.blocks, complete=recorder.complete)
    return {place: walked[number] for place, number in recorder.numbers.items() if number in walked}


def _walked(given: Given, recorder: _Recorder, caches: Caches, wave: int) -> dict[int, Hits] | None:
    """Walks the blocks of some waves on all SMs; returns the hits by number of the instruction.

    None: the addresses of a few blocks do not tell those of all others.
    """
    geometry, step, moved = given.geometry, recorder.block_steps(), None
    lines = wave * geometry.block_warps * recorder.lines_of_an_access()
    fewest = min(len(recorder.calls), max(_FEWEST_CALLS, min(_CALLS_FOR_LOADS, recorder.calls_of_all())))
    enough = len(recorder.calls) if lines * len(recorder.calls) * _FEWEST_WAVES <= MOST_WALKED else fewest
    waves = min(_MOST_WAVES, max(_FEWEST_WAVES, int(MOST_WALKED / (lines * enough))), -(-geometry.blocks // wave))
    order = _middle(geometry, min(geometry.blocks, wave * waves))
    if step is None and recorder.blocks_differ_by_instruction():
        moved = _moved(given, recorder, order)
    if step is None and moved is None:
        return None
    calls = recorder.first_calls(min(len(recorder.calls), max(fewest, int(MOST_WALKED / (lines * waves)))))
    index = np.array(order, np.int64) - np.array(recorder.blocks[0], np.int64)
    accesses = recorder.accesses(1, np.zeros(len(order), np.int64), index, step, moved, calls)
    part = len(calls) / len(recorder.calls)
    return hits(accesses, caches, caches.sms, geometry.blocks, part, complete=recorder.complete)


def _middle(geometry: Geometry, count: int) -> list[BlockIndex]:
    """Returns consecutive blocks in the middle of a grid, in the order in which they start."""
    first = (geometry.blocks - count) // 2
    width, height, _ = geometry.grid
    return [(n % width, n // width % height, n // (width * height)) for n in range(first, first + count)]


def _neighbours(geometry: Geometry) -> list[BlockIndex]:
    """Returns a block in the middle, the next ones in x, y and z where there are, and some that are further away.

    None is at an edge, where guards leave threads out, if there is room. Where an address wraps, such as a tile's number modulo
    the number of tiles, blocks far away tell.
    """
    middle = tuple((size - 1) // 2 for size in geometry.grid)
    found = [middle]
    for d, size in enumerate(geometry.grid):
        if size > 1:
            found.append((*middle[:d], middle[d] + 1, *middle[d + 1 :]))
    found.append(tuple(min(at + 3, size - 1 - (size > 3)) for at, size in zip(middle, geometry.grid, strict=True)))
    for share in _FAR_SHARES:
        found.append(tuple(min(max(int(share * size), size > 2), size - 1 - (size > 2)) for size in geometry.grid))
    return [(x, y, z) for x, y, z in dict.fromkeys(found)]


def _moved(given: Given, recorder: _Recorder, order: list[BlockIndex]) -> Values | None:
    """Returns by how much the addresses of each instruction are further in some blocks than in the recorder's first one.

    None: that cannot be known from the first calls of the instructions, or there are too many threads. A few blocks may lie where
    an address wraps; they are taken to be moved as their first thread is.
    """
    if len(order) * recorder.threads > _MOST_THREADS_OF_FIRSTS:
        return None
    moved = np.zeros((len(order), len(recorder.numbers)), np.int64)
    apart = np.zeros(len(recorder.numbers))
    together = max(1, _THREADS_TOGETHER // recorder.threads)
    for begin in range(0, len(order), together):
        blocks = [recorder.blocks[0], *order[begin : begin + together]]
        firsts = _Firsts(given, blocks, recorder.numbers, made_up=recorder.bases is not None)
        firsts.runs_to_the_end()
        if len(firsts.rows) < len(recorder.numbers):
            return None
        for number, row in firsts.rows.items():
            rows = row.reshape(len(blocks), recorder.threads)
            apart[number] += len(rows) - _moved_as_one(rows).sum()
            lane = int((rows[0] >= 0).argmax())
            moved[begin : begin + len(blocks) - 1, number] = np.where(rows[1:, lane] >= 0, rows[1:, lane] - rows[0, lane], 0)
        if (apart > _MOST_APART * len(order)).any():
            return None
    return moved


def _moved_as_one(rows: Values) -> NDArray[np.bool_]:
    """Returns for each block, a row, whether its threads access what those of the first one do, all moved by the same."""
    active = rows[0] >= 0
    if not active.any():
        return np.zeros(len(rows), np.bool_)
    distance = (rows - rows[0])[:, active]
    as_one: NDArray[np.bool_] = ((rows >= 0) == active).all(axis=1) & (distance == distance[:, :1]).all(axis=1)
    return as_one


class _EnoughError(Exception):
    """Enough has been recorded."""


class _UntilEnough(Evaluator):
    """An evaluator that ends once enough has been recorded, or once its steps would be too many. It needs whole addresses."""

    def __init__(self, given: Given, blocks: list[BlockIndex], *, made_up: bool = False) -> None:
        super().__init__(given, [(block, 1.0) for block in blocks])
        if not made_up:
            self.bases = None

    def whole_addresses(self, step: Step) -> Values:
        """Returns the addresses that an instruction accesses, perhaps with numbers that are made up."""
        if self.bases is None:
            return self.addresses_of(step)
        with self.bases.instead(self.state):
            return self.addresses_of(step)

    def runs_to_the_end(self) -> bool:
        """Executes the blocks. Returns whether it did not end before."""
        with suppress(_EnoughError):
            self.run()
            return True
        return False

    def _too_much(self, number: int) -> Exception:
        return _EnoughError()


class _Firsts(_UntilEnough):
    """An evaluator that keeps the addresses of the first call of each instruction."""

    def __init__(self, given: Given, blocks: list[BlockIndex], numbers: Mapping[Place, int], *, made_up: bool = False) -> None:
        super().__init__(given, blocks, made_up=made_up)
        self.numbers, self.rows = numbers, dict[int, Values]()

    def _access(self, number: int, step: Step, active: Mask) -> None:
        place = number, step.index
        if place not in self.numbers or self.numbers[place] in self.rows or not active.any():
            return
        self.rows[self.numbers[place]] = np.where(active, self.whole_addresses(step), -1)
        if len(self.rows) == len(self.numbers):
            raise _EnoughError


class _Recorder(_UntilEnough):
    """An evaluator that keeps the addresses of all accesses, and leaves out no trip of a loop."""

    def __init__(self, given: Given, waits: Waits, tick: int, blocks: list[BlockIndex], *, made_up: bool = False) -> None:
        super().__init__(given, blocks, made_up=made_up)
        self.blocks, self.threads = blocks, given.geometry.block_warps * WARP_LANES
        self.most_executed = min(MAX_STEPS, max(1, _MOST_WORK // (len(blocks) * self.threads)))
        self.most_calls = max(1, min(_MOST_CALLS, _MOST_ADDRESSES // (len(blocks) * self.threads)))
        self.numbers: dict[Place, int] = {}
        self.calls: list[tuple[int, Values]] = []
        self.facts: list[tuple[int, int]] = []
        self.clock = Clock(given.flow, waits, tick)
        self.complete = False

    def execute_blocks(self) -> bool:
        """Executes the blocks, and notes whether to their end; returns whether any address is known."""
        self.complete = self.runs_to_the_end()
        return bool(self.calls)

    def block_steps(self) -> Values | None:
        """Returns by how much addresses grow with the block index: int64[calls, 3]; None: they are not affine in it."""
        rows = np.stack([row for _, row in self.calls]).reshape(len(self.calls), len(self.blocks), self.threads)
        first, active = rows[:, 0], rows[:, 0] >= 0
        if not ((rows >= 0) == active[:, None]).all():
            return None
        lane = active.argmax(axis=1)
        calls = np.arange(len(rows))
        found = np.zeros((len(rows), 3), np.int64)
        index = np.array(self.blocks, np.int64) - np.array(self.blocks[0], np.int64)
        for number, distance in enumerate(index):
            if np.abs(distance).sum() == 1 and distance.sum() == 1:
                found[:, int(distance.argmax())] = rows[calls, number, lane] - first[calls, lane]
        expected = first[:, None] + (found @ index.T)[:, :, None]
        return found if (np.where(active[:, None], expected, -1) == rows).all() else None

    def blocks_differ_by_instruction(self) -> bool:
        """Returns whether each instruction's addresses differ from block to block by the same in all of its calls and threads.

        So they do where the index of a block is divided into those of a tile, as in most products of matrices.
        """
        first: dict[int, Values] = {}
        for number, row in self.calls:
            rows = row.reshape(len(self.blocks), self.threads)
            begin = first.setdefault(number, rows)
            active = rows[0] >= 0
            if not ((rows >= 0) == active).all():
                return False
            here = begin[0] >= 0
            if not here[active].all() or (np.where(active, rows - begin, 0) != np.where(active, rows[0] - begin[0], 0)).any():
                return False
        return all(_moved_as_one(rows).all() for rows in first.values())

    def calls_of_all(self) -> int:
        """Returns how many calls there are until each load has made one."""
        first: dict[int, int] = {}
        for at, (number, _) in enumerate(self.calls):
            first.setdefault(number, at)
        return max((at for number, at in first.items() if self.facts[number][0] != STORE), default=0) + 1

    def first_calls(self, most: int) -> Values:
        """Returns the numbers of the first calls, so many; where warps have tasks of their own, so many of each warp."""
        made = np.stack([(row[: self.threads].reshape(-1, WARP_LANES) >= 0).any(axis=1) for _, row in self.calls])
        made = made[:, made.any(axis=0)]
        if (made.T.astype(np.int64) @ made > 0).all():  # each two warps have a call in common
            return np.arange(most)
        return np.flatnonzero((made & (made.cumsum(axis=0) <= most)).any(axis=1))

    def lines_of_an_access(self) -> float:
        """Returns how many lines an access of a warp touches, on average."""
        from warpsim.frontends.cache_walk import compressed  # numba takes a while to load

        chosen = [self.calls[at] for at in np.linspace(0, len(self.calls) - 1, _SAMPLED_CALLS, dtype=int)]
        rows = np.concatenate([row[: self.threads].reshape(-1, WARP_LANES) for _, row in chosen])
        widths = np.repeat([self.facts[number][1] for number, _ in chosen], self.block_warps)
        return max(1.0, len(compressed(rows, widths)[0]) / len(rows))

    def accesses(
        self, groups: int, group: Values, index: Values, step: Values | None, moved: Values | None, kept: Values
    ) -> Accesses:
        """Returns accesses of blocks, by number; `groups` of the executed blocks stand for them, as `Accesses` says."""
        calls = [self.calls[call] for call in kept]
        step = np.zeros((len(calls), 3), np.int64) if step is None else step[kept]
        moved = np.zeros((len(group), len(self.facts)), np.int64) if moved is None else moved
        place = np.array([number for number, _ in calls], np.int64)
        kind, width = np.array(self.facts, np.int64).T
        addresses = np.stack([row[: groups * self.threads] for _, row in calls])
        timing = self.clock.timing(kept)
        return Accesses(addresses, place, kind[place], width[place], self.block_warps, group, index, step, moved, timing)

    def _execute(self, number: int, mask: Mask, pending: dict[int, Mask]) -> None:
        self.clock.enter(number)
        super()._execute(number, mask, pending)
        self.clock.go_on(self.flow.blocks[number].code.stop)

    def _follow_copies(self, number: int, step: Step, active: Mask) -> Mask:
        active = super()._follow_copies(number, step, active)
        if step.role in ("wait", "test") and (left := self.copies.left_at((number, step.index))) is not None:
            self.clock.go_on(step.index)
            self.clock.wait_for_copies(left)
        return active

    def _access(self, number: int, step: Step, active: Mask) -> None:
        if space_of(step.one) != "global" or not active.any():
            return
        addresses = np.broadcast_to(self.whole_addresses(step), active.shape)
        if not (addresses[active] >= 0).any():
            return
        if (number, step.index) not in self.numbers:
            width = bytes_per_thread(step.one) if step.role != "bulk" else LINE_BYTES
            self.numbers[number, step.index] = len(self.facts)
            self.facts.append((kind_of(step.one), width))
        row = np.where(active, addresses, -1)
        rows = [row] if step.role != "bulk" else self._lines(step, row)
        self.clock.go_on(step.index + 1)
        self.clock.make(step, len(rows))
        self.calls += [(self.numbers[number, step.index], row) for row in rows]
        if len(self.calls) >= self.most_calls:
            raise _EnoughError

    def _lines(self, step: Step, row: Values) -> list[Values]:
        """Returns the accesses of a bulk copy: each lane of its warp takes a line, again and again."""
        first = row.reshape(-1, WARP_LANES).max(axis=1)[:, None]
        if step.tile is not None:
            lines = step.tile.lines
        else:
            length = UNKNOWN if step.length is None else first_of(self.state.read(step.length), row >= 0)
            lines = np.arange(0, bulk_units(step.one, length) * BULK_UNIT_BYTES, LINE_BYTES)
        found = []
        for begin in range(0, len(lines), WARP_LANES):
            part = lines[begin : begin + WARP_LANES]
            accessed = np.full((len(first), WARP_LANES), -1)
            accessed[:, : len(part)] = np.where(first >= 0, first + part, -1)
            found.append(accessed.ravel())
        return found

    def _skip_trips(self, loop: int, header: int, pending: dict[int, Mask]) -> None:
        pass
