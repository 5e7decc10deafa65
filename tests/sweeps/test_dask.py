"""Sweeps on a real Dask cluster: two worker processes, one of which is killed in the middle."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.small_plans import LONG_TOML, PLAN_TOML, small_plan
from tests.support.stores import stored_data
from warpsim import cli
from warpsim.store.status import tile_counts, tile_records
from warpsim.store.zarr_store import open_store, pending_tiles
from warpsim.sweeps import tile
from warpsim.sweeps.local import SweepError, sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.repair import verify
from warpsim.sweeps.tile import complete_tile_of

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore")  # distributed warns of sockets and loops that a killed worker leaves


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


def workers(client):
    """Process of each worker."""
    return client.run(os.getpid)


def swept(text, folder):
    (folder / "plan.toml").write_text(text)
    plan = Plan.from_toml(folder / "plan.toml")
    sweep(plan, folder / "here.zarr", workers=2)
    return plan, stored_data(folder / "here.zarr")


def test_a_worker_is_killed_in_the_middle(client, tmp_path):
    plan, undisturbed = swept(LONG_TOML, tmp_path)
    path = tmp_path / "out.zarr"
    before = workers(client)
    assert len({*before.values()}) == 2 and os.getpid() not in before.values()
    seen, killed = [], []

    def progress(now):
        seen.append(now)
        if now.done == 3:
            killed.append(next(iter(before.values())))
            os.kill(killed[0], signal.SIGKILL)

    sweep(plan, path, dask=client, progress=progress)
    assert killed
    assert [now.done for now in seen] == list(range(len(plan.tiles()) + 1))
    assert pending_tiles(open_store(path)) == [] and verify(path) == []
    assert stored_data(path) == undisturbed
    client.wait_for_workers(2)
    assert killed[0] not in workers(client).values()


def test_the_command(cluster, tmp_path):
    plan, undisturbed = swept(PLAN_TOML, tmp_path)
    command = [sys.executable, "-m", "warpsim.cli", "sweep", "plan.toml", "out.zarr", "--dask", cluster.scheduler_address]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"{len(plan.tiles())} of {len(plan.tiles())} tiles" in ran.stderr
    assert stored_data(tmp_path / "out.zarr") == undisturbed


LAST = len(small_plan().tiles()) - 1


def broken(job, index):
    """A tile whose points raise."""

    def simulate_point(*_, **__):
        raise RuntimeError("broken on purpose")

    with pytest.MonkeyPatch.context() as patch:
        if index == LAST:
            patch.setattr(tile, "simulate_point", simulate_point)
        return complete_tile_of(job, index)


def deadly(job, index):
    """A tile that kills its worker, as one that needs too much memory does."""
    if index == LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    return complete_tile_of(job, index)


def unlucky(job, index):
    """A tile that meets a broken connection, twice."""
    for attempt in (1, 2):
        try:
            Path(f"{job.path}.{index}.{attempt}").touch(exist_ok=False)
        except FileExistsError:
            continue
        raise ConnectionError("lost")
    return complete_tile_of(job, index)


@pytest.mark.parametrize(("way", "message"), [(broken, "RuntimeError: broken on purpose"), (deadly, "its worker died 4 times")])
def test_a_tile_that_fails_or_kills_is_marked_and_the_rest_go_on(way, message, client, tmp_path, monkeypatch):
    plan, path = small_plan(), tmp_path / "out.zarr"
    monkeypatch.setattr("warpsim.sweeps.dask.complete_tile_of", way)
    with pytest.raises(SweepError, match=message) as caught:
        sweep(plan, path, dask=client)
    counts = tile_counts(open_store(path).log)
    assert (counts.done, counts.pending) == (LAST, 0)
    assert counts.failures == caught.value.failures == {LAST: caught.value.failures[LAST]}


def test_what_is_unforeseen_is_tried_again(client, tmp_path, monkeypatch):
    monkeypatch.setattr("warpsim.sweeps.dask.complete_tile_of", unlucky)
    sweep(small_plan(), tmp_path / "out.zarr", dask=client)
    assert len([*tmp_path.glob("out.zarr.*")]) == 2 * (LAST + 1)


def test_an_interruption_leaves_the_rest_pending(client, tmp_path):
    (tmp_path / "plan.toml").write_text(LONG_TOML)
    plan, path = Plan.from_toml(tmp_path / "plan.toml"), tmp_path / "out.zarr"
    stopped = threading.Event()

    def interrupt(now):
        if now.done == 2:
            stopped.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(plan, path, dask=client, progress=interrupt)
    assert stopped.is_set()
    left = pending_tiles(open_store(path))
    assert 0 < len(left) < len(plan.tiles())
    done = tile_records(open_store(path).log)["done"]
    sweep(plan, path, dask=client)
    assert pending_tiles(open_store(path)) == []
    after = tile_records(open_store(path).log)["done"]
    assert {tile: after[tile] for tile in done} == done


def test_dask_needs_a_store(client):
    with pytest.raises(ValueError, match="dask: other processes need a store; give a path"):
        sweep(small_plan(), dask=client)


def test_an_unreachable_scheduler_leaves_no_store(tmp_path, capsys):
    import dask

    (tmp_path / "plan.toml").write_text(PLAN_TOML)
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        command = ["sweep", str(tmp_path / "plan.toml"), str(tmp_path / "out.zarr"), "--dask", "tcp://127.0.0.1:9"]
        assert cli.main(command) == 1
    assert "dask = 'tcp://127.0.0.1:9': no scheduler answers at this address" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]
