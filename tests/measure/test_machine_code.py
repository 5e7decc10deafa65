"""Every kernel compiles for every architecture without a GPU, and its machine code holds what it promises."""

import re
from functools import cache
from itertools import pairwise

import pytest

pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")

from tests.measure import timed_code
from warpsim.frontends.errors import CompileError, FrontEndError
from warpsim.frontends.machine_code.cubin import read_cubin
from warpsim.frontends.machine_code.nvdisasm import disassemble, find_nvdisasm
from warpsim.frontends.machine_code.sass_text import parse_disassembly
from warpsim.frontends.sources.nvrtc import nvrtc_version
from warpsim.measure.compiler import compile_source, compile_text
from warpsim.measure.core import ISSUE_ORDER_WARPS
from warpsim.measure.operations import ARCHITECTURES, OPERATIONS

ARCHS = [
    arch if arch in ("sm_75", "sm_90") else pytest.param(arch, marks=pytest.mark.verify) for arch in ARCHITECTURES
]
"""An old one and a new one; `make verify` compiles for the others, too."""

needs_nvdisasm = pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvidia-cuda-nvdisasm, of warpsim[cuda]")

KERNELS = [
    ("atomic.cu", {"SPREAD": 1, "RETURNS": 1}),
    ("barrier.cu", {"REPEATS": 16}),
    ("blocks.cu", {}),
    ("chase.cu", {"THROUGH_L1": 1}),
    ("chase.cu", {"PAST_L1": 1}),
    ("chase.cu", {"EMPTY": 1}),
    ("clock.cu", {}),
    ("issue_order.cu", {"GAP": 3}),
    ("loaded.cu", {"READS": 4, "WRITES": 0}),
    ("loaded.cu", {"READS": 0, "WRITES": 4}),
    ("memory_issue.cu", {"KIND": 0, "COUNT": 16}),
    ("stream.cu", {"KIND": 3, "ELEMENTS": 2}),
    ("stream_chase.cu", {}),
]


@cache
def binary_of(source, arch, macros):
    return compile_source(source, dict(macros), arch)


@cache
def kernels_of(source, arch, macros):
    found = disassemble(binary_of(source, arch, macros).cubin)
    return {name: function.code for name, function in found.items()}


def code_of(source, arch, defines, function=None):
    return kernels_of(source, arch, tuple(defines.items()))[function or source.removesuffix(".cu")]


@pytest.mark.parametrize("arch", ARCHS)
def test_every_kernel_compiles(arch):
    for source, defines in KERNELS:
        binary = binary_of(source, arch, tuple(defines.items()))
        assert binary.cubin.startswith(b"\x7fELF") and len(binary.digest) == 64


LARGEST_BLOCKS = [
    ("barrier.cu", {"REPEATS": 32}, 1024),
    ("issue_order.cu", {"GAP": 8}, 32 * 4 * max(ISSUE_ORDER_WARPS)),
    ("loaded.cu", {"READS": 4, "WRITES": 0}, 512),
    ("atomic.cu", {"SPREAD": 2, "RETURNS": 1}, 1024),
    ("stream.cu", {"KIND": 3, "ELEMENTS": 4}, 1024),
    ("stream_chase.cu", {}, 1024),
    *(("chain.cu", {f"OP_{op.name}": 1, "ILP": op.ilp[-1], "REPEATS": 32, "SCHEDULERS": 4}, 1024) for op in OPERATIONS.values()),
]


