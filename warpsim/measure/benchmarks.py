"""The whole session of measurement, in order, with its provenance."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

from warpsim.measure import core, launch, memory
from warpsim.measure.device import Device
from warpsim.measure.record import Record, Row, Table
from warpsim.measure.session import FULL, Effort, Session

GROUPS = ("core", "launch", "levels", "loaded", "streams", "atomics")
"""Parts of the session, in order."""


def run_benchmarks(
    device: Device,
    effort: Effort = FULL,
    *,
    groups: tuple[str, ...] = GROUPS,
    say: Callable[[str], None] = lambda line: None,
    keep: Callable[[Record], None] = lambda record: None,
) -> Record:
    """Runs the benchmarks and returns what they measured.

    Args:
        device: to measure.
        effort: how thorough to be.
        groups: parts of the session, out of GROUPS.
        say: called with lines of progress.
        keep: called with the record so far after every part, so that a session that breaks off is not lost.

    Raises:
        ValueError: a group is unknown.
        DeviceError: the device refuses.
        FrontEndError: NVRTC does not know the device's architecture.
    """
    unknown = [group for group in groups if group not in GROUPS]
    if unknown or not groups:
        raise ValueError(f"groups = {list(groups)}: at least one of {', '.join(GROUPS)}")
    session = Session(device, effort, say)
    begun = datetime.now(UTC)
    clocks: list[Row] = []
    tables: dict[str, Table] = {}

    def record() -> Record:
        tables["clocks"] = launch.clocks(clocks)
        return Record(_metadata(session, begun), dict(tables))

    for _ in range(5):  # until the clock has risen
        clocks.append(launch.clock(session, "warm-up"))
    for group in groups:
        say(f"group {group}")
        clocks.append(launch.clock(session, group))
        if group == "core":
            tables["chains"] = core.chains(session)
            tables["barriers"] = core.barriers(session)
            tables["issue_order"] = core.issue_order(session)
            tables["memory_issue"] = core.memory_issue(session)
        elif group == "launch":
            tables["launches"] = launch.launches(session)
            tables["turnover"], tables["warp_starts"] = launch.turnover(session)
        elif group == "levels":
            tables["levels"] = memory.levels(session)
            tables["single_loads"] = memory.single_loads(session)
            tables["l2_halves"] = memory.l2_halves(session)
        elif group == "loaded":
            tables["loaded"], tables["loaded_samples"] = memory.loaded(session)
            tables["stream_chase"], tables["stream_chase_samples"] = memory.stream_chases(session)
        elif group == "streams":
            tables["streams"] = memory.streams(session)
        else:
            tables["atomics"] = memory.atomics(session)
        keep(record())
    clocks.append(launch.clock(session, "end"))
    return record()


def _metadata(session: Session, begun: datetime) -> dict[str, object]:
    properties = session.device.properties
    return {
        "device": {**asdict(properties), "compute_capability": "{}.{}".format(*properties.compute_capability)},
        "software": {**session.device.software, "python": platform.python_version()},
        "run": {
            "begun": begun.isoformat(timespec="seconds"),
            "seconds": round((datetime.now(UTC) - begun).total_seconds(), 1),
            "effort": json.loads(json.dumps(asdict(session.effort))),  # tuples become lists, as in a file
        },
        "kernels": dict(sorted(session.digests.items())),
    }
