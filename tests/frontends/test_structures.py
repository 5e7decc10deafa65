"""Structures as parameters of kernels: their members are named as in the source, and lie where the compiler puts them."""

import struct
import warnings
from contextlib import suppress
from dataclasses import replace

import pytest

import warpsim as ws
from tests.support.executions import expected_ops
from warpsim import cli
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.launch.parameters import argument_bytes
from warpsim.frontends.machine_code import structures
from warpsim.frontends.machine_code.cubin import BITS, NUMBER, POINTER, Parameter
from warpsim.frontends.machine_code.sass_text import parse_listing, write_listing
from warpsim.frontends.sources.cuda_source import compiled_source
from warpsim.frontends.sources.nvrtc import compile_apart

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ARRAYS = f"""struct P {{ float *x, *y; int n; }};
__global__ void soa(P p, float dt) {{ {INDEX} if (i < p.n) p.x[32 * i] += dt * p.y[i]; }}
"""
PLAIN = f"""
__global__ void soa(float *x, float *y, int n, float dt) {{ {INDEX} if (i < n) x[32 * i] += dt * y[i]; }}
"""
LOOP = f"""
__global__ void loop(float *x, int4 c)
{{ {INDEX} float s = 0;
#pragma unroll 1
    for (int k = 0; k < c.x; k++) s += x[i + k * c.y];
    x[i] = s;
}}
"""
BIT_FIELDS = f"""struct B {{ float *x; unsigned char first; unsigned n : 20, on : 1; }};
__global__ void bits(B b) {{ {INDEX} if (i < b.n) b.x[i] = 1; }}
"""


def imported(source, args=(), launch=(4096, 256)):
    """Returns a kernel without any warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ws.kernels.from_cuda(source, launch=launch, args=args)


def accesses(kernel):
    return [(one.op, one.access) for one in kernel.body if getattr(one, "access", None) is not None]


def members(source, kernel=None):
    """Returns name -> member, of all parameters of a kernel."""
    found = compiled_source(source, "", "sm_80", kernel, None, [])
    return {one.name: one for each in found.parameters for one in each.members}


@pytest.mark.parametrize("n", [4096, 1 << 20])
def test_members_are_given_and_their_pointers_have_arrays_of_their_own(compiler, n):
    kernel = imported(ARRAYS, {"p.n": n})
    strided = [(op, access.stride) for op, access in accesses(kernel) if access.pattern == "stride"]
    assert strided == [("load", 32), ("store", 32)]
    plain = imported(PLAIN, {"n": n})
    assert accesses(kernel) == accesses(plain) and len(accesses(kernel)) == 3
    assert list(expected_ops(kernel.body)) == list(expected_ops(plain.body))


def test_vectors_of_cuda_have_members(compiler):
    (loop,) = [each for each in imported(LOOP, {"c.x": 7, "c.y": 4}).body if hasattr(each, "trips")]
    assert loop.trips == 7
    with pytest.raises(FrontEndError, match=r"its number of trips depends on data, or on an argument that is not given"):
        imported(LOOP, {"c.y": 4})


def test_what_cannot_be_given_is_refused_with_what_can(compiler, tmp_path, capsys):
    for args, message in (
        ({"p.m": 1}, r"args\['p.m'\]: .* has no such parameter; parameters: 0 p, 1 dt; members: p.x, p.y, p.n$"),
        ({"p": 1}, r"a structure of 24 bytes, which cannot be given; give its members: p.x, p.y, p.n$"),
        ({"p.n": 1.5}, r"args\['p.n'\] = 1.5: must be an integer"),
        ({"p.n": 1 << 32}, r"args\['p.n'\] = 4294967296: must fit in 4 bytes"),
    ):
        with pytest.raises(FrontEndError, match=message):
            imported(ARRAYS, args)
    path = tmp_path / "indexed.cu"
    path.write_text("struct A { int n[2]; }; __global__ void f(int *x, A a) { x[a.n[0]] = a.n[1]; }", encoding="utf-8")
    assert cli.main(["import", str(path), "--args", "a.n[1]=1.5", "-o", str(tmp_path / "f.toml")]) == 2
    assert "--args a.n[1]=1.5: must be an integer" in capsys.readouterr().err


MIXED = """struct Base { char tag; };
struct Inner { char c; double d; int k[2][2]; };
typedef long long Count;
enum Mode { A, B };
template <class T, int N> struct Grid : Base { T *data[N]; Count n; };
namespace far { struct Mixed { char c; double d; short s; bool on; Inner in; float3 f; float4 g; Mode mode;
    static const int z = 1; union { int whole; float part; }; __device__ int get() const { return s; } }; }
