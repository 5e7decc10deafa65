"""Saved results that are damaged: one error with the name of the file, whichever command opens it."""

import json
import shutil

import numpy as np
import pytest

from tests.support.small_plans import small_plan
from warpsim import cli
from warpsim.cli.opening import opened
from warpsim.simulation.api import simulate
from warpsim.simulation.trace import Trace
from warpsim.store.create import create_store
from warpsim.sweeps.local import sweep

COMMANDS = {
    "report": ["report"],
    "lines": ["plot", "--y", "bandwidth", "--x", "warps", "--where", "alpha=8"],
    "needed-warps": ["plot", "--kind", "needed-warps"],
    "roofline": ["plot", "--kind", "roofline"],
    "states": ["plot", "--kind", "states", "--where", "alpha=8", "--where", "scheduler=gto"],
}
WHATEVER_IS_DRAWN = ["report", "lines"]


@pytest.fixture(scope="module")
def results():
    return sweep(small_plan(gpu="kepler", cycles=300))


@pytest.fixture
def refused(tmp_path, capsys):
    def refused(path, command):
        first, *rest = COMMANDS[command]
        ending = "html" if first == "report" else "png"
        assert cli.main([first, str(path), *rest, "-o", str(tmp_path / f"out.{ending}")]) == 2
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert said.startswith(f"warpsim: {path}: ")
        assert not (tmp_path / f"out.{ending}").exists()
        return said

    return refused


@pytest.mark.parametrize("command", WHATEVER_IS_DRAWN)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.5, 0.99])
def test_a_truncated_netcdf_file(results, refused, tmp_path, command, share):
    file = tmp_path / "saved.nc"
    results.to_netcdf(file, engine="scipy")
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    assert "that is not damaged; reading it failed: " in refused(file, command)


@pytest.mark.parametrize("command", WHATEVER_IS_DRAWN)
@pytest.mark.parametrize("name", ["bandwidth/0.0.0.0", "scheduler/0", "bandwidth/.zarray", "bandwidth/.zattrs"])
def test_a_damaged_zarr_group(results, refused, tmp_path, command, name):
    folder = tmp_path / "saved.zarr"
    results.to_zarr(folder, zarr_format=2)
    (folder / name).write_bytes(b"\x00\xff" * 9)
    refused(folder, command)


@pytest.mark.parametrize(
    ("command", "variable"),
    [("report", "peak_fraction"), ("needed-warps", "peak_fraction"), ("states", "warp_cycles")],
)
def test_a_missing_variable(results, refused, tmp_path, command, variable):
    file = tmp_path / "saved.nc"
    results.drop_vars(variable).to_netcdf(file, engine="scipy")
    assert variable in refused(file, command)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("labels", ["alpha", "state", "op"])
def test_missing_labels(results, refused, tmp_path, command, labels):
    file = tmp_path / "saved.nc"
    results.drop_vars(labels).to_netcdf(file, engine="scipy")
    assert f"must have the labels of {labels}, along which it has" in refused(file, command)


@pytest.mark.parametrize("command", COMMANDS)
def test_text_in_the_place_of_numbers(results, refused, tmp_path, command):
    file = tmp_path / "saved.nc"
    wrong = results["peak_fraction"].copy(data=np.full(results["peak_fraction"].shape, "a"))
    results.assign(peak_fraction=wrong).to_netcdf(file, engine="scipy")
    assert "must have numbers as peak_fraction" in refused(file, command)


@pytest.mark.parametrize("record", ["{", "{}", "5"])
def test_a_damaged_record(results, refused, tmp_path, record):
    file = tmp_path / "saved.nc"
    results.assign_attrs(provenance=record).to_netcdf(file, engine="scipy")
    assert "provenance: " in refused(file, "roofline")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_of_another_version(refused, tmp_path, command):
    folder = tmp_path / "store.zarr"
    create_store(folder, small_plan().layout())
    record = json.loads((folder / "zarr.json").read_text())
    record["attributes"]["warpsim_schema"] = 99
    (folder / "zarr.json").write_text(json.dumps(record))
    assert "99" in refused(folder, command)
    shutil.rmtree(folder)


@pytest.mark.parametrize("command", WHATEVER_IS_DRAWN)
def test_a_damaged_store_is_no_saved_result(refused, tmp_path, command):
    folder = tmp_path / "store.zarr"
    create_store(folder, small_plan().layout())
    root = folder / "zarr.json"
    root.write_text(root.read_text().replace("warpsim_schema", "warpsim_schemb"))
    assert "the file zarr.json has changed" in refused(folder, command)


@pytest.mark.parametrize("command", WHATEVER_IS_DRAWN)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alpha", "must have different labels along alpha"),
        ("scheduler", "must have different labels along scheduler"),
        ("bandwidth", "must have cycles and bandwidth at the same points"),
        ("warp_cycles", "must have cycles and warp_cycles at the same points"),
        ("ipc", "must have instructions and ipc at the same points"),
        ("cycles", "must have cycles and warmup_cycles at the same points"),
        ("valid", "must have valid and cycles at the same points"),
    ],
)
def test_a_lost_chunk_of_a_saved_result(results, refused, tmp_path, command, name, message):
    folder = tmp_path / "saved.zarr"
    results.to_zarr(folder, consolidated=False)
    shutil.rmtree(folder / name / "c")
    assert message in refused(folder, command)


def test_results_without_some_points_and_replicates_are_whole(tmp_path):
    """Points that do not fit on a chip, and replicates that a tolerance does not need, have no numbers in any variable."""
    made = sweep(small_plan(replicates={"rtol": 0.2, "least": 2, "most": 4, "of": "bandwidth"}))
    folders = [tmp_path / "all.zarr", tmp_path / "some.zarr", tmp_path / "mean.zarr"]
    for folder, saved in zip(folders, [made, made.where(made["ipc"].sum("op") > 1), made.mean("replicate")], strict=True):
        saved.assign_attrs(made.attrs).to_zarr(folder, consolidated=False)
        opened(str(folder))


def test_the_variables_have_the_same_order_from_every_file(tmp_path):
    ds = simulate("kepler", "vector_add", warps=4, sms=1, warmup=100, cycles=300, trace=Trace(occupancy=True, states=3))
    ds.to_zarr(tmp_path / "run.zarr", consolidated=False)
    ds.to_netcdf(tmp_path / "run.nc")
    ds[list(ds.data_vars)[::-1]].to_zarr(tmp_path / "reversed.zarr", consolidated=False)
    files = [opened(str(tmp_path / name))[0] for name in ("run.zarr", "run.nc", "reversed.zarr")]
    assert all(saved.equals(ds) and saved.attrs == ds.attrs for saved in files)
    assert [list(saved.data_vars)[:3] for saved in files] == [["cycles", "warmup_cycles", "warp_iterations"]] * 3
    assert len({tuple(saved.data_vars) for saved in files}) == 1
