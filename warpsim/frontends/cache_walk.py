"""The compiled part of `caches`: set-associative caches of sectored lines, and warps that take turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from warpsim.engine.code_cache import keep_code
from warpsim.engine.jit import CACHE_FOLDER

LINE_SHIFT, SECTOR_SHIFT, SECTORS, LANES = 7, 5, 4, 32
_CACHED, _STORE = 0, 2  # the kinds of `caches`
_DIRTY = SECTORS  # bit of the first sector that has been stored


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function compiled; its machine code is kept as the engine's is."""
    fast: Callable[..., Any] = numba.njit(function)
    if CACHE_FOLDER is not None and fast is not function:  # numba returns the function itself if it must not compile
        keep_code(fast, CACHE_FOLDER)
    return fast


@compiled
def hashed(line, sets):  # type: ignore[no-untyped-def]
    """Returns the set of a line in a cache that spreads its lines evenly."""
    mixed = np.uint64(line) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(33)) % np.uint64(sets))


@compiled
def place_of(tags, used, bits, first, ways, line, now):  # type: ignore[no-untyped-def]
    """Returns where a line of a set is, or where it goes instead of the line that was used longest ago, then without sectors."""
    oldest = first
    for way in range(first, first + ways):
        if tags[way] == line:
            used[way] = now
            return way
        if used[way] < used[oldest]:
            oldest = way
    tags[oldest], bits[oldest], used[oldest] = line, 0, now
    return oldest


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
        all_lines[at : at + count], all_masks[at : at + count] = lines[:count], masks[:count]
        at += count
    return all_lines, all_masks, counts


@compiled
def sectors_in(mask):  # type: ignore[no-untyped-def]
    """Returns the number of sectors of a mask."""
    count = 0
    for sector in range(SECTORS):
        count += mask >> sector & 1
    return count


@compiled
def walk(  # type: ignore[no-untyped-def]
    addresses, place, kind, width, block_warps, group, index, step, rows, first, warp_first,
    settled, sms, resident, l1_sets, l2_sets, ways, counts,
):
    """Walks the accesses of blocks; the other arguments are those of `caches.hits`.

    The accesses are given by `addresses` (`caches.Accesses`), or by lines and masks in `rows`, which begin at `first` for each
    access and at `warp_first` for each warp. Adds to counts[instruction]: accesses; those that L1 serves in full; sectors that
    L1 misses; of the accesses that miss, those that L2 serves in full; sectors that miss both.
    """
    listed = len(warp_first) > 1
    calls, blocks = len(place), (len(warp_first) - 1) // block_warps if listed else len(group)
    seats = np.full((resident, sms), -1, np.int64)
    following = np.zeros(blocks * block_warps, np.int64)  # the next call of each warp
    l1_tags, l1_used = np.full((sms, l1_sets * ways), -1, np.int64), np.zeros((sms, l1_sets * ways), np.int64)
    l1_bits = np.zeros((sms, l1_sets * ways), np.int64)
    l2_tags, l2_used = np.full(l2_sets * ways, -1, np.int64), np.zeros(l2_sets * ways, np.int64)
    l2_bits = np.zeros(l2_sets * ways, np.int64)
    lines, masks = np.zeros(2 * LANES, np.int64), np.zeros(2 * LANES, np.int64)
    next_block, left, now = 0, blocks, 1
    while left > 0:
        for seat in range(resident):
            for sm in range(sms):
                block = seats[seat, sm]
                if block < 0 and next_block < blocks:
                    block = seats[seat, sm] = next_block
                    next_block += 1
                if block < 0:
                    continue
                working = False
                for in_block in range(block_warps):
                    warp = block * block_warps + in_block
                    lane = 0 if listed else (group[block] * block_warps + in_block) * LANES
                    call, count = following[warp], 0
                    if listed and warp_first[warp] + call < warp_first[warp + 1]:
                        row = warp_first[warp] + call
                        count = first[row + 1] - first[row]
                        for k in range(count):
                            lines[k], masks[k] = rows[0, first[row] + k], rows[1, first[row] + k]
                        following[warp] = call + 1
                        call = row + 1
                    while not listed and call < calls and count == 0:
                        shift = 0
                        for d in range(3):
                            shift += step[call, d] * index[block, d]
                        count = lines_of(addresses[call, lane : lane + LANES], shift, width[call], lines, masks)
                        call += 1
                    if not listed:
                        following[warp] = call
                    if count == 0:
                        continue
                    working = True
                    beyond_l1, beyond_l2, what = 0, 0, kind[call - 1]
                    for k in range(count):
                        missing = masks[k]
                        if what == _CACHED:
                            begin = hashed(lines[k], l1_sets) * ways
                            way = place_of(l1_tags[sm], l1_used[sm], l1_bits[sm], begin, ways, lines[k], now)
                            missing &= ~l1_bits[sm, way]
                            l1_bits[sm, way] |= missing
                        if missing:
                            beyond_l1 += sectors_in(missing)
                            way = place_of(l2_tags, l2_used, l2_bits, hashed(lines[k], l2_sets) * ways, ways, lines[k], now)
                            there = l2_bits[way] >> _DIRTY if what == _STORE else l2_bits[way]
                            beyond_l2 += sectors_in(missing & ~there)
                            l2_bits[way] |= missing << _DIRTY | missing if what == _STORE else missing
                        now += 1
                    if block >= settled:
                        row = counts[place[call - 1]]
                        row[0] += 1
                        row[1] += beyond_l1 == 0
                        row[2] += beyond_l1
                        row[3] += beyond_l1 > 0 and beyond_l2 == 0
                        row[4] += beyond_l2
                if not working:
                    seats[seat, sm] = -1
                    left -= 1
