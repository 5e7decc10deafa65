"""What a result comes from, by its provenance: the plan of a sweep, or the point of a single run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from warpsim.simulation.point import Point, from_provenance, make_point
from warpsim.sweeps.plan import Plan

if TYPE_CHECKING:
    import xarray as xr

INDIFFERENT = ("warps", "warps_per_scheduler", "scheduler", "memory", "seed", "sms", "warmup")
"""Axes that change neither the chip nor the program."""


def origin(text: str) -> Plan | Point:
    """The plan or the point of a provenance.

    Raises:
        KeyError: it lacks something, as that of another version may.
        ValueError: it is of neither a sweep nor a run, or a kernel is another one now.
    """
    if json.loads(text).get("function") != "simulate":
        return Plan.from_provenance(text)
    call = from_provenance(text)
    call.pop("trace", None)
    return make_point(**call)


def indices(plan: Plan, results: xr.Dataset) -> dict[str, list[int]]:
    """For each axis of the plan, where on it the labels of a result stand, which may hold a part of the sweep.

    Raises:
        KeyError: a label is not on the axis.
    """
    places = {name: {label: i for i, label in enumerate(axis.labels())} for name, axis in plan.axes.items()}
    return {name: [of[label] for label in np.atleast_1d(results[name].values).tolist()] for name, of in places.items()}
