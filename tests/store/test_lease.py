"""Leases: many processes write tiles, one changes the layout, and never both. The processes are real."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.small_plans import LONG_TOML, PLAN_TOML, small_plan
from tests.support.stores import assert_same
from warpsim import cli
from warpsim.store import extend, inventory, lease, writing
from warpsim.store.lease import (
    LAYOUT,
    LEASES,
    BusyError,
    Lease,
    LeaseLostError,
    changing_layout,
    has_leases,
    own_lease,
    writers,
    writing_tiles,
)
from warpsim.store.leftovers import remove_leftovers
from warpsim.store.place import PARTIAL, Folder, Remote, StoreError, place_of
from warpsim.store.zarr_store import open_results, open_store, pending_tiles
from warpsim.sweeps import opening, tile
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.repair import verify

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["folder", "object store"])
def place(request, tmp_path):
    if request.param == "folder":
        return Folder(tmp_path)
    return Remote(f"memory://{tmp_path.name}/out.zarr")


def test_many_write_tiles(place):
    with writing_tiles(place) as one, writing_tiles(place) as two:
        assert one != two
        assert [found.pid for found in writers(place)] == [os.getpid()] * 2
    assert writers(place) == [] and place.names(LEASES) == []


def test_the_layout_is_changed_alone(place):
    with writing_tiles(place), pytest.raises(BusyError, match=f"is being written by process {os.getpid()} on"):
        with changing_layout(place):
            pass
    with changing_layout(place):
        assert place.names(LEASES) == ["layout"]
    with writing_tiles(place), changing_layout(place, alone=False):
        assert len(place.names(LEASES)) == 2


def test_a_writer_waits_for_a_change_of_the_layout(place, monkeypatch):
    started, order = threading.Event(), []

    def change():
        with changing_layout(place):
            started.set()
            time.sleep(0.3)
            order.append("changed")

    thread = threading.Thread(target=change)
    thread.start()
    assert started.wait(10)
    with writing_tiles(place):
        order.append("writes")
    thread.join()
    assert order == ["changed", "writes"]
    monkeypatch.setattr(lease, "WAIT_SECONDS", 0.2)
    with changing_layout(place):
        for other in (writing_tiles, changing_layout):
            with pytest.raises(BusyError, match=r"its layout is being changed by process"), other(place):
                pass


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


HELD = own_lease()
OWN = HELD.__enter__()
ELSEWHERE = replace(OWN, host="elsewhere", machine="another")
STALE = {
    "an ended process": replace(OWN, pid=ended_process()),
    "this process, which holds it no more": replace(OWN, id="f" * 32),
    "another process with its number": replace(OWN, started="1"),
    "not renewed": replace(ELSEWHERE, renewed=time.time() - 700),
}
LIVE = {
    "this process": OWN,
    "this process, stopped for long": replace(OWN, renewed=0.0),
    "another machine": ELSEWHERE,
    "a machine whose clock is ahead": replace(ELSEWHERE, renewed=time.time() + 700),
}


@pytest.mark.skipif(not OWN.machine, reason="this system does not identify processes")
@pytest.mark.parametrize("key", [LAYOUT, f"{LEASES}/{'0' * 32}"])
@pytest.mark.parametrize("kind", [*STALE, "damaged"])
def test_stale_leases_are_recognised_and_removed(place, kind, key):
    place.write(key, b"{" if kind == "damaged" else STALE[kind].encoded())
    with changing_layout(place):
        assert place.names(LEASES) == ["layout"]
    assert place.names(LEASES) == []


@pytest.mark.skipif(not OWN.machine, reason="this system does not identify processes")
@pytest.mark.parametrize("content", [STALE["an ended process"].encoded(), b"{"])
def test_one_of_many_threads_takes_a_stale_lease(place, monkeypatch, content):
    """Each is slow between its look at the stale lease and the removal."""
    inside, most, remove = [], [], type(place).remove
    monkeypatch.setattr(type(place), "remove", lambda self, key: (time.sleep(0.01 * random.random()), remove(self, key)))

    def take():
        with changing_layout(place, alone=False):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    for _ in range(5):
        place.write(LAYOUT, content)
        threads = [threading.Thread(target=take) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 30
    assert place.names(LEASES) == []


@pytest.mark.skipif(not OWN.machine, reason="this system does not identify processes")
def test_one_of_many_processes_takes_a_stale_lease(tmp_path):
    number, place = 5, Folder(tmp_path / "store")
    takers = [subprocess.Popen([sys.executable, "-c", TAKER, str(tmp_path), str(i)], env=ENVIRONMENT) for i in range(number)]
    try:
        for turn in range(8):
            place.write(LAYOUT, STALE["an ended process"].encoded())
            (tmp_path / f"start{turn}").touch()
            end = time.monotonic() + 60
            while len(list(tmp_path.glob(f"done{turn}.*"))) < number and None in [taker.poll() for taker in takers]:
                assert time.monotonic() < end
                time.sleep(0.01)
        assert [taker.wait(60) for taker in takers] == [0] * number
    finally:
        for taker in takers:
            taker.kill()
    assert place.names(LEASES) == []


TAKER = """
import random, sys, time
from pathlib import Path
from warpsim.store.lease import changing_layout
from warpsim.store.place import Folder

