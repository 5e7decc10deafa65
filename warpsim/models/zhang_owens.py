"""The model of Zhang and Owens as V 7.3 restates it.

Y. Zhang, J. Owens, A quantitative performance analysis model for GPU architectures, HPCA 2011; V is V. Volkov, Understanding
Latency Hiding on GPUs, 2016. Each kind of instruction is measured alone at each occupancy, and the largest time counts:

    alu_time = alu instructions x 32 / alu(n)      mem_time = memory instructions x 32 / mem(n)
    Time = max(alu_time, mem_time)                 (a variant that V compares: their sum)

where alu(n) and mem(n) are the measured throughputs in operations per cycle. Times of different arithmetic instructions add
up; shared memory is a third part. `microbenchmarks` gives the kernels to be measured, for `simulate` or for hardware.

Assumed: what a kind of instruction attains alone at an occupancy, it attains in a mix. So it is exact at alpha = 0 and
infinity, and fails between: where latency binds, the same warp counts as executing an arithmetic and a memory
instruction at the same time, and throughput is overestimated by up to a factor of 2 (V Figures 7.5, 7.6). Measured at the same
occupancy only, not at the same block sizes and counts as in the paper (V 7.3). Stores are taken as loads of the same
access. Barriers are not covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.kernels.statements import MEMORY_OPS
from warpsim.models import volkov
from warpsim.models.parts.common import NotCoveredError, axis
from warpsim.models.parts.profile import Part, dataset, profile, refuse

_FREE = ("branch", "exit")


def microbenchmarks(gpu: Gpu, kernel: Kernel) -> dict[str, Kernel]:
    """Return the kernels whose throughput the model needs: a dependent chain of each kind of instruction.

    The keys are those of `measured`: the operation class, with the access or the conflict where it is not the plain
    one, such as "load, stride 2".

    Raises:
        NotCoveredError: the kernel has barriers, or tells the warps of a block apart.
    """
    refuse(kernel, "zhang_owens", "barrier")
    return {_label(part): _chain(part) for part in profile(gpu, kernel).parts if part.op not in _FREE}


def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    measured: Mapping[str, xr.DataArray] | None = None,
    times: Literal["overlap", "add"] = "overlap",
) -> xr.Dataset:
    """Return the throughput from those of the kernel's instructions alone (V 7.3).

    Args:
        gpu: the chip.
        kernel: any without barriers; branches and exits are free.
        warps: warps per SM, at least 0.
        measured: by the keys of `microbenchmarks`: instructions per cycle and SM, over a coordinate `warps` that has all
            the occupancies asked for (but 0). Left out: the refined model of V 6.5 for each microbenchmark, whose
            contention curve is V's fit to such measurements.
        times: "overlap", or "add" for the variant.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        NotCoveredError: the kernel has barriers, or tells the warps of a block apart.
        TypeError: `warps` are no numbers.
        ValueError: `warps` is below 0, `measured` lacks an instruction or an occupancy, or there are no such `times`.
    """
    if times not in ("overlap", "add"):
        raise ValueError(f"times = {times!r}: 'overlap' or 'add'")
    n = axis("warps", warps, at_least=0)
    needed = microbenchmarks(gpu, kernel)
    of = profile(gpu, kernel)
    if measured is None:
        occupancies = np.unique(np.where(n.values > 0, n.values, 1.0))
        measured = {
            label: volkov.throughput(gpu, chain, warps=occupancies, refined=True)["ipc"].sum("op")
            for label, chain in needed.items()
        }
    lacking = sorted(needed.keys() - measured.keys())
    if lacking:
        raise ValueError(f"measured = {', '.join(measured) or 'nothing'}: also {', '.join(lacking)}")
    together: dict[str, xr.DataArray] = {}
    for part in of.parts:
        if part.op not in _FREE:
            name = "memory" if part.op in MEMORY_OPS else "smem" if part.op == "smem" else "arithmetic"
            time = part.count / _at(measured[_label(part)], n, _label(part))
            together[name] = together.get(name, 0.0) + time
    if not together:
        raise NotCoveredError(f"{kernel.name}: nothing but branches and exits, which are free")
    parts = xr.concat(list(together.values()), dim="part")
    rate = 1 / (parts.max("part") if times == "overlap" else parts.sum("part", skipna=False))
    return dataset(of, rate.where(n > 0, 0.0), n, source="warpsim.models.zhang_owens, V 7.3")


def execution_time(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    measured: Mapping[str, xr.DataArray] | None = None,
) -> xr.DataArray:
    """Return the cycles in which the warps of an SM are executed once, or repeat their endless loop once."""
    return throughput(gpu, kernel, warps=warps, measured=measured)["execution_time"]


def _at(ipc: xr.DataArray, warps: xr.DataArray, label: str) -> xr.DataArray:
    """Return the measured throughput at the occupancies; NaN without warps."""
    missing = sorted(set(warps.values[warps.values > 0].flat) - set(np.atleast_1d(ipc["warps"].values)))
    if missing:
        raise ValueError(f"measured[{label!r}]: no throughput at {', '.join(f'{m:g}' for m in missing)} warps")
    by_warps = dict(zip(np.atleast_1d(ipc["warps"].values), np.atleast_1d(ipc.values), strict=True))
    return warps.copy(data=np.array([by_warps.get(w, np.nan) for w in warps.values.flat]).reshape(warps.shape))


def _label(part: Part) -> str:
    access, ways = part.instruction.access, part.instruction.ways
    plain = Instruction("load").access
    op = "load" if part.op in MEMORY_OPS else part.op
    if access is not None and access != plain:
        changed = [
            f"{name.removeprefix('bytes_per_')} {value}" if name != "pattern" else str(value)
            for name, value in access.model_dump(exclude_defaults=True).items()
            if name != "pattern" or value not in ("stride", "addresses")
        ]
        return ", ".join([op, *changed])
    return f"{op}, {ways}-way" if ways > 1 else op


def _chain(part: Part) -> Kernel:
    op = "load" if part.op in MEMORY_OPS else part.op
    link = Instruction(op, dst="r1", src=("r1",), access=part.instruction.access, ways=part.instruction.ways)
    body = (Loop(body=(link,), trips=None),)
    return Kernel(name=f"{op}_chain", source="V 6.1", registers_per_thread=8, inputs=("r1",), body=body)
