"""Cases for tests that compare two implementations of docs/model.md: a small chip with changes, and the arguments of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Instruction, Kernel
from warpsim.simulation.policies import POLICIES as NAMED

POLICIES = (*NAMED, "two_level:2")
MAIN_POLICIES = ("lrr", "gto", "random")
"""Policies of the tests that `make test` runs under some of them, and `make verify` under all others."""

EACH_POLICY = [name if name in MAIN_POLICIES else pytest.param(name, marks=pytest.mark.verify) for name in POLICIES]
"""Parameters of such a test."""

REGISTERS = ("r0", "r1", "r2", "r3")


def op_facts(pipe: str, **changes: Any) -> dict[str, Any]:
    """Returns the table of an operation class on the small chip, with changes."""
    facts = {"latency_cycles": 6, "interval_cycles": 1, "scope": "scheduler", "gap_cycles": 1, "pipe": pipe}
    return facts | changes


SMALL_GPU: dict[str, Any] = {
    "name": "small",
    "title": "A small chip for tests",
    "generation": "test",
    "year": 2016,
    "sms": 1,
    "clock_ghz": 1.0,
    "block_launch_cycles": 5,
    "sm": {
        "schedulers": 1,
        "max_warps": 16,
        "max_blocks": 8,
        "max_block_warps": 8,
        "registers": 65536,
        "max_registers_per_thread": 255,
        "register_granularity": 1,
        "register_allocation": "warp",
        "warp_granularity": 1,
        "shared_bytes": 49152,
        "max_shared_bytes_per_block": 49152,
        "shared_granularity_bytes": 1,
        "shared_overhead_bytes": 0,
    },
    "issue": {"interval_cycles": 1, "width": 1},
    "shared": {"banks": 32, "bank_bytes": 4, "lanes_per_pass": 32},
    "ops": {
        "alu": op_facts("math"),
        "sfu": op_facts("mio", interval_cycles=4),
        "smem": op_facts("mio", latency_cycles=10, scope="sm", conflict_latency_cycles=2),
        "load": op_facts("lg", latency_cycles=0, scope="sm"),
        "store": op_facts("lg", latency_cycles=0, scope="sm"),
        "barrier": op_facts("none", latency_cycles=4),
        "branch": op_facts("none", latency_cycles=0, gap_cycles=2, taken_gap_cycles=3),
        "exit": op_facts("none", latency_cycles=0),
    },
    "memory": {
        "latency_cycles": 40,
        "pin_bandwidth_gbs": 1e6,
        "bandwidth_gbs": 1e5,
        "transaction_bytes": 32,
        "coalescing": "warp",
        "transaction_latency_cycles": 2.5,
        "divergent_transaction_bytes": 120.0,
        "loads_per_warp": None,
        "loads_per_sm": None,
        "stores_per_sm": None,
        "l1_latency_cycles": 7,
        "l2_latency_cycles": 19,
        "distribution": "kepler",
        "measured": False,
        "queue": {
            "latency_offset_cycles": 0.0,
            "crossbar_servers": 2,
            "crossbar_gbs": 60.0,
            "dram_servers": 3,
            "dram_gbs": 50.0,
            "fit_rms_percent": None,
        },
        "contention": {"a_cycles": 40, "b_cycles": 3, "c_gbs": 50},
    },
}


def small_gpu(**changes: Any) -> Gpu:
    """Returns a chip with one SM, one scheduler and ample memory bandwidth, with changes.

    A change of a table lists only the keys that change, as in `small_gpu(sms=2, memory={"loads_per_sm": 3})`.
    """
    return Gpu.model_validate(changed(SMALL_GPU, changes))


def changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table with changes, of which those of a table inside it list only the keys that change."""
    result = dict(table)
    for key, value in changes.items():
        inner = result.get(key)
        nested = isinstance(value, Mapping) and isinstance(inner, Mapping)
        result[key] = changed(inner, value) if nested else value
    return result


@dataclass(frozen=True)
class Case:
    """The arguments of one run. `options` are the keyword arguments of the simulation."""

    gpu: Gpu
    kernel: Kernel
    launch: Launch
    options: dict[str, Any]


def paths(*bodies: tuple[Any, ...], of_warp: tuple[int, ...]) -> Kernel:
    """Returns a kernel whose launched warps start at several entries."""
    body: list[Any] = []
    entries = []
    for number, path in enumerate(bodies):
        entries.append(len(body))
        body += [*path, *([Instruction("exit")] if number < len(bodies) - 1 else [])]
    inputs = tuple(f"r{number}" for number in range(6))
    return Kernel(name="paths", inputs=inputs, body=tuple(body), entries=tuple(entries), entry_of_warp=of_warp)
