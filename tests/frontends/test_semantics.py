"""Integer instructions compute what the C expressions say from which they were compiled."""

import math
import random

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")

from warpsim.frontends import accesses, floats, integers, operands, semantics
from warpsim.frontends.evaluate import Evaluator
from warpsim.frontends.evaluation import Given
from warpsim.frontends.flow import make_flow
from warpsim.frontends.geometry import as_geometry
from warpsim.frontends.nvdisasm import disassemble, find_nvdisasm
from warpsim.frontends.nvrtc import compile_cuda
from warpsim.frontends.parameters import argument_bytes
from warpsim.frontends.sass import MachineInstruction, parse_text, write_listing
from warpsim.frontends.state import State

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


def computed(text, constant=integers.UNKNOWN, **values):
    """What an instruction computes from a constant, and registers with a value for each of 64 threads: results by name."""
    threads = np.arange(64)
    state = State(lambda *_: integers.array(constant), {}, threads % 32 < values.pop("active", 32))
    state.values = {name: np.broadcast_to(np.asarray(value), (64,)) for name, value in values.items()}
    opcode, _, operands = text.partition(" ")
    effect = semantics.effect_of(MachineInstruction(0, opcode, operands))
    return {name: np.broadcast_to(value, (64,)).tolist() for name, value in effect(state)}


def test_one_thread_of_each_warp_is_elected():
    flags = computed("ELECT P2, URZ, PT")["P2"]
    assert [n for n, flag in enumerate(flags) if flag] == [0, 32]


@pytest.mark.parametrize(
    ("text", "flags", "active", "expected"),
    [
        ("VOTEU.ANY UP0, P0", [0] * 40 + [1] + [0] * 23, 32, (0, 1)),
        ("VOTEU.ALL UP0, P0", [1] * 40 + [0] + [1] * 23, 32, (1, 0)),
        ("VOTE.ALL P3, P0", [1] * 16 + [0] * 16 + [1] * 32, 16, (1, 1)),  # threads that are off do not vote
        ("VOTE.ANY P3, !P0", [1] * 32 + [0] * 32, 32, (0, 1)),
        ("VOTE.ANY P3, P0", [0] * 31 + [-1] + [1] + [-1] * 31, 32, (-1, 1)),  # one vote decides, whatever the others are
        ("VOTE.ALL P3, P0", [1] * 31 + [-1] + [0] + [-1] * 31, 32, (-1, 0)),
    ],
)
def test_threads_vote(text, flags, active, expected):
    (votes,) = computed(text, P0=flags, active=active).values()
    assert (votes[0], votes[63]) == expected


def test_a_warp_reads_the_value_of_one_of_its_lanes():
    values = np.arange(64) * 10
    assert computed("SHFL.IDX PT, R6, R9, RZ, 0x1f", R9=values)["R6"] == [0] * 32 + [320] * 32
    assert computed("SHFL.IDX PT, R6, R9, R2, 0x1f", R9=values, R2=[5] * 64)["R6"] == [50] * 32 + [370] * 32
    assert computed("SHFL.IDX PT, R6, R9, R2, 0x1f", R9=values, R2=[20] * 64, active=8)["R6"][0] == integers.UNKNOWN
    assert semantics.effect_of(MachineInstruction(0, "SHFL.BFLY", "PT, R6, R9, 0x1, 0x1f")) is None


def test_a_move_to_a_uniform_register_says_which_threads_are_left():
    assert computed("R2UR P2, UR8, R5", R5=[7] * 64) == {"P2": [0] * 64, "UR8": [7] * 64}
    assert computed("R2UR UR8, R5", R5=[7] * 64) == {"UR8": [7] * 64}


@pytest.mark.parametrize(
    ("text", "x", "y", "expected"),
    [
        ("FMUL R3, R1, R2", 3.0, 0.1, np.float32(3.0) * np.float32(0.1)),
        ("FMUL.RZ R3, R1, R2", 3.0, np.float32(0.1), np.nextafter(np.float32(0.3), np.float32(0))),
        ("FMUL.RZ R3, -R1, R2", 3.0, np.float32(0.1), -np.nextafter(np.float32(0.3), np.float32(0))),
        ("FMUL R3, |R1|, 0.25", -2.0, 0.0, 0.5),
        ("FADD R3, R1, -R2", 3.0, 0.5, 2.5),
        ("FADD.RZ R3, R1, R2", 1.0, 0.49999997, 1.4999999),
        ("FFMA R3, R1, R2, -1", 3.0, 0.5, 0.5),
        ("FFMA R3, -R1, R2, 1", 1.0 + 2.0**-23, 1.0 - 2.0**-23, 2.0**-46),  # rounded once
        ("FMUL R3, R1, R2", -1.0, 0.0, -0.0),
        ("FSEL R3, R1, 1, PT", 4.0, 0.0, 4.0),
        ("FSEL R3, R1, 1, !PT", 4.0, 0.0, 1.0),
        ("FSEL R3, R1, +INF, !PT", 4.0, 0.0, np.inf),
        ("MUFU.RCP R3, R1", 4.0, 0.0, 0.25),
        ("MUFU.SQRT R3, R1", 9.0, 0.0, 3.0),
        ("MUFU.RSQ R3, R1", 16.0, 0.0, 0.25),
        ("FMNMX R3, R1, R2, PT", 4.0, -1.0, -1.0),
        ("FMNMX.FTZ R3, R1, -R2, !PT", 4.0, -5.0, 5.0),
        ("FMNMX R3, R1, 3, PT", float("nan"), 0.0, 3.0),
        ("FMNMX R3, R1, R2, !PT", 2.0, float("nan"), 2.0),
        ("FRND R3, R1", 2.5, 0.0, 2.0),
        ("FRND.FLOOR R3, R1", -2.5, 0.0, -3.0),
        ("FRND.CEIL R3, -R1", 2.5, 0.0, -2.0),
        ("FRND.TRUNC R3, R1", -2.75, 0.0, -2.0),
    ],
)
def test_numbers_of_single_precision(text, x, y, expected):
    bits = {name: int(np.float32(value).view(np.uint32)) for name, value in (("R1", x), ("R2", y))}
    (found,) = {value for each in computed(text, **bits).values() for value in each}
    assert np.uint32(found).view(np.float32) == np.float32(expected)