@pytest.mark.parametrize("arch", ARCHS)
def test_the_registers_suffice_for_the_largest_block(arch):
    for source, defines, threads in LARGEST_BLOCKS:
        for function in read_cubin(binary_of(source, arch, tuple(defines.items())).cubin).functions.values():
            assert function.registers * threads <= 65536, f"{source}, {defines}: {function.registers} registers"


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "source, defines",
    [
        ("atomic.cu", {"SPREAD": 1, "RETURNS": 1}),
        ("barrier.cu", {"REPEATS": 16}),
        ("chain.cu", {"OP_fadd": 1, "ILP": 1, "REPEATS": 16, "SCHEDULERS": 4}),
        ("issue_order.cu", {"GAP": 3}),
        ("memory_issue.cu", {"KIND": 0, "COUNT": 8}),
    ],
)
def test_the_clock_behind_a_barrier_waits_for_shared_memory(arch, source, defines):
    """A warp issues a few more instructions behind a barrier before it waits there."""
    code = code_of(source, arch, defines)
    first = timed_code.clock_reads(code)[0]
    barrier = max(i for i in range(first) if code[i].opcode.startswith("BAR"))
    between = code[barrier + 1 : first]
    load = next(one for one in between if one.opcode.startswith("LDS"))
    compared = [one for one in between if one.opcode.startswith("ISETP") and timed_code.written(load) in timed_code.read(one)]
    assert compared, [one.opcode for one in between]
    assert any(one.opcode.startswith("BRA") for one in between)


def test_an_unknown_architecture_is_an_error_that_lists_those_of_the_compiler():
    with pytest.raises(FrontEndError, match=r"arch = 'sm_1': .* architectures: sm_75, sm_80"):
        compile_source("clock.cu", {}, "sm_1")


def test_a_missing_macro_is_an_error_with_the_compilers_words():
    with pytest.raises(CompileError, match="define one operation"):
        compile_source("chain.cu", {"ILP": 1, "REPEATS": 1, "SCHEDULERS": 4}, "sm_90")


def test_the_compiler_has_a_version():
    assert re.fullmatch(r"\d+\.\d+", nvrtc_version())


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHS)
def test_the_timed_loops_hold_the_chains_that_they_promise(arch):
    repeats, ilp = 16, 2
    text = "".join(  # all operations in one program, which takes a tenth of the time of one program for each
        f'#define OP_{name} 1\n#define chain chain_{name}\n#include "chain.cu"\n#undef chain\n#undef OP_{name}\n'
        for name in OPERATIONS
    )
    kernels = disassemble(compile_text(text, "all.cu", {"ILP": ilp, "REPEATS": repeats, "SCHEDULERS": 4}, arch))
    for name, op in OPERATIONS.items():
        loop = timed_code.timed_loop(kernels[f"chain_{name}"].code)
        body = [one for one in loop if one.guard not in ("@!PT", "@!UPT")]  # those only pass the time
        path = timed_code.longest_path(body, "|".join(op.step))
        for opcode, count in op.step.items():
            assert sum(bool(re.match(opcode, one)) for one in path) == repeats * count, (
                f"{name}: {opcode} on the longest path: {path}"
            )
            assert sum(bool(re.match(opcode, one.opcode)) for one in body) >= ilp * repeats * count, name
        assert len(path) <= repeats * sum(op.step.values()) + 1, f"{name}: more than the steps: {path}"
        work = [one for one in body if not re.match(r"MOV$|IMAD\.MOV", one.opcode)]  # high halves of addresses move at times
        assert len(work) <= ilp * repeats * sum(op.step.values()) + 12, f"{name}: more than the steps and the loop"
        assert len(body) <= len(work) + ilp * repeats // 2, f"{name}: more moves than a few"


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHS)
def test_clock_readings_take_no_long_latency(arch):
    for source, defines in KERNELS:
        for code in kernels_of(source, arch, tuple(defines.items())).values():
            opcodes = {code[place].opcode for place in timed_code.clock_reads(code)}
            assert opcodes <= {"CS2R", "CS2UR"}, f"{source}: {opcodes}"


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "source, function", [("chase.cu", "chase"), ("loaded.cu", "loaded"), ("stream_chase.cu", "stream_chase")]
)
def test_a_timed_load_is_waited_for_before_the_clock_is_read_again(arch, source, function):
    defines = {"PAST_L1": 1} if source == "chase.cu" else {"READS": 2, "WRITES": 1}
    code = code_of(source, arch, defines, function)
    reads = timed_code.clock_reads(code)
    timed = 0
    for first, second in pairwise(reads):
        between = code[first + 1 : second]
        loads = [one for one in between if one.opcode.startswith("LDG")]
        stores = [one for one in between if one.opcode.startswith("STS")]
        if len(loads) == 1 and len(stores) == 1 and len(between) <= 8:
            timed += 1
            assert timed_code.written(loads[0]) in timed_code.read(stores[0]), "the store needs what the load brings"
            before = [one.opcode for one in code[max(0, first - 12) : first]]
            assert any(opcode.startswith(("STS", "BRA")) for opcode in before), "and the load before is over"
    assert timed >= 1


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind, opcode", list(enumerate(("LDG", "LDS", "STG", "STS"))))
def test_memory_instructions_stand_alone_between_the_clocks(arch, kind, opcode):
    code = code_of("memory_issue.cu", arch, {"KIND": kind, "COUNT": 8})
    first, second = timed_code.clock_reads(code)[:2]
    opcodes = [one.opcode for one in code[first + 1 : second]]
    assert sum(one.startswith(opcode) for one in opcodes) == 8
    assert len(opcodes) <= 10, opcodes


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHS)
def test_barriers_and_streams_are_what_they_say(arch):
    body = timed_code.timed_loop(code_of("barrier.cu", arch, {"REPEATS": 16}))
    assert sum(one.opcode.startswith("BAR") for one in body) == 16
    for kind, (loads, stores) in enumerate(((0, 2), (2, 2), (2, 2), (4, 2))):
        code = code_of("stream.cu", arch, {"KIND": kind, "ELEMENTS": 2})
        assert sum(one.opcode.startswith("LDG.E.64") for one in code) == loads
        assert sum(one.opcode.startswith("STG.E.64") for one in code) == stores
    traffic = code_of("loaded.cu", arch, {"READS": 4, "WRITES": 2})
    assert sum(one.opcode.startswith("LDG.E.128") for one in traffic) == 4
    assert sum(one.opcode.startswith("STG.E.128") for one in traffic) == 2


