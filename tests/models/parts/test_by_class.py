"""Instructions of a kernel by class, and in program order."""

from __future__ import annotations

import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Loop
from warpsim.models import NotCoveredError
from warpsim.models.parts.by_class import class_counts, sequence


def test_counts_are_means():
    body = (LOAD, Loop(body=(ADD,), trips=(2, 4)), Conditional(probability=0.25, then=(ADD,), orelse=(BARRIER,)))
    counts = class_counts(load_gpu("fermi"), kernel(*body)).instructions
    assert counts == pytest.approx({"load": 1, "alu": 3.25, "branch": 1, "barrier": 0.75, "exit": 1})
    leaves = Conditional(probability=0.25, then=(Instruction("exit"),))
    counts = class_counts(load_gpu("fermi"), kernel(leaves, ADD)).instructions
    assert counts == pytest.approx({"branch": 1, "exit": 1, "alu": 0.75})
    both = Conditional(diverges=True, then=(ADD,), orelse=(ADD, ADD))
    assert class_counts(load_gpu("fermi"), kernel(Loop(body=(both,), trips=None))).instructions == {"branch": 1, "alu": 3}


def test_counts_of_a_mix():
    of = class_counts(load_gpu("maxwell"), kernels.mix(4))
    assert of.per == "repetition"
    assert of.instructions == {"alu": 4, "load": 1}
    (adds,), (loads,) = of.arithmetic, of.accesses
    assert (adds.latency, adds.interval, loads.latency, loads.requested_bytes) == (6, 0.25, 368, 128)
    assert 1 / loads.interval == pytest.approx(0.0814, abs=5e-5)  # V Table 4.1


def test_counts_of_caches():
    gpu = load_gpu("fermi")
    load = Instruction("load", dst="r1", access=Access(l1_hit=0.25))
    of = class_counts(gpu, kernel(load))
    (part,) = of.accesses
    assert part.traffic_bytes == pytest.approx(0.75 * 128)
    assert of.memory_latency == pytest.approx(0.25 * 18 + 0.75 * 513)


def test_sequence():
    program = kernel(Loop(body=(LOAD, Loop(body=(ADD,), trips=2)), trips=2))
    assert [i.op for i in sequence(program, "model")] == [*(["load", "alu", "alu"] * 2), "exit"]
    with pytest.raises(NotCoveredError, match="model does not cover conditionals"):
        sequence(kernel(Conditional(probability=0.5, then=(ADD,))), "model")
    with pytest.raises(NotCoveredError, match="random numbers of trips"):
        sequence(kernel(Loop(body=(ADD,), trips=(1, 2))), "model")
    with pytest.raises(NotCoveredError, match="at most 200000 instructions"):
        sequence(kernel(Loop(body=(Loop(body=(ADD,), trips=10**9),), trips=10**9)), "model")
    with pytest.raises(NotCoveredError, match="treats the warps of a block differently"):
        class_counts(load_gpu("fermi"), kernels.listing_3_3())
