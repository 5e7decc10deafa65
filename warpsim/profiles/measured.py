"""What the profiler measured of a launch, in the names of a simulation's results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpsim.profiles.launch import REASONS, ProfiledInstruction, ProfiledLaunch, how_to_collect
from warpsim.results.schema import STATES
from warpsim.units import WARP_LANES

OTHER = "other"
"""The share of reasons that warpsim has no name for."""

ELAPSED = "gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "sm__cycles_elapsed.avg"
"""Counters of the cycles of a launch, the best first."""

_REASONS = {"lg": "lg_throttle", "no_instructions": "no_instruction"}
_STALL = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio")
_OLD_STALL = ("smsp__average_warp_latency_issue_stalled_", ".ratio")


@dataclass(frozen=True)
class Measurements:
    """What the profiler measured.

    Attributes:
        cycles: elapsed, from the launch to its end.
        active_cycles: mean over SMs of the cycles in which the SM had a warp.
        microseconds: duration of the launch.
        instructions: executed by warps.
        ipc: warp instructions per elapsed cycle and SM.
        warps: mean resident warps of an SM in its active cycles; None: not collected.
        dram_bytes: read and written.
        dram_gbs: bytes per second, in GB/s.
        stalls: state -> warp cycles per issued instruction; empty: not collected.
        samples: whether `stalls` are shares of samples rather than counters.
        missing: what was not collected, each with the option of the profiler (source lines: of the compiler) that collects it.
    """

    cycles: float
    active_cycles: float | None
    microseconds: float
    instructions: float
    ipc: float
    warps: float | None
    dram_bytes: float
    dram_gbs: float
    stalls: Mapping[str, float]
    samples: bool
    missing: tuple[str, ...]

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the states in the warp cycles; empty where they were not collected."""
        total = sum(self.stalls.values())
        return {state: value / total for state, value in self.stalls.items()} if total else {}


def measurements(launch: ProfiledLaunch) -> Measurements:
    """Returns what was measured of a launch.

    Raises:
        ProfileError: cycles, duration or DRAM traffic are missing; the message names the option that collects them.
    """
    cycles = launch.get(*ELAPSED)
    if cycles is None:
        cycles = launch.need(ELAPSED[0])
    sms = launch.need("device__attribute_multiprocessor_count")
    executed = launch.get("smsp__inst_executed.sum", "sm__inst_executed.sum") or float(sum(one.executed for one in launch.code))
    nanoseconds = launch.need("gpu__time_duration.sum")
    moved = launch.need("dram__bytes_read.sum") + launch.need("dram__bytes_write.sum")
    warps = launch.get("sm__warps_active.avg.per_cycle_active")
    if warps is None and (percent := launch.get("sm__warps_active.avg.pct_of_peak_sustained_active")) is not None:
        most = launch.get("device__attribute_max_warps_per_multiprocessor")
        warps = None if most is None else percent / 100 * most
    stalls, samples = _stalls(launch)
    missing = []
    if warps is None:
        missing.append(f"achieved warps: {how_to_collect('sm__warps_active.avg.per_cycle_active')}")
    if not stalls or samples:
        missing.append(f"stall reasons: {how_to_collect('smsp__average_warps_issue_stalled')}")
    if not any(name.startswith("smsp__pcsamp") for name in launch.metrics):
        missing.append(f"samples by instruction: {how_to_collect('smsp__pcsamp')}")
    if not any(one.line for one in launch.code):
        missing.append("source lines: nvcc -lineinfo")
    return Measurements(
        cycles=cycles,
        active_cycles=launch.get("sm__cycles_active.avg"),
        microseconds=nanoseconds / 1000,
        instructions=executed,
        ipc=executed / sms / cycles,
        warps=warps,
        dram_bytes=moved,
        dram_gbs=moved / nanoseconds if nanoseconds else 0.0,
        stalls=stalls,
        samples=samples,
        missing=tuple(missing),
    )


def _stalls(launch: ProfiledLaunch) -> tuple[dict[str, float], bool]:
    """Returns warp cycles per issue by state, and whether they are samples."""
    for beginning, end in (_STALL, _OLD_STALL):
        found = {
            name.removeprefix(beginning).removesuffix(end): value
            for name in launch.metrics
            if name.startswith(beginning) and name.endswith(end) and "not_issued" not in name
            if (value := launch.get(name)) is not None
        }
        if found:
            return _named(found), False
    counted: dict[str, float] = {}
    for one in launch.code:
        for state, count in reasons_of(one).items():
            counted[state] = counted.get(state, 0.0) + count
    return counted, bool(counted)


def reasons_of(one: ProfiledInstruction) -> dict[str, float]:
    """Returns the samples of an instruction by state; empty: not collected."""
    return _named({name.removeprefix(REASONS): count for name, count in one.counts.items() if name.startswith(REASONS)})


def _named(reasons: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for reason, value in reasons.items():
        state = _REASONS.get(reason, reason)
        state = state if state in STATES else OTHER
        if value:
            found[state] = found.get(state, 0.0) + value
    return found


def warps_of_block(launch: ProfiledLaunch) -> int:
    """Returns the warps of a block."""
    return -(-round(launch.need("launch__block_size")) // WARP_LANES)
