"""Statements have the counts of the code that they stand for."""

from collections import Counter

import numpy as np
import pytest

from tests.frontends.machine import function
from warpsim.frontends.convert import Choices, to_kernel
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.flow import make_flow
from warpsim.frontends.geometry import as_geometry
from warpsim.frontends.structure import Structure
from warpsim.kernels.program import Conditional, Instruction, Loop
from warpsim.kernels.traversal import expected_ops, walk

INDEX = ("S2R R0, SR_CTAID.X", "S2R R1, SR_TID.X", "IMAD R0, R0, c[0x0][0x0], R1")


def kernel(*rows, launch="64,128", arch=80, **choices):
    return to_kernel(function(*rows, arch=arch), as_geometry(launch), Choices(**choices), name="f")


def counts(found):
    total = Counter()
    for op, times in expected_ops(found.body):
        total[op] += times
    return {op: round(times, 9) for op, times in total.items()}


def only(found, kind):
    return [statement for _, statement in walk(found.body) if isinstance(statement, kind)]


def test_a_bound_check_that_all_threads_pass_leaves_a_branch():
    found = kernel(
        *INDEX, "ISETP.GE.AND P0, PT, R0, c[0x0][0x168], PT", "@P0 EXIT", "FADD R2, R2, R2", "EXIT", arguments={"n": 8192}
    )
    assert [s.op for s in found.body] == ["smem", "smem", "imad", "int", "branch", "alu"]


def test_warps_beyond_a_bound_exit():
    found = kernel(
        *INDEX, "ISETP.GE.AND P0, PT, R0, c[0x0][0x168], PT", "@P0 EXIT", "FADD R2, R2, R2", "EXIT", arguments={"n": 6144}
    )
    (conditional,) = only(found, Conditional)
    assert conditional.then == (Instruction("exit"),) and conditional.orelse == ()
    assert conditional.probability == pytest.approx(16 / 64)  # 48 of 64 blocks lie within the bound


def test_blocks_at_the_edges_stand_for_themselves():
    rows = (*INDEX, "ISETP.NE.AND P0, PT, R0, RZ, PT", "@P0 BRA `(.L_end)", "MUFU.RCP R2, R2", ".L_end:", "EXIT")
    found = kernel(*rows, launch="1000,32")
    assert counts(found)["sfu"] == pytest.approx(1 / 1000)


def test_a_condition_on_the_warps_number_names_the_warps():
    rows = (
        "S2R R1, SR_TID.X",
        "ISETP.GT.U32.AND P0, PT, R1, 0x3f, PT",
        "@P0 BRA `(.L_end)",
        "MUFU.RCP R2, R2",
        ".L_end:",
        "EXIT",
    )
    (conditional,) = only(kernel(*rows), Conditional)
    assert conditional.warps == (0, 1) and [s.op for s in conditional.then] == ["sfu"]


def of_counts(*executions, warps):
    """A program of three blocks, of which the second is under a condition: statements by how often each was executed in sum."""
    flow = make_flow(
        function("ISETP.GT.AND P0, PT, R1, R2, PT", "@P0 BRA `(.L_end)", "MUFU.RCP R2, R2", "BAR.SYNC 0x0", ".L_end:", "EXIT")
    )
    ops = {"ISETP": "int", "BRA": "branch", "MUFU": "sfu", "BAR": "barrier"}

    def emit(block):
        bases = (flow.function.code[index].base for index in flow.blocks[block].code)
        return [Instruction(ops[base]) for base in bases if base in ops]

    counts = {block: np.array([float(count)]) for block, count in enumerate(executions)}
    found = Structure(flow, counts, {}, np.ones(1), None, emit, specialised=warps)
    return found.body(), found.notes


def test_shares_are_warps_where_warps_have_tasks():
    (_, tasks), (note,) = of_counts(4000, 3000, 4000, warps=8)
    assert tasks.warps == (0, 1, 2, 3, 4, 5) and [one.op for one in tasks.then] == ["sfu", "branch"]
    assert note == "a barrier is of some warps of a block, which have a task of their own: nobody waits there"


