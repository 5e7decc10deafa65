"""Reads Nsight Compute reports with the vendor's reader (ncu-report on PyPI)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsim.frontends.cubin import Cubin
from warpsim.profiles.encodings import WORD_BYTES
from warpsim.profiles.errors import MissingReaderError, ProfileError
from warpsim.profiles.report_file import check_blocks, cubins_in
from warpsim.profiles.sections import Section, address_of
from warpsim.profiles.versions import Executed, sections_in
from warpsim.units import WARP_LANES

_SAMPLES, REASONS = "smsp__pcsamp_sample_count", "smsp__pcsamp_warps_issue_stalled_"
"""Samples of warps by instruction, and the beginning of those of one reason."""

_ERROR, _LOCAL = 4, 1
"""Types of a rule's message and of its estimate (NVIDIA, Python Report Interface)."""

_MARKS = (re.compile(r"@(?:section|source|table):[^:@]*:([^@]*)@"), re.compile(r"@url:([^:@]*):[^@]*@"))
"""Marks for links in the message of a rule, of which the text is kept."""

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
        counted = self.counts.get(_SAMPLES)
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


PER_INSTRUCTION = (
    "thread_inst_executed",
    "thread_inst_executed_true",
    "memory_l2_theoretical_sectors_global",
    "memory_l1_tag_requests_global",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_access_size_type",
    "memory_access_type",
    "memory_type",
    _SAMPLES,
)
"""Counters that are read for each instruction."""

_OLD_NAMES = {
    "memory_l2_theoretical_sectors_global": "memory_l2_sectors_global",
    "memory_l1_tag_requests_global": "memory_l1_sectors_global",
    "memory_l1_wavefronts_shared": "memory_l1_sectors_shared",
    "memory_l1_wavefronts_shared_ideal": "memory_l1_sectors_shared_ideal",
}
"""Counter -> its name in the first versions of the profiler; in sum they agree with counters of L1 within some per cent."""


def read_report(path: str | os.PathLike[str]) -> list[ProfiledLaunch]:
    """Reads all launches of a report.

    Raises:
        MissingReaderError: the package ncu-report is not installed.
        ProfileError: there is no such file, or it is no report, is truncated, or is newer than the reader.
    """
    return [_launch(where, number, action, cubins) for where, number, action, cubins in _actions(path)]


def read_launch(path: str | os.PathLike[str], launch: int = 0) -> ProfiledLaunch:
    """Reads one launch of a report.

    Raises:
        MissingReaderError: the package ncu-report is not installed.
        ProfileError: the report cannot be read, or has no launch of this number.
    """
    where, action, cubins = _action(path, launch)
    return _launch(where, launch, action, cubins)


def _action(path: str | os.PathLike[str], launch: int) -> tuple[str, Any, list[Cubin]]:
    """Returns the report's name, the action of a launch, and the report's cubins."""
    count = 0
    for where, number, action, cubins in _actions(path):
        count = number + 1
        if number == launch:
            return where, action, cubins
    allowed = f"a number from 0 to {count - 1}" if count > 1 else "0"
    holds = f"{count} launches" if count > 1 else "one launch"
    raise ProfileError(f"launch = {launch}: must be {allowed}; {os.fspath(path)} holds {holds}")


def read_code(path: str | os.PathLike[str], launch: int = 0) -> ProfiledLaunch:
    """Reads one launch of a report, whose instructions need not have been counted: each counts as executed once.

    Raises:
        MissingReaderError, ProfileError: as in `read_launch`.
    """
    where, action, cubins = _action(path, launch)
    return _launch(where, launch, action, cubins, counted=False)


def list_launches(path: str | os.PathLike[str]) -> list[tuple[int, str, Mapping[str, Any]]]:
    """Returns number, kernel and metrics of each launch of a report, without its instructions.

    Raises:
        MissingReaderError: the package ncu-report is not installed.
        ProfileError: the report cannot be read.
    """
    found: list[tuple[int, str, Mapping[str, Any]]] = []
    for where, number, action, _ in _actions(path):
        with _damage_named(where, number):
            found.append((number, action.name(action.NameBase_DEMANGLED), _metrics(action)))
    return found


def _actions(path: str | os.PathLike[str]) -> Iterator[tuple[str, int, Any, list[Cubin]]]:
    """Yields the report's name, the number and the action of each launch, and the report's cubins."""
    try:
        import ncu_report
    except ImportError:
        raise MissingReaderError("ncu_report is missing: pip install 'warpsim[ncu]'") from None
    where = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ProfileError(f"{where}: cannot be read: {error.strerror}") from None
    check_blocks(where, data)
    cubins = list(cubins_in(data))
    try:
        report = ncu_report.load_report(where)
        ranges = [report.range_by_idx(index) for index in range(report.num_ranges())]
    except Exception as error:  # the reader raises exceptions of many classes
        raise ProfileError(f"{where}: ncu-report {_version()} does not read it: {error}") from None
    number = 0
    for one in ranges:
        for index in range(one.num_actions()):
            yield where, number, one.action_by_idx(index), cubins
            number += 1
    if number == 0:
        raise ProfileError(
            f"{where}: no launch that ncu-report {_version()} understands: it was cut after its header, or is newer, which needs "
            "pip install -U ncu-report"
        )


