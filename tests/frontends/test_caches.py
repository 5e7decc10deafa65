"""Hits by walking addresses through caches: against counts by hand."""

from dataclasses import replace

import numpy as np
import pytest

from warpsim.frontends.caches.excerpt import Excerpt, excerpt
from warpsim.frontends.caches.timing import NO_TIMES, Times, Timing
from warpsim.frontends.caches.walk import (
    BYPASS_L1,
    CACHED,
    STORE,
    Accesses,
    Caches,
    _by_instruction,
    hits,
)

LANES = np.arange(32)
ONE_SM = Caches(resident=1, sms=1, l1_bytes=64 * 1024, l2_bytes=1 << 20)


def accesses(*calls, width=4, kind=CACHED):
    """Accesses of blocks of one warp: each call is the instruction's number and one row of 32 addresses for each block."""
    rows = np.stack([np.concatenate(np.atleast_2d(rows)) for _, rows in calls]).astype(np.int64)
    count = len(calls)
    place = np.array([number for number, _ in calls], np.int64)
    kinds = np.full(count, kind, np.int64) if isinstance(kind, int) else np.array(kind, np.int64)
    blocks = rows.shape[1] // 32
    none = np.zeros((max(blocks, count), 3), np.int64)
    given = rows, place, kinds, np.full(count, width, np.int64), 1, np.arange(blocks), none[:blocks], none[:count]
    return Accesses(*given, np.zeros((blocks, count), np.int64), Timing.in_turn(count))


def test_a_copy_never_hits():
    found = hits(accesses(*((0, 128 * n + 4 * LANES) for n in range(64))), ONE_SM, 1, 1)
    assert found[0].l1 == found[0].l2 == 0
    assert found[0].sectors == 4


def test_reads_of_a_gpc_go_together_within_a_window():
    """Blocks start 10 cycles apart, each on its own SM, and load one line; of a GPC, those within 25 cycles go together."""
    same = accesses((0, np.tile(4 * LANES, (8, 1))))
    chip = replace(ONE_SM, sms=8, gpc_sms=4, window=25, times=Times(l2=200, memory=(600,), launch_interval=10.0))
    found = hits(same, chip, 8, 8)
    # in each GPC the second and the third go with the first; the fourth, 30 cycles later, reads again
    assert found[0].coalesced == 4 / 8
    assert hits(same, replace(chip, window=31), 8, 8)[0].coalesced == 6 / 8
    assert hits(same, replace(chip, gpc_sms=8, window=71), 8, 8)[0].coalesced == 7 / 8
    assert hits(same, replace(chip, window=0), 8, 8)[0].coalesced == 0
    assert hits(same, replace(chip, times=NO_TIMES), 8, 8)[0].coalesced == 0
    other_sectors = accesses((0, np.array([64 * (n % 2) + 4 * (LANES % 8) for n in range(8)])))
    assert hits(other_sectors, replace(chip, gpc_sms=8), 8, 8)[0].coalesced == 0
    assert hits(accesses((0, np.tile(4 * LANES, (8, 1))), kind=STORE), chip, 8, 8)[0].coalesced == 0


def test_the_sectors_of_a_strided_access_are_used_by_the_next_ones():
    """Eight loads whose threads are 32 bytes apart read the eight words of the same 32 sectors."""
    found = hits(accesses(*((0, 32 * LANES + 4 * n) for n in range(8))), ONE_SM, 1, 1)
    assert (found[0].l1, found[0].l2, found[0].sectors) == (7 / 8, 0, 32)


def test_a_stencil_reads_its_neighbours_from_l1():
    """x[i-1], x[i] and x[i+1] by consecutive warps: but for the first, x[i] has its sectors by then; x[i+1] needs one more."""
    calls = [(part, 128 * n + 4 * (LANES + part)) for n in range(10) for part in range(3)]
    found = hits(accesses(*calls), ONE_SM, 1, 1)
    # x[i-1] of the first warp misses four sectors, later three (x[i+1] has read the first), of which L2 has one, as memory has
    # moved a pair; x[i] misses the sector after them.
    assert found[0].l1 == 0 and found[0].sectors == pytest.approx((4 + 9 * 2) / 10)
    assert found[1].l1 == 0 and found[1].sectors == 2
    assert found[2].l1 == 1


@pytest.mark.parametrize(("lines", "share"), [(16, 0.5), (17, 0.0)])
def test_the_line_used_longest_ago_is_replaced(lines, share):
    small = Caches(resident=1, sms=1, l1_bytes=16 * 128, l2_bytes=1 << 20)
    calls = [(0, np.where(LANES == 0, 128 * n, -1)) for n in [*range(lines)] * 2]
    found = hits(accesses(*calls), small, 1, 1)
    assert found[0].l1 == share
    assert found[0].l2 * (1 - share) == pytest.approx(0.5 - share)  # L2 has all of them in the second round


