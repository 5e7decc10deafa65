"""A truncated, changed or missing chunk is found, and only its tile is run again, with the same bytes."""

import shutil

import pytest

from tests.support.small_plans import small_plan, small_plan_beyond_the_chip
from warpsim import cli
from warpsim.store.place import StoreError
from warpsim.store.status import tile_counts, tile_records
from warpsim.store.zarr_store import open_store
from warpsim.sweeps.local import sweep
from warpsim.sweeps.repair import repair, verify


@pytest.fixture
def path(store, tmp_path):
    return shutil.copytree(store, tmp_path / "out.zarr")


def data(path):
    """Every file of a store but the records of its tiles."""
    files = {file.relative_to(path): file for file in path.rglob("*") if file.is_file()}
    return {str(name): file.read_bytes() for name, file in files.items() if name.parts[0] != "tiles"}


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-7]),
    "empty": lambda file: file.write_bytes(b""),
    "flipped": lambda file: file.write_bytes(flipped(file.read_bytes())),
    "gone": lambda file: file.unlink(),
}


def test_a_whole_store_is_whole(path):
    assert verify(path) == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("variable", ["ipc", "valid"])
def test_damage_is_found_and_repaired(store, path, variable, damage):
    chunk = sorted(file for file in (path / variable / "c").rglob("*") if file.is_file())[3]
    DAMAGES[damage](chunk)
    before = tile_records(open_store(path).log)["done"]
    (found,) = verify(path)
    assert found.file == str(chunk.relative_to(path))
    repair(path, [found])
    assert verify(path) == []
    assert data(path) == data(store)
    after = tile_records(open_store(path).log)["done"]
    assert [tile for tile in after if after[tile] != before[tile]] == [found.tile]


def test_a_record_that_cannot_be_read_is_damage(path):
    (path / open_store(path).log.key("done", 2)).write_bytes(b"\1\0\0\0")
    (found,) = verify(path)
    assert (found.tile, found.file) == (2, open_store(path).log.key("done", 2))
    repair(path, [found])
    assert verify(path) == []


def test_tiles_that_are_not_done_are_no_damage_and_are_not_run(path):
    log = open_store(path).log
    log.remove("done", 1)
    for name in ("ipc", "valid"):
        shutil.rmtree(path / name / "c/0/1")  # of tile 1, which is not done
    shutil.rmtree(path / "ipc/c/0/0")  # of tile 0
    repair(path, verify(path))
    assert tile_counts(log).pending == 1


def test_an_all_nan_tile_is_stored_and_its_loss_is_found(tmp_path):
    path = tmp_path / "out.zarr"
    sweep(small_plan_beyond_the_chip(gpu="g80", alpha=[1], warps=[48], scheduler=["lrr"]), path)
    assert verify(path) == []
    (path / "ipc/c/0/0/0/0/0").unlink()
    assert [damage.reason for damage in verify(path)] == ["is missing"]


def test_a_store_of_another_program_is_not_repaired(path, monkeypatch):
    monkeypatch.setattr("warpsim.__version__", "0.0.9")
    (path / open_store(path).log.key("done", 2)).write_bytes(b"")
    before = data(path)
    with pytest.raises(StoreError, match=r"warpsim: 0\.0\.9 here"):
        repair(path, verify(path))
    assert data(path) == before
    assert tile_counts(open_store(path).log).done == len(small_plan().tiles())


def test_damaged_tiles_of_a_kernel_that_the_store_does_not_hold_are_left_to_a_sweep(tmp_path):
    """Only the plan names the file; a sweep took the damaged tiles for done."""
    file, path = tmp_path / "mine.toml", tmp_path / "out.zarr"
    file.write_text('builder = "mix"\narguments = {ways = 1}\n')
    plan = small_plan(gpu="kepler", kernel=str(file), warps=[4, 8], tile_points=2)
    sweep(plan, path)
    before = data(path)
    (path / "ipc/c/0/0/0/0/0").write_bytes(b"")
    with pytest.raises(StoreError, match=r"out\.zarr: .* 'mine' came from a file .*; its damaged tiles are pending now"):
        repair(path, verify(path))
    assert tile_counts(open_store(path).log).pending == 1
    sweep(plan, path)
    assert verify(path) == [] and data(path) == before


def test_the_command(path, store, capsys):
    assert cli.main(["verify", str(path)]) == 0
    assert capsys.readouterr().out == "no damaged files\n"
    chunk = next(file for file in sorted((path / "cycles/c").rglob("*")) if file.is_file())
    chunk.write_bytes(b"")
    assert cli.main(["verify", str(path)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith(f"{path}: tile 0: {chunk.relative_to(path)}: ValueError: Stored and computed checksum do not")
    assert shown[1] == "1 damaged file"
    assert cli.main(["verify", str(path), "--repair", "--workers", "1"]) == 0
    assert data(path) == data(store)
    assert cli.main(["verify", "none.zarr"]) == 2
    assert "none.zarr: no such store" in capsys.readouterr().err
