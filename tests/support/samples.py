"""Replays of profiled launches that are sampled beside replays of the whole launch.

`WARPSIM_PROFILES=reports python -m tests.support.samples [INSTRUCTIONS]` prints a table: of each kernel on a chip the longest
launch that has at most so many warp instructions, 40 million if no number is given.
"""

from __future__ import annotations

import csv
import math
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpsim.profiles.api import Profile, profile_of
from warpsim.profiles.report import read_report

SOURCES = Path(__file__).parents[2] / "experiments" / "profiles" / "sources.csv"
MOST = 40_000_000
WHOLE = 10**12
"""A budget that every launch keeps."""


@dataclass(frozen=True)
class Compared:
    """A sampled replay beside the whole one.

    Attributes:
        name: of the kernel, its chip and its grid.
        sampling: what was left out, in words.
        share: of the instructions that were simulated.
        error: sampled over whole cycles - 1.
        half_width: half the width of the 95 % interval of that, of the replicates of both replays.
        stated: how far the replay says that such samples are off at most.
    """

    name: str
    sampling: str
    share: float
    error: float
    half_width: float
    stated: float

    @property
    def holds(self) -> bool:
        """Whether the interval, widened by what is stated, contains 0."""
        return abs(self.error) <= math.hypot(self.half_width, self.stated)


def profiles(folder: Path) -> Iterator[Profile]:
    """Yields the launches of the reports that are in a folder, laid out as by experiments/profiles/clone.sh."""
    with SOURCES.open(encoding="utf-8", newline="") as stream:
        sources = list(csv.DictReader(stream))
    for source in sources:
        path = folder / source["repository"].replace("/", "+") / source["commit"][:8] / source["path"]
        if path.exists():
            numbers = {int(number) for number in source["launches"].split()}
            for one in read_report(path):
                if one.number in numbers:
                    yield profile_of(one)


def chosen(folder: Path, most: int = MOST) -> list[Profile]:
    """Returns the longest launch with at most `most` warp instructions of each kernel on a chip."""
    found: dict[tuple[str, str], Profile] = {}
    for profile in profiles(folder):
        key = profile.gpu.title, profile.kernel.name
        if profile.measured.instructions <= most:
            other = found.get(key)
            if other is None or other.measured.instructions < profile.measured.instructions:
                found[key] = profile
    return sorted(found.values(), key=lambda one: one.measured.instructions)


def compare(profile: Profile, replicates: int = 3) -> Compared | None:
    """Returns the comparison of a launch; None: it is not sampled."""
    sampled = profile.replay(replicates=replicates)
    if not sampled.sampling:
        return None
    whole = profile.replay(replicates=replicates, seed=1, budget=WHOLE)
    assert not whole.sampling
    ratio = sampled.cycles.mean / whole.cycles.mean
    spread = (sampled.cycles.half_width**2 + (ratio * whole.cycles.half_width) ** 2) ** 0.5 / whole.cycles.mean
    name = f"{profile.kernel.name}, {profile.gpu.title}, {profile.launch.blocks}"
    return Compared(name, sampled.sampling, sampled.share, ratio - 1, spread, sampled.sampled_within)


def main(most: int) -> None:
    """Prints the table."""
    print("| launch | sampling | share | sampled / whole - 1, % | replicates, +-% | stated, % | holds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for profile in chosen(Path(os.environ.get("WARPSIM_PROFILES", "reports")), most):
        row = compare(profile)
        if row is not None:
            rows.append(row)
            values = [f"{row.share:.2g}", f"{100 * row.error:+.1f}", f"{100 * row.half_width:.1f}", f"{100 * row.stated:.1f}"]
            print(f"| {' | '.join([row.name, row.sampling, *values, 'yes' if row.holds else 'no'])} |", flush=True)
    print(f"{sum(row.holds for row in rows)} of {len(rows)} intervals hold")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MOST)
