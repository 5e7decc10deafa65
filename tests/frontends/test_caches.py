"""Hits by walking addresses through caches: against counts by hand, and for the everyday kernels."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import warpsim as ws
from tests.support.listings import kernel, only
from warpsim.frontends.caches import recorder, reuse
from warpsim.frontends.caches.excerpt import Excerpt, excerpt
from warpsim.frontends.caches.recorder import Recorder
from warpsim.frontends.caches.reuse import _neighbours
from warpsim.frontends.caches.timing import NO_TIMES, Times, Timing
from warpsim.frontends.caches.walk import (
    BYPASS_L1,
    CACHED,
    STORE,
    Accesses,
    Caches,
    _by_instruction,
    caches_of,
    hits,
    notes_of_caches,
)
from warpsim.frontends.errors import AssumptionWarning
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.kernels.costs import access_transactions
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.traversal import walk

LANES = np.arange(32)
ONE_SM = Caches(resident=1, sms=1, l1_bytes=64 * 1024, l2_bytes=1 << 20)


class Resources:
    registers_per_thread, shared_bytes_per_block = 32, 0


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


def test_shared_memory_takes_its_part_of_the_data_cache():
    plain = caches_of(80, Resources(), 8)
    assert (plain.sms, plain.resident, plain.l1_bytes, plain.l2_bytes) == (108, 8, (192 - 32) * 1024, 40 * 2**20)

    class WithShared(Resources):
        shared_bytes_per_block = 11 * 1024

    assert caches_of(80, WithShared(), 8).l1_bytes == (192 - 100) * 1024  # 8 blocks of 12 KiB
    assert caches_of(70, Resources(), 8).l1_bytes == 128 * 1024
    assert caches_of(86, Resources(), 8, "a40").l2_bytes == 6 * 2**20
    assert caches_of(61, Resources(), 8) is None


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "kib", "set_aside"),
    [
        (75, 128, 32, 8, 64), (75, 1024, 32, 4, 32), (80, 1024, 32, 0, 8), (80, 256, 32, 0, 32), (80, 128, 210, 42, 100),
        (86, 256, 40, 0, 8), (86, 512, 40, 8, 32), (86, 256, 128, 8, 64), (86, 256, 255, 8, 16), (86, 1024, 32, 8, 16),
        (86, 256, 32, 16, 100), (89, 256, 40, 0, 16), (89, 128, 40, 0, 32), (89, 256, 128, 8, 64), (89, 256, 168, 16, 32),
        (90, 1024, 32, 0, 8), (90, 256, 64, 0, 32), (120, 256, 40, 4.125, 64), (120, 1024, 40, 4.125, 8),
    ],
)  # fmt: skip
def test_drivers_set_so_much_aside_for_shared_memory(arch, threads, registers, kib, set_aside):
    """As reports have it, apart from kernels of one launch alone."""

    class Given:
        registers_per_thread, shared_bytes_per_block = registers, round(kib * 1024)

    unified = {75: 96, 80: 192, 86: 128, 89: 128, 90: 256, 120: 128}[arch]
    assert caches_of(arch, Given(), threads // 32).l1_bytes == (unified - set_aside) * 1024


def test_a_named_chip_has_its_own_caches():
    """Also where the code is that of another architecture."""
    h100 = caches_of(80, Resources(), 8, "h100")
    assert (h100.l1_bytes, h100.l2_bytes, h100.halves) == ((256 - 32) * 1024, 50 * 2**20, 2)
    assert caches_of(90, Resources(), 8, "l40").l1_bytes == (128 - 16) * 1024
    assert caches_of(75, Resources(), 8, "rtx2080ti").l2_bytes == 5_767_168
    assert caches_of(61, Resources(), 8, "h100") == h100
    assert [*notes_of_caches(80, "h100"), *notes_of_caches(90), *notes_of_caches(80, "none")] == []


def chip(name, **other):
    return ws.load_gpu(name).model_copy(update={"name": "mine", **other})


@pytest.mark.parametrize(
    ("arch", "gpu", "l1_kib", "l2_of", "notes"),
    [
        (80, chip("h200"), 224, "h100", ["the L2 cache of mine is not known: that of h100, 50 MiB, stands for it"]),
        (90, chip("a40", architecture=None), 224, "h100", ["L1 cache of mine .* of sm_90 stands", "L2 .* of h100"]),
        (80, "titan_x", 184, "a100", ["L1 cache of titan_x .* of sm_80 stands", "L2 cache of titan_x .* of a100, 40 MiB"]),
        (80, chip("rtx5090", architecture="sm_100"), 224, "b200", ["the L2 cache of mine .*that of b200, 126.5 MiB"]),
        (80, chip("rtx5090", architecture="sm_103"), 224, "b200", ["L1 cache of mine .* of sm_100 stands", "L2 .* of b200"]),
    ],
)
def test_a_note_says_whose_caches_stand_for_those_that_are_not_known(arch, gpu, l1_kib, l2_of, notes):
    found = caches_of(arch, Resources(), 8, gpu)
    assert found.l1_bytes == l1_kib * 1024
    assert found.l2_bytes == caches_of(90, Resources(), 8, l2_of).l2_bytes
    said = list(notes_of_caches(arch, gpu))
    assert len(said) == len(notes) and all(re.search(*pair) for pair in zip(notes, said, strict=True))


def test_an_import_says_whose_caches_stand_for_others():
    with pytest.warns(AssumptionWarning, match="the L2 cache of mine is not known: that of a100, 40 MiB, stands for it"):
        kernel("EXIT", launch="1,32", caches=chip("a100"))
    with pytest.warns(AssumptionWarning, match="the caches of sm_61 are not known: no access hits"):
        kernel("EXIT", launch="1,32", arch=61)


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


def load(name, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = ws.load_kernel(f"cuda/{name}", **arguments)
    return [s for _, s in walk(kernel.body) if getattr(s, "op", "") in ("load", "store")]


def test_vector_operations_and_copies_do_not_hit():
    for one in (*load("vector_add"), *load("copy", function="copy_2")):
        assert one.access.l2_kept == (one.op == "store")  # the launches are small
        assert one.access.l1_hit == one.access.l2_hit == 0 and one.cost.requests is None


def test_a_transposition_stores_the_words_of_a_sector_one_after_another():
    """A block of 32 x 8 threads stores columns of 8 words, the words of a sector, in each of four instructions."""
    stores = [one for one in load("transpose_naive") if one.op == "store"]
    assert {one.access.l2_hit for one in stores} == {7 / 8}


@pytest.mark.parametrize(("words", "sectors"), [(0, 4), (4, 5 + 2), (8, 4)])
def test_l2_takes_in_sectors_that_two_warps_store_from_both(words, sectors):
    """Behind 4 words, a warp writes the halves of two sectors: memory moves each of these once, but L2 takes in both halves."""
    copy = """
        S2R R0, SR_CTAID.X
        S2R R2, SR_TID.X
        IMAD R0, R0, 0x80, R2
        IMAD.MOV.U32 R3, RZ, RZ, 0x4
        IMAD.WIDE R4, R0, R3, c[0x0][0x160]
        STG.E [R4.64+{}], R2
        EXIT"""
    (store,) = [one for one in only(kernel(*copy.format(hex(4 * words)).split("\n")[1:]), Instruction) if one.op == "store"]
    found = access_transactions(ws.load_gpu("a100"), store)
    assert found.requests * found.port_sectors == pytest.approx(sectors)
    assert found.requests * found.bytes_per_request == pytest.approx(4 * 32, rel=0.01)


def test_a_stencil_finds_the_rows_of_its_block_in_l1():
    """A block has 8 rows: 7 of its 8 warps find the row above, or below, in L1; nearly all others find it in L2.

    Stores displace a few rows. The grid is a single wave of an H100. Of a second wave, the rows of its neighbours in the first
    one are no more in L2.
    """
    accesses = [one.access for one in load("stencil", caches="h100") if one.op == "load"]
    rows = [one for one in accesses if abs(one.l1_hit - 7 / 8) < 0.01]  # blocks at the edges find a little less
    assert len(rows) >= 8 and min(one.l2_hit for one in rows) > 0.95


def test_blocks_that_differ_by_where_instructions_begin_are_walked_on_all_sms():
    """Blocks of a row of tiles share its data: block n of 2048 loads row n / 64, and column n % 64, trip by trip.

    An A100 has 108 SMs; some hundred blocks run together. A row is loaded by 64 of them, and a column by two to eight.
    """
    tile = (
        "S2R R0, SR_CTAID.X", "SHF.R.U32.HI R6, RZ, 0x6, R0", "LOP3.LUT R7, R0, 0x3f, RZ, 0xc0, !PT", "S2R R1, SR_TID.X",
        "MOV R9, RZ", "LEA R10, R6, R1, 0xc", "LEA R11, R7, R1, 0xc", "IMAD.MOV.U32 R3, RZ, RZ, 0x4",
        "IADD3 R11, R11, 0x4000000, RZ", "IMAD.WIDE R12, R10, R3, c[0x0][0x160]", "IMAD.WIDE R14, R11, R3, c[0x0][0x160]",
    )  # fmt: skip
    loop = (
        ".L_loop:", "LDG.E R4, [R12.64]", "LDG.E R5, [R14.64]", "IADD3 R12, P1, R12, 0x200, RZ",
        "IADD3.X R13, RZ, R13, RZ, P1, !PT", "IADD3 R14, P1, R14, 0x200, RZ", "IADD3.X R15, RZ, R15, RZ, P1, !PT",
        "IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P0, PT, R9, 0x20, PT", "@!P0 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    found = kernel(*tile, *loop, launch="2048,128", caches="a100")
    row, column = (one.access.l2_hit for _, one in walk(found.body) if getattr(one, "op", "") == "load")
    assert row > 0.97 and 0.8 < column < 0.99


EDGES = {
    "rows of which the last block has fewer threads": (
        """
        __global__ void scale(float *x, const float *y)
        {
            int row = blockIdx.y, column = blockIdx.x * 128 + threadIdx.x;
            if (column < 300)
                x[(blockIdx.z * 64 + row) * 300 + column] = y[row % 5 * 300 + column];
        }""",
        ((3, 64, 16), 128),
    ),
    "planes with guards at all sides": (
        """
        __global__ void left_and_above(float *x, const float *y)
        {
            int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
            if (row >= 40 || column >= 40)
                return;
            float sum = 0;
            if (row > 0 && column > 0)
                sum = y[(blockIdx.z % 4 * 40 + row - 1) * 40 + column - 1];
            x[(blockIdx.z * 40 + row) * 40 + column] = sum;
        }""",
        ((3, 3, 128), (16, 16)),
    ),
}


@pytest.mark.parametrize("which", EDGES)
def test_blocks_at_the_edges_of_a_small_grid_stand_for_those_of_their_shape(compiler, which, monkeypatch):
    """The same is found as if all blocks were executed."""

    def hits_of_accesses():
        kernel = ws.kernels.from_cuda(source, "sm_80", launch=launch)
        return np.array([(one.access.l1_hit, one.access.l2_hit) for one in only(kernel, Instruction) if one.access])

    source, launch = EDGES[which]
    of_all = hits_of_accesses()  # as a small launch
    with monkeypatch.context() as patch:
        patch.setattr(reuse, "_SHARE_OF_SMALL_LAUNCHES", 0)
        patch.setattr(reuse, "_walked_as_recorded", None)
        assert hits_of_accesses() == pytest.approx(of_all, abs=0.01)
    monkeypatch.setattr(Recorder, "first_patterns", lambda recorder: None)
    assert hits_of_accesses() == pytest.approx(of_all, abs=0.01)
    assert of_all.max() > 0.85


def test_blocks_of_a_few_sms_are_as_far_apart_as_the_chip_has_sms(compiler, monkeypatch):
    """Blocks of one SM of an A100, which has 108, read the same rows of `y` here, and those of neighbouring SMs do not."""
    source = """
    __global__ void sums(float *x, const float *y, int trips)
    {
        const float *row = y + blockIdx.x % 108 * 4096 + threadIdx.x;
        float sum = 0;
        for (int i = 0; i < trips; i++)
            sum += row[i * 128];
        x[blockIdx.x * 128 + threadIdx.x] = sum;
    }"""
    for name, value in (("_SHARE_OF_SMALL_LAUNCHES", 0), ("FEW_THREADS", 16384)):
        monkeypatch.setattr(reuse, name, value)
    monkeypatch.setattr(recorder, "_MOST_ADDRESSES", 100_000)
    for name in ("moved_by_instruction", "moved_by_call"):
        monkeypatch.setattr(reuse, name, lambda *_: None)
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=(1728, 128), args={"trips": 32})
    assert min(one.access.l1_hit for one in only(kernel, Instruction) if one.op == "load") > 0.8


def test_the_first_trips_of_a_loop_do_not_stand_for_all_in_l1(compiler):
    """A window of 512 words slides over a vector: of its 16 lines, each warp finds all but one where another one has read them.

    The first trips find nothing; a warp loads a line in 32 trips, in which others are before it in all but some.
    """
    source = """
    __global__ void sums(const float *x, float *y, int window)
    {
        int i = blockIdx.x * 256 + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < window; k++)
            sum += x[i + k];
        y[i] = sum;
    }"""
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=(1728, 256), args={"window": 512})
    loads = [one.access for one in only(kernel, Instruction) if one.op == "load"]
    assert min(load.l1_hit for load in loads) > 0.85


def table_that_blocks_wrap_around_in(*before_the_loop):
    """The load of blocks that go through a table of 8 MiB in 16 trips, each from its own place on, and wrap around.

    Of the 2,048 parts of 4 KiB, block b loads number b + 128 k in trip k.
    """
    begin = (
        "S2R R0, SR_CTAID.X", "S2R R1, SR_TID.X", "LEA R10, R0, R1, 0x8", "MOV R9, RZ", "MOV R8, 0x10",
        "IMAD.MOV.U32 R3, RZ, RZ, 0x10",
    )  # fmt: skip
    loop = (
        ".L_loop:", "LOP3.LUT R11, R10, 0x7ffff, RZ, 0xc0, !PT", "IMAD.WIDE R12, R11, R3, c[0x0][0x160]",
        "LDG.E.128 R4, [R12.64]", "IADD3 R10, R10, 0x8000, RZ", "IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P0, PT, R9, R8, PT",
        "@!P0 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    found = kernel(*begin, *before_the_loop, *loop, launch="4096,256", caches="a100")
    (access,) = (one.access for one in only(found, Instruction) if one.op == "load")
    return access


@pytest.mark.parametrize("rows", [64, 60])
def test_blocks_beyond_the_end_of_the_data_are_left_out(compiler, rows):
    """All blocks share five rows of `y`, 7,680 bytes, which L2 brings in once, whether or not some blocks have no row of `x`."""
    source = """
    __global__ void scale(float *x, const float *y, int rows)
    {
        int row = blockIdx.y, column = blockIdx.x * 128 + threadIdx.x;
        if (row < rows)
            x[(blockIdx.z * rows + row) * 384 + column] = y[row % 5 * 384 + column];
    }"""
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=((3, 64, 16), 128), args={"rows": rows})
    load, store = (one.access for one in only(kernel, Instruction) if one.op in ("load", "store"))
    assert load.l2_hit > 0.95 and store.l2_hit == 0.0


def test_blocks_that_differ_by_where_each_call_begins_are_walked_on_all_sms():
    """Each part is loaded by 32 blocks on 108 SMs, and the table stays in L2."""
    access = table_that_blocks_wrap_around_in()
    assert access.l1_hit < 0.2 and access.l2_hit > 0.95


@pytest.mark.parametrize("few", [False, True])
def test_blocks_whose_threads_are_apart_by_their_index_are_walked_on_as_many_sms_as_can_be(few, monkeypatch):
    """All blocks share the table; of those of a few SMs, each is the first to load most of its parts."""
    if few:
        monkeypatch.setattr(recorder, "_MOST_ADDRESSES", 16384 * 16)
    assert (table_that_blocks_wrap_around_in("IMAD R10, R0, R1, R10").l2_hit < 0.9) == few


@pytest.mark.parametrize("each_instruction", [False, True])
def test_a_walk_that_comes_to_no_access_finds_no_hits(each_instruction, monkeypatch):
    """Blocks whose addresses are not affine are executed together, each up to fewer instructions: here 20 of four blocks,
    and five of those of an SM. They may be more as long as accesses are missing.
    """
    for name in ("_MOST_WORK",) if each_instruction else ("_MOST_WORK", "_MOST_WORK_FOR_EACH"):
        monkeypatch.setattr(recorder, name, 5 * 128 * 20)
    square = "--:-:0:-:1 S2R R0, SR_CTAID.X", "--:-:0:-:1 S2R R5, SR_TID.X", "01:-:-:Y:5 IMAD R0, R0, R5, RZ"
    address = "IMAD.MOV.U32 R3, RZ, RZ, 0x4", "--:-:-:Y:5 IMAD.WIDE R2, R0, R3, c[0x0][0x160]"
    loads = "--:-:0:-:4 LDG.E R4, [R2.64]", "01:-:0:-:4 LDG.E R4, [R2.64]", "01:-:-:-:5 EXIT"
    found = kernel(*square, *address, *loads, launch="4096,128", caches="a100")
    first, again = (one.access for one in only(found, Instruction) if one.op == "load")
    assert first.l2_hit < 0.2 and again.l2_hit == each_instruction


def test_caches_can_be_those_of_a_chip_or_none():
    assert all(one.access.l1_hit == one.access.l2_hit == 0 for one in load("transpose_naive", caches="none"))
    found = {caches: load("matmul_naive", caches=caches)[0].access.l2_hit for caches in ("a100", "none")}
    assert found["a100"] > found["none"] == 0
    with pytest.raises(ValueError, match="h1000"):
        load("vector_add", caches="h1000")


@pytest.mark.parametrize("size", [4, 5, 7, 8, 9, 100])
def test_blocks_that_stand_for_the_others_are_no_ones_at_an_edge(size):
    """Guards leave out threads of blocks at the edges, whose masks would look as if addresses were not affine."""
    met = _neighbours(as_geometry(((size, size, size), 128)))
    assert len(set(met)) == len(met) >= 5
    assert size < 7 or max(block[0] for block in met) - min(block[0] for block in met) > size / 3
    assert all(0 < coordinate < size - 1 for block in met for coordinate in block)
