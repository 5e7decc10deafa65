"""What a simulation depends on: the parameters that it reads, by value, without labels. Seeds are hashes of it.

A field that a kernel does not read, such as the latency of an operation class that it does not use, is not part of its identity:
points that differ in such fields have the same random numbers, and so exactly the same results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.memo import kept_by_object
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Instruction, Kernel
from warpsim.kernels.access import conflict_ways
from warpsim.kernels.costs import access_transactions
from warpsim.kernels.traversal import issued, walk
from warpsim.units import ACCESS_KINDS, ACCESSING_OPS, ATOMIC_OPS, MEMORY_OPS

_WITHOUT_RESULT = (*MEMORY_OPS, "branch", "exit")
"""Operation classes whose latency nobody waits for, or is the memory's."""


_OF_CHIP = ("sms", "clock_ghz", "block_launch_cycles", "issue")


def identity(gpu: Gpu, kernel: Kernel, launch: Launch, memory: str) -> dict[str, Any]:
    """Returns the parameters that a simulation reads, in JSON types.

    Args:
        gpu: the chip.
        kernel: the program of every warp.
        launch: as `resolve_launch` returns it, so that the resources of the SM have done their part.
        memory: the memory model.
    """
    chip = gpu.identity()
    return {
        "chip": {key: chip[key] for key in (*_OF_CHIP, *_of_launch(launch)) if key in chip} | _of_first_blocks(gpu, launch),
        **_without_launch(gpu, kernel, memory, chip["memory"]["distribution"]),
        "launch": launch.model_dump(mode="json"),
    }


@kept_by_object
def _without_launch(gpu: Gpu, kernel: Kernel, memory: str, table: str) -> dict[str, Any]:
    """Returns the parameters that do not depend on the launch.

    `table` is the hash of the chip's table of latencies, whose file can change while the chip does not.
    """
    program = kernel.identity()
    del program["registers_per_thread"], program["shared_bytes_per_block"]
    costs = list(_access_costs(kernel, gpu))
    chip = gpu.identity()
    return {
        "schedulers": gpu.sm.schedulers,
        "ops": {op: _op(op, gpu, chip["ops"][op], kernel, costs) for op in sorted(kernel.ops & gpu.ops.keys())},
        **_core(gpu, kernel),
        "memory": _memory(gpu, chip["memory"] | {"distribution": table}, kernel, memory, costs),
        "accesses": costs,
        "kernel": program,
    }


def _of_launch(launch: Launch) -> tuple[str, ...]:
    """Returns the options of the chip's launch that the launch reads."""
    return ("warp_launch_cycles", "launch_interval_cycles", *(["grid_launch_cycles"] if launch.finite else []))


def _of_first_blocks(gpu: Gpu, launch: Launch) -> dict[str, int]:
    """Returns what the first blocks of a finite grid wait for."""
    cycles = gpu.cold_constants_cycles if launch.finite else 0
    return {"cold_constants_cycles": cycles} if cycles else {}


def _core(gpu: Gpu, kernel: Kernel) -> dict[str, Any]:
    """Returns the options of the core that the kernel's instructions read."""
    read = gpu.core.model_dump(mode="json", exclude_defaults=True, exclude={"cold_constants"})
    instructions = [statement for _, statement in walk(kernel.body) if isinstance(statement, Instruction)]
    if not any(instruction.reads for instruction in instructions):
        read.pop("register_banks", None)
    if not any(instruction.op in ACCESSING_OPS for instruction in instructions):
        for passes in ("replays", "pass_cycles", "fill_bytes"):
            read.pop(passes, None)
    return {"core": read} if read else {}


def _accesses(kernel: Kernel) -> Iterator[tuple[Instruction, Access]]:
    for _, statement in walk(kernel.body):
        if isinstance(statement, Instruction) and statement.access is not None:
            yield statement, statement.access


def _access_costs(kernel: Kernel, gpu: Gpu) -> Iterator[list[Any]]:
    """Yields what each access costs on the chip: [class, ways of the bank conflict], or [class, transactions]."""
    for instruction, _ in _accesses(kernel):
        cost = access_transactions(gpu, instruction)
        if instruction.op == "smem":
            yield ["smem", conflict_ways(instruction, gpu)]
        elif cost is not None:
            atomic = [cost.updates, cost.contended_addresses] if cost.updates else []
            ports = [cost.port_sectors] if ACCESS_KINDS[instruction.op] == "store" and gpu.memory.l2_store_gbs is not None else []
            yield [instruction.op, cost.requests, cost.extra, cost.bytes_per_request, cost.requested_bytes, *atomic, *ports]


