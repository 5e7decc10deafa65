"""Sweeps on this machine: the same numbers with any workers, and no lost work."""

import pickle
import signal
import threading
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr

from tests.support.small_plans import SHORT, failing, small_plan
from tests.support.stores import assert_same
from warpsim.results import schema
from warpsim.store.place import StoreError
from warpsim.store.status import tile_counts
from warpsim.store.zarr_store import open_results, open_store, pending_tiles
from warpsim.sweeps import local, tile
from warpsim.sweeps.local import SweepError, sweep
from warpsim.sweeps.opening import prepare_store, writable_store
from warpsim.sweeps.plan import Plan


@pytest.fixture(scope="module")
def in_memory():
    return sweep(small_plan())


def test_a_sweep_in_memory(in_memory):
    axes = {"gpu": 2, "alpha": 2, "warps": 3, "scheduler": 2}
    assert dict(in_memory.sizes) == {**axes, "replicate": 2, "op": 8, "quantile": 7, "state": len(schema.STATES), "slot": 3}
    assert list(in_memory.data_vars) == [declared.name for declared in schema.SWEEP_VARIABLES]
    assert not in_memory["valid"].sel(gpu="g80", warps=48).any()
    assert in_memory["valid"].sum() == 20
    assert np.isfinite(in_memory["ipc"].sel(gpu="kepler")).all()
    assert Plan.from_provenance(in_memory.attrs["provenance"]).record() == small_plan().record()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_store_holds_the_same_numbers_whatever_the_workers(tmp_path, in_memory, workers):
    assert_same(sweep(small_plan(), tmp_path / "out.zarr", workers=workers), in_memory)


def test_threads_change_nothing_in_memory(in_memory):
    assert_same(sweep(small_plan(), workers=2), in_memory)


def test_the_order_of_axes_changes_no_number(in_memory):
    settings = small_plan()
    turned = Plan(
        scheduler=["gto", "lrr"],
        warps=[48, 4],
        gpu=["kepler", "g80"],
        kernel="mix",
        alpha=[8],
        replicates=settings.settings["replicates"],
        **SHORT,
    )
    there = sweep(turned)
    same = in_memory.sel(scheduler=["gto", "lrr"], warps=[48, 4], gpu=["kepler", "g80"], alpha=[8])
    np.testing.assert_array_equal(there["ipc"].transpose(*same["ipc"].dims), same["ipc"])


def test_shares_fill_one_store(tmp_path, in_memory):
    path = tmp_path / "out.zarr"
    first = sweep(small_plan(), path, share=(1, 2))
    assert 0 < int(first["valid"].sum()) < 20
    assert_same(sweep(small_plan(), path, share=(2, 2)), in_memory)


def test_numbers_of_numpy_choose_tiles_and_shares(tmp_path):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path, share=(np.int64(1), 1), tiles=np.arange(2))
    assert tile_counts(open_store(path).log).done == 2


def test_a_sweep_beside_another_one_has_an_order_of_its_own(tmp_path, monkeypatch, in_memory):
    """Otherwise both would run the same tiles at the same time."""
    path, orders = tmp_path / "out.zarr", []
    monkeypatch.setattr(local.random, "shuffle", lambda tiles: (orders.append(list(tiles)), tiles.reverse()))
    with writable_store(small_plan(), path):
        assert_same(sweep(small_plan(), path), in_memory)
    assert orders == [list(small_plan().tiles())]
    sweep(small_plan(), path)
    assert len(orders) == 1


def test_a_sweep_goes_on_where_it_stopped(tmp_path, monkeypatch, in_memory):
    plan, path = small_plan(), tmp_path / "out.zarr"
    stopped = []

    def stop_after_one(progress):
        if progress.done == 1:
            stopped.append(progress)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(plan, path, progress=stop_after_one)
    assert stopped
    left = pending_tiles(open_store(path))
    assert 0 < len(left) < len(plan.tiles())

    run = []
    real = tile.run_tile
    monkeypatch.setattr(tile, "run_tile", lambda plan, index, *rest: run.append(index) or real(plan, index, *rest))
    assert_same(sweep(plan, path, workers=2), in_memory)
    assert sorted(run) == left
    run.clear()
    assert_same(sweep(plan, path), in_memory)
    assert run == []