folder, number = Path(sys.argv[1]), sys.argv[2]
remove = Folder.remove
Folder.remove = lambda self, key: (time.sleep(0.01 * random.random()), remove(self, key))
for turn in range(8):
    while not (folder / f"start{turn}").exists():
        time.sleep(0.001)
    with changing_layout(Folder(folder / "store"), alone=False):
        (folder / "inside").open("x").close()  # fails if another process is inside
        time.sleep(0.01)
        (folder / "inside").unlink()
    (folder / f"done{turn}.{number}").touch()
"""

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.mark.skipif(not OWN.machine, reason="this system does not identify processes")
@pytest.mark.parametrize("kind", LIVE)
def test_live_leases_count(place, kind):
    since_import = time.time() - OWN.renewed  # other tests may have taken longer than a lease lasts
    live = replace(LIVE[kind], renewed=LIVE[kind].renewed + since_import)
    place.write(f"{LEASES}/{'0' * 32}", live.encoded())
    with pytest.raises(BusyError, match=f"process {os.getpid()} on {LIVE[kind].host}, since "), changing_layout(place):
        pass
    assert place.names(LEASES) == ["0" * 32]


def test_leases_are_renewed(place, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    with writing_tiles(place) as key:
        first = json.loads(place.read([key])[0])["renewed"]
        end = time.monotonic() + 10
        while json.loads(place.read([key])[0])["renewed"] == first:
            assert time.monotonic() < end
            time.sleep(0.01)
        place.remove(key)  # as another process does that takes this one for dead
        time.sleep(0.1)
        assert not place.exists(key)


def test_the_lease_of_another_process_is_left(place, monkeypatch):
    """It took this one for dead, since its machine slept."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    other = replace(Lease.of_this_process(), pid=1, machine="other").encoded()
    with changing_layout(place):
        place.write(LAYOUT, other)
        time.sleep(0.1)
        assert place.read([LAYOUT]) == [other]
    assert place.read([LAYOUT]) == [other]


def test_a_lease_that_an_interruption_has_left_is_stale(place, monkeypatch):
    """The interruption comes when the lease has been written, or when it is to be removed."""
    with monkeypatch.context() as patch:
        write = type(place).write

        def interrupted(self, key, content):
            write(self, key, content)
            raise KeyboardInterrupt

        patch.setattr(type(place), "write", interrupted)
        with pytest.raises(KeyboardInterrupt), writing_tiles(place):
            pass
    with monkeypatch.context() as patch:

        def unreachable(self, key):
            raise OSError("no connection")

        patch.setattr(type(place), "remove", unreachable)
        with writing_tiles(place):
            pass
    assert len(place.names(LEASES)) == 2
    with changing_layout(place):
        assert place.names(LEASES) == ["layout"]


def test_who_has_lost_the_lease_for_the_layout_does_not_change_it(tmp_path, monkeypatch):
    """It pauses for so long that another process takes it for dead, extends the store by other values, and fills it."""
    path, keep = tmp_path / "out.zarr", extend._keep
    sweep(small_plan(), path)
    others = small_plan(alpha=[1, 8, 16])

    def paused(*given):
        keep(*given)
        monkeypatch.setattr(extend, "_keep", keep)
        (path / LAYOUT).unlink()
        sweep(others, path, extend=True)

    monkeypatch.setattr(extend, "_keep", paused)
    with pytest.raises(LeaseLostError, match="has taken this one for dead"):
        sweep(small_plan(alpha=[1, 8, 32]), path, extend=True)
    assert verify(path) == []
    assert_same(open_results(path).load(), sweep(others))


