"""Which functions a launch executed, and where their code stands: the kernel, and functions of other sections that it calls.

A report gives the program counters at which functions begin, in no order and without names. The binary has the functions, and its
relocations say which instruction calls which one. A function is found by its executions: a kernel is entered by each warp of the
launch, and another one as often as it was called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from warpsim.frontends.machine_code.cubin import Function
from warpsim.profiles.encodings import WORD_BYTES


@dataclass(frozen=True)
class Section:
    """The code of a function in a launch.

    Attributes:
        pc: program counter of its start.
        address: of its start in the launch's code: 0 for the kernel, and behind it for the others.
        function: with its machine code.
    """

    pc: int
    address: int
    function: Function


def sections_of(
    name: str, functions: Mapping[str, Function], pcs: Sequence[int], executed: Mapping[int, float], warps: float
) -> tuple[Section, ...]:
    """Returns the kernel and the functions that it calls, in order of their addresses.

    Args:
        name: of the kernel.
        functions: of the binary.
        pcs: program counters at which functions begin.
        executed: program counter -> executions by warps.
        warps: of the launch.
    """
    kernel = functions[name]
    entered = [pc for pc in pcs if executed.get(pc) == warps] or list(pcs)
    found = [Section(max(entered, key=lambda pc: _inside(executed, pc, kernel)), 0, kernel)]
    left = [pc for pc in pcs if pc != found[0].pc and executed.get(pc)]
    for section in found:  # grows: a function that is called may call others
        known = {one.function.name for one in found}
        calls = {callee: times for callee, times in _calls(section, executed).items() if callee not in known}
        for callee in sorted(calls, key=lambda callee: -calls[callee]):
            fits = [pc for pc in left if _fits(executed, pc, pcs, functions[callee])]
            if calls[callee] and fits:
                pc = min(fits, key=lambda pc: abs(executed[pc] - calls[callee]))
                left.remove(pc)
                found.append(Section(pc, found[-1].address + len(found[-1].function.code), functions[callee]))
    return tuple(found)


def address_of(sections: Sequence[Section], pc: int) -> int:
    """Returns the address of a program counter in the launch's code; outside of all functions, its distance from the kernel."""
    for one in sections:
        if one.pc <= pc < one.pc + len(one.function.code):
            return one.address + pc - one.pc
    return pc - sections[0].pc


def calls_of(sections: Sequence[Section]) -> dict[int, int]:
    """Returns address of an instruction -> address of the function that it names, for those that the launch executed."""
    starts = {one.function.name: one.address for one in sections}
    return {
        one.address + at: starts[callee] for one in sections for at, callee in one.function.links.items() if callee in starts
    }


def _calls(section: Section, executed: Mapping[int, float]) -> dict[str, float]:
    """Returns function -> executions of the instructions of a section that name it."""
    found: dict[str, float] = {}
    for at, callee in section.function.links.items():
        found[callee] = found.get(callee, 0.0) + executed.get(section.pc + at, 0.0)
    return found


def _between(executed: Mapping[int, float], start: int, size: int) -> Iterator[int]:
    return (pc for pc in range(start, start + size, WORD_BYTES) if executed.get(pc))


def _inside(executed: Mapping[int, float], pc: int, function: Function) -> int:
    """Returns how many instructions were executed where a function would stand."""
    return sum(1 for _ in _between(executed, pc, len(function.code)))


def _fits(executed: Mapping[int, float], pc: int, pcs: Sequence[int], function: Function) -> bool:
    """Returns whether what was executed from a program counter on, up to the next function, is no longer than a function."""
    end = min((other for other in pcs if other > pc), default=max(executed) + WORD_BYTES)
    last = max((other for other, times in executed.items() if times and pc <= other < end), default=pc)
    return last < pc + len(function.code)
