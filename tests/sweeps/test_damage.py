"""Any flipped bit, and any deleted or truncated file of a store is found by `verify`, named, and restored by `repair`."""

import json
import random
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
import xarray as xr

from tests.support.small_plans import small_plan
from tests.support.stores import stored_data
from warpsim import cli
from warpsim.store import verify as verifying
from warpsim.store import zarr_store
from warpsim.store.lease import writing_tiles
from warpsim.store.place import StoreError, place_of
from warpsim.store.status import INVENTORY
from warpsim.store.zarr_store import open_results, open_store
from warpsim.sweeps.local import sweep
from warpsim.sweeps.opening import prepare_store
from warpsim.sweeps.repair import repair, verify

PLAN = {"gpu": "kepler", "alpha": [1, 8], "warps": [4, 8], "scheduler": "lrr", "tile_points": 2}
PLAN_TOML = """\
gpu = "kepler"
kernel = "mix"
alpha = [1, 8]
warps = [4, 8]
scheduler = "lrr"
tile_points = 2
replicates = 2
sms = 1
warmup = 0
cycles = 400
"""


def plan():
    return small_plan(**PLAN)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store of a few tiles that has been extended, with a tile that failed once."""
    path = tmp_path_factory.mktemp("whole") / "out.zarr"
    sweep(small_plan(**{**PLAN, "alpha": [1], "replicates": 1}), path)
    sweep(plan(), path, extend=True)
    open_store(path).log.write("failed", 0, 1.0, "a bug that is mended")
    assert verify(path) == []
    return path


@pytest.fixture
def path(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "out.zarr")


def files(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def flip(file, rng):
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def truncate(file, rng):
    file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])


def delete(file, rng):
    file.unlink()


def misdirect(file, rng):
    file.unlink()
    file.symlink_to(file.parent / "nowhere" / "else")


DAMAGES = (flip, truncate, delete)


def check(path, name, damage, rng):
    """Damages a file, which must be found and named, and writes the old content again."""
    file, seen = path / name, f"{damage.__name__} {name}"
    content = file.read_bytes()
    damage(file, rng)
    found = verify(path)
    if name.startswith("tiles/failed/c") and damage in (delete, misdirect):
        assert found == []  # the tile is done meanwhile, and nothing depends on this record
    else:
        assert name in [wrong.file for wrong in found], seen
        assert all(str(path) in str(wrong) and wrong.file in str(wrong) for wrong in found), seen
    file.unlink(missing_ok=True)
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [*DAMAGES, misdirect])
def test_every_file(path, damage):
    rng = random.Random(damage.__name__)
    names = files(path)
    assert {"zarr.json", "seed/c", "warmup/c", "warps/c/0", "warps/zarr.json", "tiles/done/c.1.0", INVENTORY} <= {*names}
    for name in names:
        check(path, name, damage, rng)
    assert verify(path) == []


@pytest.mark.verify
def test_many_flipped_bits(path):
    """10,000 random bits, of which half are in the metadata and labels; the other half costs a reading of all tiles."""
    rng = random.Random(2016)
    names = files(path)
    weights = [(path / name).stat().st_size for name in names]
    for name in [*rng.choices(names, weights, k=5000), *rng.choices(names, k=5000)]:
        check(path, name, flip, rng)


SHARED = ["zarr.json", "seed/c", "gpu/c", "warps/c/0", "warps/zarr.json", "ipc/zarr.json", "tiles/done/zarr.json", INVENTORY]


@pytest.mark.parametrize("how", ["repair", "resume"])
@pytest.mark.parametrize("damage", [flip, delete])
def test_metadata_and_labels_are_restored(whole, path, damage, how):
    rng = random.Random(7)
    for name in SHARED:
        damage(path / name, rng)
        if how == "repair":
            repair(path, verify(path))
        else:
            sweep(plan(), path)
        assert verify(path) == []
        assert stored_data(path) == stored_data(whole), name
        assert (path / "zarr.json").read_bytes() == (whole / "zarr.json").read_bytes(), name


@pytest.mark.parametrize("damage", [flip, delete])
def test_labels_are_restored_from_the_plan(path, damage):
    """The inventory is damaged as well, so that there is no copy of the labels."""
    before = open_results(path).load()
    for name in ("warps/c/0", "alpha/c/0", "seed/c"):
        damage(path / INVENTORY, random.Random(1))
        (path / name).unlink()
        repair(path, verify(path))
        assert verify(path) == []
    xr.testing.assert_identical(open_results(path).load(), before)


@pytest.mark.parametrize("lost", [lambda file: file.unlink(), lambda file: file.write_bytes(b"?")])
def test_metadata_that_cannot_be_read_do_not_enter_a_new_inventory(whole, path, lost):
    names = ("cycles/zarr.json", "tiles/zarr.json", "tiles/done/zarr.json")
    for name in names:
        (path / name).write_bytes((path / name).read_bytes()[:300 if name == "cycles/zarr.json" else 40])
    lost(path / INVENTORY)
    repair(path, verify(path))
    assert verify(path) == []
    assert all((path / name).read_bytes() == (whole / name).read_bytes() for name in names)


def test_metadata_that_differ_from_their_copy_do_not_enter_a_new_inventory(path):
    (path / INVENTORY).unlink()
    file = path / "cycles/zarr.json"
    file.write_text(file.read_text().replace("float64", "float32"))
    with pytest.raises(StoreError, match=r"out\.zarr: the inventory is damaged, and the file cycles/zarr\.json differs"):
        repair(path, verify(path))


def test_without_inventory_and_root_nothing_can_be_restored(path):
    (path / INVENTORY).unlink()
    (path / "zarr.json").write_bytes(b"{}")
    assert [wrong.file for wrong in verify(path)] == [INVENTORY]
    for attempt in (lambda: repair(path, verify(path)), lambda: sweep(plan(), path)):
        with pytest.raises(StoreError, match=r"out\.zarr: the inventory and the root are damaged"):
            attempt()


@pytest.mark.parametrize("command", [["status"], ["plot", "-o", "x.png"], ["report", "-o", "x.html"], ["verify"]])
def test_every_command_names_file_and_store(path, command, capsys, monkeypatch):
    monkeypatch.chdir(path.parent)
    (path / "warps/c/0").unlink()
    assert cli.main([command[0], str(path), *command[1:]]) == (1 if command == ["verify"] else 2)
    shown = capsys.readouterr()
    text = shown.out if command == ["verify"] else shown.err
    assert str(path) in text and "warps/c/0" in text and "is missing" in text
    assert cli.main(["verify", str(path), "--repair", "--workers", "1"]) == 0
    assert cli.main(["verify", str(path)]) == 0


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", [["plot", "--hue", "alpha", "--no-models", "-o", "x.png"], ["report", "-o", "x.html"]])
def test_a_chunk_that_cannot_be_read_is_named(path, command, damage, capsys, monkeypatch):
    monkeypatch.chdir(path.parent)
    (chunk,) = [name for name in files(path) if name.startswith("peak_fraction/c/0")][:1]
    damage(path / chunk, random.Random(2))
    assert cli.main([command[0], str(path), *command[1:]]) == 2
    what = "is missing" if damage is delete else "is damaged"
    assert capsys.readouterr().err.endswith(
        f"warpsim: {path}: the file {chunk} {what}; `warpsim verify {path} --repair` restores it\n"
    )
    with pytest.raises(StoreError, match=chunk):
        open_results(path)["peak_fraction"].load()


@pytest.mark.parametrize("name", ["peak_fraction", "warp_iterations"])
def test_a_sweep_whose_tiles_are_done_names_a_damaged_chunk(path, name, tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PLAN_TOML)
    again = ["sweep", str(tmp_path / "plan.toml"), str(path)]
    (chunk,) = [file for file in files(path) if file.startswith(f"{name}/c/0")][:1]
    flip(path / chunk, random.Random(2))
    assert cli.main(again) == 2
    assert f"warpsim: {path}: the file {chunk} is damaged; `warpsim verify {path} --repair`" in capsys.readouterr().err
    assert cli.main(["verify", str(path), "--repair", "--workers", "1"]) == 0
    assert cli.main(again) == 0


def test_a_chunk_of_another_size_is_named(path):
    """Its own checksum is right."""
    (chunk,) = [file for file in files(path) if file.startswith("peak_fraction/c/0")][:1]
    shutil.copyfile(path / chunk.replace("peak_fraction", "warp_cycles") / "0", path / chunk)
    with pytest.raises(StoreError, match=f"the file {chunk} is damaged"):
        open_results(path)["peak_fraction"].load()


def test_a_folder_in_the_place_of_a_chunk_is_named(path):
    chunk = path / "ipc/c/0/0/0/0"
    chunk.unlink()
    chunk.mkdir()
    (found,) = verify(path)
    assert found.file == "ipc/c/0/0/0/0"
    with pytest.raises(OSError, match=f"resumes the sweep: '{chunk}'"):
        repair(path, [found])
    chunk.rmdir()
    sweep(plan(), path)
    assert verify(path) == []


def test_a_missing_chunk_of_a_tile_that_is_not_done_is_no_damage(path):
    open_store(path).log.remove("done", 1)
    shutil.rmtree(path / "ipc/c/1")
    found = open_results(path)["ipc"].load()
    assert found.isnull().any() and found.notnull().any()


@pytest.mark.parametrize("other", ["bandwidth/c/0", "memory_latency/c/1"])
def test_a_chunk_of_another_tile_or_variable_is_found(path, other):
    """Its own checksum is right."""
    before = stored_data(path)
    for file in files(path / "bandwidth/c/1"):
        shutil.copyfile(path / other / file, path / "bandwidth/c/1" / file)
    (found,) = verify(path)
    assert found.tile == 1 and "is the record of other values" in found.reason
    repair(path, [found])
    assert verify(path) == [] and stored_data(path) == before


@pytest.mark.parametrize("changes", [{"cycles": 300}, {}], ids=["another store", "another tile"])
def test_a_whole_tile_in_the_place_of_another_is_found(path, tmp_path, changes):
    """All its chunks and its record fit together: only its points are others."""
    before, source, tile = stored_data(path), tmp_path / "source.zarr", 1 if changes else 0
    sweep(small_plan(**{**PLAN, **changes}), source)
    for chunk in [file for file in files(source) if f"/c/{tile}/" in file]:
        shutil.copyfile(source / chunk, path / chunk.replace(f"/c/{tile}/", "/c/1/", 1))
    shutil.copyfile(source / f"tiles/done/c.{tile}.0", path / "tiles/done/c.1.0")
    (found,) = verify(path)
    assert (found.tile, found.file) == (1, "tiles/done/c.1.0") and "is the record of other points" in found.reason
    repair(path, [found])
    assert verify(path) == [] and stored_data(path) == before


def test_tiles_of_stores_of_the_same_plan_may_be_merged(tmp_path):
    first, second = tmp_path / "first.zarr", tmp_path / "second.zarr"
    sweep(plan(), first, share=(1, 2))
    sweep(plan(), second, share=(2, 2))
    shutil.copytree(second, first, dirs_exist_ok=True)
    assert verify(first) == [] and open_results(first)["valid"].all()


def test_a_tile_that_becomes_pending_while_it_is_verified_is_no_damage(path, monkeypatch):
    """An extension in another process, which holds a lease, has removed its record."""
    first_damage = verifying._first_damage

    def pending_meanwhile(store, index):
        open_store(path).log.remove("done", index)
        return first_damage(store, index)

    monkeypatch.setattr(verifying, "_first_damage", pending_meanwhile)
    with writing_tiles(place_of(path)):
        assert verify(path) == []


@pytest.mark.parametrize("ended", [True, False])
def test_a_tile_that_a_sweep_writes_while_it_is_verified_has_lost_no_record(path, monkeypatch, ended):
    record = path / "tiles/done/c.1.0"
    content, lost_record = record.read_bytes(), verifying._lost_record
    record.unlink()
    assert [str(damage.file) for damage in verify(path)] == ["tiles/done/c.1.0"]

    with ExitStack() as stack:

        def written_meanwhile(store, index):
            found = lost_record(store, index)
            if ended:
                record.write_bytes(content)
            else:
                stack.enter_context(writing_tiles(place_of(path)))
            return found

        monkeypatch.setattr(verifying, "_lost_record", written_meanwhile)
        assert verify(path) == []


def test_a_store_that_is_extended_while_it_is_opened_is_opened_as_it_is_then(path, monkeypatch):
    def extended_meanwhile(*args, **options):
        monkeypatch.setattr(zarr_store, "open_store", open_store)
        store = open_store(*args, **options)
        prepare_store(small_plan(**{**PLAN, "alpha": [1, 8, 16]}), path, extend=True)
        return store

    monkeypatch.setattr(zarr_store, "open_store", extended_meanwhile)
    assert open_results(path).load()["ipc"].isnull().all(["warps", "replicate", "op"]).values.tolist() == [False, False, True]


def test_what_is_not_done_is_said(path, capsys):
    open_store(path).log.remove("done", 1)
    shutil.rmtree(path / "valid/c/1")  # which is written last, so that a sweep that was killed has not come to it
    shutil.rmtree(path / "ipc/c/1")
    assert cli.main(["verify", str(path)]) == 0
    assert capsys.readouterr().out == "no damaged files\n1 of 2 tiles not done\n"


def test_an_inventory_names_no_file_outside_the_store(path):
    from warpsim.store.inventory import decoded, encoded, read_inventory
    from warpsim.store.place import place_of

    secret = path.parent / "secret"
    secret.write_text("mine")
    for key in ("../secret", str(secret), "a/../../secret", "./x", "C:x", "a\\b"):
        assert decoded(encoded({key: b"theirs"})) is None
        content = {**read_inventory(place_of(path)), key: b"theirs"}
        (path / INVENTORY).write_bytes(encoded(content))
        assert [wrong.file for wrong in verify(path)] == [INVENTORY]
        repair(path, verify(path))
    assert secret.read_text() == "mine"
    assert sorted(file.name for file in Path(path.parent).iterdir()) == ["out.zarr", "secret"]


@pytest.mark.parametrize("name", ["ipc", "scheduler_cycles"])
def test_chunks_without_values_are_refused(path, name):
    """Somebody else's metadata, with an inventory that agrees."""
    from warpsim.store.inventory import encoded, read_inventory
    from warpsim.store.place import place_of

    files = read_inventory(place_of(path))
    root = json.loads(files["zarr.json"])
    theirs = root["consolidated_metadata"]["metadata"][name] if root.get("consolidated_metadata") else {}
    own = json.loads(files[f"{name}/zarr.json"])
    for metadata in filter(None, (theirs, own)):
        metadata["chunk_grid"]["configuration"]["chunk_shape"][-1] = 0
    changed = {"zarr.json": json.dumps(root).encode(), f"{name}/zarr.json": json.dumps(own).encode()}
    for key, content in changed.items():
        (path / key).write_bytes(content)
    (path / INVENTORY).write_bytes(encoded({**files, **changed}))
    for read in (verify, open_results):
        with pytest.raises(StoreError):
            read(path)
