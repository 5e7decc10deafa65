"""The store: reads back what was written, changes nothing else, and can be opened by xarray alone."""

import json
import socket
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.storage import LocalStore

from tests.support.small_plans import small_plan, tile_dataset, write_dataset
from warpsim.results import schema
from warpsim.store.create import create_store
from warpsim.store.place import StoreError
from warpsim.store.status import Status, forget, tile_counts, tile_records, tile_status
from warpsim.store.writing import mark_failed
from warpsim.store.zarr_store import open_results, open_store, pending_tiles
from warpsim.sweeps.local import sweep

PLAN = small_plan(warps=None, warps_per_scheduler=[1, 2, 12])


@pytest.fixture(scope="module")
def tiles():
    return [tile_dataset(PLAN, index) for index in PLAN.tiles()]


@pytest.fixture
def store(tmp_path):
    return create_store(tmp_path / "out.zarr", PLAN.layout())


def test_a_new_store_is_complete_but_for_the_results(store):
    results = open_results(store.path)
    assert results.attrs["provenance"] == PLAN.attributes()["provenance"]
    assert results["alpha"].values.tolist() == [1, 8]
    np.testing.assert_array_equal(results["warps"], [[1, 2, 12], [4, 8, 48]])
    assert not results["valid"].any()
    assert results["ipc"].isnull().all()
    assert pending_tiles(store) == list(PLAN.tiles())


def test_what_is_written_is_read(store, tiles):
    for index, results in enumerate(tiles):
        write_dataset(store, index, results, seconds=1.5)
    assert pending_tiles(store) == []
    opened = open_results(store.path)
    assert list(opened.data_vars) == [declared.name for declared in schema.SWEEP_VARIABLES]
    for index, results in enumerate(tiles):
        part = opened.isel(PLAN.grid.region(index))
        for declared in schema.SWEEP_VARIABLES:
            found = part[declared.name]
            np.testing.assert_array_equal(found, results[declared.name])
            assert found.attrs == declared.attrs
            assert found.dtype == declared.dtype


def test_opening_reads_no_results(store, tiles):
    write_dataset(store, 0, tiles[0])
    assert not open_results(store.path)["ipc"].variable._in_memory


def test_one_tile_leaves_the_others_alone(store, tiles):
    write_dataset(store, 1, tiles[1])
    before = {file: file.read_bytes() for file in store.path.rglob("*") if file.is_file()}
    write_dataset(store, 2, tiles[2])
    assert all(file.read_bytes() == data for file, data in before.items())
    np.testing.assert_array_equal(tile_status(store.log)[:3], [Status.PENDING, Status.DONE, Status.DONE])


def test_every_tile_is_one_chunk_of_every_variable(store):
    for declared in schema.SWEEP_VARIABLES:
        array = zarr.open_array(store.path / declared.name, mode="r")
        assert array.chunks[: len(PLAN.grid.shape)] == PLAN.grid.shape
        assert array.chunks[len(PLAN.grid.shape) :] == array.shape[len(PLAN.grid.shape) :]
    for name in ("done", "failed"):
        log = zarr.open_array(store.path / "tiles" / name, mode="r")
        assert (log.shape, log.chunks) == (PLAN.grid.counts, (1,) * len(PLAN.grid.counts))


def test_status_is_written_last(store, tiles, monkeypatch):
    written = []
    real = LocalStore.set

    async def record(folder, key, value):
        await real(folder, key, value)
        written.append(key.partition("/c")[0])

    monkeypatch.setattr(LocalStore, "set", record)
    write_dataset(store, 0, tiles[0])
    assert written[-2:] == ["valid", "tiles/done"]
    assert sorted(written[:-1]) == sorted(declared.name for declared in schema.SWEEP_VARIABLES)


