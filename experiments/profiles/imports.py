"""How far from measured time is a launch that is simulated from the machine code in its report, without counts of the profiler?

    WARPSIM_PROFILES=reports python experiments/profiles/imports.py imports.csv

The launches are those of the lists of reports. Machine code, grid and blocks, and the chip at its
measured clocks are all that is used, and nothing is stated of arguments and data. Launches whose import needs to know more, or
assumes something, are counted and left out.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

from _processes import in_processes
from _tables import write_rows
from run import LISTS, path_of, wanted

import warpsim as ws
from warpsim.frontends.errors import FrontEndError
from warpsim.profiles.chip import chip_of
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.report import read_code


@dataclass(frozen=True)
class Imported:
    """A launch, simulated from its machine code alone: times in us."""

    repository: str
    commit: str
    file: str
    launch: int
    gpu: str
    kernel: str
    measured_us: float
    simulated_us: float


def simulated(source: dict[str, str]) -> list[Imported | str]:
    """Returns for each launch of a report what was simulated, or why nothing was."""
    folder = Path(os.environ.get("WARPSIM_PROFILES", "reports"))
    path = path_of(folder, source)
    return list(_of_report(path, source)) if path.exists() else ["the report is not here"]


def _of_report(path: Path, source: dict[str, str]) -> Iterator[Imported | str]:
    for number in map(int, source["launches"].split()):
        try:
            launch = read_code(path, number)
            measured = launch.need("gpu__time_duration.sum") / 1e3
            gpu, _ = chip_of(launch)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                kernel = ws.from_report(path, number, caches=gpu)
        except Warning:
            yield "the import assumes something"
        except FrontEndError:
            yield "the import asks for something, such as trips that depend on arguments"
        except ProfileError:
            yield "the reader prints no text of the instructions"
        else:
            blocks = math.prod(round(launch.need(f"launch__grid_dim_{axis}")) for axis in "xyz")
            time = ws.launch_time(gpu, kernel, blocks).microseconds.mean
            where = source["repository"], source["commit"], source["path"], number
            yield Imported(*where, gpu.title, kernel.name, round(measured, 2), round(time, 2))


def main(out: Path) -> int:
    """Simulates all launches, writes those that could be, and prints their errors."""
    reports = [one for listed in LISTS for one in wanted(listed)]
    found = [one for of_report in in_processes(simulated, reports) for one in of_report]
    rows = [one for one in found if not isinstance(one, str)]
    write_rows(out, rows)
    for why, count in Counter(one for one in found if isinstance(one, str)).most_common():
        print(f"{count} launches left out: {why}")
    errors = np.array([100 * abs(one.simulated_us / one.measured_us - 1) for one in rows])
    print(f"{len(rows)} launches: mean {errors.mean():.1f} %, median {np.median(errors):.1f} %, largest {errors.max():.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
