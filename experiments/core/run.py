"""Do the cycles of a core come out that Huerta et al. measured? And what do its options do to greedy policies?"""

from __future__ import annotations

from pathlib import Path

import greed
import timing
from _tables import markdown_table, replace_tables


def main(out: Path) -> int:
    """Compares all numbers."""
    out.mkdir(parents=True, exist_ok=True)
    tables = [memory_issue(), listing_1(), figure_4(), greed.of_the_sm(), greed.of_a_scheduler()]
    text = "\n".join(map(markdown_table, tables))
    (out / "core.md").write_text(text, encoding="utf-8")
    replace_tables(timing.HERE / "README.md", text)
    print(f"{out / 'core.md'}: {len(tables)} tables")
    return 0


def memory_issue() -> list[dict[str, str]]:
    """Compares the cycles in which memory instructions issue."""
    published = timing.published_memory_issue()
    simulated = {op: {} for op in ("load", "smem")}
    for op, found in simulated.items():
        for active in range(1, timing.SUB_CORES + 1):
            found |= timing.memory_issue(op, active)
    return [
        {
            "sub-cores that issue": str(active),
            "sub-core": str(sub_core),
            "published": _cycles(cycles),
            "loads": _cycles(simulated["load"][active, sub_core]),
            "shared memory": _cycles(simulated["smem"][active, sub_core]),
            "equal": f"{_equal(cycles, *(found[active, sub_core] for found in simulated.values()))} of {2 * len(cycles)}",
        }
        for (active, sub_core), cycles in published.items()
    ]


def _cycles(cycles: list[int]) -> str:
    return ", ".join(map(str, cycles))


def _equal(published: list[int], *simulated: list[int]) -> int:
    return sum(a == b for found in simulated for a, b in zip(published, found, strict=True))


def listing_1() -> list[dict[str, str]]:
    """Compares the cycles of Listing 1."""
    return [
        {"operands": f"{x}, {y}", "published, cycles": str(cycles), "simulated": str(timing.listing_1(x, y))}
        for (x, y), cycles in timing.LISTING_1.items()
    ]


def figure_4() -> list[dict[str, str]]:
    """Compares the timelines of Figure 4: which warp issues from which cycle on, up to which one."""
    return [
        {"timeline": name, "published": _runs(published), "simulated": _runs(timing.figure_4(cost, fetch))}
        for name, (cost, fetch, published) in timing.FIGURE_4.items()
    ]


def _runs(runs: timing.Runs) -> str:
    return ", ".join(f"{'ABCD'[warp]} {begin}-{end - 1}" for warp, begin, end in runs)
