"""Comparisons of stores and results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr


def stored_data(path: Path) -> dict[str, bytes]:
    """Returns every file of a store, except those with times (root, records of tiles) and unfinished writes."""
    files = {file.relative_to(path): file for file in path.rglob("*") if file.is_file() and file.suffix != ".partial"}
    return {str(name): file.read_bytes() for name, file in files.items() if name.parts[0] not in ("tiles", "zarr.json")}


def assert_same(first: xr.Dataset, second: xr.Dataset) -> None:
    """Asserts that two results have the same variables, values, attributes of variables and coordinates."""
    assert set(first.data_vars) == set(second.data_vars)
    for name in first.data_vars:
        np.testing.assert_array_equal(first[name], second[name], err_msg=str(name))
        assert first[name].attrs == second[name].attrs
    assert set(first.coords) == set(second.coords)
    for name in first.coords:
        assert first[name].dims == second[name].dims
        assert first[name].values.tolist() == second[name].values.tolist()
