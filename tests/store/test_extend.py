"""Extended sweeps keep what is done, and give the result of a sweep that was as large from the start."""

import shutil
import time
from collections import Counter

import numpy as np
import pytest
import xarray as xr

import warpsim
from tests.support.small_plans import SHORT, small_plan
from warpsim.hardware.gpu import load_gpu
from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.store import create
from warpsim.store.place import StoreError
from warpsim.store.status import DONE, FAILED, INVENTORY, TileLog, create_log, tile_counts
from warpsim.store.writing import mark_failed
from warpsim.store.zarr_store import open_results, open_store, pending_tiles
from warpsim.sweeps import tile
from warpsim.sweeps.local import sweep
from warpsim.sweeps.opening import prepare_store
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.repair import repair, verify


@pytest.fixture
def simulated(monkeypatch):
    """Counts the replicates that are simulated: (chip, warps, policy, replicate) -> how often."""
    counts = Counter()
    real = tile.simulate_point

    def counting(point, **options):
        warps = point.launch.resident_warps
        first = options["first"]
        for replicate in range(first, first + point.replicates):
            counts[point.gpu.name, str(point.kernel.body), warps, point.scheduler, replicate] += 1
        return real(point, **options)

    monkeypatch.setattr(tile, "simulate_point", counting)
    return counts


def assert_same(found, expected):
    """The same values at the same labels, whatever the order along the axes."""
    assert dict(found.sizes) == dict(expected.sizes)
    found = found.load()
    for axis in expected.dims:
        found = found.sel({axis: expected[axis].values})
    for declared in SWEEP_VARIABLES:
        np.testing.assert_array_equal(found[declared.name], expected[declared.name], err_msg=declared.name)
    for name in expected.coords:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=str(name))


GROWTHS = {
    "replicates": {"replicates": 5},
    "a value in the middle": {"warps": [4, 6, 8, 48]},
    "a fraction and infinity among whole numbers": {"alpha": [1, 2.5, 8, float("inf")]},
    "values on two axes, in another order": {"alpha": [16, 8, 4, 1], "warps": [8, 4, 12, 48, 2, 16]},
    "everything": {"gpu": ["g80", "kepler", "maxwell"], "alpha": [0, 1, 8], "warps": [4, 8, 16, 48], "replicates": 4},
}


@pytest.mark.parametrize("changes", GROWTHS.values(), ids=GROWTHS)
def test_growing_keeps_what_is_done_and_gives_what_a_large_sweep_gives(tmp_path, simulated, changes):
    path = tmp_path / "out.zarr"
    sweep(small_plan(tile_points=6), path)
    grown = sweep(small_plan(**changes), path, extend=True)
    assert set(simulated.values()) == {1}  # nothing twice
    assert tile_counts(open_store(path).log).pending == 0
    simulated.clear()
    assert_same(grown, sweep(small_plan(**changes)))
    simulated.clear()
    assert_same(sweep(small_plan(**changes), path), sweep(small_plan(**changes), path, extend=True))
    assert not simulated
    assert verify(path) == []
    with xr.open_zarr(path) as plain:
        xr.testing.assert_identical(plain["ipc"].load(), grown["ipc"].load())


def test_fractions_are_added_to_whole_numbers_that_vary_with_others(tmp_path):
    settings = {"gpu": "kepler", "warps": [4, 8], "scheduler": "lrr", "pattern": "stride", "zip": {"size": ["alpha", "stride"]}}
    path, larger = tmp_path / "out.zarr", small_plan(**settings, alpha=[1, 8, 2.5], stride=[2, 4, 8])
    sweep(small_plan(**settings, alpha=[1, 8], stride=[2, 4]), path)
    assert_same(sweep(larger, path, extend=True), sweep(larger))


