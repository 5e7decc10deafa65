"""The compiled part of `walk.py`: set-associative caches of sectored lines, and warps that take turns."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from warpsim.jit.code_cache import keep_code
from warpsim.jit.decorators import CACHE_FOLDER

LINE_SHIFT, SECTOR_SHIFT, SECTORS, LANES = 7, 5, 4, 32
_CACHED, _STORE, _LOCAL = 0, 2, 4  # the kinds of walk.py
_DIRTY = SECTORS  # bit of the first sector that has been stored
_RECORD = 1 + SECTORS  # words of a line beside its tag and its latest use: bits of sectors, and from when on each is there
_WORDS = 2 + _RECORD
_RUNS, _AT_BARRIER, _ENDED = 0, 1, 2  # states of a warp
_SLOT_BITS = 20  # of a warp in the queue, below its time
_NO_BARRIER = 2**62
_RECENT = 4096  # lines of which the latest read of L2 by a GPC is remembered
_COPY = 2**58  # from the number of a line to that of its copy in the other half of L2
_MULTIPLIER = np.uint64(0x8EBC6AF09C88C6E3)  # a constant of wyhash; it spreads lines evenly at all distances that were tried
_PHASE = 2**49  # from the number of a line to that which it has in L1 for blocks in the next phase of their programs


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function compiled; its machine code is kept as the engine's is."""
    fast: Callable[..., Any] = numba.njit(function)
    if CACHE_FOLDER is not None and fast is not function:  # numba returns the function itself if it must not compile
        keep_code(fast, CACHE_FOLDER)
    return fast


@compiled
def hashed(line, sets):  # type: ignore[no-untyped-def]
    """Returns the set of a line in a cache that spreads its lines evenly."""
    mixed = np.uint64(line) * _MULTIPLIER  # the upper half is spread evenly for lines at any distance from each other
    return np.int64((mixed >> np.uint64(32)) * np.uint64(sets) >> np.uint64(32))


@compiled
def half_of(line):  # type: ignore[no-untyped-def]
    """Returns the half of L2 to which a line belongs, which does not depend on its set."""
    return np.int64(np.uint64(line) * _MULTIPLIER >> np.uint64(31) & np.uint64(1))


@compiled
def place_of(cache, first, ways, line, since, now):  # type: ignore[no-untyped-def]
    """Returns the place of a line's record in a set that begins at a place of its cache, if it was used at `since` or later.

    Otherwise it is there without sectors: where it has been before, or instead of the line that was used longest ago.
    """
    used, records = first + ways, first + 2 * ways
    for way in range(ways):
        if cache[first + way] == line:
            if cache[used + way] < since:
                cache[records + way * _RECORD] = 0
            cache[used + way] = now
            return records + way * _RECORD
    oldest, least = 0, cache[used]
    for way in range(1, ways):
        oldest = way if cache[used + way] < least else oldest
        least = min(least, cache[used + way])
    cache[first + oldest], cache[records + oldest * _RECORD], cache[used + oldest] = line, 0, now
    return records + oldest * _RECORD


@compiled
def lines_of(addresses, shift, width, lines, masks):  # type: ignore[no-untyped-def]
    """Writes the lines that the threads of a warp access, and a mask of the sectors of each; returns how many there are.

    `shift` is added to all addresses that are not negative.
    """
    count = 0
    for lane in range(len(addresses)):
        if addresses[lane] < 0:
            continue
        address = addresses[lane] + shift
        for sector in range(address >> SECTOR_SHIFT, ((address + width - 1) >> SECTOR_SHIFT) + 1):
            line, mask = sector >> (LINE_SHIFT - SECTOR_SHIFT), 1 << (sector & (SECTORS - 1))
            found = -1
            for k in range(count):
                if lines[k] == line:
                    found = k
            if found < 0:
                found = count
                lines[count], masks[count] = line, 0
                count += 1
            masks[found] |= mask
    return count


