"""Stores at a URL: in the memory of fsspec, and in an S3-compatible server that the tests start."""

import errno
import os
import re
import threading
import time
import uuid

import numpy as np
import pytest
import xarray as xr

from tests.support.small_plans import small_plan
from tests.support.stores import assert_same
from warpsim import cli
from warpsim.store.lease import LAYOUT, changing_layout
from warpsim.store.place import Remote, StoreError, place_of
from warpsim.store.status import tile_counts
from warpsim.store.writing import mark_failed
from warpsim.store.zarr_store import open_results, open_store, pending_tiles
from warpsim.sweeps.local import sweep
from warpsim.sweeps.opening import prepare_store
from warpsim.sweeps.repair import repair, verify

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def server():
    """A server with the bucket `sweeps`; s3fs takes its address and keys from the environment."""
    moto = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("sweeps")
        yield
    s3fs.S3FileSystem.clear_instance_cache()
    running.stop()


@pytest.fixture(params=["memory", "s3"])
def url(request):
    if request.param == "s3":
        request.getfixturevalue("server")
        return f"s3://sweeps/{uuid.uuid4().hex}/out.zarr"
    return f"memory://{uuid.uuid4().hex}/out.zarr"


@pytest.fixture(scope="module")
def in_memory():
    return sweep(small_plan())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("folder") / "out.zarr"
    sweep(small_plan(), path)
    return path


def test_a_sweep_goes_there_and_goes_on_and_is_the_same_as_here(url, folder, in_memory):
    plan = small_plan()
    sweep(plan, url, share=(1, 2), workers=2)
    store = open_store(url)
    half = pending_tiles(store)
    assert 0 < len(half) < len(plan.tiles())
    mark_failed(store, half[0], "why")
    assert tile_counts(store.log).failures == {half[0]: "why"}
    results = sweep(plan, url, workers=2)
    assert pending_tiles(store) == []
    assert not tile_counts(store.log).failures
    assert not results["ipc"].variable._in_memory
    assert_same(results, in_memory)
    opened = open_results(url)
    assert_same(opened, in_memory)
    assert opened.encoding["source"] == url
    np.testing.assert_array_equal(xr.open_zarr(url)["ipc"], in_memory["ipc"])
    fs, root = fsspec.core.url_to_fs(url)
    for file in sorted(folder.rglob("*")):
        key = file.relative_to(folder)
        if file.is_file() and key.parts[0] not in ("zarr.json", "tiles"):  # these hold times
            assert fs.cat_file(f"{root}/{key.as_posix()}") == file.read_bytes(), key


def test_damage_there_is_found_and_repaired(url, folder, in_memory):
    fs, root = fsspec.core.url_to_fs(url)
    fs.put(str(folder), root, recursive=True)
    place = place_of(url)
    chunks = sorted(key for key in fs.find(f"{root}/ipc/c"))
    fs.pipe_file(chunks[0], fs.cat_file(chunks[0])[:-1])
    fs.rm_file(chunks[-1])
    assert place.read(["none", "zarr.json"])[0] == b""
    damages = verify(url)
    assert [damage.tile for damage in damages] == [0, len(small_plan().tiles()) - 1]
    repair(url, damages)
    assert verify(url) == []
    assert_same(open_results(url), in_memory)


def test_another_plan_is_refused(url):
    prepare_store(small_plan(), url)
    with pytest.raises(StoreError, match=r"settings.cycles: 500 here, 400 in the store"):
        sweep(small_plan(cycles=500), url)
    with pytest.raises(StoreError, match="no such store"):
        open_results(f"{url}.other")
    fs, root = fsspec.core.url_to_fs(url)
    fs.pipe_file(f"{root}.notes/a.txt", b"mine")
    with pytest.raises(StoreError, match="not a warpsim store; it was not changed"):
        sweep(small_plan(), f"{url}.notes")
    assert fs.cat_file(f"{root}.notes/a.txt") == b"mine"


