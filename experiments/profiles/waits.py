"""How long do warps wait after an instruction? Samples by instruction of public profiles beside the stall counts of machine code.

    WARPSIM_PROFILES=reports python experiments/profiles/waits.py

An instruction that is reached in one way only waits for what its predecessor states. Its samples in a state over those in which
it was selected are cycles. The tables: after each kind of branch, by architecture; and of each kernel, waits over stall counts
beside the share of the cycles in which its scheduler is held while warps are eligible (`dispatch_stall`).
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from run import wanted

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.flow import make_flow
from warpsim.frontends.sass import MachineInstruction
from warpsim.profiles.code import machine_function
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.measured import measurements
from warpsim.profiles.report import ProfiledInstruction, ProfiledLaunch, read_report

_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
_AFTER = ("BRA", "BSYNC", "BSSY", "BREAK", "CALL", "RET", "BAR")
_STATES = ("wait", "branch_resolving", "no_instructions")
_UNSURE = (*_AFTER, "EXIT", "LDG", "STG", "LDS", "STS", "WARPSYNC", "YIELD")
"""Opcodes whose successors wait for more than the stall count."""

_FEWEST = 300
"""Samples of a row at least."""


def samples(one: ProfiledInstruction, state: str) -> float:
    """Returns the samples of an instruction in a state."""
    return one.counts.get(_SAMPLES + state, 0.0)


def launches(folder: Path) -> Iterator[ProfiledLaunch]:
    """Yields the launches of the reports that are in a folder."""
    for source in wanted():
        path = folder / source["repository"].replace("/", "+") / source["commit"][:8] / source["path"]
        if path.exists():
            numbers = {int(number) for number in source["launches"].split()}
            yield from (one for one in read_report(path) if one.number in numbers)


def pairs(launch: ProfiledLaunch) -> Iterator[tuple[MachineInstruction, ProfiledInstruction, bool]]:
    """Yields an instruction and the one after it that only it leads to, and whether it falls through."""
    flow = make_flow(machine_function(launch))
    code = flow.function.code
    before: dict[int, list[int]] = defaultdict(list)
    for number, block in enumerate(flow.blocks):
        for target in block.successors:
            before[target].append(number)
    for number, block in enumerate(flow.blocks):
        for index in block.code[1:]:
            yield code[index - 1], launch.code[index], True
        if len(before[number]) == 1:
            other = flow.blocks[before[number][0]]
            yield code[other.code[-1]], launch.code[block.code[0]], other.following == number


def main() -> int:
    """Prints the tables."""
    after: dict[tuple[int, str, str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    rows: dict[tuple[str, str], tuple[float, float, float]] = {}
    for launch in launches(Path(os.environ.get("WARPSIM_PROFILES", "reports"))):
        waited = stated = 0.0
        try:
            found = list(pairs(launch))
            stalls = measurements(launch).stalls
        except (FrontEndError, ProfileError):
            continue
        for first, second, falls in found:
            selected = samples(second, "selected")
            if not (first.control and second.executed and selected):
                continue
            if first.base in _AFTER:
                row = after[launch.arch, first.base, "falls through" if falls else "jumps", first.control.stall]
                row["selected"] += selected
                for state in _STATES:
                    row[state] += samples(second, state)
            elif first.base not in _UNSURE:
                stated += selected * (first.control.stall - 1)
                waited += samples(second, "wait")
        if stated > 1000:
            held = stalls.get("dispatch_stall", 0.0)
            chip = str(launch.metrics.get("device__attribute_display_name"))
            kernel = launch.title.partition("(")[0].partition("<")[0]
            share = held / (held + stalls.get("selected", 1.0) + stalls.get("not_selected", 0.0))
            rows.setdefault((chip, kernel), (stated, waited / stated, 1 / (1 - share)))
    print(f"| architecture | after | | stall count | {' | '.join(_STATES)} |\n| {'--- | ' * (4 + len(_STATES))}")
    for (arch, base, way, stall), row in sorted(after.items()):
        if row["selected"] >= _FEWEST:
            cycles = " | ".join(f"{row[state] / row['selected']:.1f}" for state in _STATES)
            print(f"| sm_{arch} | {base} | {way} | {stall} | {cycles} |")
    print("\n| chip | kernel | waits over stall counts | 1 / (1 - share held) |\n| --- | --- | --- | --- |")
    for (chip, kernel), (_, ratio, expected) in sorted(rows.items()):
        print(f"| {chip} | {kernel} | {ratio:.2f} | {expected:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