def test_tiles_are_not_written_for_a_layout_that_was_changed_by_half(tmp_path, monkeypatch):
    """A sweep of the old plan waits while another process extends the store, which is killed once the inventory is written."""
    path, fit = tmp_path / "out.zarr", opening.fit_to_store
    larger = small_plan(alpha=[1, 8, 16])
    sweep(small_plan(), path)

    def killed(place, files):
        raise KeyboardInterrupt

    def while_the_layout_changes(plan, store):
        monkeypatch.setattr(opening, "fit_to_store", fit)
        with monkeypatch.context() as patch:
            patch.setattr(inventory, "restore_files", killed)
            with pytest.raises(KeyboardInterrupt):
                sweep(larger, path, extend=True)
        return fit(plan, store)

    monkeypatch.setattr(opening, "fit_to_store", while_the_layout_changes)
    with pytest.raises(StoreError, match="holds more than this plan"):
        sweep(small_plan(), path)
    assert_same(sweep(larger, path), sweep(larger))
    assert verify(path) == []


def test_a_store_that_takes_tiles_but_no_leases_is_refused(tmp_path, monkeypatch):
    write = Folder.write

    def refused(self, key, content):
        if key.startswith(LEASES):
            raise PermissionError(13, "Permission denied", str(self.path / key))
        write(self, key, content)

    monkeypatch.setattr(Folder, "write", refused)
    with pytest.raises(PermissionError, match="tiles/leases"):
        sweep(small_plan(), tmp_path / "out.zarr")


def test_what_a_killed_process_was_writing_goes_but_not_the_lease_that_another_is_about_to_take(tmp_path):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    (path / LEASES).mkdir()
    files = [path / "ipc" / f"c.{PARTIAL}", path / LEASES / f"new.{PARTIAL}", path / LEASES / f"old.{PARTIAL}"]
    for file in files:
        file.write_text("x")
    os.utime(files[2], (0, 0))
    assert not has_leases(Folder(path))
    (path / LEASES / "0").write_bytes(STALE["an ended process"].encoded())
    remove_leftovers(Folder(path))
    assert [file.exists() for file in files] == [False, True, False]


def test_a_tile_gets_no_record_if_the_lease_is_gone_while_it_is_written(tmp_path, monkeypatch):
    path, real, written = tmp_path / "out.zarr", writing._write_chunks, []

    async def write_chunks(*given):
        await real(*given)
        written.append(given)
        if len(written) == 3:
            for file in (path / LEASES).iterdir():
                file.unlink()

    monkeypatch.setattr(writing, "_write_chunks", write_chunks)
    with pytest.raises(LeaseLostError, match="has taken this one for dead"):
        sweep(small_plan(), path)
    assert len(written) == 3
    assert len(pending_tiles(open_store(path))) == len(small_plan().tiles()) - 2


def test_a_writer_whose_lease_is_gone_writes_nothing_more(tmp_path, monkeypatch):
    path, real, done = tmp_path / "out.zarr", tile.run_tile, []

    def run_tile(*given):
        done.append(given[1])
        if len(done) == 3:
            for file in (path / LEASES).iterdir():
                file.unlink()
        return real(*given)

    monkeypatch.setattr(tile, "run_tile", run_tile)
    with pytest.raises(LeaseLostError, match="has taken this one for dead"):
        sweep(small_plan(), path)
    assert len(pending_tiles(open_store(path))) == len(small_plan().tiles()) - 2


def plan_file(folder, name, text):
    file = folder / name
    file.write_text(text)
    return str(file)


def start(*command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "warpsim.cli", *map(str, command)], stderr=subprocess.PIPE, text=True, env=environment
    )


def wait_for_tiles(path, number):
    end = time.monotonic() + 120
    while not path.exists() or len(list((path / "tiles/done").glob("c.*"))) < number:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def long_plan():
    """A plan of tiles that take long enough to be interrupted."""
    return LONG_TOML.replace("cycles = 400", "cycles = 100_000")


