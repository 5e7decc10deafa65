"""A sweep of many points of a trivial kernel, in a process of its own: python -m benchmarks.large_plan POINTS OUT.zarr [--still]

Prints a JSON line with times in seconds and the peak memory in MB. With --still the engine is left out: every point has the
results of the first, so that only the machinery runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def plan_of(points: int) -> Any:
    """Ten kernels, ten occupancies, and as many seeds as it takes."""
    from warpsim.sweeps.plan import Plan

    settings = {"gpu": "kepler", "kernel": "mix", "sms": 1, "warmup": 0, "cycles": 50}
    return Plan(**settings, seed=range(points // 100), alpha=list(range(10)), warps=list(range(4, 44, 4)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("points", type=int)
    parser.add_argument("out")
    parser.add_argument("--still", action="store_true")
    parser.add_argument("--read", action="store_true", help="only open the store")
    options = parser.parse_args()
    found = read(options.out) if options.read else write(options.points, options.out, options.still)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def write(points: int, out: str, still: bool) -> dict[str, float]:
    from warpsim.sweeps import tile
    from warpsim.sweeps.local import sweep

    found: dict[str, float] = {}
    plan = timed(found, "plan", lambda: plan_of(points))
    first = tile.simulate_point(plan.point(plan.position(0)))  # compiles, or loads what was compiled
    if still:
        tile.simulate_point = lambda *_, **__: first
    timed(found, "sweep", lambda: sweep(plan, out, workers=1))
    return found | {"tiles": len(plan.grid), "points": plan.points}


def read(out: str) -> dict[str, float]:
    from warpsim.store.status import tile_counts
    from warpsim.store.zarr_store import open_results, open_store

    found: dict[str, float] = {}
    results = timed(found, "open", lambda: open_results(out))
    timed(found, "select", lambda: results["memory_latency_quantile"].isel(seed=-1).load())
    timed(found, "status", lambda: tile_counts(open_store(out, read_only=True).log))
    return found


def timed(found: dict[str, float], name: str, do: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = do()
    found[name] = time.perf_counter() - start
    return result


def run(*arguments: str) -> dict[str, float]:
    """The same in a new process."""
    command = [sys.executable, "-m", "benchmarks.large_plan", *arguments]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


if __name__ == "__main__":
    main()