@pytest.mark.parametrize(
    ("operand", "x", "expected"),
    [("-c[0x0][0x16c]", 10.0, -10.0), ("|c[0x0][0x16c]|", -10.0, 10.0), ("-|c[0x0][0x16c]|", -10.0, -10.0)],
)
def test_constants_of_single_precision_have_signs(operand, x, expected):
    bits, result = (int(np.float32(value).view(np.uint32)) for value in (x, expected))
    assert computed(f"FADD R3, -RZ, {operand}", bits)["R3"][0] == result
    assert computed(f"FSEL R3, R1, {operand}, !PT", bits, R1=0)["R3"][0] == result
    assert semantics.effect_of(MachineInstruction(0, "FADD", f"R3, -RZ, {operand}.H1_H1")) is None


@pytest.mark.parametrize(
    ("operand", "expected"),
    [("-c[0x0][0x168]", -7), ("~c[0x0][0x168]", ~7), ("|c[0x0][0x168]|", None), ("c[0x0][0x168].B1", None)],
)
def test_integer_constants_have_signs(operand, expected):
    assert computed(f"MOV R3, {operand}", 7)["R3"][0] == (integers.UNKNOWN if expected is None else expected & MASK)


def test_pairs_of_constants_have_signs():
    found = computed("MOV.64 R4, -c[0x0][0x168]", 7)
    assert found["R4"][0] | found["R5"][0] << 32 == -(7 << 32 | 7) % 2**64
    assert computed("MOV.64 R4, c[0x0][UR4+0x168]", 7, UR4=8) == {"R4": [7] * 64, "R5": [7] * 64}


@pytest.mark.parametrize(
    ("text", "x", "flags"),
    [
        ("FSETP.GT.AND P0, P1, |R1|, 2.5, PT", -3.0, (1, 0)),
        ("FSETP.GEU.AND P0, P1, |R1|, 1.175494350822287508e-38, PT", 1.0, (1, 0)),
        ("FSETP.LT.AND P0, P1, R1, 1, PT", float("nan"), (0, 1)),
        ("FSETP.LTU.AND P0, P1, R1, 1, PT", float("nan"), (1, 0)),
        ("FSETP.EQ.OR P0, P1, R1, 2, PT", 1.0, (1, 1)),
        ("FSETP.NEU.AND P0, P1, R1, -QNAN , PT", 1.0, (1, 0)),
    ],
)
def test_numbers_are_compared(text, x, flags):
    found = computed(text, R1=int(np.float32(x).view(np.uint32)))
    assert (found["P0"][0], found["P1"][0]) == flags


@pytest.mark.parametrize(
    "text",
    [
        "FFMA R3, R1, R2",
        "FSETP.GT.AND P0, P1, R1, R2, R3",
        "FSEL R3, R1, R2, R4",
        "ISETP.GT.AND P0, PT, R1, R2, R3",
        "ISETP.GT.AND.EX P0, PT, R1, R2, PT, R3",
        "SEL R3, R1, R2, R4",
        "PLOP3.LUT P0, PT, P1, R2, PT, 0x80, 0x0",
    ],
)
def test_a_form_that_is_not_foreseen_computes_nothing_that_is_known(text):
    opcode, _, rest = text.partition(" ")
    assert semantics.effect_of(MachineInstruction(0, opcode, rest)) is None


@pytest.mark.parametrize(
    "text", ["IMAD.WIDE.U32 RZ, P0, R1, R2, R4", "MOV.64 RZ, R2", "LDC.64 RZ, c[0x0][0x160]", "SEL.64 RZ, R2, R4, PT"]
)
def test_a_pair_may_go_nowhere(text):
    assert "RZ" in computed(text, 7, R1=1, R2=2, R3=3, R4=4, R5=5)


