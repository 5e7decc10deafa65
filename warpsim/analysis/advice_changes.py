"""Changes that `advise` simulates: each is a point with another chip, kernel or launch.

Some changes realize a potential benefit of Sim et al. 2012 (docs/bibliography.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from warpsim.analysis.occupancy_search import all_launches
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.hardware.whatif import changed_gpu
from warpsim.kernels import Conditional, Instruction
from warpsim.kernels.costs import data_stage
from warpsim.kernels.traversal import walk
from warpsim.kernels.whatif import converged, interleaved, with_another_stage, without, without_conflicts
from warpsim.models import volkov
from warpsim.models.parts.costs import ISSUE, L2, LOADS_IN_FLIGHT, MEMORY
from warpsim.models.parts.counts import bank_conflicts, counts
from warpsim.simulation.point import Point
from warpsim.units import ACCESSING_OPS, MAX_SCHEDULERS

COPIES = 2
"""Warps whose work one warp does in the change to more ILP."""

_NOT_COMPUTED = ("load", "store", "barrier", "branch", "exit")
_SHORTEST_MEMORY = 4  # cycles: the queue model draws latencies around it, of which none may be below 2 in a slice


@dataclass(frozen=True)
class Change:
    """A changed point to compare with the original.

    Attributes:
        name: name of the change.
        point: the changed point.
        copies: warps (repetitions) of the original whose work one changed warp (repetition) does.
        benefit: potential benefit of Sim et al. that the change realizes, such as "b_memlp"; "" for none.
    """

    name: str
    point: Point
    copies: int = 1
    benefit: str = ""


def changes(point: Point, needed: Launch | None) -> list[Change]:
    """Returns the changes that make sense for a point.

    These are

    - no memory latency (2 cycles), except with the memory model "measured";
    - no arithmetic latency (latencies and gaps of 1 cycle);
    - twice the ILP;
    - no serialization: without each of bank conflicts, barriers, divergence, and an SFU slower than adds that occurs, and
      without all of them;
    - no shared memory and no jumps, as work that is not essential;
    - twice the resource that the throughput bound of Volkov 2016 names, except memory with the memory model "measured", and L2
      with a memory model other than "queue";
    - another buffer for warps that copy for others, in as much shared memory;
    - the needed launch, or the largest that fits.

    Args:
        point: the original.
        needed: the launch that attains the needed occupancy; None: no launch does.
    """
    gpu, kernel = point.gpu, point.kernel
    counted = counts(gpu, kernel, block_warps=point.launch.block_warps)
    ops = counted.ops
    found = []
    if "load" in ops and point.memory != "measured":
        found.append(Change("no memory latency", replace(point, gpu=_without_memory_latency(gpu)), benefit="b_memlp"))
    computed = [op for op in ops if op not in _NOT_COMPUTED]
    if computed:
        found.append(Change("no arithmetic latency", replace(point, gpu=_without_latency(gpu, computed)), benefit="b_itilp"))
    found.append(Change("twice the ILP", replace(point, kernel=interleaved(kernel, COPIES)), copies=COPIES))
    found += _unserialized(point, ops, bank_conflicts(gpu, counted) > 0)
    if any(isinstance(s, Instruction) and s.op in ("smem", "branch") for _, s in walk(kernel.body)) and _more_than(
        ops, "smem", "branch"
    ):
        found.append(
            Change("no shared memory, no jumps", replace(point, kernel=without(kernel, "smem", "branch")), benefit="b_fp")
        )
    found += _doubled(point)
    if (deeper := with_another_stage(kernel)) is not None:
        found.append(Change("another stage", replace(point, kernel=deeper)))
    found += _more_warps(point, needed)
    return found


def _without_memory_latency(gpu: Gpu) -> Gpu:
    fields: dict[str, Any] = {
        "memory.latency_cycles": _SHORTEST_MEMORY,
        "memory.queue.latency_offset_cycles": 0.0,
        "memory.transaction_latency_cycles": 0.0,
    }
    for level in ("l1", "l2", "l2_far"):
        if getattr(gpu.memory, f"{level}_latency_cycles") is not None:
            fields[f"memory.{level}_latency_cycles"] = 1
    return changed_gpu(gpu, fields)


def _without_latency(gpu: Gpu, ops: list[str]) -> Gpu:
    fields: dict[str, Any] = {}
    for op in ops:
        fields |= {f"{op}.latency_cycles": 1, f"{op}.latency_to": {}, f"{op}.gap_cycles": 1}
    return changed_gpu(gpu, fields)


def _unserialized(point: Point, ops: dict[str, float], conflicts: bool) -> Iterator[Change]:
    """Yields a change for each cause of serialization (Sim et al. 2012, equation 6), and one for all of them."""
    edits: dict[str, Callable[[Point], Point]] = {}
    if conflicts:
        edits["no bank conflicts"] = lambda p: replace(p, kernel=without_conflicts(p.kernel))
    if "barrier" in ops and _more_than(ops, "barrier"):
        edits["no barriers"] = lambda p: replace(p, kernel=without(p.kernel, "barrier"))
    if any(isinstance(s, Conditional) and s.diverges for _, s in walk(point.kernel.body)):
        edits["no divergence"] = lambda p: replace(p, kernel=converged(p.kernel))
    if "sfu" in ops and point.gpu.unit_ipc("sfu") < point.gpu.unit_ipc("alu"):
        edits["SFU as fast as adds"] = lambda p: replace(p, gpu=_fast_sfu(p.gpu))
    together = point
    for name, edit in edits.items():
        together = edit(together)
        yield Change(name, edit(point), benefit="b_serial" if len(edits) == 1 else "")
    if len(edits) > 1:
        yield Change("no serialization", together, benefit="b_serial")


def _fast_sfu(gpu: Gpu) -> Gpu:
    alu = gpu.ops["alu"]
    return changed_gpu(gpu, {"sfu.interval_cycles": str(alu.interval_cycles), "sfu.scope": alu.scope})


def _doubled(point: Point) -> Iterator[Change]:
    gpu = point.gpu
    tightest = volkov.bottleneck(gpu, point.kernel, block_warps=point.launch.block_warps)
    stages = {data_stage(gpu.unit_of(op)) for op in gpu.ops}
    fields: dict[str, Any] = {}
    if (tightest == MEMORY and point.memory == "measured") or (tightest == L2 and point.memory != "queue"):
        return  # the measured latencies hold for this bandwidth only; without a queue nothing waits for L2
    if tightest == MEMORY:
        fields = {
            f"memory.{key}": 2 * value
            for key, value in (
                ("bandwidth_gbs", gpu.memory.bandwidth_gbs),
                ("pin_bandwidth_gbs", gpu.memory.pin_bandwidth_gbs),
                ("queue.dram_gbs", gpu.memory.queue.dram_gbs),
                ("contention.c_gbs", gpu.memory.contention.c_gbs),
            )
        } | _twice_l2(gpu)
    elif tightest == L2:
        fields = _twice_l2(gpu)
    elif tightest == LOADS_IN_FLIGHT and gpu.memory.loads_per_sm:
        fields = {"memory.loads_per_sm": 2 * gpu.memory.loads_per_sm}
    elif tightest == ISSUE:
        fields = _twice_the_issue(gpu)
    else:
        of_unit = {name: op for name, op in gpu.ops.items() if gpu.unit_of(name) == tightest}
        fields = {f"ops.{name}.interval_cycles": str(op.interval_cycles / 2) for name, op in of_unit.items()}
        fields |= {
            f"ops.{name}.rates": {kind: str(2 * rate) for kind, rate in op.rates.items()}
            for name, op in of_unit.items()
            if op.rates
        }
        if tightest in stages or any(name in ACCESSING_OPS for name in of_unit):
            fields |= _twice_the_passes(gpu)
    if fields:
        names = {MEMORY: "memory bandwidth", L2: "rate of L2", ISSUE: "issue rate", LOADS_IN_FLIGHT: "loads in flight"}
        names |= {stage: f"rate of the {stage}" for stage in stages}
        yield Change(f"twice the {names.get(tightest, f'{tightest} units')}", replace(point, gpu=changed_gpu(gpu, fields)))


def _twice_l2(gpu: Gpu) -> dict[str, Any]:
    """Returns the changed fields of a chip whose L2 serves loads, takes in stores, and updates twice as fast."""
    memory = gpu.memory
    fields: dict[str, Any] = {"memory.queue.crossbar_gbs": 2 * memory.queue.crossbar_gbs}
    if memory.l2_store_gbs is not None:
        fields["memory.l2_store_gbs"] = 2 * memory.l2_store_gbs
    if memory.atomic_interval_cycles is not None:
        fields["memory.atomic_interval_cycles"] = memory.atomic_interval_cycles / 2
    return fields


def _twice_the_passes(gpu: Gpu) -> dict[str, Any]:
    """Returns the changed fields of a chip whose data stages are twice as fast."""
    filled = {} if gpu.core.fill_bytes is None else {"core.fill_bytes": 2 * gpu.core.fill_bytes}
    return {"core.pass_cycles": str(gpu.core.pass_cycles / 2), **filled} if gpu.core.replays == "unit" else {}


def _twice_the_issue(gpu: Gpu) -> dict[str, Any]:
    """Returns the changed fields of a chip with twice the issue rate: half the interval, or twice the schedulers."""
    if gpu.issue.interval_cycles % 2 == 0:
        return {"issue.interval_cycles": gpu.issue.interval_cycles // 2}
    if 2 * gpu.sm.schedulers > min(MAX_SCHEDULERS, gpu.sm.max_warps):
        return {}
    units = {f"{name}.interval_cycles": str(2 * op.interval_cycles) for name, op in gpu.ops.items() if op.scope == "scheduler"}
    return {"sm.schedulers": 2 * gpu.sm.schedulers, **units}


def _more_warps(point: Point, needed: Launch | None) -> Iterator[Change]:
    launch = all_launches(point)[-1] if needed is None else needed
    warps = launch.resident_warps
    if warps > point.launch.resident_warps:
        fits = ", as many as fit" if needed is None else ""
        yield Change(f"{warps} warps per SM{fits}", replace(point, launch=launch))


def _more_than(ops: dict[str, float], *left_out: str) -> bool:
    return any(op not in (*left_out, "exit") for op in ops)
