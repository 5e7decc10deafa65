"""Expected numbers of instructions: random choices, divergence, and warps of a block that differ."""

from __future__ import annotations

import pytest

from tests.support.model_inputs import ADD, LOAD, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Conditional, Instruction, Loop
from warpsim.models import NotCoveredError
from warpsim.models.parts.counts import bank_conflicts, counts
from warpsim.models.parts.warp_path import warp_path
from warpsim.models.parts.worksheet import worksheet

KEPLER = load_gpu("kepler")
EXIT = Instruction("exit")


@pytest.mark.parametrize(
    "program",
    [
        kernels.mix(32),
        kernels.mix(0.25),
        kernels.mix(8, iterations=7),
        kernels.vector_add(),
        kernels.vabs(negative=True),
        kernels.worksheet_3_2(),
        kernels.copy(floats=4),
        kernel(Loop(body=(ADD,), trips=(2, 6)), Conditional(probability=0.25, then=(LOAD, ADD), orelse=(ADD,))),
        kernel(Loop(body=(ADD, Conditional(probability=0.25, then=(EXIT,))), trips=(1, 3)), LOAD),
        kernel(Loop(body=(Conditional(diverges=True, then=(LOAD, ADD), orelse=(ADD,)),), trips=3)),
    ],
    ids=lambda program: program.name,
)
def test_counts_are_those_of_the_worksheet(program):
    # The worksheet is filled by scheduling a warp (warp_path), on a way of its own.
    path = warp_path(KEPLER, program)
    counted = counts(KEPLER, program)
    assert counted.per == path.per
    expected = {op: count for op, count in worksheet(KEPLER, path).instructions.items() if count}
    assert counted.ops == pytest.approx(expected)
    assert counted.total == pytest.approx(sum(expected.values()))


def test_different_warps_are_averaged():
    counted = counts(KEPLER, kernels.listing_3_3(), block_warps=4)
    assert counted.ops == pytest.approx({"branch": 1, "load": 0.25, "alu": 1.25, "barrier": 1, "exit": 1})


def test_the_shorter_side_is_extra():
    program = kernel(Conditional(diverges=True, then=(LOAD, ADD), orelse=(ADD,)), ADD)
    extra = [b for b in counts(KEPLER, program).blocks if b.extra]
    assert [b.instructions for b in extra] == [(ADD,)]


def test_an_endless_loop_that_all_leave_is_counted_by_warp():
    program = kernel(LOAD, Loop(body=(ADD, Conditional(probability=0.2, then=(EXIT,))), trips=None))
    counted = counts(KEPLER, program)
    assert counted.per == "warp"
    assert counted.ops == pytest.approx({"load": 1, "alu": 5, "branch": 5, "exit": 1})


def test_bank_conflicts_are_the_extra_passes():
    assert bank_conflicts(KEPLER, counts(KEPLER, kernels.chain("smem", ways=8, iterations=10))) == 70


def test_wrong_arguments():
    with pytest.raises(ValueError, match="block_warps = None: must be a number, since listing_3_3 treats the warps"):
        counts(KEPLER, kernels.listing_3_3())
    with pytest.raises(ValueError, match="block_warps = 0: must be at least 1"):
        counts(KEPLER, kernels.listing_3_3(), block_warps=0)
    with pytest.raises(ValueError, match="op = 'fp64': kepler has alu"):
        counts(KEPLER, kernel(Instruction("fp64", dst="r1", src=("r1",))))
    with pytest.raises(NotCoveredError, match="not all warps reach its endless loop"):
        counts(KEPLER, kernel(Conditional(probability=0.5, then=(EXIT,)), Loop(body=(ADD,), trips=None)))
