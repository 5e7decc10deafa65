"""Walks through the caches of kernels that make more accesses than are walked: what comes late has its hits, too."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tests.frontends.test_caches import LANES, ONE_SM, accesses
from tests.support.listings import function, kernel
from warpsim.frontends.caches import recorder, reuse
from warpsim.frontends.caches.excerpt import Excerpt
from warpsim.frontends.caches.recorder import Recorder
from warpsim.frontends.caches.walk import hits
from warpsim.frontends.errors import AssumptionWarning
from warpsim.frontends.execution.evaluate import evaluate
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.launch.parameters import argument_bytes
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.waits.dependences import waits_of
from warpsim.kernels.traversal import walk

BEGIN = (
    "S2R R0, SR_CTAID.X", "S2R R1, SR_TID.X", "IMAD R0, R0, c[0x0][0x0], R1", "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]",
    "MOV R12, R2", "MOV R13, R3",
)  # fmt: skip
OWN_ROW = ("SHF.L.U32 R4, R0, 0xc, RZ", "IADD3 R12, P1, R12, R4, RZ", "IADD3.X R13, RZ, R13, RZ, P1, !PT")


def loop(label, trips, *body):
    close = ("IADD3 R9, R9, 0x1, RZ", f"ISETP.GE.AND P0, PT, R9, {trips:#x}, PT", f"@!P0 BRA `({label})")
    return ("MOV R9, RZ", f"{label}:", *body, *close)


def reading(label, trips):
    """A loop that reads one word after another, from the place in R12 on."""
    step = ("LDG.E R5, [R6.64]", "IADD3 R6, P1, R6, 0x4, RZ", "IADD3.X R7, RZ, R7, RZ, P1, !PT")
    return ("MOV R6, R12", "MOV R7, R13", *loop(label, trips, *step))


def found(*rows, launch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = kernel(*BEGIN, *rows, "EXIT", launch=launch, caches="a100")
    return [one.access for _, one in walk(made.body) if getattr(one, "op", "") in ("load", "store")]


@pytest.mark.parametrize("trips", [256, 384, 8000])
def test_a_second_loop_finds_what_all_warps_have_read_in_the_first_one(trips):
    """1.5 KiB that all blocks read: of 8000 trips not even the first loop could be recorded as a whole."""
    first, second, store = found(
        *reading(".L_a", trips), *reading(".L_b", trips), "STG.E [R2.64], R5", launch="864,256"
    )
    assert first.l1_hit > 0.99 and second.l1_hit > 0.99
    assert store.l2_kept == 1


def test_a_second_loop_does_not_find_what_the_rest_of_the_first_one_has_displaced():
    """Each thread reads a row of 4 KiB twice: the words of a sector one after another, and pairs of sectors.

    An A100 has 108 SMs and 40 MiB of L2, which has room for the rows of two warps of each SM, and not for those of four.
    """
    for threads, again in ((64, 1.0), (128, 1 / 2)):
        first, second = found(*OWN_ROW, *reading(".L_a", 1024), *reading(".L_b", 1024), launch=f"108,{threads}")
        assert (first.l1_hit, second.l1_hit) == pytest.approx((7 / 8, 7 / 8), abs=0.01)
        assert (first.l2_hit, second.l2_hit) == pytest.approx((1 / 2, again), abs=0.01)


def test_accesses_behind_a_long_loop_without_any_are_walked():
    arithmetic = loop(".L_a", 30000, "FFMA R10, R10, R11, R11")
    (access,) = found(*arithmetic, *reading(".L_b", 64), launch="864,256")
    assert access.l1_hit > 0.99


def test_accesses_to_which_the_walk_does_not_come_are_named_and_hit_as_others_do(monkeypatch):
    """The numbers of a generator do not advance evenly, so that no trip can be left out."""
    for name in ("_MOST_WORK", "_MOST_WORK_FOR_EACH"):
        monkeypatch.setattr(recorder, name, 5_000_000)
    generator = ("MOV R10, R0", *loop(".L_a", 2000, "IMAD R10, R10, R10, R0"))
    store = ("LOP3.LUT R10, R10, 0x4, RZ, 0xc0, !PT", "IADD3 R2, R2, R10, RZ", "STG.E [R2.64], R5")
    rows = (".line 3", *reading(".L_b", 64), ".line 4", *generator, ".line 5", *reading(".L_c", 64), ".line 6", *store)
    with pytest.warns(AssumptionWarning) as notes:
        made = kernel(*BEGIN, *rows, "EXIT", launch="864,256", caches="a100")
    named = "the walk through the caches ends before accesses: they are taken to hit"
    assert [str(note.message) for note in notes] == [
        f"f: line 5 of f.cu: {named} as the others do",
        f"f: line 6 of f.cu: {named} never",
    ]
    before, behind = (one.access for _, one in walk(made.body) if getattr(one, "op", "") == "load")
    assert behind.l1_hit == before.l1_hit > 0.99


def test_accesses_that_are_left_out_displace_what_those_before_them_have_read():
    """A warp reads four lines, leaves accesses out, and reads the lines again; L1 has 512 lines, and L2 8192."""
    lines = [128 * n + 4 * LANES for n in range(4)]
    given = accesses(*((0, row) for row in lines), *((1, row) for row in lines))
    for left, l1, l2 in ((0, 1, 1), (500, 1, 1), (600, 0, 1), (9000, 0, 0)):
        again = hits(replace(given, left=np.array([0, 0, 0, 0, left, 0, 0, 0])), ONE_SM, 1, 1)[1]
        assert (again.l1, again.l2) == (l1, l2)


@pytest.mark.parametrize("most_work", [100_000_000, 20_000_000])
def test_stores_behind_a_loop_that_threads_leave_one_by_one_are_walked(most_work, monkeypatch):
    """Each thread reads so many words of its row as its number says, and writes all of them: seven of eight stores hit L2.

    Blocks differ, so that some are executed together, with 16,384 threads. Where these execute too many instructions before the
    stores, those of one SM do.
    """
    monkeypatch.setattr(recorder, "_MOST_WORK", most_work)
    monkeypatch.setattr(recorder, "_MOST_WORK_FOR_EACH", most_work)
    own = ("LOP3.LUT R8, R0, 0x1ff, RZ, 0xc0, !PT", "MOV R6, R12", "MOV R7, R13")
    read = ("MOV R9, RZ", ".L_a:", "LDG.E R5, [R6.64]", "IADD3 R6, P1, R6, 0x4, RZ", "IADD3.X R7, RZ, R7, RZ, P1, !PT",
            "IADD3 R9, R9, 0x1, RZ", "ISETP.GT.AND P0, PT, R9, R8, PT", "@!P0 BRA `(.L_a)")  # fmt: skip
    step = ("STG.E [R12.64], R5", "IADD3 R12, P1, R12, 0x4, RZ", "IADD3.X R13, RZ, R13, RZ, P1, !PT")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*walk through the caches")
        made = kernel(*BEGIN, *OWN_ROW, *own, *read, *loop(".L_b", 512, *step), "EXIT", launch="864,256", caches="a100")
    (store,) = (one.access for _, one in walk(made.body) if getattr(one, "op", "") == "store")
    assert store.l2_hit == pytest.approx(7 / 8, abs=0.15)


def recorded(*rows, most_calls):
    one = function(*BEGIN, *rows, "EXIT")
    flow = make_flow(one)
    given = Given(flow, as_geometry((1, 32)), argument_bytes(one, ()))
    made = Recorder(given, waits_of(flow), 1, [(0, 0, 0)])
    made.most_calls = most_calls
    made.most_trips = made._most_trips(evaluate(given))
    assert made.execute_blocks()
    return made


def test_a_recorder_leaves_out_trips_only_where_it_must():
    rows = (*reading(".L_a", 900), *reading(".L_b", 50), "STG.E [R2.64], R5")
    whole, part = (recorded(*rows, most_calls=most) for most in (1000, 400))
    assert whole.complete and not whole.gaps and len(whole.calls) == 951
    assert part.complete and len(part.calls) < 400 and sum(part.gaps.values()) + len(part.calls) == 951
    for made in (whole, part):
        kept = made.first_calls(100)
        assert len(kept) == 100 and {made.calls[call][0] for call in kept} == {0, 1, 2}
        assert made.left_out(kept).sum() == 851 and made.excerpt(kept).part == 100 / 951
        assert made.left_out(kept)[[0, -1]].tolist() == [0, 0]


def test_first_calls_are_of_all_loops_alike():
    """Of two loops of 40 trips, the first 45 calls have 5 of the second one."""
    made = recorded(*reading(".L_a", 40), *reading(".L_b", 40), most_calls=1000)
    assert made.cut_short(np.arange(45)) and not made.cut_short(np.arange(60)) and not made.cut_short(np.arange(40))
    assert np.bincount([made.calls[call][0] for call in made.first_calls(45)]).tolist() == [23, 22]
    assert made.first_calls(61).tolist() == list(range(61))


def test_blocks_do_not_find_in_l1_what_the_block_before_has_read_first(monkeypatch):
    """All read the same 128 KiB, of which an SM's L1 holds 28: each line comes to L1 once for the eight warps of a block."""
    monkeypatch.setattr(reuse, "MOST_WALKED", 50_000)  # lines of the first 128 accesses
    long_way = ("LDG.E R5, [R6.64]", "IADD3 R6, P1, R6, 0x80, RZ", "IADD3.X R7, RZ, R7, RZ, P1, !PT")
    (access,) = found("MOV R6, R12", "MOV R7, R13", *loop(".L_a", 1024, *long_way), launch="6912,256,81920")
    assert access.l1_hit == pytest.approx(7 / 8, abs=0.01) and access.l2_hit > 0.99