def test_the_sms_share_l2_and_each_has_its_own_l1():
    rows = np.stack([4 * LANES, 4 * LANES])
    two = Caches(resident=1, sms=2, l1_bytes=64 * 1024, l2_bytes=1 << 20)
    found = hits(accesses((0, rows), (0, rows)), two, 2, 2)
    assert (found[0].l1, found[0].l2) == (0.5, 0.5)
    on_one = hits(accesses((0, rows), (0, rows)), ONE_SM, 1, 2)
    assert (on_one[0].l1, on_one[0].l2) == (0.75, 0.0)


def test_a_slice_has_its_share_of_l2():
    chip = Caches(resident=1, sms=8, l1_bytes=4096, l2_bytes=8 * 16 * 128)
    calls = [(0, np.where(LANES == 0, 128 * n, -1)) for n in [*range(16)] * 2]
    bypassing = accesses(*calls, kind=BYPASS_L1)
    assert hits(bypassing, chip, 1, 8)[0].l2 == 0.5  # 16 lines of 128
    more = accesses(*((0, np.where(LANES == 0, 128 * n, -1)) for n in [*range(17)] * 2), kind=BYPASS_L1)
    assert hits(more, chip, 1, 8)[0].l2 == 0.0
    assert hits(more, chip, 1, 1)[0].l2 > 0.4  # a single block has all of L2


def test_only_overwritten_stores_hit():
    calls = ((0, 4 * LANES), (1, 4 * LANES), (1, 4 * LANES), (2, 4 * LANES))
    found = hits(accesses(*calls, kind=[CACHED, STORE, STORE, CACHED]), ONE_SM, 1, 1)
    assert (found[1].l1, found[1].l2) == (0, 0.5)
    assert found[2].l1 == 1


def test_stores_take_room_in_l1_and_leave_their_data_there():
    """A set of 16 lines: 10 lines are loaded, 10 others stored, and both loaded again, the stored ones first."""
    one_set = replace(ONE_SM, l1_bytes=16 * 128)
    rows = [128 * n + 4 * LANES for n in range(20)]
    first = [*((0, row) for row in rows[:10]), *((1, row) for row in rows[10:])]
    again = [*((2, row) for row in rows[10:]), *((3, row) for row in rows[:10])]
    found = hits(accesses(*first, *again, kind=[CACHED] * 10 + [STORE] * 10 + [CACHED] * 20), one_set, 1, 1)
    assert found[2].l1 == 1
    assert found[3].l1 == 0  # four of them were displaced, and each that comes in displaces the next one


def test_an_l2_of_halves_copies_what_its_sms_load_from_the_other_half():
    """Two SMs, one in each half, load the same lines, and again: L2 has room for one copy of each line, but not for two."""
    lines = 6144
    rows = [128 * n + 4 * LANES for n in range(lines)]
    calls = [(again, np.tile(row, (2, 1))) for again in (0, 1) for row in rows]
    two_sms = replace(ONE_SM, sms=2, l1_bytes=2048)
    in_one, in_halves = (hits(accesses(*calls), replace(two_sms, halves=halves), 2, 2)[1].l2 for halves in (1, 2))
    assert in_one > 0.99 and in_halves < 0.6


def test_a_launch_that_fits_into_l2_leaves_its_stores_there():
    rows = [(4 * n + 4 * LANES) for n in range(0, 8 * 32, 32)]
    copy = accesses(*((number, 4096 * number + row) for row in rows for number in (0, 1)), kind=[CACHED, STORE] * 8)
    assert hits(copy, ONE_SM, 1, 1)[1].kept == 1 and hits(copy, ONE_SM, 1, 1)[0].kept == 0


@pytest.mark.parametrize(("halves", "part", "kept"), [(1, 1.0, 1 / 2), (2, 1.0, 2 / 5), (1, 0.5, 1 / 4), (1, 0.0, 0)])
def test_what_came_last_stays_in_l2(halves, part, kept):
    """Each of 512 blocks loads and stores 2 KiB; L2 has 1 MiB. What is loaded is copied every other time in an L2 of halves."""
    rows = [(number, 65536 * number + 128 * n + 4 * LANES) for n in range(16) for number in (0, 1)]
    moving = replace(
        accesses(*rows, kind=[CACHED, STORE] * 16),
        group=np.zeros(8, np.int64), index=np.arange(8)[:, None] * [1, 0, 0], step=np.full((32, 3), 2048),
        moved=np.zeros((8, 32), np.int64),
    )  # fmt: skip
    found = hits(moving, replace(ONE_SM, halves=halves), 1, 512, Excerpt.of_equal(32, part or 1.0), complete=part > 0)
    assert found[1].kept == pytest.approx(kept) and found[1].l2 == 0


