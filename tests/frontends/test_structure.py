"""Statements have the counts of the code that they stand for."""

import warnings
from collections import Counter

import numpy as np
import pytest

from tests.support.executions import expected_ops
from tests.support.listings import counts, function, kernel, only
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.program.structure import Structure
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Conditional

INDEX = ("S2R R0, SR_CTAID.X", "S2R R1, SR_TID.X", "IMAD R0, R0, c[0x0][0x0], R1")


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

    def emit(block, come):
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
        (first, conditional, barrier), (note,) = of_counts(4000, share, 4000, warps=warps)
        assert (first.op, barrier.op) == ("int", "barrier") and "all warps of a block" in note
        assert [one.op for one in conditional.then] == ["sfu"] and conditional.probability == pytest.approx(share / 4000)


PING_PONG = (
    "S2R R1, SR_TID.X", "ISETP.GE.AND P0, PT, R1, 0x40, PT", "@P0 BRA `(.L_other)",
    "LDG.E R4, [R2.64]", "BAR.SYNC 0x0", "FADD R5, R4, R4", "BRA `(.L_end)",
    ".L_other:", "MUFU.RCP R6, R6", "BAR.SYNC 0x0", "LDG.E R7, [R2.64]", ".L_end:", "EXIT",
)  # fmt: skip


def test_two_sides_that_meet_at_barriers_keep_what_each_of_them_does():
    """Two of four warps load while the others calculate, and then the other way round, as double buffers do."""
    kept = kernel(*PING_PONG, patterns={"0x0030": "coalesced", "0x0090": "coalesced"}).body[2:]
    assert [one.op if isinstance(one, Instruction) else one.warps for one in kept] == [(0, 1), "barrier", (0, 1)]
    sides = [[one.op for one in side] for both in (kept[0], kept[2]) for side in (both.then, both.orelse)]
    assert sides == [["load"], ["sfu"], ["alu", "branch"], ["load"]]


def executions_by(statements, warp):
    """How often a warp of a block is expected to execute each operation class, until it exits."""
    found, left = Counter(), 1.0
    for one in statements:
        if isinstance(one, Instruction):
            found[one.op] += left
            continue
        falls = one.falls_through(warp)
        for side, share in ((one.then, falls), (one.orelse, 1 - falls)):
            inside = executions_by(side, warp)
            found.update({op: count * share * left for op, count in inside.items()})
        left *= 1 - falls * executions_by(one.then, warp)["exit"]
    return found


@pytest.mark.parametrize(("beyond", "both"), [("0xf", None), ("0x2f", (0, 1))])
def test_a_condition_on_the_warps_number_inside_one_on_the_block_keeps_the_counts(beyond, both):
    """Two warps of eight come in a quarter of the blocks, which is left to chance, or in three quarters; one of them goes on."""
    rows = (
        "S2R R0, SR_CTAID.X", "S2R R1, SR_TID.X", "ISETP.GT.U32.AND P0, PT, R1, 0x3f, PT",
        f"ISETP.GT.U32.OR P0, PT, R0, {beyond}, P0", "@P0 BRA `(.L_end)", "MUFU.RCP R2, R2",
        "ISETP.GT.U32.AND P1, PT, R1, 0x1f, PT", "@!P1 STG.E [R4.64], R2", "@P1 BRA `(.L_next)", "FADD R2, R2, R2", ".L_next:",
        "MUFU.RCP R3, R2", ".L_end:", "IMAD R6, R6, R6, R6", "EXIT",
    )  # fmt: skip
    found = kernel(*rows, launch="64,256", patterns={"0x70": "coalesced"})
    of_block = sum((executions_by(found.body, warp) for warp in range(8)), Counter())
    blocks = 1 / 4 if both is None else 3 / 4
    assert [of_block[op] for op in ("sfu", "store", "alu")] == pytest.approx([4 * blocks, blocks, blocks])
    inner = [one.warps for one in only(found, Conditional) if getattr(one.then[0], "op", "") in ("store", "alu")]
    assert inner == ([None, None] if both is None else [(0,), (0,)])


