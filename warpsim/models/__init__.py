"""Analytical models of GPU throughput, one for each of these papers or textbooks.

==================  ==================================================================================
`add_or_overlap`    times of arithmetic and memory taken alone, then added or overlapped (V 4.11, 4.12)
`baghsorkhi`        program graph of a warp, of Baghsorkhi et al. 2010
`chen_aamodt`       fine-grained multithreading of Chen and Aamodt 2009
`coarse_grained`    switching at memory accesses, and prefetching (V 4.9)
`cuda_guide`        needed occupancy of the CUDA C Programming Guide (V 4.8)
`gpuperf`           GPUPerf of Sim et al. 2012
`huang`             GPUMech of Huang et al. 2014
`littles_law`       needed concurrency = latency x throughput (V 3.1 to 3.3)
`mwp_cwp`           MWP and CWP of Hong and Kim 2009
`pipeline`          pipelines of a compute unit, of Lemeire et al.
`roofline`          Williams et al. 2009
`volkov`            latency and throughput bounds of Volkov 2016
`zhang_owens`       throughput from microbenchmarks, Zhang and Owens 2011
==================  ==================================================================================

Every model has `throughput(gpu, kernel, warps=...)` and returns a Dataset with the names of a simulation. Where the paper
defines them it also has `needed_warps`, `execution_time` and `bottleneck`. A model raises `NotCoveredError` for a kernel or
chip that it does not cover. `over_alpha` evaluates a model on the mixes of V 4.1.

A model of one file is a module of this package. A paper that needs several files has a folder: `volkov/`, `hong_kim/` with
`mwp_cwp`, `sim_2012/` with `gpuperf`, and `lemeire/` with `pipeline`. `parts/` holds what models share. The last four folders
have no `__init__.py`, since they are no models, and `help` lists every package here. `models.NAME` and `load("NAME")` find every
model; each is imported when it is first used.

V is Volkov 2016; docs/bibliography.md lists the papers, docs/models.md describes the models with examples.
"""

from importlib import import_module
from types import ModuleType
from typing import Any

import lazy_loader

from warpsim.arguments import choice

_lazily, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

_FOLDERS = {"mwp_cwp": "hong_kim", "gpuperf": "sim_2012", "pipeline": "lemeire"}
"""Model -> its folder, if that has another name."""


def __getattr__(name: str) -> Any:
    return import_module(f"{__name__}.{_FOLDERS[name]}.{name}") if name in _FOLDERS else _lazily(name)


NAMES = tuple(sorted({*__all__} - {"NotCoveredError", "over_alpha"}))
"""Names of the models."""

__all__ += ["NAMES", "load"]


def __dir__() -> list[str]:
    return sorted(__all__)


def load(name: str) -> ModuleType:
    """Returns a model by its name.

    Raises:
        TypeError: `name` is not a string.
        ValueError: there is no model of this name.
    """
    model: ModuleType = __getattr__(choice("name", name, NAMES))
    return model
