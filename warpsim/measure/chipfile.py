"""From derived values to a chip file and a table of latencies, in the formats of params/gpus and params/latency.

A chip file states what was measured, and what the driver reports. All else it takes from the file of its architecture
(hardware/architectures.py), such as the memory pipeline, register banks and the classes that are not measured. The format of
chips holds less than what is measured; the rest stays in the record (docs/measure.md lists it).
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from warpsim.atomic_file import write_text
from warpsim.hardware import gpu
from warpsim.hardware.architectures import SERVERS_PER_CHANNEL, STORE_DRAIN, nearest_architecture
from warpsim.hardware.consistency import AT_PINS
from warpsim.hardware.files import toml_value
from warpsim.hardware.gpu import GpuFileError, load_gpu
from warpsim.measure.record import Record, RecordError
from warpsim.measure.values import TABLE_LEVELS, Value

GENERATIONS = {8.7: ("Ampere", 2022), 10.3: ("Blackwell", 2025)}
"""Compute capability -> name of the generation, and the year of its first chip, where the package has no file of it."""

CLASSES = (  # class of the chip file, operation, what it stands for
    ("alu", "fadd", "single-precision add"),
    ("int", "iadd3", "integer add"),
    ("imad", "imad", "integer multiply-add"),
    ("half", "hfma2", "half-precision multiply-add, two a lane"),
    ("fp64", "dfma", "double-precision multiply-add"),
    ("sfu", "rsqrt", "reciprocal square root"),
    ("smem", "lds", "shared memory load; each further way of a bank conflict adds conflict_latency_cycles"),
)
"""Operation classes that are written, and the operation that stands for each. That of `smem` shares the unit of loads."""

NEEDED = (
    "clock_ghz",
    "barrier.latency_cycles",
    "branch.loop_cycles",
    "launch.turnover_cycles",
    "shared.conflict_latency_cycles",
    "memory.latency_cycles",
    "memory.contention",
    "memory.quantiles",
    "memory.bandwidth_gbs.read",
    "ops.ldg.interval_sm_cycles",
    *(f"ops.{op}.{key}" for _, op, _ in CLASSES for key in ("latency_cycles", "interval_sm_cycles", "scope")),
)
"""Values without which there is no chip file."""


DEVICE_KEYS = (
    "name",
    "compute_capability",
    "sms",
    "max_threads_per_sm",
    "max_blocks_per_sm",
    "max_threads_per_block",
    "registers_per_sm",
    "shared_bytes_per_sm",
    "shared_bytes_per_block",
    "shared_bytes_reserved",
    "memory_clock_ghz",
    "memory_bus_bits",
    "driver",
)
"""What the record's head says of the device, and a chip file needs."""


AFTER_THE_CLOCK = 48
"""Cycles of the turnover benchmark itself: 45 from the last reading of the clock to the exit, and 3 from the start to the first
reading, by the waits and branches of the machine code for sm_90. The last store has to drain, too."""

_ABOVE_NOISE = 1.2
"""Interval of the blocks of an empty grid over what the places for blocks allow, from which on the chip's own rate limits it."""


