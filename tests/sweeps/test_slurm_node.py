"""Sweeps under a real Slurm of one node, which the tests start: run by `make test-slurm`."""

import getpass
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.slurm_node import missing, slurm_node
from tests.support.small_plans import PLAN_TOML
from tests.support.stores import stored_data
from warpsim.store.status import tile_counts, tile_records
from warpsim.store.writing import mark_failed
from warpsim.store.zarr_store import open_store, pending_tiles
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.repair import verify

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parents[2]

SLOW_TOML = PLAN_TOML.replace("cycles = 400", "cycles = 600_000").replace("alpha = [1, 8]", f"alpha = {[*range(1, 17)]}")

LONG_TOML = SLOW_TOML.replace(f"{[*range(1, 17)]}", f"{[*range(1, 49)]}")
"""Half a minute for two tasks: time for Slurm to preempt them."""


@pytest.fixture(scope="module")
def node():
    why = missing()
    if why:
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    folder.chmod(0o755)  # munged serves all users
    with slurm_node(folder) as environment:
        yield {**environment, "PYTHONPATH": str(ROOT)}
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def empty_queue(node):
    """No job outlives its test."""
    yield
    run(node, "scancel", f"--user={getpass.getuser()}")
    until(lambda: not queue(node), lambda: queue(node))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    def swept(text):
        folder = tmp_path_factory.mktemp("undisturbed")
        (folder / "plan.toml").write_text(text)
        sweep(Plan.from_toml(folder / "plan.toml"), folder / "out.zarr", workers=2)
        return stored_data(folder / "out.zarr")

    return {text: swept(text) for text in (PLAN_TOML, SLOW_TOML, LONG_TOML)}


def run(node, *command):
    ran = subprocess.run([*map(str, command)], env=node, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def warpsim(node, *arguments):
    return run(node, sys.executable, "-m", "warpsim.cli", *arguments)


def until(true, what):
    for _ in range(1500):
        if true():
            return
        time.sleep(0.2)
    raise AssertionError(f"not in five minutes: {what()}")


def queue(node):
    return run(node, "squeue", "--array", "--noheader", "--format=%F_%K %P %T %r")


def logs(tmp_path):
    return "\n".join(f"{file.name}: {file.read_text()}" for file in sorted(tmp_path.glob("*.slurm/*.log")))


def test_an_array_job_does_the_tiles_that_are_not_done(node, undisturbed, scratch, tmp_path):
    file, out = tmp_path / "plan.toml", tmp_path / "out.zarr"
    file.write_text(PLAN_TOML)
    plan = Plan.from_toml(file)
    sweep(plan, out, tiles=[0])
    store = open_store(out)
    mark_failed(store, 2, "broken")
    before = tile_records(store.log)["done"]
    said = warpsim(node, "slurm", file, out, "--tasks", "2", "--scratch", scratch, "--setup", "echo set-up of $SLURM_JOB_ID")
    assert f"{len(plan.tiles()) - 1} tiles in 2 tasks" in said
    again = warpsim(node, "slurm", file, out, "--scratch", scratch)  # while the first job waits or runs
    assert "nothing to submit" in again
    until(lambda: not queue(node), lambda: queue(node) + logs(tmp_path))
    assert pending_tiles(store) == [], logs(tmp_path)
    assert logs(tmp_path).count("set-up of") == 2
    assert tile_records(store.log)["done"][0] == before[0]  # it was not run again
    assert not tile_counts(store.log).failures
    assert stored_data(out) == undisturbed[PLAN_TOML]
    shown = warpsim(node, "status", out)
    assert f"done {len(plan.tiles())}, pending 0, failed 0" in shown and "Slurm" not in shown


def test_a_preempted_job_is_queued_again_and_goes_on(node, undisturbed, scratch, tmp_path):
    """A job of a partition of higher priority takes the whole node in the middle."""
    file, out, other = tmp_path / "plan.toml", tmp_path / "out.zarr", tmp_path / "other.sh"
    file.write_text(LONG_TOML)
    plan = Plan.from_toml(file)
    warpsim(node, "slurm", file, out, "--tasks", "2", "--scratch", scratch, "--sbatch=--partition=low")
    until(lambda: tile_counts(open_store(out).log).done >= 2, lambda: queue(node) + logs(tmp_path))
    shown = warpsim(node, "status", out)
    assert "Slurm job " in shown and " running on " in shown and " unfinished tiles" in shown
    other.write_text("#!/bin/bash\nwhile [ -e hold ]; do sleep 0.2; done\n")
    (tmp_path / "hold").touch()
    run(node, "sbatch", "--partition=high", "--exclusive", f"--chdir={tmp_path}", other)
    until(lambda: "high RUNNING" in queue(node), lambda: queue(node) + logs(tmp_path))
    assert "interrupted; run the same command again to continue" in logs(tmp_path)
    before = tile_records(open_store(out).log)["done"]
    assert 2 <= len(before) < len(plan.tiles())
    assert verify(out) == []
    (tmp_path / "hold").unlink()
    until(lambda: not queue(node), lambda: queue(node) + logs(tmp_path))
    assert pending_tiles(open_store(out)) == [], logs(tmp_path)
    assert stored_data(out) == undisturbed[LONG_TOML]
    after = tile_records(open_store(out).log)["done"]
    assert {tile: after[tile] for tile in before} == before  # none was run twice


def test_a_task_near_its_time_limit_is_queued_again(node, undisturbed, scratch, tmp_path):
    """The signal that Slurm sends before the limit, sent by scancel, so that the test need not wait for a minute."""
    file, out = tmp_path / "plan.toml", tmp_path / "out.zarr"
    file.write_text(SLOW_TOML)
    said = warpsim(node, "slurm", file, out, "--tasks", "1", "--scratch", scratch)
    job = said.split()[1].rstrip(":")
    until(lambda: tile_counts(open_store(out).log).done >= 1, lambda: queue(node) + logs(tmp_path))
    run(node, "scancel", "--batch", "--signal=USR1", f"{job}_1")
    until(lambda: "interrupted" in logs(tmp_path), lambda: queue(node) + logs(tmp_path))
    until(lambda: not queue(node), lambda: queue(node) + logs(tmp_path))
    assert pending_tiles(open_store(out)) == [], logs(tmp_path)
    assert stored_data(out) == undisturbed[SLOW_TOML]
    assert (tmp_path / "out.slurm" / f"{job}.sh").exists()


def test_dask_jobqueue_as_in_the_docs(node, undisturbed, scratch, tmp_path, monkeypatch):
    """Workers of Dask as jobs of Slurm, as docs/clusters.md shows it."""
    dask_jobqueue = pytest.importorskip("dask_jobqueue")
    from distributed import Client

    for name, value in node.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "plan.toml").write_text(SLOW_TOML)
    options = {"cores": 1, "processes": 1, "memory": "1GB", "walltime": "00:30:00", "queue": "low"}
    folders = {"log_directory": str(tmp_path), "local_directory": str(tmp_path)}
    prologue = [f"export NUMBA_CACHE_DIR={scratch}/warpsim-{getpass.getuser()}"]
    with dask_jobqueue.SLURMCluster(**options, **folders, job_script_prologue=prologue) as cluster:
        cluster.scale(jobs=2)
        with Client(cluster) as client:
            client.wait_for_workers(2)
            assert queue(node).count("low RUNNING") == 2
            sweep(Plan.from_toml(tmp_path / "plan.toml"), tmp_path / "out.zarr", dask=client)
    assert stored_data(tmp_path / "out.zarr") == undisturbed[SLOW_TOML]
    until(lambda: not queue(node), lambda: queue(node))
