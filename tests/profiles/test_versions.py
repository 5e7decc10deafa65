"""Which of several functions of one name a launch executed."""

import struct
from dataclasses import replace

import pytest

from tests.support.profiled_launches import launch
from warpsim.frontends.machine_code.cubin import Cubin, Function
from warpsim.profiles.api import profile_of
from warpsim.profiles.encodings import agreement
from warpsim.profiles.versions import Executed, sections_in

START = 0x7000
TEXTS = ("FMUL R6, R4, R5 ;", "@P0 FADD R7, R6, 0x3f800000 ;", "LDG.E R8, [R2.64+0x10] ;")
CODE = ((0x00000005_04067220, 0x4), (0x3F800000_06070221, 0x0), (0x00001004_02087381, 0x0))


def code(words):
    return b"".join(struct.pack("<QQ", *pair) for pair in words)


def cubin(words, registers=16):
    return Cubin(80, {"kernel": Function("kernel", code(words), registers, 0, (), None)})


def found(*cubins, texts=TEXTS, registers=16.0):
    counts = {START + 16 * number: 8.0 for number in range(len(TEXTS))}
    known = dict(zip(counts, texts, strict=True))
    return sections_in(cubins, "kernel", Executed([START], counts, 8.0, registers, lambda pc: known.get(pc, "")))


def test_operands_and_opcodes_agree_with_an_encoding():
    assert [agreement(*words, text) for words, text in zip(CODE, TEXTS, strict=True)] == [4, 4, 4]
    assert agreement(*CODE[0], "FADD R9, R4, R5") == 0  # two of four
    assert agreement(*CODE[0], "") == 0


OTHERS = {
    "another opcode": (*CODE[:1], (0x3F800000_06070223, 0x0), *CODE[2:]),
    "another register": ((0x00000005_04097220, 0x4), *CODE[1:]),
    "another immediate": (*CODE[:1], (0x40000000_06070221, 0x0), *CODE[2:]),
    "another offset": (*CODE[:2], (0x00002004_02087381, 0x0)),
    "longer": (*CODE[:1], *CODE),
    "shorter": CODE[:2],
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_version_that_agrees_is_taken(other):
    for cubins in ((cubin(other), cubin(CODE)), (cubin(CODE), cubin(other))):
        (section,), versions = found(*cubins)
        assert (section.function.code, versions) == (code(CODE), 1)


def test_versions_without_texts_are_told_apart_by_registers():
    (section,), versions = found(cubin(OTHERS["another opcode"], 32), cubin(CODE), texts=("", "", ""))
    assert (section.function.code, versions) == (code(CODE), 1)


def test_versions_that_agree_equally_well_are_noted():
    """They differ in control fields only, which no text shows."""
    held = (*CODE[:2], (CODE[2][0], 4 << 41))
    assert found(cubin(CODE), cubin(held))[1] == 2
    assert found(cubin(CODE), cubin(CODE))[1] == 1
    assert found()[1] == 0
    (note,) = profile_of(replace(launch(), versions=2)).notes
    assert note.startswith("2 different machine codes of _Z6kernelPf agree with the launch")
