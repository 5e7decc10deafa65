"""Executes blocks of a launch trip by trip, and walks their accesses through the caches of a chip.

Most addresses are affine in the block index: then a few neighbouring blocks are executed, and those of some waves are walked.
So they are where blocks differ by where each instruction begins, of which the first calls of all blocks tell, or are of a few
such shapes, as at the edges of a grid; or by where each of its calls begins, as where an address wraps, if all of these can be
executed. Otherwise consecutive blocks are executed and walked: of all SMs if their programs are short, and else of a few, with
their share of L2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from warpsim.frontends.caches.neighbours import moved_by_call, moved_by_instruction
from warpsim.frontends.caches.recorder import Recorder
from warpsim.frontends.caches.until_enough import WALKED, BlockIndex, kind_of
from warpsim.frontends.caches.walk import Caches, Hits, hits
from warpsim.frontends.execution.evaluation import Evaluation, Given
from warpsim.frontends.launch.geometry import Geometry
from warpsim.frontends.launch.keys import keys_of
from warpsim.frontends.machine_code.flow import Flow, Place, place
from warpsim.frontends.values import Values
from warpsim.frontends.waits.dependences import Waits
from warpsim.units import WARP_LANES

FEW_THREADS = 16384
"""Threads that are executed in any case where neighbouring blocks do not tell what all others access."""

MOST_WALKED, _MOST_OF_SEVERAL_LOOPS = 2_000_000, 4_000_000
"""Lines of accesses of warps that are walked, about, unless the first accesses of two waves make more; and of two waves, where
those would be a few trips of a loop behind another one."""

_FEWEST_WAVES, _MOST_WAVES = 2, 4
"""Waves of blocks that are walked. Blocks of the second one may be the first to access what the later ones find in L2. All
accesses of two waves go before further waves, since later accesses displace data to which still later ones come back."""

_FEWEST_CALLS, _CALLS_FOR_LOADS = 32, 128
"""First accesses of a block that are walked in any case; and as many as are walked for the sake of loads that come later."""

_FEW_AT_EDGES = 1 / 8
"""Share of the blocks of a grid that lie at its edges, at most, where those within it stand for them."""

_FAR_SHARES = (0.23, 0.81)
"""Where in a grid those blocks are that tell whether addresses are affine in the block index all over it."""

_SHARE_OF_SMALL_LAUNCHES = 0.5
"""Launches that are executed as a whole make so many of the accesses that can be recorded, at most."""

_MOST_MIDDLES, _FEW_ELSEWHERE = 4, 1 / 16
"""Blocks around which others are walked, at most, and the share of the accesses, at most, that may be made elsewhere only."""

_MOST_NAMED = 8
"""Places that a note names."""


def hits_of(
    given: Given, evaluation: Evaluation, waits: Waits, caches: Caches, notes: dict[str, None], *, made_up: bool = False
) -> dict[Place, Hits]:
    """Returns for each access whose addresses are known how often it hits.

    Args:
        given: the kernel and its launch.
        evaluation: how often its blocks are executed.
        waits: for which instructions each one waits.
        caches: those of the chip.
        notes: takes what had to be assumed, in words.
        made_up: whether addresses that begin where data says count as known: each number in memory names other data (bases.py).
            Then these are asked for.
    """
    asked = [
        each
        for each, tally in evaluation.accesses.items()
        if evaluation.space_of(each, given.flow.function.code[each[1]]) in WALKED
        and (evaluation.begins_elsewhere(each) is not None if made_up else 0 < tally.warps >= 2 * tally.unknown)
    ]
    if not asked:
        return {}
    geometry = given.geometry
    tick = -(-caches.resident * geometry.block_warps // caches.times.schedulers)
    wave = min(geometry.blocks, caches.sms * caches.resident)

    def recorder_of(blocks: list[BlockIndex]) -> Recorder:
        return Recorder(given, waits, tick, blocks, evaluation, asked, made_up=made_up)

    def walked_around(middle: BlockIndex) -> tuple[Recorder, dict[Place, Hits]]:
        """Returns the hits of what the blocks around one access, and what has recorded these."""
        recorder = recorder_of(_neighbours(geometry, middle))
        if not recorder.execute_blocks():
            return recorder, {}
        if geometry.blocks * recorder.threads <= _SHARE_OF_SMALL_LAUNCHES * recorder.threads_at_most():
            whole = recorder_of(_around(geometry, middle, geometry.blocks))
            if whole.execute_blocks():  # others may have more to execute than those around one, and come to no access
                return whole, _walked_as_recorded(whole, caches, caches.sms, geometry.blocks)
        if not recorder.calls_by_block(recorder.numbers)[0]:
            return recorder, {}
        if (walked := _walked(given, recorder, recorder_of, caches, wave, middle)) is not None:
            return recorder, walked
        return _walked_on_some_sms(geometry, recorder, recorder_of, caches, middle)

    def makes_most(places: Collection[Place], recorder: Recorder) -> BlockIndex | None:
        """Returns of the blocks that are recorded, or else of those that stand for the grid, the one that makes most accesses."""
        if not recorder.calls_by_block(places).any():
            recorder = recorder_of([block for block, _ in geometry.sample(FEW_THREADS)])
            recorder.execute_blocks()
        made = recorder.calls_by_block(places)
        return recorder.blocks[int(made.argmax())] if made.any() else None

    middle: BlockIndex | None = _center(geometry)
    found, recorded, begun, complete = dict[Place, Hits](), set[Place](), set[BlockIndex](), True
    while middle is not None and middle not in begun and len(begun) < _MOST_MIDDLES:
        begun.add(middle)
        recorder, walked = walked_around(middle)
        found, complete = walked | found, complete and recorder.complete
        if walked or not complete:
            recorded |= recorder.numbers.keys()
        missing = [each for each in asked if each not in found and each not in recorded]
        if not complete or _executions(evaluation, missing) <= _FEW_ELSEWHERE * _executions(evaluation, asked):
            break
        middle = makes_most(missing, recorder)
    if complete and recorded:  # what is not recorded is executed by other blocks only
        asked = [each for each in asked if each in recorded]
    return found | _estimated(given.flow, evaluation, [each for each in asked if each not in found], found, notes)


def _executions(evaluation: Evaluation, places: Iterable[Place]) -> float:
    """Returns how often warps execute some accesses."""
    return sum(evaluation.accesses[each].warps for each in places)


def _walked_on_some_sms(
    geometry: Geometry,
    recorder: Recorder,
    recorder_of: Callable[[list[BlockIndex]], Recorder],
    caches: Caches,
    middle: BlockIndex,
) -> tuple[Recorder, dict[Place, Hits]]:
    """Executes and walks up to two waves of blocks of some SMs, which stand for all; returns their recorder, and the hits.

    `recorder` has recorded some blocks before.
    """
    resident, found = min(caches.resident, -(-geometry.blocks // caches.sms)), dict[Place, Hits]()
    of_an_sm = resident * (2 if geometry.blocks > caches.sms * resident else 1)
    threads = max(FEW_THREADS, recorder.threads_at_most())
    most = max(1, min(caches.sms, threads // (of_an_sm * geometry.block_warps * WARP_LANES)))
    for sms in dict.fromkeys((most, 1)):  # of fewer blocks more can be executed
        blocks = _of_some_sms(geometry, caches.sms, sms, of_an_sm, middle)
        recorder = recorder_of(blocks)
        if recorder.execute_blocks():  # of so many blocks few instructions are executed, perhaps no access
            few = replace(caches, resident=resident)
            found = _walked_as_recorded(recorder, few, min(sms, len(blocks)), geometry.blocks) | found
        if recorder.complete or not recorder.missing:
            break
    return recorder, found


def _by_place(recorder: Recorder, walked: Mapping[int, Hits]) -> dict[Place, Hits]:
    """Returns the hits of each access that is walked, of which those by number are given."""
    return {each: walked[number] for each, number in recorder.numbers.items() if number in walked}


def _estimated(
    flow: Flow, evaluation: Evaluation, places: list[Place], found: Mapping[Place, Hits], notes: dict[str, None]
) -> dict[Place, Hits]:
    """Returns the hits of accesses to which the walk does not come: the mean of those of the same kind to which it does."""

    def kind(each: Place) -> int:
        one = flow.function.code[each[1]]
        return kind_of(one, evaluation.space_of(each, one))

    by_kind: dict[int, list[Hits]] = {}
    for each, hit in found.items():
        by_kind.setdefault(kind(each), []).append(hit)
    means = {one: _mean(several) for one, several in by_kind.items()} if places else {}
    made = {each: means[kind(each)] for each in places if kind(each) in means}
    for missing, how in ((made.keys(), "as the others do"), (set(places) - made.keys(), "never")):
        if missing:
            what = f"the walk through the caches ends before accesses: they are taken to hit {how}"
            notes[f"{_names(flow, missing)}: {what}"] = None
    return made


def _mean(several: list[Hits]) -> Hits:
    rows = np.array([(one.l1, one.l2, one.sectors, one.kept, one.l1_late, one.l2_late, one.coalesced) for one in several])
    return Hits(*rows.mean(axis=0).tolist())


def _names(flow: Flow, places: Iterable[Place]) -> str:
    """Returns the lines of instructions in words, or their addresses where lines are not known."""
    first = {keys_of(flow.function.code[index])[0]: index for _, index in sorted(places, key=lambda each: each[1])}
    named = [place(flow.function, index) for index in first.values()]
    return ", ".join(named[:_MOST_NAMED]) + (f" and {len(named) - _MOST_NAMED} others" if len(named) > _MOST_NAMED else "")


def _walked(
    given: Given,
    recorder: Recorder,
    recorder_of: Callable[[list[BlockIndex]], Recorder],
    caches: Caches,
    wave: int,
    middle: BlockIndex,
) -> dict[Place, Hits] | None:
    """Walks the blocks of some waves around one on all SMs; returns the hits of each access.

    None: the addresses of a few blocks do not tell those of all others.
    """

    def first_calls(recorder: Recorder, most_lines: int) -> Values:
        """Returns the first calls of so many waves that make so many lines, or the fewest that are walked in any case."""
        return recorder.first_calls(min(len(recorder.calls), max(fewest, int(most_lines / (lines * waves)))))

    geometry, step, moved = given.geometry, recorder.block_steps(), None
    lines = wave * geometry.block_warps * recorder.lines_of_an_access()
    fewest = min(len(recorder.calls), max(_FEWEST_CALLS, min(_CALLS_FOR_LOADS, recorder.calls_of_all())))
    enough = len(recorder.calls) if lines * len(recorder.calls) * _FEWEST_WAVES <= MOST_WALKED else fewest
    waves = min(_MOST_WAVES, max(_FEWEST_WAVES, int(MOST_WALKED / (lines * enough))), -(-geometry.blocks // wave))
    most_lines = MOST_WALKED
    if recorder.cut_short(np.arange(len(first_calls(recorder, most_lines)))):
        waves, most_lines = min(waves, _FEWEST_WAVES), _MOST_OF_SEVERAL_LOOPS
    order = all_blocks = _around(geometry, middle, min(geometry.blocks, wave * waves))
    like, calls, found = np.zeros(len(order), np.int64), first_calls(recorder, most_lines), None
    if step is None or _share_at_edges(geometry) > _FEW_AT_EDGES:
        found = moved_by_instruction(given, recorder, recorder_of, order)
    if found is not None:
        recorder, order, like, step = found.recorder, found.blocks, found.like, None
        calls = first_calls(recorder, most_lines)
        moved = found.further[:, [recorder.calls[call][0] for call in calls]]
    elif step is None and (moved := moved_by_call(given, recorder, order, calls)) is None:
        return None
    representatives, group = np.unique(like, return_inverse=True)
    index = np.array(order, np.int64) - np.array(recorder.blocks, np.int64)[like]
    accesses = recorder.accesses(representatives, group, index, step, moved, calls)
    blocks = round(geometry.blocks * len(order) / len(all_blocks))  # of the launch, that make accesses
    walked = hits(accesses, caches, caches.sms, blocks, recorder.excerpt(calls), complete=recorder.complete)
    return _by_place(recorder, walked)


def _walked_as_recorded(recorder: Recorder, caches: Caches, sms: int, blocks: int) -> dict[Place, Hits]:
    """Walks all that is recorded of the blocks of so many SMs, of the blocks of a launch; returns the hits of each access."""
    all_calls, all_blocks = np.arange(len(recorder.calls)), np.arange(len(recorder.blocks))
    none = np.zeros((len(all_blocks), 3), np.int64)
    accesses = recorder.accesses(all_blocks, all_blocks, none, None, None, all_calls)
    walked = hits(accesses, caches, sms, blocks, recorder.excerpt(all_calls), complete=recorder.complete)
    return _by_place(recorder, walked)


def _center(geometry: Geometry) -> BlockIndex:
    """Returns the block in the middle of a grid."""
    x, y, z = ((size - 1) // 2 for size in geometry.grid)
    return x, y, z


def _first(geometry: Geometry, middle: BlockIndex, count: int) -> int:
    """Returns the number of the first one of so many consecutive blocks around one, by the order in which they start."""
    most = max(0, geometry.blocks - count)
    if middle == _center(geometry):
        return most // 2
    width, height, _ = geometry.grid
    return min(max(0, middle[0] + width * (middle[1] + height * middle[2]) - count // 2), most)


def _around(geometry: Geometry, middle: BlockIndex, count: int) -> list[BlockIndex]:
    """Returns consecutive blocks around one, in the order in which they start."""
    first = _first(geometry, middle, count)
    return [_index_of(geometry, number) for number in range(first, first + count)]


def _share_at_edges(geometry: Geometry) -> float:
    """Returns the share of the blocks of a grid that are the first or the last ones in a dimension."""
    return 1.0 - math.prod(max(size - 2, 0) / size for size in geometry.grid if size > 1)


def _of_some_sms(geometry: Geometry, sms: int, some: int, of_an_sm: int, middle: BlockIndex) -> list[BlockIndex]:
    """Returns so many blocks around one of each of some neighbouring SMs of a chip, in the order in which they start.

    The SMs of the chip take blocks in turn, so that those of one SM are as far apart as there are SMs.
    """
    first = _first(geometry, middle, sms * of_an_sm)
    starts = range(first, min(geometry.blocks, first + sms * of_an_sm), sms)
    return [_index_of(geometry, at + n) for at in starts for n in range(some) if at + n < geometry.blocks]


def _index_of(geometry: Geometry, number: int) -> BlockIndex:
    """Returns the index of the block of a number, by the order in which blocks start."""
    width, height, _ = geometry.grid
    return number % width, number // width % height, number // (width * height)


def _neighbours(geometry: Geometry, middle: BlockIndex) -> list[BlockIndex]:
    """Returns a block, the next ones in x, y and z where there are, and some that are further away.

    Around the middle of the grid none is at an edge, where guards leave threads out, if there is room. Where an address wraps,
    such as a tile's number modulo the number of tiles, blocks far away tell.
    """
    found: list[tuple[int, ...]] = [middle]
    for d, size in enumerate(geometry.grid):
        if middle[d] + 1 < size:
            found.append((*middle[:d], middle[d] + 1, *middle[d + 1 :]))
    found.append(tuple(min(at + 3, size - 1 - (size > 3)) for at, size in zip(middle, geometry.grid, strict=True)))
    for share in _FAR_SHARES:
        found.append(tuple(min(max(int(share * size), size > 2), size - 1 - (size > 2)) for size in geometry.grid))
    return [(x, y, z) for x, y, z in dict.fromkeys(found)]