def test_an_extension_beside_a_running_sweep_is_refused(tmp_path, long_plan):
    """Both of them at once lose tiles, which happened in each of three trials before there were leases."""
    path = tmp_path / "out.zarr"
    small = plan_file(tmp_path, "small.toml", long_plan)
    large = plan_file(tmp_path, "large.toml", long_plan.replace("replicates = 2", "replicates = 3"))
    running = start("sweep", small, path, "--workers", "1")
    try:
        wait_for_tiles(path, 1)
        before = (path / "zarr.json").read_bytes()
        refused = start("sweep", large, path, "--extend", "--workers", "1")
        _, said = refused.communicate(timeout=120)
        assert refused.returncode == 1
        assert re.search(rf"is being written by process {running.pid} on .*, since .*nothing was changed", said), said
        assert (path / "zarr.json").read_bytes() == before
        assert running.poll() is None
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stderr.close()
    assert len(list((path / LEASES).iterdir())) == 1  # the leftover of the kill
    done = len(list((path / "tiles/done").glob("c.*")))
    leftover = path / "ipc/c/0/0/0.0123456789.partial"
    leftover.parent.mkdir(parents=True, exist_ok=True)
    leftover.write_bytes(b"half")
    assert done > 0
    sweep(Plan.from_toml(large), path, extend=True, tiles=[0])  # now it may, and it removes what the kill has left
    assert not (path / LEASES).exists() and not list(path.rglob("*.partial"))
    assert verify(path) == []


def test_sweeps_that_extend_at_once(tmp_path):
    """One of them extends the store; all others wait, and then write tiles of the larger plan."""
    path, alone = tmp_path / "out.zarr", tmp_path / "alone.zarr"
    small, large = small_plan(), small_plan(alpha=[1, 8, 4])
    sweep(small, path)
    sweep(large, alone)
    results = []

    def run():
        results.append(sweep(large, path, extend=True))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert pending_tiles(open_store(path)) == [] and verify(path) == []
    assert_same(open_results(path), open_results(alone))


def test_drafts_of_killed_processes_are_removed(tmp_path):
    gone, running, old = (tmp_path / f".out.zarr.{digit * 32}" for digit in "abc")
    other = tmp_path / ".out.zarr.backup"
    for folder in (gone, running, old, other):
        (folder / "store").mkdir(parents=True)
    (gone / "lease").write_bytes(STALE["an ended process"].encoded())
    (running / "lease").write_bytes(OWN.encoded())
    os.utime(old, (0, 0))
    sweep(small_plan(), tmp_path / "out.zarr", tiles=[0])
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([running.name, other.name, "out.zarr"])


def test_a_store_that_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    denied = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Folder, "write", lambda *_: (_ for _ in ()).throw(denied))
    assert sweep(small_plan(), path).sizes["gpu"] == 2  # all is done, so that there is nothing to write


def test_the_command_says_who_writes(tmp_path, capsys):
    path = tmp_path / "out.zarr"
    file = plan_file(tmp_path, "plan.toml", PLAN_TOML)
    sweep(Plan.from_toml(file), path)
    plan_file(tmp_path, "plan.toml", PLAN_TOML.replace("replicates = 2", "replicates = 3"))
    with writing_tiles(place_of(path)):
        assert cli.main(["sweep", file, str(path), "--extend"]) == 1
    assert f"out.zarr: is being written by process {os.getpid()} on" in capsys.readouterr().err


def test_on_windows_no_process_is_signalled(monkeypatch):
    """os.kill would end the process there."""
    of_linux = Lease.of_this_process()
    monkeypatch.setattr(lease.sys, "platform", "win32")
    monkeypatch.setattr(os, "kill", lambda pid, number: pytest.fail("a process was signalled"))
    own = Lease.of_this_process()
    assert own.machine == ""
    assert not own.stale and not of_linux.stale
    assert replace(own, renewed=time.time() - lease.STALE_SECONDS - 1).stale


def test_a_process_that_the_system_hides_runs(monkeypatch):
    """With /proc mounted so that it hides the processes of other users."""
    other = replace(Lease.of_this_process(), pid=1, started="at another time")
    assert other.stale
    monkeypatch.setattr(lease, "_start_of", lambda pid: "")
    assert not other.stale
