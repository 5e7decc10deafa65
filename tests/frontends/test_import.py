"""Kernels from files: what users call, from Python and on the command line, and what is refused."""

import importlib.util
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import warpsim as ws
from tests.support.executions import expected_ops
from tests.support.listings import SCALE as LISTING
from tests.support.listings import function, only, unrolled
from warpsim import cli
from warpsim.frontends.api import read_function
from warpsim.frontends.errors import AssumptionWarning, CompileError, FrontEndError, MissingToolError
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.launch.parameters import argument_bytes, declared_in_source, parameters_of
from warpsim.frontends.machine_code.cubin import Parameter
from warpsim.frontends.machine_code.nvdisasm import find_nvdisasm
from warpsim.frontends.machine_code.sass_text import parse_listing, write_listing
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.files import write_kernel

SOURCE = """
template <class T> __device__ T twice(T x) { return x + x; }
__global__ void scale(float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += gridDim.x * blockDim.x)
        x[i] = twice(x[i]) * a;
}
extern "C" __global__ void fill(int *y) { y[threadIdx.x] = 1; }
"""

needs_tools = pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvidia-cuda-nvdisasm, of warpsim[cuda]")


@pytest.fixture
def nvrtc():
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")


def test_a_listing_becomes_a_kernel_that_names_what_it_stands_for():
    kernel = ws.kernels.from_sass(LISTING, launch=(4096, 256), args={"n": 1 << 20})
    assert (kernel.name, kernel.registers_per_thread, kernel.block_warps, kernel.source) == ("scale", 10, 8, "scale.cu")
    load = next(s for s in kernel.body if s.op == "load")
    assert load.comment == "scale.cu:5 LDG.E R4, [R2.64]"
    assert next(s for s in kernel.body if s.op == "alu").src == (load.dst,)


def test_arguments_go_by_name_by_number_or_in_order():
    kernels = [ws.kernels.from_sass(LISTING, args=args) for args in ({"n": 9000}, {2: 9000}, {"2": 9000}, (None, 2.0, 9000))]
    assert all(kernel == kernels[0] for kernel in kernels)
    with pytest.raises(FrontEndError, match=r"args\['m'\]: .* has no such parameter; parameters: 0 x, 1 a, 2 n"):
        ws.kernels.from_sass(LISTING, args={"m": 1})
    for args, twice in (({2: 4, "n": 50}, r"args\['n'\] = 50: args\[2\]"), ({"2": 4, 2: 4}, r"args\[2\] = 4: args\['2'\]")):
        with pytest.raises(FrontEndError, match=rf"{twice} gives this parameter, too"):
            ws.kernels.from_sass(LISTING, args=args)
    with pytest.raises(FrontEndError, match=r"args\['n'\] = 4294967296: must fit in 4 bytes"):
        ws.kernels.from_sass(LISTING, args={"n": 2**32})
    with pytest.raises(FrontEndError, match=r"args\['a'\] = 1e\+39: must fit in 4 bytes"):
        ws.kernels.from_sass(LISTING, args={"a": 1e39})


def test_assumptions_are_warned_of_at_the_line_of_the_caller():
    with pytest.warns(AssumptionWarning) as warned:
        ws.kernels.from_sass(LISTING, launch=(64, 256))
    assert {each.filename for each in warned} == {__file__}


def test_parameters_are_guessed_where_the_text_does_not_name_them():
    text = "\n".join(row for row in LISTING.splitlines() if not row.startswith(".parameters"))
    (parsed,) = parse_listing(text)
    assert parameters_of(parsed) == (0x160, (Parameter(0, 8), Parameter(8, 4), Parameter(12, 4)))


