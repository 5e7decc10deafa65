"""How long do warps wait after an instruction? Samples by instruction of public profiles beside the stall counts of machine code.

    WARPSIM_PROFILES=reports python experiments/profiles/waits.py

An instruction that is reached in one way only waits for what its predecessor states. Its samples in a state over those in which
it was selected are cycles. The tables: after each kind of branch, by architecture; of each kernel, waits over stall counts
beside the share of the cycles in which its scheduler is held while warps are eligible (`dispatch_stall`); and of launches where
the parts of a warp separate, how many meet and how long each waits; and, by architecture, how long a warp that could issue is not
selected after instructions that ask to yield, and after others.
"""

from __future__ import annotations

import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from run import path_of, wanted

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.profiles.code import machine_function
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch
from warpsim.profiles.measured import measurements
from warpsim.profiles.report import read_report

_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
_AFTER = ("BRA", "BSYNC", "BSSY", "BREAK", "CALL", "RET", "BAR")
_STATES = ("wait", "branch_resolving", "no_instructions")
_UNSURE = (*_AFTER, "EXIT", "LDG", "STG", "LDS", "STS", "WARPSYNC", "YIELD")
"""Opcodes whose successors wait for more than the stall count."""

_FEWEST = 300
"""Samples of a row at least."""

_LONG = 4
"""Stall count from which on all count alike, where it is asked how long warps are not selected."""

_BEHIND = 8
"""Instructions behind a `YIELD` of which the cycles are added up."""

_SEPARATED = 1.2
"""Parts that meet, on average, from which on a launch has a row."""


def samples(one: ProfiledInstruction, state: str) -> float:
    """Returns the samples of an instruction in a state."""
    return one.counts.get(_SAMPLES + state, 0.0)


def launches(folder: Path) -> Iterator[ProfiledLaunch]:
    """Yields the launches of the reports that are in a folder."""
    for source in wanted():
        path = path_of(folder, source)
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


def separated(launch: ProfiledLaunch) -> list[float] | None:
    """Returns of a launch whose parts separate: parts that meet, and cycles beyond the stall counts, by execution.

    The cycles are those after `BSYNC`, after branches that fall through, after `BREAK`, and in the instructions behind a `YIELD`.
    None: they do not separate, or there are too few samples.
    """
    function = machine_function(launch)
    chosen = sum(samples(one, "selected") for one in launch.code)
    if chosen < 10 * _FEWEST:
        return None
    cycles = sum(one.executed for one in launch.code) / chosen
    late: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    parts = [0.0, 0.0]
    for index, (counted, made) in enumerate(zip(launch.code[:-_BEHIND], function.code, strict=False)):
        behind = launch.code[index + 1 : index + 1 + (_BEHIND if made.base == "YIELD" else 1)]
        if not counted.executed or not behind[0].executed or made.control is None:
            continue
        if made.base == "BSYNC":
            parts[0] += counted.executed
            parts[1] += min(counted.executed, behind[0].executed)
        if made.base in ("BSYNC", "BREAK", "YIELD") or (made.base == "BRA" and made.guard):
            states = _STATES if made.base in ("BSYNC", "BRA") else _STATES[1:]
            waited = sum(samples(one, state) for one in behind for state in states) * cycles
            stated = counted.executed * (made.control.stall - 1) if "wait" in states else 0.0
            late[made.base][0] += waited - stated
            late[made.base][1] += counted.executed if made.base == "BSYNC" else behind[0].executed
    if not parts[1] or parts[0] / parts[1] < _SEPARATED:
        return None
    each = [late[base][0] / late[base][1] if late[base][1] else math.nan for base in ("BSYNC", "BRA", "BREAK", "YIELD")]
    return [parts[0] / parts[1], *each]


def main() -> int:
    """Prints the tables."""
    of_parts: list[tuple[str, list[float]]] = []
    turns: dict[tuple[int, int, bool], list[float]] = defaultdict(lambda: [0.0, 0.0])
    after: dict[tuple[int, str, str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    rows: dict[tuple[str, str], tuple[float, float, float]] = {}
    for launch in launches(Path(os.environ.get("WARPSIM_PROFILES", "reports"))):
        waited = stated = 0.0
        try:
            found = list(pairs(launch))
            stalls = measurements(launch).stalls
            apart = separated(launch)
        except (FrontEndError, ProfileError):
            continue
        if apart is not None:
            of_parts.append((f"{launch.metrics.get('device__attribute_display_name')} | {launch.title.partition('(')[0]}", apart))
        for first, second, falls in found:
            selected = samples(second, "selected")
            if not (first.control and second.executed and selected):
                continue
            if falls and first.base not in _UNSURE:
                turn = turns[launch.arch, min(first.control.stall, _LONG), first.control.yields]
                turn[0] += selected
                turn[1] += samples(second, "not_selected")
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
    print("\n| architecture | stall count | asks to yield | not_selected |\n| --- | --- | --- | --- |")
    for (arch, stall, yields), (selected, waited) in sorted(turns.items()):
        if selected >= _FEWEST and stall > 1:
            name = f"{stall} and more" if stall == _LONG else f"{stall}"
            print(f"| sm_{arch} | {name} | {'yes' if yields else 'no'} | {waited / selected:.1f} |")
    print("\n| chip | kernel | parts that meet | after `BSYNC` | after a branch | after `BREAK` | behind `YIELD` |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, values in of_parts:
        print(f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