def _version() -> str:
    from importlib.metadata import version

    return version("ncu-report")


def _metrics(action: Any) -> dict[str, Any]:
    values = {}
    for name in action.metric_names():
        if name.startswith(("group:", "breakdown:", "nvlink", "pmsampling:", "warpsampling:")):
            continue
        values[name] = action.metric_by_name(name).value()
    return values


@contextmanager
def _damage_named(where: str, number: int) -> Iterator[None]:
    """Raises a ProfileError for whatever the reader raises where the data of a launch make no sense to it."""
    try:
        yield
    except ProfileError:
        raise
    except Exception as error:  # of many classes
        raise ProfileError(f"{where}, launch {number}: is damaged: {type(error).__name__}: {error}") from error


def _launch(where: str, number: int, action: Any, cubins: list[Cubin], *, counted: bool = True) -> ProfiledLaunch:
    with _damage_named(where, number):
        return _read(where, number, action, cubins, counted=counted)


def _read(where: str, number: int, action: Any, cubins: list[Cubin], *, counted: bool) -> ProfiledLaunch:
    metrics = _metrics(action)
    name = action.name(action.NameBase_MANGLED)
    if not name:
        raise ProfileError(f"{where}, launch {number}: is damaged: it has no name")
    executed = _by_pc(action, "inst_executed") if counted and "inst_executed" in metrics else {}
    starts = [min(executed, default=0)]
    if "launch__function_pcs" in metrics and (pcs := action.metric_by_name("launch__function_pcs")).num_instances():
        starts = [int(pcs.value(number)) for number in range(pcs.num_instances())]
    registers = metrics.get("launch__registers_per_thread")
    known = Executed(starts, executed, _warps(metrics), registers, lambda pc: _text(action, pc))
    sections, versions = sections_in(cubins, name, known)
    words = b"".join(one.function.code for one in sections) if sections else None
    base = sections[0].pc if sections else starts[0]
    names = {metric: metric if metric in metrics else _OLD_NAMES.get(metric) for metric in PER_INSTRUCTION}
    counters = {metric: _by_pc(action, found) for metric, found in names.items() if found in metrics}
    counters |= {
        metric: _by_pc(action, metric)
        for metric in metrics
        if metric.startswith(REASONS) and not metric.endswith("_not_issued")
    }
    places = set(executed)
    for section in sections:
        size = len(section.function.code) // WORD_BYTES * WORD_BYTES
        places |= set(range(section.pc, section.pc + size, WORD_BYTES))
    if not counted:
        executed = dict.fromkeys(places, 1)
    code = tuple(
        ProfiledInstruction(
            address=address_of(sections, pc) if sections else pc - base,
            text=_text(action, pc),
            line=_line(action, pc),
            executed=int(executed.get(pc, 0)),
            counts={metric: float(values[pc]) for metric, values in counters.items() if pc in values},
        )
        for pc in places
        if executed
    )
    code = tuple(sorted(code, key=lambda one: one.address))
    title, rules = action.name(action.NameBase_DEMANGLED), tuple(_rules(action))
    return ProfiledLaunch(where, number, name, title, metrics, code, words, base, rules, sections, versions)


def _warps(metrics: Mapping[str, Any]) -> float:
    """Returns the warps of a launch."""
    blocks, threads = (metrics.get(f"launch__{what}_size") or 0 for what in ("grid", "block"))
    return float(blocks * -(-threads // WARP_LANES))


def _rules(action: Any) -> Iterator[Rule]:
    """Yields what the profiler's rules say, without their marks for links."""
    for rule in action.rule_results_as_dicts():
        message = rule.get("rule_message") or {}
        text = str(message.get("message") or "").strip()
        if not text or message.get("type") == _ERROR:
            continue
        estimate = rule.get("speedup_estimation") or {}
        share = estimate.get("speedup")
        yield Rule(
            name=str(rule.get("name") or rule.get("rule_identifier") or ""),
            title=str(message.get("title") or ""),
            message=_MARKS[1].sub(r"\1", _MARKS[0].sub(r"\1", text)),
            speedup=None if share is None else min(1.0, max(0.0, float(share) / 100)),
            local=estimate.get("type") == _LOCAL,
        )


def _by_pc(action: Any, metric: str) -> dict[int, float]:
    """Returns program counter -> counter of the instruction; {}: the report does not have it by instruction.

    Raises:
        ValueError: a counter is negative, infinite or no number.
    """
    found = action.metric_by_name(metric)
    if not found.num_instances() or not found.has_correlation_ids():
        return {}
    places = found.correlation_ids()
    counted = {places.value(k): found.value(k) for k in range(found.num_instances())}
    for pc, value in counted.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{metric} at {pc:#x} = {value:g}: must be finite, and at least 0")
    return counted


def _text(action: Any, pc: int) -> str:
    text = str(action.sass_by_pc(pc)).strip()
    return "" if text in ("???", "N/A") else text


def _line(action: Any, pc: int) -> tuple[str, int] | None:
    source = action.source_info(pc)
    return (source.file_name(), int(source.line())) if source and source.line() else None
