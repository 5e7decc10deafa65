"""Instruction fetch of the reference machine (docs/model.md, section 3)."""

from __future__ import annotations

from collections.abc import Iterable

from warpsim.hardware.core import Fetch
from warpsim.kernels import Kernel, Loop
from warpsim.kernels.traversal import walk
from warpsim.reference.warp import Warp


def addresses(kernel: Kernel) -> dict[str, int]:
    """Returns the address of each instruction, by its place in the kernel; loops have none."""
    places = [place for place, statement in walk(kernel.body) if not isinstance(statement, Loop)]
    return {place: address for address, place in enumerate([*places, "end"])}


class FrontEnd:
    """The L0 instruction cache of a scheduler, which fetches an instruction in each cycle."""

    def __init__(self, facts: Fetch, end: int) -> None:
        self.facts = facts
        self.end = end  # the address after the program
        self.lines: dict[int, int] = {}  # line -> cycle in which it is in L0, in order of use

    def fetch(self, last: Warp | None, warps: Iterable[Warp], t: int) -> None:
        """Fetches an instruction at the end of cycle `t`, for the warp that issued last or the youngest one."""
        first = [last] if last in warps else []
        for warp in [*first, *sorted(warps, key=lambda warp: -warp.number)]:
            buffer = warp.buffer
            if warp.exited or len(buffer.entries) == self.facts.buffer or buffer.address == self.end:
                continue
            line = buffer.address // self.facts.line_instructions
            if self.lines.get(line, t + 1) <= t:
                self.lines[line] = self.lines.pop(line)  # the latest one in use
                buffer.entries.append(t + self.facts.stages)
                buffer.address += 1
                return
            if line not in self.lines:
                self.request(line, t)

    def request(self, line: int, t: int) -> None:
        """Requests a line and those behind it, as far as there is room: that of the lines that were used longest ago."""
        for ahead in range(self.facts.prefetch_lines + 1):
            if line + ahead in self.lines:
                continue
            if len(self.lines) == self.facts.lines:
                there = [other for other, since in self.lines.items() if since <= t]
                if not there:
                    return
                del self.lines[there[0]]
            self.lines[line + ahead] = t + self.facts.miss_cycles + ahead * self.facts.prefetch_cycles