def test_the_one_warp_that_goes_on_in_each_block_does_so_as_often_where_chance_lets_others_exit():
    """Seven warps of eight exit in a quarter of the blocks, which is left to chance, and the rest of them later."""
    rows = (
        "S2R R0, SR_CTAID.X", "S2R R1, SR_TID.X", "ISETP.GT.U32.AND P1, PT, R1, 0x1f, PT",
        "ISETP.GT.U32.AND P0, PT, R0, 0x2f, P1", "@P0 EXIT", "MUFU.RCP R2, R2", "@P1 EXIT", "FADD R2, R2, R2", "EXIT",
    )  # fmt: skip
    found = kernel(*rows, launch="64,256")
    of_block = sum((executions_by(found.body, warp) for warp in range(8)), Counter())
    assert (of_block["sfu"], of_block["alu"]) == pytest.approx((8 - 7 / 4, 1))


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


BRANCH = (".line 4", "LDS R2, [RZ]", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA `(.L_end)", "MUFU.RCP R2, R2", ".L_end:", "EXIT")


def test_a_branch_on_data_takes_the_probability_that_is_given_or_one_half_with_a_warning():
    with pytest.warns(AssumptionWarning, match="line 4 of f.cu: the condition is not known: half of the warps jump"):
        assert counts(kernel(*BRANCH))["sfu"] == pytest.approx(0.5)
    assert counts(kernel(*BRANCH, probabilities={4: 0.25}))["sfu"] == pytest.approx(0.25)
    with pytest.raises(FrontEndError, match=r"probabilities\[4\] = 2: must be a number from 0 to 1"):
        kernel(*BRANCH, probabilities={4: 2})
    with pytest.raises(FrontEndError, match=r"probabilities\[3\]: there is no such branch; branches: 4"):
        kernel(*BRANCH, probabilities={3: 0.5})


DIAGONAL = (
    ".line 4", "S2R R0, SR_CTAID.X", "S2R R1, SR_CTAID.Y", "ISETP.NE.AND P0, PT, R0, R1, PT", "@P0 BRA `(.L_end)",
    "MUFU.RCP R2, R2", ".L_end:", "IMAD R6, R6, R6, R6", "EXIT",
)  # fmt: skip


KNOWN = "ignore:.*the condition follows from indices and arguments"


@pytest.mark.filterwarnings(KNOWN)
@pytest.mark.parametrize("key", [4, "0x30"])
def test_a_stated_probability_holds_where_the_condition_is_known(key):
    assert counts(kernel(*DIAGONAL, launch="64x64,256"))["sfu"] == pytest.approx(1 / 64)
    found = kernel(*DIAGONAL, launch="64x64,256", probabilities={key: 0.3})
    assert counts(found)["sfu"] == pytest.approx(0.3) and [one.probability for one in only(found, Conditional)] == [0.3]


def test_a_line_whose_condition_is_known_says_so_and_where_others_are_not():
    rows = (*DIAGONAL[:4], "LDS R2, [RZ]", *DIAGONAL[4:6], ".line 7", *BRANCH[2:4], *DIAGONAL[6:])
    known = "f: line 4 of f.cu: the condition follows from indices and arguments, and goes as its probability says all the same"
    others = "; conditions that depend on data: line 7 of f.cu"
    for stated, expected in (({4: 0.3}, [known + others]), ({4: 0.3, 7: 1.0}, [known])):
        with pytest.warns(AssumptionWarning) as notes:
            kernel(*rows, launch="64x64,256", probabilities=stated)
        assert [str(note.message) for note in notes if "follows" in str(note.message)] == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(*rows, launch="64x64,256", probabilities={"0x40": 0.3, 7: 1.0})


