"""Instructions that access memory: which memory, and how much of it for each thread."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from warpsim.frontends.machine_code.operands import indexed_constant
from warpsim.frontends.machine_code.sass import MachineInstruction

_WIDEST = "256"
"""What the opcode of an access of a whole sector by each thread has, since Blackwell."""

Width = Literal[1, 2, 4, 8, 16]

TEXTURES = ("TEX", "TLD", "TLD4", "TXD", "SULD", "SUST", "SUATOM", "SURED")
"""Accesses of textures and surfaces: their operands are coordinates, so that addresses are not known."""

_SPACE_OF = {
    **dict.fromkeys(("LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "REDG", "RED", "LDGSTS"), "global"),
    **dict.fromkeys(("UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG"), "global"),
    **dict.fromkeys(("LDS", "STS", "ATOMS", "LDSM", "STSM"), "shared"),
    **dict.fromkeys(("LDL", "STL"), "local"),
    **dict.fromkeys(TEXTURES, "global"),
}


def space_of(one: MachineInstruction) -> str | None:
    """Returns "global", "shared", "local" or "constant" for an instruction that accesses memory; None for others.

    A constant at a fixed address, or at one from a uniform register, is an operand as any other. Copies within a cluster
    (UBLKCP.S.S) do not come to memory.
    """
    if one.base == "LDC":
        return "constant" if indexed_constant(one) is not None else None
    return None if one.opcode.startswith("UBLKCP.S.S") else _SPACE_OF.get(one.base)


def bytes_per_thread(one: MachineInstruction) -> Width:
    """Returns the bytes that each thread accesses; of 256 bits, which lie in one sector, those of the first half."""
    return _bytes_per_thread(one.opcode)


@cache
def _bytes_per_thread(opcode: str) -> Width:
    base, *suffixes = opcode.split(".")
    if base in ("LDSM", "STSM"):
        return 16  # each thread names a row of 16 bytes
    if (vector := re.search(r"\bB?F(16|32)x(\d)\b", opcode)) is not None:  # a reduction of several sums
        wide = int(vector[1]) // 8 * int(vector[2])
        return 16 if wide >= 16 else 8 if wide == 8 else 4
    if "128" in suffixes or _WIDEST in suffixes:
        return 16
    if "64" in suffixes or "F64" in suffixes:
        return 8
    if any(re.match(r"[US]16$", word) for word in suffixes):
        return 2
    return 1 if any(re.match(r"[US]8$", word) for word in suffixes) else 4


def is_update(one: MachineInstruction) -> bool:
    """Returns whether an instruction updates what is at its addresses."""
    return one.base.startswith(("ATOM", "RED"))


def is_swap(one: MachineInstruction) -> bool:
    """Returns whether an instruction updates what is at its addresses if it is what it compares that with."""
    return one.base.startswith("ATOM") and not {"CAS", "CAST"}.isdisjoint(one.opcode.split("."))


def is_widest(one: MachineInstruction) -> bool:
    """Returns whether each thread accesses a whole sector."""
    return _WIDEST in one.opcode.split(".")
