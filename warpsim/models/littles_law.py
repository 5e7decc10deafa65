"""Little's law: needed concurrency = latency x throughput (V 3.1 to 3.3, 4.2; VT).

V is V. Volkov, Understanding Latency Hiding on GPUs, 2016; VT his talk Better Performance at Lower Occupancy,
2010. Concurrency is that of instructions, not of warps (V 3.3): a warp of independent instructions counts
several times, and in a mix of kinds a warp counts for one kind only part of the time. So `throughput` covers
kernels of one kind of instruction, and no others.

Assumed: latency does not depend on concurrency, and is met at the peak; ILP latencies are 0, so that a warp
issues independent instructions at once. It fails for memory, whose latency grows with the load: at the needed
concurrency 75 to 84 % of the peak are attained (V 6.3, Table 6.4).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.models.parts.common import NotCoveredError, axis, check_fraction, quantity, result
from warpsim.models.parts.costs import cost
from warpsim.models.parts.warp_path import warp_path
from warpsim.models.parts.worksheet import Worksheet, worksheet

_UNITS = ("alu", "sfu", "smem")


def parallelism(
    gpu: Gpu, *, bandwidth: Literal["sustained", "pin"] = "sustained", memory_latency: float | None = None
) -> xr.Dataset:
    """Return the parallelism that hides latency, for each kind of instruction (V Table 3.1; VT's tables).

    Args:
        gpu: the chip.
        bandwidth: what peak memory throughput is: "sustained" (V Table 6.4) or "pin" (V Table 2.7).
        memory_latency: in cycles; left out: the chip's, unloaded (V Table 6.2).

    Returns:
        A Dataset over `op`, which is alu, sfu, smem, load (no conflicts; coalesced 4-byte accesses):
        `latency` in cycles; `ipc`, the peak in instructions per cycle and SM, of which a scheduler issues one
        at a time; `concurrency` in instructions per SM; `operations` per SM, 32 to an instruction;
        `kilobytes` of the whole chip (1000 bytes), for loads.

    Raises:
        ValueError: `bandwidth` is neither, or `memory_latency` is not above 0.
    """
    rates = {"sustained": gpu.memory.bandwidth_gbs, "pin": gpu.memory.pin_bandwidth_gbs}
    if bandwidth not in rates:
        raise ValueError(f"bandwidth = {bandwidth!r}: 'sustained' or 'pin'")
    load_latency = gpu.memory.latency_cycles if memory_latency is None else memory_latency
    if not load_latency > 0:
        raise ValueError(f"memory_latency = {memory_latency!r}: cycles above 0, or None")
    ops = [*_UNITS, "load"]
    latency = np.array([*(gpu.ops[op].latency_for(op) for op in _UNITS), load_latency], dtype=float)
    peaks = [min(gpu.unit_ipc(op), gpu.issue_ipc) for op in _UNITS]
    ipc = np.array([*peaks, units.gbs_to_ipc(rates[bandwidth], gpu.clock_ghz, gpu.sms)])
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


def throughput(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.Dataset:
    """Return the throughput of one kind of instruction: min(concurrency / latency, peak) (V 3.2, 4.2; VT).

    Args:
        gpu: the chip.
        kernel: a loop of instructions of one kind, such as `chain` makes; its concurrency per warp follows
            from its register dependencies, and from the chip's limit of a warp's loads in flight.
        warps: warps per SM, at least 0; not held against the chip's limits.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth` as from `simulate`, and
        `concurrency` in instructions per SM.

    Raises:
        NotCoveredError: the kernel is anything else.
        TypeError: `warps` are no numbers.
        ValueError: `warps` is below 0.
    """
    op, latency, sheet, cycles = _alone(gpu, kernel)
    occupancy = axis("warps", warps, at_least=0)
    rate = (occupancy / cycles).clip(max=1 / sheet.cycles)
    ipc = rate * sheet.instructions[op]
    others = {
        "bandwidth": rate * sheet.requested_bytes * units.bytes_per_cycle_to_gbs(gpu.sms, gpu.clock_ghz),
        "concurrency": quantity(ipc * latency, "instructions/SM", "instructions in execution"),
    }
    return result(gpu, {op: ipc}, others, source="warpsim.models.littles_law, V 4.2")


def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0) -> float:
    """Return the warps per SM that attain a fraction of the peak (V 3.3, 4.2; VT).

    It is the needed concurrency over that of one warp, not rounded, and not held against the chip's limits.

    Raises:
        NotCoveredError: the kernel is not a loop of one kind of instruction.
        ValueError: `fraction` is not above 0 and at most 1.
    """
    check_fraction(fraction)
    _, _, sheet, cycles = _alone(gpu, kernel)
    return fraction * cycles / sheet.cycles


def _alone(gpu: Gpu, kernel: Kernel) -> tuple[str, float, Worksheet, float]:
    """Return class and latency of the kernel's only instruction, and what a warp does in a repetition.

    That is the worksheet, and the cycles by register dependencies and the limit of a warp's loads in flight.
    """
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    body = [s for s in loop.body if isinstance(s, Instruction)] if isinstance(loop, Loop) else []
    if (
        not isinstance(loop, Loop)
        or len(body) < len(loop.body)
        or len({(i.op, i.access, i.ways) for i in body}) > 1
    ):
        raise NotCoveredError(
            f"{kernel.name}: Little's law covers loops of one kind of instruction; volkov covers all"
        )
    first = body[0]
    latency = cost(gpu, first, float(gpu.memory.latency_cycles)).latency
    endless = Kernel(name=kernel.name, inputs=kernel.inputs, body=(Loop(body=loop.body, trips=None),))
    path = warp_path(gpu, endless, ilp_latencies=False)
    return first.op, latency.get(first.op, latency[""]), worksheet(gpu, path), path.cycles
