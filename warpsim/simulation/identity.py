"""What a simulation depends on: the parameters that it reads, by value, without labels. Seeds are hashes of it.

A field that a kernel does not read, such as the latency of an operation class that it does not use, is not part of its identity:
points that differ in such fields have the same random numbers, and so exactly the same results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Instruction, Kernel
from warpsim.kernels.access import conflict_ways, transactions
from warpsim.kernels.program import walk
from warpsim.kernels.statements import MEMORY_OPS

_WITHOUT_RESULT = (*MEMORY_OPS, "branch", "exit")
"""Operation classes whose latency nobody waits for, or is the memory's."""


def identity(gpu: Gpu, kernel: Kernel, launch: Launch, memory: str) -> dict[str, Any]:
    """Returns the parameters that a simulation reads, in JSON types.

    Args:
        gpu: the chip.
        kernel: the program of every warp.
        launch: as `resolve_launch` returns it, so that the resources of the SM have done their part.
        memory: the memory model.
    """
    program = kernel.identity()
    del program["registers_per_thread"], program["shared_bytes_per_block"]
    costs = list(_access_costs(kernel, gpu))
    chip = gpu.identity()
    return {
        "chip": {key: chip[key] for key in ("sms", "clock_ghz", "block_launch_cycles", "issue")},
        "schedulers": gpu.sm.schedulers,
        "ops": {op: _op(op, chip["ops"][op], kernel, costs) for op in sorted(kernel.ops & gpu.ops.keys())},
        "memory": _memory(gpu, chip["memory"], kernel, memory, costs),
        "accesses": costs,
        "kernel": program,
        "launch": launch.model_dump(mode="json"),
    }


def _accesses(kernel: Kernel) -> Iterator[tuple[Instruction, Access]]:
    for _, statement in walk(kernel.body):
        if isinstance(statement, Instruction) and statement.access is not None:
            yield statement, statement.access


def _access_costs(kernel: Kernel, gpu: Gpu) -> Iterator[list[Any]]:
    """Yields what each access costs on the chip: [class, ways of the bank conflict], or [class, transactions]."""
    for instruction, access in _accesses(kernel):
        if instruction.op == "smem":
            yield ["smem", conflict_ways(instruction, gpu)]
        elif instruction.op in MEMORY_OPS:
            cost = transactions(access, gpu)
            yield [instruction.op, cost.requests, cost.extra, cost.bytes_per_request, cost.requested_bytes]


def _op(op: str, parts: dict[str, Any], kernel: Kernel, costs: list[list[Any]]) -> dict[str, Any]:
    """Returns what is read of an operation class."""
    read = dict(parts)
    read["latency_to"] = {consumer: cycles for consumer, cycles in parts["latency_to"].items() if consumer in kernel.ops}
    if op in _WITHOUT_RESULT:
        del read["latency_cycles"]
    if op == "exit":
        del read["gap_cycles"]
    if not any(cost[0] == op == "smem" and cost[1] > 1 for cost in costs):
        del read["conflict_latency_cycles"]
    return read


def _memory(gpu: Gpu, parts: dict[str, Any], kernel: Kernel, memory: str, costs: list[list[Any]]) -> dict[str, Any]:
    """Returns what is read of the memory system."""
    if not kernel.ops.intersection(MEMORY_OPS):
        return {}
    keys = ["latency_cycles", "bandwidth_gbs"]
    keys += ["loads_per_warp", "loads_per_sm"] if "load" in kernel.ops else []
    keys += ["stores_per_sm"] if "store" in kernel.ops else []
    keys += ["distribution"] if memory in ("queue", "measured") else []
    keys += ["queue"] if memory == "queue" else []
    keys += ["transaction_latency_cycles"] if any(cost[0] in MEMORY_OPS and cost[2] > 0 for cost in costs) else []
    for level in ("l1", "l2"):
        if any(getattr(access, f"{level}_hit") > 0 for _, access in _accesses(kernel)):
            keys.append(f"{level}_latency_cycles")
    read = {"model": memory, **{key: parts[key] for key in keys}}
    if memory == "measured":
        read["shift_cycles"] = gpu.memory.measured_shift_cycles
    return read