def test_the_last_wave_stands_for_all_later_ones():
    rows = np.stack([4 * LANES, 4 * LANES])
    assert hits(accesses((0, rows)), ONE_SM, 1, 100)[0].l1 == pytest.approx(0.99)
    assert hits(accesses((0, rows)), ONE_SM, 1, 2)[0].l1 == 0.5


TIMES = Times(l1=30, l2=200, memory=(600,))


def at_once(sms, resident):
    """The caches of some SMs whose blocks start together."""
    return Caches(resident=resident, sms=sms, l1_bytes=64 * 1024, l2_bytes=1 << 20, times=TIMES)


def with_timing(given, **fields):
    return replace(given, timing=replace(given.timing, **{name: np.array(values) for name, values in fields.items()}))


def test_memory_moves_pairs_of_sectors():
    found = hits(accesses((0, 64 * LANES), (1, 64 * LANES + 32), kind=BYPASS_L1), ONE_SM, 1, 1)
    assert (found[0].l2, found[0].sectors) == (0, 64) and found[1].l2 == 1


def test_data_that_is_on_its_way_is_late():
    rows = np.stack([4 * LANES, 4 * LANES])
    from_other_sm = hits(accesses((0, rows)), at_once(2, 1), 2, 2)[0]
    assert (from_other_sm.l1, from_other_sm.l2, from_other_sm.l2_late) == (0, 0.5, 600 - 200)
    from_same_sm = hits(accesses((0, rows)), at_once(1, 2), 1, 2)[0]
    assert (from_same_sm.l1, from_same_sm.l1_late) == (0.5, 600 - 30)


@pytest.mark.parametrize(("arrives", "late"), [(0, 600 - 30 - 1), (1, 0)])
def test_a_warp_that_has_waited_finds_the_data(arrives, late):
    twice = with_timing(accesses((0, 4 * LANES), (1, 4 * LANES)), arrives=[arrives, 0])
    assert hits(twice, at_once(1, 1), 1, 1)[1].l1_late == late


def test_instructions_between_accesses_take_their_time():
    given = accesses((0, 4 * LANES), (1, 4 * LANES), (2, 4 * LANES + 4096))
    spent = with_timing(given, spent=[1, 250, 1, 1])
    assert hits(spent, at_once(1, 1), 1, 1)[1].l1_late == 600 - 30 - 250
    other = 4096 + 4 * LANES
    late_wait = with_timing(accesses((0, 4 * LANES), (1, other), (2, other)), arrives=[1, 0, 0], lead=[70, 0, 0])
    assert hits(late_wait, at_once(1, 1), 1, 1)[2].l1_late == 600 - 30 - 1
    assert hits(with_timing(late_wait, spent=[1, 1, 70, 1]), at_once(1, 1), 1, 1)[2].l1_late == 600 - 30 - 70


@pytest.mark.parametrize(("barriers", "late"), [([0, 0, 0], (600 - 30 - 1) / 2), ([0, 1, 1], 0)])
def test_warps_meet_at_barriers(barriers, late):
    """Warp 0 loads a line and waits for it; then both warps of the block load it."""
    of_one = np.concatenate([4 * LANES, np.full(32, -1)])
    both = np.concatenate([4 * LANES, 4 * LANES])
    given = accesses((0, of_one), (1, both))
    given = replace(given, block_warps=2, group=np.zeros(1, np.int64), index=np.zeros((1, 3), np.int64), moved=given.moved[:1])
    given = with_timing(given, arrives=[1, 0], barriers=barriers)
    assert hits(given, at_once(1, 1), 1, 1)[1].l1_late == pytest.approx(late, abs=1)


