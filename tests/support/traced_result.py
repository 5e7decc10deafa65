"""A small traced result made by hand: two SMs with two schedulers each, and distinct numbers."""

from __future__ import annotations

import numpy as np
import xarray as xr

NAN = float("nan")
WARPS = [  # start, last resident cycle, sm, scheduler, slot, block; warp 4 is resident to the end
    (0, 99, 0, 0, 0, 0),
    (0, 149, 0, 1, 1, 0),
    (0, 79, 1, 0, 0, 1),
    (100, 180, 0, 0, 0, 2),
    (80, NAN, 1, 0, 0, 3),
]
ISSUES = [(10, 0, 0, 0, 0), (11, 0, 1, 1, 0), (12, 0, 0, 0, 1), (12, 0, 0, 0, 2)]  # cycle, sm, scheduler, slot, line
CHANGES = [(0, 0, 2), (0, 1, 1), (100, 0, 2), (150, 0, 1), (181, 0, 0)]  # cycle, sm, resident warps
TEXT = ["load r0", "alu r1 r0", "alu r2"]


def traced_result() -> xr.Dataset:
    """Returns some variables of a traced run of two replicates. The second replicate has one row of each kind, then padding."""

    def columns(prefix: str, names: str, rows: list[tuple[float, ...]], dim: str) -> dict[str, tuple[tuple[str, str], object]]:
        arrays = {}
        for name, column in zip(names.split(), np.array(rows, float).T, strict=True):
            second = np.full_like(column, NAN)
            second[0] = column[0]
            arrays[f"{prefix}_{name}"] = (("replicate", dim), np.stack([column, second]))
        return arrays

    variables = columns("warp", "start end sm scheduler slot block", WARPS, "warp")
    variables |= columns("issue", "cycle sm scheduler slot line", ISSUES, "issue")
    variables |= columns("occupancy_change", "cycle sm warps", CHANGES, "change")
    variables["bandwidth_over_time"] = (("replicate", "time"), [[1.5, 2.5], [1.0, 1.0]], {"units": "GB/s"})
    variables["instructions_over_time"] = (("replicate", "time"), [[3.0, 1.0], [0.0, 0.0]], {"units": "instructions"})
    variables["warp_cycles_over_time"] = (
        ("replicate", "time", "state"), [[[90.0, 10.0], [80.0, 20.0]]] * 2, {"units": "warp cycles"},
    )  # fmt: skip
    coordinates = {"replicate": [0, 1], "time": [0, 100], "state": np.array(["selected", "wait"], object),
                   "warp": range(5), "line": [0, 1, 2], "line_text": ("line", np.array(TEXT, object))}  # fmt: skip
    return xr.Dataset(variables, coordinates)