@pytest.fixture
def ctrl_c_interrupts():
    """Even where the tests run in the background, and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def drop_ctrl_c():
    """Ctrl-C comes while a library ignores what is raised, as pydantic does while it calls a function of Python."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("when", ["as it is prepared", "after a tile"])
def test_an_interruption_that_a_library_drops_counts(when, tmp_path, monkeypatch, ctrl_c_interrupts):
    prepare = local.writable_store
    if when == "as it is prepared":
        monkeypatch.setattr(local, "writable_store", lambda *given, **named: drop_ctrl_c() or prepare(*given, **named))
    plan, path = small_plan(), tmp_path / "out.zarr"
    with pytest.raises(KeyboardInterrupt):
        sweep(plan, path, progress=lambda progress: drop_ctrl_c() if progress.done else None)
    done = len(plan.tiles()) - len(pending_tiles(open_store(path)))
    assert done == 0 if when == "as it is prepared" else 0 < done < len(plan.tiles())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interruption_abandons_the_tiles_in_work(tmp_path, monkeypatch):
    started, interrupted = threading.Event(), threading.Event()
    real = tile.simulate_point

    def slow(point, **options):
        started.set()
        interrupted.wait(10)
        return real(point, **options)

    class InterruptedPool(local.ThreadPoolExecutor):
        def shutdown(self, *args, **kwargs):
            interrupted.set()
            super().shutdown(*args, **kwargs)

    def interrupt(_):
        started.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(tile, "simulate_point", slow)
    monkeypatch.setattr(local, "ThreadPoolExecutor", InterruptedPool)
    monkeypatch.setattr(local, "as_completed", interrupt)
    plan, path = small_plan(), tmp_path / "out.zarr"
    with pytest.raises(KeyboardInterrupt):
        sweep(plan, path, workers=2)
    assert pending_tiles(open_store(path)) == list(plan.tiles())


def test_a_tile_that_raises_is_marked_and_the_rest_go_on(tmp_path, monkeypatch, in_memory):
    plan, path = small_plan(), tmp_path / "out.zarr"
    with monkeypatch.context() as patch:
        failing(patch, lambda point: point.gpu.name == "kepler" and point.scheduler == "gto")
        with pytest.raises(SweepError, match="broken on purpose") as caught:
            sweep(plan, path, workers=2)
    counts = tile_counts(open_store(path).log)
    assert counts.pending == 0
    assert counts.failures == caught.value.failures
    assert "gpu=kepler, alpha=" in next(iter(counts.failures.values()))
    assert caught.value.dataset["valid"].sel(gpu="g80", warps=[4, 8]).all()
    assert not caught.value.dataset["valid"].sel(gpu="kepler").any()
    assert_same(sweep(plan, path), in_memory)
    assert not tile_counts(open_store(path).log).failures


def test_a_failure_in_memory_keeps_the_rest(monkeypatch):
    failing(monkeypatch, lambda point: point.gpu.name == "kepler")
    with pytest.raises(SweepError, match="tiles failed; all others are done") as caught:
        sweep(small_plan())
    assert caught.value.dataset["valid"].sel(gpu="g80", warps=4).all()
    passed_on = pickle.loads(pickle.dumps(caught.value))  # as from a process of a pool
    assert (str(passed_on), passed_on.failures) == (str(caught.value), caught.value.failures)


