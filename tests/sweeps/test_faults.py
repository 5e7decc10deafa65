"""Faults of clusters: killed sweeps, two sweeps at once, a full disk. No work is lost, and no number changes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.small_plans import LONG_TOML, at_a_terminal, small_plan
from tests.support.stores import stored_data
from warpsim.store.status import tile_counts
from warpsim.store.zarr_store import open_store, pending_tiles
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.repair import verify

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    file = tmp_path_factory.mktemp("plan") / "plan.toml"
    file.write_text(LONG_TOML)
    return file


@pytest.fixture(scope="module")
def undisturbed(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "out.zarr"
    sweep(Plan.from_toml(plan), path)
    return stored_data(path)


def run(*command):
    return subprocess.run([sys.executable, "-m", *map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)


def test_killed_twenty_times_at_random_moments(plan, undisturbed, tmp_path):
    path = tmp_path / "out.zarr"
    killed = run("tests.support.killed_sweeps", plan, path, "kill", 20, 2016)
    assert killed.returncode == 0, killed.stderr
    done = [int(line) for line in killed.stdout.split()]
    assert len(done) == 20
    assert done == sorted(done)  # what was done stays done
    total = len(Plan.from_toml(plan).tiles())
    assert 3 < len(set(done)) and 0 < done[-1] < total
    assert len(pending_tiles(open_store(path))) == total - done[-1]
    assert verify(path) == []
    sweep(Plan.from_toml(plan), path)
    assert stored_data(path) == undisturbed
    assert verify(path) == []


def test_jobs_at_once_on_one_store(plan, undisturbed, tmp_path):
    path = tmp_path / "out.zarr"
    both = run("tests.support.killed_sweeps", plan, path, "together", 2)
    assert both.stdout.split() == ["0", "0"], both.stderr
    assert pending_tiles(open_store(path)) == []
    assert stored_data(path) == undisturbed


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return [child for child in found if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the worker in /proc")
@pytest.mark.parametrize("victim", ["worker", "parent", "interrupted"])
def test_processes_that_are_killed(victim, plan, undisturbed, tmp_path):
    path = tmp_path / "out.zarr"
    command = [sys.executable, "-m", "warpsim.cli", "sweep", plan, path, "--processes", "--workers", "2"]
    running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while not (path.exists() and tile_counts(open_store(path, read_only=True).log).done >= 2):
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.02)
    workers = children(running.pid)
    assert len(workers) == 2
    if victim == "interrupted":
        running.send_signal(signal.SIGTERM)
    else:
        os.kill(workers[0] if victim == "worker" else running.pid, signal.SIGKILL)
    _, errors = running.communicate()
    assert "Traceback" not in errors
    said = {
        "worker": (1, "a worker process was killed; finished tiles are kept, and the same call resumes the sweep"),
        "interrupted": (1, "interrupted; run the same command again to continue"),
        "parent": (-9, ""),
    }
    code, message = said[victim]
    assert running.returncode == code and message in errors
    while any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers):  # they end with their parent
        time.sleep(0.02)
    assert 0 < len(pending_tiles(open_store(path))) < len(Plan.from_toml(plan).tiles())
    sweep(Plan.from_toml(plan), path)
    assert stored_data(path) == undisturbed


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_ctrl_c(processes, plan, undisturbed, tmp_path):
    """Ctrl-C goes to all processes of a terminal's group: once while the workers start, once in the middle."""
    path = tmp_path / "out.zarr"
    command = [sys.executable, "-m", "warpsim.cli", "sweep", plan, path, "--workers", "2", *["--processes"] * processes]
    done = 0
    for more in (0, 2):
        running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=at_a_terminal)
        while not (path.exists() and tile_counts(open_store(path, read_only=True).log).done >= done + more):
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.01)
        if processes:
            while len(children(running.pid)) < 2:
                time.sleep(0.01)
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate()
        assert running.returncode == 1, errors
        assert "interrupted; run the same command again to continue" in errors
        assert "Traceback" not in errors
        counts = tile_counts(open_store(path).log)
        assert counts.done >= done + more and counts.pending and not counts.failures
        done = counts.done
    assert verify(path) == []
    assert not [*path.rglob("*.partial")]  # a tile is written whole, or not at all
    sweep(Plan.from_toml(plan), path, workers=2)
    assert stored_data(path) == undisturbed


RECEIVED = """
import signal, threading, time
from warpsim.sweeps import local
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it
begun = threading.Event()
def receive():
    begun.wait()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
other = threading.Thread(target=receive, daemon=True)
other.start()  # before the signal is blocked, which threads inherit
try:
    with local._blocked_interrupts():
        begun.set()
        other.join()
        time.sleep(0.01)
        print("undisturbed", flush=True)
    print("behind the block")
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_ctrl_c_that_another_thread_receives_does_not_disturb_the_start_of_workers():
    """A handler that ran in the middle would leave a worker without what it reads from its parent."""
    done = subprocess.run([sys.executable, "-c", RECEIVED], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["undisturbed", "interrupted True"], done.stderr


FULL = """
set -e
mount -t tmpfs -o size=1m none {folder} || exit 77
set +e
{warpsim} sweep {plan} {folder}/out.zarr --workers 1
echo "exit $?"
{warpsim} status {folder}/out.zarr
{warpsim} verify {folder}/out.zarr
mount -o remount,size=32m {folder}
{warpsim} sweep {plan} {folder}/out.zarr --workers 1
echo "exit $?"
cp -r {folder}/out.zarr {copy}
"""


def test_a_full_disk(plan, undisturbed, tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("no unshare: cannot make a small file system")
    (tmp_path / "full").mkdir()
    words = {"folder": tmp_path / "full", "plan": plan, "copy": tmp_path / "copy", "warpsim": f"{sys.executable} -m warpsim.cli"}
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    ran = subprocess.run(
        [*unshare, "bash", "-c", FULL.format(**words)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ran.returncode == 77 or "unshare failed" in ran.stderr:
        pytest.skip(f"cannot mount a small file system here: {ran.stderr.strip()}")
    shown = ran.stdout.splitlines()
    assert (shown[0], shown[-1]) == ("exit 1", "exit 0"), ran.stderr
    assert "No space left on device; finished tiles are kept, and the same call resumes the sweep" in ran.stderr
    assert "Traceback" not in ran.stderr
    counts = re.search(r"done (\d+), pending (\d+), failed 0", ran.stdout)
    assert counts and int(counts[1]) > 0 and int(counts[2]) > 0
    assert "no damaged files" in shown
    assert stored_data(tmp_path / "copy") == undisturbed


def test_a_full_disk_at_the_start_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("zarr.Group.create_array", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        sweep(small_plan(), tmp_path / "out.zarr")
    assert list(tmp_path.iterdir()) == []
