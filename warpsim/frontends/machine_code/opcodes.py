"""Operation classes of machine instructions, by the table params/opcodes/sass.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from warpsim.frontends.machine_code.operands import Immediate, operands
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.hardware import files as params
from warpsim.hardware.operations import MatrixType
from warpsim.kernels.instruction import MAX_GAP_NS

_MOST_NAMED = 3
"""Words of an opcode that the table looks at, at most: "MEMBAR.SC.GPU"."""


@dataclass(frozen=True)
class Opcodes:
    """The table: opcode -> family; beginning of an opcode -> family, the longest first; family -> classes, the best first."""

    families: dict[str, str]
    beginnings: tuple[tuple[str, str], ...]
    classes: dict[str, tuple[str, ...]]

    def family(self, one: MachineInstruction) -> tuple[str, bool]:
        """Returns the family of an instruction, and whether its opcode is listed by name, perhaps with its first suffixes."""
        words = one.opcode.split(".")
        for opcode in (".".join(words[:count]) for count in range(min(len(words), _MOST_NAMED), 0, -1)):
            if opcode in self.families:
                return self.families[opcode], True
        return next(family for beginning, family in self.beginnings if one.base.startswith(beginning)), False

    def operation(self, family: str, available: frozenset[str]) -> str:
        """Returns the class of a family: the first of its classes that a chip has."""
        choices = self.classes[family]
        return next((name for name in choices if name in available), choices[-1])


@cache
def opcodes() -> Opcodes:
    """Returns the table."""
    data = params.read_toml(params.params_dir() / "opcodes" / "sass.toml")
    families = {name: family for family, names in data["families"].items() for name in names.split()}
    return Opcodes(
        families,
        tuple(sorted(data["beginnings"].items(), key=lambda pair: -len(pair[0]))),
        {family: tuple(names) for family, names in data["classes"].items()},
    )


def notes_of_unlisted(unlisted: Mapping[tuple[str, str], int]) -> list[str]:
    """Returns what was assumed of opcodes that the table does not list: (opcode, family) -> instructions."""
    where = "not in the table of opcodes (params/opcodes/sass.toml)"
    return [
        f"{count} instruction{'s' * (count > 1)} {opcode} {where}: taken as {family}"
        for (opcode, family), count in sorted(unlisted.items())
    ]


_SHAPE = re.compile(r"(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)$|(?P<old_m>16|8)8(?P<old_k>\d+)$")
"""Rows, columns and depth of a product of matrices: "64x128x16", or "16816", where there are eight columns."""

MATRIX_OPS = ("tensor", "wgmma")
"""Operation classes of matrix instructions: those of a warp, and those of a warp group."""

_OF_A_WARP = 4
"""Warps that share a product of a warp group (HGMMA)."""


ASSUMED_SLEEP_NS = 100
"""Time for which a warp is taken to sleep where that depends on data: waits for another warp or block mostly begin so short."""


def sleep_ns(one: MachineInstruction) -> int | None:
    """Returns for how many ns a warp asks to sleep, at most MAX_GAP_NS; None where that depends on data."""
    asked = next((part.value for part in operands(one.operands) if isinstance(part, Immediate)), None)
    return None if asked is None else min(max(1, asked), MAX_GAP_NS)


def matrix_work(one: MachineInstruction) -> tuple[int, MatrixType] | None:
    """Returns the multiply-adds of a matrix instruction for a warp, and the type of its operands; None where they are not known.

    Half of the operands of a sparse product (SP) are zero and take no time. An HMMA.884 of Volta is one of four such products in
    two or four steps.
    """
    base, *suffixes = one.opcode.split(".")
    found = next((match for word in suffixes if (match := _SHAPE.match(word))), None)
    kind = _matrix_type(base, frozenset(suffixes))
    if found is None or kind is None:
        return None
    if found["m"]:
        work = int(found["m"]) * int(found["n"]) * int(found["k"])
    else:
        work = int(found["old_m"]) * 8 * int(found["old_k"])
    if base.endswith("GMMA"):
        work //= _OF_A_WARP
    if base == "HMMA" and found[0] == "884":
        work = work if kind == "f16_f32" else 2 * work
    return work // 2 if "SP" in suffixes else work, kind


def _matrix_type(base: str, suffixes: frozenset[str]) -> MatrixType | None:
    letter, in_single = base[0], "F32" in suffixes
    if letter == "H":
        return "tf32" if "TF32" in suffixes else "f16_f32" if in_single or "BF16" in suffixes else "f16"
    if letter == "I":
        return "s4" if {"S4", "U4"} & suffixes else "s8"
    if letter == "Q":
        return "f8_f32" if in_single else "f8"
    others: dict[str, MatrixType] = {"D": "f64", "B": "b1", "O": "f4"}
    return others.get(letter)
