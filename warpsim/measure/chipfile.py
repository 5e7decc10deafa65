"""From derived values to a chip file and a table of latencies, in the formats of params/gpus and params/latency.

The format of chips holds less than what is measured; the rest stays in the record (docs/measure.md lists it). What is not
measured is taken from the vendor's occupancy calculator by compute capability, or assumed; each line says which.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from warpsim.hardware.architectures import SERVERS_PER_CHANNEL, STAGE_RATE
from warpsim.measure.memory_values import LEVELS
from warpsim.measure.record import Record
from warpsim.measure.values import Value

GENERATIONS = {7.5: ("Turing", 2018), 8.0: ("Ampere", 2020), 8.6: ("Ampere", 2020), 8.7: ("Ampere", 2022), 8.9: ("Ada", 2022)}
GENERATIONS |= {9.0: ("Hopper", 2022), 10.0: ("Blackwell", 2024), 10.3: ("Blackwell", 2025), 12.0: ("Blackwell", 2025)}
"""Compute capability -> name of the generation, and the year of its first chip."""

CLASSES = (  # class of the chip file, operation, pipe, what it stands for
    ("alu", "fadd", "math", "single-precision add"),
    ("sfu", "rsqrt", "mio", "reciprocal square root"),
    ("smem", "lds", "mio", "shared memory load; each further way of a bank conflict adds conflict_latency_cycles"),
    ("int", "iadd3", "math", "integer add"),
    ("imad", "imad", "math", "integer multiply-add"),
    ("fp64", "dfma", "math", "double-precision multiply-add"),
    ("half", "hfma2", "math", "half-precision multiply-add, two a lane"),
    ("convert", "cvt_f32_s32", "mio", "conversion between float and integer"),
    ("shuffle", "shfl", "mio", "shuffle"),
)
"""Operation classes that are written, and the operation that stands for each."""

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
    *(f"ops.{op}.{key}" for _, op, _, _ in CLASSES for key in ("latency_cycles", "interval_sm_cycles", "scope")),
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
    path: str | os.PathLike[str], record: Record, values: Mapping[str, Value], *, today: date | None = None
) -> list[Path]:
    """Writes a chip file and, beside it, its table of latencies.

    Args:
        path: of the chip file; its stem becomes the chip's name.
        record: whose values are written.
        values: what `derive` found in it.
        today: date of the files; by default the date of the record.

    Returns:
        The chip file and the table of latencies.

    Raises:
        IncompleteError: values are missing.
        ValueError: the stem is no name.
    """
    check_path(path)
    chip = Path(path)
    missing = [name for name in NEEDED if name not in values]
    missing += [f"device.{key}" for key in DEVICE_KEYS if key not in record.metadata.get("device", {})]
    if missing:
        raise IncompleteError(f"the record lacks {', '.join(missing)}")
    table = chip.with_name(chip.stem + "_latency.csv")
    day = today.isoformat() if today else str(record.metadata["run"]["begun"])[:10]
    table.write_text(latency_table(record, values, day), encoding="utf-8")
    chip.write_text(chip_text(chip.stem, table.resolve(), record, values, day), encoding="utf-8")
    return [chip, table]


def latency_table(record: Record, values: Mapping[str, Value], day: str) -> str:
    """Returns the text of the table of latency quantiles (V 6.6)."""
    quantiles = values["memory.quantiles"]
    head = [
        f"# Latency of single coalesced loads on {record.metadata['device']['name']}, in cycles.",
        f"# Source: warpsim measure, {day}: {quantiles.how}.",
        "# One row per throughput of the chip in GB/s; the other columns are quantiles by their level.",
        ",".join(["load_gbs", *(f"{level:g}" for level in LEVELS)]),
    ]
    return "\n".join([*head, *(",".join(f"{number:g}" for number in row) for row in quantiles.value)]) + "\n"


def chip_text(name: str, distribution: Path, record: Record, values: Mapping[str, Value], day: str) -> str:
    """Returns the text of a chip file, with the source of every value beside it."""
    device: dict[str, Any] = record.metadata["device"]
    capability = float(device["compute_capability"])
    generation, year = GENERATIONS.get(capability, (f"compute capability {device['compute_capability']}", 2025))
    gbs = values["memory.bandwidth_gbs.read"]
    queries = "reported by the driver"
    calculator = f"vendor's occupancy calculator, compute capability {device['compute_capability']}"
    pins = 2 * device["memory_clock_ghz"] * device["memory_bus_bits"] / 8
    pin = (round(pins, 1), "reported by the driver: 2 transfers a clock x width of the bus")
    if pins < gbs.value:
        pin = (round(1.08 * gbs.value, 1), "assumed: 1.08 x what was measured, since the driver names no clock of the memory")
    a, b, c = values["memory.contention"].value
    channels = max(1, device["memory_bus_bits"] // (64 if device["memory_bus_bits"] >= 1024 else 16))
    latency = round(values["memory.latency_cycles"].value)
    stage = round(STAGE_RATE * gbs.value, 1)

    lines = [
        f"# {device['name']}, measured on {day} with driver {device['driver'] or 'unknown'}.",
        "#",
        "# `measured` marks a value of `warpsim measure`; the raw numbers and their provenance are in its record.",
        "# V = Volkov, Understanding Latency Hiding on GPUs, 2016. `assumed: why` marks a value that was not measured.",
        "",
        *_keys(
            name=(name, "of this file"),
            title=(device["name"], queries),
            generation=(generation, "by compute capability"),
            year=(year, "of the generation"),
            sms=(device["sms"], queries),
            clock_ghz=(round(values["clock_ghz"].value, 4), _measured(values, "clock_ghz")),
            block_launch_cycles=(round(values["launch.turnover_cycles"].value), _measured(values, "launch.turnover_cycles")),
        ),
        "",
        "[sm]",
        *_keys(
            schedulers=(4, "every chip since compute capability 5.0"),
            max_warps=(device["max_threads_per_sm"] // 32, queries),
            max_blocks=(device["max_blocks_per_sm"], queries),
            max_block_warps=(device["max_threads_per_block"] // 32, queries),
            registers=(device["registers_per_sm"], queries),
            max_registers_per_thread=(255, calculator),
            register_granularity=(256, calculator),
            register_allocation=("warp", calculator),
            warp_granularity=(4, calculator),
            shared_bytes=(device["shared_bytes_per_sm"], queries),
            max_shared_bytes_per_block=(device["shared_bytes_per_block"], queries),
            shared_granularity_bytes=(128 if capability >= 8 else 256, calculator),
            shared_overhead_bytes=(device["shared_bytes_reserved"], queries),
        ),
        "",
        "[issue]",
        *_keys(
            interval_cycles=(1, "every chip since compute capability 5.0"),
            width=(1, "no dual issue since compute capability 7.0"),
        ),
        "",
        "[shared]",
        *_keys(
            banks=(32, "every chip since compute capability 2.0"),
            bank_bytes=(4, "as banks"),
            lanes_per_pass=(32, "the whole warp"),
        ),
    ]
    for label, op, pipe, text in CLASSES:
        scope = values[f"ops.{op}.scope"].value
        interval = values[f"ops.{op}.interval_sm_cycles"].value * (4 if scope == "scheduler" else 1)
        keys = {
            "latency_cycles": (round(values[f"ops.{op}.latency_cycles"].value), _measured(values, f"ops.{op}.latency_cycles")),
            "interval_cycles": (
                nearest(interval),
                _measured(values, f"ops.{op}.interval_sm_cycles") + f"; {interval:.3f} for a unit",
            ),
            "scope": (scope, _measured(values, f"ops.{op}.scope")),
            "gap_cycles": (1, "one instruction a cycle; no longer gap is known"),
            "pipe": (pipe, "as the profiler counts it"),
        }
        if label == "smem":
            conflict = values["shared.conflict_latency_cycles"]
            keys["conflict_latency_cycles"] = (round(conflict.value), _measured(values, "shared.conflict_latency_cycles"))
        lines += ["", f"[ops.{label}]  # {text}", *_keys(**keys)]
    load = values["ops.ldg.interval_sm_cycles"].value
    stores = values.get("issue.global_store.interval_cycles.4")
    store = (
        (nearest(stores.value / 4), _measured(values, "issue.global_store.interval_cycles.4") + ", over 4 schedulers")
        if stores
        else (nearest(load), "assumed: as load")
    )
    turn = max(1, round(values["branch.loop_cycles"].value))
    for label, latency_text, interval_of, scope, gap, pipe in (
        ("load", "not used: see [memory]", (nearest(load), _measured(values, "ops.ldg.interval_sm_cycles")), "sm", 1, "lg"),
        ("store", "not used: nobody waits for a store", store, "sm", 1, "lg"),
        ("barrier", _measured(values, "barrier.latency_cycles"), (1, "assumed: no limit beyond issue"), "scheduler", 1, "none"),
        ("branch", "a branch has no result register", (1, "assumed: no limit beyond issue"), "scheduler", turn, "none"),
        ("exit", "only block_launch_cycles follow", (1, "assumed: no limit beyond issue"), "scheduler", 1, "none"),
    ):
        cycles = round(values["barrier.latency_cycles"].value) if label == "barrier" else 0
        gap_text = _measured(values, "branch.loop_cycles") if label == "branch" else "one instruction a cycle"
        lines += [
            "",
            f"[ops.{label}]",
            *_keys(
                latency_cycles=(max(0, cycles), latency_text),
                interval_cycles=interval_of,
                scope=(scope, "load-store units are part of the SM" if scope == "sm" else "assumed: no shared unit is known"),
                gap_cycles=(gap, gap_text),
                pipe=(pipe, "as the profiler counts it"),
            ),
        ]
    memory: dict[str, tuple[Any, str]] = {
        "latency_cycles": (latency, _measured(values, "memory.latency_cycles")),
        "pin_bandwidth_gbs": pin,
        "bandwidth_gbs": (gbs.value, _measured(values, "memory.bandwidth_gbs.read")),
        "transaction_bytes": (32, "a sector; every chip since compute capability 5.0"),
        "coalescing": ("warp", "every chip since compute capability 2.0"),
        "transaction_latency_cycles": (
            2.0,
            "assumed: one request of the load-store unit per 2 cycles (Huerta et al., MICRO 2025)",
        ),
        "divergent_transaction_bytes": (64.0, "assumed: the memory is read in pairs of sectors"),
        "distribution": (str(distribution), "measured: beside this file"),
        "measured": (True, "on this chip"),
        "measured_latency_cycles": (latency, "latency_cycles, as both are of this chip"),
    }
    for level in ("l1", "l2"):
        if f"memory.{level}_latency_cycles" in values:
            cycles = round(values[f"memory.{level}_latency_cycles"].value)
            memory[f"{level}_latency_cycles"] = (cycles, _measured(values, f"memory.{level}_latency_cycles"))
    servers = (
        SERVERS_PER_CHANNEL * channels,
        f"start value: {SERVERS_PER_CHANNEL} for each of {channels} channels of the memory",
    )
    rate = (stage, f"start value: {STAGE_RATE} x the sustained rate")
    lines += ["", "[memory]", *_keys(**memory), "", "[memory.queue]  # start values, not fitted to the measured curve"]
    lines += _keys(
        latency_offset_cycles=(0.0, "start value: the unloaded latency"),
        crossbar_servers=servers,
        crossbar_gbs=rate,
        dram_servers=servers,
        dram_gbs=rate,
    )
    how = _measured(values, "memory.contention")
    lines += ["", "[memory.contention]", *_keys(a_cycles=(a, how), b_cycles=(b, how), c_gbs=(c, how))]
    return "\n".join(lines) + "\n"


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
    words = [f"{key} = {_word(value)}" for key, (value, _) in keys.items()]
    width = max(map(len, words))
    return [f"{word:<{width}}  # {source}" for word, (_, source) in zip(words, keys.values(), strict=True)]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