def test_growing_step_by_step_and_half_done(tmp_path, simulated):
    path = tmp_path / "out.zarr"
    sweep(small_plan(tile_points=4), path, tiles=[0, 3])
    sweep(small_plan(replicates=3), path, extend=True, tiles=[1])
    sweep(small_plan(replicates=4, warps=[4, 8, 48, 16]), path, extend=True, tiles=[2, 3])
    last = small_plan(replicates=5, warps=[4, 8, 48, 16, 12], alpha=[1, 8, 2])
    grown = sweep(last, path, extend=True)
    assert set(simulated.values()) == {1}
    assert_same(grown, sweep(last))
    assert [line.split(" ", 1)[1] for line in open_store(path).attrs["history"].splitlines()] == [
        "sweep of 24 points, 2 replicates each",
        "extended: sweep of 24 points, 3 replicates each",
        "extended: sweep of 32 points, 4 replicates each",
        "extended: sweep of 60 points, 5 replicates each",
    ]


def test_a_store_of_the_first_version_goes_on_and_grows(tmp_path, simulated, monkeypatch):
    """It has no records of kept parts, and no inventory."""
    monkeypatch.setattr(create, "create_log", lambda group, grid: create_log(group, grid, DONE, FAILED))
    monkeypatch.setattr(create, "mark_inventory", lambda group: None)
    path = tmp_path / "out.zarr"
    sweep(small_plan(tile_points=6), path, tiles=[0])
    (path / INVENTORY).unlink()
    assert {*open_store(path).log.arrays} == {DONE, FAILED}
    sweep(small_plan(tile_points=6), path)
    assert verify(path) == []
    grown = sweep(small_plan(replicates=3), path, extend=True)
    assert set(simulated.values()) == {1} and verify(path) == []
    assert_same(grown, sweep(small_plan(replicates=3)))


def test_a_sharper_tolerance_goes_on_from_what_is_there(tmp_path, simulated):
    plan = {"gpu": "kepler", "kernel": "mix", "alpha": 0, "warps": [1, 8, 64], "sms": 1, "warmup": 0, "cycles": 3000}
    rules = [{"rtol": rtol, "least": 3, "most": most, "of": "bandwidth"} for rtol, most in ((0.1, 12), (0.04, 20))]
    path = tmp_path / "out.zarr"
    sweep(Plan(**plan, replicates=rules[0]), path)
    grown = sweep(Plan(**plan, replicates=rules[1]), path, extend=True)
    assert set(simulated.values()) == {1}
    assert_same(grown, sweep(Plan(**plan, replicates=rules[1])))
    with pytest.raises(StoreError, match=r"settings.replicates.rtol: 0.1 here, 0.04 in the store"):
        sweep(Plan(**plan, replicates=rules[0]), path, extend=True)


def test_a_chip_with_operation_classes_of_its_own(tmp_path, simulated):
    kepler = load_gpu("kepler")
    richer = kepler.model_copy(update={"name": "richer", "ops": {"fp64": kepler.ops["sfu"], **kepler.ops}})
    plans = [Plan(gpu=chips, kernel="mix", alpha=[1, 4], warps=8, **SHORT) for chips in ([kepler], [richer, kepler])]
    path = tmp_path / "out.zarr"
    sweep(plans[0], path)
    grown = sweep(plans[1], path, extend=True)
    assert set(simulated.values()) == {1}
    assert_same(grown, sweep(plans[1]))


def test_points_and_occupancies_in_words_grow(tmp_path):
    words = "multiples of schedulers up to the chip's limit"
    points = [{"gpu": "g80", "alpha": 1}, {"gpu": "kepler", "alpha": 2}, {"gpu": "g80", "alpha": 4}]
    small, large = (Plan(kernel="mix", points=points[:n], warps=words, **SHORT) for n in (1, 3))
    path = tmp_path / "out.zarr"
    sweep(small, path)
    assert_same(sweep(large, path, extend=True), sweep(large))


def test_a_part_of_a_plan_is_not_extended_unasked(tmp_path):
    path = tmp_path / "out.zarr"
    before = sweep(small_plan(), path).load()
    wanted = r"holds a part of this plan: 2 of 3 values of alpha; replicates 2 of 4; extend=True \(--extend\) adds"
    with pytest.raises(StoreError, match=wanted):
        sweep(small_plan(alpha=[1, 2, 8], replicates=4), path)
    xr.testing.assert_identical(sweep(small_plan(), path).load(), before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": [1, 2]}, r"settings.alpha: \[1, 2\] here, \[1, 8\] in the store"),
        ({"seed": [2016, 2017]}, "axes.seed: "),
        ({"seed": 7, "replicates": 4}, "settings.seed: 7 here, 2016 in the store"),
        ({"cycles": 500}, "settings.cycles: 500 here, 400 in the store"),
        ({"common": []}, "common: "),
    ],
)
def test_another_plan_is_refused_all_the_same(tmp_path, changes, message):
    path = tmp_path / "out.zarr"
    before = sweep(small_plan(), path).load()
    with pytest.raises(StoreError, match=f"(?s)holds another plan; it was not changed.*{message}"):
        sweep(small_plan(**changes), path, extend=True)
    xr.testing.assert_identical(sweep(small_plan(), path).load(), before)