def test_parameters_have_the_names_of_the_source():
    assert declared_in_source(SOURCE, "scale") == (("x", False, None, ""), ("a", False, None, "number"), ("n", True, True, ""))
    bounded = "__global__ void __launch_bounds__(128) f(const float *__restrict__ x, int n[3])"
    assert declared_in_source(bounded, "f") == (("x", False, None, ""), ("n", False, None, ""))
    calculated = bounded.replace("(128)", "((BM * BN) / (TM * TN), 1)")
    assert declared_in_source(calculated, "f") == declared_in_source(bounded, "f")
    for macro in ("BOUNDS(128, 2)", "BOUNDS((BM * BN) / (TM * TN), 1)"):
        assert declared_in_source(bounded.replace("__launch_bounds__(128)", macro), "f") == declared_in_source(bounded, "f")
    macro = '#define K(size) \\\n    extern "C" __global__ void k_##size(float *out, int n) \\\n    { }\nK(1)\nK(2)\n'
    assert declared_in_source(macro, "k_2") == (("out", False, None, ""), ("n", True, True, ""))
    assert declared_in_source(SOURCE, "other") == ()
    prototype = "__global__ void scale(float *, float, const int);\n__global__ void scale(float *y, float b, const int m);\n"
    assert declared_in_source(prototype + SOURCE, "scale") == declared_in_source(SOURCE, "scale")
    assert [one[0] for one in declared_in_source("__global__ void f(float *x, int n);", "f")] == ["x", "n"]
    aliases = "typedef long long wide; using index_t = wide; typedef float* row;\n"
    aliases += "__global__ void f(row x, const index_t n, other y) {}"
    assert declared_in_source(aliases, "f") == (("x", False, None, ""), ("n", True, True, ""), ("y", False, None, ""))


def test_an_integer_that_is_given_for_a_floating_point_number_is_its_value():
    function = replace(parse_listing(LISTING)[0], parameters=(Parameter(0, 8, "x"), Parameter(8, 4, "a", kind="number")))
    assert argument_bytes(function, {"a": 2}) == argument_bytes(function, {"a": 2.0})


@pytest.mark.parametrize(
    ("kind", "signed"),
    [
        ("int", True),
        ("long long", True),
        ("short const", True),
        ("const unsigned int", False),
        ("unsigned", False),
        ("std::size_t", False),
        ("uint64_t", False),
        ("char", None),
        ("int2", None),
    ],
)
def test_integers_are_known_by_their_declaration(kind, signed):
    text = f"__global__ void f({kind} n, {kind} *m, float x, double const y, intptr z)"
    found = declared_in_source(text, "f")
    assert [(one.name, one.integer) for one in found] == [("n", True), *((name, False) for name in "mxyz")]
    assert [one.signed for one in found] == [signed, None, None, None, None]


def test_integers_are_in_the_range_of_their_declaration():
    """A cubin or a listing does not say what is signed, so that both ranges are allowed."""
    for signed, least, most in ((True, -(2**31), 2**31 - 1), (False, 0, 2**32 - 1), (None, -(2**31), 2**32 - 1)):
        declared = replace(function("EXIT"), parameters=(Parameter(0, 4, "n", integer=True, signed=signed),))
        for value in (least, most):
            assert bytes(argument_bytes(declared, {"n": value}).values()) == (value % 2**32).to_bytes(4, "little")
        for value in (least - 1, most + 1):
            why = "" if signed is None else f": from {least} to {most}, as the source declares it"
            with pytest.raises(FrontEndError, match=rf"args\['n'\] = {value}: must fit in 4 bytes{why}$"):
                argument_bytes(declared, {"n": value})


def test_numbers_may_be_those_of_numpy():
    launch, plain = (np.int64(64), (np.int32(64), np.uint8(2)), np.int64(0)), ((64,), (64, 2), 0)
    for given, same in (({"n": np.int64(6400)}, {"n": 6400}), ((None, np.float32(2), np.int32(9)), (None, 2.0, 9))):
        assert ws.kernels.from_sass(LISTING, launch=launch, args=given) == ws.kernels.from_sass(LISTING, launch=plain, args=same)
    for array in ((np.array([64, 2]), np.array(256)), np.array([(64, 2, 1), (256, 1, 1)])):
        assert as_geometry(array) == as_geometry("64x2,256")
    loop = (".L_a:", "LDG.E R5, [R2.64]", "ISETP.NE.AND P1, PT, R5, RZ, PT", "@P1 BRA `(.L_a)", "EXIT")
    text = write_listing(function(*loop))
    trips, pattern = {".L_a": np.int64(5)}, {"0x0": "random"}
    assert only(ws.kernels.from_sass(text, trips=trips, patterns=pattern), ws.Loop)[0].trips == 5
    for wrong in ((True, 256), (np.float64(8), 256), (8, 256, True), np.array([8.0, 256.0])):
        with pytest.raises(FrontEndError, match=r"launch: .*: must be"):
            ws.kernels.from_sass(LISTING, launch=wrong)
    with pytest.raises(FrontEndError, match=r"args\['n'\] = 1000+: must fit in 4 bytes"):
        ws.kernels.from_sass(LISTING, args={"n": 10**400})