template <class T> __global__ void mixed(char a, const far::Mixed m, const __grid_constant__ Grid<T, 2> grid, short2 pair, T *x)
{ x[m.s] = grid.data[1][grid.n] * pair.x + m.whole + m.get(); }
template __global__ void mixed<float>(char, const far::Mixed, const __grid_constant__ Grid<float, 2>, short2, float *);
"""


def test_members_lie_where_the_compiler_puts_them(compiler):
    found = members(MIXED)
    places = {name: one.offset for name, one in found.items() if name.startswith("m.")}
    own = {"m.c": 0, "m.d": 8, "m.s": 16, "m.on": 18, "m.mode": 96, "m.whole": 100, "m.part": 100}
    inner = {"m.in.c": 24, "m.in.d": 32, "m.in.k[0][0]": 40, "m.in.k[0][1]": 44, "m.in.k[1][0]": 48, "m.in.k[1][1]": 52}
    vectors = {"m.f.x": 56, "m.f.y": 60, "m.f.z": 64, "m.g.x": 80, "m.g.y": 84, "m.g.z": 88, "m.g.w": 92}
    behind = 16  # a char stands before, and float4 is aligned to 16 bytes
    assert places == {name: behind + at for name, at in (own | inner | vectors).items()}
    sizes = {"m.c": 1, "m.d": 8, "m.s": 2, "m.on": 1, "m.in.k[1][0]": 4, "m.mode": 4, "grid.tag": 1, "grid.n": 8, "pair.y": 2}
    assert {name: found[name].size for name in sizes} == sizes
    integers = {name for name, one in found.items() if one.integer}
    assert {"m.c", "m.s", "m.on", "m.mode", "m.whole", "grid.n", "pair.x"} <= integers
    assert {name for name, one in found.items() if one.kind == POINTER} == {"grid.data[0]", "grid.data[1]"}
    assert {"m.d", "m.part", "m.g.w"} <= {name for name, one in found.items() if one.kind == NUMBER and not one.integer}


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_small_members_are_read_with_what_is_between_them(compiler, arch):
    source = f"""struct M {{ char c; double d; short s; unsigned char u; long long n; bool on; }};
