"""Sections of large chips: some of the SMs with their share of the memory, of which slices are simulated.

The memory of a large chip takes as long to simulate as many SMs. Slices of it behave alike beside fewer SMs, as long as those are
enough that no server of the memory is shared by a few warps only. docs/model.md, section 5.
"""

from __future__ import annotations

from fractions import Fraction

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.memo import kept_by_object

LEAST_SMS, MOST_SMS = 16, 31
"""SMs of a section."""

SLICE_SMS = 8
"""SMs of the slice that advice, comparisons and fits simulate of a chip, where the caller does not say how many.

A slice of a large chip takes a fifth of the time or less. Its throughput differs from that of the whole chip by up to 6 %
(docs/validity.md), less than models do.
"""

LEAST_SERVERS = 20
"""Servers of each stage of a section, at least: of fewer servers, requests meet less often by chance."""

ROUNDING = Fraction(1, 100)
"""Relative rounding of a number of servers, at most."""


def section(gpu: Gpu, sms: int) -> Gpu:
    """Returns the section of a chip in which a slice of `sms` SMs is simulated; the chip itself if no section holds the slice."""
    return _section(gpu) if sms <= LEAST_SMS else gpu


@kept_by_object
def _section(gpu: Gpu) -> Gpu:
    """Returns the section of a chip in whose share of the memory servers are closest to whole numbers; the chip if none fits.

    Rates are shared exactly, those of the stages as well. The section starts as many blocks per SM as the chip does.
    """
    memory, queue = gpu.memory, gpu.memory.queue
    fitting = [number for number in range(LEAST_SMS, MOST_SMS + 1) if _fits(gpu, number)]
    if gpu.sms <= MOST_SMS or not fitting:
        return gpu
    sms = min(fitting, key=lambda number: (_rounding(gpu, number), number))
    share = sms / gpu.sms
    part = queue.model_copy(
        update={
            "crossbar_servers": _servers(queue.crossbar_servers, sms, gpu),
            "crossbar_gbs": queue.crossbar_gbs * share,
            "dram_servers": _servers(queue.dram_servers, sms, gpu),
            "dram_gbs": queue.dram_gbs * share,
        }
    )
    changed = {"queue": part, "bandwidth_gbs": memory.bandwidth_gbs * share}
    if memory.l2_store_gbs is not None:
        changed["l2_store_gbs"] = memory.l2_store_gbs * share
    interval = gpu.launch_interval_cycles / share
    return gpu.model_copy(
        update={"sms": sms, "memory": memory.model_copy(update=changed), "launch_interval_cycles": interval}
    )


def _servers(number: int, sms: int, gpu: Gpu) -> int:
    """Returns the servers of a section, of so many of the chip."""
    return round(Fraction(number * sms, gpu.sms))


def _stages(gpu: Gpu) -> tuple[int, int]:
    return gpu.memory.queue.crossbar_servers, gpu.memory.queue.dram_servers


def _fits(gpu: Gpu, sms: int) -> bool:
    return min(_servers(number, sms, gpu) for number in _stages(gpu)) >= LEAST_SERVERS and _rounding(gpu, sms) <= ROUNDING


def _rounding(gpu: Gpu, sms: int) -> Fraction:
    """Returns by how much rounding changes the number of servers of a stage, at most, relative to that number."""
    return max(abs(Fraction(_servers(number, sms, gpu) * gpu.sms, number * sms) - 1) for number in _stages(gpu))