@pytest.mark.parametrize("name", ["trips", "probabilities", "patterns"])
def test_what_is_no_mapping_is_refused(name):
    with pytest.raises(TypeError, match=rf"{name} = \[5\]: must be a mapping, such as a dict, or None"):
        ws.kernels.from_sass(LISTING, **{name: [5]})


def test_arguments_options_and_macros_of_other_types_are_refused():
    for args in (5, "n=3"):
        with pytest.raises(TypeError, match=f"args = {args!r}: must be a mapping such as .*, or the arguments in order"):
            ws.kernels.from_sass(LISTING, args=args)
    for options in ([5], "-G", 5):
        with pytest.raises(TypeError, match=r"options = .*: must be a list of texts, such as \['-use_fast_math'\]"):
            ws.kernels.from_cuda(SOURCE, options=options)
    with pytest.raises(TypeError, match=r"defines = \['N'\]: must be a mapping"):
        ws.kernels.from_cuda(SOURCE, defines=["N"])


def test_truth_values_are_arguments_of_one_byte(tmp_path, capsys):
    flag, small, wide = Parameter(0, 1, "flag"), Parameter(1, 1, "small", integer=True), Parameter(4, 4, "wide")
    declared = replace(function("EXIT"), parameters=(flag, small, wide))
    for value in (True, False):
        assert argument_bytes(declared, {"flag": value}) == argument_bytes(declared, {"flag": int(value)})
        for name in ("small", "wide"):
            with pytest.raises(FrontEndError, match=rf"args\['{name}'\] = {value}: must be a number; only a bool, of one byte"):
                argument_bytes(declared, {name: value})
    listing = tmp_path / "f.sass"
    listing.write_text(write_listing(declared), encoding="utf-8")
    command = ["import", str(listing), "-o", str(tmp_path / "f.toml"), "--args"]
    assert cli.main([*command, "flag=true"]) == 0
    assert cli.main([*command, "wide=true"]) == 2
    assert "--args wide=True: must be a number" in capsys.readouterr().err


@needs_tools
def test_a_source_may_have_a_suffix_in_capitals(nvrtc, tmp_path):
    path = tmp_path / "FILL.CU"
    path.write_text(SOURCE, encoding="utf-8")
    kernel = ws.kernels.from_cuda(str(path), "sm_80", "fill", "4,32", args={"y": 0})
    assert kernel.name == "fill" and read_function(path, "sm_80", "fill")[1] == "FILL.CU"


@needs_tools
def test_integers_of_a_source_are_in_its_range(nvrtc):
    source = "__global__ void f(int *x, int n, size_t m) { if (n < 5 && m < 9) *x = 1; }"
    with pytest.raises(FrontEndError, match=r"args\['n'\] = 3000000000: must fit in 4 bytes: from -2147483648 to 2147483647"):
        ws.kernels.from_cuda(source, args={"n": 3_000_000_000})
    with pytest.raises(FrontEndError, match=r"args\['m'\] = -1: must fit in 8 bytes: from 0 to"):
        ws.kernels.from_cuda(source, args={"m": -1})


def test_arguments_are_finite_and_those_declared_as_integers_are_integers():
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(FrontEndError, match=rf"args\['n'\] = {value}: must be a finite number"):
            ws.kernels.from_sass(LISTING, args={"n": value})
    with pytest.raises(FrontEndError, match=r"args\['nx'\] = 512.0: must be an integer, as the source declares it"):
        ws.load_kernel("cuda/stencil", args={"nx": 512.0, "ny": 512, "nz": 128})


def test_a_kernel_file_reads_as_what_it_was_written_from(tmp_path):
    kernel = ws.load_kernel("cuda/reduction", function="reduce_5")
    path = tmp_path / "kernel.toml"
    path.write_text(write_kernel(kernel), encoding="utf-8")
    assert ws.load_kernel(path) == kernel
    endless = ws.kernels.mix(alpha=4)
    path.write_text(write_kernel(endless), encoding="utf-8")
    assert ws.load_kernel(path) == endless


def test_launches_take_the_warps_of_the_kernels_blocks():
    from warpsim.simulation.point import make_point

    point = make_point(ws.load_gpu("a100"), ws.load_kernel("cuda/transpose_padded"))
    assert point.launch.block_warps == 8
    same = ws.load_kernel("cuda/transpose_padded").model_copy(update={"block_warps": None})
    assert same.identity() == point.kernel.identity()