def test_other_shares_are_of_all_warps():
    """Without tasks, or where no whole warps make up a share, all come to a barrier."""
    for share, warps in ((3000, 0), (2900, 8)):
        body, (note,) = of_counts(4000, share, 4000, warps=warps)
        assert [one.op for one in body] == ["int", "branch", "sfu", "barrier"] and "all warps of a block" in note


@pytest.mark.parametrize(("least", "warps", "share"), [(4, (0, 1), 0.8), (16, None, 0.1)])
def test_warps_that_mostly_execute_a_side_are_named_with_their_share(least, warps, share):
    """In a loop of 20 trips, two warps of four do so from one trip on. Where they rarely do, chance decides among all."""
    rows = (
        "S2R R1, SR_TID.X", "MOV R9, RZ", ".L_loop:", "ISETP.GT.U32.AND P0, PT, R1, 0x3f, PT",
        f"ISETP.LT.OR P0, PT, R9, {least:#x}, P0", "@P0 BRA `(.L_next)", "MUFU.RCP R2, R2", ".L_next:",
        "IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P1, PT, R9, 0x14, PT", "@!P1 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    found = kernel(*rows)
    conditionals = only(found, Conditional)
    assert conditionals[0].warps == warps and conditionals[-1].probability == pytest.approx(share)
    assert len(conditionals) == (1 if warps is None else 2)
    assert sum(n for op, n in expected_ops(found.body, 4) if op == "sfu") == pytest.approx((20 - least) / 2)


def test_threads_of_a_warp_that_part_execute_both_sides():
    rows = (
        "S2R R1, SR_LANEID",
        "ISETP.GT.U32.AND P0, PT, R1, 0xf, PT",
        "@P0 BRA `(.L_else)",
        "MUFU.RCP R2, R2",
        "BRA `(.L_end)",
        ".L_else:",
        "DADD R4, R4, R4",
        ".L_end:",
        "EXIT",
    )
    found = kernel(*rows)
    assert not only(found, Conditional)
    assert counts(found)["sfu"] == counts(found)["fp64"] == 1


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
    with pytest.raises(FrontEndError, match=r"trips\['\.L_loop'\] = 0: warps come to this loop"):
        kernel(*DATA, trips={5: 0})


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
    with pytest.raises(FrontEndError, match=r"the loop at line 7 of f\.cu: .* with KEY '\.L_four', or args"):
        kernel(*UNROLLED)
    listed = r"'\.L_four' \(6 instructions, 4 of them accesses to memory\); '\.L_one' \(3 instructions, 1 of them"
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


BRANCH = (".line 4", "LDS R2, [RZ]", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA `(.L_end)", "MUFU.RCP R2, R2", ".L_end:", "EXIT")


def test_a_branch_on_data_takes_the_probability_that_is_given_or_one_half_with_a_warning():
    with pytest.warns(AssumptionWarning, match="line 4 of f.cu: the condition is not known: half of the warps jump"):
        assert counts(kernel(*BRANCH))["sfu"] == pytest.approx(0.5)
    assert counts(kernel(*BRANCH, probabilities={4: 0.25}))["sfu"] == pytest.approx(0.25)
    with pytest.raises(FrontEndError, match=r"probabilities\[4\] = 2: must be a number from 0 to 1"):
        kernel(*BRANCH, probabilities={4: 2})
    with pytest.raises(FrontEndError, match=r"probabilities\[3\]: there is no such branch; branches: 4"):
        kernel(*BRANCH, probabilities={3: 0.5})


def test_one_of_several_branches_of_a_line_is_named_by_its_address():
    rows = (*BRANCH[:4], "@P0 BRA `(.L_end)", *BRANCH[4:])
    with pytest.warns(AssumptionWarning) as notes:
        kernel(*rows)
    assert [str(note.message).partition("state it ")[2] for note in notes] == [
        f"with args or probabilities of {address}, one of several branches there" for address in ("0x20", "0x30")
    ]


def test_a_barrier_under_a_condition_is_reached_by_all_with_a_warning():
    rows = (*BRANCH[:-3], "BAR.SYNC 0x0", "MUFU.RCP R2, R2", ".L_end:", "EXIT")
    with pytest.warns(AssumptionWarning, match="barrier"):
        found = kernel(*rows, probabilities={4: 0.75})
    assert counts(found)["barrier"] == 1


def test_stall_counts_are_gaps_and_counters_are_registers():
    found = kernel("--:-:0:-:2 LDS R2, [RZ]", "--:-:-:Y:5 FADD R6, R6, R6", "01:-:-:Y:4 FADD R3, R2, R2", "EXIT")
    load, add, use = found.body
    assert [s.cost.gap_cycles for s in found.body] == [2, 5, 4]
    assert load.dst is not None and use.src == (load.dst,) and add.src == ()


def test_an_unknown_opcode_takes_the_class_of_its_family_with_a_warning():
    with pytest.warns(AssumptionWarning, match="2 instructions DNEW are not in the table of opcodes: taken as fp64"):
        found = kernel("DNEW R2, R4", "DNEW R2, R4", "EXIT")
    assert counts(found)["fp64"] == 2


def test_accesses_are_those_of_the_threads():
    address = ("MOV R9, 0x4", "IMAD.WIDE R2, R0, R9, c[0x0][0x160]")
    rows = (*INDEX, *address, "LDG.E R4, [R2.64]", "LDG.E R5, [R2.64+0x4]", "SHF.L.U32 R7, R1, 0x7, RZ", "LDS R6, [R7]", "EXIT")
    first, second, shared = (s.access for s in kernel(*rows).body if s.access)
    assert (first.pattern, first.offset_bytes) == ("coalesced", 0)
    assert (second.pattern, second.offset_bytes) == ("coalesced", 4)
    assert (shared.pattern, shared.stride) == ("stride", 32)


def test_addresses_that_are_known_in_the_first_trip_only_depend_on_data():
    rows = ("MOV R4, 0x100", "MOV R5, RZ", ".L_loop:", ".line 5", "LDG.E R4, [R4.64]", "ISETP.NE.AND P0, PT, R4, RZ, PT")
    chase = (*rows, "@P0 BRA `(.L_loop)", "EXIT")
    with pytest.warns(AssumptionWarning, match="addresses of LDG.E depend on data"):
        kernel(*chase, trips={5: 10})
    (load,) = (s for s in only(kernel(*chase, trips={5: 10}, patterns={5: "random"}), Instruction) if s.op == "load")
    assert load.access.pattern == "random" and load.access.l1_hit == 0


def test_old_architectures_are_refused():
    with pytest.raises(FrontEndError, match="sm_35 is not supported; architectures from sm_50 on are"):
        kernel("EXIT", arch=35)


@pytest.mark.parametrize(
    "launch, message",
    [
        ("1024", "must be"),
        (("32x32", 256), "grid"),
        ((0, 256), "grid = 0"),
        ((1, 2048), "block of 2048 threads: must be at most 1024"),
        ((1, 32, -1), "shared bytes = -1"),
        (((1, 70000), 32), "grid.y = 70000: must be at most 65535"),
    ],
)
def test_wrong_launches_are_refused(launch, message):
    with pytest.raises(FrontEndError, match=message):
        as_geometry(launch)


def test_predicates_survive_in_a_register():
    """As compilers keep them where there are more than seven."""
    rows = (
        "S2R R1, SR_TID.X",
        "ISETP.GE.AND P0, PT, R1, 0x40, PT",
        "ISETP.GE.AND P2, PT, R1, 0x20, PT",
        "P2R R5, PR, RZ, 0x5",
        "ISETP.NE.AND P0, PT, RZ, RZ, PT",
        "R2P PR, R5, 0x1",
        "@P0 BRA `(.L_end)",
        "MUFU.RCP R2, R2",
        ".L_end:",
        "EXIT",
    )
    (conditional,) = only(kernel(*rows), Conditional)
    assert conditional.warps == (0, 1)