@pytest.mark.parametrize(("key", "share"), [(4, 1 / 2), ("0x70", 1.0)])
def test_of_a_line_those_branches_are_stated_whose_conditions_are_not_known(key, share):
    """A bound check and a condition on data in one line: the launch decides the first one unless its address is named."""
    rows = (
        ".line 4", "S2R R0, SR_CTAID.X", "LDS R2, [RZ]", "ISETP.GE.AND P1, PT, R0, 0x20, PT", "NOP", "NOP", "NOP", "NOP",
        "@P1 BRA `(.L_end)", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0 BRA `(.L_end)", "MUFU.RCP R2, R2", ".L_end:",
        "IMAD R6, R6, R6, R6", "EXIT",
    )  # fmt: skip
    found = kernel(*rows, probabilities={key: 1.0, "0x90": 0.25})
    assert counts(found)["sfu"] == pytest.approx(0.25 * share)


def test_a_line_that_closes_a_loop_states_no_known_condition():
    rows = (
        ".line 4", "S2R R0, SR_CTAID.X", "MOV R9, RZ", ".L_loop:", "ISETP.GT.U32.AND P0, PT, R0, 0xf, PT", "@P0 BRA `(.L_on)",
        "MUFU.RCP R2, R2", ".L_on:", "IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P1, PT, R9, 0x14, PT", "@!P1 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    with pytest.warns(AssumptionWarning, match="line 4 of f.cu: .* says how often a loop runs: its probability is not used"):
        assert counts(kernel(*rows, probabilities={4: 0.9})) == counts(kernel(*rows))
    assert counts(kernel(*rows, probabilities={"0x30": 0.9}))["sfu"] == pytest.approx(18)


def test_one_of_several_branches_of_a_line_is_named_by_its_address():
    rows = (*BRANCH[:4], "@P0 BRA `(.L_end)", *BRANCH[4:])
    with pytest.warns(AssumptionWarning) as notes:
        kernel(*rows)
    (note,) = notes
    assert str(note.message).endswith("state it with args or probabilities of 0x20, one of 2 branches there")


@pytest.mark.parametrize("stated", [{4: 0.9, "0x20": 0.25}, {"0x20": 0.25, 4: 0.9}])
def test_an_address_goes_before_the_line_of_its_branch(stated):
    assert [one.probability for one in only(kernel(*BRANCH, probabilities=stated), Conditional)] == [0.25]


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
    with pytest.warns(AssumptionWarning, match=r"2 instructions DNEW not in the table of opcodes .*: taken as fp64"):
        found = kernel("DNEW R2, R4", "DNEW R2, R4", "EXIT")
    assert counts(found)["fp64"] == 2


def test_accesses_are_those_of_the_threads():
    address = ("MOV R9, 0x4", "IMAD.WIDE R2, R0, R9, c[0x0][0x160]")
    rows = (*INDEX, *address, "LDG.E R4, [R2.64]", "LDG.E R5, [R2.64+0x4]", "SHF.L.U32 R7, R1, 0x7, RZ", "LDS R6, [R7]", "EXIT")
    first, second, shared = (s.access for s in kernel(*rows).body if s.access)
    assert (first.pattern, first.offset_bytes) == ("coalesced", 0)
    assert (second.pattern, second.offset_bytes) == ("coalesced", 4)
    assert (shared.pattern, shared.stride) == ("stride", 32)


@pytest.mark.parametrize(
    ("first", "said", "pattern"),
    [
        ("SHF.L.U32 R4, R1, 0x8, RZ", "the addresses of LDG.E depend on data: taken as coalesced", "coalesced"),
        ("MOV R4, 0x100", "where the accesses LDG.E of a warp begin depends on data", "broadcast"),
    ],
    ids=["each-thread", "all-threads"],
)
def test_addresses_that_are_known_in_the_first_trip_only_depend_on_data(first, said, pattern):
    rows = (*INDEX, first, "MOV R5, RZ", ".L_loop:", ".line 5", "LDG.E R4, [R4.64]", "ISETP.NE.AND P0, PT, R4, RZ, PT")
    chase = (*rows, "@P0 BRA `(.L_loop)", "EXIT")
    with pytest.warns(AssumptionWarning, match=said):
        found = kernel(*chase, trips={5: 10})
    assert [s.access.pattern for s in only(found, Instruction) if s.op == "load"] == [pattern]
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


def test_uniform_predicates_survive_in_a_register():
    rows = (
        "ULDC UR4, c[0x0][0x168]",
        "UISETP.GE.AND UP2, UPT, UR4, 0x3, UPT",
        "UP2UR UR5, UPR, URZ, 0x4",
        "UISETP.NE.AND UP2, UPT, URZ, URZ, UPT",
        "UR2UP UPR, UR5, 0x4",
        "PLOP3.LUT P0, PT, PT, PT, UP2, 0x80, 0x0",
        "@!P0 BRA `(.L_end)",
        "MUFU.RCP R2, R2",
        ".L_end:",
        "EXIT",
    )
    ops = [[op for op, _ in expected_ops(kernel(*rows, arguments={1: n}).body)] for n in (2, 3)]
    assert [("sfu" in each) for each in ops] == [False, True]