def test_an_interrupted_write_leaves_the_tile_pending(store, tiles, monkeypatch):
    real = LocalStore.set

    async def full_disk(folder, key, value):
        if key.startswith("occupancy/"):
            raise OSError("No space left on device")
        await real(folder, key, value)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "set", full_disk)
        with pytest.raises(OSError, match="No space left"):
            write_dataset(store, 0, tiles[0])
    assert 0 in pending_tiles(store)
    write_dataset(store, 0, tiles[0])
    np.testing.assert_array_equal(
        open_results(store.path).isel(PLAN.grid.region(0))["occupancy"], tiles[0]["occupancy"]
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tile: tile.drop_vars("ipc"), "arrays: must hold the variables"),
        (
            lambda tile: tile.assign(ipc=tile["ipc"].astype("float32")),
            r"arrays\['ipc'\].dtype = float32: must be",
        ),
        (lambda tile: tile.transpose("replicate", ...), r"arrays\['cycles'\].shape = .*: must be"),
        (lambda tile: tile.isel(alpha=slice(0, 0)), r"arrays\['cycles'\].shape = .*: must be"),
        (
            lambda tile: tile.assign_coords(scheduler=["gto", "lrr"]),
            r"coordinates\['scheduler'\] = \['gto', 'lrr'\]: must be",
        ),
        (lambda tile: tile.drop_vars("op"), r"coordinates\['op'\] = None: must be"),
        (lambda tile: tile.isel(replicate=[1, 0]), r"coordinates\['replicate'\] = \[1, 0\]: must be \[0, 1\]"),
    ],
)
def test_a_tile_that_does_not_fit_is_refused_before_anything_is_written(store, tiles, spoil, message):
    before = sorted(store.path.rglob("*"))
    with pytest.raises(ValueError, match=message):
        write_dataset(store, 0, spoil(tiles[0]))
    assert sorted(store.path.rglob("*")) == before


def test_the_tile_of_another_place_is_refused(store, tiles):
    with pytest.raises(
        ValueError, match=r"coordinates\['gpu'\] = \['g80'\]: must be \['kepler'\]|coordinates\['alpha'\]"
    ):
        write_dataset(store, len(tiles) - 1, tiles[0])


def test_tiles_are_counted_by_state(store, tiles):
    write_dataset(store, 0, tiles[0], seconds=2.0)
    write_dataset(store, 1, tiles[1], seconds=4.0)
    mark_failed(store, 2, "gpu=kepler: a bug", seconds=1.0)
    counts = tile_counts(store.log)
    assert (counts.done, counts.pending, dict(counts.failures)) == (
        2,
        len(tiles) - 3,
        {2: "gpu=kepler: a bug"},
    )
    assert counts.seconds == 3.0
    assert counts.seconds_left == 3.0 * (len(tiles) - 2)
    assert 2 in pending_tiles(store)
    records = tile_records(store.log)
    assert records["done"][0]["host"] == counts.hosts[0] == socket.gethostname()
    assert datetime.fromisoformat(records["failed"][2]["finished"]) <= datetime.now(UTC)
    text = json.loads(zarr.open_array(store.path / "tiles/done", mode="r")[...].flat[1])
    assert text.pop("crc32") and text == records["done"][1]


def test_a_tile_that_failed_and_was_done_later_is_done(store, tiles):
    mark_failed(store, 0, "why")
    write_dataset(store, 0, tiles[0])
    assert tile_counts(store.log).done == 1 and not tile_counts(store.log).failures
    forget(store.log, [0])
    assert 0 in pending_tiles(store)


def test_other_files_among_the_records_are_no_records(store, tiles):
    write_dataset(store, 0, tiles[0])
    for name in ("c.0.0.0.0.8f3a.partial", "c.0", "c.x.0.0.0"):  # as a write that was killed leaves behind
        (store.path / "tiles/done" / name).write_text("")
    assert store.log.tiles("done") == [0]


def test_a_plan_of_one_point(tmp_path):
    plan = small_plan(gpu="kepler", alpha=1, warps=4, scheduler="lrr")
    store = create_store(tmp_path / "out.zarr", plan.layout())
    assert pending_tiles(store) == [0]
    write_dataset(store, 0, tile_dataset(plan, 0), 1.0)
    assert pending_tiles(store) == []
    assert tile_counts(store.log).seconds == 1.0
    assert xr.open_zarr(store.path, chunks=None)["valid"].item()


