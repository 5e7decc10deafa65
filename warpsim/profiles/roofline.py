"""A roofline of a profiled launch, from the same counters as its replay: the busiest resource, and nothing that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.kernels.costs import costs_on, data_stage
from warpsim.kernels.traversal import expected_executions
from warpsim.simulation.endless import without_exits
from warpsim.units import ACCESS_KINDS, SECTOR_BYTES, gbs_to_bytes_per_cycle

if TYPE_CHECKING:
    from warpsim.profiles.api import Profile


def roofline(profile: Profile) -> dict[str, float]:
    """Returns resource -> cycles that the launch needs of it, with the constant cost of a launch.

    The resources are the issue slots, the execution units by name, their data stages, and DRAM at its sustained bandwidth. Work
    is spread evenly over the SMs.
    """
    gpu, launch = profile.gpu, profile.launch
    warps = (launch.blocks or 1) * launch.block_warps / gpu.sms
    busy: dict[str, float] = {"issue": 0.0}
    for one, count in expected_executions(without_exits(profile.kernel.body), launch.block_warps):
        costs = costs_on(gpu, one)
        unit = gpu.unit_of(one.op)
        busy["issue"] += count * costs.issue_slots / gpu.issue_ipc
        for name, time in ((unit, costs.unit_cycles), (data_stage(unit), costs.data_cycles)):
            if time > 0:
                busy[name] = busy.get(name, 0.0) + count * float(time) / gpu.units_per_sm(one.op)
    cycles = {name: warps * value for name, value in busy.items()}
    cycles["dram"] = profile.dram_bytes / gbs_to_bytes_per_cycle(gpu.memory.bandwidth_gbs, gpu.clock_ghz)
    return {name: value + gpu.grid_launch_cycles for name, value in cycles.items()}


def of_chip(profile: Profile) -> dict[str, float]:
    """Returns resource of the whole chip -> cycles that the launch needs of it, without the constant cost of a launch.

    The resources are the ports by which slices of L2 take in stores, where their rate is known; the busiest slice, where updates
    meet at few addresses and follow one another there; and the starts of blocks, which follow one another on chips that state an
    interval.
    """
    gpu, launch = profile.gpu, profile.launch
    taken_in = updated = 0.0
    for one, count in expected_executions(without_exits(profile.kernel.body), launch.block_warps):
        access = costs_on(gpu, one).access
        if access is None:
            continue
        if ACCESS_KINDS[one.op] == "store":
            taken_in += count * access.requests * access.port_sectors
        if access.contended_addresses:
            updated += count * access.requests * access.updates / access.contended_addresses
    warps = (launch.blocks or 1) * launch.block_warps
    found = {
        "updates of L2": warps * updated * (gpu.memory.atomic_interval_cycles or 0.0),
        "starts of blocks": (launch.blocks or 1) * gpu.launch_interval_cycles,
    }
    if gpu.memory.l2_store_gbs is not None:
        rate = gbs_to_bytes_per_cycle(gpu.memory.l2_store_gbs, gpu.clock_ghz)
        found["stores into L2"] = warps * taken_in * SECTOR_BYTES / rate
    return {name: cycles for name, cycles in found.items() if cycles > 0}