__global__ void mixed(M p, float *x) {{ {INDEX} float s = 0;
    if (p.on) for (int k = 0; k < p.c * p.s + p.u; k++) s += x[i + k * 1024] * p.d;
    if (i < p.n) x[i] = s;
}}"""
    args = {"p.c": 2, "p.s": 3, "p.u": 1, "p.on": True, "p.n": 1 << 20}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = ws.kernels.from_cuda(source, arch, launch=(4096, 256), args=args)
    assert sum(times for op, times in expected_ops(kernel.body) if op == "load") == 7


def test_a_listing_keeps_the_members(compiler):
    for source in (ARRAYS, MIXED, BIT_FIELDS):
        function = compiled_source(source, "", "sm_80", None, None, [])
        (again,) = parse_listing(write_listing(function))
        assert again.parameters == function.parameters
    with pytest.raises(FrontEndError, match=r"\.parameters: '0:8:p\.x' must be .*members such as p\.x follow their structure"):
        parse_listing(".target sm_80\n.function f\n.registers 8\n.parameters 0x160 0:8:p.x\n")


def test_bytes_of_members_and_what_is_not_given():
    (function,) = parse_listing(
        ".target sm_80\n.function f\n.registers 8\n"
        ".parameters 0x160 0:4:a 8:24:p 8:8:p.x 16:8:p.d:number 24:1:p.c:integer 25:1:p.b:bits\n--:-:-:-:1 EXIT\n"
    )
    found = argument_bytes(function, {"p.c": -1, "p.d": 1.5})
    assert bytes(found[0x168 + k] for k in range(8)) == (2 << 40).to_bytes(8, "little")
    assert bytes(found[0x170 + k] for k in range(8)) == struct.pack("<d", 1.5)
    assert found[0x178] == 255 and 0x179 not in found  # a bit field is not padding
    assert not {0x160, 0x170} & argument_bytes(function, {}).keys()  # a number is no pointer
    with pytest.raises(FrontEndError, match=r"args\['p.b'\] = 1: it is a bit field, which cannot be given; let the kernel take"):
        argument_bytes(function, {"p.b": 1})


def test_bit_fields_are_named_where_something_depends_on_them(compiler):
    found = members(BIT_FIELDS)
    places = [(one.offset, one.size, one.kind) for one in found.values()]
    assert places == [(0, 8, POINTER), (8, 1, NUMBER), (9, 3, BITS), (11, 1, BITS)]
    with pytest.warns(AssumptionWarning) as notes:
        kernel = ws.kernels.from_cuda(BIT_FIELDS)
    expected = "parameter b is a structure of 16 bytes, and its bit fields b.n cannot be given"
    assert any(expected in str(note.message) for note in notes)
    assert len(accesses(kernel)) == 1


def test_a_structure_that_is_not_understood_is_imported_with_a_warning(compiler, monkeypatch):
    def damaged(cubin, name):
        raise KeyError(name)

    monkeypatch.setattr(structures, "_declared", damaged)
    with pytest.warns(AssumptionWarning) as notes:
        kernel = ws.kernels.from_cuda(ARRAYS)
    (note,) = [str(each.message) for each in notes if "structure" in str(each.message)]
    assert "parameter p is a structure of 24 bytes, whose members are not known" in note
    assert note.endswith("let the kernel take such members as parameters of their own") and len(accesses(kernel)) == 3
    with pytest.raises(FrontEndError, match=r"trips.*parameter c is a structure of 16 bytes, whose members are not known"):
        imported(LOOP)
    assert compiled_source(ARRAYS, "", "sm_80", None, None, []).parameters[0] == Parameter(0, 24, "p")


def test_damaged_information_for_debuggers_is_refused(compiler):
    function = compiled_source(ARRAYS, "", "sm_80", None, None, [])
    plain = replace(function, parameters=tuple(replace(one, members=()) for one in function.parameters))
    cubin = compile_apart(ARRAYS, "soa.cu", "sm_80", options=["--device-debug"])
    assert structures.with_members(plain, cubin) == function
    with pytest.raises(FrontEndError, match=r"\.debug_info: cannot be read"):
        structures.with_members(plain, cubin[:100])
    begin = cubin.index(b"lgenfe") - 12  # the section begins with its length, its version and the first entry
    for place in range(begin, begin + 400, 7):
        with suppress(FrontEndError):
            structures.with_members(plain, cubin[:place] + b"\xff\xff" + cubin[place + 2 :])


def test_sources_without_structures_are_compiled_once(compiler, monkeypatch):
    asked = []
    place = "warpsim.frontends.sources.cuda_source.with_members"
    monkeypatch.setattr(place, lambda function, cubin: asked.append(function) or function)
    compiled_source(PLAIN, "", "sm_80", None, None, [])
    template = "template <class T> __global__ void f(T *x, T a) { *x = a; }\ntemplate __global__ void f<int>(int *, int);"
    compiled_source(template, "", "sm_80", None, None, [])
    assert not asked
    compiled_source("struct S { int a; };\n__global__ void f(int *x, S s) { *x = s.a; }", "", "sm_80", None, None, [])
    assert len(asked) == 1


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_120"])
def test_what_was_compiled_for_debuggers_leaves_the_code_of_others_alone(compiler, arch):
    """The warps of half of the blocks store 10 times, the others 20 times: sizes are constants, whenever this is compiled."""
    source = """
    struct Sizes { int of[4]; };
    __global__ void fill(const __grid_constant__ Sizes sizes, float *out)
    {
        int size = sizes.of[blockIdx.x & 1];
        for (int i = threadIdx.x; i < size; i += 256)
            out[blockIdx.x * 8192 + i] = 1;
    }"""
    sizes = {"sizes.of[0]": 2560, "sizes.of[1]": 5120}
    for _ in range(2):
        kernel = ws.kernels.from_cuda(source, arch, launch=(64, 256), args=sizes, caches="none")
        assert sum(times for op, times in expected_ops(kernel.body) if op == "store") == pytest.approx(15)
