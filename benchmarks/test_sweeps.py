"""The cost of a sweep besides the simulation (plan, tiles, store), the gain from a second worker, and the compression of chunks.

Times of one worker are CPU times of the process, which other work on the machine hardly changes.
"""

import shutil
import time
from dataclasses import replace

import pytest
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from warpsim.arguments import InvalidPoint
from warpsim.cli.experiment import experiments_dir
from warpsim.simulation import api as simulation
from warpsim.simulation.api import simulate_point
from warpsim.store import create
from warpsim.store.create import create_store
from warpsim.store.grid import TileGrid
from warpsim.store.writing import write_tile
from warpsim.store.zarr_store import open_results
from warpsim.sweeps.local import sweep
from warpsim.sweeps.opening import prepare_store
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.space import BuildCache
from warpsim.sweeps.tile import run_tile, tile_coordinates

pytestmark = pytest.mark.bench


def cusp():
    return Plan.from_toml(experiments_dir() / "cusp" / "plan.toml")


def points(plan, tile):
    """The points of a tile that exist, ready to be simulated."""
    cache, existing = BuildCache(), []
    for position in plan.positions(tile):
        try:
            existing.append((plan.point(position, cache), plan.streams(position)))
        except InvalidPoint:
            continue
    return existing


def test_overhead_of_a_sweep(benchmark, tmp_path, monkeypatch):
    """At most 5 % over the bare simulation of the same points: the cusp plan, a tile of each chip, side by side."""
    start = time.process_time()
    plan = cusp()
    prepare_store(plan, tmp_path / "out.zarr")
    benchmark.extra_info["s of CPU to read the plan and make its store"] = time.process_time() - start
    chips = len(plan.axes["gpu"])
    each = len(plan.tiles()) // chips
    tiles = [number * each + each // 2 for number in range(chips)]
    ready = {tile: points(plan, tile) for tile in tiles}
    simulate_point(*ready[tiles[0]][0][:1])  # loads the compiled code
    bare, swept, engine = [], [], []
    run_machine = simulation.run_machine

    def timed(*arguments):
        start = time.process_time()
        result = run_machine(*arguments)
        engine.append(time.process_time() - start)
        return result

    def both():
        for tile in tiles:
            monkeypatch.setattr(simulation, "run_machine", timed)
            start = time.process_time()
            for point, streams in ready[tile]:
                simulate_point(point, streams=streams)
            monkeypatch.undo()
            middle = time.process_time()
            sweep(plan, tmp_path / "out.zarr", tiles=[tile])
            bare.append(middle - start)
            swept.append(time.process_time() - middle)

    benchmark.pedantic(both, rounds=1)
    benchmark.extra_info["% of CPU time over the bare simulation"] = 100 * (sum(swept) / sum(bare) - 1)
    benchmark.extra_info["% of CPU time over the compiled engine and run_machine"] = 100 * (sum(swept) / sum(engine) - 1)
    benchmark.extra_info["s of CPU for the bare simulation"] = sum(bare)


def alike(number, cycles, sms=None):
    """A plan of points that cost the same: a mix on Kepler, from many seeds."""
    settings = {"kernel": "mix", "alpha": 32, "warps": 64, "warmup": 0, "cycles": cycles, "sms": sms}
    return Plan(gpu="kepler", seed=list(range(number)), tile_points=max(1, number // 32), **settings)


PLANS = {"points of 0.3 s": (32, 300_000, None), "points of 4 ms": (1024, 2_000, 1)}


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("length", PLANS)
def test_two_workers(benchmark, tmp_path, length, processes):
    """Two workers are to be 1.9 times as fast as one. The start of processes is not counted."""
    plan = alike(*PLANS[length])
    times = {}

    def run(workers):
        """Time from the first tile that is done to the last, and the tiles done in it."""
        moments = []
        shutil.rmtree(tmp_path / "out.zarr", ignore_errors=True)
        sweep(plan, tmp_path / "out.zarr", workers=workers, processes=processes,
              progress=lambda now: moments.append((time.perf_counter(), now.points_done)))  # fmt: skip
        (start, before), (end, after) = moments[1 if processes else 0], moments[-1]
        times[workers] = min(times.get(workers, float("inf")), (end - start) / (after - before))

    def both():
        for _ in range(2):
            run(1)
            run(2)

    benchmark.pedantic(both, rounds=1)
    benchmark.extra_info["times one worker, by two"] = times[1] / times[2]
    benchmark.extra_info["ms a point, by one"] = 1e3 * times[1]


@pytest.fixture(scope="module")
def tile():
    """A plan of 64 points on two chips with 8 replicates, and its results as one tile."""
    plan = Plan(
        gpu=["fermi", "kepler"], kernel="mix", alpha=[1, 4, 16, 64], warps=[4, 8, 16, 48], scheduler=["lrr", "gto"],
        replicates=8, sms=2, warmup=5_000, cycles=20_000,
    )  # fmt: skip
    results = sweep(plan)
    arrays = {name: array.values for name, array in results.data_vars.items()}
    return plan, arrays, {name: labels.values for name, labels in results.coords.items()}


CODECS = {
    "none": (),
    "zstd 1": (ZstdCodec(level=1),),
    "zstd 3": (ZstdCodec(level=3),),
    "zstd 9": (ZstdCodec(level=9),),
    "gzip 5": (GzipCodec(level=5),),
    "blosc zstd 3, shuffled": (BloscCodec(cname="zstd", clevel=3, shuffle="shuffle", typesize=8),),
    "blosc zstd 3, bits shuffled": (BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=8),),
    "blosc lz4 5, shuffled": (BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=8),),
}


@pytest.mark.parametrize("codec", CODECS)
def test_compression(benchmark, tmp_path, monkeypatch, codec, tile):
    """Size of a real tile in the store, and the CPU time to write and to read it, with the checksum."""
    plan, arrays, coordinates = tile
    monkeypatch.setattr(create, "COMPRESSORS", (*CODECS[codec], Crc32cCodec()))
    grid = TileGrid(plan.grid.axes, plan.grid.sizes, plan.grid.sizes)  # one tile
    store = create_store(tmp_path / "out.zarr", replace(plan.layout(), grid=grid))
    writing, reading = [], []

    def both():
        start = time.process_time()
        write_tile(store, 0, arrays, coordinates)
        middle = time.process_time()
        open_results(tmp_path / "out.zarr").load()
        writing.append(middle - start)
        reading.append(time.process_time() - middle)

    benchmark.pedantic(both, rounds=15, warmup_rounds=1)
    chunks = [file for name in store.arrays for file in (tmp_path / "out.zarr" / name / "c").rglob("*") if file.is_file()]
    benchmark.extra_info["kB"] = sum(file.stat().st_size for file in chunks) / 1e3
    benchmark.extra_info["ms of CPU to write"] = 1e3 * min(writing)
    benchmark.extra_info["ms of CPU to open and read"] = 1e3 * min(reading)


def test_tiles_into_a_local_store(benchmark, tmp_path):
    """Tiles per second that one worker can write, whatever they cost to simulate."""
    plan = alike(1024, 500, 1)
    tiles = [(run_tile(plan, tile), tile_coordinates(plan, tile)) for tile in plan.tiles()]
    _, store = prepare_store(plan, tmp_path / "out.zarr")

    def write():
        for tile, (arrays, coordinates) in enumerate(tiles):
            write_tile(store, tile, arrays, coordinates)

    benchmark.pedantic(write, rounds=3)
    benchmark.extra_info["tiles/s"] = len(tiles) / benchmark.stats.stats.min
    benchmark.extra_info["points a tile"] = plan.grid.tile_points(0)
