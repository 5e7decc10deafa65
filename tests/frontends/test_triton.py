"""Triton functions, where the user has Triton; no GPU and no torch are needed."""

import pytest

import warpsim as ws
from warpsim import cli
from warpsim.frontends.errors import FrontEndError
from warpsim.kernels.traversal import expected_ops

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


FILE = """
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)
"""


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_the_command_line_imports_a_triton_function(tmp_path, capsys):
    (tmp_path / "kernels.py").write_text(FILE)
    signature = [f"--signature={name}={kind}" for name, kind in SIGNATURE.items()]
    output = tmp_path / "add.toml"
    given = [*signature, "--constexpr", "block=1024", "--args", f"n={1 << 20}", "--launch", "1024", "--num-warps", "8"]
    assert cli.main(["import", f"{tmp_path}/kernels.py:add", "--arch", "sm_90", *given, "-o", str(output)]) == 0
    assert "--blocks 1024" in capsys.readouterr().out
    kernel = ws.load_kernel(output)
    assert (kernel.name, kernel.block_warps) == ("add", 8)
    assert cli.main(["import", f"{tmp_path}/kernels.py:sub", "-o", str(output)]) == 2
    assert "functions there: add" in capsys.readouterr().err
    (tmp_path / "kernels.py").write_text("1 / 0")
    assert cli.main(["import", f"{tmp_path}/kernels.py:add", "-o", str(output)]) == 2
    assert "cannot be executed: ZeroDivisionError" in capsys.readouterr().err