def test_a_program_whose_warps_differ_keeps_its_size_of_block():
    from warpsim.simulation.point import make_point

    first = ws.Conditional(then=[ws.Instruction("alu")], warps=[0])
    named, alike = (ws.Kernel(name="k", block_warps=4, body=(one,)) for one in (first, ws.Instruction("alu")))
    assert make_point("a100", named).launch.block_warps == make_point("a100", named, block_warps=4).launch.block_warps == 4
    with pytest.raises(ValueError, match="block_warps = 8: must be 4, the size of block for which k was made"):
        make_point("a100", named, block_warps=8)
    assert make_point("a100", alike, block_warps=8).launch.block_warps == 8
    assert make_point("a100", named.model_copy(update={"block_warps": None}), block_warps=8).launch.block_warps == 8


def test_an_imported_kernel_runs_alike_on_the_engine_and_the_reference():
    kernel = ws.kernels.from_sass(LISTING, launch=(64, 128), args={"n": 6400})
    launch = ws.kernels.launch_of((64, 128))
    runs = [
        ws.simulate("a100", kernel, launch=launch, sms=4, replicates=1, scheduler="gto", engine=engine)
        for engine in ("compiled", "reference")
    ]
    assert runs[0].cycles.item() == runs[1].cycles.item()
    assert runs[0].warp_cycles.values.tolist() == runs[1].warp_cycles.values.tolist()


def test_a_path_with_spaces_is_quoted_for_the_shell(tmp_path, capsys):
    listing, output = tmp_path / "scale.sass", tmp_path / "my kernel.toml"
    listing.write_text(LISTING, encoding="utf-8")
    assert cli.main(["import", str(listing), "--launch", "32,64", "--args", "n=4096", "-o", str(output)]) == 0
    assert f"--kernel '{output}' --blocks 32" in capsys.readouterr().out


def test_the_command_writes_a_kernel_or_nothing(tmp_path, capsys):
    listing, output = tmp_path / "scale.sass", tmp_path / "scale.toml"
    listing.write_text(LISTING, encoding="utf-8")
    command = ["import", str(listing), "--launch", "32x2,64", "--args", "n=4096", "-o", str(output)]
    assert cli.main([*command, "--listing", str(tmp_path / "again.sass")]) == 0
    assert "--blocks 64" in capsys.readouterr().out
    assert ws.load_kernel(output) == ws.kernels.from_sass(LISTING, launch=((32, 2), 64), args={"n": 4096})
    assert (tmp_path / "again.sass").read_text(encoding="utf-8") == LISTING
    assert cli.main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["output"] == str(output) and printed["kernel"] == ws.load_kernel(output).name
    assert printed["blocks"] == 64 and printed["instructions"] > 0
    output.unlink()
    for change, message in (
        (["--args", "q=1"], "--args q: scale has no such parameter"),
        (["--args", "a=1e99"], "--args a=1e+99: must fit in 4 bytes"),
        (["--function", "skale"], "--function skale: is not in"),
        (["--trips", "5=3"], "--trips 5: there is no such loop; loops: none"),
        (["--launch", "many"], "--launch many: must be"),
        (["--launch", ""], "--launch: must be"),
        (["--launch", "it's:2"], "--launch it's:2: must be"),
    ):
        assert cli.main([*command, *change]) == 2
        assert message in capsys.readouterr().err
        assert not output.exists()
    assert cli.main(["import", str(tmp_path / "none.cubin"), "-o", str(output)]) == 2
    (tmp_path / "torn.cubin").write_bytes(b"\x7fELF\x02\x01\x01")
    assert cli.main(["import", str(tmp_path / "torn.cubin"), "-o", str(output)]) == 2
    assert "truncated or damaged" in capsys.readouterr().err and not output.exists()


def test_the_padding_behind_the_end_is_not_counted(tmp_path, capsys):
    listing = tmp_path / "scale.sass"
    padding = ".L_end:\n--:-:-:-:0 BRA `(.L_end)\n" + 5 * "--:-:-:-:0 NOP\n"
    listing.write_text(LISTING + padding, encoding="utf-8")
    command = ["import", str(listing), "--args", "n=4096", "-o", str(tmp_path / "scale.toml")]
    assert cli.main(command) == 0
    assert "scale, sm_80: 11 instructions," in capsys.readouterr().out
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["instructions"] == 11


