"""Which functions a launch executed, and where their code stands."""

from dataclasses import replace

from tests.support.profiled_launches import launch
from warpsim.frontends.machine_code.cubin import Function
from warpsim.profiles.code import machine_function
from warpsim.profiles.sections import Section, address_of, calls_of, sections_of

KERNEL, DIVIDE, POWER = 0x5000, 0x1000, 0x9000
WARPS = 40


def function(name, instructions, links=()):
    return Function(name, bytes(16 * instructions), 16, 0, (), None, links=dict(links))


FUNCTIONS = {
    "kernel": function("kernel", 6, [(0x10, "divide"), (0x30, "power"), (0x40, "unused")]),
    "divide": function("divide", 3),
    "power": function("power", 4, [(0x20, "divide")]),
    "unused": function("unused", 3),
}
EXECUTED = {
    **{KERNEL + 16 * number: WARPS for number in range(6)},
    **{DIVIDE + 16 * number: WARPS + 30 for number in range(3)},
    **{POWER + 16 * number: 30 for number in range(4)},
    KERNEL + 0x30: 30,
    KERNEL + 0x40: 0,
}


def test_functions_are_found_by_their_executions():
    found = sections_of("kernel", FUNCTIONS, [DIVIDE, POWER, KERNEL], EXECUTED, WARPS)
    assert [(one.function.name, one.pc) for one in found] == [("kernel", KERNEL), ("divide", DIVIDE), ("power", POWER)]
    assert [one.address for one in found] == [0, 6 * 16, 9 * 16]
    assert calls_of(found) == {0x10: 0x60, 0x30: 0x90, 0x90 + 0x20: 0x60}
    assert address_of(found, POWER + 0x20) == 0xB0
    assert address_of(found, KERNEL + 0x200) == 0x200  # in no function


def test_a_kernel_alone_begins_where_the_report_says():
    (one,) = sections_of("kernel", FUNCTIONS, [0x7000], {}, WARPS)
    assert (one.pc, one.address) == (0x7000, 0)


def test_calls_into_other_sections_are_followed():
    """The multiplication becomes a call of a function of two instructions behind the kernel."""
    profiled = launch(texts={4: "CALL.REL.NOINC 0x0"})
    size = len(profiled.words)
    behind = [
        replace(profiled.code[4], address=size, text="FMUL R6, R6, 3"),
        replace(profiled.code[4], address=size + 16, text="RET.REL.NODEC R20 0x0"),
    ]
    words = profiled.words + profiled.words[64:80] + profiled.words[32:48]
    kernel = Function("k", profiled.words, 16, 0, (), None, links={64: "f"})
    sections = (Section(0x1000, 0, kernel), Section(0x9000, size, Function("f", words[size:], None, 0, (), None)))
    code = (*profiled.code, *behind)
    made = machine_function(replace(profiled, code=code, words=words, sections=sections))
    assert made.code[4].base == "CALL"
    assert made.code[len(profiled.code)].labels[0] in made.code[4].operands
