"""What a kernel's machine code computes between its two readings of the clock.

Registers are known by their first number, so that a pair that is written as R4 and read as R4 is one value; this is
enough to follow the chains of this package.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warpsim.frontends.machine_code.sass import MachineInstruction

_REGISTER = re.compile(r"\bU?R\d+\b")
_WITHOUT_RESULT = ("ST", "RED", "BRA", "EXIT", "BAR", "ISETP", "FSETP", "NOP", "BSYNC", "BSSY", "WARPSYNC", "NANOSLEEP")


def written(one: MachineInstruction) -> str | None:
    """Returns the first register of the result; None where there is no result in a register."""
    if one.opcode.startswith(_WITHOUT_RESULT):
        return None
    found = _REGISTER.match(_values(one))
    return found.group() if found else None


def read(one: MachineInstruction) -> tuple[str, ...]:
    """Returns the first registers of the operands that are read."""
    return tuple(_REGISTER.findall(_values(one)[len(written(one) or "") :]))


def _values(one: MachineInstruction) -> str:
    """Returns the operands without the predicates that come before the result."""
    return re.sub(r"^\s*(U?PT?\d*,\s*)*", "", one.operands)


def clock_reads(code: Sequence[MachineInstruction]) -> list[int]:
    """Returns the indices of the instructions that read the cycle counter of the SM."""
    return [i for i, one in enumerate(code) if re.search(r"\bSR_CLOCK(LO)?\b", one.operands)]


def timed_loop(code: Sequence[MachineInstruction]) -> list[MachineInstruction]:
    """Returns the body of the longest loop between the first two readings of the clock, its branch included.

    Raises:
        ValueError: there are not two readings, or no loop between them.
    """
    reads = clock_reads(code)
    if len(reads) < 2:
        raise ValueError(f"{len(reads)} readings of the clock: at least 2")
    part = code[reads[0] + 1 : reads[1]]
    labels = {label: i for i, one in enumerate(part) for label in one.labels}
    loops = []
    for i, one in enumerate(part):
        target = re.search(r"\.L_\w+", one.operands) if one.opcode.startswith("BRA") else None
        if target and labels.get(target.group(), len(part)) <= i:
            loops.append((labels[target.group()], i))
    if not loops:
        raise ValueError("no loop between the first two readings of the clock")
    first, last = max(loops, key=lambda loop: loop[1] - loop[0])
    return list(part[first : last + 1])


def longest_path(body: Sequence[MachineInstruction], step: str) -> list[str]:
    """Returns the opcodes along the dependence path that holds the most instructions of a step.

    Args:
        body: instructions in order.
        step: regular expression; the opcodes that count (matched from their beginning).
    """
    paths: dict[str, list[str]] = {}
    best: list[str] = []

    def count(path: list[str]) -> int:
        return sum(1 for opcode in path if re.match(step, opcode))

    for one in body:
        result = written(one)
        if result is None:
            continue
        before = max((paths.get(register, []) for register in read(one)), key=count, default=[])
        paths[result] = [*before, one.opcode]
        if count(paths[result]) > count(best):
            best = paths[result]
    return best