def test_a_write_that_fails_ends_the_sweep_and_keeps_what_is_done(tmp_path, monkeypatch):
    plan, path = small_plan(), tmp_path / "out.zarr"
    real, written = tile.write_tile, []

    def full(store, index, *rest):
        if written:
            raise OSError("No space left on device")
        written.append(index)
        real(store, index, *rest)

    monkeypatch.setattr(tile, "write_tile", full)
    with pytest.raises(OSError, match="No space left"):
        sweep(plan, path)
    assert tile_counts(open_store(path).log).done == 1


def test_another_plan_is_refused_with_the_difference_and_nothing_is_lost(tmp_path, in_memory):
    path = tmp_path / "out.zarr"
    sweep(small_plan(), path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(StoreError) as caught:
        sweep(small_plan(alpha=[1, 16], cycles=500), path)
    message = str(caught.value)
    assert "holds another plan; it was not changed" in message
    assert "settings.cycles: 500 here, 400 in the store" in message
    assert "settings.alpha: [1, 16] here, [1, 8] in the store" in message
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert_same(open_results(path), in_memory)


def test_a_chip_of_the_same_name_but_other_values_is_another_plan(tmp_path):
    plan = small_plan()
    prepare_store(plan, tmp_path / "out.zarr")
    g80, kepler = plan.values("gpu")
    other = small_plan(gpu=[g80, kepler.model_copy(update={"block_launch_cycles": 7})])
    with pytest.raises(StoreError, match=r"gpus.kepler.block_launch_cycles: 7 here, 201 in the store"):
        prepare_store(other, tmp_path / "out.zarr")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"plan": {"gpu": "kepler"}}, TypeError, "plan = .*: must be a Plan"),
        ({"workers": 0}, ValueError, "workers = 0: must be an integer from 1"),
        ({"workers": 1.5}, TypeError, "workers = 1.5: must be an integer"),
        ({"share": (3, 2), "path": "x.zarr"}, ValueError, r"share = \(3, 2\): must be"),
        ({"share": (1, 2)}, ValueError, r"share = \(1, 2\): a share needs a store"),
        ({"share": 3, "path": "x.zarr"}, TypeError, r"share = 3: must be \(k, n\), two integers"),
        ({"share": (1.0, 2), "path": "x.zarr"}, TypeError, r"share = \(1\.0, 2\): must be \(k, n\), two integers"),
        ({"tiles": [0]}, ValueError, r"tiles = \[0\]: a part of the tiles needs a store; give a path"),
        ({"tiles": 3, "path": "x.zarr"}, TypeError, r"tiles = 3: must be the numbers of tiles, such as \[0, 3\], or None"),
        ({"tiles": ["0"], "path": "x.zarr"}, TypeError, "tiles = '0': must be an integer from 0"),
        ({"tiles": [99], "path": "x.zarr"}, ValueError, "tiles = 99: must be an integer from 0 to"),
        ({"path": 3}, TypeError, "path = 3: must be the path of a store"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        sweep(**{"plan": small_plan(), **arguments})


@pytest.mark.parametrize("arguments", [{}, {"ilp": [1, 2]}])
def test_a_kernel_file_that_changes_while_the_sweep_runs_is_noticed(tmp_path, arguments):
    """The results were those of the later file, and the record of the sweep that of the former one."""
    file = tmp_path / "mine.toml"
    before = 'builder = "chain"\narguments = {op = "alu"}\n'
    file.write_text(before)
    plan = Plan(gpu="kepler", kernel=str(file), warps=[4, 8], **arguments, **SHORT)

    def change(progress):
        file.write_text('builder = "chain"\narguments = {op = "sfu"}\n')

    with pytest.raises(SweepError, match=r"mine\.toml has changed since the sweep began; sweep again with the former file"):
        sweep(plan, tmp_path / "out.zarr", progress=change)
    file.write_text(before)
    assert sweep(plan, tmp_path / "out.zarr")["valid"].all()


def test_results_open_as_a_dataset(tmp_path):
    sweep(small_plan(), tmp_path / "out.zarr")
    assert isinstance(open_results(tmp_path / "out.zarr"), xr.Dataset)