@compiled
def compressed(addresses, widths):  # type: ignore[no-untyped-def]
    """Returns the lines that accesses of warps touch, one access after another, their masks, and how many each access has."""
    lines, masks = np.zeros(2 * LANES, np.int64), np.zeros(2 * LANES, np.int64)
    counts = np.zeros(len(addresses), np.int64)
    total = 0
    for row in range(len(addresses)):
        counts[row] = lines_of(addresses[row], 0, widths[row], lines, masks)
        total += counts[row]
    all_lines, all_masks = np.zeros(total, np.int64), np.zeros(total, np.int64)
    at = 0
    for row in range(len(addresses)):
        count = lines_of(addresses[row], 0, widths[row], lines, masks)
        for each in range(count):  # a loop compiles faster than a slice
            all_lines[at + each], all_masks[at + each] = lines[each], masks[each]
        at += count
    return all_lines, all_masks, counts


@compiled
def pieces_of(mask):  # type: ignore[no-untyped-def]
    """Returns the sectors that memory moves when some are asked for: it moves pairs."""
    return mask | (mask & 0b0101) << 1 | (mask & 0b1010) >> 1


@compiled
def sectors_in(mask):  # type: ignore[no-untyped-def]
    """Returns the number of sectors of a mask."""
    count = 0
    for sector in range(SECTORS):
        count += mask >> sector & 1
    return count


@compiled
def look_up(cache, size, begin, line, wanted, since, now):  # type: ignore[no-untyped-def]
    """Looks for sectors of a line in a cache of so many (sets, ways), which begins with a set of the array.

    Returns the place of the line's record, which of the sectors are missing, and from when on the others are there.
    """
    sets, ways = size
    place = place_of(cache, (begin + hashed(line, sets)) * ways * _WORDS, ways, line, since, now)
    held, ready = wanted & cache[place], np.int64(0)
    for sector in range(SECTORS):
        if held >> sector & 1:
            ready = max(ready, cache[place + 1 + sector])
    return place, wanted & ~held, ready


@compiled
def fill(cache, place, sectors, ready):  # type: ignore[no-untyped-def]
    """Sectors of a line, with a record at a place, come into a cache, and are there from a time on."""
    cache[place] |= sectors
    for sector in range(SECTORS):
        if sectors >> sector & 1:
            cache[place + 1 + sector] = ready


@compiled
def drawn(number, values):  # type: ignore[no-untyped-def]
    """Returns one of some values, each for as many numbers as any other."""
    return values[hashed(number, len(values))]


@compiled
def empty_cache(sets, ways):  # type: ignore[no-untyped-def]
    """Returns a cache. Each set has the tags of all ways, then their latest uses, then their records.

    What belongs to a set stands together, so that the host finds it quickly.
    """
    cache = np.zeros(sets * ways * _WORDS, np.int64)
    for first in range(0, len(cache), ways * _WORDS):
        cache[first : first + ways] = -1
    return cache


@compiled
def access_l2(line, wanted, what, half, begin, l2, size, latencies, filled, since):  # type: ignore[no-untyped-def]
    """An SM accesses sectors of a line of L2 at a time; it belongs to a half, 0 or 1, or L2 has none (-1).

    It finds what was used when L2 had been filled with as many lines as `since`, or later.

    What is loaded from the other half is copied to that of the SM, where it takes room. Returns which of the sectors memory has
    to move, when the data is there, and with how many lines L2 is filled then.
    """
    since = max(since, filled - size[0] * size[1])
    ready, copy = begin + latencies[1], -1
    if what == _STORE:
        record, absent, _ = look_up(l2, size, 0, line, wanted << _DIRTY, since, filled)
        absent >>= _DIRTY
        if absent:
            filled += l2[record] == 0
            fill(l2, record, absent << _DIRTY | absent, ready)
        return absent, ready, filled
    if half >= 0 and half != half_of(line):
        copy, wanted, there = look_up(l2, size, 0, line + _COPY, wanted, since, filled)
        ready = max(ready, there)
        if not wanted:
            return wanted, ready, filled
    record, absent, there = look_up(l2, size, 0, line, wanted, since, filled)
    ready = max(ready, there)
    if absent:
        filled += l2[record] == 0
        ready = max(ready, begin + drawn(begin + line, latencies[2]))
        absent = pieces_of(absent) & ~l2[record]
        fill(l2, record, absent, ready)
    if copy >= 0:
        filled += l2[copy] == 0
        fill(l2, copy, wanted, ready)
    return absent, ready, filled


