"""Integer instructions compute what the C expressions say from which they were compiled."""

import math
import random

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")

from warpsim.frontends.execution import floats, semantics
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.execution.evaluator import Evaluator
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.launch.parameters import argument_bytes
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.machine_code.nvdisasm import disassemble, find_nvdisasm
from warpsim.frontends.machine_code.sass_text import parse_text, write_listing
from warpsim.frontends.sources.nvrtc import compile_cuda

pytestmark = pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvidia-cuda-nvdisasm, of warpsim[cuda]")

MASK = 0xFFFFFFFF
ARGUMENTS = {"n": 1000, "m": 77, "k": 0x80000123}


@pytest.mark.filterwarnings("error")
def test_a_reciprocal_of_a_number_near_zero_is_infinite_without_a_warning():
    assert floats.reciprocal(np.array([1, 0, 0x40000000])).tolist() == [0x7F800000, 0x7F800000, 0x3F000000]


def to_signed(x):
    return x - 2**32 if x >> 31 else x


def to_signed_16(x):
    return ((x & 0xFFFF) ^ 0x8000) - 0x8000


def quotient(a, b):
    return int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


class Expressions:
    """Random expressions as C text and as functions of the index variables, all of 32 bits without sign."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def make(self, depth):
        r = self.random
        if depth == 0 or r.random() < 0.1:
            name = r.choice(["tx", "ty", "bx", "by", "n", "m", "k", "literal"])
            if name == "literal":
                value = r.choice([0, 1, 2, 3, 4, 7, 31, 32, 33, 255, 0xFFFF, 0x7FFFFFFF, 0x80000000, MASK, r.getrandbits(32)])
                return f"{value}u", lambda v: value
            return name, lambda v: v[name]
        kind = r.choice(
            "+ - * & | ^ << >> sar / % s/ s% min max smin smax clamp ? neg not s8 u16 s16 mulhi smulhi abs popc brev ffs clz "
            "ceil floor lerp wide".split()
        )
        a, f = self.make(depth - 1)
        b, g = self.make(depth - 1)
        if kind in "+-*&|^":
            python = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "&": int.__and__, "|": int.__or__, "^": int.__xor__}
            return f"({a} {kind} {b})", lambda v: python[kind](f(v), g(v)) & MASK
        if kind == "<<":
            return f"({a} << ({b} & 31))", lambda v: f(v) << (g(v) & 31) & MASK
        if kind == ">>":
            return f"({a} >> ({b} & 31))", lambda v: f(v) >> (g(v) & 31)
        if kind == "sar":
            return f"(unsigned)((int){a} >> ({b} & 31))", lambda v: to_signed(f(v)) >> (g(v) & 31) & MASK
        if kind in "/%":
            c = r.choice([3, 7, 10, 32, 1000])
            divisor, h = r.choice([(f"{c}u", lambda v: c), ("m", lambda v: v["m"]), (f"({b} | 1u)", lambda v: g(v) | 1)])
            if kind == "/":
                return f"({a} / {divisor})", lambda v: f(v) // h(v)
            return f"({a} % {divisor})", lambda v: f(v) % h(v)
        if kind in ("s/", "s%"):
            if kind == "s/":
                return f"(unsigned)((int){a} / (int)m)", lambda v: quotient(to_signed(f(v)), v["m"]) & MASK
            return (
                f"(unsigned)((int){a} % 12)",
                lambda v: (to_signed(f(v)) - 12 * quotient(to_signed(f(v)), 12)) & MASK,
            )
        if kind in ("min", "max"):
            return f"{kind}({a}, {b})", lambda v: (min if kind == "min" else max)(f(v), g(v))
        if kind in ("smin", "smax"):
            which = min if kind == "smin" else max
            return f"(unsigned){kind[1:]}((int){a}, (int){b})", lambda v: which(to_signed(f(v)), to_signed(g(v))) & MASK
        if kind == "clamp":
            return f"(unsigned)max(min((int){a}, (int){b}), 0)", lambda v: max(min(to_signed(f(v)), to_signed(g(v))), 0)
        if kind == "?":
            c, h = self.make(depth - 1)
            how = r.choice(["<", "==", "s<"])
            if how == "s<":
                return f"((int){a} < (int){b} ? {c} : {a})", lambda v: h(v) if to_signed(f(v)) < to_signed(g(v)) else f(v)
            if how == "<":
                return f"({a} < {b} ? {c} : {b})", lambda v: h(v) if f(v) < g(v) else g(v)
            return f"({a} == {b} ? {c} : {a})", lambda v: h(v) if f(v) == g(v) else f(v)
        if kind == "neg":
            return f"(-{a})", lambda v: -f(v) & MASK
        if kind == "not":
            return f"(~{a})", lambda v: ~f(v) & MASK
        if kind == "s8":
            return f"(unsigned)(signed char)({a})", lambda v: ((f(v) & 0xFF) ^ 0x80) - 0x80 & MASK
        if kind == "s16":
            return f"(unsigned)(short)({a})", lambda v: ((f(v) & 0xFFFF) ^ 0x8000) - 0x8000 & MASK
        if kind == "u16":
            return f"(unsigned)(unsigned short)({a})", lambda v: f(v) & 0xFFFF
        if kind == "mulhi":
            return f"__umulhi({a}, {b})", lambda v: f(v) * g(v) >> 32
        if kind == "smulhi":
            return f"(unsigned)__mulhi((int){a}, (int){b})", lambda v: to_signed(f(v)) * to_signed(g(v)) >> 32 & MASK
        if kind == "abs":
            return f"(unsigned)abs((int){a})", lambda v: abs(to_signed(f(v))) & MASK
        if kind == "popc":
            return f"(unsigned)__popc({a})", lambda v: f(v).bit_count()
        if kind == "brev":
            return f"__brev({a})", lambda v: int(f"{f(v):032b}"[::-1], 2)
        if kind == "ffs":
            return f"(unsigned)__ffs({a})", lambda v: (f(v) & -f(v)).bit_length()
        if kind == "clz":
            return f"(unsigned)__clz({a})", lambda v: 32 - f(v).bit_length()
        if kind == "lerp":  # exact, so that it does not matter whether the compiler fuses the two steps
            text = f"(unsigned)(((float)(({a}) & 0xFFF) + 0.5f) * 0.75f - 0.25f)"
            return text, lambda v: int(((f(v) & 0xFFF) + 0.5) * 0.75 - 0.25)
        if kind in ("ceil", "floor"):
            text = f"(unsigned){kind}f(fminf((float)(short)({a}) * 0.25f, 300.5f)) & 0xFFFF"
            return f"({text})", lambda v: max(getattr(math, kind)(min(to_signed_16(f(v)) / 4, 300.5)), 0) & 0xFFFF
        return (
            f"(unsigned)(((long long)(int){a} * (int){b} + (long long)k) >> 5)",
            lambda v: to_signed(f(v)) * to_signed(g(v)) + v["k"] >> 5 & MASK,
        )


def addresses_of(function, launch, arguments, monkeypatch):
    """The addresses of every store by line of the source: int64[threads], and which threads executed it."""
    found = {}
    flow = make_flow(function)
    evaluator = Evaluator(Given(flow, as_geometry(launch), argument_bytes(function, arguments)))
    code = function.code

    def access(self, number, step, active):
        if not active.any():
            return
        line = code[step.index].line
        value = np.broadcast_to(self.state.address(step.addresses[0]), active.shape)
        old, seen = found.get(line, (np.full(active.shape, -1), np.zeros(active.shape, bool)))
        found[line] = (np.where(active, value, old), seen | active)

    monkeypatch.setattr(Evaluator, "_access", access)
    evaluator.run()
    return found


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_addresses_are_those_that_the_source_says(arch, monkeypatch):
    """Random expressions: stores go to the bytes that Python computes."""
    made = Expressions(arch)
    expressions = [made.make(depth) for depth in (1, 2, 3) for _ in range(16)]
    names = "unsigned tx = threadIdx.x, ty = threadIdx.y, bx = blockIdx.x, by = blockIdx.y;"
    rows = "\n".join(f"x[(size_t)({text})] = {number};" for number, (text, _) in enumerate(expressions))
    source = f'extern "C" __global__ void f(volatile char *x, unsigned n, unsigned m, unsigned k) {{ {names}\n{rows}\n}}'
    cubin = compile_cuda(source, "f.cu", arch, options=["-lineinfo"])
    function = disassemble(cubin)["f"]
    (function,) = parse_text(write_listing(function))  # by way of the short form
    found = addresses_of(function, ((3, 2), (16, 4)), tuple([None, *ARGUMENTS.values()]), monkeypatch)
    blocks = [(x, y) for x in range(3) for y in range(2)]
    for number, (text, value) in enumerate(expressions):
        addresses, seen = found[2 + number]
        assert seen.all(), text
        expected = [value({"tx": t % 16, "ty": t // 16, "bx": x, "by": y, **ARGUMENTS}) for x, y in blocks for t in range(64)]
        assert (addresses - (1 << 40)).tolist() == expected, text


def to_signed_64(x):
    return x - 2**64 if x >> 63 else x


WIDE = {
    "a < b": lambda a, b: a < b,
    "a <= b": lambda a, b: a <= b,
    "a == b": lambda a, b: a == b,
    "a != b": lambda a, b: a != b,
    "(long long)a < (long long)b": lambda a, b: to_signed_64(a) < to_signed_64(b),
    "(long long)a >= (long long)b": lambda a, b: to_signed_64(a) >= to_signed_64(b),
    "min(a, b)": min,
    "max(a, b)": max,
    "min((long long)a, (long long)b)": lambda a, b: min(a, b, key=to_signed_64),
    "max((long long)a, 128ll)": lambda a, b: max(a, 128, key=to_signed_64),
    "a > b ? a - b : b + 5": lambda a, b: a - b if a > b else b + 5,
    "a == b ? k : a": lambda a, b: ARGUMENTS["k"] if a == b else a,
}
"""Expressions of 64 bits, of a and b."""


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("seed", range(3))
def test_values_of_64_bits_are_compared(arch, seed, monkeypatch):
    """Pairs that differ in the upper words, in the lower ones, in both, in their signs, or not at all."""
    r = random.Random(seed)
    words = [0, 1, 127, 129, 0x7FFFFFFF, 0x80000000, MASK, r.getrandbits(32)]
    pairs = [tuple(r.choice(words) for _ in range(4)) for _ in range(4)]
    fill = " ".join(
        f"if (ty == {n}) {{ a = {x << 32 | y}ull ^ tx; b = {z << 32 | w}ull; }}" for n, (x, y, z, w) in enumerate(pairs)
    )
    rows = "\n".join(
        f"{{ unsigned long long v = {text}; x[(size_t)(unsigned)(v ^ v >> 29)] = {number}; }}" for number, text in enumerate(WIDE)
    )
    source = f"""extern "C" __global__ void f(volatile char *x, unsigned n, unsigned m, unsigned k) {{
unsigned tx = threadIdx.x, ty = threadIdx.y; unsigned long long a = 0, b = 0; {fill}
{rows}
}}"""
    (function,) = disassemble(compile_cuda(source, "f.cu", arch, options=["-lineinfo"])).values()
    found = addresses_of(function, ((1,), (16, 4)), (None, *ARGUMENTS.values()), monkeypatch)
    for number, (text, value) in enumerate(WIDE.items()):
        addresses, seen = found[3 + number]
        results = [int(value(x << 32 | y ^ t, z << 32 | w)) & 2**64 - 1 for x, y, z, w in pairs for t in range(16)]
        assert seen.all() and (addresses - (1 << 40)).tolist() == [(v ^ v >> 29) & MASK for v in results], text


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("size", [1, 3, 96, 128, 1024])
def test_integers_of_16_bits_are_divided_as_the_compiler_does_it(arch, size, monkeypatch):
    """Blackwell's compiler counts the trips of a loop by the block's size with a division in single precision."""
    source = """extern "C" __global__ void f(volatile char *x, unsigned n) {
        for (unsigned short k = threadIdx.x; k < 2048; k += 97)
            x[(size_t)(unsigned short)((unsigned short)(k * n) / (unsigned short)blockDim.x)] = 1;
    }"""
    (function,) = disassemble(compile_cuda(source, "f.cu", arch, options=["-lineinfo"])).values()
    met = []

    def access(self, number, step, active):
        value = np.broadcast_to(self.state.address(step.addresses[0]), active.shape)
        met.append(np.where(active, value - (1 << 40), -1))

    monkeypatch.setattr(Evaluator, "_access", access)
    monkeypatch.setattr(Evaluator, "_skip_trips", lambda *arguments: None)
    flow = make_flow(function)
    Evaluator(Given(flow, as_geometry(((1,), (size,))), argument_bytes(function, (None, 31)))).run()
    for thread in (0, size // 2, size - 1):
        expected = [(k * 31 & 0xFFFF) // size for k in range(thread, 2048, 97)]
        assert [row[thread] for row in met if row[thread] >= 0] == expected


def test_the_expressions_are_checked_against_something(monkeypatch):
    """A wrong multiplication is noticed."""
    right = semantics._MAKERS["IMAD"]
    monkeypatch.setitem(semantics._MAKERS, "IMAD", lambda suffixes, parts: right(suffixes, (*parts[:2], parts[2], *parts[2:3])))
    with pytest.raises((AssertionError, KeyError)):
        test_addresses_are_those_that_the_source_says("sm_80", monkeypatch)
