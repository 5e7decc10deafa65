"""warpsim: a Monte Carlo simulator of GPU warp schedulers.

What is listed here is the public API. A name is imported when it is first used, so that what is not needed costs
nothing. `kernels` holds the builders of kernels, `models` the analytical models, `plots` the figures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsim import kernels, models
    from warpsim.advice import advise
    from warpsim.batch.local import SweepError, sweep
    from warpsim.batch.plan import Plan
    from warpsim.drive import DeadlockError, TraceLimitError
    from warpsim.gpu import Gpu, GpuFileError, list_gpus, load_gpu, write_queue_parameters
    from warpsim.kernels import (
        Access,
        Conditional,
        Instruction,
        Kernel,
        KernelFileError,
        Loop,
        list_kernels,
        load_kernel,
    )
    from warpsim.residency import InvalidPoint, Launch, Residency, occupancy
    from warpsim.results import plots
    from warpsim.side_by_side import Comparison, compare
    from warpsim.simulation import simulate
    from warpsim.store.provenance import from_provenance
    from warpsim.store.zarr_store import StoreError, open_results
    from warpsim.trace import Trace

__version__ = "0.1.0"

_MODULES = {
    "gpu": ("Gpu", "GpuFileError", "list_gpus", "load_gpu", "write_queue_parameters"),
    "kernels": (
        "Access", "Conditional", "Instruction", "Kernel", "KernelFileError", "Loop", "list_kernels", "load_kernel",
    ),
    "residency": ("InvalidPoint", "Launch", "Residency", "occupancy"),
    "simulation": ("simulate",),
    "advice": ("advise",),
    "side_by_side": ("Comparison", "compare"),
    "batch.plan": ("Plan",),
    "batch.local": ("SweepError", "sweep"),
    "drive": ("DeadlockError", "TraceLimitError",),
    "trace": ("Trace",),
    "store.zarr_store": ("StoreError", "open_results"),
    "store.provenance": ("from_provenance",),
}  # fmt: skip
_SUBMODULES = {"kernels": "kernels", "models": "models", "plots": "results.plots"}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_GIVES_RESULTS = ("simulate", "advise", "compare", "sweep", "open_results", "models")

__all__ = [
    "Access",
    "Comparison",
    "Conditional",
    "DeadlockError",
    "Gpu",
    "GpuFileError",
    "Instruction",
    "InvalidPoint",
    "Kernel",
    "KernelFileError",
    "Launch",
    "Loop",
    "Plan",
    "Residency",
    "StoreError",
    "SweepError",
    "Trace",
    "TraceLimitError",
    "__version__",
    "advise",
    "compare",
    "from_provenance",
    "kernels",
    "list_gpus",
    "list_kernels",
    "load_gpu",
    "load_kernel",
    "models",
    "occupancy",
    "open_results",
    "plots",
    "simulate",
    "sweep",
    "write_queue_parameters",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'warpsim' has no attribute {name!r}")
    if name in _GIVES_RESULTS:
        import_module("warpsim.results.accessor")  # ds.warpsim
    if name in _SUBMODULES:
        value: Any = import_module(f"warpsim.{_SUBMODULES[name]}")
    else:
        value = getattr(import_module(f"warpsim.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
