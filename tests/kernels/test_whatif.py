"""What-if changes of kernels."""

from __future__ import annotations

import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Loop
from warpsim.kernels.whatif import converged, interleaved, without, without_conflicts
from warpsim.models.parts.block_parallelism import instruction_parallelism
from warpsim.models.parts.counts import bank_conflicts, counts
from warpsim.models.volkov import latency_bound

KEPLER = load_gpu("kepler")


@pytest.mark.parametrize("program", [kernels.mix(32), kernels.vector_add(), kernels.vabs(negative=True), kernels.chain("sfu")])
def test_interleaved_copies_do_the_work_of_several(program):
    once, twice = counts(KEPLER, program).ops, counts(KEPLER, interleaved(program, 2)).ops
    for op, count in once.items():
        assert twice[op] == (1 if op in ("branch", "exit") else 2) * count


def test_interleaved_copies_are_independent():
    program = interleaved(kernels.mix(8), 3)
    assert instruction_parallelism(counts(KEPLER, program)) == 3
    # Alone, a warp of three copies takes hardly longer than one: the gaps of 3 cycles are less than any latency.
    assert latency_bound(KEPLER, program) == pytest.approx(latency_bound(KEPLER, kernels.mix(8)), rel=0.03)


def test_interleaved_does_not_copy_branches_and_barriers():
    condition = Conditional(src=("r2",), probability=0.5, then=(ADD,))
    program = interleaved(kernel(Loop(body=(LOAD, BARRIER, condition), trips=4)), 2)
    loop = program.body[0]
    assert [s.op for s in loop.body[:3]] == ["load", "load", "barrier"]
    assert loop.body[3].src == ("r2_0", "r2_1")
    assert len(loop.body[3].then) == 2
    assert interleaved(program, 1).body[0].body[0].src == ("r1_0_0",)


def test_conflicts_barriers_and_divergence_are_removed():
    far = Instruction("smem", dst="r2", src=("r1",), access=Access(pattern="stride", stride=8))
    program = kernel(far, Instruction("smem", dst="r2", src=("r1",), ways=4), BARRIER, LOAD)
    assert bank_conflicts(KEPLER, counts(KEPLER, program)) == 3 + 3  # rows of 8 bytes halve the first
    assert bank_conflicts(KEPLER, counts(KEPLER, without_conflicts(program))) == 0
    assert counts(KEPLER, without(program, "barrier", "smem")).ops == {"load": 1, "exit": 1}
    parts = Conditional(diverges=True, src=("r1",), then=(ADD,), orelse=(ADD, LOAD, LOAD))
    assert counts(KEPLER, converged(kernel(parts))).ops == {"branch": 1, "alu": 1, "load": 2, "exit": 1}
    loop = Conditional(diverges=True, then=(ADD, LOAD), orelse=(Loop(body=(ADD,), trips=9),))
    assert counts(KEPLER, converged(kernel(loop))).ops == {"branch": 1, "alu": 9, "exit": 1}  # the longer one in time
    half = Conditional(probability=0.5, then=(ADD,))
    assert converged(kernel(half)).body == (half,)


def test_empty_loops_and_sides_are_removed():
    program = kernel(Loop(body=(BARRIER,), trips=3), Conditional(probability=0.5, then=(BARRIER,)), ADD)
    assert [getattr(s, "op", None) for s in without(program, "barrier").body] == ["branch", "alu"]


@pytest.mark.parametrize(
    ("rule", "loads"), [({"probability": 0.25}, 0.75), ({"diverges": True}, 1), ({"warps": (0, 2, 3)}, 0.25)]
)
def test_the_other_side_of_a_conditional_is_kept(rule, loads):
    program = without(kernel(Conditional(then=(BARRIER,), orelse=(LOAD,), **rule), ADD), "barrier")
    assert counts(KEPLER, program, block_warps=4).ops == {"branch": 1, "load": loads, "alu": 1, "exit": 1}


def test_registers_that_are_no_longer_written_are_inputs():
    program = kernel(Instruction("smem", dst="r9", src=("r1",)), Instruction("alu", dst="r1", src=("r9",)))
    assert "r9" in without(program, "smem").inputs


def test_wrong_arguments():
    with pytest.raises(ValueError, match="copies = 0: must be an integer from 1"):
        interleaved(kernels.mix(1), 0)
    with pytest.raises(ValueError, match="ops = alu: add_chain has no other instructions"):
        without(kernels.chain("alu"), "alu")
