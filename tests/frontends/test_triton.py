"""Triton functions, where the user has Triton; no GPU and no torch are needed."""

import pytest

import warpsim as ws
from tests.support.executions import expected_ops
from warpsim import cli
from warpsim.frontends.errors import FrontEndError

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
triton = pytest.importorskip("triton", reason="needs Triton, which is the user's own installation")
tl = pytest.importorskip("triton.language")


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_triton_function_becomes_a_kernel(arch):
    kernel = ws.kernels.from_triton(add, SIGNATURE, {"block": 1024}, 1024, arch=arch, args={"n": 1 << 20})
    found = counts(kernel)
    assert (kernel.name, kernel.block_warps) == ("add", 4)
    assert (found["load"], found["store"], found["alu"]) == (2 * 2, 2, 8)  # 1024 elements of 128 threads, four in an access


def counts(kernel):
    found = {}
    for op, times in expected_ops(kernel.body):
        found[op] = found.get(op, 0) + times
    return found


@pytest.mark.parametrize(
    ("n", "accesses"),
    [(1 << 20, 2), ((1 << 20) + 1, 8)],
    ids=["a multiple of 16", "no multiple of 16"],
)
def test_the_compiler_learns_which_arguments_are_multiples_of_16(n, accesses):
    kernel = ws.kernels.from_triton(add, SIGNATURE, {"block": 1024}, 1025, args={"n": n})
    assert counts(kernel)["store"] == accesses


def test_an_argument_is_given_once():
    with pytest.raises(FrontEndError, match=r"args\['n'\] = 50: args\[3\] gives this parameter, too"):
        ws.kernels.from_triton(add, SIGNATURE, {"block": 1024}, 1024, args={3: 4, "n": 50})


@triton.jit(do_not_specialize=["n"])
def add_any(x, y, out, n, block: tl.constexpr = 1024):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def test_a_function_can_forbid_it_and_constants_have_defaults():
    kernel = ws.kernels.from_triton(add_any, SIGNATURE, {}, 1024, args={"n": 1 << 20})
    assert counts(kernel)["store"] == 8


@triton.autotune([triton.Config({"block": 512})], key=["n"])
@triton.jit
def strided(x, out, n, stride, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n), mask=at < n)


@pytest.mark.parametrize("args", [{"n": 1 << 20, "stride": 1}, [None, None, 1 << 20, 1]], ids=["by name", "in order"])
def test_a_stride_of_1_is_a_constant(args):
    signature = {"stride": "i32", "n": "i32", "x": "*fp32", "out": "*fp32"}  # in any order
    found = ws.kernels.from_triton(strided, signature, {"block": 512}, 2048, args=args)
    assert counts(found)["load"] == 1  # four words; with a stride, a load for each


@pytest.mark.parametrize("arch", ["h100", "sm_999", "90"])
def test_other_architectures_are_refused(arch):
    with pytest.raises(FrontEndError, match=rf"arch = '{arch}': must be an architecture from sm_70 to sm_121, such as sm_90"):
        ws.kernels.from_triton(add, SIGNATURE, {"block": 1024}, arch=arch)


def test_what_is_missing_or_unknown_is_named():
    for signature, args, message in (
        ({"x": "*fp32"}, {}, "'add': argument 'y' needs a type"),
        (SIGNATURE | {"m": "i32"}, {}, "'add' has no argument 'm'"),
        (SIGNATURE, {"m": 1}, r"args\['m'\]: add has no such parameter; parameters: 0 x, 1 y, 2 out, 3 n"),
    ):
        with pytest.raises(FrontEndError, match=message):
            ws.kernels.from_triton(add, signature, {"block": 1024}, args=args)


def test_what_triton_refuses_is_refused():
    with pytest.raises(FrontEndError, match="Triton does not compile 'add' for sm_80"):
        ws.kernels.from_triton(add, SIGNATURE | {"x": "*nothing"}, {"block": 1024})


FILE = """
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)
"""


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