def test_a_number_that_is_none_or_is_not_foreseen():
    assert np.isnan(np.uint32(computed("FSEL R3, R1, -QNAN , !PT", R1=0)["R3"][0]).view(np.float32))
    assert semantics.effect_of(MachineInstruction(0, "FSEL", "R3, R1, MANY, !PT")) is None


def test_halves_of_registers_become_numbers():
    assert computed("I2F.U16 R4, R3", R3=0x12345678)["R4"][0] == int(np.float32(0x5678).view(np.uint32))
    assert computed("I2F.S16 R4, R3", R3=0x1234FFFE)["R4"][0] == int(np.float32(-2).view(np.uint32))
    assert computed("I2F.S8 R4, R3", R3=0x123480)["R4"][0] == int(np.float32(-128).view(np.uint32))
    assert computed("I2F.U8 R4, R3.B2", R3=0x123480)["R4"][0] == integers.UNKNOWN
    assert computed("I2FP.F32.U32.RZ R4, R3", R3=0xFFFFFFFF)["R4"][0] == int(np.float32(4294967040.0).view(np.uint32))
    assert computed("I2F.RP R4, R3", R3=0x1000001)["R4"][0] == int(np.float32(16777218.0).view(np.uint32))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("F2I.NTZ R4, R3", -2), ("F2I.FLOOR.NTZ R4, R3", -3), ("F2I.CEIL.NTZ R4, R3", -2), ("F2I.U32.FLOOR.NTZ R4, R3", 0)],
)
def test_numbers_become_integers(text, expected):
    assert computed(text, R3=int(np.float32(-2.5).view(np.uint32)))["R4"][0] == expected & MASK


def test_bytes_of_a_register_become_predicates():
    assert computed("R2P PR, R5.B1, 0x7", R5=0x00FF0500) == {"P0": [1] * 64, "P1": [0] * 64, "P2": [1] * 64}
    assert computed("R2P PR, R5, 0x3", R5=2) == {"P0": [0] * 64, "P1": [1] * 64}
    assert semantics.effect_of(MachineInstruction(0, "R2P", "PR, -R5, 0x3")) is None


def test_two_integers_in_one_register_are_not_added_as_one():
    assert semantics.effect_of(MachineInstruction(0, "VIADD.16x2", "R5, R0, R8")) is None


def test_the_predicates_of_a_minimum_are_not_known():
    found = computed("VIMNMX.S32 R5, P1, PT, R0, R8, PT", R0=7, R8=9)
    assert (found["R5"][0], found["P1"][0]) == (7, integers.UNKNOWN)
    assert operands.written(MachineInstruction(0, "VIMNMX.S32", "R5, P1, PT, R0, R8, PT")) == ("R5", "P1")


def test_half_of_a_register_that_holds_nothing_yet_does_not_matter():
    """Compilers keep numbers of 16 bits in the lower half, and leave the upper one of the first value as it is."""
    assert computed("PRMT R7, R3, 0x7610, R7", R3=0x55)["R7"][0] == 0x55
    assert computed("PRMT R7, R3, 0x7610, R7", R3=0x55, R7=-1)["R7"][0] == integers.UNKNOWN


def test_sectors_and_lines_are_counted():
    tally = accesses.Tally()
    lanes = np.arange(64) * 4
    active = np.ones(64, bool)
    active[40:] = False
    tally.record(lanes, active, np.array([1.0, 3.0]))
    assert (tally.warps, tally.sectors, tally.lines) == (4.0, 4 + 3 * 1, 4.0)
    tally.record(np.where(lanes < 64, -1, lanes), np.ones(64, bool), np.array([1.0, 3.0]))
    assert tally.unknown == 1.0


@pytest.mark.parametrize("summands", [(2**40 + 0x100, -4, -8), (2**40 + 0x100, 4, 8), (-1, -1, -1), (2**32 - 1,) * 3, (0, 0, 0)])
def test_three_words_of_64_bits_are_added_with_all_that_is_carried_over(summands):
    state = State(lambda *_: integers.NOTHING, {}, np.ones(1, bool))
    for number, value in zip((2, 4, 6), summands, strict=True):
        state.values |= {f"R{number}": integers.array(value & MASK), f"R{number + 1}": integers.array(value >> 32 & MASK)}
    for opcode, text in (("IADD3", "R8, P0, P1, R2, R4, R6"), ("IADD3.X", "R9, R3, R5, R7, P0, P1")):
        state.values |= dict(semantics.effect_of(MachineInstruction(0, opcode, text))(state))
    assert int(state.values["R8"][0]) | int(state.values["R9"][0]) << 32 == sum(summands) % 2**64


@pytest.mark.parametrize(("mask", "results"), [("0x1", ("R45",)), ("0x3", ("R45", "R46")), ("0xf", ("R10", "R11", "R45", "R46"))])
def test_a_fetch_of_a_texture_writes_what_its_mask_names(mask, results):
    text = f"{'R10' if mask == '0xf' else 'RZ'}, R45, R48, 0x0, 0x58, 2D, {mask}"
    assert sorted(operands.written(MachineInstruction(0, "TEX.SCR.LL", text))) == sorted(results)
