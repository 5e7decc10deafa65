"""The notebooks run from top to bottom and are stored without outputs; plots of results have labels."""

import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import warpsim.results.accessor  # noqa: F401
from warpsim.store.zarr_store import open_results

ROOT = Path(__file__).resolve().parents[2]

NOTEBOOKS = sorted((ROOT / "experiments" / "notebooks").glob("*.ipynb"))


def read(path):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def run(path, folder):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = read(path)
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def images(outputs):
    return [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def text(outputs):
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


def times_of_files(folder):
    """Returns when each file was written. The time of a folder changes with each lease, which is a file for a while."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_there_is_a_tour():
    assert "sweep_tour.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
        assert not cell.metadata


def test_the_tour_of_a_sweep(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    path = ROOT / "experiments" / "notebooks" / "sweep_tour.ipynb"
    first = run(path, tmp_path)
    assert len(images(first)) == 5
    written = times_of_files(tmp_path / "sweep_tour.zarr")
    second = run(path, tmp_path)
    assert times_of_files(tmp_path / "sweep_tour.zarr") == written
    assert images(second) == images(first)
    printed = text(second)
    assert "points: 112 valid: 104" in printed
    assert "median width of the interval of the difference" in printed
    assert "<warpsim.Plan (gpu: 2, alpha: 4, warps: 7, scheduler: 2)" in printed


def test_every_variable_and_coordinate_of_a_store_has_a_unit_and_a_long_name(store):
    with xr.open_zarr(store) as plain:
        for ds in (open_results(store), plain):
            assert {"ipc", "valid"} <= set(ds.data_vars)
            for name, array in ds.variables.items():
                assert array.attrs["units"] and array.attrs["long_name"], name


def test_plots_of_results_have_labels(store):
    ds = open_results(store).sel(gpu="kepler", scheduler="gto", alpha=8)
    figure, ax = plt.subplots()
    ds.bandwidth.mean("replicate", keep_attrs=True).plot(ax=ax)
    assert ax.get_xlabel() == "occupancy [warps/SM]"
    assert ax.get_ylabel().replace("\n", " ") == "memory bandwidth of the chip [GB/s]"
    plt.close(figure)
    for name, derived in {
        **ds.warpsim.interval("bandwidth"),
        **open_results(store).warpsim.paired_difference("bandwidth"),
        **open_results(store).warpsim.needed_warps(0.1),
        **open_results(store).warpsim.mean(),
    }.items():
        assert derived.attrs["units"] and derived.attrs["long_name"], name
        assert np.issubdtype(derived.dtype, np.number) or derived.dtype == bool