class IncompleteError(ValueError):
    """A record lacks values that a chip file needs; the message names them."""


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuses a path that cannot become a chip file's.

    Raises:
        ValueError: the name has other characters than letters, digits, '_', '-' and '.', or the suffix is not .toml.
    """
    chip = Path(path)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", chip.stem) or chip.suffix != ".toml":
        raise ValueError(f"path = {str(path)!r}: a name of letters, digits, '_', '-' and '.', and the suffix .toml")


def write_chip(
    path: str | os.PathLike[str],
    record: Record,
    values: Mapping[str, Value],
    *,
    finish: Callable[[Path], None] = lambda chip: None,
) -> list[Path]:
    """Writes a chip file and, beside it, its table of latencies, once the whole chip is made and loads.

    Args:
        path: of the chip file; its stem becomes the chip's name.
        record: whose values are written.
        values: what `derive` found in it.
        finish: changes the chip file, in a temporary folder with the table beside it, before the files get to their places.

    Returns:
        The chip file and the table of latencies.

    Raises:
        IncompleteError: values are missing.
        RecordError: no valid chip follows from the values.
        ValueError: the stem is no name.
    """
    check_path(path)
    chip = Path(path)
    missing = [name for name in NEEDED if name not in values]
    missing += [f"device.{key}" for key in DEVICE_KEYS if key not in record.metadata.get("device", {})]
    if "begun" not in record.metadata.get("run", {}):
        missing.append("run.begun")
    if missing:
        raise IncompleteError(f"the record lacks {', '.join(missing)}")
    table = chip.with_name(chip.stem + "_latency.csv")
    day = str(record.metadata["run"]["begun"])[:10]
    with TemporaryDirectory() as folder:
        made, beside = Path(folder, chip.name), Path(folder, table.name)
        write_text(beside, latency_table(record, values, day))
        write_text(made, chip_text(chip.stem, table.name, record, values, day))
        try:
            with _without_notes():  # of a file that is gone when they are read
                load_gpu(made)
                finish(made)
                load_gpu(made)
        except GpuFileError as error:
            faults = "; ".join(line.removeprefix(f"{error.source}: ") for line in error.errors)
            faults = faults.replace(str(beside.resolve()), beside.name)
            raise RecordError(f"no valid chip follows from the record: {faults}") from error
        for place, text in ((table, beside.read_text(encoding="utf-8")), (chip, made.read_text(encoding="utf-8"))):
            write_text(place, text)
    load_gpu(chip)
    return [chip, table]


@contextmanager
def _without_notes() -> Iterator[None]:
    """Leaves out what the logger says of a chip file that is loaded."""
    logger = logging.getLogger(gpu.__name__)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def latency_table(record: Record, values: Mapping[str, Value], day: str) -> str:
    """Returns the text of the table of latency quantiles (V 6.6)."""
    quantiles = values["memory.quantiles"]
    head = [
        f"# Latency of single coalesced loads on {record.metadata['device']['name']}, in cycles.",
        f"# Source: warpsim measure, {day}: {quantiles.how}.",
        "# One row per throughput of the chip in GB/s; the other columns are quantiles by their level.",
        ",".join(["load_gbs", *(f"{level:g}" for level in TABLE_LEVELS)]),
    ]
    return "\n".join([*head, *(",".join(f"{number:g}" for number in row) for row in quantiles.value)]) + "\n"


def chip_text(name: str, distribution: str, record: Record, values: Mapping[str, Value], day: str) -> str:
    """Returns the text of a chip file, with the source of every value beside it."""
    device: dict[str, Any] = record.metadata["device"]
    queries = "reported by the driver"
    lines = [
        f"# {device['name']}, measured on {day} with driver {device['driver'] or 'unknown'}.",
        "# What this file leaves out, it takes from the file of its architecture.",
        "#",
        "# `measured` marks a value of `warpsim measure`; the raw numbers and their provenance are in its record.",
        "# V = Volkov, Understanding Latency Hiding on GPUs, 2016. `assumed: why` marks a value that was not measured.",
        "",
        *_keys(
            name=(name, "of this file"),
            title=(device["name"], queries),
            **_architecture(device["compute_capability"]),
            sms=(device["sms"], queries),
            clock_ghz=(round(values["clock_ghz"].value, 4), _measured(values, "clock_ghz")),
            **_launch(device, values),
        ),
        "",
        "[sm]",
        *_keys(
            max_warps=(device["max_threads_per_sm"] // 32, queries),
            max_blocks=(device["max_blocks_per_sm"], queries),
            max_block_warps=(device["max_threads_per_block"] // 32, queries),
            registers=(device["registers_per_sm"], queries),
            shared_bytes=(device["shared_bytes_per_sm"], queries),
            max_shared_bytes_per_block=(device["shared_bytes_per_block"], queries),
            shared_overhead_bytes=(device["shared_bytes_reserved"], queries),
        ),
    ]
    for label, text, keys in _classes(values):
        lines += ["", f"[ops.{label}]" + (f"  # {text}" if text else ""), *_keys(**keys)]
    lines += ["", "[memory]", *_keys(**_memory(device, values, distribution))]
    channels = max(1, device["memory_bus_bits"] // (64 if device["memory_bus_bits"] >= 1024 else 16))
    lines += ["", "[memory.queue]"]
    of_memory = f"for each of {channels} channels of the memory"
    lines += _keys(
        crossbar_servers=(channels, f"rule: a slice of L2 {of_memory}"),
        dram_servers=(SERVERS_PER_CHANNEL * channels, f"rule: {SERVERS_PER_CHANNEL} {of_memory}"),
    )
    how = _measured(values, "memory.contention")
    a, b, c = values["memory.contention"].value
    lines += ["", "[memory.contention]", *_keys(a_cycles=(a, how), b_cycles=(b, how), c_gbs=(c, how))]
    rates = _write_rates(values)
    if rates:
        lines += ["", "[memory.writes]", *_keys(**rates)]
    return "\n".join(lines) + "\n"


Keys = dict[str, tuple[Any, str]]


def _architecture(capability: str) -> Keys:
    """Returns the keys that say which generation a chip belongs to, by its compute capability, such as 9.0."""
    name, exact = nearest_architecture(capability)
    if exact:
        return {"architecture": (name, "compute capability")}
    generation, year = GENERATIONS.get(float(capability), (f"compute capability {capability}", 2025))
    return {
        "architecture": (name, f"assumed: the nearest that the package has below compute capability {capability}"),
        "generation": (generation, "by compute capability"),
        "year": (year, "of the generation"),
    }


def _launch(device: Mapping[str, Any], values: Mapping[str, Value]) -> Keys:
    """Returns the keys of launches. A rate of the whole chip is stated where it is what limits a grid of empty blocks."""
    turnover = values["launch.turnover_cycles"].value
    l2_latency = values["memory.l2_latency_cycles"].value if "memory.l2_latency_cycles" in values else 0
    own = AFTER_THE_CLOCK + round(STORE_DRAIN * l2_latency)
    less = _measured(values, "launch.turnover_cycles") + f", less {own} cycles of the benchmark itself"
    keys: Keys = {"block_launch_cycles": (max(0, round(turnover) - own), less)}
    if "launch.warp_delay_cycles" in values:
        delay = max(0, round(values["launch.warp_delay_cycles"].value))
        keys["warp_launch_cycles"] = (delay, _measured(values, "launch.warp_delay_cycles"))
    of_smallest = next((name for name in values if name.startswith("launch.block_cycles.")), None)
    if of_smallest is not None:
        interval, by_places = values[of_smallest].value, turnover / (device["sms"] * device["max_blocks_per_sm"])
        if interval > _ABOVE_NOISE * by_places:
            keys["launch_interval_cycles"] = (round(interval, 2), _measured(values, of_smallest))
    if "launch.kernel_us" in values:
        cycles = round(values["launch.kernel_us"].value * values["clock_ghz"].value * 1000)
        keys["grid_launch_cycles"] = (cycles, _measured(values, "launch.kernel_us"))
    return keys


def _classes(values: Mapping[str, Value]) -> Iterator[tuple[str, str, Keys]]:
    """Yields the operation classes that are measured: name, what it stands for, keys."""
    for label, op, text in CLASSES:
        scope = values[f"ops.{op}.scope"].value
        each = values[f"ops.{op}.interval_sm_cycles"].value * (4 if scope == "scheduler" and label != "smem" else 1)
        keys: Keys = {
            "latency_cycles": (round(values[f"ops.{op}.latency_cycles"].value), _measured(values, f"ops.{op}.latency_cycles")),
            "interval_cycles": (nearest(each), _measured(values, f"ops.{op}.interval_sm_cycles") + f"; {each:.3f} for a unit"),
        }
        if label == "smem":
            how = _measured(values, "shared.conflict_latency_cycles")
            keys["conflict_latency_cycles"] = (round(values["shared.conflict_latency_cycles"].value), how)
        else:
            keys["scope"] = (scope, _measured(values, f"ops.{op}.scope"))
        yield label, text, keys
    load = nearest(values["ops.ldg.interval_sm_cycles"].value)
    yield "load", "", {"interval_cycles": (load, _measured(values, "ops.ldg.interval_sm_cycles"))}
    stores = values.get("issue.global_store.interval_cycles.4")
    if stores:
        how = _measured(values, "issue.global_store.interval_cycles.4") + ", over 4 schedulers"
        yield "store", "", {"interval_cycles": (nearest(stores.value / 4), how)}
    held = max(0, round(values["barrier.latency_cycles"].value))
    yield "barrier", "", {"latency_cycles": (held, _measured(values, "barrier.latency_cycles"))}
    turn = max(1, round(values["branch.loop_cycles"].value))
    yield "branch", "", {
        "gap_cycles": (turn, "assumed: that of a branch that is taken"),
        "taken_gap_cycles": (turn, _measured(values, "branch.loop_cycles")),
    }


def _memory(device: Mapping[str, Any], values: Mapping[str, Value], distribution: str) -> Keys:
    gbs = values["memory.bandwidth_gbs.read"]
    pins = 2 * device["memory_clock_ghz"] * device["memory_bus_bits"] / 8
    pin = (round(pins, 1), "reported by the driver: 2 transfers a clock x width of the bus")
    init = values.get("memory.bandwidth_gbs.init")
    highest = max(gbs.value, init.value if init else 0.0)
    if pins < gbs.value or AT_PINS * pins < highest:
        why = f"since the driver's {pins:g} GB/s are less" if pins else "since the driver names no clock of the memory"
        pin = (round(1.08 * highest, 1), f"assumed: 1.08 x what was measured, {why}")
    latency = round(values["memory.latency_cycles"].value)
    keys: Keys = {
        "latency_cycles": (latency, _measured(values, "memory.latency_cycles")),
        "pin_bandwidth_gbs": pin,
        "bandwidth_gbs": (gbs.value, _measured(values, "memory.bandwidth_gbs.read")),
        "distribution": (distribution, "measured: beside this file"),
        "measured": (True, "on this chip"),
        "measured_latency_cycles": (latency, "latency_cycles, as both are of this chip"),
    }
    for level in ("l1", "l2"):
        if f"memory.{level}_latency_cycles" in values:
            cycles = round(values[f"memory.{level}_latency_cycles"].value)
            keys[f"{level}_latency_cycles"] = (cycles, _measured(values, f"memory.{level}_latency_cycles"))
    return keys


def _write_rates(values: Mapping[str, Value]) -> Keys:
    """Returns the sustained rates of stores, and of as many stores as loads, over that of loads; {} if they are not measured."""
    of = {kernel: values.get(f"memory.bandwidth_gbs.{kernel}") for kernel in ("read", "init", "copy")}
    read, init, copy = of["read"], of["init"], of["copy"]
    if read is None or init is None or copy is None:
        return {}
    write_rate = max(0.001, round(init.value / read.value, 3))
    mixed_rate = min(round(copy.value / read.value, 3), math.floor(2000 / (1 + 1 / write_rate)) / 1000)
    return {
        "mixed_rate": (mixed_rate, "measured: the best copy over the best read, at most the mean of loads and stores apart"),
        "write_rate": (write_rate, "measured: the best init over the best read"),
    }


def nearest(interval: float) -> int | float:
    """Returns the power of two from 1/4 to 64 within 6 % of an interval, or else the interval with two decimals.

    Units are a power of two of lanes wide, and a measured interval exceeds the unit's by what the issue of a loop costs.
    """
    for power in range(-2, 7):
        exact = 2.0**power
        if abs(interval / exact - 1) < 0.06:
            return int(exact) if exact >= 1 else exact
    return round(interval, 2)


def _measured(values: Mapping[str, Value], name: str) -> str:
    return f"measured: {values[name].how}"


def _keys(**keys: tuple[Any, str]) -> list[str]:
    """Returns lines of `key = value  # source`, with the comments in one column."""
    words = [f"{key} = {toml_value(value)}" for key, (value, _) in keys.items()]
    width = max(map(len, words))
    return [f"{word:<{width}}  # {source}" for word, (_, source) in zip(words, keys.values(), strict=True)]
