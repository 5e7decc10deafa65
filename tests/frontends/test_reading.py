"""Cubins and disassembly are read as they are; what is damaged is refused with the documented errors."""

import codecs
import os
import re
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import examples
from warpsim.frontends.api import from_sass, read_function
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.machine_code import nvdisasm
from warpsim.frontends.machine_code.cubin import Parameter, read_cubin
from warpsim.frontends.machine_code.nvdisasm import disassemble, find_nvdisasm
from warpsim.frontends.machine_code.operands import Other, Register, operands, register_slots
from warpsim.frontends.machine_code.sass import Control, MachineInstruction, decode_control
from warpsim.frontends.machine_code.sass_text import parse_disassembly, parse_listing, parse_text, write_listing
from warpsim.frontends.machine_code.symbols import instance_name, pick_function, plain_name, qualified_name

DISASSEMBLY = """
\t.target\tsm_80
\t.section\t.text.k,"ax",@progbits
\t.sectioninfo\t@"SHI_REGISTERS=8"
k:
.text.k:
\t//## File "/home/a.cu", line 1
        /*0000*/                   MOV R1, c[0x0][0x28] ;                             /* 0x00000a0000017a02 */
                                                                                      /* 0x000fe40000000f00 */
\t//## File "/home/a.cu", line 2
        /*0010*/                   S2R R2, SR_CTAID.X ;                               /* 0x0000000000027919 */
                                                                                      /* 0x000e280000002500 */
        /*0020*/                   IMAD R2, R2, c[0x0][0x0], R3 ;                     /* 0x0000000002027a24 */
                                                                                      /* 0x001fca00078e0203 */
.L_x_1:
        /*0030*/               @P0 EXIT ;                                             /* 0x000000000000094d */
                                                                                      /* 0x000fea0003800000 */
.L_x_2:
        /*0040*/                   BRA `(.L_x_2);                                     /* 0xfffffffc00fc7947 */
                                                                                      /* 0x000fc0000383ffff */
        /*0050*/                   NOP;                                               /* 0x0000000000007918 */
                                                                                      /* 0x000fc00000000000 */
"""

CUOBJDUMP = """
\tcode for sm_80
\t\tFunction : f
\t.headerflags\t@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_SM80"
        /*0000*/                   EXIT ;                                             /* 0x000000000000094d */
                                                                                      /* 0x000fea0003800000 */
"""


