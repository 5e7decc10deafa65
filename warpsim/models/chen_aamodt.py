"""Three closed models of fine-grained multithreading without a memory system (V 4.13).

X. Chen, T. Aamodt, A first-order fine-grained multithreaded throughput model, HPCA 2009, as V 4.13 restates it (V. Volkov,
Understanding Latency Hiding on GPUs, 2016). With tau the throughput of one thread alone:

    model 1: tau            model 2: n tau            model 3: 1 - (1 - tau)^n

The paper is about a processor that issues 1 instruction per cycle. Here a warp scheduler is such a
processor, with the warps of the SM shared out evenly (n / schedulers, which may be a fraction), and a cycle is its issue
interval.

Assumed: threads are alike. Model 1 ignores multithreading; model 2 has no bound; model 3 is bound by issue alone, and takes the
threads to be ready independently of each other, from which its gradual saturation comes. None knows the limits of the
memory system, of CUDA cores or of other units: they overestimate wherever one of these binds. The paper's fourth model has
no closed form. Barriers are not covered.
"""

from __future__ import annotations

from typing import Literal

import xarray as xr
from numpy.typing import ArrayLike

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.common import NotCoveredError, axis
from warpsim.models.parts.profile import dataset, profile, refuse
from warpsim.models.parts.warp_path import warp_path


def throughput(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, model: Literal[1, 2, 3] = 3
) -> xr.Dataset:
    """Return the throughput by one of the three models.

    Args:
        gpu: the chip.
        kernel: any without barriers; what a warp alone attains is V's latency bound (V 3.7).
        warps: warps per SM, at least 0.
        model: 1, 2 or 3. With model 1 it is that of one warp in each scheduler.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        NotCoveredError: the kernel has barriers, or tells the warps of a block apart.
        TypeError: `warps` are no numbers.
        ValueError: `warps` is below 0, or there is no such model.
    """
    if model not in (1, 2, 3):
        raise ValueError(f"model = {model!r}: 1, 2 or 3")
    refuse(kernel, "chen_aamodt", "barrier")
    of = profile(gpu, kernel)
    n = axis("warps", warps, at_least=0)
    alone = of.total / warp_path(gpu, kernel).cycles
    tau = alone * gpu.issue.interval_cycles
    if tau > 1:
        raise NotCoveredError(f"{kernel.name}: a warp issues more than one instruction at a time")
    each = n / gpu.sm.schedulers
    one: xr.DataArray = (each > 0) * tau
    attained = {1: one, 2: each * tau, 3: 1 - (1 - tau) ** each}[model]
    rate = attained * gpu.issue_ipc / of.total
    return dataset(of, rate, n, source=f"warpsim.models.chen_aamodt, V 4.13, model {model}")


def execution_time(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, model: Literal[1, 2, 3] = 3
) -> xr.DataArray:
    """Return the cycles in which the warps of an SM are executed once, or repeat their endless loop once."""
    return throughput(gpu, kernel, warps=warps, model=model)["execution_time"]