@compiled
def coalesced(recent, gpc, window, line, wanted, begin):  # type: ignore[no-untyped-def]
    """Returns whether a read of L2 goes with one of the same sectors by an SM of the same GPC, begun in a window before.

    If not, it is the one with which later reads go. `recent` has line, sectors and time of the latest read by its hash.
    """
    place = gpc * _RECENT + hashed(line, _RECENT)
    if recent[0, place] == line and begin < recent[2, place] + window and not wanted & ~recent[1, place]:
        return True
    recent[0, place], recent[1, place], recent[2, place] = line, wanted, begin
    return False


@compiled
def access_caches(lines, masks, count, what, sharing, begin, caches, sizes, halves, latencies, filled, since, recent, coalescer):  # type: ignore[no-untyped-def]
    """A warp of an SM accesses lines at a time, when L2 has been filled with so many lines.

    `sharing` is the number of the SM, and the phase of those of its blocks that share these lines in its L1.

    It finds what was used at a time in L1, or when L2 had been filled with so many lines (`since`), or later. Returns the
    sectors that L1 misses, those that L2 misses, too, when the data is there, with how many lines L2 is filled then, how many
    lines L1 has taken in, and the sectors that L2 reads for other SMs as well (`coalesced`).
    """
    (sm, phase), (l1, l2), l1_size, l1_cycles = sharing, caches, sizes[0], latencies[0]
    beyond_l1, beyond_l2, arrival, taken_in, together = 0, 0, begin, 0, 0
    half = sm % halves if halves > 1 else -1
    first = sm * l1_size[0]
    for k in range(count):
        missing, record, here = masks[k], 0, lines[k] + phase * _PHASE
        if what == _CACHED:
            record, missing, ready = look_up(l1, l1_size, first, here, masks[k], since[0], begin)
            taken_in += l1[record] == 0
            arrival = max(arrival, ready, begin + l1_cycles)
        elif what == _STORE:
            record, absent, _ = look_up(l1, l1_size, first, here, masks[k], since[0], begin)
            taken_in += l1[record] == 0
            fill(l1, record, absent, begin)
        if missing:
            absent, ready, filled = access_l2(lines[k], missing, what, half, begin, l2, sizes[1], latencies, filled, since[1])
            if what == _CACHED:
                fill(l1, record, missing, ready)
            beyond_l1 += sectors_in(missing)
            gpc, window = sm // coalescer[0], coalescer[1]
            if what != _STORE and window > 0 and coalesced(recent, gpc, window, lines[k], missing, begin):
                together += sectors_in(missing)
            beyond_l2 += sectors_in(absent)
            arrival = max(arrival, ready)
    return beyond_l1, beyond_l2, arrival, filled, taken_in, together


@compiled
def pass_gap(left, first, at, brought, warps, sizes, owed):  # type: ignore[no-untyped-def]
    """A warp comes to a position before which accesses are left out that are like those from a first position on.

    All warps of its SM, and of the chip, are taken to leave out as many. Adds the lines that these would have brought into L1 and
    L2 to what is owed, and returns for both whether they would have displaced everything there.
    """
    made = np.int64(0)
    lines = np.zeros(2, np.int64)
    for position in range(first, at):
        made += brought[0, position]
        lines += brought[1:, position]
    displaced = np.zeros(2, np.bool_)
    for cache in range(2):
        owed[cache] += left * warps[cache] * lines[cache] / max(1, made)
        if owed[cache] >= sizes[cache][0] * sizes[cache][1]:
            displaced[cache], owed[cache] = True, 0.0
    return displaced


