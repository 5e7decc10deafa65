"""What one instruction costs on a chip: its latencies, and for how long it holds each resource of an SM.

V is Volkov, Understanding Latency Hiding on GPUs, 2016. The rules are those of docs/model.md, sections 2, 3
and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Access, Instruction
from warpsim.kernels.access import conflict_ways, transactions
from warpsim.kernels.statements import MEMORY_OPS

MEMORY = "memory"
"""The resource that the memory system is (V Table 3.4): the SM's share of the sustained bandwidth."""

ISSUE = "issue"
"""The resource that the warp schedulers of an SM are."""

LOADS_IN_FLIGHT = "loads in flight"
"""The resource that the SM's limit of loads in flight is, where it has one."""


class Use(NamedTuple):
    """A row of V Table 3.4: an instruction holds a resource of the SM, the whole of it, for `cycles` cycles.

    `requested_bytes` are those that the program asks for in global memory; only with the units of loads and
    stores, whose resource bears the name of the operation class as those of all units do.
    """

    resource: str
    used_by: str
    cycles: float
    requested_bytes: int = 0


@dataclass(frozen=True)
class Cost:
    """An instruction on a chip.

    Attributes:
        op: operation class.
        reads: registers that must be ready: the sources and the destination.
        dst: register written.
        latency: register dependency latency in cycles by the consumer's class; "" stands for all others.
        gap: least distance to the warp's next issue, in cycles.
        slots: issue slots, without reissues.
        reissues: further issue slots, for bank conflicts and extra transactions (V 3.6).
        twice_a_cycle: whether the unit takes two such instructions in one cycle.
        uses: (use, expected number) of units and memory; issue is counted apart, since two instructions may
            share a slot.
    """

    op: str
    reads: tuple[str, ...]
    dst: str | None
    latency: dict[str, float]
    gap: int
    slots: int
    reissues: int
    twice_a_cycle: bool
    uses: tuple[tuple[Use, float], ...]


def cost(gpu: Gpu, instruction: Instruction, memory_latency: float) -> Cost:
    """Return what an instruction costs.

    Args:
        gpu: the chip.
        instruction: one instruction of a kernel.
        memory_latency: latency in cycles of a coalesced load that misses all caches.

    Raises:
        ValueError: the chip does not have the operation class, or says no latency of a cache that is hit.
    """
    name = instruction.op
    if name not in gpu.ops:
        raise ValueError(f"op = {name!r}: {gpu.name} has {', '.join(gpu.ops)}")
    op = gpu.ops[name]
    ways = conflict_ways(instruction, gpu)
    unit = 1 / gpu.unit_ipc(name) * ways
    label = name if ways == 1 else f"{name}, {ways}-way conflict"
    requested = 0
    memory_uses: list[tuple[Use, float]] = []
    latency: dict[str, int] = {"": op.latency_cycles, **op.latency_to} if name != "load" else {"": 0}
    waits = float((ways - 1) * op.conflict_latency_cycles)
    reissues = ways - 1
    if name in MEMORY_OPS and instruction.access is not None:
        access = instruction.access
        made = transactions(access, gpu)
        reissues = made.extra
        waits, missing = access_latency(gpu, access, memory_latency)
        if made.requests > 1:
            waits += made.extra * gpu.memory.transaction_latency_cycles
        moving = made.requests * made.bytes_per_request / (gpu.bandwidth_bytes_per_cycle / gpu.sms)
        label, requested = _label(name, access), made.requested_bytes
        memory_uses.append((Use(MEMORY, label, moving), missing))
        if name == "load" and gpu.memory.loads_per_sm:
            memory_uses.append((Use(LOADS_IN_FLIGHT, label, waits / gpu.memory.loads_per_sm), 1.0))
    return Cost(
        op=name,
        reads=(*instruction.src, *((instruction.dst,) if instruction.dst else ())),
        dst=instruction.dst,
        latency={consumer: cycles + waits for consumer, cycles in latency.items()},
        gap=op.gap_cycles,
        slots=op.issue_slots,
        reissues=reissues,
        twice_a_cycle=op.interval_cycles * ways < 1,
        uses=((Use(name, label, unit, requested), 1.0), *memory_uses),
    )


def access_latency(gpu: Gpu, access: Access, memory_latency: float) -> tuple[float, float]:
    """Return an access' mean latency over the levels (S eq. 12), and the probability that all caches miss.

    Raises:
        ValueError: the chip does not say the latency of a cache that is hit.
    """
    levels = (
        ("l1_latency_cycles", gpu.memory.l1_latency_cycles, access.l1_hit),
        ("l2_latency_cycles", gpu.memory.l2_latency_cycles, (1 - access.l1_hit) * access.l2_hit),
    )
    mean, missing = 0.0, 1.0
    for key, cycles, probability in levels:
        if probability > 0 and cycles is None:
            raise ValueError(f"memory.{key} = None: {gpu.name} needs it for an access that hits this cache")
        mean += probability * (cycles or 0.0)
        missing -= probability
    # An infinite latency, of a memory that is saturated, does not concern accesses that never reach it.
    return mean + (missing * memory_latency if missing > 0 else 0.0), missing


def issue_uses(gpu: Gpu, kind: str, slots: int, reissues: int) -> list[tuple[Use, float]]:
    """Return the uses of the warp schedulers by one issue: of `slots` slots, and a slot for each reissue."""
    slot = gpu.issue.interval_cycles / gpu.sm.schedulers
    uses = [(Use(ISSUE, kind if slots == 1 else f"{kind}, {slots} slots", slots * slot), 1.0)]
    return [*uses, (Use(ISSUE, "reissue", slot), float(reissues))] if reissues else uses


def _label(op: str, access: Access) -> str:
    pattern: str = access.pattern
    if pattern == "stride":
        pattern = f"stride-{access.stride}" if access.stride > 1 else "coalesced"
    return f"{op}, {pattern}, {access.bytes_per_thread} B"