def test_later_waves_are_in_no_common_phase():
    """The blocks of a wave load a line that they share, and eight others. In the first wave all but one find it on its way."""
    shared = (0, np.stack([131072 * (block // 16) + 4 * LANES for block in range(128)]))
    own = [(1, np.stack([(1 << 30) + (block << 14) + (n << 10) + 4 * LANES for block in range(128)])) for n in range(8)]
    given = with_timing(accesses(shared, *own), arrives=[*range(1, 10)])
    first = replace(given, group=given.group[:16], index=given.index[:16], moved=given.moved[:16])
    assert hits(first, at_once(16, 1), 16, 16)[0].l2_late == 600 - 200
    assert 0 < hits(given, at_once(16, 1), 16, 1600)[0].l2_late < 0.6 * (600 - 200)


def test_accesses_that_are_left_out_fill_l2_too():
    """Each block loads a line that all share, and six others; L2 has 16 lines."""
    small = Caches(resident=1, sms=1, l1_bytes=2048, l2_bytes=16 * 128)
    shared = (0, np.stack([4 * LANES] * 4))
    own = [(1, np.stack([4096 * (7 * block + n + 1) + 4 * LANES for block in range(4)])) for n in range(6)]
    given = accesses(shared, *own, kind=BYPASS_L1)
    assert hits(given, small, 1, 4)[0].l2 == 0.75
    assert hits(given, small, 1, 4, Excerpt.of_equal(7, 0.25))[0].l2 == 0
    own_ones_are_all = replace(Excerpt.of_equal(7, 0.25), more=np.array([4.0, *[1.0] * 6]))
    assert hits(given, small, 1, 4, own_ones_are_all)[0].l2 == 0.75


@pytest.mark.parametrize(("resident", "blocks"), [(1, 4), (2, 8)])
def test_blocks_of_which_a_part_is_walked_share_in_l1_what_they_access_to_their_ends(resident, blocks):
    """All read the same four lines, of two thousand calls. Each time they are in L1, or in the part of a block long ago."""
    chip = replace(ONE_SM, resident=resident)
    given = accesses(*((n, np.stack([128 * n + 4 * LANES] * blocks)) for n in range(4)))
    found = [
        hits(given, chip, 1, 1000, replace(Excerpt.of_equal(4, part), to_the_end=np.full(4, to_the_end)))[0]
        for part, to_the_end in ((1.0, False), (1 / 500, True), (1 / 500, False))
    ]
    assert found[0].l1 == found[1].l1 > 0.99
    assert found[2].l1 < 0.01 and found[2].l2 > 0.99


def test_an_excerpt_says_how_many_lines_are_left_out_and_which_stay():
    """An instruction reads a line a call, another one a word after another, and a third one the same line each time."""
    ways = (0, 128), (2**20, 4), (2**30, 0)
    rows = [(number, base + step * n + 0 * LANES) for n in range(128) for number, (base, step) in enumerate(ways)]
    few = np.arange(3 * 16)
    found = excerpt(rows, 32, few, 3.0 * 112)
    assert found.part == 1 / 8
    assert found.more[:3].tolist() == [8, 4, 1] and found.to_the_end.reshape(-1, 3).all(axis=0).tolist() == [False, False, True]
    assert not found.to_the_end.reshape(-1, 3)[:, :2].any()
    assert found.lines == 128 + 4 + 1 and found.own == 1.0
    twice = excerpt(rows, 32, few, 3.0 * 240)  # as many calls again are not among the rows
    assert twice.part == 1 / 16 and twice.more[:3].tolist() == [16, 8, 2]


def test_the_last_ones_of_the_calls_that_are_walked_stand_for_those_that_are_left_out():
    """All read one line. The first call finds empty caches, and ten are walked of a hundred."""
    calls = [(0, 4 * LANES)] * 10
    given = accesses(*[(0, 4 * LANES[None])] * 10)
    few = excerpt(calls, 32, np.arange(10), 90.0)
    assert few.stands_for.tolist() == [1.0] * 6 + [23.5] * 4
    assert hits(given, ONE_SM, 1, 1, few)[0].l1 == 0.99
    assert excerpt(calls, 32, np.arange(10), 0.0).stands_for.tolist() == [1.0] * 10


def test_data_is_late_as_long_on_average_as_in_all_calls_that_are_walked():
    """The second call of an instruction stands for nine. Half of the accesses of the first one hit L1, and all of the second."""
    calls = np.zeros((3, 8))
    calls[:2, 0], calls[:2, 1], calls[:2, 5] = 8, (4, 8), (40, 320)
    calls[2] = 1
    found = _by_instruction(calls, np.array([0, 0, 1]), np.array([1.0, 9.0, 1.0]))
    assert found[0, [0, 1]].tolist() == [80, 76] and found[0, 5] / found[0, 1] == pytest.approx(360 / 12)
    assert found[1].tolist() == [1] * 8
    assert excerpt([(0, np.full(32, -1))], 32, np.array([0]), 0.0).more.tolist() == [0]


def test_affine_addresses_stand_for_those_of_all_blocks():
    calls = [(0, 128 * n + 4 * LANES) for n in range(3)]
    one = accesses(*calls)
    index = np.array([[n, 0, 0] for n in range(4)])
    none = np.zeros(4, np.int64)
    moving = replace(one, group=none, index=index, step=np.array([[256, 0, 0]] * 3), moved=np.zeros((4, 3), np.int64))
    moved = np.repeat(np.arange(0, 1024, 256)[:, None], 3, axis=1)
    by_call = replace(one, group=none, index=0 * index, step=np.zeros((3, 3), np.int64), moved=moved)
    written_out = accesses(*((0, np.stack([256 * b + row for b in range(4)])) for _, row in calls))
    two = replace(ONE_SM, sms=2)
    assert hits(moving, two, 2, 4) == hits(by_call, two, 2, 4) == hits(written_out, two, 2, 4)
    assert hits(moving, two, 2, 4)[0].l2 > 0
