"""Plans of 10^3 to 10^6 points: peak memory, tiles per second into a local store, time to open it, to select and to count tiles.

The sweep runs a trivial kernel; from 10^5 points on the machinery alone, without the engine (benchmarks/large_plan.py).
"""

import pytest

from benchmarks.large_plan import run

pytestmark = pytest.mark.bench

MOST_MB, OPEN_SECONDS = 1000, 2.0
"""What a worker may take, and how long opening may."""


@pytest.mark.parametrize("points", [10**3, 10**4, 10**5, 10**6])
def test_a_plan_of_many_points(benchmark, tmp_path, points):
    out = str(tmp_path / "out.zarr")
    written = benchmark.pedantic(run, args=(str(points), out, *(["--still"] if points > 10**4 else [])), rounds=1)
    read = run(str(points), out, "--read")
    benchmark.extra_info |= {
        "MB at most in the worker": written["peak_mb"],
        "MB at most to read": read["peak_mb"],
        "s to make the plan": written["plan"],
        "tiles/s": written["tiles"] / written["sweep"],
        "points/s": written["points"] / written["sweep"],
        "s to open": read["open"],
        "s to select a slice": read["select"],
        "s for the status": read["status"],
    }
    assert written["peak_mb"] < MOST_MB and read["peak_mb"] < MOST_MB
    assert read["open"] < OPEN_SECONDS
