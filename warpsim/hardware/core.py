"""Options of the cores since Volta: register ports, passes of accesses, instruction fetch, cold constants."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import model_validator

from warpsim import units
from warpsim.hardware.fields import Between, Count, Cycles, Interval, StrictModel


class Fetch(StrictModel):
    """Instruction fetch of a scheduler (docs/model.md, section 3).

    Attributes:
        buffer: instructions that the buffer of a warp holds.
        stages: cycles from the fetch of an instruction until it can issue.
        lines: lines of the L0 instruction cache.
        line_instructions: instructions of a line.
        miss_cycles: cycles from the request of a line until it is in L0.
        prefetch_lines: lines that follow a missing line without being asked for.
        prefetch_cycles: cycles between two of them.
    """

    buffer: Annotated[int, Between(1, 64)] = 3
    stages: Annotated[int, Between(1, 64)] = 2
    lines: Count
    line_instructions: Count
    miss_cycles: Count
    prefetch_lines: Cycles = 0
    prefetch_cycles: Count = 1

    @model_validator(mode="after")
    def _lines_agree(self) -> Fetch:
        if self.prefetch_lines >= self.lines:
            raise ValueError(f"prefetch_lines = {self.prefetch_lines}: must be below lines = {self.lines}")
        return self


class Core(StrictModel):
    """Options of the cores since Volta (Huerta et al. 2025); each is off where it is left out.

    Attributes:
        register_banks: banks of a scheduler's register file, each with one read port; None: reads never wait.
        replays: where further passes of an access take their time: "issue": at the scheduler, which reissues it, or "unit".
        pass_cycles: cycles of such a pass, of a line or of 128 bytes, in the data stage of its unit.
        fill_bytes: bytes from L2 that L1 takes in during a cycle, in which it makes no pass; None: that takes no time.
        fetch: instruction fetch; None: every instruction is there in time.
        cold_constants: where an SM finds the constants that the first warps of a finite grid read: "dram" or "l2"; None: they are
            there in time.
    """

    register_banks: Annotated[int, Between(1, units.MAX_REGISTER_BANKS)] | None = None
    replays: Literal["issue", "unit"] = "issue"
    pass_cycles: Interval = Fraction(1)
    fill_bytes: Count | None = None
    fetch: Fetch | None = None
    cold_constants: Literal["dram", "l2"] | None = None
