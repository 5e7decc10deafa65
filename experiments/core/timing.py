"""Programs of Huerta et al., Analyzing Modern NVIDIA GPU cores, MICRO 2025, and the cycles in which they issue on an A40.

They measured an RTX A6000, which has the same die.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from _tables import read_rows

import warpsim as ws
from warpsim.hardware.core import Fetch
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Cost, Instruction, Kernel

HERE = Path(__file__).resolve().parent

SUB_CORES = 4
FIRST_CYCLE = 2
"""Cycle of the first issue in the published tables of memory instructions."""

LISTING_1 = {("R19", "R21"): 5, ("R18", "R21"): 6, ("R18", "R20"): 7}
"""Two operands of the second multiply-add -> published cycles between the two readings of the clock."""

FETCH = Fetch(lines=32, line_instructions=16, miss_cycles=16)
"""What Figure 4a shows: a line has 16 instructions, and one that is missing is there after 16 cycles."""

Runs = list[tuple[int, int, int]]

FIGURE_4: dict[str, tuple[Cost | None, Fetch | None, Runs]] = {
    "4a, no hint, a cold instruction cache": (None, FETCH, [(3, 0, 16), (2, 16, 48), (3, 48, 64), (1, 64, 96), (0, 96, 128)]),
    "4b, a stall of 4 on the second instruction": (
        Cost(gap_cycles=5),  # the figure has four bubbles
        None,
        [(3, 0, 2), (2, 2, 4), (1, 4, 6), (3, 6, 36), (2, 36, 66), (1, 66, 96), (0, 96, 98), (0, 102, 132)],
    ),
    "4c, yield on the second instruction": (
        Cost(gap_cycles=2),
        None,
        [(3, 0, 2), (2, 2, 4), (3, 4, 34), (2, 34, 64), (1, 64, 66), (0, 66, 68), (1, 68, 98), (0, 98, 128)],
    ),
}
"""Timeline -> the second instruction's cost, fetch, and the published runs of issues without a bubble: warp, begin, end."""


def chip(fetch: Fetch | None = None) -> Gpu:
    """Returns an A40 whose warps start together, perhaps with instruction fetch."""
    a40 = ws.load_gpu("a40")
    return a40.model_copy(update={"warp_launch_cycles": 0, "core": a40.core.model_copy(update={"fetch": fetch})})


def issues(gpu: Gpu, body: Sequence[Instruction], warps: int, policy: str) -> list[tuple[int, int]]:
    """Returns (cycle, warp slot) of what one block on one SM issues."""
    kernel = Kernel(name="core", inputs=("x",), body=tuple(body))
    trace = ws.Trace(issues=(0, 10_000))
    launch = Launch(blocks=1, block_warps=warps, resident_blocks=1)
    found = ws.simulate(gpu, kernel, launch=launch, sms=1, scheduler=policy, memory="fixed", trace=trace)
    cycles, slots = (found[name].values.ravel() for name in ("issue_cycle", "issue_slot"))
    return [(int(cycle), int(slot)) for cycle, slot in zip(cycles, slots, strict=True) if slot >= 0]


def published_memory_issue() -> dict[tuple[int, int], list[int]]:
    """Returns the published cycles of the memory instructions: (sub-cores that issue, sub-core) -> one for each instruction."""
    table: dict[tuple[int, int], list[int]] = {}
    for row in read_rows(HERE / "memory_issue.csv"):
        table.setdefault((int(row["active_subcores"]), int(row["subcore"])), []).append(int(row["issue_cycle"]))
    return table


def memory_issue(op: str, active: int) -> dict[tuple[int, int], list[int]]:
    """Returns the same as simulated, for loads that hit L1, or shared memory, with a warp on each of some sub-cores."""
    access = Access(l1_hit=1.0) if op == "load" else None
    body = [Instruction(op, dst=f"r{place}", src=("x",), access=access) for place in range(8)]
    found = issues(chip(), body, active, "lrr")
    by_warp = {slot: [cycle for cycle, other in found if other == slot] for slot in range(active)}
    return {(active, slot): [FIRST_CYCLE + cycle - found[0][0] for cycle in cycles[:8]] for slot, cycles in by_warp.items()}


def listing_1(x: str, y: str) -> int:
    """Returns the cycles between the two readings of the clock in Listing 1, whose second multiply-add reads two registers."""
    add = Instruction("alu")
    first, second = (Instruction("alu", reads=reads) for reads in (("R10", "R12", "R14"), ("R16", x, y)))
    found = issues(chip(), [add, add, first, second, add, add], 1, "gty")
    return found[5][0] - found[0][0]


def figure_4(cost: Cost | None, fetch: Fetch | None) -> Runs:
    """Returns the runs of issues without a bubble of four warps of one sub-core, which issue 32 independent instructions each."""
    body = [Instruction("alu", cost=cost if place == 1 else None) for place in range(31)]  # `exit` is the last one
    every = issues(chip(fetch), body, 4 * SUB_CORES, "gty")
    of_one = [(cycle, slot // SUB_CORES) for cycle, slot in every if slot % SUB_CORES == 0]
    runs = groupby(enumerate(of_one), key=lambda item: (item[1][1], item[1][0] - item[0]))
    spans = [(warp, [cycle - of_one[0][0] for _, (cycle, _) in members]) for (warp, _), members in runs]
    return [(warp, cycles[0], cycles[-1] + 1) for warp, cycles in spans]
