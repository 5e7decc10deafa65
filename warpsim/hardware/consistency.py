"""Contradictions in the description of a chip: between its fields, and between those of its memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from warpsim.hardware import operations
from warpsim.hardware.fields import is_number
from warpsim.hardware.file_errors import Problem, format_value
from warpsim.hardware.latency import load_distribution
from warpsim.hardware.memory import Memory
from warpsim.units import COALESCED_BYTES

_LATENCY_SHARE, _LATENCY_CYCLES = 0.1, 20.0
"""Largest difference between the latency of the idle queue and that of the chip, relative and in cycles; fits give 3 %."""

AT_PINS = 1.02
"""Largest rate of stores over that of the pins."""

_START = "1.1 times the bandwidth"
_REFIT = "the parameters of the queue belong to one chip: start from {}, and fit them with warpsim.analysis.calibration"

_AT_MOST = (
    ("sm.schedulers", "sm.max_warps"),
    ("sm.max_block_warps", "sm.max_warps"),
    ("sm.max_blocks", "sm.max_warps"),
    ("sm.max_shared_bytes_per_block", "sm.shared_bytes"),
    ("sm.max_registers_per_thread", "sm.registers"),
    ("memory.bandwidth_gbs", "memory.pin_bandwidth_gbs"),
)


def inconsistencies(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields contradictions between fields of a description. Fields can be wrong or missing; such fields are skipped."""
    for small, large in _AT_MOST:
        low, high = value_at(data, small), value_at(data, large)
        if is_number(low) and is_number(high) and high < low < math.inf:  # an infinite value is an error of its own
            yield tuple(small.split(".")), f" = {low}: must be at most {large} = {high}"
    fit, terms = value_at(data, "memory.contention.refined_a_cycles"), value_at(data, "memory.contention.refined")
    if (fit is None) != (terms is None):
        text = f" = {format_value(terms)}: must be given together with refined_a_cycles, or not at all"
        yield ("memory", "contention", "refined"), text
    latency, offset = value_at(data, "memory.latency_cycles"), value_at(data, "memory.queue.latency_offset_cycles")
    if is_number(latency) and is_number(offset) and latency > 0 and latency + offset <= 0:
        text = f" = {offset}: must be above -{latency}, the negative of memory.latency_cycles"
        yield ("memory", "queue", "latency_offset_cycles"), text
    near, far = value_at(data, "memory.l2_latency_cycles"), value_at(data, "memory.l2_far_latency_cycles")
    if is_number(far) and not (is_number(near) and near <= far):
        least = f"at least memory.l2_latency_cycles = {near}" if is_number(near) else "left out without memory.l2_latency_cycles"
        yield ("memory", "l2_far_latency_cycles"), f" = {far}: must be {least}"
    distribution = value_at(data, "memory.distribution")
    if isinstance(distribution, str) and distribution:
        try:
            load_distribution(distribution)
        except (ValueError, OSError) as error:
            yield ("memory", "distribution"), f" = {format_value(distribution)}: {error}"
    yield from operations.inconsistencies(data)


def value_at(data: Any, dotted: str) -> Any:
    """Returns the value at a dotted key of a description; None: there is none."""
    for key in dotted.split("."):
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def of_memory(memory: Memory) -> Iterator[Problem]:
    """Yields contradictions between the values of a memory, for which only files are checked: a what-if may mean them."""
    yield from _levels_out_of_order(memory)
    yield from _stores_beyond_the_pins(memory)
    yield from _queue_of_another_chip(memory)


def beyond_the_sms(memory: Memory, sms: int, clock_ghz: float) -> Iterator[Problem]:
    """Yields a bandwidth that is more than all SMs take in, a line of 128 bytes a cycle each, as one in MB/s is."""
    most = sms * clock_ghz * COALESCED_BYTES
    if memory.bandwidth_gbs > most:
        text = f"must be at most {most:.4g}, with which each SM takes in {COALESCED_BYTES} bytes a cycle; is it in GB/s?"
        yield ("memory", "bandwidth_gbs"), f" = {memory.bandwidth_gbs:g}: {text}"


def _levels_out_of_order(memory: Memory) -> Iterator[Problem]:
    """Yields the levels of memory that are slower than the next one."""
    levels = ("l1_latency_cycles", "l2_latency_cycles", "l2_far_latency_cycles", "latency_cycles")
    known = [(key, getattr(memory, key)) for key in levels if getattr(memory, key) is not None]
    for (key, cycles), (farther, more) in pairwise(known):
        if cycles > more:
            yield ("memory", key), f" = {cycles}: must be at most memory.{farther} = {more}"


def _stores_beyond_the_pins(memory: Memory) -> Iterator[Problem]:
    """Yields a rate of stores alone that is above that of the pins by more than an error of measurement."""
    most = AT_PINS * memory.pin_bandwidth_gbs
    if memory.writes is not None and memory.stores_gbs > most:
        text = f"must be at most {most / memory.bandwidth_gbs:.4g}, with which stores alone attain memory.pin_bandwidth_gbs"
        yield ("memory", "writes", "write_rate"), f" = {memory.writes.write_rate:g}: {text}"


def _queue_of_another_chip(memory: Memory) -> Iterator[Problem]:
    """Yields parameters of the queue that do not suit the bandwidth or the latency.

    With the queue of another chip, the simulated memory would silently be slower, or its latency another one.
    """
    queue = memory.queue
    for stage in ("crossbar_gbs", "dram_gbs"):
        rate = getattr(queue, stage)
        if rate < memory.bandwidth_gbs:
            text = f" = {rate:g}: must be at least memory.bandwidth_gbs = {memory.bandwidth_gbs:g}; {_REFIT.format(_START)}"
            yield ("memory", "queue", stage), text
    most = max(_LATENCY_SHARE * memory.latency_cycles, _LATENCY_CYCLES)
    if abs(queue.latency_offset_cycles) > most:
        text = (
            f" = {queue.latency_offset_cycles:g}: must be from {-most:g} to {most:g}, so that the latency of the idle queue, "
            f"now {memory.queue_latency_cycles:g} cycles, is near memory.latency_cycles = {memory.latency_cycles}; "
            f"{_REFIT.format('0')}"
        )
        yield ("memory", "queue", "latency_offset_cycles"), text