@pytest.mark.parametrize(
    ("changes", "selection"),
    [
        ({"alpha": [8]}, ".sel({'alpha': [8]})"),
        ({"alpha": 8, "gpu": "kepler"}, ".sel({'gpu': 'kepler', 'alpha': 8})"),
        ({"warps": [48, 4], "replicates": 1}, ".sel({'warps': [48, 4]}).isel(replicate=slice(1))"),
        ({"replicates": 1}, ".isel(replicate=slice(1))"),
    ],
)
def test_a_store_that_holds_more_says_how_the_part_is_read(tmp_path, changes, selection):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    for extend in (False, True):
        with pytest.raises(StoreError, match="holds more than this plan; it was not changed") as refused:
            sweep(small_plan(**changes), path, extend=extend)
    *_, last = str(refused.value).splitlines()
    assert last == f"  to read this part: warpsim.open_results({str(path)!r}){selection}"
    part = eval(last.partition(": ")[2], {"warpsim": warpsim})
    assert_same(part, sweep(small_plan(**changes)))


@pytest.mark.parametrize(
    "changes", [{"alpha": [1, 2]}, {"alpha": 8, "cycles": 500}, {"scheduler": "oldest"}, {"replicates": 3, "alpha": 1}]
)
def test_a_plan_that_is_no_part_of_the_store_is_another(tmp_path, changes):
    sweep(small_plan(), tmp_path / "out.zarr")
    with pytest.raises(StoreError, match="holds another plan") as refused:
        sweep(small_plan(**changes), tmp_path / "out.zarr")
    assert "to read this part" not in str(refused.value)


def test_another_order_of_values_or_size_of_tiles_is_the_same_plan(tmp_path, simulated):
    path = tmp_path / "out.zarr"
    before = sweep(small_plan(), path).load()
    simulated.clear()
    again = sweep(small_plan(alpha=[8, 1], gpu=["kepler", "g80"], tile_points=3), path)
    assert not simulated
    xr.testing.assert_identical(again.load(), before)