TEXT = """
	.target sm_90
.text.f:
        /*0000*/                   CS2R R2, SR_CLOCKLO ;
.L_x_1:
        /*0010*/                   FADD R4, R4, R5 ;
        /*0020*/                   SHFL.BFLY PT, R4, R4, 0x1, 0x1f ;
        /*0030*/                   FADD R7, R6, R5 ;
        /*0040*/                   STG.E desc[UR4][R8.64], R4 ;
        /*0050*/              @!P0 BRA `(.L_x_1) ;
        /*0060*/                   CS2R R10, SR_CLOCKLO ;
"""


def test_the_reader_follows_values_through_registers():
    code = parse_disassembly(TEXT)[0].code
    body = timed_code.timed_loop(code)
    assert [one.opcode for one in body] == ["FADD", "SHFL.BFLY", "FADD", "STG.E", "BRA"]
    assert timed_code.longest_path(body, "FADD|SHFL") == ["FADD", "SHFL.BFLY"]
    assert timed_code.written(body[1]) == "R4" and timed_code.read(body[1]) == ("R4",)
    assert timed_code.written(body[3]) is None and timed_code.read(body[3]) == ("UR4", "R8", "R4")
    with pytest.raises(ValueError, match="at least 2"):
        timed_code.timed_loop(code[1:-1])
    with pytest.raises(ValueError, match="no loop"):
        timed_code.timed_loop([code[0], code[-1]])


@needs_nvdisasm
@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_spills_and_a_streaming_step_is_one_address_and_one_load(arch):
    for source, defines in KERNELS:
        for name, code in kernels_of(source, arch, tuple(defines.items())).items():
            assert not [one for one in code if one.opcode.startswith(("LDL", "STL"))], f"{source}: {name} uses local memory"
    code = code_of("stream_chase.cu", arch, {})
    loads = [place for place, one in enumerate(code) if one.opcode.startswith("LDG")]
    step = code[loads[-8] : loads[-1] + 1]  # the loop without timing is the last
    assert timed_code.longest_path(step, "LDG|IMAD")[1:] == ["IMAD.WIDE.U32", step[0].opcode] * 7