def elf(sections, *, flags=80 << 8, machine=190):
    """An ELF file as NVRTC writes it: sections as (name, type, info, data or size)."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    body, headers = b"", [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for name, kind, info, data in [*sections, (".shstrtab", 3, 0, names)]:
        size = data if isinstance(data, int) else len(data)
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(body), size, 0, info, 0, 0))
        body += b"" if isinstance(data, int) else data
    head = b"\x7fELF\x02\x01\x01\x41\x08".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, 64 + len(body), flags, 64, 56, 0, 64, len(headers), len(headers) - 1
    )
    return head + body + b"".join(headers)


def small_cubin():
    param = struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 0, 0, 8 << 18) + struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 1, 8, 4 << 18)
    own = struct.pack("<BBHIHH", 4, 0x0A, 8, 2, 0x160, 12) + param
    strings = b"\0f\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0, 0, 0, 0, 0)
    return elf(
        [
            (".symtab", 2, 0, symbols),
            (".strtab", 3, 0, strings),
            (".nv.info", 0x70000000, 0, struct.pack("<BBHII", 4, 0x2F, 8, 1, 24)),
            (".nv.info.f", 0x70000000, 0, own),
            (".nv.shared.f", 8, 0, 512),
            (".text.f", 1, 0, bytes(32)),
        ]
    )


def test_a_cubin_says_what_its_kernels_need():
    cubin = read_cubin(small_cubin())
    function = cubin.functions["f"]
    assert cubin.arch == 80
    assert (function.registers, function.shared_bytes, function.parameter_base) == (24, 512, 0x160)
    assert function.parameters == (Parameter(0, 8), Parameter(8, 4))
    assert function.code == bytes(32)


def test_a_cubin_states_the_launch_bounds_of_its_kernels():
    bounds = struct.pack("<BBHIII", 4, 0x05, 12, 32, 4, 2)
    cubin = read_cubin(elf([(".nv.info.f", 0x70000000, 0, bounds), (".text.f", 1, 0, bytes(32))]))
    assert cubin.functions["f"].most_threads == 256
    assert read_cubin(small_cubin()).functions["f"].most_threads is None


def test_what_is_no_cubin_is_refused():
    for data, message in (
        (b"", "not a cubin"),
        (b"\x50\xed\x55\xba", "cuobjdump -xelf"),
        (elf([], machine=62), "is a file of the host; extract the machine code with cuobjdump -xelf all x.cubin"),
        (small_cubin()[:-70], "truncated"),
    ):
        with pytest.raises(FrontEndError, match=message):
            read_cubin(data, "x.cubin")


@examples(300)
@given(st.data())
def test_a_damaged_cubin_never_ends_in_a_traceback(data):
    good = bytearray(small_cubin())
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.one_of(st.just(len(good)), st.integers(0, len(good))))
    try:
        read_cubin(bytes(good[:size]))
    except FrontEndError as error:
        assert str(error)


def test_functions_are_found_by_their_plain_names():
    names = ["_Z7softmaxPKfPfi", "_ZN2nn4normEv", "main_kernel"]
    assert plain_name(names[0]) == "softmax" and plain_name(names[1]) == "norm" and plain_name(names[2]) == "main_kernel"
    assert plain_name("_Z9julia_bb_13CuDeviceArrayI5Int32E") == "julia_bb_"  # types follow the name
    assert plain_name("_ZNK4renv6Camera2atEff") == "at"  # a method that changes nothing
    assert pick_function(names, "softmax", "x") == names[0]
    assert pick_function(names[2:], None, "x") == "main_kernel"
    with pytest.raises(FrontEndError, match=r"function = 'f': is not in x.*main_kernel, norm, softmax"):
        pick_function(names, "f", "x")
    with pytest.raises(FrontEndError, match="name one of"):
        pick_function(names, None, "x")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z5scaleIfLi128EEvPT_S0_i", "scale<float, 128>"),
        ("_ZN3M1014matmulKernel10ILi128ELb1ELin3EEEvi", "matmulKernel10<128, true, -3>"),
        ("_Z4copyI6__halfxEvPT_", "copy<__half, long long>"),
        ("_Z4ropeILb0E6__halfS0_fEvPKT0_", "rope<false, __half, __half, float>"),
        ("_ZN2nn4ropeI6__halfS1_EEvPT_", "rope<__half, __half>"),
        ("_Z3addIfL8Operator1ELi8EEvPT_", "add<float, (Operator)1, 8>"),
        ("_Z3addIL4KindE", "_Z3addIL4KindE"),
        ("_Z4ropeI6__halfS_EvPT_", "_Z4ropeI6__halfS_EvPT_"),
        ("_Z4copyIPfEvT_", "_Z4copyIPfEvT_"),
        ("_Z7softmaxPKfPfi", "_Z7softmaxPKfPfi"),
        ("_Z4copyI", "_Z4copyI"),
        ("main_kernel", "main_kernel"),
    ],
)
def test_instances_of_templates_by_their_symbols(symbol, name):
    assert instance_name(symbol) == name


def test_functions_are_found_by_the_arguments_of_their_templates():
    names = ["_Z5scaleIfLi128EEvPT_", "_Z5scaleIdLi128EEvPT_", "_Z4copyPf"]
    assert pick_function(names, "scale<double,128>", "x") == names[1]
    for wanted in (None, "scale"):
        with pytest.raises(FrontEndError, match=r"name one of: (copy, )?scale<double, 128>, scale<float, 128>$"):
            pick_function(names, wanted, "x")


def test_functions_are_found_by_their_namespaces():
    first, second, third = names = ["_Z4initPfi", "_ZN3foo4initEPdi", "_ZN1a3foo5resetEPdi"]
    assert qualified_name(third) == "a::foo::reset" and qualified_name(first) == "init" and qualified_name("k") == "k"
    assert qualified_name("_ZN24_GLOBAL__N__4b1b2_k_cu_k4initEPf") == "init"
    for wanted, expected in (("foo::init", second), ("init", first), ("::init", first), ("foo::reset", third), ("reset", third)):
        assert pick_function(names, wanted, "x") == expected
    for wanted in (None, "foo", "bar::init", "::reset"):
        with pytest.raises(FrontEndError, match=r": foo::init, init, reset$"):
            pick_function(names, wanted, "x")
    with pytest.raises(FrontEndError, match=r"several match; name one of: bar::init, foo::init$"):
        pick_function([second, "_ZN3bar4initEPdi"], "init", "x")
    with pytest.raises(FrontEndError, match=r"several match; name one of: _Z4initPdi, _Z4initPfi$"):
        pick_function([first, "_Z4initPdi", second], "init", "x")
    instances = ["_ZN3foo5scaleIfEEvPT_", "_ZN3bar5scaleIfEEvPT_", "_ZN3bar5scaleIdEEvPT_"]
    assert pick_function(instances, "bar :: scale<float>", "x") == instances[1]
    with pytest.raises(FrontEndError, match=r"name one of: bar::scale<float>, foo::scale, scale<double>$"):
        pick_function(instances, "scale", "x")


def test_control_fields_are_those_of_the_encoding():
    """The bits are those of Huerta et al. 2025; the words are from compiled code."""
    assert decode_control(0x000E280000002500) == Control(stall=4, yields=False, write=0)
    assert decode_control(0x001FCA00078E0203) == Control(stall=5, yields=True, wait=1)
    assert decode_control(0x0001E20000000800) == Control(stall=1, yields=False, read=0)
    assert decode_control(0x080FE40007FFE0FF) == Control(stall=2, yields=False, reuse=2)


def test_disassembly_has_lines_labels_guards_and_control_fields():
    (function,) = parse_disassembly(DISASSEMBLY)
    assert (function.name, function.arch, function.registers, function.source) == ("k", 80, 8, "a.cu")
    mov, s2r, imad, leave = function.code[:4]
    assert (mov.opcode, mov.operands, mov.line) == ("MOV", "R1, c[0x0][0x28]", 1)
    assert s2r.line == 2 and s2r.control == Control(4, False, write=0)
    assert imad.control.wait == 1
    assert leave.guard == "@P0" and leave.labels == (".L_x_1",) and leave.text == "@P0 EXIT"


INLINED = """
\t.target\tsm_80
\t.section\t.text.k,"ax",@progbits
.text.k:
\t//## File "/cuda/header.h", line 638 inlined at "/home/a.cu", line 7
\t//## File "/home/a.cu", line 7
        /*0000*/                   S2R R2, SR_CTAID.X ;                               /* 0x0000000000027919 */
        /*0010*/                   S2R R3, SR_TID.X ;                                 /* 0x0000000000027919 */