@compiled
def start_block(first, block_warps, begin, warp_launch, position, time, state, queue):  # type: ignore[no-untyped-def]
    """The warps of a block start in the slots from one on, one after another from a time on."""
    for slot in range(first, first + block_warps):
        position[slot], time[slot], state[slot] = -1, begin + (slot - first) * warp_launch, _RUNS
        heapq.heappush(queue, time[slot] << _SLOT_BITS | slot)


@compiled
def walk(accesses, timing, chip, phasing, settled, counts):  # type: ignore[no-untyped-def]
    """Walks the accesses of blocks in the order of time; the arguments are those of `hits` of walk.py, as tuples.

    The accesses are those of `Accesses`, or of `ListedAccesses` as lines and masks in `rows`, which begin at
    `first` for each access and at `warp_first` for each warp. Those of a block's accesses that are not walked fill L2 when the
    block ends, such that each instruction has touched `more` times as many lines, and take the place of lines that have not been
    used for as long. Blocks that begin at different times are in different parts of their programs, as many as `phases`: those in
    one phase share lines in L1, and all of them those that a block accesses `to_the_end`.

    The blocks stand in seats, and their warps have slots, whose local memory is `region` bytes apart. The accesses of a warp's
    program are its positions. A warp comes to a position when it has spent the cycles of the instructions before, and has what it
    waits for there: data, and the other warps of its block at barriers. Where accesses are `left` out before a position, it finds
    nothing any more behind it that was in a cache before, if they would have displaced that.

    Adds to counts[0, instruction] for the first blocks, and to counts[1, instruction] from block `settled` on: accesses; those
    that L1 serves in full; sectors that L1 misses; of the accesses that miss, those that L2 serves in full; sectors that memory
    moves; the cycles for which data is still on its way, of the accesses that L1 serves in full, and of those that L2 does; and
    the sectors that L2 reads for several SMs of a GPC at once, beyond those for the first one.
    """
    addresses, place, kind, width, block_warps, group, index, step, moved, rows, first, warp_first = accesses
    spent, arrives, lead, barriers, furthest, more, left, since_gap = timing
    to_the_end, phases = phasing
    sms, resident, sizes, halves, coalescer, region, latencies, launch_interval, warp_launch, block_launch, barrier_cycles = chip
    listed, seats = len(warp_first) > 1, sms * resident
    blocks = (len(warp_first) - 1) // block_warps if listed else len(group)
    both = empty_cache(sms * sizes[0][0], sizes[0][1]), empty_cache(*sizes[1])  # L1 and L2
    recent = np.full((3, (sms // coalescer[0] + 1) * _RECENT if coalescer[1] > 0 else 1), -1, np.int64)
    lines, masks = np.zeros(2 * LANES, np.int64), np.zeros(2 * LANES, np.int64)
    filled, filled_by = np.int64(1), np.zeros(seats)  # lines that have filled L2, and those that a block fills it with at its end
    block_of, passed, next_block = np.full(seats, -1, np.int64), np.zeros(seats, np.int64), np.int64(0)
    phase = np.zeros(seats, np.int64)
    slots = seats * block_warps
    position, time, state = np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.full(slots, _ENDED, np.int64)
    awaited = np.zeros((slots, furthest), np.int64)  # by position: from when on the data is there that a warp waits for at it
    queue = [np.int64(0) for _ in range(0)]  # warps by time
    brought = np.zeros((3, len(left)), np.int64)  # by position: accesses, and the lines that they brought into L1 and L2
    since, owed = np.zeros((slots, 2), np.int64), np.zeros((slots, 2))
    at_once = min(seats, blocks)
    warps = (-(-at_once // sms) * block_warps, at_once * block_warps)  # that share an L1, and L2
    for seat in range(min(seats, blocks)):
        block_of[seat] = next_block
        begin = np.int64(next_block * launch_interval)
        start_block(seat * block_warps, block_warps, begin, warp_launch, position, time, state, queue)
        next_block += 1
    while len(queue) > 0:
        slot = int(heapq.heappop(queue) & (1 << _SLOT_BITS) - 1)
        seat = slot // block_warps
        sm, block, at, begin = seat % sms, block_of[seat], position[slot], time[slot]
        warp = block * block_warps + slot - seat * block_warps
        if at >= 0:
            count, call = 0, at
            if listed:
                call = warp_first[warp] + at
                count = first[call + 1] - first[call]
                for k in range(count):
                    lines[k], masks[k] = rows[0, first[call] + k], rows[1, first[call] + k]
            else:
                lane, shift = (group[block] * block_warps + slot - seat * block_warps) * LANES, moved[block, call]
                for d in range(3):
                    shift += step[call, d] * index[block, d]
                if kind[call] & _LOCAL:
                    shift += slot * region
                count = lines_of(addresses[call, lane : lane + LANES], shift, width[call], lines, masks)
            if count > 0:
                what, before, here = kind[call] & ~_LOCAL, filled, (sm, phase[seat] * (1 - to_the_end[call]))
                beyond_l1, beyond_l2, arrival, filled, taken_in, together = access_caches(
                    lines, masks, count, what, here, begin, both, sizes, halves, latencies, filled, since[slot], recent, coalescer
                )
                filled_by[seat] += (filled - before) * (more[call] - 1.0)
                brought[0, at] += 1
                brought[1, at] += taken_in
                brought[2, at] += filled - before
                row = counts[np.int64(block >= settled), place[call]]
                row[0] += 1
                row[2] += beyond_l1
                row[4] += beyond_l2
                row[7] += together
                if beyond_l1 == 0:
                    row[1] += 1
                    row[5] += arrival - begin - latencies[0]
                elif beyond_l2 == 0:
                    row[3] += 1
                    row[6] += arrival - begin - latencies[1]
                if what != _STORE and arrives[at] > at:
                    due = arrives[at] % furthest
                    awaited[slot, due] = max(awaited[slot, due], arrival + lead[at])
        at += 1
        begin = max(begin + spent[at], awaited[slot, at % furthest])
        awaited[slot, at % furthest] = 0
        position[slot], time[slot] = at, begin
        if left[at] > 0:
            displaced = pass_gap(left[at], since_gap[at], at, brought, warps, sizes, owed[slot])
            if displaced[0]:
                since[slot, 0] = begin
            if displaced[1]:
                filled += 1
                since[slot, 1] = filled
        if at == (warp_first[warp + 1] - warp_first[warp] if listed else len(place)):
            state[slot] = _ENDED
        elif barriers[at] > passed[seat]:
            state[slot] = _AT_BARRIER
        else:
            heapq.heappush(queue, begin << _SLOT_BITS | slot)
            continue
        slots_here = range(seat * block_warps, (seat + 1) * block_warps)
        running, latest, reached = 0, np.int64(0), np.int64(_NO_BARRIER)
        for slot in slots_here:
            running += state[slot] == _RUNS
            latest = max(latest, time[slot])
            if state[slot] == _AT_BARRIER:
                reached = min(reached, barriers[position[slot]])
        if running > 0:
            continue
        if reached < _NO_BARRIER:
            passed[seat] = reached
            for slot in slots_here:
                if state[slot] == _AT_BARRIER and barriers[position[slot]] <= reached:
                    state[slot], time[slot] = _RUNS, latest + barrier_cycles
                    heapq.heappush(queue, time[slot] << _SLOT_BITS | slot)
        elif next_block < blocks:
            filled += np.int64(filled_by[seat])
            filled_by[seat] = 0.0
            if block < seats:
                latest += hashed(seat, latest)  # later waves are in no common phase
            if phases > 1:  # what the block before has accessed in the same phase is long ago
                phase[seat] = next_block // seats * phases + hashed(hashed(next_block, 1 << 30) + latest, phases)
            block_of[seat], passed[seat] = next_block, 0
            next_block += 1
            awaited[seat * block_warps : (seat + 1) * block_warps] = 0
            since[seat * block_warps : (seat + 1) * block_warps] = 0
            owed[seat * block_warps : (seat + 1) * block_warps] = 0.0
            begin = latest + block_launch
            start_block(seat * block_warps, block_warps, begin, warp_launch, position, time, state, queue)
