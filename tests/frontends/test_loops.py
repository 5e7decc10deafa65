"""Loops of machine code: how many trips they have, and which loop a given number of trips is for."""

import pytest

from tests.support.listings import counts, kernel, only
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.execution import evaluator, leaps
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Conditional, Loop


def test_a_loop_to_a_bound_that_the_launch_gives():
    rows = (
        "MOV R3, RZ",
        ".L_loop:",
        "MUFU.RCP R2, R2",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P0, PT, R3, c[0x0][0x168], PT",
        "@!P0 BRA `(.L_loop)",
        "EXIT",
    )
    assert [loop.trips for loop in only(kernel(*rows, arguments={"n": 1_000_000_007}), Loop)] == [1_000_000_007]


def test_a_loop_that_ends_at_equality_is_not_run_past_its_end():
    rows = (
        "MOV R3, 0x3039",
        ".L_loop:",
        "MUFU.RCP R2, R2",
        "IADD3 R3, R3, -0x1, RZ",
        "ISETP.NE.AND P0, PT, R3, RZ, PT",
        "@P0 BRA `(.L_loop)",
        "EXIT",
    )
    assert [loop.trips for loop in only(kernel(*rows), Loop)] == [12345]


def test_a_loop_whose_last_jump_goes_by_way_of_another_is_asked_for():
    """The branch at its end leaves it; otherwise a jump behind it leads to the next trip."""
    rows = (
        ".L_loop:",
        "MUFU.RCP R2, R2",
        "LDG.E R4, [R2.64]",
        "ISETP.GE.AND P0, PT, R4, 0x7, PT",
        "@P0 CALL.REL.NOINC `(.L_end)",
        "BRA `(.L_loop)",
        ".L_end:",
        "EXIT",
    )
    with pytest.raises(FrontEndError, match=r"depends on data.*; give trips=\{KEY: number\} with KEY '.L_loop', or args"):
        kernel(*rows)
    assert counts(kernel(*rows, trips={".L_loop": 5}))["sfu"] == 5


def test_a_loop_that_is_left_in_its_middle_alone_is_asked_for():
    """As where blocks take tiles from a queue until there are none: the one exit depends on data."""
    rows = (
        ".L_loop:", "LDS R4, [RZ]", "ISETP.GE.AND P0, PT, R4, 0x7, PT", "@P0 BRA `(.L_end)", "MUFU.RCP R2, R2",
        "BRA `(.L_loop)", ".L_end:", "EXIT",
    )  # fmt: skip
    with pytest.raises(FrontEndError, match=r"depends on data.*; give trips=\{KEY: number\} with KEY '.L_loop', or args"):
        kernel(*rows)
    assert counts(kernel(*rows, trips={".L_loop": 5}))["sfu"] == 5


def test_trips_that_are_given_hold_where_the_bound_is_known_too():
    rows = (
        "MOV R3, RZ",
        ".L_loop:",
        "MUFU.RCP R2, R2",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P0, PT, R3, 0x7, PT",
        "@!P0 BRA `(.L_loop)",
        "EXIT",
    )
    found = kernel(*rows), kernel(*rows, trips={".L_loop": 3}), kernel(*rows, trips={".L_loop": 2000})
    assert [loop.trips for one in found for loop in only(one, Loop)] == [7, 3, 2000]


def test_nested_loops_multiply():
    rows = (
        "MOV R3, RZ",
        ".L_outer:",
        "MOV R4, RZ",
        ".L_inner:",
        "MUFU.RCP R2, R2",
        "IADD3 R4, R4, 0x1, RZ",
        "ISETP.LT.AND P0, PT, R4, 0x40, PT",
        "@P0 BRA `(.L_inner)",
        "IADD3 R3, R3, 0x2, RZ",
        "ISETP.LT.AND P1, PT, R3, 0x7d0, PT",
        "@P1 BRA `(.L_outer)",
        "EXIT",
    )
    found = kernel(*rows)
    assert [loop.trips for loop in only(found, Loop)] == [1000, 64]
    assert counts(found)["sfu"] == 64_000


def nest(*bounds):
    """Returns loops within each other, around one instruction, whose registers R10, R11, ... count up to the bounds."""
    rows = ["MUFU.RCP R2, R2"]
    for level, bound in reversed(list(enumerate(bounds, 10))):
        test = [f"IADD3 R{level}, R{level}, 0x1, RZ", f"ISETP.GE.AND P0, PT, R{level}, {bound}, PT"]
        rows = [f"MOV R{level}, RZ", f".L_{level}:", *rows, *test, f"@!P0 BRA `(.L_{level})"]
    return [*rows, "EXIT"]


