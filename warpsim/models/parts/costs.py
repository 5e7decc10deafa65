"""Costs of one instruction on a chip: its latencies, and the time for which it holds each resource of an SM.

The rules are those of docs/model.md, sections 2, 3 and 5. V is Volkov 2016, S is Sim et al. 2012 (docs/bibliography.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Access, Instruction
from warpsim.kernels.costs import costs_on, data_stage, l2_cycles

MEMORY = "memory"
"""Name of the memory resource (V Table 3.4), the share of an SM in the sustained bandwidth."""

L2 = "L2"
"""Name of the resource that L2 is, of chips that state its latency: the share of an SM in the busiest slices that it asks."""

ISSUE = "issue"
"""Name of the issue resource, the warp schedulers of an SM."""

LOADS_IN_FLIGHT = "loads in flight"
"""Name of the resource that limits the loads in flight of an SM, if the chip has such a limit."""


class Use(NamedTuple):
    """A row of V Table 3.4: an instruction holds a resource of the SM exclusively for `cycles` cycles.

    The resource of a unit has the name of the unit, which is that of the operation class `op` unless classes share it.
    `requested_bytes` are the bytes of global memory that the program requests; they are counted with the units of loads and
    stores only. Other resources have no `op`.
    """

    resource: str
    used_by: str
    cycles: float
    requested_bytes: int = 0
    op: str = ""


@dataclass(frozen=True)
class Cost:
    """Costs of an instruction on a chip.

    Attributes:
        op: operation class.
        unit: name of its unit.
        reads: registers that must be ready: the sources and the destination.
        dst: register written.
        latency: consumer's operation class -> latency of a register dependency in cycles; "" is any other class.
        drain: cycles after the issue of a store in which its warp stays, even if it exits; 0 where stores do not drain.
        gap: least distance to the next issue of the warp, in cycles.
        taken_gap: the same, for a taken branch.
        slots: issue slots, without reissues.
        reissues: further issue slots, for bank conflicts and extra transactions (V 3.6).
        twice_a_cycle: whether the unit takes two such instructions in one cycle.
        uses: pairs (use, expected number) for units, their data stages and memory. Issue is counted separately, since two
            instructions may share a slot.
    """

    op: str
    unit: str
    reads: tuple[str, ...]
    dst: str | None
    latency: dict[str, float]
    drain: float
    gap: int
    taken_gap: int
    slots: int
    reissues: int
    twice_a_cycle: bool
    uses: tuple[tuple[Use, float], ...]


def cost(gpu: Gpu, instruction: Instruction, memory_latency: float) -> Cost:
    """Returns the costs of an instruction.

    Args:
        gpu: the chip.
        instruction: one instruction of a kernel.
        memory_latency: latency in cycles of a coalesced load that misses all caches.

    Raises:
        ValueError: the chip does not have the operation class, or the latency of a cache that the access hits.
    """
    name = instruction.op
    if name not in gpu.ops:
        raise ValueError(f"op = {name!r}: {gpu.name} has {', '.join(gpu.ops)}")
    op, spent = gpu.ops[name], costs_on(gpu, instruction)
    unit, held = gpu.unit_of(name), 1 / float(gpu.units_per_sm(name) / spent.unit_cycles)
    label = name if spent.ways == 1 else f"{name}, {spent.ways}-way conflict"
    requested = 0
    behind: list[tuple[Use, float]] = []
    latency: dict[str, int] = {"": 0} if name == "load" or spent.own_latency else {"": op.latency_cycles, **op.latency_to}
    waits = float(spent.latency_cycles - latency[""])
    drain = 0.0
    if instruction.access is not None and spent.access is not None:
        access, made = instruction.access, spent.access
        waits, missing = access_latency(gpu, access, memory_latency)
        serialised = made.extra * gpu.memory.transaction_latency_cycles if made.requests > 1 else 0.0
        waits += serialised
        if name == "store" and gpu.memory.store_drain_cycles is not None:
            drain = gpu.memory.store_drain_cycles + serialised
        moving = made.requests * made.bytes_per_request / (gpu.bandwidth_bytes_per_cycle / gpu.sms)
        label, requested = _label(name, access), made.requested_bytes
        if (busy := l2_cycles(gpu, instruction, made)) > 0:
            behind.append((Use(L2, label, busy * gpu.sms), 1 - access.l1_hit))
        behind.append((Use(MEMORY, label, moving), missing))
        if name == "load" and gpu.memory.loads_per_sm:
            behind.append((Use(LOADS_IN_FLIGHT, label, waits / gpu.memory.loads_per_sm), 1.0))
    if spent.data_cycles > 0:
        behind.append((Use(data_stage(unit), label, float(spent.data_cycles / gpu.units_per_sm(name))), 1.0))
    return Cost(
        op=name,
        unit=unit,
        reads=(*instruction.src, *((instruction.dst,) if instruction.dst else ())),
        dst=instruction.dst,
        latency={consumer: cycles + waits for consumer, cycles in latency.items()},
        drain=drain,
        gap=spent.gap_cycles,
        taken_gap=spent.taken_gap_cycles,
        slots=spent.issue_slots,
        reissues=spent.reissues,
        twice_a_cycle=spent.unit_cycles < 1,
        uses=((Use(unit, label, held, requested, name), 1.0), *behind),
    )


def access_latency(gpu: Gpu, access: Access, memory_latency: float) -> tuple[float, float]:
    """Returns the mean latency of an access over the cache levels (S eq. 12), and the probability that it misses all caches.

    Raises:
        ValueError: the chip lacks the latency of a cache that the access hits.
    """
    in_l1, in_l2 = access.l1_hit, (1 - access.l1_hit) * access.l2_hit
    levels = (
        ("l1_latency_cycles", gpu.memory.l1_latency_cycles, access.l1_late_cycles, in_l1),
        ("l2_latency_cycles", gpu.memory.mean_l2_latency_cycles, access.l2_late_cycles, in_l2),
    )
    mean, missing = 0.0, 1.0
    for key, cycles, late, probability in levels:
        if probability > 0 and cycles is None:
            raise ValueError(f"memory.{key} = None: must be set on {gpu.name} for an access that hits this cache")
        mean += probability * ((cycles or 0.0) + late)
        missing -= probability
    # The latency of a saturated memory is infinite, and must not reach accesses that always hit.
    return mean + (missing * memory_latency if missing > 0 else 0.0), missing


def unit_cycles(gpu: Gpu, instruction: Instruction) -> float:
    """Returns the least cycles of an SM between two such instructions at their unit, with the passes of accesses."""
    costs = costs_on(gpu, instruction)
    return float(max(costs.unit_cycles, costs.data_cycles) / gpu.units_per_sm(instruction.op))


def issue_uses(gpu: Gpu, kind: str, slots: int, reissues: int) -> list[tuple[Use, float]]:
    """Returns the uses of the warp schedulers by one issue: `slots` slots, and one slot per reissue."""
    slot = gpu.issue.interval_cycles / gpu.sm.schedulers
    uses = [(Use(ISSUE, kind if slots == 1 else f"{kind}, {slots} slots", slots * slot), 1.0)]
    return [*uses, (Use(ISSUE, "reissue", slot), float(reissues))] if reissues else uses


def _label(op: str, access: Access) -> str:
    pattern: str = access.pattern
    if pattern == "stride":
        pattern = f"stride-{access.stride}" if access.stride > 1 else "coalesced"
    return f"{op}, {pattern}, {access.bytes_per_thread} B"
