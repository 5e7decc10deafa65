"""Which of several functions of one name a launch executed: a report may hold a version of it from each of several binaries."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from warpsim.frontends.machine_code.cubin import Cubin, Function
from warpsim.profiles.encodings import WORD_BYTES, agreement
from warpsim.profiles.sections import Section, sections_of


@dataclass(frozen=True)
class Executed:
    """What a report says of the instructions that a launch executed.

    Attributes:
        pcs: program counters at which functions begin.
        counts: program counter -> executions by warps.
        warps: of the launch.
        registers: of a thread; None: not known.
        text: program counter -> instruction in words; empty where it is not known.
    """

    pcs: Sequence[int]
    counts: Mapping[int, float]
    warps: float
    registers: float | None
    text: Callable[[int], str]


def sections_in(cubins: Iterable[Cubin], name: str, executed: Executed) -> tuple[tuple[Section, ...], int]:
    """Returns the kernel and the functions that it calls, and of how many versions of the kernel it is the first.

    Of versions with different code those count that agree best with what was executed, with the texts of the instructions, and
    with the number of registers. No version: nothing, and 0.
    """
    versions: dict[tuple[bytes, int | None], Mapping[str, Function]] = {}
    for cubin in cubins:
        if name in cubin.functions:
            kernel = cubin.functions[name]
            versions.setdefault((kernel.code, kernel.registers), cubin.functions)
    found = [sections_of(name, functions, executed.pcs, executed.counts, executed.warps) for functions in versions.values()]
    if len(found) < 2:
        return (found[0], 1) if found else ((), 0)
    fits = [_fit(sections[0], executed) for sections in found]
    best = [sections for sections, fit in zip(found, fits, strict=True) if fit == max(fits)]
    return best[0], len({sections[0].function.code for sections in best})


def _fit(kernel: Section, executed: Executed) -> tuple[int, int, bool]:
    """Returns how well a version agrees with a launch: executed instructions inside, their texts, and the registers."""
    code = kernel.function.code
    places = range(0, len(code) // WORD_BYTES * WORD_BYTES, WORD_BYTES)
    inside = sum(1 for at in places if executed.counts.get(kernel.pc + at))
    words = (struct.unpack_from("<QQ", code, at) for at in places)
    texts = sum(agreement(low, high, executed.text(kernel.pc + at)) for at, (low, high) in zip(places, words, strict=True))
    return inside, texts, executed.registers is not None and kernel.function.registers == executed.registers
