"""What-if studies: chips with some fields changed, validated like chip files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from warpsim.arguments import InvalidPoint
from warpsim.hardware.architectures import contention
from warpsim.hardware.gpu import GPU_LABELS, Gpu, GpuFileError
from warpsim.units import MEMORY_OPS

_NEVER_READ = {
    **dict.fromkeys(GPU_LABELS[1:], ""),  # `name` is refused by itself
    "memory.measured": "",
    "memory.pin_bandwidth_gbs": "memory.bandwidth_gbs",
    "memory.queue.fit_rms_percent": "",
    "memory.queue.base_latency_cycles": "memory.latency_cycles",
    "memory.contention.a_cycles": "memory.latency_cycles",
    "memory.contention": "the fields of memory.queue, with memory = 'queue'",
    **{f"ops.{op}.latency_cycles": "memory.latency_cycles" for op in MEMORY_OPS},
    "ops.exit.latency_cycles": "block_launch_cycles",
    "ops.exit.gap_cycles": "block_launch_cycles",
    "ops.branch.latency_cycles": "branch.gap_cycles",
}
"""Field, or table of fields, that no simulation reads -> the field to change instead."""

_READ_BY = {
    "memory.measured_latency_cycles": (("measured",), "memory.latency_cycles"),
    "memory.queue.latency_offset_cycles": (("queue",), "memory.latency_cycles"),
    "memory.queue": (("queue",), "memory.bandwidth_gbs"),
    "memory.l2_store_gbs": (("queue",), "memory.bandwidth_gbs"),
    "memory.atomic_interval_cycles": (("queue",), "memory.bandwidth_gbs"),
    "memory.distribution": (("queue", "measured"), "memory.latency_cycles"),
}
"""Field, or table of fields, that some memory models read -> these models, and the field to change with other models."""


def changed_gpu(gpu: Gpu, fields: Mapping[str, Any]) -> Gpu:
    """Returns the chip with fields changed.

    Args:
        gpu: a chip; the changed one keeps its name.
        fields: dotted key after "gpu." -> value, with the keys of a chip's file; "alu.latency_cycles" is short
            for "ops.alu.latency_cycles".

    Raises:
        InvalidPoint: the result is not a valid chip: a key is unknown, or a value is not allowed or contradicts
            another; the message names key and value.
    """
    if not fields:
        return gpu
    data = gpu.to_dict()
    for key, value in fields.items():
        _set(gpu, data, _path(key), value)
    what = ", ".join(f"gpu.{key} = {value!r}" for key, value in fields.items())
    try:
        return Gpu.from_dict(data, source=f"{what} on {gpu.name}")
    except GpuFileError as error:
        raise InvalidPoint(str(error)) from None


def at_clock(gpu: Gpu, clock_ghz: float) -> Gpu:
    """Returns the chip with another clock of its SMs and its L2, in GHz; the memory keeps its own.

    What a chip file states in cycles stays, but for what are times: the part of the latency that lies in DRAM, and the turnover
    of blocks. Rates of L2 follow the clock.

    Raises:
        InvalidPoint: no chip can have this clock.
    """
    data = changed_gpu(gpu, {"clock_ghz": clock_ghz}).to_dict()
    ratio = clock_ghz / gpu.clock_ghz
    memory, queue = data["memory"], data["memory"]["queue"]
    of_l2 = gpu.memory.cycles_to_l2
    for name in ("latency_cycles", "measured_latency_cycles"):
        if memory.get(name):
            memory[name] = max(1, round(of_l2 + (memory[name] - of_l2) * ratio))
    for rates, name in ((memory, "l2_store_gbs"), (queue, "crossbar_gbs")):
        if rates.get(name):
            rates[name] *= ratio
    queue["latency_offset_cycles"] *= ratio
    data["block_launch_cycles"] = max(1, round(gpu.block_launch_cycles * ratio))
    memory["contention"] = contention(memory, clock_ghz)
    return Gpu.from_dict(data, source=f"clock_ghz = {clock_ghz} on {gpu.name}")


def check_fields_act(fields: Iterable[str], memory: str) -> None:
    """Checks that a simulation reads the changed fields, since a change of any other field would have no effect.

    Args:
        fields: dotted keys after "gpu.".
        memory: the memory model.

    Raises:
        ValueError: the simulation does not read a field; the message names the field to change instead.
    """
    for key in fields:
        path = ".".join(_path(key))
        for prefix in _prefixes(path):
            models, instead = _READ_BY.get(prefix, ((), _NEVER_READ.get(prefix)))
            if str(memory).lower() not in models and instead is not None:
                reader = f"a simulation with memory = {memory!r}" if models else "a simulation"
                hint = f"; change {'' if ' ' in instead else 'gpu.'}{instead} instead" if instead else ""
                raise ValueError(f"gpu.{key}: {reader} does not read it{hint}")


def check_stages(gpu: Gpu, fields: Collection[str], memory: str) -> None:
    """Checks that a changed bandwidth is what the memory sustains, since a slower stage of the queue would keep it from it.

    Args:
        gpu: the changed chip.
        fields: the changed fields, dotted keys after "gpu.".
        memory: the memory model.

    Raises:
        InvalidPoint: a stage is slower than the bandwidth; the message names the fields to change with it.
    """
    bandwidth, queue = gpu.memory.bandwidth_gbs, gpu.memory.queue
    slowest = min(queue.crossbar_gbs, queue.dram_gbs)
    if "memory.bandwidth_gbs" in fields and str(memory).lower() == "queue" and slowest < bandwidth:
        raise InvalidPoint(
            f"gpu.memory.bandwidth_gbs = {bandwidth:g}: must be at most {slowest:g} on {gpu.name}, the rate of the slower stage "
            "of its queue; change gpu.memory.queue.crossbar_gbs and gpu.memory.queue.dram_gbs with it, as axes in `zip`"
        )


def _prefixes(path: str) -> list[str]:
    """Returns the path of a field and the paths of the tables that contain it, longest first."""
    keys = path.split(".")
    return [".".join(keys[:length]) for length in range(len(keys), 0, -1)]


def _path(key: str) -> list[str]:
    keys = key.split(".")
    return keys if keys[0] in Gpu.model_fields else ["ops", *keys]


def _set(gpu: Gpu, data: dict[str, Any], path: list[str], value: Any) -> None:
    if path[0] == "name":
        raise InvalidPoint(f"gpu.name = {value!r}: a changed chip keeps its name")
    if path[0] == "ops" and len(path) > 1 and path[1] not in gpu.ops:
        raise InvalidPoint(f"gpu.{'.'.join(path)}: {gpu.name} has no operation class {path[1]}; it has {', '.join(gpu.ops)}")
    *folders, last = path
    for folder in folders:
        inner = data.get(folder)
        if not isinstance(inner, dict):
            raise InvalidPoint(f"gpu.{'.'.join(path)}: {gpu.name} has no such field")
        data = inner
    data[last] = value
