"""What the reference machine counts (section 7 of docs/model.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# Copies of the names in `results.schema`, on which the reference machine does not depend. A test asserts that they are equal.
STATES = (
    "selected",
    "not_selected",
    "wait",
    "short_scoreboard",
    "long_scoreboard",
    "barrier",
    "math_pipe_throttle",
    "mio_throttle",
    "lg_throttle",
    "dispatch_stall",
    "drain",
    "branch_resolving",
    "no_instruction",
    "imc_miss",
    "membar",
    "sleeping",
    "tex_throttle",
)
SLOTS = ("issued", "busy", "idle")


@dataclass
class Result:
    """Result of a run: its issues from cycle 0 on, and the counts of its window (7)."""

    issues: list[tuple[int, int, int, str]] = field(default_factory=list)
    """(cycle, SM, slot, op) of every instruction by cycle, SM and scheduler, including the warm-up."""
    warp_cycles: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    scheduler_cycles: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SLOTS, 0))
    occupancy_cycles: Counter[int] = field(default_factory=Counter)
    """SM-cycles by number of resident warps."""
    occupancy_changes: list[tuple[int, int, int]] = field(default_factory=list)
    """(cycle, SM, new number of resident warps); the first rows are the initial values at the start of the window."""
    line_cycles: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    """Warp-cycles by (scheduler, place in the kernel, state)."""
    caused_cycles: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Warp-cycles by (place of their cause, state)."""
    state_moments: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Warps by (cycle, state)."""
    warps: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """(launch number, SM, slot, start, R or -1) of the warps resident in the window, by launch number."""
    retired: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(launch number, SM, start, R) of the warps that retired in the window, by launch number."""
    load_latencies: list[int] = field(default_factory=list)
    """Latencies of the loads served in the window, in the order in which they were served."""
    instructions: Counter[str] = field(default_factory=Counter)
    unit_cycles: Counter[str] = field(default_factory=Counter)
    """Unit-cycles by unit, as exact fractions."""
    data_cycles: Counter[str] = field(default_factory=Counter)
    """Those of the data stages of units."""
    l2_cycles: Counter[float] = field(default_factory=Counter)
    """Accesses by the cycles for which each occupies the slices of L2 that it can choose, on average over its hits in L1."""
    asked_bytes: float = 0.0
    """Bytes that the threads requested."""
    moved_bytes: float = 0.0
    """Bytes that were moved at the memory's sustained rate."""
    end: int = 0
    """The cycle after the last one that is counted."""