@pytest.mark.parametrize("arch, base", [(80, 0), (90, 0x400)])
def test_dynamic_shared_memory_that_the_launch_lacks_is_warned_of(arch, base):
    rows = ("S2R R1, SR_TID.X", "SHF.L.U32 R1, R1, 0x3, RZ", f"STS.64 [R1+{base:#x}], R2", "EXIT")
    listing = write_listing(function(*rows, arch=arch, shared=0))
    with pytest.warns(
        AssumptionWarning, match="reach byte 1024 of shared memory, and a block has 1020: give the bytes of dynamic"
    ):
        ws.kernels.from_sass(listing, launch=(8, 128, 1020))
    ws.kernels.from_sass(listing, launch=(8, 128, 1024))


def test_what_depends_on_data_is_asked_for_by_the_options_of_the_command(tmp_path, capsys):
    rows = (
        "LDG.E R5, [R2.64]",
        "@P0 BRA `(.L_skip)",
        ".L_skip:",
        ".L_loop:",
        "ISETP.NE.AND P1, PT, R5, RZ, PT",
        "@P1 BRA `(.L_loop)",
    )
    listing = tmp_path / "data.sass"
    listing.write_text(write_listing(function(*rows, "EXIT")), encoding="utf-8")
    command = ["import", str(listing), "-o", str(tmp_path / "data.toml"), "--listing", str(tmp_path / "again.sass")]
    assert cli.main(command) == 2
    assert ".L_loop:" in (tmp_path / "again.sass").read_text(encoding="utf-8")
    assert "give --trips KEY=number with KEY '.L_loop', or --args" in capsys.readouterr().err
    assert cli.main([*command, "--trips", ".L_loop=5"]) == 0
    error = capsys.readouterr().err
    assert "state it with --args or --probabilities" in error and "taken as coalesced; give --patterns" in error


def test_an_unknown_architecture_is_refused_with_those_that_are_known(nvrtc, tmp_path, capsys):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE, encoding="utf-8")
    hints = {"sm_91": ", did you mean 'sm_90'?", "76": ", did you mean 'sm_75'?", "h100": "; the chip h100 is sm_90;"}
    hints["new"] = "; architectures: sm_"
    for arch, hint in hints.items():
        assert cli.main(["import", str(path), "--arch", arch, "-o", str(tmp_path / "scale.toml")]) == 2
        error = capsys.readouterr().err
        assert f"--arch {arch}: NVRTC" in error and hint in error and "sm_90" in error


def test_blocks_larger_than_the_launch_bounds_are_refused():
    bounded = replace(function("EXIT"), most_threads=128)
    assert to_kernel(bounded, as_geometry((8, (32, 4))), Choices(), name="f").block_warps == 4
    with pytest.raises(FrontEndError, match="launch: block of 256 threads: must be at most 128, as the launch bounds of f state"):
        to_kernel(bounded, as_geometry((8, (64, 4))), Choices(), name="f")


@needs_tools
def test_launch_bounds_of_a_source_hold(nvrtc):
    source = "__global__ void __launch_bounds__(128) fill(int *x) { x[threadIdx.x] = 1; }"
    assert ws.kernels.from_cuda(source, launch=(8, 128)).block_warps == 4
    with pytest.raises(FrontEndError, match="must be at most 128, as the launch bounds of fill state"):
        ws.kernels.from_cuda(source, launch=(8, 160))


@needs_tools
def test_a_source_becomes_a_kernel(nvrtc, tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE, encoding="utf-8")
    kernel = ws.kernels.from_cuda(SOURCE, "sm_90", "scale", (64, 256), args={"n": 64 * 256 * 20})
    assert [statement.trips for statement in kernel.body if hasattr(statement, "trips")] in (
        [20],
        [5],
    )  # five if unrolled by four
    named = ws.kernels.from_cuda(path, "sm_90", "scale", (64, 256), args={"n": 64 * 256 * 20})
    assert named.identity() == kernel.identity()
    with pytest.raises(FrontEndError, match=r"function = None: source.cu holds several; name one of: fill, scale"):
        ws.kernels.from_cuda(SOURCE)
    with pytest.raises(CompileError, match=r"source\.cu\(2\): error"):
        ws.kernels.from_cuda("\nint x = y;")
    with pytest.raises(CompileError, match=r"(?s)y\.h.*NVRTC compiles device code only"):
        ws.kernels.from_cuda('#include "y.h"\nint x = y;')
    whole = "#include <stdio.h>\n__global__ void f(float *x) { x[0] = 1; }\nint main() { return 0; }"
    assert ws.kernels.from_cuda(whole).name == "f"
    with pytest.raises(FrontEndError, match=r"source\.cu: holds no kernel; a template needs an instantiation"):
        ws.kernels.from_cuda("template <class T> __global__ void f(T *x) { x[0] = 1; }\n")
    with pytest.raises(FrontEndError, match="arch = 'sm_1': NVRTC"):
        ws.kernels.from_cuda(SOURCE, "sm_1")