\t//## File "/cuda/other.h", line 9 inlined at "/home/a.cu", line 3
\t//## File "/home/a.cu", line 3 inlined at "/home/a.cu", line 8
\t//## File "/home/a.cu", line 8
        /*0020*/                   MOV R4, R2 ;                                       /* 0x0000000000027919 */
\t//## File "/cuda/header.h", line 50
        /*0030*/                   EXIT ;                                             /* 0x000000000000094d */
"""


def test_what_is_inlined_from_headers_belongs_to_the_line_that_calls_it():
    """A function of the source has its own line; what stands in a header, the line of the source through which it was reached."""
    (found,) = parse_disassembly(INLINED)
    assert found.source == "a.cu"
    assert [one.line for one in found.code] == [7, 7, 3, 3]


def test_older_disassembly_names_its_architecture_in_its_flags():
    text = DISASSEMBLY.replace(
        "\t.target\tsm_80", '\t.headerflags\t@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_SM80 EF_CUDA_PTX_SM(EF_CUDA_SM80)"'
    )
    assert parse_disassembly(text)[0].arch == 80


def test_a_listing_reads_as_what_it_was_written_from():
    (function,) = parse_disassembly(DISASSEMBLY)
    listing = write_listing(function)
    (again,) = parse_text(listing)
    assert again.code == function.code[:-2]  # the padding is left out
    assert write_listing(again) == listing
    assert (again.registers, again.source, again.arch) == (8, "a.cu", 80)


def test_a_listing_keeps_the_launch_bounds_and_the_clusters_that_a_kernel_declares():
    (function,) = parse_disassembly(DISASSEMBLY)
    bound = replace(function, most_threads=96, cluster=(4, 2, 1))
    text = write_listing(bound)
    (again,) = parse_listing(text)
    assert (again.most_threads, again.cluster) == (96, (4, 2, 1))
    assert ".cluster" not in write_listing(function) and ".most_threads" not in write_listing(function)
    with pytest.raises(FrontEndError, match=r"block of 128 threads: must be at most 96"):
        from_sass(text, launch=(8, 128))
    for wrong in ("4 2", "4 0 1", "4 -2 1", "a b c"):
        with pytest.raises(FrontEndError):
            parse_listing(text.replace(".cluster 4 2 1", f".cluster {wrong}"))


def test_text_that_is_neither_form_is_refused():
    for text, message in (
        ("", "no architecture"),
        (".target sm_80\n", "no function"),
        (".target sm_80\n.function f\nMOV R1\n", "line 3"),
        (".target x\n.function f\n--:-:-:-:1 EXIT\n", r"\.target x: must be"),
        (".target sm_80\n.function f\n.registers many\n--:-:-:-:1 EXIT\n", "must be a number"),
        (".target sm_80\n.function f\n.shared -5\n--:-:-:-:1 EXIT\n", "'-5': must be a number from 0 to 1000000000"),
        (".target sm_80\n.function f\n--:-:-:-:1 LDG.E R2, R0]\n", r"line 3: 'R2, R0\]': its brackets do not match"),
        (DISASSEMBLY.replace("c[0x0][0x28]", "c[0x0][0x28"), r"line 8: 'R1, c\[0x0\]\[0x28': its brackets do not match"),
        (DISASSEMBLY.replace("R2, R2,", "R2, UR256,"), "line 13: 'R2, UR256, .*': there is no register UR256"),
        (".target sm_80\n.function f\n--:-:-:-:1 MOV R1, R12345\n", "line 3: 'R1, R12345': there is no register R12345"),
        (f".target sm_80\n.function f\n.parameters 0x160 0:{10**12}:x\n--:-:-:-:1 EXIT\n", "have 65536 bytes at most"),
        (CUOBJDUMP, "line 3: 'Function : f': cuobjdump wrote this"),
    ):
        with pytest.raises(FrontEndError, match=message):
            parse_text(text)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda row: row[:30], "line 13: address 0x0020, not 0x0010: an instruction before it is missing or damaged"),
        (lambda row: row.replace(";", " "), "line 13: address 0x0020, not 0x0010"),
        (lambda row: row.replace("*/", "", 1), "line 13: address 0x0020, not 0x0010"),
        (lambda row: row.replace("0010", "0000"), "line 11: address 0x0000, not 0x0010"),
    ],
    ids=["cut", "without end", "without address", "twice"],
)
def test_an_instruction_that_cannot_be_read_is_not_left_out(damage, message):
    rows = [damage(row) if "S2R" in row else row for row in DISASSEMBLY.split("\n")]
    with pytest.raises(FrontEndError, match=message):
        parse_disassembly("\n".join(rows))


def test_the_first_instruction_is_not_left_out():
    with pytest.raises(FrontEndError, match="line 11: address 0x0010, not 0x0000"):
        parse_disassembly(DISASSEMBLY.replace("MOV R1", "mov R1"))


def test_an_instruction_without_an_encoding_among_others_is_damaged():
    text = re.sub(r" *(/\* 0x000e280000002500 \*/)", "", DISASSEMBLY)
    with pytest.raises(FrontEndError, match="line 11: the instruction has no encoding of two words, as others have"):
        parse_disassembly(text)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_disassembly_of_other_systems(encoding, tmp_path):
    """Shells of Windows write the output of a tool as UTF-16, with a mark."""
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    path = tmp_path / "a.sass"
    path.write_bytes(mark + LISTING_OF_PORTS.replace("\n", "\r\n").encode(encoding))
    assert read_function(path, "sm_80", None)[0].code == parse_text(LISTING_OF_PORTS)[0].code


@examples(200)
@given(st.text(alphabet="\n .:-0123456789abLxRUP_targefunciohds@!;/*", max_size=200), st.booleans())
def test_any_text_ends_in_functions_or_the_documented_error(text, listing):
    head = ".target sm_80\n.function f\n" if listing else "\t.target\tsm_80\n.text.f:\n"
    try:
        parse_text(head + text)
    except FrontEndError as error:
        assert str(error)


def test_damaged_operands_are_named_with_their_file_and_line(tmp_path):
    listing = tmp_path / "a.sass"
    listing.write_text(LISTING_OF_PORTS.replace("FADD R5, RZ, c[0x0][0x160]", "LDG.E R5, R2.64]"), encoding="utf-8")
    with pytest.raises(FrontEndError, match=r"a\.sass: line 6: 'R5, R2\.64\]': its brackets do not match"):
        from_sass(listing, launch=(1, 32))
    assert operands("R2, R0]") == (Register("R2"), Other("R0]"))


@pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvidia-cuda-nvdisasm, of warpsim[cuda]")
def test_what_nvdisasm_refuses_is_refused():
    with pytest.raises(FrontEndError, match=r"a\.cubin: nvdisasm"):
        disassemble(elf([(".text.f", 1, 0, bytes(32))], flags=0xFF << 8), "a.cubin")


def test_the_disassembler_on_path_reads_what_that_of_the_wheel_refuses(tmp_path, monkeypatch):
    """Versions from 13.1 on refuse Volta."""
    reads = {"wheel": "echo wheel refuses >&2; exit 1", "path": "exit 0", "older": "echo older refuses >&2; exit 1"}
    for folder, script in reads.items():
        (tmp_path / folder).mkdir()
        tool = tmp_path / folder / "nvdisasm"
        tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        tool.chmod(0o700)
    monkeypatch.setattr(nvdisasm, "find_nvdisasm", lambda: tmp_path / "wheel" / "nvdisasm")
    cubin = elf([(".text.f", 1, 0, bytes(32))], flags=70)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{os.environ['PATH']}")
    with pytest.raises(FrontEndError, match="names no architecture"):  # its text is read, and is empty
        disassemble(cubin, "a.cubin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'older'}:{os.environ['PATH']}")
    with pytest.raises(FrontEndError, match=r"^a\.cubin: nvdisasm does not read it: wheel refuses$"):
        disassemble(cubin, "a.cubin")


def test_a_disassembler_that_does_not_come_to_an_end_is_stopped(tmp_path, monkeypatch):
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    tool.chmod(0o700)
    monkeypatch.setattr(nvdisasm, "find_nvdisasm", lambda: tool)
    monkeypatch.setattr(nvdisasm, "LIMIT_S", 0.1)
    with pytest.raises(FrontEndError, match=r"^a\.cubin: nvdisasm did not come to an end within 0 seconds; the file may"):
        disassemble(elf([(".text.f", 1, 0, bytes(32))], flags=80), "a.cubin")


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("FFMA R1, R2.reuse, -R3, R4", ("R2.reuse", "R3", "R4")),
        ("ISETP.GE.AND P0, PT, R0, c[0x0][0x16c], PT", ("R0", "")),
        ("IADD3 R0, P1, R1, 0x1, RZ", ("R1", "", "")),
        ("IMAD.WIDE R2, R0, R3.reuse, c[0x0][0x160]", ("R0", "R3.reuse", "")),
        ("MOV R1, UR4", ()),
        ("LOP3.LUT R0, R1, R2, RZ, 0xc0, !PT", ("R1", "R2", "", "")),
        ("LOP3.LUT P0, R5, R3, 0x3, RZ, 0xc0, !PT", ("R3", "", "", "")),
        ("EXIT", ()),
        # Products of warp groups: a left matrix in registers, and the sums, unless they begin with 0
        ("HGMMA.64x64x16.F32 R56, R88, gdesc[UR8].tnspB, R56", ("R88:4", "", "R56:32")),
        ("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24.gsb0", ("", "R24:128")),
        ("HGMMA.64x64x16.F16 R24, gdesc[UR8], R24", ("", "R24:16")),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR8], RZ, !UPT", ()),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, !UPT", ()),
        ("HGMMA.SP.64x128x32.F32 R24, gdesc[UR8], R24, R2", ("", "R24:64", "R2")),
    ],
)
def test_operand_slots_name_the_registers_that_are_read(text, slots):
    opcode, _, rest = text.partition(" ")
    assert register_slots(MachineInstruction(0, opcode, rest)) == slots


def test_instructions_of_volta_and_later_read_registers_through_ports():
    kernel = from_sass(LISTING_OF_PORTS, launch=(1, 32))
    assert [one.reads for one in kernel.body] == [("R2.reuse", "R2", "R3"), (), ()]
    without_control = LISTING_OF_PORTS.replace("--:-:-:-:4", "--:-:-:-:-")
    with pytest.warns(AssumptionWarning, match="the disassembly has no encodings, as nvdisasm -hex writes them"):
        assert not any(one.reads for one in from_sass(without_control, launch=(1, 32)).body)


LISTING_OF_PORTS = """\
.target sm_80
.function ports
.registers 10
--:-:-:-:4 FFMA R1, R2.reuse, R2, R3
--:-:-:-:4 MOV R4, c[0x0][0x160]
--:-:-:-:4 FADD R5, RZ, c[0x0][0x160]
--:-:-:-:4 EXIT
"""


def test_both_instructions_of_a_pair_of_maxwell_are_read():
    text = """
\t.target\tsm_52
\t.section\t.text.k,"ax",@progbits
k:
.text.k:
                                                                      /* 0x001ed800fe0207f2 */
        /*0008*/         {         IADD R6.CC, R2, c[0x0][0x150] ;    /* 0x4c10800005470206 */
        /*0010*/                   LDG.E R3, [R8]         }
                                                                      /* 0xeed4200000070803 */
        /*0018*/              @!P0 FADD R3, R3, R6 ;                  /* 0x001ed800fe0007e2 */
"""
    (one,) = parse_text(text)
    assert [(line.address, line.text) for line in one.code] == [
        (8, "IADD R6.CC, R2, c[0x0][0x150]"),
        (16, "LDG.E R3, [R8]"),
        (24, "@!P0 FADD R3, R3, R6"),
    ]
