"""Triton functions, where the user has Triton; no GPU and no torch are needed."""

import pytest

import warpsim as ws
from warpsim.frontends.errors import FrontEndError
from warpsim.kernels.statements import expected_ops

triton = pytest.importorskip("triton", reason="needs Triton, which is the user's own installation")
tl = pytest.importorskip("triton.language")


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_a_triton_function_becomes_a_kernel(arch):
    kernel = ws.kernels.from_triton(add, SIGNATURE, {"block": 1024}, 1024, arch=arch, args={"n": 1 << 20})
    counts = {}
    for op, times in expected_ops(kernel.body):
        counts[op] = counts.get(op, 0) + times
    assert (kernel.name, kernel.block_warps) == ("add", 4)
    assert (counts["load"], counts["store"], counts["alu"]) == (2 * 8, 8, 8)  # 1024 elements of 128 threads


def test_what_triton_refuses_is_refused():
    with pytest.raises(FrontEndError, match="Triton does not compile 'add' for sm_80"):
        ws.kernels.from_triton(add, {"x": "*nothing"}, {"block": 1024})