@pytest.mark.parametrize("step", ["resize", "consolidate"])
def test_an_extension_that_is_interrupted_can_be_made_again(tmp_path, monkeypatch, simulated, step):
    path = tmp_path / "out.zarr"
    before = sweep(small_plan(), path).load()
    larger = small_plan(alpha=[1, 2, 8], replicates=3)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        target = "zarr.Array.resize" if step == "resize" else "zarr.consolidate_metadata"
        patch.setattr(target, interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep(larger, path, extend=True)
    if step == "resize":  # nothing has changed: the plan of before goes on
        xr.testing.assert_identical(sweep(small_plan(), path).drop_attrs().load(), before.drop_attrs())
    assert_same(sweep(larger, path, extend=True), sweep(larger))
    assert pending_tiles(open_store(path)) == []


def test_damage_of_added_replicates_is_found_and_repaired(tmp_path):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    whole = sweep(small_plan(replicates=3), path, extend=True).load()
    chunk = path / "ipc" / "c" / "0" / "0" / "0" / "0" / "1" / "0"
    chunk.write_bytes(b"\0" + chunk.read_bytes()[1:])
    damages = verify(path)
    assert [damage.tile for damage in damages] == [0]
    repair(path, damages)
    xr.testing.assert_identical(sweep(small_plan(replicates=3), path).load(), whole)


@pytest.mark.parametrize("damage", [lambda chunk: chunk.write_bytes(chunk.read_bytes()[:-9]), lambda chunk: chunk.unlink()])
def test_a_kept_part_that_is_damaged_is_simulated_again(tmp_path, damage):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    prepare_store(small_plan(replicates=3), path, extend=True)
    damage(path / "ipc" / "c" / "0" / "0" / "0" / "0" / "0" / "0")
    assert_same(sweep(small_plan(replicates=3), path), sweep(small_plan(replicates=3)))


def test_a_store_in_an_object_store_grows(simulated):
    path = "memory://grows/out.zarr"
    sweep(small_plan(), path)
    grown = sweep(small_plan(alpha=[1, 4, 8], replicates=3), path, extend=True)
    assert set(simulated.values()) == {1}
    assert_same(grown, sweep(small_plan(alpha=[1, 4, 8], replicates=3)))


def test_two_machines_write_the_same_bytes(tmp_path):
    """Tiles and what is stored of them depend on the plan alone; only the records say who did it and when."""
    contents = []
    for name in ("here", "there"):
        path = tmp_path / f"{name}.zarr"
        sweep(small_plan(), path, tiles=list(small_plan().tiles())[:: 1 if name == "here" else -1], workers=1 + (name == "there"))
        files = {file.relative_to(path): file.read_bytes() for file in path.rglob("c/**/*") if file.is_file()}
        contents.append({key: value for key, value in files.items() if key.parts[0] != "tiles"})
    assert len(contents[0]) > 20
    assert contents[0] == contents[1]


@pytest.mark.parametrize("damage", [lambda chunk: chunk.write_bytes(chunk.read_bytes()[:-9]), lambda chunk: chunk.unlink()])
@pytest.mark.parametrize("name", ["ipc", "valid"])
def test_damage_of_a_kept_part_is_found_and_repaired(tmp_path, name, damage):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    prepare_store(small_plan(replicates=3), path, extend=True)
    assert verify(path) == []
    open_results(path).load()
    chunk = next(file for file in sorted((path / name / "c" / "0").rglob("*")) if file.is_file())
    damage(chunk)
    assert [(found.tile, found.file) for found in verify(path)] == [(0, str(chunk.relative_to(path)))]
    with pytest.raises(StoreError, match=str(chunk.relative_to(path))):
        open_results(path)[name].load()
    repair(path, verify(path))
    assert verify(path) == []
    assert_same(sweep(small_plan(replicates=3), path), sweep(small_plan(replicates=3)))


def chunk_of(path, name, tile):
    """The first chunk of a variable of a tile along the first axis."""
    return next(file for file in sorted((path / name / "c" / str(tile)).rglob("*")) if file.is_file())


@pytest.mark.parametrize("extended", [False, True])
def test_a_chunk_of_another_tile_is_not_taken_over(tmp_path, extended):
    """Each chunk has a checksum of its own, which is right: only the record of the tile tells that it holds other values."""
    path, larger = tmp_path / "out.zarr", small_plan(replicates=3)
    sweep(small_plan(), path)
    if extended:
        prepare_store(larger, path, extend=True)
    chunk_of(path, "ipc", 0).write_bytes(chunk_of(path, "ipc", 1).read_bytes())
    kind = "kept" if extended else "done"
    assert [(found.tile, found.file) for found in verify(path)] == [(0, f"tiles/{kind}/c.0.0.0.0")]
    assert_same(sweep(larger, path, extend=True), sweep(larger))
    assert verify(path) == []


def test_a_chunk_of_another_tile_in_a_kept_part_is_repaired(tmp_path):
    path, larger = tmp_path / "out.zarr", small_plan(replicates=3)
    sweep(small_plan(), path)
    prepare_store(larger, path, extend=True)
    chunk_of(path, "ipc", 0).write_bytes(chunk_of(path, "ipc", 1).read_bytes())
    repair(path, verify(path))
    assert verify(path) == []
    assert_same(sweep(larger, path), sweep(larger))


def test_a_whole_tile_of_another_store_in_a_kept_part_is_not_taken_over(tmp_path):
    path, other, larger = tmp_path / "out.zarr", tmp_path / "other.zarr", small_plan(replicates=3)
    sweep(small_plan(), path)
    sweep(small_plan(cycles=300), other)
    prepare_store(larger, path, extend=True)
    prepare_store(small_plan(cycles=300, replicates=3), other, extend=True)
    for name in ("ipc", "tiles/kept"):
        shutil.copytree(other / name, path / name, dirs_exist_ok=True)
    assert {found.reason.partition(":")[0] for found in verify(path)} == {"is the record of other points"}
    assert_same(sweep(larger, path), sweep(larger))
    assert verify(path) == []


def test_a_lost_record_of_a_kept_part_is_found_and_repaired(tmp_path):
    path, larger = tmp_path / "out.zarr", small_plan(replicates=3)
    sweep(small_plan(), path)
    prepare_store(larger, path, extend=True)
    (path / "tiles/kept/c.0.0.0.0").unlink()
    chunk_of(path, "ipc", 0).unlink()
    assert [(found.tile, found.file, found.reason) for found in verify(path)] == [(0, "tiles/kept/c.0.0.0.0", "is missing")]
    repair(path, verify(path))
    assert verify(path) == []
    assert_same(sweep(larger, path), sweep(larger))


@pytest.mark.parametrize("kind", ["kept", "failed"])
def test_a_record_of_another_kind_is_none(tmp_path, kind):
    path, larger = tmp_path / "out.zarr", small_plan(replicates=3)
    sweep(small_plan(), path)
    prepare_store(larger, path, extend=True)
    sweep(larger, path, tiles=[0])
    if kind == "failed":
        mark_failed(open_store(path), 1, "a reason")
    (path / "tiles/done/c.0.0.0.0").write_bytes(next((path / f"tiles/{kind}").glob("c.*")).read_bytes())
    assert [(found.tile, found.file) for found in verify(path)] == [(0, "tiles/done/c.0.0.0.0")]


def test_chunks_that_are_read_at_once_wait_for_the_record_of_their_tile(tmp_path, monkeypatch):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    prepare_store(small_plan(replicates=3), path, extend=True)
    kept_sizes = TileLog.kept_sizes

    def slow(log, tiles):
        time.sleep(0.1)
        return kept_sizes(log, tiles)

    monkeypatch.setattr(TileLog, "kept_sizes", slow)
    chunks = [file for file in (path / "ipc" / "c" / "0").rglob("*") if file.is_file()]
    assert len(chunks) < np.prod(open_results(path)["ipc"].shape)  # others of the tile are not there yet
    open_results(path)["ipc"].load()
    chunks[0].unlink()
    with pytest.raises(StoreError, match=str(chunks[0].relative_to(path))):
        open_results(path)["ipc"].load()


def test_a_tile_that_is_done_stays_whole_if_another_record_of_it_cannot_be_written(tmp_path, monkeypatch):
    path, write = tmp_path / "out.zarr", TileLog.write
    written = []

    def lost_answer(log, *given, **options):
        write(log, *given, **options)
        written.append(options["checksums"])
        raise OSError(110, "Connection timed out")

    with monkeypatch.context() as patch:
        patch.setattr(TileLog, "write", lost_answer)
        with pytest.raises(OSError, match="timed out"):
            sweep(small_plan(), path, tiles=[0])
    assert len(written) == 1
    assert verify(path) == []
    assert_same(sweep(small_plan(), path), sweep(small_plan()))


def test_a_kept_part_stays_whole_if_the_record_of_its_tile_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    prepare_store(small_plan(replicates=3), path, extend=True)

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(TileLog, "write", full_disk)
        with pytest.raises(OSError, match="No space left"):
            sweep(small_plan(replicates=3), path, tiles=[0])
    assert verify(path) == []


def test_tiles_of_another_plan_beside_an_old_copy_are_not_taken_for_done(tmp_path):
    """A copy of the store from before an extension, copied back over it, leaves the tiles of the extension there."""
    path, copy = tmp_path / "out.zarr", tmp_path / "copy.zarr"
    small, large, other = (small_plan(gpu="kepler", alpha=alpha, warps=[4, 8], tile_points=2) for alpha in ([1], [1, 8], [1, 16]))
    sweep(small, path)
    shutil.copytree(path, copy)
    sweep(large, path, extend=True)
    shutil.copytree(copy, path, dirs_exist_ok=True)
    prepare_store(other, path, extend=True)
    assert open_results(path)["ipc"].sel(alpha=16).isnull().all() and not open_results(path)["valid"].sel(alpha=16).any()
    assert_same(sweep(other, path), sweep(other))
    assert verify(path) == []
