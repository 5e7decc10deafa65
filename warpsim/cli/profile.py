"""warpsim profile: replays a launch of an Nsight Compute report, and prints measured beside simulated."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.cli.common import (
    DONE,
    Commands,
    RequestError,
    add_sampling_options,
    add_workers,
    check_output,
    counted,
    new_command,
    whole_number,
)
from warpsim.cli.output import add_json, print_json, so_near_text

if TYPE_CHECKING:
    from warpsim.hardware.gpu import Gpu
    from warpsim.profiles.advice import Advice
    from warpsim.profiles.api import Profile
    from warpsim.profiles.replay import Line, Replay
    from warpsim.simulation.sampled_run import Estimate
    from warpsim.views.profile_page import Table

_SHOWN = 10

_MESSAGE = 160
"""Letters of a rule's message that are shown."""

_ROUNDING = 1e-12
"""Largest relative half width that follows from rounding alone."""

_LEVERS = ("resident_blocks", "block_threads", "latency", "bandwidth", "l1_hit", "l2_hit", "l1_size", "gpu")


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(
        commands,
        "profile",
        _run,
        "replay a launch of an Nsight Compute report, and compare it with what was measured",
        _add_options,
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("report", help="report of Nsight Compute (.ncu-rep)")
    parser.add_argument("--list", action="store_true", help="list the launches of the report")
    parser.add_argument("--launch", type=whole_number, default=0, metavar="N", help="number of the launch (default: 0)")
    add_sampling_options(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="PAGE.html", help="write the comparison as a page of HTML too")
    levers = parser.add_argument_group("what if", "the launch on a changed machine, in a column beside the profiled one")
    levers.add_argument("--resident-blocks", type=whole_number, metavar="N", help="blocks of an SM")
    levers.add_argument("--block-threads", type=whole_number, metavar="N", help="threads of a block: the same warps, cut anew")
    levers.add_argument("--l1-hit", type=float, metavar="P", help="share of the sectors of loads that L1 holds")
    levers.add_argument("--l2-hit", type=float, metavar="P", help="probability with which loads that missed L1 hit L2")
    levers.add_argument("--l1-size", type=float, metavar="F", help="factor of the size of L1; misses follow its square root")
    levers.add_argument("--latency", type=float, metavar="F", help="factor of the latency of loads from DRAM; that of L2 stays")
    levers.add_argument("--bandwidth", type=float, metavar="F", help="factor of the bandwidth of DRAM")
    levers.add_argument("--gpu", help="another chip that executes the same machine code, at its own clocks")
    levers.add_argument("--if-scheduler", metavar="POLICY", help="another scheduling policy")
    parser.add_argument(
        "--advise", action="store_true", help="say what limits the launch, and simulate what each of several changes would gain"
    )
    add_json(parser, "measurements and results, or the launches of --list,")
    add_workers(parser)


def _run(options: argparse.Namespace) -> int:
    from warpsim.profiles.api import from_profile
    from warpsim.profiles.errors import MissingReaderError
    from warpsim.profiles.report import list_launches

    if options.output is not None:
        check_output(options.output, ["html"])
    try:
        if options.list:
            launches = [_listed(*one) for one in list_launches(options.report)]
            print_json(launches) if options.json else _print_launches(launches)
            return DONE
        profile = from_profile(options.report, options.launch)
        settings = {
            "memory": options.memory, "replicates": options.replicates, "seed": options.seed, "threads": options.workers
        }  # fmt: skip
        changes = {name: value for name in _LEVERS if (value := getattr(options, name)) is not None}
        other = profile.what_if(**changes) if changes or options.if_scheduler else None
        changes |= {"scheduler": options.if_scheduler} if options.if_scheduler else {}
        replay = profile.replay(scheduler=options.scheduler, lines=True, **settings)
        advice = profile.advise(scheduler=options.scheduler, **settings) if options.advise else None
        second = None if other is None else other.replay(scheduler=options.if_scheduler or options.scheduler, **settings)
    except (ValueError, MissingReaderError) as error:
        raise RequestError(str(error)) from None
    shown = _Shown(profile, replay, other, second, changes, advice)
    title, lines, tables = _page_of(shown)
    if options.output is not None:  # first, since a reader of the tables may close its end early
        from warpsim.views.profile_page import write_profile_page

        write_profile_page(options.output, title, lines, tables, profile.measured.shares, replay.shares)
    if options.json:
        print_json(_as_json(shown))
    else:
        from warpsim.views.text_table import text_table

        print("\n".join((title, *lines)))
        for table in tables:
            print(f"\n{text_table(table.rows, table.header)}")
    return DONE


@dataclass(frozen=True)
class _Shown:
    """What is shown: the launch and its replay; the changed launch, its replay and what was changed; advice."""

    profile: Profile
    replay: Replay
    other: Profile | None
    second: Replay | None
    changes: Mapping[str, Any]
    advice: Advice | None


def _listed(number: int, name: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    time = metrics.get("gpu__time_duration.sum")
    return {
        "launch": number, "kernel": _without_parameters(name), "gpu": str(metrics.get("device__attribute_display_name", "")),
        "blocks": round(metrics.get("launch__grid_size", 0)), "threads": round(metrics.get("launch__block_size", 0)),
        "microseconds": None if time is None else time / 1000,
    }  # fmt: skip


def _without_parameters(name: str) -> str:
    """Returns the name of a function without the list of its parameters, where a report has one."""
    depth, end = 0, len(name)
    for place, character in enumerate(name):
        if character == "(" and depth == 0 and not name.startswith("(anonymous", place):
            end = place
            break
        depth += (character in "(<") - (character in ")>")
    return name[:end]


def _print_launches(launches: list[dict[str, Any]]) -> None:
    from warpsim.views.text_table import text_table

    rows = [
        [
            str(one["launch"]), one["kernel"], one["gpu"], f"{one['blocks']} x {one['threads']}",
            "" if one["microseconds"] is None else f"{one['microseconds']:.1f}",
        ]
        for one in launches
    ]  # fmt: skip
    print(text_table(rows, ("launch", "kernel", "chip", "blocks x threads", "us")))


def _chip(gpu: Gpu) -> str:
    return f"{gpu.title}, {gpu.clock_ghz:.2f} GHz, {gpu.memory.pin_bandwidth_gbs:.0f} GB/s"


def _page_of(shown: _Shown) -> tuple[str, list[str], list[Table]]:
    """Returns headline, sentences and tables of the comparison."""
    from warpsim.views.profile_page import Table

    profile, replay, other, second, advice = shown.profile, shown.replay, shown.other, shown.second, shown.advice
    measured, launch = profile.measured, profile.launch
    title = f"{_chip(profile.gpu)}: {profile.kernel.name}"
    warps = counted(launch.block_warps, "warp")
    lines = [f"{counted(launch.blocks or 1, 'block')} of {warps}, {launch.resident_blocks} resident per SM"]
    most = f"such samples differed from whole launches by at most {100 * replay.sampled_within:.1f} % where both were simulated"
    sampled = f" ({replay.sampling}; {most})"
    lines.append(f"simulated: {replay.share:.3g} of the instructions" + (sampled if replay.sampling else ""))
    lines.append(f"inputs: {', '.join(profile.inputs)}")
    if replay.predicted is not None:
        lines.append(f"to be expected: {so_near_text(replay.predicted)}")
    if other is not None:
        held = f"{counted(other.launch.blocks or 1, 'block')} of {counted(other.launch.block_warps, 'warp')}"
        what = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.changes.items())
        lines.append(f"what if: {what} ({_chip(other.gpu)}; {held}, {other.launch.resident_blocks} resident per SM)")
    lines += [f"note: {note}" for note in (*profile.notes, *(f"missing: {what}" for what in measured.missing))]
    columns = ["measured", "simulated", *(["what if"] if second else [])]
    tables = [Table("Results", ["", *columns], list(_rows(shown)))]
    states = sorted({*measured.stalls, *replay.stalls}, key=lambda s: -measured.stalls.get(s, 0.0))
    rows = [
        [
            state,
            _number(measured.stalls.get(state, 0.0) if measured.stalls and not measured.samples else None),
            *(_estimate(one.stalls.get(state)) for one in (replay, second) if one),
        ]
        for state in states
    ]
    tables.append(Table("Stall reasons", ["warp cycles per issue", *columns], rows))
    if advice is not None:
        lines.append(advice.limit)
        tables += [Table(title, header, rows) for title, header, rows in _of_advice(advice)]
    tables += [Table(title, header, rows) for title, header, rows in _places(profile, replay)]
    return title, lines, tables


def _rows(shown: _Shown) -> Iterator[list[str]]:
    measured, second = shown.profile.measured, shown.second
    runs = [shown.replay, *([second] if second else [])]
    clocks = [one.gpu.clock_ghz for one in (shown.profile, shown.other) if one]
    moved = (shown.other or shown.profile).dram_bytes
    yield ["cycles", _number(measured.cycles), *(_estimate(one.cycles) for one in runs)]
    times = (_estimate(one.cycles, 1000 * clock) for one, clock in zip(runs, clocks, strict=True))
    yield ["microseconds", _number(measured.microseconds), *times]
    expected = [one.predicted for one in runs]
    if any(expected):
        ranges = (f"{_number(one.low)} to {_number(one.high)}" if one else "" for one in expected)
        yield ["to be expected, microseconds", "", *ranges]
    yield ["IPC of an SM", _number(measured.ipc), *(_estimate(one.ipc) for one in runs)]
    yield ["achieved warps of an SM", _number(measured.warps), *(_estimate(one.warps) for one in runs)]
    bytes_of = ("input", "input" if moved == measured.dram_bytes else _number(moved / 1e6))
    yield ["DRAM MB", _number(measured.dram_bytes / 1e6), *bytes_of[: len(runs)]]
    yield ["DRAM GB/s", _number(measured.dram_gbs), *(_estimate(one.dram_gbs) for one in runs)]
    of_clock = [one for one, clock in zip(runs, clocks, strict=True) if clock == clocks[0]]
    ratios = [f"{one.cycles.mean / measured.cycles:.3f}" for one in of_clock] + [""] * (len(runs) - len(of_clock))
    yield ["simulated / measured cycles", "", *ratios]  # cycles of another clock do not compare


def _places(profile: Profile, replay: Replay) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yields tables of the instructions and the source lines in which warps spend most time, and why."""
    from warpsim.profiles.measured import reasons_of

    total = sum(one.samples for one in profile.code)
    header = ["samples", "simulated", "mostly, of the samples", "mostly, simulated"]
    texts = {one.address: one.text for one in profile.code}
    sampled = {one.address: (one.samples, reasons_of(one)) for one in profile.code if one.samples}
    rows = [[f"{a:#06x}", *cells, texts.get(a, "")] for a, cells in _longest(sampled, replay.lines, total)]
    yield "Instructions", ["instruction", *header, ""], rows
    places = {one.address: f"{one.line[0].rpartition('/')[2]}:{one.line[1]}" for one in profile.code if one.line}
    if not places:
        return
    of_lines: dict[str, tuple[float, dict[str, float]]] = {}
    for address, (count, reasons) in sampled.items():
        before, states = of_lines.get(places.get(address, "?"), (0.0, {}))
        of_lines[places.get(address, "?")] = before + count, _added(states, reasons)
    simulated: dict[str, Line] = {}
    for address, line in replay.lines.items():
        place = places.get(address, "?")
        simulated[place] = simulated[place] + line if place in simulated else line
    rows = [[place, *cells] for place, cells in _longest(of_lines, simulated, total)]
    yield "Source lines", ["source line", *header], rows


def _longest(
    sampled: Mapping[Any, tuple[float, dict[str, float]]], simulated: Mapping[Any, Line], total: float
) -> Iterator[tuple[Any, list[str]]]:
    """Yields the places in which warps spend most time, with samples, simulation, and the largest states of both."""
    from warpsim.views.text_table import plus_minus

    most = {place: count / total for place, (count, _) in sampled.items()}
    for place, line in simulated.items():
        most[place] = max(most.get(place, 0.0), line.share.mean)
    for place in sorted(most, key=lambda one: -most[one])[:_SHOWN]:
        count, reasons = sampled.get(place, (None, {}))
        found = simulated.get(place)
        half = "" if found is None else plus_minus(100 * found.share.half_width, "{:.1f}".format)
        share = "0.0 %" if found is None else f"{100 * found.share.mean:.1f}{half} %"
        states = found.states if found else {}
        yield place, ["" if count is None else _percent(count / total, total), share, _mostly(reasons), _mostly(states)]


def _added(states: dict[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return states | {state: states.get(state, 0.0) + value for state, value in more.items()}


def _mostly(states: Mapping[str, float]) -> str:
    """Returns the largest states, which are half of all together, with their shares."""
    whole, words, passed = sum(states.values()), [], 0.0
    for state, value in sorted(states.items(), key=lambda one: -one[1]):
        if whole and passed < whole / 2:
            words.append(f"{state} {100 * value / whole:.0f} %")
            passed += value
    return ", ".join(words)


def _of_advice(advice: Advice) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yields tables of what is busy, of what each change would gain, and of what the profiler's rules claim."""
    from warpsim.views.text_table import plus_minus

    busy = [[name, _percent(share, 1)] for name, share in advice.bounds.items()]
    yield "Needed of each resource", ["resource", "share of the measured cycles"], busy
    gains = [
        [one.change, one.who, _estimate(one.cycles), f"{one.speedup:.3f}{plus_minus(one.half_width, '{:.3f}'.format)}"]
        for one in advice.gains
    ]
    yield "Changes, simulated", ["change", "made in the", "cycles", "speedup"], gains
    claims = [
        [
            f"{one.name}: {one.title}".rstrip(": "),
            "" if one.speedup is None else f"{100 * one.speedup:.0f} %{' (local)' if one.local else ''}",
            textwrap.shorten(one.message, _MESSAGE, placeholder=" ..."),
        ]
        for one in advice.rules
    ]
    yield "Rules of the profiler", ["rule", "time it would save", ""], claims


def _as_json(shown: _Shown) -> dict[str, Any]:
    profile, replay, other, second, advice = shown.profile, shown.replay, shown.other, shown.second, shown.advice
    found = {
        "report": profile.report, "launch": profile.number, "kernel": profile.kernel.name, "gpu": profile.gpu.title,
        "measured": asdict(profile.measured), "simulated": asdict(replay), "notes": list(profile.notes),
        "inputs": list(profile.inputs),
    }  # fmt: skip
    if other is not None and second is not None:
        found["what_if"] = {"changes": dict(shown.changes), "dram_bytes": other.dram_bytes, **asdict(second)}
    return found | ({"advice": asdict(advice)} if advice else {})


def _number(value: float | None) -> str:
    if value is None:
        return "not collected"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _estimate(value: Estimate | None, unit: float = 1.0) -> str:
    from warpsim.views.text_table import plus_minus

    if value is None:
        return "0"
    spread = 0.0 if value.half_width <= _ROUNDING * abs(value.mean) else value.half_width
    return f"{_number(value.mean / unit)}{plus_minus(spread / unit, _number)}"


def _percent(share: float | None, known: float) -> str:
    return "" if share is None or not known else f"{100 * share:.1f} %"
