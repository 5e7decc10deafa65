"""Times the launches of launches.toml on this machine's GPU, with PyTorch and Triton.

    python experiments/triton_functions/measure.py OUT.csv [NAME]

Each launch follows a sum over 1 GiB, so that L2 holds nothing of its data and the launch waits in the queue before it begins.
The time is that between two events. With NAME, the launches whose name contains it run once each, for a profiler.
"""

from __future__ import annotations

import csv
import statistics
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TIMES = 11
TYPES = {"*fp32": "float32", "*fp16": "float16"}


def arguments(entry: dict[str, Any], torch: Any) -> list[Any]:
    """Returns the arguments of a launch: numbers, and arrays of 256 MiB or less of random numbers."""
    torch.manual_seed(1)
    found: list[Any] = []
    for name, kind in entry["types"].items():
        if name in entry["args"]:
            found.append(entry["args"][name])
        else:
            found.append(torch.randn(2**26, device="cuda", dtype=getattr(torch, TYPES[kind])))
    return found


def main(out: str, only: str | None = None) -> None:
    """Times all launches, or runs some once."""
    import torch
    import triton

    sys.path.insert(0, str(HERE))
    import functions

    spoiler = torch.zeros(2**28, device="cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with open(out, "w", newline="", encoding="utf-8") as file:
        file.write(f"# {torch.cuda.get_device_name()}, Triton {triton.__version__}: experiments/triton_functions/measure.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "median_us", "least_us", "greatest_us"])
        for entry in tomllib.loads((HERE / "launches.toml").read_text(encoding="utf-8"))["launch"]:
            if only is not None and only not in entry["name"]:
                continue
            given = arguments(entry, torch)
            function = getattr(functions, entry["function"])[tuple(int(part) for part in entry["grid"].split("x"))]
            options = {**entry["constants"], "num_warps": entry["warps"], "num_stages": entry["stages"]}
            times = []
            for _ in range(1 if only is not None else TIMES + 2):
                spoiler.sum()
                begin.record()
                function(*given, **options)
                end.record()
                end.synchronize()
                times.append(1000 * begin.elapsed_time(end))
            last = times[2:] or times  # the first launches compile and load the kernel
            writer.writerow([entry["name"], *(round(time, 3) for time in (statistics.median(last), min(last), max(last)))])


if __name__ == "__main__":
    main(*sys.argv[1:])
