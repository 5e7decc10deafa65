"""Inputs and outputs of the report for tests."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import xarray as xr


def page_data(text: str) -> dict[str, Any]:
    """Returns the JSON data of a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(text)


def many_points(points: int) -> xr.Dataset:
    """Returns a result with this number of points and a different number at each."""
    rng = np.random.default_rng(1)
    shape = (2, points // 2, 1)
    dims = ("scheduler", "alpha", "replicate")
    values = rng.random(shape)
    names = {"scheduler": ["lrr", "gto"], "alpha": np.linspace(0, 99, points // 2)}
    return xr.Dataset({"peak_fraction": (dims, values), "bandwidth": (dims, 100 * values, {"units": "GB/s"})}, names)
