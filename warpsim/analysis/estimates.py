"""What the analytical models advise for a kernel, under the names of their authors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from warpsim import models
from warpsim.analysis.occupancy_search import enough, same_size_launches, warps_held
from warpsim.hardware.residency import Launch
from warpsim.models.parts.counts import counts
from warpsim.simulation.point import Point

VOLKOV, SIM = "Volkov 2016", "Sim et al. 2012"
"""The two models that predict the gain of every change."""

AUTHORS: dict[str, tuple[str, dict[str, Any]]] = {
    VOLKOV: ("volkov", {}),
    "Volkov 2016, latency under load": ("volkov", {"refined": True}),
    SIM: ("gpuperf", {}),
    "Baghsorkhi et al. 2010": ("baghsorkhi", {}),
    "CUDA C Programming Guide": ("cuda_guide", {}),
    "Lemeire et al.": ("pipeline", {}),
    "Little's law": ("littles_law", {}),
}
"""Authors -> a model that has `needed_warps`, and its arguments (docs/models.md)."""

LONGEST_GRAPH = 10_000
"""Instructions that a warp executes, at most, where Lemeire et al. are asked: with more, their Algorithm 1, which unrolls all
loops, takes longer than the simulation."""


class Estimate(NamedTuple):
    """The occupancy that a model advises.

    Attributes:
        warps: needed warps per SM, not rounded; can be infinite.
        launch: the launch with the fewest warps that suffice, or the largest that fits, in blocks of the present size.
        rate: the throughput that the model predicts for the warps that an SM holds in that launch, in warps or repetitions per
            cycle and SM.
    """

    warps: float
    launch: Launch
    rate: float


def estimates(point: Point, fraction: float, **arguments: Any) -> dict[str, Estimate]:
    """Returns what each model of AUTHORS advises that covers the kernel and the chip.

    Args:
        point: what is to be advised.
        fraction: fraction of the peak that the needed warps attain.
        arguments: further arguments of models, such as `departure_delay`; each model is given those that it takes.
    """
    launches = same_size_launches(point)
    counted = counts(point.gpu, point.kernel, block_warps=point.launch.block_warps)
    executed = counted.total - counted.ops.get("exit", 0.0)  # the model of Lemeire et al. has no exits
    given = {**arguments, "block_warps": point.launch.block_warps}
    found = {}
    for author, (name, own) in AUTHORS.items():
        if name == "pipeline" and counted.total > LONGEST_GRAPH:
            continue
        model = models.load(name)
        try:
            warps = model.needed_warps(point.gpu, point.kernel, fraction=fraction, **own, **_taken(model.needed_warps, given))
            launch = enough(launches, math.ceil(warps - 1e-9) if math.isfinite(warps) else math.inf)
            there = model.throughput(
                point.gpu, point.kernel, warps=warps_held(point, launch), **own, **_taken(model.throughput, given)
            )
        except ValueError:  # the point has been simulated, so the model does not cover it
            continue
        found[author] = Estimate(warps, launch, float(there["ipc"].drop_sel(op="exit").sum()) / executed)
    return found


def _taken(function: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the arguments that a function takes by name, or all of them if it passes them on."""
    parameters = inspect.signature(function).parameters
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in arguments.items() if passes_on or name in parameters}
