"""The listing of a program."""

from warpsim.kernels import Conditional, Cost, Instruction, Kernel, Loop
from warpsim.kernels.listing import listing
from warpsim.kernels.steps import flatten


def test_a_listing_has_one_line_for_each_step():
    add = Instruction("alu", dst="r1", src=["r1", "r2"])
    either = Conditional(then=[add], orelse=[Instruction("store", src=["r2"])], probability=0.5, src=["r2"])
    inner = Loop(body=[either], trips=(2, 3))
    kernel = Kernel(name="x", inputs=("r1", "r2"), body=(Loop(body=[add], trips=4), Loop(body=[inner], trips=None)))
    assert listing(flatten(kernel)) == [
        "loop 4 times",
        "  alu r1 <- r1, r2",
        "end of loop",
        "loop endless",
        "  loop 2 to 3 times",
        "    branch <- r2 else go to 8",
        "    alu r1 <- r1, r2",
        "    go to 9",
        "    store <- r2",
        "  end of loop",
        "end of loop",
        "exit",
    ]


def test_costs_of_an_instruction_follow_in_brackets():
    add = Instruction("alu", dst="r1", cost=Cost(gap_cycles=4, interval_cycles="3/2"))
    either = Conditional(then=[add], probability=0.5, cost=Cost(gap_cycles=6))
    assert listing(flatten(Kernel(name="x", body=[either]))) == [
        "branch else go to 2 [gap 6]",
        "alu r1 [interval 3/2, gap 4]",
        "exit",
    ]


def test_comments_follow_as_the_source_lines_of_imported_kernels_do():
    load = Instruction("load", dst="r1", cost=Cost(gap_cycles=4), comment="scale.cu:6 LDG.E R2, [R2.64]")
    assert listing(flatten(Kernel(name="x", body=[load]))) == ["load r1 [gap 4] # scale.cu:6 LDG.E R2, [R2.64]", "exit"]
