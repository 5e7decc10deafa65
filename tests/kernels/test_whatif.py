"""What-if changes of kernels."""

from __future__ import annotations

import pytest

import warpsim as ws
from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop, Mbarrier
from warpsim.kernels.handovers import runs_to_its_end
from warpsim.kernels.traversal import walk
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


def test_changes_keep_what_warps_do_at_mbarriers():
    """A copy of an instruction arrives and waits no second time, and what others wait for is not removed."""

    def named(program, role):
        return [getattr(one, role) for _, one in walk(program.body) if isinstance(one, Instruction) and getattr(one, role)]

    program = kernels.producer_consumer(2, iterations=20)
    for changed in (interleaved(program, 3), without(program, "smem", "branch"), without(program, "async_copy")):
        for role in ("arrives", "awaits"):
            assert named(changed, role) == named(program, role)
        assert runs_to_its_end(changed)
    copies = [one for _, one in walk(interleaved(program, 3).body) if isinstance(one, Instruction) and one.op == "async_copy"]
    assert [one.arrives for one in copies] == [None, None, "full"]
    arrives, awaits = Instruction("alu", arrives="full"), Instruction("alu", awaits="full")
    apart = Conditional(diverges=True, then=(arrives,), orelse=(ADD, awaits))
    both = Kernel(name="k", inputs=("r1",), mbarriers=(Mbarrier(name="full", arrivals=2),), body=(apart,))
    assert converged(both).body == (apart,)


def test_advice_for_a_producer_and_its_consumers():
    found = ws.advise("h100", kernels.producer_consumer(tile_bytes=1024, alpha=4, iterations=8), sms=1, cycles=20_000)
    assert "twice the ILP" in found["change"].values


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
