"""The model of Zhang and Owens: throughput of a kernel from microbenchmarks of its instructions (V 7.3).

Source: Y. Zhang, J. Owens, A quantitative performance analysis model for GPU architectures, HPCA 2011, as restated in V 7.3. V is
Volkov 2016 (docs/bibliography.md). Each class of instructions is measured alone at each occupancy. The largest time counts::

    alu_time = alu instructions x 32 / alu(n)      mem_time = memory instructions x 32 / mem(n)
    Time = max(alu_time, mem_time)                 (V also compares a variant: their sum)

alu(n) and mem(n) are the measured throughputs in operations per cycle. Times of different arithmetic instructions add up, and
shared memory is a third part. `microbenchmarks` returns the kernels to measure, by `simulate` or on hardware.

Assumptions: An instruction class attains in a mix what it attains alone at that occupancy. Measurements are taken at the same
occupancy, but not at the same block sizes and counts as in the paper (V 7.3). Stores count as loads of the same access.

Limits: The model is exact at alpha = 0 and infinity and fails between. Where latency binds, it lets a warp execute an
arithmetic and a memory instruction at the same time, and overestimates throughput by up to a factor of 2 (V Figures 7.5, 7.6).
Barriers are not covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim.arguments import choice
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Access, Cost, Instruction, Kernel, Loop
from warpsim.kernels.listing import cost_text
from warpsim.models import volkov
from warpsim.models.parts.by_class import Part, class_counts, dataset, refuse
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis
from warpsim.units import MEMORY_OPS

_FREE = ("branch", "exit")
_NOT_OF_THE_CLASS = ("gap_cycles", "gap_ns", "port_sectors")
"""Costs that a chain of one class does not have: gaps follow from what comes next, and port sectors are those of stores."""


@accepts_names
def microbenchmarks(gpu: Gpu, kernel: Kernel) -> dict[str, Kernel]:
    """Returns the kernels whose throughput the model needs: a dependent chain of each class of instructions.

    The keys are those of `measured`: the operation class, and the access, bank conflict and costs unless they are the default,
    such as "load, stride 2" or "alu, interval 2".

    Raises:
        NotCoveredError: the kernel has barriers, or treats the warps of a block differently.
    """
    refuse(kernel, "zhang_owens", "barrier")
    return {_label(part): _chain(part) for part in class_counts(gpu, kernel).parts if part.op not in _FREE}


@accepts_names
def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    measured: Mapping[str, xr.DataArray] | None = None,
    times: Literal["overlap", "add"] = "overlap",
) -> xr.Dataset:
    """Returns the throughput from the throughputs of each class of instructions alone (V 7.3).

    Args:
        gpu: the chip.
        kernel: any kernel without barriers; branches and exits are free.
        warps: warps per SM, at least 0.
        measured: measured throughput of each key of `microbenchmarks`, in instructions per cycle and SM, over a coordinate
            `warps` that has every value of `warps` except 0. Left out, the refined model of V 6.5 predicts each
            microbenchmark; its contention curve is V's fit to such measurements.
        times: "overlap" (the largest time) or "add" (the sum).

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        NotCoveredError: the kernel has barriers, or treats the warps of a block differently.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0, `measured` lacks an instruction or an occupancy, or `times` is another word.
    """
    combine = choice("times", times, ("overlap", "add"))
    n = axis("warps", warps, at_least=0)
    needed = microbenchmarks(gpu, kernel)
    of = class_counts(gpu, kernel)
    if measured is None:
        occupancies = np.unique([1.0, *n.values[n.values > 0].flat])
        measured = {
            label: volkov.throughput(gpu, chain, warps=occupancies, refined=True)["ipc"].sum("op")
            for label, chain in needed.items()
        }
    lacking = sorted(needed.keys() - measured.keys())
    if lacking:
        raise ValueError(f"measured = {', '.join(measured) or 'nothing'}: must also have {', '.join(lacking)}")
    together: dict[str, xr.DataArray] = {}
    for part in of.parts:
        if part.op not in _FREE:
            name = "memory" if part.op in MEMORY_OPS else "smem" if part.op == "smem" else "arithmetic"
            time = part.count / _at(measured[_label(part)], n, _label(part))
            together[name] = together.get(name, 0.0) + time
    if not together:
        raise NotCoveredError(f"{kernel.name}: zhang_owens does not cover kernels of branches and exits only")
    parts = xr.concat(list(together.values()), dim="part")
    rate = 1 / (parts.max("part") if combine == "overlap" else parts.sum("part", skipna=False))
    return dataset(of, rate.where(n > 0, 0.0), n, source="warpsim.models.zhang_owens, V 7.3")


@accepts_names
def execution_time(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    measured: Mapping[str, xr.DataArray] | None = None,
) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop."""
    return throughput(gpu, kernel, warps=warps, measured=measured)["execution_time"]


def _at(ipc: xr.DataArray, warps: xr.DataArray, label: str) -> xr.DataArray:
    """Returns the measured throughput at some occupancies; NaN at 0 warps."""
    missing = sorted(set(warps.values[warps.values > 0].flat) - set(np.atleast_1d(ipc["warps"].values)))
    if missing:
        raise ValueError(f"measured[{label!r}]: has no throughput at {', '.join(f'{m:g}' for m in missing)} warps")
    by_warps = dict(zip(np.atleast_1d(ipc["warps"].values), np.atleast_1d(ipc.values), strict=True))
    return warps.copy(data=np.array([by_warps.get(w, np.nan) for w in warps.values.flat]).reshape(warps.shape))


def _label(part: Part) -> str:
    access, ways = _access_alone(part), part.instruction.ways
    plain = Instruction("load").access
    op = "load" if part.op in MEMORY_OPS else part.op
    if access is not None and access != plain:
        changed = [
            f"{name.removeprefix('bytes_per_')} {value}" if name != "pattern" else str(value)
            for name, value in access.model_dump(exclude_defaults=True).items()
            if name != "pattern" or value not in ("stride", "addresses")
        ]
        return ", ".join([op, *changed, *_own(part)])
    return ", ".join([op, *([f"{ways}-way"] if ways > 1 else []), *_own(part)])


def _access_alone(part: Part) -> Access | None:
    """Returns the access of a part in the chain of its class, where stores are loads and L2 keeps none of them."""
    access = part.instruction.access
    return access.model_copy(update={"l2_kept": 0.0}) if access is not None and access.l2_kept else access


def _own(part: Part) -> list[str]:
    cost = _cost_alone(part)
    return [] if cost is None else [cost_text(cost)]


def _cost_alone(part: Part) -> Cost | None:
    """Returns the costs that a part has of its own in a chain of its class."""
    cost = part.instruction.cost
    given = {name: getattr(cost, name) for name in cost.given if name not in _NOT_OF_THE_CLASS} if cost else {}
    return Cost(**given) if given else None


def _chain(part: Part) -> Kernel:
    op, one = "load" if part.op in MEMORY_OPS else part.op, part.instruction
    link = Instruction(op, dst="r1", src=("r1",), access=_access_alone(part), ways=one.ways, cost=_cost_alone(part))
    body = (Loop(body=(link,), trips=None),)
    return Kernel(name=f"{op}_chain", source="V 6.1", registers_per_thread=8, inputs=("r1",), body=body)
