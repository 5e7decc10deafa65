"""Analytical models of GPU throughput: one paper, one file; all have the same call and names of results.

`NAMES` lists them. Each is imported when it is first asked for, `models.volkov` or `models.load("volkov")`, and has
`throughput(gpu, kernel, warps=...)`; where its paper defines them also `needed_warps`, `execution_time` and
`bottleneck`. What a model does not cover raises `NotCoveredError`. `over_alpha` applies a call to the mixes of V 4.1.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from warpsim.models.parts.common import NotCoveredError, over_alpha

_MODULES = {
    "add_or_overlap": "add_or_overlap",
    "baghsorkhi": "baghsorkhi",
    "chen_aamodt": "chen_aamodt",
    "coarse_grained": "coarse_grained",
    "cuda_guide": "cuda_guide",
    "gpuperf": "sim_2012.gpuperf",
    "huang": "huang",
    "littles_law": "littles_law",
    "mwp_cwp": "hong_kim.mwp_cwp",
    "pipeline": "lemeire.pipeline",
    "roofline": "roofline",
    "volkov": "volkov",
    "zhang_owens": "zhang_owens",
}

NAMES = tuple(_MODULES)
"""Names of the models."""

__all__ = ["NAMES", "NotCoveredError", "load", "over_alpha"]


def load(name: str) -> ModuleType:
    """Return a model by its name.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in NAMES:
        raise ValueError(f"name = {name!r}: one of {', '.join(NAMES)}")
    return import_module(f"{__name__}.{_MODULES[name]}")


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
