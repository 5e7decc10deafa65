"""What machine instructions cost in addition to what their class does, in imports and in replays alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from warpsim.frontends.machine_code.sass import MachineInstruction

MEETS = "BSYNC"
"""Opcode at which the parts of a warp meet; each of them executes it."""

_JUMPS, _TAKEN = ("BRA", "CALL", "RET", "BRX", "JMP", "JMX"), 5
"""Jumps, and the least gap after one that is always taken: it waits for 4.1 to 4.7 cycles whatever its stall count, and one that
falls through for its stall count (A100, RTX 4060: experiments/profiles/waits.py)."""

AFTER = {MEETS: 9}
"""Opcode -> cycles from the end of its stall count to the next issue of the warp. Where the parts of a warp have met again, it
waits for 9.6, 8.6, 11.6 and 8.2 cycles of `branch_resolving` on average (V100, T4, A100, A40: experiments/profiles/waits.py)."""

FLOAT_UPDATE_CYCLES = 3.4
"""Cycles of a slice of L2 for a sum of floating-point numbers at one address. 1,048,576 of them take 2.73 ms on a V100 PCIe and
2.60 ms on an A100 SXM (ptheywood/atomicAddBench, readme.md), which are 3.6 and 3.5 cycles of their highest clocks, 1.38 and
1.41 GHz, and 3.4 cycles of L2, whose clock is 0.944 and 0.957 of that of the SMs on these chips. No source has a Turing. Sums
of integers at one address pass one a cycle, where the threads of a warp make them together (Matthiaas/cudaDatastructures,
results/atomicadd.txt)."""

_OF_FLOATS = re.compile(r"\.B?F(16|32|64)")

_TWO_PASSES = ("IMAD.WIDE", "IMAD.HI", "FFMA2", "FADD2", "FMUL2")
"""Beginnings of opcodes that need two passes of their unit. Multiplications into 64 bits have half the rate of others (notes of
two public repositories: 32 results per SM and cycle of an RTX 4090; half the rate of IMAD on a GB10), and stall counts of ptxas
are two cycles longer for upper halves. On an H200 either takes 4.3 cycles of a scheduler (experiments/hardware/rates.csv).
Pairs of single-precision numbers, which sm_100 has, are as fast as one after the other: ptxas writes a stall count of 2
after each of several independent FFMA2, and 1 after FFMA, whose rate is the peak of a B200 in its data sheet, 75 TFLOP/s."""

_HOLDS, _HOLDS_SINCE = "IMAD.WIDE", 80
"""Beginning of opcodes that take the issue port for one cycle more, and from which compute capability on, times ten. The
simulator of Huerta et al. (2025) is configured so, and the next instruction of a warp waits 0.9 cycles longer than after others
(A100; on a T4 it does not)."""

_PASS_PARTS = 960
"""Parts in which mean passes of shared memory are counted: halves, thirds and fifths, as many as a `Cost` takes. They are ticks
of a cycle, of which there may be many more (`simulation.limits`)."""


def gap_after(one: MachineInstruction, after: Mapping[str, int] = AFTER) -> int:
    """Returns the cycles to the next issue of the warp after an instruction with control fields; `after` is as `AFTER`."""
    assert one.control is not None
    least = _TAKEN if one.base in _JUMPS and not one.guard else 1
    return max(least, one.control.stall) + after.get(one.base, 0)


def unit_costs(one: MachineInstruction, arch: int, interval: Fraction | float | str) -> dict[str, Any]:
    """Returns the costs of an instruction at the unit of its class, which has an interval; `arch` is as in MachineFunction."""
    cost: dict[str, Any] = {}
    if one.opcode.startswith(_TWO_PASSES):
        cost["interval_cycles"] = str(2 * Fraction(str(interval)))
    if one.opcode.startswith(_HOLDS) and arch >= _HOLDS_SINCE:
        cost["issue_slots"] = 2
    return cost


def in_quarters(value: float) -> str:
    """Returns a number that is above 0 in quarters, so that intervals and passes need few ticks of a cycle."""
    return str(Fraction(max(1, round(value * 4)), 4))


def mean_passes(value: float) -> Fraction:
    """Returns a mean number of passes of shared memory, above 0, as a `Cost` takes it."""
    return Fraction(max(1, round(value * _PASS_PARTS)), _PASS_PARTS)


def is_sum_of_floats(opcode: str) -> bool:
    """Returns whether an update, with its opcode or its whole text, is one of floating-point numbers."""
    return _OF_FLOATS.search(opcode) is not None
