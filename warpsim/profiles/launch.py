"""A launch of a report: metrics, counters of each instruction, and what the profiler's own rules say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpsim.profiles.errors import ProfileError
from warpsim.profiles.sections import Section

SAMPLES, REASONS = "smsp__pcsamp_sample_count", "smsp__pcsamp_warps_issue_stalled_"
"""Samples of warps by instruction, and the beginning of those of one reason."""

SECTIONS = (
    ("launch__", "LaunchStats"),
    ("inst_executed", "SourceCounters"),
    ("thread_inst_executed", "SourceCounters"),
    ("memory_", "SourceCounters"),
    ("smsp__pcsamp", "SourceCounters"),
    ("gpc__cycles", "SpeedOfLight"),
    ("gpu__time", "SpeedOfLight"),
    ("smsp__average_warp", "WarpStateStats"),
    ("sm__warps_active", "Occupancy"),
    ("dram__", "MemoryWorkloadAnalysis_Tables"),
    ("l1tex__", "MemoryWorkloadAnalysis_Tables"),
    ("lts__", "MemoryWorkloadAnalysis_Tables"),
    ("device__", "LaunchStats"),
    ("sm__inst", "ComputeWorkloadAnalysis"),
    ("smsp__inst", "InstructionStats"),
)
"""Beginning of a metric's name -> the profiler's section that collects it."""


def how_to_collect(metric: str) -> str:
    """Returns the options of ncu that collect a metric."""
    section = next((section for beginning, section in SECTIONS if metric.startswith(beginning)), None)
    return f"ncu --metrics {metric}" if section is None else f"ncu --section {section} (or --set full)"


@dataclass(frozen=True)
class ProfiledInstruction:
    """An instruction with its counts, summed over all warps of the launch.

    Attributes:
        address: in bytes from the function's start.
        text: in the words of the report's reader; empty where it knows the architecture no more.
        line: file and line of the source; None where the report does not know.
        executed: executions by warps.
        counts: further counters of the instruction, by the metric's name.
    """

    address: int
    text: str
    line: tuple[str, int] | None
    executed: int
    counts: Mapping[str, float]

    @property
    def samples(self) -> float:
        """Samples of warps at the instruction; some versions of the profiler count them by reason only."""
        counted = self.counts.get(SAMPLES)
        return sum(count for name, count in self.counts.items() if name.startswith(REASONS)) if counted is None else counted


@dataclass(frozen=True)
class Rule:
    """What a rule of the profiler says of a launch.

    Attributes:
        name: of the rule.
        title: headline; may be empty.
        message: in plain text.
        speedup: share of the time that the rule estimates could be saved, from 0 to 1; None: it estimates nothing.
        local: whether the estimate is for the part that the rule looks at, rather than for the launch.
    """

    name: str
    title: str
    message: str
    speedup: float | None
    local: bool


@dataclass(frozen=True)
class ProfiledLaunch:
    """One launch of a report.

    Attributes:
        report: path of the report.
        number: of the launch in the report, from 0.
        name: of the kernel, mangled.
        title: the same with its arguments' types.
        metrics: metric -> value; only numbers and texts.
        code: instructions in order of address.
        words: machine code of the kernel, and behind it of the functions of other sections that it calls; None where the report
            does not hold it.
        base: program counter of the kernel's start.
        rules: what the profiler's own rules say.
        sections: the kernel and those functions; empty where the report does not hold them.
        versions: different machine codes of the kernel that agree with the launch equally well; the first of them is taken.
    """

    report: str
    number: int
    name: str
    title: str
    metrics: Mapping[str, Any]
    code: tuple[ProfiledInstruction, ...]
    words: bytes | None
    base: int
    rules: tuple[Rule, ...] = ()
    sections: tuple[Section, ...] = ()
    versions: int = 1

    def need(self, metric: str) -> float:
        """Returns a metric.

        Raises:
            ProfileError: the report does not hold it; the message names the option that collects it.
        """
        value = self.get(metric)
        if value is None:
            raise ProfileError(
                f"{self.report}, launch {self.number}: {metric} is missing; collect it with {how_to_collect(metric)}"
            )
        return value

    def get(self, *metrics: str) -> float | None:
        """Returns the first of several metrics that the report holds as a number; None: none of them.

        The profiler writes NaN where it divides nothing by nothing.

        Raises:
            ProfileError: a metric is negative or infinite.
        """
        for metric in metrics:
            value = self.metrics.get(metric)
            if isinstance(value, int | float) and not math.isnan(value):
                self._check(metric, value, 0 <= value < math.inf)
                return float(value)
        return None

    def sum_of(self, *metrics: str) -> float:
        """Returns the sum of several metrics, at least 0; those that the report does not hold as a number are left out.

        The profiler derives some kinds of accesses as differences of others, so that one may be negative where the sum is right.

        Raises:
            ProfileError: a metric is infinite.
        """
        total = 0.0
        for metric in metrics:
            value = self.metrics.get(metric)
            if isinstance(value, int | float) and not math.isnan(value):
                self._check(metric, value, math.isfinite(value))
                total += value
        return max(0.0, total)

    def _check(self, metric: str, value: float, allowed: bool) -> None:
        if not allowed:
            raise ProfileError(f"{self.report}, launch {self.number}: {metric} = {value:g}: must be finite, and at least 0")

    @property
    def arch(self) -> int:
        """Compute capability times ten."""
        major = self.need("device__attribute_compute_capability_major")
        return round(10 * major + self.need("device__attribute_compute_capability_minor"))