def _op(op: str, gpu: Gpu, parts: dict[str, Any], kernel: Kernel, costs: list[list[Any]]) -> dict[str, Any]:
    """Returns what is read of an operation class."""
    read, used = dict(parts), kernel.ops
    own = _own_costs(kernel).get(op, frozenset[str]())
    if "unit" in parts:
        sharing = [other for other in gpu.ops if other in used and gpu.unit_of(other) == gpu.unit_of(op)]
        read["unit"], read["scope"] = sharing[0], gpu.ops[op].scope
        unit = gpu.units[gpu.unit_of(op)]
        if unit.queue is not None:
            read["queue"] = [unit.queue, unit.lead_cycles, unit.address_cycles]
    read["latency_to"] = {consumer: cycles for consumer, cycles in parts["latency_to"].items() if consumer in used}
    if not any(s.op == op and s.hints is not None for _, s in walk(kernel.body) if isinstance(s, Instruction)):
        read.pop("operand_cycles", None)
    if op in _WITHOUT_RESULT:
        del read["latency_cycles"]
    if op == "exit":
        del read["gap_cycles"]
    if not any(cost[0] == op == "smem" and cost[1] > 1 for cost in costs):
        del read["conflict_latency_cycles"]
    for key in own & {"interval_cycles", "issue_slots"}:
        del read[key]
    if "multiply_adds" in own:
        del read["interval_cycles"]
    elif not any(s.op == op and s.cost is not None and s.cost.multiply_adds for s in issued(kernel.body)):
        read.pop("rates", None)
    if "latency_cycles" in own:
        for key in ("latency_cycles", "latency_to", "conflict_latency_cycles"):
            read.pop(key, None)
    if own & {"gap_cycles", "gap_ns"}:
        for key in ("gap_cycles", "taken_gap_cycles"):
            read.pop(key, None)
    return read


@kept_by_object
def _own_costs(kernel: Kernel) -> dict[str, frozenset[str]]:
    """Returns the costs that all instructions of a class have of their own, so that those of the class are not read."""
    given: dict[str, frozenset[str]] = {}
    for instruction in issued(kernel.body):
        own = instruction.cost.given if instruction.cost else frozenset[str]()
        given[instruction.op] = own & given.get(instruction.op, own)
    return {op: own for op, own in given.items() if op != "exit"}


def _memory(gpu: Gpu, parts: dict[str, Any], kernel: Kernel, memory: str, costs: list[list[Any]]) -> dict[str, Any]:
    """Returns what is read of the memory system."""
    used = kernel.ops
    if not used.intersection(MEMORY_OPS):
        return {}
    keys = ["latency_cycles", "bandwidth_gbs"]
    kinds = {ACCESS_KINDS[op] for op in used.intersection(MEMORY_OPS)}
    keys += ["loads_per_warp", "loads_per_sm"] if "load" in kinds else []
    keys += ["stores_per_sm"] if "store" in kinds else []
    keys += ["store_drain_cycles"] if "store" in kinds and gpu.memory.store_drain_cycles is not None else []
    keys += ["writes"] if "store" in kinds and gpu.memory.writes is not None else []
    contended = used.intersection(ATOMIC_OPS) and memory == "queue" and gpu.memory.atomic_interval_cycles is not None
    keys += ["atomic_interval_cycles"] if contended else []
    taken_in = "store" in kinds and memory == "queue" and gpu.memory.l2_store_gbs is not None
    keys += ["l2_store_gbs"] if taken_in else []
    keys += ["distribution"] if memory in ("queue", "measured") else []
    keys += ["queue"] if memory == "queue" else []
    keys += ["transaction_latency_cycles"] if any(cost[0] in MEMORY_OPS and cost[2] > 0 for cost in costs) else []
    for level in ("l1", "l2"):
        if any(getattr(access, f"{level}_hit") > 0 for _, access in _accesses(kernel)):
            keys.append(f"{level}_latency_cycles")
            keys += ["l2_far_latency_cycles"] if level == "l2" and gpu.memory.l2_far_latency_cycles is not None else []
    read = {"model": memory, **{key: parts[key] for key in keys}}
    if memory == "measured":
        read["shift_cycles"] = gpu.memory.measured_shift_cycles
    return read
