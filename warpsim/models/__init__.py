"""Analytical models of GPU throughput: one paper, one file; all have the same call and names of results.

`NAMES` lists them. Each is imported when it is first asked for, `models.volkov` or `models.load("volkov")`, and has
`throughput(gpu, kernel, warps=...)`; where its paper defines them also `needed_warps`, `execution_time` and
`bottleneck`. What a model does not cover raises `NotCoveredError`. `over_alpha` applies a call to the mixes of V 4.1.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from warpsim.models.common import NotCoveredError, over_alpha

NAMES = (
    "add_or_overlap",
    "baghsorkhi",
    "chen_aamodt",
    "coarse_grained",
    "cuda_guide",
    "gpuperf",
    "huang",
    "littles_law",
    "mwp_cwp",
    "pipeline",
    "roofline",
    "volkov",
    "zhang_owens",
)
"""The models, each a module of this package."""

__all__ = ["NAMES", "NotCoveredError", "load", "over_alpha"]


def load(name: str) -> ModuleType:
    """Return a model by its name.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in NAMES:
        raise ValueError(f"name = {name!r}: one of {', '.join(NAMES)}")
    return import_module(f"{__name__}.{name}")


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
