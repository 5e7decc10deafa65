"""Operation classes of machine instructions, by the table params/opcodes/sass.toml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from warpsim.frontends.sass import MachineInstruction
from warpsim.hardware import files as params


@dataclass(frozen=True)
class Opcodes:
    """The table: opcode -> family; beginning of an opcode -> family, the longest first; family -> classes, the best first."""

    families: dict[str, str]
    beginnings: tuple[tuple[str, str], ...]
    classes: dict[str, tuple[str, ...]]
    intervals: tuple[tuple[str, str], ...]

    def family(self, one: MachineInstruction) -> tuple[str, bool]:
        """Returns the family of an instruction, and whether its opcode is listed by name, perhaps with its first suffix."""
        for opcode in (".".join(one.opcode.split(".")[:2]), one.base):
            if opcode in self.families:
                return self.families[opcode], True
        return next(family for beginning, family in self.beginnings if one.base.startswith(beginning)), False

    def operation(self, family: str, available: frozenset[str]) -> str:
        """Returns the class of a family: the first of its classes that a chip has."""
        choices = self.classes[family]
        return next((name for name in choices if name in available), choices[-1])

    def interval(self, one: MachineInstruction) -> str | None:
        """Returns the time for which an instruction occupies its unit, where it differs from that of its class."""
        return next((cycles for beginning, cycles in self.intervals if one.opcode.startswith(beginning)), None)


@cache
def opcodes(arch: int) -> Opcodes:
    """Returns the table for an architecture."""
    data = params.read_toml(params.params_dir() / "opcodes" / "sass.toml")
    families = {name: family for family, names in data["families"].items() for name in names.split()}
    tables = {int(name.removeprefix("sm_")): table for name, table in data["interval_cycles"].items()}
    intervals = tables[max((since for since in tables if since <= arch), default=min(tables))]
    return Opcodes(
        families,
        tuple(sorted(data["beginnings"].items(), key=lambda pair: -len(pair[0]))),
        {family: tuple(names) for family, names in data["classes"].items()},
        tuple(sorted(((opcode, str(cycles)) for opcode, cycles in intervals.items()), key=lambda pair: -len(pair[0]))),
    )