@pytest.mark.filterwarnings("ignore:Consolidated metadata")  # what silences it is not safe in threads
def test_many_that_make_a_store_at_once_make_one(url):
    plans = [small_plan() if i % 2 else small_plan(cycles=500) for i in range(8)]
    made, refused = [], []

    def make(i):
        try:
            made.append((i % 2, prepare_store(plans[i], url)))
        except StoreError as error:
            refused.append((i % 2, str(error)))

    threads = [threading.Thread(target=make, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = {kind for kind, _ in made}
    assert {kind for kind, _ in refused} == {1 - winner}
    assert all("another plan" in message for _, message in refused)
    assert (len(made), len(refused)) == (4, 4)
    prepare_store(plans[winner], url)


def test_a_creation_that_was_killed_is_made_good_by_the_next(url, monkeypatch):
    def interrupted(*_, last):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "upload", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep(small_plan(), url)
    with pytest.raises(StoreError, match="another plan is being created here"):
        sweep(small_plan(cycles=500), url)
    (claim,) = place_of(url).read(["tiles/done/claim"])
    time.sleep(1.1)  # another second would be another history
    _, store = prepare_store(small_plan(), url)
    assert store.attrs["history"] == claim.decode().split("\n")[1], "all that create the store write the same files"
    assert pending_tiles(store) == list(small_plan().tiles())


def test_the_commands_take_urls(server, tmp_path, capsys):
    plan, url = tmp_path / "plan.toml", "s3://sweeps/commands.zarr"
    plan.write_text('gpu = "g80"\nkernel = "mix"\nwarps = [1, 2]\nsms = 1\nwarmup = 0\ncycles = 400\n')
    assert cli.main(["sweep", str(plan), url]) == 0
    assert cli.main(["status", url]) == 0
    assert "done 1, pending 0, failed 0" in capsys.readouterr().out
    assert cli.main(["verify", url]) == 0
    assert cli.main(["status", "s3://sweeps/none.zarr"]) == 2
    assert cli.main(["plot", url, "--y", "occupancy", "-o", str(tmp_path / "a.png")]) == 0
    assert not any(name.startswith("s3:") for name in os.listdir())


def test_an_unknown_protocol_is_a_wrong_request(capsys):
    assert cli.main(["status", "nfs9://a/b.zarr"]) == 2
    assert "nfs9" in capsys.readouterr().err


def test_a_store_that_cannot_be_reached_is_a_failure(monkeypatch, capsys):
    def unreachable(*_):
        raise LookupError("Unable to locate credentials")  # botocore's errors are no OSError either

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.exists", unreachable)
    assert cli.main(["status", "memory://a.zarr"]) == 1
    assert capsys.readouterr().err == "warpsim: memory://a.zarr: Unable to locate credentials\n"


@pytest.mark.parametrize("act", [
    lambda place: place.names("a"), lambda place: place.read(["a"]), lambda place: place.write("a", b""),
    lambda place: place.claim("a", b""), lambda place: place.remove("a"), lambda place: place.exists("a"),
])  # fmt: skip
def test_all_that_a_library_raises_is_an_error_of_the_system(monkeypatch, act):
    def unreachable(*_, **__):
        raise LookupError("Unable to locate credentials")

    for name in ("ls", "cat", "pipe_file", "rm_file", "exists"):
        monkeypatch.setattr(f"fsspec.implementations.memory.MemoryFileSystem.{name}", unreachable)
    with pytest.raises(OSError, match=r"memory://a\.zarr: Unable to locate credentials"):
        act(place_of("memory://a.zarr"))


@pytest.mark.parametrize("url", ["s3://", "memory:///"])
def test_a_url_without_a_place_is_a_wrong_request(capsys, url):
    assert cli.main(["status", url]) == 2
    assert "must name a place" in capsys.readouterr().err


@pytest.mark.parametrize("path", [None, 3, b"out.zarr"])
@pytest.mark.parametrize("act", [open_results, verify])
def test_what_is_no_path_is_named(act, path):
    with pytest.raises(TypeError, match=f"path = {path!r}: must be the path of a store, or its URL"):
        act(path)


def test_a_path_in_the_home_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert place_of("~/out.zarr").path == tmp_path / "out.zarr"
    sweep(small_plan(), "~/out.zarr", tiles=[0])
    assert pending_tiles(open_store("~/out.zarr")) and os.listdir(tmp_path) == ["out.zarr"]


def test_a_folder_that_vanishes_while_a_key_is_claimed(tmp_path, monkeypatch):
    """Another process may remove an empty folder between any two steps of `mkdir`."""
    make, calls = os.mkdir, []

    def vanishing(path, *rest, **options):
        calls.append(path)
        if len(calls) == 1:  # the folder existed, and is gone when pathlib looks what it is
            raise FileExistsError(path)
        make(path, *rest, **options)

    monkeypatch.setattr(os, "mkdir", vanishing)
    assert place_of(tmp_path / "store.zarr").claim("leases/layout", b"mine") == b"mine"
    assert len(calls) > 1


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "leases").write_text("a file")
    with pytest.raises(OSError):
        place_of(tmp_path).claim("leases/layout", b"mine")


def test_only_files_count_as_keys(tmp_path):
    place = place_of(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    assert [key for key in ("file", "folder", "link", "dangling", "none") if place.exists(key)] == ["file", "link"]
    assert place_of(tmp_path / "dangling").exists()  # something that is no store is at the path


def test_a_lease_that_is_a_link_to_nothing_is_stale(tmp_path):
    (tmp_path / "tiles/leases").mkdir(parents=True)
    (tmp_path / LAYOUT).symlink_to(tmp_path / "none")
    with changing_layout(place_of(tmp_path)):
        assert not (tmp_path / LAYOUT).is_symlink()


@pytest.mark.parametrize("step", ["write", "claim"])
def test_a_full_disk_leaves_no_unfinished_file_and_is_named(tmp_path, monkeypatch, step):
    def full_disk(file, content):
        with open(file, "wb"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full_disk)
    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{tmp_path / 'key'}'")):
        getattr(place_of(tmp_path), step)("key", b"mine")
    assert list(tmp_path.iterdir()) == []


def test_claims_to_which_an_object_store_answers_in_other_words(monkeypatch):
    """Of those that write a key at once, S3 tells some of a conflict, which s3fs makes an error of input or output."""
    place = place_of("memory://answers/out.zarr")

    def conflict(path, content, **options):
        raise OSError(errno.EIO, "ConditionalRequestConflict")

    assert place.claim("key", b"first") == b"first"
    monkeypatch.setattr(place._fs, "pipe_file", conflict)
    assert place.claim("key", b"second") == b"first"
    with pytest.raises(OSError, match="Conflict"):
        place.claim("other", b"mine")


def test_what_another_process_has_removed_is_removed():
    place = place_of("memory://removed/out.zarr")
    place.remove("key")
    assert not place.exists("key")


@pytest.mark.parametrize("protocol", ["file", "local"])
def test_a_url_of_a_folder_is_that_folder(tmp_path, in_memory, protocol):
    assert_same(sweep(small_plan(), f"{protocol}://{tmp_path}/out.zarr"), in_memory)
    assert pending_tiles(open_store(tmp_path / "out.zarr")) == []