def test_the_first_trips_of_a_loop_that_goes_the_other_way_do_not_stand_for_all(monkeypatch):
    """Each warp reads 80 lines, the last one first, and again from the first one on: 640 of an SM, of which L1 holds 224."""
    monkeypatch.setattr(reuse, "MOST_WALKED", 50_000)  # lines of 57 of the 160 accesses
    step = 4 * 108 * 256
    last = ("SHF.L.U32 R4, R0, 0x2, RZ", "IADD3 R12, P1, R12, R4, RZ", "IADD3.X R13, RZ, R13, RZ, P1, !PT",
            f"IADD3 R6, P1, R12, {79 * step:#x}, RZ", "IADD3.X R7, RZ, R13, RZ, P1, !PT")  # fmt: skip
    back = (f"IADD3 R6, P1, R6, -{step:#x}, RZ", "IADD3.X R7, R7, -0x1, RZ, P1, !PT")
    on = (f"IADD3 R6, P1, R6, {step:#x}, RZ", "IADD3.X R7, RZ, R7, RZ, P1, !PT")
    there = loop(".L_a", 80, "LDG.E R5, [R6.64]", *back)
    again = ("MOV R6, R12", "MOV R7, R13", *loop(".L_b", 80, "LDG.E R5, [R6.64]", *on))
    first, second = found(*last, *there, *again, launch="108,256")
    assert first.l1_hit == 0.0 and second.l1_hit == pytest.approx(224 / 640, abs=0.02)


def test_first_calls_are_of_loads_and_stores_where_there_are_many_of_both():
    loads = [f"LDG.E R5, [R2.64+{4 * word:#x}]" for word in range(60)]
    stores = [f"STG.E [R2.64+{4 * word:#x}], R5" for word in range(60)]
    made = recorded(*loads, *stores, most_calls=1000)
    assert made.first_calls(20).tolist() == [*range(10), *range(60, 70)]
    assert made.first_calls(61).tolist() == list(range(61))


@pytest.mark.parametrize(("left", "l1"), [(0, 0.5), (500, 0.5), (600, 0)])
def test_blocks_do_not_find_what_the_rest_of_those_before_them_has_displaced(left, l1):
    """Two blocks, one after the other, read the same four lines first, and leave as many more out; L1 has 512 lines."""
    lines = [128 * n + 4 * LANES for n in range(4)]
    both = accesses(*((0, [row, row]) for row in lines))
    assert hits(both, ONE_SM, 1, 2, Excerpt.of_equal(4, 4 / (4 + left)))[0].l1 == l1
