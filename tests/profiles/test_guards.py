"""Blocks whose threads lie beyond the data leave at once, and those with work are simulated."""

import pytest

from warpsim.hardware.residency import Launch
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop
from warpsim.profiles.guards import blocks_with_work
from warpsim.profiles.launch import ProfiledInstruction

GRID = Launch(blocks=100, block_warps=8, resident_blocks=2)


def guarded(passing, extra=()):
    """A kernel whose warps leave unless they pass a guard, and then run a loop whose first instruction has the address 0x20."""
    exits = Conditional(then=(Instruction("exit"),), probability=1 - passing)
    first = Instruction("alu", comment="0x0020 FADD R1, R1, R1")
    return Kernel(name="k", body=(Instruction("alu"), exits, *extra, first, Loop(body=(Instruction("alu"),), trips=1000)))


def code(executed, lanes, counter="thread_inst_executed"):
    return (ProfiledInstruction(0x20, "FADD R1, R1, R1", None, executed, {counter: lanes * executed}),)


@pytest.mark.parametrize("counter", ["thread_inst_executed", "thread_inst_executed_true"])
def test_whole_warps_that_leave_are_the_last_blocks(counter):
    kernel, launch = blocks_with_work(guarded(0.497), GRID, code(398, 32, counter))
    assert launch == GRID.model_copy(update={"blocks": 50})
    (_, guard) = kernel.body
    assert guard.probability == 0 and len(guard.orelse) == 2  # nobody takes the side that leaves


def test_guards_within_each_other_leave_the_product():
    inner = Conditional(then=(Instruction("exit"),), probability=0.2)
    early = Instruction("alu", comment="0x0010 MOV R1, R2")
    counts = (*code(320, 32), ProfiledInstruction(0x10, "MOV R1, R2", None, 400, {"thread_inst_executed": 400 * 32}))
    _, launch = blocks_with_work(guarded(0.5, (early, inner)), GRID, counts)
    assert launch.blocks == 40


@pytest.mark.parametrize(
    ("passing", "lanes"),
    [(0.5, 20), (0.5, 0), (0.999, 32)],  # the guard splits warps; nothing is known; only a part of the last block leaves
)
def test_other_guards_stay_as_they_are(passing, lanes):
    kernel = guarded(passing)
    assert blocks_with_work(kernel, GRID, code(400, lanes)) == (kernel, GRID)


def test_branches_with_work_on_both_sides_are_no_guards():
    sides = {side: (Loop(body=(Instruction("alu", comment="0x0020 FADD"),), trips=100),) for side in ("then", "orelse")}
    kernel = Kernel(name="k", body=(Conditional(probability=0.5, **sides),))
    assert blocks_with_work(kernel, GRID, code(400, 32)) == (kernel, GRID)
