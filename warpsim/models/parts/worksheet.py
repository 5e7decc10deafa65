"""The throughput bound as a readable table (V Tables 3.2 to 3.4).

V is Volkov 2016 (docs/bibliography.md).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from warpsim.hardware.gpu import Gpu
from warpsim.kernels.costs import data_stage
from warpsim.models.parts.costs import ISSUE, L2, LOADS_IN_FLIGHT, MEMORY
from warpsim.models.parts.warp_path import WarpPath

_TITLES = {
    "alu": "CUDA cores",
    "sfu": "SFU units",
    "smem": "Shared memory banks",
    L2: "L2",
    MEMORY: "Memory system",
    ISSUE: "Warp scheduler",
    LOADS_IN_FLIGHT: "Loads in flight",
}
_ISSUE_KINDS = ("single issue", "dual issue", "reissue")


def _title(resource: str) -> str:
    return _TITLES.get(resource, resource if resource.endswith(data_stage("")) else f"{resource} units")


class Row(NamedTuple):
    """A row of V Table 3.4: the user of a resource of the SM, its cycles per instruction, and the instructions."""

    resource: str
    used_by: str
    cycles_per_instruction: float
    instructions: float

    @property
    def cycles(self) -> float:
        """Cycles of the resource per warp or repetition."""
        return self.cycles_per_instruction * self.instructions


@dataclass(frozen=True)
class Worksheet:
    """The throughput bound and its derivation; `print` shows V Table 3.4.

    Attributes:
        rows: rows grouped by resource: units by the name of their operation class, their data stages, "L2", "memory", "loads in
            flight", "issue".
        per: "warp", or "repetition" of an endless loop.
        instructions: operation class -> expected instructions per warp or repetition.
        requested_bytes: bytes of global memory that the program requests, per warp or repetition.
        traffic_bytes: bytes that the memory system moves, without cache hits, per warp or repetition.
    """

    rows: tuple[Row, ...]
    per: str
    instructions: dict[str, float]
    requested_bytes: float
    traffic_bytes: float

    @property
    def totals(self) -> dict[str, float]:
        """Resource -> cycles per warp or repetition."""
        totals: dict[str, float] = defaultdict(float)
        for row in self.rows:
            totals[row.resource] += row.cycles
        return dict(totals)

    @property
    def tightest(self) -> str:
        """Name of the resource that bounds throughput."""
        totals = self.totals
        return max(totals, key=totals.__getitem__)

    @property
    def cycles(self) -> float:
        """Cycles per warp or repetition: the inverse of the throughput bound."""
        return max(self.totals.values())

    def __str__(self) -> str:
        """Returns the table: cycles per instruction, instructions per warp or repetition, cycles."""
        tightest = self.tightest
        lines = [f"{'Used by':<36}{'CPI':>10}{'per ' + self.per:>16}{'cycles':>12}"]
        for resource, total in self.totals.items():
            lines.append(f"Resource: {_title(resource)}")
            for row in self.rows:
                if row.resource == resource:
                    lines.append(
                        f"  {row.used_by:<34}{row.cycles_per_instruction:>10.4g}"
                        f"{row.instructions:>16.6g}{row.cycles:>12.6g}"
                    )
            label = "Total (the tightest bound):" if resource == tightest else "Total:"
            lines.append(f"  {label:<60}{total:>12.6g}")
        return "\n".join(lines)


def worksheet(gpu: Gpu, path: WarpPath) -> Worksheet:
    """Returns the worksheet of a warp in the order of V: units, memory system, issue."""
    units = dict.fromkeys(map(gpu.unit_of, gpu.ops))
    order = [*units, *map(data_stage, units), L2, MEMORY, LOADS_IN_FLIGHT, ISSUE]

    def place(row: Row) -> tuple[int, int, float]:
        kind = next((i for i, kind in enumerate(_ISSUE_KINDS) if row.used_by.startswith(kind)), 0)
        return order.index(row.resource), kind, row.cycles_per_instruction

    rows = [Row(use.resource, use.used_by, use.cycles, count) for use, count in path.uses.items()]
    instructions: dict[str, float] = defaultdict(float)
    for use, count in path.uses.items():
        if use.op:
            instructions[use.op] += count
    moving = sum(row.cycles for row in rows if row.resource == MEMORY)
    return Worksheet(
        rows=tuple(sorted(rows, key=place)),
        per=path.per,
        instructions=dict(instructions),
        requested_bytes=sum(use.requested_bytes * count for use, count in path.uses.items()),
        traffic_bytes=moving * gpu.bandwidth_bytes_per_cycle / gpu.sms,
    )