def test_a_nest_of_five_loops_is_executed_for_some_trips_of_each(monkeypatch):
    """A search for the trips that can be left out would execute 18 of 100 in each: 100,000 times the innermost loop."""
    monkeypatch.setattr(evaluator, "MAX_STEPS", 60_000)
    found = kernel(*nest("c[0x0][0x168]", "0x64", "0x40", "c[0x0][0x168]", "0x63"), launch="4,32", arguments={"n": 100})
    assert [loop.trips for loop in only(found, Loop)] == [100, 100, 64, 100, 99]
    assert counts(found)["sfu"] == 100 * 100 * 64 * 100 * 99


def test_a_loop_that_is_left_in_the_middle_repeats_its_start_once_more():
    rows = (
        "MOV R3, RZ",
        ".L_loop:",
        "MUFU.RCP R2, R2",
        "ISETP.GE.AND P0, PT, R3, 0x9, PT",
        "@P0 BRA `(.L_end)",
        "IADD3 R3, R3, 0x1, RZ",
        "BRA `(.L_loop)",
        ".L_end:",
        "EXIT",
    )
    found = kernel(*rows)
    assert [loop.trips for loop in only(found, Loop)] == [9]
    assert counts(found)["sfu"] == 10


DATA = ("MOV R3, RZ", ".L_loop:", ".line 5", "LDG.E R2, [R4.64]", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA `(.L_loop)", "EXIT")


def test_trips_that_depend_on_data_are_asked_for_and_can_be_given_by_line_or_label():
    with pytest.raises(
        FrontEndError, match=r"the loop at line 5 of f\.cu: .* give trips=\{KEY: number\} with KEY 5 or '\.L_loop'"
    ):
        kernel(*DATA)
    for key in (5, "5", ".L_loop"):
        with pytest.warns(AssumptionWarning, match="addresses of LDG.E depend on data"):
            assert [loop.trips for loop in only(kernel(*DATA, trips={key: 7}), Loop)] == [7]
    with pytest.raises(FrontEndError, match=r"trips\[6\]: there is no such loop; loops: 5 or '\.L_loop'"):
        kernel(*DATA, trips={6: 7})
    with pytest.raises(FrontEndError, match=r"trips\[5\] = -1: must be an integer from 0"):
        kernel(*DATA, trips={5: -1})
    with pytest.raises(FrontEndError, match=r"trips\[5\] = 1000000000001: must be an integer from 0 to 1000000000000$"):
        kernel(*DATA, trips={5: 10**12 + 1})
    with pytest.raises(FrontEndError, match=r"trips\['\.L_loop'\] = 0: warps come to this loop"):
        kernel(*DATA, trips={5: 0})


@pytest.mark.filterwarnings("ignore:.*addresses of LDG")
@pytest.mark.parametrize("trips", [10**12 - 1, 10**12])
def test_loops_have_up_to_the_most_trips_that_can_be_stated(trips):
    sums = ["IADD3 R7, R7, 0x1, RZ", "IADD3 R8, R8, -0x1, RZ", "ISETP.GE.AND P1, PT, R7, c[0x0][0x168], PT"]
    for rows in ((), sums):
        found = kernel(*DATA[:3], *rows, *DATA[3:], trips={5: trips}, arguments={"n": 2**31 - 1})
        assert [loop.trips for loop in only(found, Loop)] == [trips]
    outer = (".line 7", "@P0 BRA `(.L_outer)", "EXIT")
    nest = kernel(".L_outer:", "MUFU.RCP R6, R6", *DATA[1:-1], *outer, trips={5: trips, 7: 9})
    assert [loop.trips for loop in only(nest, Loop)] == [9, trips]


def test_more_trips_than_a_loop_can_have_are_refused(monkeypatch):
    monkeypatch.setattr("warpsim.frontends.program.trips.MAX_TRIPS", 1000)
    rows = ("MOV R3, RZ", ".L_loop:", "IADD3 R3, R3, 0x1, RZ", "ISETP.GE.AND P0, PT, R3, c[0x0][0x168], PT")
    back = ("@!P0 BRA `(.L_loop)", "EXIT")
    assert [loop.trips for loop in only(kernel(*rows, *back, arguments={"n": 1000}), Loop)] == [1000]
    with pytest.raises(FrontEndError, match=r"the loop at address 0x0010 of f: 1001 trips: must be at most 1000$"):
        kernel(*rows, *back, arguments={"n": 1001})


UNROLLED = """\
MOV R3, RZ
.line 4
LDG.E R5, [R4.64]
.line 6
ISETP.GE.AND P0, PT, R5, 0x1, PT
@!P0 BRA `(.L_end)
ISETP.GE.AND P1, PT, R5, 0x4, PT
@!P1 BRA `(.L_rest)
.L_four:
.line 7
LDG.E R2, [R4.64]
LDG.E R2, [R4.64]
LDG.E R2, [R4.64]
LDG.E R2, [R4.64]
.line 6
ISETP.GE.AND P1, PT, R5, R3, PT
@P1 BRA `(.L_four)
.L_rest:
ISETP.NE.AND P0, PT, R5, RZ, PT
@!P0 BRA `(.L_end)
.L_one:
.line 7
LDG.E R2, [R4.64]
.line 6
ISETP.NE.AND P0, PT, R5, RZ, PT
@P0 BRA `(.L_one)
.L_end:
EXIT
""".splitlines()
"""A loop on line 6 whose bound is loaded, unrolled by four, with a loop for the rest."""


def test_trips_by_the_line_of_an_unrolled_loop_are_refused_and_its_loops_listed():
    listed = r"'\.L_four' \(6 instructions, 4 of them accesses to memory\); '\.L_one' \(3 instructions, 1 of them"
    with pytest.raises(FrontEndError, match=rf"the loop at line 7 of f\.cu: .* 2 loops of line 6.*{listed}.*; or give args"):
        kernel(*UNROLLED)
    for key in (6, "6", 7):
        with pytest.raises(FrontEndError, match=rf"trips\[{key!r}\]: the machine code has 2 loops of line {key}.*{listed}"):
            kernel(*UNROLLED, trips={key: 103})


@pytest.mark.parametrize("four, one", [(25, 3), (25, 0), (0, 3)])
def test_trips_by_label_also_say_whether_a_loop_is_entered(four, one):
    with pytest.warns(AssumptionWarning, match="line 6 of f.cu: the condition is taken as the trips of the loop say"):
        found = kernel(*UNROLLED, trips={".L_four": four, ".L_one": one}, patterns={4: "coalesced", 7: "coalesced"})
    assert counts(found)["load"] == 1 + 4 * four + one and not only(found, Conditional)


def test_a_loop_with_stated_trips_is_not_left_early_and_says_so():
    leaves = ("ISETP.LT.AND P1, PT, R2, RZ, PT", "@P1 BRA `(.L_end)")
    *begin, compare, back, last = DATA
    with pytest.warns(AssumptionWarning) as notes:
        found = kernel(*begin, *leaves, ".line 6", compare, back, ".L_end:", last, trips={5: 7}, patterns={5: "coalesced"})
    assert [loop.trips for loop in only(found, Loop)] == [7]
    (note,) = [str(note.message) for note in notes if "early" in str(note.message)]
    assert note.endswith("line 5 of f.cu: no warp leaves the loop early here; state it with probabilities")


@pytest.mark.parametrize("trips", [1, 7])
def test_a_loop_that_an_exit_ends_has_the_stated_trips(trips):
    rows = (*DATA[:4], "ISETP.NE.AND P0, PT, R2, RZ, PT", "MUFU.RCP R6, R6", "@P0 EXIT", "BRA `(.L_loop)")
    found = counts(kernel(*rows, trips={5: trips}, patterns={5: "coalesced"}))
    assert found["sfu"] == found["load"] == trips
    with pytest.raises(FrontEndError, match="= 0: warps come to this loop"):
        kernel(*rows, trips={5: 0}, patterns={5: "coalesced"})


@pytest.mark.parametrize("trips", [1, 7])
@pytest.mark.parametrize("key", [5, ".L_again"])
@pytest.mark.filterwarnings("ignore:.*addresses of ATOMG")
def test_an_update_behind_which_the_threads_of_a_warp_gather_is_made_as_often_as_stated(key, trips):
    """So is the code for Turing of an update by compare-and-swap; the loop in which threads gather has trips of its own."""
    update = (".L_again:", ".line 5", "ATOMG.E.CAS.STRONG.GPU PT, R5, [R2], R4, R6", "ISETP.NE.AND P0, PT, R5, R4, PT")
    gather = (".L_vote:", "VOTE.ANY R0, PT, PT", "YIELD", "VOTEU.ANY UR4, UPT, PT")
    back = ("LOP3.LUT P0, RZ, R0, UR4, RZ, 0xc, !PT", "@!P0 BRA.U `(.L_again)", "BRA `(.L_vote)", ".L_end:", "EXIT")
    found = counts(kernel(*update, "@!P0 BRA `(.L_end)", "MOV R4, R5", *gather, *back, trips={key: trips}))
    assert (found["atomic"], found.get("uniform", 0)) == (trips, trips - 1)


def updates(*labels):
    """Updates of shared memory by compare-and-swap, all on line 5."""
    for label in labels:
        swap = ("LDS R4, [R10]", "ATOMS.CAST.SPIN R5, [R10], R4, R6", "ISETP.EQ.U32.AND P0, PT, R5, 0x1, PT")
        yield from (f"{label}:", ".line 5", *swap, f"@!P0 BRA `({label})")


def test_a_line_names_all_loops_of_its_updates_by_compare_and_swap():
    """The loop around them is unrolled."""
    rows = ("LDG.E R10, [R2]", *updates(".L_a", ".L_b", ".L_c"), "EXIT")
    with pytest.raises(FrontEndError, match=r"give trips={KEY: number} with KEY 5 or '\.L_a', or args"):
        kernel(*rows)
    for trips, accesses in (({5: 2}, 12), ({5: 2, ".L_b": 1}, 10)):
        assert counts(kernel(*rows, trips=trips))["smem"] == accesses


def test_a_line_with_an_update_and_another_loop_has_both_listed():
    other = (".L_b:", "FFMA R7, R7, R7, R7", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA `(.L_b)")
    rows = ("LDG.E R2, [R2]", *updates(".L_a"), *other, "EXIT")
    listed = r"'\.L_a' \(4 instructions, 2 of them accesses to memory, an update by compare-and-swap\)"
    with pytest.raises(FrontEndError, match=rf"has 2 loops of line 5; give .*{listed}"):
        kernel(*rows, trips={5: 2})


def test_of_two_exits_in_the_middle_of_a_loop_the_first_one_ends_it_and_the_other_says_so():
    leaves = ("ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA `(.L_end)")
    rows = (*DATA[:4], *leaves, "MUFU.RCP R6, R6", ".line 8", *leaves, "DADD R8, R8, R8", "BRA `(.L_loop)", ".L_end:", "EXIT")
    with pytest.warns(AssumptionWarning, match="line 8 of f.cu: no warp leaves the loop early here") as notes:
        found = counts(kernel(*rows, trips={5: 7}, patterns={5: "coalesced"}))
    assert (found["sfu"], found["fp64"]) == (7, 7)
    assert sum("early" in str(note.message) for note in notes) == 1


@pytest.mark.filterwarnings("ignore:.*addresses of LDG")
def test_a_line_names_the_loops_that_jump_back_there_before_those_that_only_begin_there():
    outer = (".L_outer:", ".line 6", "LDG.E R5, [R2.64]", ".L_inner:", ".line 7", "MUFU.RCP R6, R6")
    inner = (".line 6", "ISETP.NE.AND P0, PT, R5, RZ, PT", "@P0 BRA `(.L_inner)")
    back = ("ISETP.NE.AND P1, PT, R5, RZ, PT", "@P1 BRA `(.L_outer)", "EXIT")
    assert counts(kernel(*outer, *inner, ".line 5", *back, trips={5: 10, 6: 20}))["sfu"] == 200
    both = kernel(*outer, *inner, *back, trips={6: 20})
    assert counts(both)["sfu"] == 400  # nested loops of one line each have the trips
    assert counts(kernel(*outer, *inner, *back, trips={".L_inner": 3, 6: 20}))["sfu"] == 60


@pytest.mark.filterwarnings("ignore:.*addresses of LDG")
def test_trips_of_a_loop_that_is_tested_first_are_those_of_its_body():
    rows = (".L_loop:", ".line 5", "LDG.E R5, [R2.64]", "ISETP.NE.AND P0, PT, R5, RZ, PT", "@P0 BRA `(.L_end)")
    found = kernel(*rows, "MUFU.RCP R6, R6", "BRA `(.L_loop)", ".L_end:", "EXIT", trips={5: 10})
    assert (counts(found)["sfu"], counts(found)["load"]) == (10, 11)


@pytest.mark.parametrize("inner", [(), ("ISETP.NE.AND P1, PT, R5, 0x3, PT", "@P1 BRA `(.L_skip)", "MUFU.RCP R7, R7", ".L_skip:")])
def test_trips_of_a_loop_that_is_left_by_a_jump_and_repeated_by_another_are_those_of_its_body(inner):
    rows = (".L_loop:", ".line 6", "LDG.E R5, [R2.64]", *inner, ".line 5", "ISETP.NE.AND P0, PT, R5, RZ, PT", "@P0 BRA `(.L_end)")
    probabilities = {6: 1.0} if inner else {}
    found = kernel(*rows, "BRA `(.L_loop)", ".L_end:", "EXIT", trips={".L_loop": 10}, probabilities=probabilities)
    assert counts(found)["load"] == 10


def test_a_warp_group_gets_the_registers_that_it_asks_for():
    """It asks until another group has released some, which that does when it begins."""
    rows = (
        ".L_try:",
        "WARPSYNC.ALL",
        "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0",
        "PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0",
        "@!P0 BRA `(.L_try)",
        "USETMAXREG.DEALLOC.CTAPOOL 0x18",
        "EXIT",
    )
    found = kernel(*rows)
    assert not only(found, Loop) and counts(found)["branch"] == 4


def periodic(*test, n):
    """A loop of n trips with a sum in those for which the predicate P1 holds after some rows; R3 is the trip."""
    return (
        "MOV R3, RZ", ".L_loop:", *test, "@!P1 BRA `(.L_next)", "DADD R6, R6, R6", ".L_next:", "IADD3 R3, R3, 0x1, RZ",
        f"ISETP.GE.AND P0, PT, R3, {n:#x}, PT", "@!P0 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip


@pytest.mark.parametrize("n", [12, 1000])
@pytest.mark.parametrize(
    ("test", "holds"),
    [
        (("LOP3.LUT P1, R4, R3, 0xf, RZ, 0xc0, !PT",), lambda k: k & 15),
        (("LOP3.LUT R4, R3, 0x30, RZ, 0xc0, !PT", "ISETP.EQ.AND P1, PT, R4, RZ, PT"), lambda k: k & 0x30 == 0),
        (("SHF.R.U32.HI R4, RZ, 0x2, R3", "LOP3.LUT P1, RZ, R4, 0x1, RZ, 0xc0, !PT"), lambda k: k >> 2 & 1),
        (("POPC R4, R3", "ISETP.EQ.AND P1, PT, R4, 0x2, PT"), lambda k: k.bit_count() == 2),
        (
            ("IMAD.HI.U32 R4, R3, 0x1999999a, RZ", "LOP3.LUT P1, RZ, R4, 0x1, RZ, 0xc0, !PT"),
            lambda k: (k * 0x1999999A >> 32) & 1,
        ),
    ],
)
def test_conditions_on_bits_hold_in_as_many_trips_as_they_do(test, holds, n):
    assert counts(kernel(*periodic(*test, n=n)))["fp64"] == pytest.approx(sum(map(bool, map(holds, range(n)))), rel=1e-6)


@pytest.mark.parametrize(
    ("test", "n", "trips"),
    [
        (("SHF.L.U32 R4, R3, 0x14, RZ", "ISETP.LT.AND P1, PT, R4, RZ, PT"), 10_000, 2 * 2048),  # bit 11 of the trip is the sign
        (("IMAD R4, R3, 0x3fffffff, RZ", "ISETP.LT.AND P1, PT, R4, RZ, PT"), 1000, 499),  # k % 4 is 3, or 0 and k is not
        (("ISETP.EQ.AND P1, PT, R3, 0x1234, PT",), 10_000, 1),
        (("ISETP.GE.U32.AND P1, PT, R3, 0x2000, PT",), 10_000, 10_000 - 0x2000),
        (("IADD3 R4, -R3, 0x1000, RZ", "ISETP.GT.U32.AND P1, PT, R4, 0x10000, PT"), 10_000, 10_000 - 0x1001),
        (("LOP3.LUT P1, R4, R3, 0xf, RZ, 0xc0, !PT",), 1600, 15 * 100),
    ],
)
def test_calculated_trips_pass_no_change_of_a_condition(test, n, trips, monkeypatch):
    """Numbers wrap, conditions hold in one trip, from one on, or in some of each 16."""
    monkeypatch.setattr(leaps, "_SEARCHED_STEPS", 0)
    assert counts(kernel(*periodic(*test, n=n)))["fp64"] == trips


def test_conditions_on_bits_in_long_loops_need_stated_trips(monkeypatch):
    test = "LOP3.LUT P1, R4, R3, 0xf, RZ, 0xc0, !PT"
    with monkeypatch.context() as fewer:
        fewer.setattr(evaluator, "MAX_STEPS", 20_000)
        with pytest.raises(FrontEndError, match=r"its trips follow no simple rule"):
            kernel(*periodic(test, n=10_000_000))
    with pytest.warns(AssumptionWarning, match="conditions on bits of what advances in this loop come out as in some"):
        found = kernel(*periodic(test, n=10_000_000), trips={".L_loop": 100_000})
    assert counts(found)["int"] == pytest.approx(300_000, rel=1e-4)


@pytest.mark.parametrize("n", [10_000, 10_001])
@pytest.mark.parametrize(
    ("rows", "every"),
    [
        (("LOP3.LUT R4, R4, 0x1, RZ, 0x3c, !PT",), 2),
        (("IADD3 R4, R4, 0x1, RZ", "ISETP.NE.AND P2, PT, R4, 0x3, PT", "SEL R4, R4, RZ, P2"), 3),
        (("IADD3 R4, R4, 0x1, RZ", "ISETP.NE.AND P2, PT, R4, 0x4, PT", "@!P2 MOV R4, RZ"), 4),
    ],
)
def test_trips_are_left_out_where_the_number_of_a_buffer_comes_back(rows, every, n, monkeypatch):
    """A condition on that number holds in each second, third or fourth trip, from the last one of the first group on."""
    monkeypatch.setattr(leaps, "_SEARCHED_STEPS", 50)
    monkeypatch.setattr(evaluator, "MAX_STEPS", 3_000)
    buffer = ("SHF.L.U32 R5, R4, 0x9, RZ", "LDS R9, [R5]", *rows, "ISETP.EQ.AND P1, PT, R4, RZ, PT")
    found = counts(kernel("MOV R4, RZ", *periodic(*buffer, n=n)))
    assert found["fp64"] == pytest.approx(n // every, rel=1e-6)
    assert found["smem"] == pytest.approx(n, rel=1e-6)


@pytest.mark.parametrize("n", [1000, 1001])
def test_conditions_on_bits_beside_the_number_of_a_buffer_hold_as_often_as_they_do(n, monkeypatch):
    """The trip's bits come back after 16 trips, and not in groups of two as the buffer does."""
    monkeypatch.setattr(leaps, "_SEARCHED_STEPS", 50)
    buffer = ("LOP3.LUT R4, R4, 0x1, RZ, 0x3c, !PT", "SHF.L.U32 R5, R4, 0x9, RZ", "LDS R9, [R5]")
    found = kernel("MOV R4, RZ", *periodic(*buffer, "LOP3.LUT P1, R7, R3, 0xf, RZ, 0xc0, !PT", n=n))
    assert counts(found)["fp64"] == pytest.approx(n - -(-n // 16), rel=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [2, 4, 6, 7, 30])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_a_loop_with_barriers_that_makes_more_trips_each_time_makes_as_many_in_all(n, shift):
    """All warps of a block make whole trips: one more in the last trips of the loop around it than in the first ones."""
    inner = (".L_inner:", "BAR.SYNC.DEFER_BLOCKING 0x0", "IADD3 R4, R4, 0x1, RZ", f"SHF.R.U32.HI R5, RZ, {shift:#x}, R3")
    test = ("ISETP.GT.AND P0, PT, R4, R5, PT", "@!P0 BRA `(.L_inner)")
    rows = ("MOV R3, RZ", ".L_outer:", "MOV R4, RZ", *inner, *test, "DADD R6, R6, R6", "IADD3 R3, R3, 0x1, RZ")
    found = kernel(*rows, f"ISETP.GE.AND P0, PT, R3, {n:#x}, PT", "@!P0 BRA `(.L_outer)", "EXIT")
    assert (counts(found)["fp64"], counts(found)["barrier"]) == (n, sum(1 + (k >> shift) for k in range(n)))


def asking(*rows, **given):
    """A loop whose warps look at memory in each trip."""
    return kernel(".L_loop:", ".line 5", "LDG.E R5, [R2.64]", "ISETP.NE.AND P0, PT, R5, RZ, PT", *rows, "EXIT", **given)


@pytest.mark.filterwarnings("ignore:.*condition is not known")
def test_trips_are_left_out_where_bits_of_what_is_loaded_decide_in_them():
    """As in a division, whose quotients need more steps where their exponents are large."""
    rows = (
        "MOV R3, RZ", "IMAD.WIDE R4, R3, 0x4, c[0x0][0x160]", ".L_loop:", "LDG.E R6, [R4.64]", "IADD3 R4, R4, 0x4, RZ",
        "LOP3.LUT R6, R6, 0x7f800000, RZ, 0xc0, !PT", "ISETP.GT.AND P0, PT, R6, 0x5, PT", "@P0 BRA `(.L_next)", "MUFU.RCP R2, R2",
        ".L_next:", "IADD3 R3, R3, 0x1, RZ", "ISETP.GE.AND P1, PT, R3, c[0x0][0x168], PT", "@!P1 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    found = counts(kernel(*rows, arguments={"n": 1_000_000}))
    assert (found["load"], found["sfu"]) == (1_000_000, pytest.approx(500_000, rel=0.1))


@pytest.mark.filterwarnings("ignore:.*addresses of LDG", "ignore:.*trips, by warp")
@pytest.mark.parametrize("leaving", [0.1, 0.01, 0.002])
def test_warps_leave_a_loop_with_the_probability_that_is_stated(leaving):
    found = counts(asking("MUFU.RCP R6, R6", "@P0 BRA `(.L_loop)", probabilities={5: leaving}))
    assert found["sfu"] == pytest.approx(1 / leaving, rel=0.1)


@pytest.mark.filterwarnings("ignore:.*addresses of LDG")
def test_a_loop_that_warps_leave_with_too_small_a_probability_needs_stated_trips(monkeypatch):
    monkeypatch.setattr(evaluator, "MAX_STEPS", 5_000)
    rows = ("MUFU.RCP R6, R6", "@P0 BRA `(.L_loop)")
    with pytest.raises(FrontEndError, match="its trips follow no simple rule"):
        asking(*rows, probabilities={5: 1e-6})
    assert counts(asking(*rows, trips={5: 100_000}))["sfu"] == 100_000


@pytest.mark.filterwarnings("ignore:.*addresses of LDG", "ignore:.*trips, by warp")
@pytest.mark.parametrize("sets", [0.5, 0.9, 0.99])
def test_a_loop_that_goes_on_while_chance_sets_a_flag_ends_by_chance(sets):
    flag = ("MOV R4, RZ", "@P0 BRA `(.L_next)", "MOV R4, 0x1", ".L_next:", ".line 6", "MUFU.RCP R6, R6")
    found = counts(asking(*flag, "ISETP.NE.AND P1, PT, R4, RZ, PT", "@P1 BRA `(.L_loop)", probabilities={5: sets}))
    assert found["sfu"] == pytest.approx(1 / (1 - sets), rel=0.1)


def triangle(*test):
    """Returns a loop from the thread's number to 512, around one that each thread ends after as many trips."""
    return (
        "S2R R3, SR_TID.X", ".L_outer:", "MOV R4, RZ", ".L_inner:", *test, "MUFU.RCP R2, R2", "IADD3 R4, R4, 0x1, RZ",
        "ISETP.GT.AND P0, PT, R4, R3, PT", "@!P0 BRA `(.L_inner)", ".L_next:", "DADD R6, R6, R6", "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P0, PT, R3, 0x200, PT", "@!P0 BRA `(.L_outer)", "EXIT",
    )  # fmt: skip


def test_stated_trips_of_one_loop_after_the_other_let_a_long_import_succeed(monkeypatch):
    """Of 128 threads the warps make 512, 480, 448 and 416 trips of the outer loop."""
    monkeypatch.setattr(evaluator, "MAX_STEPS", 2_500)
    with pytest.raises(FrontEndError, match=r"rule, and there are more than 2500 instructions; .* with KEY '\.L_inner', or args"):
        kernel(*triangle())
    with pytest.raises(FrontEndError, match=r"with KEY '\.L_outer', or args"):
        kernel(*triangle(), trips={".L_inner": 300})
    found = counts(kernel(*triangle(), trips={".L_inner": 300, ".L_outer": 200}))
    assert (found["sfu"], found["fp64"]) == (300 * 200, 200)
    monkeypatch.setattr(evaluator, "MAX_STEPS", 40_000)
    found = counts(kernel(*triangle(), trips={".L_inner": 300}))
    assert (found["sfu"], found["fp64"]) == (300 * 464, 464)


@pytest.mark.parametrize(
    "test",
    [
        ("ISETP.EQ.AND P1, PT, R4, R3, PT", "@P1 BRA `(.L_skip)", "DADD R8, R8, R8", ".L_skip:"),
        ("ISETP.GE.AND P1, PT, R4, R3, PT", "@P1 BRA `(.L_next)"),
    ],
    ids=["another condition", "left early"],
)
def test_where_all_trips_are_stated_other_conditions_do_not_make_an_import_too_long(test, monkeypatch):
    """Until it is too long, warps leave the inner loop early when their last thread does: in the first trips of the outer one."""
    monkeypatch.setattr(evaluator, "MAX_STEPS", 5_000)
    with pytest.warns(AssumptionWarning, match="the trips of this loop are taken to be alike, since there are more than 2500"):
        found = kernel(*triangle(*test), trips={".L_inner": 300, ".L_outer": 200})
    assert counts(found)["sfu"] == pytest.approx(300 * 200, rel=0.011)


def test_a_loop_that_nothing_leaves_is_refused():
    with pytest.raises(FrontEndError, match=r"the loop at .*: no warp ever leaves it"):
        kernel(".L_loop:", "MUFU.RCP R2, R2", "BRA `(.L_loop)")


def test_an_unrolled_loop_that_can_be_left_early_is_not_left():
    rows = [row for k in range(6) for row in (f"LDG.E R{4 + k}, [R2.64]", f"ISETP.GE.AND P0, PT, R{4 + k}, 0x7, PT",
                                              "@P0 BRA `(.L_end)")]  # fmt: skip
    with pytest.warns(AssumptionWarning, match="6 branches jump here, as those of an unrolled loop do"):
        assert counts(kernel(*rows, ".L_end:", "EXIT"))["load"] == 6
    with pytest.warns(AssumptionWarning, match="half of the warps jump"):
        assert counts(kernel(*rows[:9], ".L_end:", "EXIT"))["load"] == pytest.approx(1.75, abs=0.1)


def test_a_barrier_that_is_off_in_most_trips_is_left_out():
    test = ("LOP3.LUT P1, R4, R3, 0xf, RZ, 0xc0, !PT",)
    rows = [row.replace("DADD R6, R6, R6", "NOP") for row in periodic(*test, n=64)]
    rows.insert(rows.index("@!P1 BRA `(.L_next)"), "{guard} BAR.SYNC.DEFER_BLOCKING 0x0")
    with pytest.warns(AssumptionWarning, match=r"a barrier stands under a condition, which holds in 0.062 of its"):
        off = kernel(*(row.format(guard="@!P1") for row in rows))
    assert "barrier" not in counts(off) and counts(kernel(*(row.format(guard="@P1") for row in rows)))["barrier"] == 64


def test_what_a_function_returns_that_the_binary_does_not_hold_is_not_known():
    rows = ("MOV R4, 0x100", "MOV R5, RZ", "CALL.ABS.NOINC R2", "STG.E [R4.64], R7", "EXIT")
    with pytest.warns(AssumptionWarning) as notes:
        kernel(*rows)
    messages = [str(note.message) for note in notes]
    assert any("malloc or printf, is taken to need no time" in text for text in messages)
    assert any("the addresses of STG.E depend on data" in text for text in messages)


@pytest.mark.filterwarnings("error")
def test_a_sum_in_a_register_that_later_takes_the_next_trip_is_not_carried_on():
    """Thread t stores element 2 t k in trip k, of three: the trips touch 1, 8 and 16 sectors."""
    rows = (
        "S2R R0, SR_TID.X",
        "MOV R4, RZ",
        ".L_loop:",
        "I2F R5, R4",
        "FADD R5, R5, R5",
        "F2I.TRUNC.NTZ R6, R5",
        "IMAD R6, R0, R6, RZ",
        "IMAD.WIDE R2, R6, 0x4, c[0x0][0x160]",
        "STG.E [R2.64], R0",
        "IADD3 R5, R4, 0x1, RZ",
        "MOV R4, R5",
        "ISETP.LT.AND P0, PT, R4, 0x3, PT",
        "@P0 BRA `(.L_loop)",
        "EXIT",
    )
    (store,) = (one for one in only(kernel(*rows, launch="4,32", caches="none"), Instruction) if one.op == "store")
    assert store.cost.requests * store.cost.bytes_per_request / 32 == pytest.approx(25 / 3, abs=0.001)
