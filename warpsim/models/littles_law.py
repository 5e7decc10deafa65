"""Little's law: needed concurrency = latency x throughput (V 3.1 to 3.3, 4.2; VT).

Sources: V 3.1 to 3.3 and 4.2, and VT, the talk Better Performance at Lower Occupancy. V is Volkov 2016, VT is Volkov 2010
(docs/bibliography.md).

Concurrency counts instructions, not warps (V 3.3). A warp of independent instructions contributes several, and in a mix of
instruction classes a warp contributes to one class only part of the time. For this reason `throughput` covers kernels of one
class of instructions, and no others.

Assumptions: Latency does not depend on concurrency, and the law holds at the peak. ILP latencies are 0, so that a warp issues
independent instructions at once.

Limits: The latency of memory grows with the load. The needed concurrency therefore attains only 75 to 84 % of the peak memory
throughput (V 6.3, Table 6.4).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim import units
from warpsim.arguments import check_fraction
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis, peak_bandwidth, quantity, result
from warpsim.models.parts.costs import cost
from warpsim.models.parts.warp_path import warp_path
from warpsim.models.parts.worksheet import Worksheet, worksheet

_UNITS = ("alu", "sfu", "smem")


@accepts_names
def parallelism(
    gpu: Gpu, *, bandwidth: Literal["sustained", "pin"] = "sustained", memory_latency: float | None = None
) -> xr.Dataset:
    """Returns the parallelism that hides latency, for each class of instructions (V Table 3.1; tables of VT).

    Args:
        gpu: the chip.
        bandwidth: peak memory throughput: "sustained" (V Table 6.4) or "pin" (V Table 2.7).
        memory_latency: memory latency in cycles; left out, the unloaded latency of the chip (V Table 6.2).

    Returns:
        A Dataset over `op` (alu, sfu, smem without conflicts, coalesced 4-byte loads) with `latency` in cycles; `ipc`, the peak
        in instructions per cycle and SM at one instruction per scheduler and cycle; `concurrency` in instructions per SM;
        `operations` per SM, 32 per instruction; and, for loads, `kilobytes` of the whole chip (1000 bytes).

    Raises:
        ValueError: `bandwidth` is another word, or `memory_latency` is not above 0.
    """
    gbs = peak_bandwidth(gpu, bandwidth)
    load_latency = gpu.memory.latency_cycles if memory_latency is None else memory_latency
    if not load_latency > 0:
        raise ValueError(f"memory_latency = {memory_latency!r}: must be above 0, or None")
    ops = [*_UNITS, "load"]
    latency = np.array([*(gpu.ops[op].latency_for(op) for op in _UNITS), load_latency], dtype=float)
    peaks = [min(gpu.unit_ipc(op), gpu.issue_ipc) for op in _UNITS]
    ipc = np.array([*peaks, units.gbs_to_ipc(gbs, gpu.clock_ghz, gpu.sms)])
    concurrency = latency * ipc
    moved = np.array([np.nan] * len(_UNITS) + [concurrency[-1] * gpu.sms * units.COALESCED_BYTES / 1000])

    def over_op(values: np.ndarray, unit: str, long_name: str) -> xr.DataArray:
        return quantity(xr.DataArray(values, dims="op", coords={"op": ops}), unit, long_name)

    return xr.Dataset(
        {
            "latency": over_op(latency, "cycles", "instruction latency"),
            "ipc": over_op(ipc, "instructions/cycle/SM", "peak throughput"),
            "concurrency": over_op(concurrency, "instructions/SM", "needed instructions in execution"),
            "operations": over_op(
                units.WARP_LANES * concurrency, "operations/SM", "needed operations in flight"
            ),
            "kilobytes": over_op(moved, "kB", "needed memory in flight, whole chip"),
        },
        attrs={"source": f"warpsim.models.littles_law, {bandwidth} bandwidth", "gpu": gpu.name},
    )


@accepts_names
def throughput(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.Dataset:
    """Returns the throughput of one class of instructions: min(concurrency / latency, peak) (V 3.2, 4.2; VT).

    Args:
        gpu: the chip.
        kernel: a loop of instructions of one class, such as `kernels.chain`; its concurrency per warp follows from its
            register dependencies and from the limit of loads in flight per warp.
        warps: warps per SM, at least 0; the limits of the chip are not checked.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth` as from `simulate`, and
        `concurrency` in instructions per SM.

    Raises:
        NotCoveredError: the kernel is not a loop of one class of instructions.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0.
    """
    op, latency, sheet, cycles = _alone(gpu, kernel)
    occupancy = axis("warps", warps, at_least=0)
    rate = (occupancy / cycles).clip(max=1 / sheet.cycles).where(occupancy > 0, 0.0)
    ipc = rate * sheet.instructions[op]
    others = {
        "bandwidth": rate * sheet.requested_bytes * units.bytes_per_cycle_to_gbs(gpu.sms, gpu.clock_ghz),
        "concurrency": quantity(ipc * latency, "instructions/SM", "instructions in execution"),
    }
    return result(gpu, {op: ipc}, others, source="warpsim.models.littles_law, V 4.2")


@accepts_names
def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0) -> float:
    """Returns the warps per SM that attain a fraction of the peak (V 3.3, 4.2; VT).

    It is the needed concurrency over that of one warp. It is not rounded, and the limits of the chip are not checked.

    Raises:
        NotCoveredError: the kernel is not a loop of one class of instructions.
        ValueError: `fraction` is not above 0 and at most 1.
    """
    check_fraction(fraction)
    _, _, sheet, cycles = _alone(gpu, kernel)
    return fraction * cycles / sheet.cycles


def _alone(gpu: Gpu, kernel: Kernel) -> tuple[str, float, Worksheet, float]:
    """Returns class and latency of the kernel's only instruction, and the worksheet and cycles of a repetition.

    The cycles are those of register dependencies and of the limit of loads in flight per warp.
    """
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    body = [s for s in loop.body if isinstance(s, Instruction)] if isinstance(loop, Loop) else []
    if (
        not isinstance(loop, Loop)
        or len(body) < len(loop.body)
        or len({(i.op, i.access, i.ways) for i in body}) > 1
    ):
        raise NotCoveredError(
            f"{kernel.name}: littles_law only covers loops of one class of instructions; volkov covers all kernels"
        )
    first = body[0]
    latency = cost(gpu, first, float(gpu.memory.latency_cycles)).latency
    endless = Kernel(name=kernel.name, inputs=kernel.inputs, body=(Loop(body=loop.body, trips=None),))
    path = warp_path(gpu, endless, ilp_latencies=False)
    return first.op, latency.get(first.op, latency[""]), worksheet(gpu, path), path.cycles