@pytest.mark.parametrize("options", ["", ", consolidated=False", ", chunks=None"])
def test_xarray_alone_opens_the_store(store, tiles, options):
    for index, results in enumerate(tiles):
        write_dataset(store, index, results)
    code = (
        "import sys, xarray as xr\n"
        f"ds = xr.open_zarr({str(store.path)!r}{options})\n"
        "assert not any(name.startswith('warpsim') for name in sys.modules)\n"
        "kepler = ds.sel(gpu='kepler', scheduler='gto', alpha=8)\n"
        "print(float(kepler.ipc.sel(op='alu', warps_per_scheduler=2).mean()), ds.ipc.attrs['units'])"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=store.path, check=True)
    ipc, unit = done.stdout.split()
    expected = open_results(store.path).sel(
        gpu="kepler", scheduler="gto", alpha=8, op="alu", warps_per_scheduler=2
    )
    assert float(ipc) == pytest.approx(float(expected["ipc"].mean()))
    assert unit == "instructions/cycle/SM"


def test_nothing_at_the_path(tmp_path):
    with pytest.raises(StoreError, match="no such store"):
        open_results(tmp_path / "none.zarr")


def test_other_things_are_left_as_they_are(tmp_path):
    file, folder, other = tmp_path / "notes.txt", tmp_path / "folder", tmp_path / "other.zarr"
    file.write_text("mine")
    folder.mkdir()
    (folder / "precious").write_text("mine")
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(other, consolidated=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path in (file, folder, other):
        with pytest.raises(StoreError, match="not a warpsim store; it was not changed"):
            create_store(path, PLAN.layout())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("change", "advice"), [(1, "Use a newer version"), (-1, "Open it with that version")])
def test_another_schema_version_is_said(store, change, advice):
    zarr.open_group(store.path, mode="r+").attrs["warpsim_schema"] = schema.SCHEMA_VERSION + change
    with pytest.raises(
        StoreError, match=f"schema version {schema.SCHEMA_VERSION + change}, written by warpsim .* reads and writes .* {advice}"
    ):
        open_store(store.path)


def test_a_store_appears_complete_or_not_at_all(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(zarr.Group, "create_array", fail)
        with pytest.raises(OSError, match=r"No space left on device; no store was created: .*out\.zarr"):
            create_store(tmp_path / "out.zarr", PLAN.layout())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "", "tiles", "zarr.json", "x" * 300, "a\0b"])
def test_an_axis_that_is_no_name_of_a_folder_is_refused(tmp_path, name):
    """The labels of a/b were missing in the store; the others ended in errors of the libraries."""
    plan = small_plan(zip={name: ["alpha", "warps"]}, warps=[4, 8])
    with pytest.raises(StoreError, match=r"out\.zarr: no store can have the axis '.*': its name must .*; nothing was created$"):
        create_store(tmp_path / "out.zarr", plan.layout())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["größe", "a b", "_x", "0"])
def test_other_names_are_axes(tmp_path, name):
    plan = small_plan(zip={name: ["alpha", "warps"]}, warps=[4, 8])
    create_store(tmp_path / "out.zarr", plan.layout())
    assert open_results(tmp_path / "out.zarr").sizes[name] == 2


def test_of_two_that_make_a_store_at_once_the_first_makes_it(store, tiles):
    write_dataset(store, 0, tiles[0])
    again = create_store(store.path, PLAN.layout())
    assert 0 not in pending_tiles(again)
    assert [path.name for path in store.path.parent.iterdir()] == ["out.zarr"]


def test_results_stay_readable_after_a_change_of_the_working_folder(tmp_path, monkeypatch):
    """All chunks were read as NaN."""
    monkeypatch.chdir(tmp_path)
    swept, opened = sweep(small_plan(warps=[4, 8]), "out.zarr"), open_results("out.zarr")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    assert swept["valid"].all() and opened["valid"].all() and float(opened["ipc"].min()) >= 0


def test_results_of_a_store_that_was_moved_are_an_error(tmp_path):
    path = tmp_path / "out.zarr"
    results = sweep(small_plan(), path)
    path.rename(tmp_path / "moved.zarr")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"out\.zarr: the store is no longer there; open it where it is now"):
            results["ipc"].load()
    assert open_results(tmp_path / "moved.zarr")["valid"].any()
