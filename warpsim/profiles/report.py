"""Reads Nsight Compute reports with the vendor's reader (ncu-report on PyPI)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warpsim.frontends.machine_code.cubin import Cubin
from warpsim.profiles.encodings import WORD_BYTES
from warpsim.profiles.errors import MissingReaderError, ProfileError
from warpsim.profiles.launch import REASONS, SAMPLES, ProfiledInstruction, ProfiledLaunch, Rule
from warpsim.profiles.report_file import check_blocks, cubins_in
from warpsim.profiles.sections import address_of
from warpsim.profiles.versions import Executed, sections_in
from warpsim.units import WARP_LANES

_ERROR, _LOCAL = 4, 1
"""Types of a rule's message and of its estimate (NVIDIA, Python Report Interface)."""

_MARKS = (re.compile(r"@(?:section|source|table):[^:@]*:([^@]*)@"), re.compile(r"@url:([^:@]*):[^@]*@"))
"""Marks for links in the message of a rule, of which the text is kept."""

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
    SAMPLES,
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
            found.append((number, _name(where, number, action, action.NameBase_DEMANGLED), _metrics(action)))
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


def _name(where: str, number: int, action: Any, base: int) -> str:
    """Returns the name of a launch's kernel, in the form that the reader calls `base`."""
    name = action.name(base)
    if not isinstance(name, str) or not name:
        raise ProfileError(f"{where}, launch {number}: is damaged: it has no name")
    return name


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
    name = _name(where, number, action, action.NameBase_MANGLED)
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
    title, rules = _name(where, number, action, action.NameBase_DEMANGLED), tuple(_rules(action))
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
