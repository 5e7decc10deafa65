"""Blocks, loops and calls; flow that is no nest of loops is refused."""

import pytest

from tests.support.listings import function
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.machine_code.operands import conditions

LOOPS = (
    "MOV R0, 0x0",
    ".L_outer:",
    "MOV R1, 0x0",
    ".L_inner:",
    "IADD3 R1, R1, 0x1, RZ",
    "ISETP.LT.AND P0, PT, R1, 0x3, PT",
    "@P0 BRA `(.L_inner)",
    "IADD3 R0, R0, 0x1, RZ",
    "ISETP.LT.AND P1, PT, R0, 0x5, PT",
    "@P1 BRA `(.L_outer)",
    "EXIT",
)


def test_nested_loops_are_found():
    flow = make_flow(function(*LOOPS))
    assert [(loop.header, sorted(loop.blocks), loop.parent) for loop in flow.loops] == [(1, [1, 2, 3], None), (2, [2], 0)]
    assert flow.innermost() == [None, 0, 1, 0, None]


def test_the_order_follows_the_flow_and_keeps_loops_together():
    flow = make_flow(
        function(
            ".L_head:",
            "@P0 BRA `(.L_cold)",
            ".L_join:",
            "@P1 BRA `(.L_head)",
            "EXIT",
            ".L_cold:",
            "FADD R0, R0, R0",
            "BRA `(.L_join)",
        )
    )
    order = [flow.function.code[block.code[0]].text for block in flow.blocks]
    assert order == ["@P0 BRA `(.L_cold)", "FADD R0, R0, R0", "@P1 BRA `(.L_head)", "EXIT"]
    assert [sorted(loop.blocks) for loop in flow.loops] == [[0, 1, 2]]


def test_a_called_function_is_copied_to_each_call():
    flow = make_flow(
        function(
            "CALL.REL.NOINC `($f$g)",
            "MOV R1, R2",
            "CALL.REL.NOINC `($f$g)",
            "EXIT",
            "$f$g:",
            "FMUL R2, R2, R2",
            "RET.REL.NODEC R4 `(f)",
        )
    )
    texts = [flow.function.code[index].base for block in flow.blocks for index in block.code]
    assert texts == ["CALL", "FMUL", "RET", "MOV", "CALL", "FMUL", "RET", "EXIT"]


@pytest.mark.parametrize("rows", [("@!P0 EXIT P1",), ("EXIT P1",), ("@P0 EXIT !P1",)])
def test_an_exit_with_a_condition_among_its_operands_may_go_on(rows):
    flow = make_flow(function(*rows, "FADD R0, R0, R0", "EXIT"))
    assert [block.following for block in flow.blocks] == [1, None]
    assert [one.name for one in conditions(flow.last(0))] == (["P1"] if rows[0].startswith("EXIT") else ["P0", "P1"])


def test_a_jump_through_a_table_goes_to_all_its_targets():
    flow = make_flow(
        function(
            'BRX R4 -0x10 (*"BRANCH_TARGETS .L_a,.L_b"*)', ".L_a:", "FADD R0, R0, R0", "EXIT", ".L_b:", "FMUL R0, R0, R0", "EXIT"
        )
    )
    assert len(flow.blocks[0].targets) == 2


@pytest.mark.parametrize(
    "rows, message",
    [
        (
            (
                ".line 7",
                "@P0 BRA `(.L_b)",
                ".L_a:",
                "FADD R0, R0, R0",
                ".L_b:",
                "FMUL R0, R0, R0",
                ".line 9",
                "@P1 BRA `(.L_a)",
                "EXIT",
            ),
            r"irreducible control flow: the jump at line \d+ of f\.cu enters the middle of a loop, at line 7",
        ),
        (("BRA `(.L_nowhere)",), "BRA.*the target is not in the function"),
        (("BRX R4 -0x10",), "an indirect jump with unknown targets"),
        (("$f$g:", "CALL.REL.NOINC `($f$h)", "EXIT", "$f$h:", "CALL.REL.NOINC `($f$h)", "RET.REL.NODEC R2 `(f)"), "calls itself"),
    ],
)
def test_what_is_no_nest_of_loops_is_refused(rows, message):
    with pytest.raises(FrontEndError, match=message):
        make_flow(function(*rows))


def test_a_call_of_code_that_does_not_return_is_a_jump():
    """Compilers end trips of a loop in this way where threads of a warp have separated."""
    flow = make_flow(
        function(
            ".L_head:",
            "IADD3 R0, R0, 0x1, RZ",
            "ISETP.GE.AND P0, PT, R0, 0x3, PT",
            "CALL.REL.NOINC `($f$g)",
            "@!P0 CALL.REL.NOINC `(.L_head)",
            "BRA `(.L_end)",
            ".L_end:",
            "EXIT",
            "$f$g:",
            "@P1 BRA `(.L_back)",
            "FMUL R2, R2, R2",
            ".L_back:",
            "RET.REL.NODEC R4 `(f)",
        )
    )
    (loop,) = flow.loops
    texts = [flow.function.code[index].text for block in sorted(loop.blocks) for index in flow.blocks[block].code]
    assert texts[0] == "IADD3 R0, R0, 0x1, RZ" and texts[-1] == "@!P0 CALL.REL.NOINC `(.L_head)"
    assert sum(flow.last(number).base == "RET" for number in range(len(flow.blocks))) == 1


@pytest.mark.parametrize(
    "rows",
    [
        ("MOV R0, 0x0", "IADD3 R1, R0, 0x1, RZ"),
        ("@P0 BRA `(.L_a)", "EXIT", ".L_a:", "@P1 BRA `(.L_a)"),
        ("BRA `(.L_call)", ".L_f:", "RET.REL.NODEC R20", ".L_call:", "CALL.REL.NOINC `(.L_f)"),
    ],
)
def test_code_that_is_cut_off_is_refused(rows):
    with pytest.raises(FrontEndError, match="the code ends here, without EXIT or a jump; is it cut off"):
        make_flow(function(*rows))


def test_calls_through_pointers_are_refused_and_functions_of_others_are_passed_by():
    with pytest.raises(FrontEndError, match=r"CALL.REL.NOINC R6 .*: calls through a pointer.* have unknown targets"):
        make_flow(function("CALL.REL.NOINC R6 `(_Z1fPf)", "EXIT"))
    flow = make_flow(function("CALL.ABS.NOINC R2", "EXIT"))
    assert [block.targets for block in flow.blocks] == [(), ()]
