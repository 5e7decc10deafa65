"""Branches by which mathematical functions tell rare operands apart: warps go the way of the others, without a warning."""

import warnings

import pytest

import warpsim as ws
from tests.support.executions import expected_ops
from tests.support.listings import function
from warpsim.frontends.machine_code.rare_operands import common_jumps
from warpsim.simulation.endless import without_exits

TESTS = {
    "infinite": (["FSETP.NEU.AND P0, PT, |R0|, +INF , PT", "@!P0 BRA `(.L_x)"], False),
    "one that is none": (["FSETP.GTU.AND P1, PT, |R0|.reuse, +INF , PT", "@P1 BRA `(.L_x)"], False),
    "of double precision": (["DSETP.NEU.AND P0, PT, |R10|, +INF , PT", "MOV R1, R2", "@P0 BRA `(.L_x)"], True),
    "large for a sine": (["FSETP.GE.AND P0, PT, |R0|, 105615, PT", "@!P0 BRA `(.L_x)"], True),
    "infinite or zero": (
        ["FSETP.NEU.AND P0, PT, |R0|, +INF , PT", "FSETP.EQ.OR P0, PT, R0, RZ, !P0", "@P0 BRA `(.L_x)"], False,
    ),
    "one, of a power": (
        ["FSETP.NEU.AND P0, PT, R0, 1, PT", "@!P0 BRA `(.L_x)", "FSETP.GTU.AND P0, PT, |R0|, +INF , PT"], False,
    ),
    "one, of anything": (["FSETP.NEU.AND P0, PT, R0, 1, PT", "@!P0 BRA `(.L_x)"], None),
    "with a sign": (["FSETP.NEU.AND P0, PT, R0, +INF , PT", "@!P0 BRA `(.L_x)"], None),
    "zero": (["FSETP.EQ.AND P0, PT, R0, RZ, PT", "@P0 BRA `(.L_x)"], None),
    "zero, or something else": (
        ["FSETP.GT.AND P0, PT, R1, 2, PT", "FSETP.EQ.OR P0, PT, R0, RZ, !P0", "@P0 BRA `(.L_x)"], None,
    ),
    "overwritten": (["FSETP.NEU.AND P0, PT, |R0|, +INF , PT", "ISETP.EQ.AND P0, PT, R1, RZ, PT", "@P0 BRA `(.L_x)"], None),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "jumps"), TESTS.values(), ids=TESTS)
def test_tests_of_rare_operands_are_told_from_others(rows, jumps):
    code = function(*rows, ".L_x:", "EXIT").code
    found = common_jumps(code)
    assert list(found.values()) == ([] if jumps is None else [jumps])
    assert all(code[index].base == "BRA" for index in found)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("what", ["sinf(x[i])", "cosf(x[i]) + sinf(x[i])", "tanf(x[i])"])
def test_a_sine_is_reduced_as_that_of_a_small_number(what):
    """It has as many instructions as in a kernel whose author promises that no argument is large."""
    source = "__global__ void f(float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; PROMISE x[i] = WHAT; }"
    source = source.replace("WHAT", what)
    promise = "if (fabsf(x[i]) >= 105615.0f) __builtin_unreachable();"
    found = []
    for text in ("", promise):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kernel = ws.kernels.from_cuda(source.replace("PROMISE", text), launch=(64, 128), caches="none")
        executed = expected_ops(without_exits(kernel.body), kernel.block_warps)
        found.append(sum(times for _, times in executed))
    assert found[0] == pytest.approx(found[1], abs=8) and found[0] < 60 * what.count("f(")


@pytest.mark.usefixtures("compiler")
def test_a_stated_probability_holds_all_the_same():
    source = "__global__ void f(float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x;\nx[i] = sinf(x[i]); }"
    bare, stated = (
        ws.kernels.from_cuda(source, launch=(64, 128), caches="none", probabilities=given) for given in ({}, {2: 1.0})
    )
    times = [sum(n for _, n in expected_ops(without_exits(one.body), one.block_warps)) for one in (bare, stated)]
    assert times[1] > 2 * times[0]
