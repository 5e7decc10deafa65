"""Expected numbers of instructions: chance, divergence, warps told apart; and Hong and Kim's algorithms 1 and 2."""

from __future__ import annotations

import pytest

from tests.support.model_inputs import ADD, LOAD, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Loop
from warpsim.kernels.access import transactions
from warpsim.models import NotCoveredError
from warpsim.models.hong_kim import mwp_cwp
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


def test_warps_told_apart_are_averaged():
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


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("stride", "offset"), [(1, 0), (1, 16), (1, 32), (1, 5), (2, 0), (3, 0)])
def test_algorithm_1_is_the_rule_of_g80(width, stride, offset):
    access = Access(pattern="stride", stride=stride, bytes_per_thread=width, offset_bytes=offset * width)
    made = transactions(access, load_gpu("g80"))
    starts = [offset + 16 * stride * half for half in range(2)]
    assert mwp_cwp.coalesces(stride, starts, width) == (made.transactions < 32)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("stride", [1, 2, 4, 8])
def test_algorithm_2_counts_as_gt200_does(width, stride):
    made = transactions(Access(pattern="stride", stride=stride, bytes_per_thread=width), load_gpu("gt200"))
    found = mwp_cwp.half_warp_transactions(stride, [0, 16 * stride], width)
    assert made.transactions == 2 * min(found.number, 16)
    assert found.bytes == {1: 32, 2: 64}.get(width, 128)


def test_algorithm_2_by_hand():
    # A misaligned half-warp takes one transaction more; 64 floats apart, the formula exceeds 16 threads.
    assert mwp_cwp.half_warp_transactions(1, [0, 16], 4) == (128, 1)
    assert mwp_cwp.half_warp_transactions(1, [3, 19], 4) == (128, 2)
    assert mwp_cwp.half_warp_transactions(0, [0, 0], 4) == (128, 0)
    assert mwp_cwp.half_warp_transactions(64, [0, 1024], 4) == (128, 32)


def test_wrong_indices():
    with pytest.raises(ValueError, match="bytes_per_thread = 3: must be 1, 2, 4, 8 or 16"):
        mwp_cwp.coalesces(1, [0], 3)
    with pytest.raises(ValueError, match="starts = \\(\\): must have at least one index"):
        mwp_cwp.half_warp_transactions(1, [], 4)
    with pytest.raises(ValueError, match="increment = -1: must be at least 0"):
        mwp_cwp.half_warp_transactions(-1, [0], 4)
