"""Three closed models of fine-grained multithreading without a memory system (V 4.13).

Source: X. Chen, T. Aamodt, A first-order fine-grained multithreaded throughput model, HPCA 2009, as restated in V 4.13. V is
Volkov 2016 (docs/bibliography.md). If tau is the throughput of one thread alone, n threads attain::

    model 1: tau            model 2: n tau            model 3: 1 - (1 - tau)^n

The paper describes a processor that issues one instruction per cycle. Here each warp scheduler is such a processor, its cycle
is the issue interval, and the warps of the SM are divided evenly (n / schedulers, which may be a fraction).

Assumptions: All threads are alike. Model 1 ignores multithreading, model 2 has no upper bound. Model 3 is bound by issue and
takes threads to be ready independently of each other, which makes it saturate gradually.

Limits: None of the models knows the memory system, the number of CUDA cores or other units, so they overestimate throughput
wherever one of these binds. The paper's fourth model has no closed form. Barriers are not covered.
"""

from __future__ import annotations

from typing import Literal

import xarray as xr
from numpy.typing import ArrayLike

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.by_class import class_counts, dataset, refuse
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis
from warpsim.models.parts.warp_path import warp_path


@accepts_names
def throughput(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, model: Literal[1, 2, 3] = 3
) -> xr.Dataset:
    """Returns the throughput by one of the three models.

    Args:
        gpu: the chip.
        kernel: any kernel without barriers; the rate of a warp alone is that of the latency bound (V 3.7).
        warps: warps per SM, at least 0.
        model: 1, 2 or 3. Model 1 gives the throughput of one warp in each scheduler.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        NotCoveredError: the kernel has barriers, or treats the warps of a block differently.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0, or `model` is another number.
    """
    if model not in (1, 2, 3):
        raise ValueError(f"model = {model!r}: must be 1, 2 or 3")
    refuse(kernel, "chen_aamodt", "barrier")
    of = class_counts(gpu, kernel)
    n = axis("warps", warps, at_least=0)
    alone = of.total / warp_path(gpu, kernel).cycles
    tau = alone * gpu.issue.interval_cycles
    if tau > 1:
        raise NotCoveredError(f"{kernel.name}: chen_aamodt does not cover warps that issue more than one instruction at a time")
    each = n / gpu.sm.schedulers
    one: xr.DataArray = (each > 0) * tau
    attained = {1: one, 2: each * tau, 3: 1 - (1 - tau) ** each}[model]
    rate = attained * gpu.issue_ipc / of.total
    return dataset(of, rate, n, source=f"warpsim.models.chen_aamodt, V 4.13, model {model}")


@accepts_names
def execution_time(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, model: Literal[1, 2, 3] = 3
) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop."""
    return throughput(gpu, kernel, warps=warps, model=model)["execution_time"]
