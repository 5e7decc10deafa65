"""What 128-bit encodings of instructions say without a disassembler: opcodes, and whether a text can be theirs."""

from __future__ import annotations

import re
from functools import cache

from warpsim.hardware import files as params

WORD_BYTES = 16
"""Of an instruction."""

_ALWAYS = 7
"""Number of the predicate that is always true."""

_REGISTERS = (16, 24, 32, 64)
"""First bits of the fields of registers. Immediate operands have the 32 bits from 32 on, and offsets those from 40 on."""

_OPERANDS = re.compile(r"\bR(\d+)\b|(?<!\[)\b0x([0-9a-f]+)\b")
_OPCODE = re.compile(r"(?:@!?U?P(?:\d|T)\s+)?([A-Z][A-Z0-9]*)")


def decoded(low: int) -> str:
    """Returns guard and opcode of an encoding, of which `low` is the lower 64-bit word; its operands are left out."""
    guard, opcode = low >> 12 & 15, _names().get(low & 0x1FF, f"UNKNOWN_{low & 0x1FF:X}")
    return opcode if guard == _ALWAYS else f"@{'!' if guard & 8 else ''}P{guard & 7} {opcode}"


@cache
def _names() -> dict[int, str]:
    """Returns number -> opcode."""
    numbers = params.read_toml(params.params_dir() / "opcodes" / "encodings.toml")["numbers"]
    return {number: opcode for opcode, of_opcode in numbers.items() for number in of_opcode}


def agreement(low: int, high: int, text: str) -> int:
    """Returns how many of the opcode, registers and immediate operands of a text an encoding has, less those that it has not.

    Args:
        low: lower 64-bit word of the encoding.
        high: the upper one.
        text: the instruction in words; empty: not known, 0.
    """
    stated = _OPCODE.match(text)
    if stated is None:
        return 0
    whole = low | high << 64
    registers = {whole >> bit & 0xFF for bit in _REGISTERS}
    opcode = _names().get(low & 0x1FF)
    found = [opcode == stated[1]] if opcode else []
    for register, immediate in _OPERANDS.findall(text[stated.end() :]):
        found.append(int(register) in registers if register else int(immediate, 16) in (low >> 32, low >> 40))
    return 2 * sum(found) - len(found)
