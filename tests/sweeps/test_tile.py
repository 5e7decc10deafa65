"""A tile is a pure function of the plan and its index."""

import numpy as np
import pytest
import xarray as xr

from tests.support.small_plans import SHORT, small_plan, tile_dataset
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.simulation.api import simulate
from warpsim.sweeps import tile
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.tile import TileError, run_tile


def test_a_tile_is_the_same_every_time_and_in_any_order():
    plan = small_plan()
    forwards = {index: tile_dataset(plan, index) for index in plan.tiles()}
    backwards = {index: tile_dataset(small_plan(), index) for index in reversed(plan.tiles())}
    assert len(plan.tiles()) > 1
    for index in plan.tiles():
        xr.testing.assert_identical(forwards[index], backwards[index])


def test_a_point_of_a_tile_is_what_simulate_gives():
    results = tile_dataset(small_plan(), 1).sel(gpu="g80", alpha=8, warps=8, scheduler="gto")
    alone = simulate(load_gpu("g80"), mix(alpha=8), warps=8, scheduler="gto", replicates=2, **SHORT)
    for name in alone.data_vars:
        if name != "occupancy_fraction":
            np.testing.assert_array_equal(results[name], alone[name], err_msg=str(name))


def test_points_beyond_the_chip_are_nan_and_not_valid():
    results = tile_dataset(small_plan(), 0)
    assert results["valid"].sel(warps=[4, 8]).all()
    assert not results["valid"].sel(warps=48).any()
    beyond = results.drop_vars("valid").sel(warps=48)
    assert all(beyond[name].isnull().all() for name in beyond.data_vars)


def test_operation_classes_of_other_chips_are_nan():
    kepler = load_gpu("kepler")
    ops = {"fp64": kepler.ops["sfu"], **kepler.ops}
    richer = kepler.model_copy(update={"name": "richer", "ops": ops})
    plan = Plan(gpu=[kepler, richer], kernel="mix", alpha=4, warps=8, **SHORT)
    ipc = tile_dataset(plan, 0)["ipc"].isel(replicate=0)
    assert ipc["op"].values.tolist()[-1] == "fp64"
    assert np.isnan(ipc.sel(gpu="kepler", op="fp64"))
    assert ipc.sel(gpu="richer", op="fp64") == 0.0
    assert (ipc.sel(op=["alu", "load"]) > 0.0).all()


def test_a_plan_without_axes_is_one_tile():
    plan = Plan(gpu="kepler", kernel="mix", warps=8, **SHORT)
    assert len(plan.tiles()) == 1
    results = tile_dataset(plan, 0)
    assert results["valid"].shape == ()
    assert results["bandwidth"].dims == ("replicate",)


def test_a_point_that_fails_is_named(monkeypatch):
    real = tile.simulate_point

    def broken(point, **options):
        if point.scheduler == "gto" and point.launch.resident_warps == 8:
            raise ZeroDivisionError("a bug")
        return real(point, **options)

    monkeypatch.setattr(tile, "simulate_point", broken)
    with pytest.raises(
        TileError, match=r"^gpu=g80, alpha=1, warps=8, scheduler=gto: ZeroDivisionError: a bug$"
    ):
        run_tile(small_plan(), 0)


def test_a_tile_can_be_abandoned_between_points():
    calls = []

    def pause():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tile(small_plan(), 0, pause)
    assert len(calls) == 3