def test_ten_thousand_instructions_are_imported():
    """Addresses, loads, arithmetic and stores in turn, as unrolled code has them; benchmarks/ says how long it takes."""
    kernel = ws.kernels.from_sass(unrolled(), launch=(128, 128), args={"n": 16384})
    assert len(kernel.body) > 10_000


def test_without_triton_the_message_says_what_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingToolError, match="pip install triton"):
        ws.kernels.from_triton(None, {}, {})


def test_options_of_other_kinds_of_files_are_refused(tmp_path, capsys):
    path, output = tmp_path / "scale.sass", str(tmp_path / "scale.toml")
    path.write_text(LISTING)
    of_traces, of_triton = [("--kernel", "2", "trace")], [("--signature", "x=i32", "Triton"), ("--num-warps", "8", "Triton")]
    for option, value, kind in (*of_traces, *of_triton, ("--define", "N=3", "CUDA")):
        assert cli.main(["import", str(path), option, value, "-o", output]) == 2
        error = capsys.readouterr().err
        assert option in error and f"is no {kind}" in error


@needs_tools
def test_headers_and_macros_are_given_as_to_a_compiler(nvrtc, tmp_path, capsys):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "many.h").write_text("#include <exception>\n#define MANY 4\nvoid host() { throw 1; }\n")
    path, output = tmp_path / "fill.cu", tmp_path / "fill.toml"
    path.write_text(
        '#include "many.h"\n'
        "__global__ void fill(int *x) { for (int i = 0; i < MANY * MORE; i++) x[i * 4096 + threadIdx.x] = i; }\n"
        "int main() { host(); }"
    )
    command = ["import", str(path), "--launch", "16,128", "-o", str(output)]
    assert cli.main(command) == 1
    assert 'identifier "MANY" is undefined' in capsys.readouterr().err
    assert cli.main([*command, "-I", str(tmp_path / "header")]) == 2
    assert "header: must be a folder that exists" in capsys.readouterr().err
    assert cli.main([*command, "-I", str(tmp_path / "headers"), "-D", "MORE=2"]) == 0
    assert sum(times for op, times in expected_ops(ws.load_kernel(output).body) if op == "store") == 8


def test_a_triton_function_needs_triton(tmp_path, capsys):
    (tmp_path / "kernels.py").write_text("def add(x):\n    return x\n")
    assert cli.main(["import", f"{tmp_path}/kernels.py:add", "-o", str(tmp_path / "add.toml")]) == 2
    has_triton = importlib.util.find_spec("triton") is not None
    assert ("functions there: none" if has_triton else "pip install triton") in capsys.readouterr().err
    assert not (tmp_path / "add.toml").exists()


def test_an_architecture_other_than_that_of_the_machine_code_is_refused(tmp_path, capsys):
    path = tmp_path / "scale.sass"
    path.write_text(LISTING)
    command = ["import", str(path), "--args", "n=1000", "-o", str(tmp_path / "scale.toml")]
    assert cli.main([*command, "--arch", "sm_90"]) == 2
    assert f"--arch sm_90: {path} holds machine code for sm_80; leave it out" in capsys.readouterr().err
    assert cli.main([*command, "--arch", "sm_80"]) == 0


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", "is empty"), (b"//\n// Generated by NVVM\n\n.version 9.0\n.target sm_90\n", "is PTX, which is no machine code")],
)
def test_files_that_hold_no_machine_code_say_what_they_are(data, says, tmp_path):
    path = tmp_path / "code.cubin"
    path.write_bytes(data)
    with pytest.raises(FrontEndError, match=says):
        read_function(path, "sm_80", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arch": 90}, "arch = 90: must be a text such as 'sm_90'"),
        ({"arch": None}, "arch = None: must be a text such as 'sm_90'"),
        ({"function": 3}, "function = 3: must be the name of a kernel, or None"),
        ({"caches": 3}, "caches = 3: must be a chip, its name, or None"),
        ({"source": b"__global__ void k() {}"}, "source: must be a text or the path of a file, not bytes"),
    ],
)
def test_arguments_of_other_types_are_named(arguments, message):
    given = {"source": SOURCE, "function": "scale"} | arguments
    with pytest.raises(TypeError, match=re.escape(message)):
        ws.kernels.from_cuda(**given)
