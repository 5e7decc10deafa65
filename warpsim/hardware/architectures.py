"""What a chip file may leave out: the defaults of its architecture, and what follows from latency and bandwidth.

A file params/architectures/NAME.toml holds what all chips of one compute capability have in common, with the source of every
value. A chip that names it as its `architecture` states only what is its own. The parameters of the memory's queue follow from
the sustained bandwidth, where neither a fit nor the number of channels is known (docs/chips.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from warpsim.hardware import files as params
from warpsim.units import COALESCED_BYTES, gbs_to_bytes_per_cycle

SUSTAINED_SHARE = 0.93
"""Sustained bandwidth over that of the pins, where a file states one of them: between HBM's 0.91 to 0.96 and GDDR's 0.92 to 0.97
(gpu-stream of te42kyfo/gpu-benches, commit 1c36d509; Luo et al. 2024, Table V)."""

STAGE_RATE = 1.1
"""Rate of the DRAM stage of the queue over the sustained bandwidth, before it is fitted; V's fits give 1.03 to 1.23."""

SERVERS_PER_CHANNEL = 3
"""Servers of the DRAM stage for each channel of the memory, before they are fitted."""

CHANNEL_GBS = 24.0
"""Bandwidth of a channel where the number of channels is not known; HBM2 to HBM3e and GDDR6 to GDDR7 have 14 to 42."""

CROSSBAR_RATE = 2.5
"""Rate of the first stage, L2, over the sustained bandwidth, where it is not known; the chips in params/gpus have 2 to 6."""


BLOCK_LAUNCH, STORE_DRAIN = 1.264, 0.042
"""Block launch and drain of a store over the latency of L2: 268 and 9 cycles on a V100, with 212 (experiments/streams)."""

FALLBACK_LAUNCH = 300
"""Block launch in cycles where the latency of L2 is not known; V 3.7 gives 150 to 300."""


def list_architectures() -> list[str]:
    """Returns the names of the architectures in the package."""
    return params.list_names("architectures")


def nearest_architecture(capability: str) -> tuple[str, bool]:
    """Returns the architecture of a compute capability such as 9.0, or else the nearest one below, and whether it is the former.

    The oldest one stands for all that are older.
    """
    wanted, known = int(capability.replace(".", "")), list_architectures()
    found = newest_up_to(wanted, known) or min(known, key=number_of)
    return found, number_of(found) == wanted


def number_of(architecture: str | None) -> int:
    """Returns the compute capability times ten of an architecture such as sm_90; 0 for None."""
    return int((architecture or "sm_0").lower().removeprefix("sm_"))


def newest_up_to(number: int, architectures: Iterable[str]) -> str | None:
    """Returns the newest of some architectures up to one, which is given as compute capability times ten; None: all are newer."""
    return max((name for name in architectures if number_of(name) <= number), key=number_of, default=None)


def complete(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the description of a chip with what it leaves out, and the origin of each value that was filled in, by its key.

    A chip that names no architecture is returned as it is.

    Raises:
        ValueError: there is no architecture of that name.
    """
    name = data.get("architecture")
    if not isinstance(name, str):
        return dict(data), {}
    common = _architecture(name)
    defaults: dict[str, str] = {}
    whole = _merged(data, common, f"params/architectures/{name.lower()}.toml", (), defaults)
    if isinstance(data.get("name"), str) and "title" not in whole:
        whole["title"], defaults["title"] = data["name"], "the name"
    memory, clock = whole.get("memory"), whole.get("clock_ghz")
    if isinstance(memory, dict):
        if "block_launch_cycles" not in whole:
            whole["block_launch_cycles"], defaults["block_launch_cycles"] = _block_launch(memory)
        for key, value, how in _derived(memory, clock):
            table, _, last = key.rpartition(".")
            place = memory if not table else memory.setdefault(table, {})
            if isinstance(place, dict) and last not in place:
                place[last], defaults[f"memory.{key}"] = value, how
    return whole, defaults


def filled_in(data: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Returns what a description of a chip leaves out: the key, the value, and the source of each, in order of the keys.

    The source is the comment of the architecture's file, or the origin that `complete` gives.
    """
    whole, origins = complete(data)
    comments = _comments(data["architecture"]) if origins else {}
    of_file = {key: comments.get(key, origin) for key, origin in origins.items()}
    return [(key, value, of_file[key]) for key, value in _flat(whole, ()) if key in of_file]


def legend(name: str) -> list[str]:
    """Returns the lines of an architecture's file that explain the abbreviations of its sources."""
    head = params.resolve("architectures", name).read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    return [line for line in head if re.match(r"# (\w+ = |`assumed)", line)]


def _flat(table: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yields the dotted keys of a table and of those in it, and their values."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*place, key))
        else:
            yield ".".join((*place, key)), value


def _comments(name: str) -> dict[str, str]:
    """Returns the comment of each dotted key of an architecture's file."""
    table, found = "", {}
    for line in params.resolve("architectures", name).read_text(encoding="utf-8").splitlines():
        if header := re.match(r"\[([\w.]+)\]", line):
            table = header[1] + "."
        elif entry := re.match(r"(\w+) = (?:\"[^\"]*\"|[^#\"]*?) +# (.*)", line):
            found[table + entry[1]] = entry[2]
    return found


@cache
def _architecture(name: str) -> dict[str, Any]:
    return params.read_toml(params.resolve("architectures", name))


def _merged(
    data: Mapping[str, Any], common: Mapping[str, Any], origin: str, place: tuple[str, ...], defaults: dict[str, str]
) -> dict[str, Any]:
    """Returns the values of `data`, and those of `common` for the keys that it lacks; notes the latter in `defaults`."""
    whole = {key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()}
    for key, value in common.items():
        here = (*place, key)
        if key not in whole:
            whole[key] = _merged({}, value, origin, here, defaults) if isinstance(value, Mapping) else value
            if not isinstance(value, Mapping):
                defaults[".".join(here)] = origin
        elif isinstance(value, Mapping) and isinstance(whole[key], Mapping):
            whole[key] = _merged(whole[key], value, origin, here, defaults)
    return whole


def _block_launch(memory: Mapping[str, Any]) -> tuple[int, str]:
    """Returns the block launch in cycles, and its rule in words."""
    l2_latency = _number(memory.get("l2_latency_cycles"))
    if l2_latency is None:
        return FALLBACK_LAUNCH, "assumed: V 3.7 gives 150 to 300"
    return round(BLOCK_LAUNCH * l2_latency), f"rule: {BLOCK_LAUNCH:g} x l2_latency_cycles"


def _derived(memory: Mapping[str, Any], clock_ghz: Any) -> Iterator[tuple[str, Any, str]]:
    """Yields what follows from the keys of [memory] that are numbers: key, value, and the rule in words."""
    pins, sustained, latency = (_number(memory.get(key)) for key in ("pin_bandwidth_gbs", "bandwidth_gbs", "latency_cycles"))
    if pins is not None and "bandwidth_gbs" not in memory:
        sustained = round(SUSTAINED_SHARE * pins, 1)
        yield "bandwidth_gbs", sustained, f"rule: {SUSTAINED_SHARE:g} x pin_bandwidth_gbs"
    l2_latency = _number(memory.get("l2_latency_cycles"))
    if l2_latency is not None:
        yield "store_drain_cycles", max(1, round(STORE_DRAIN * l2_latency)), f"rule: {STORE_DRAIN:g} x l2_latency_cycles"
    if sustained is None:
        sustained = pins or 1.0  # the chip is refused for its bandwidth, and not for the lack of what would follow from it
    if "pin_bandwidth_gbs" not in memory:
        yield "pin_bandwidth_gbs", round(sustained / SUSTAINED_SHARE, 1), f"rule: bandwidth_gbs / {SUSTAINED_SHARE:g}"
    channels = max(1, round(sustained / CHANNEL_GBS))
    each = f"each {CHANNEL_GBS:g} GB/s of bandwidth_gbs"
    rule: dict[str, tuple[float, str]] = {
        "latency_offset_cycles": (0.0, "rule: latency_cycles is that of an idle memory"),
        "crossbar_servers": (channels, f"rule: a slice of L2 for {each}"),
        "crossbar_gbs": (round(CROSSBAR_RATE * sustained, 1), f"rule: {CROSSBAR_RATE:g} x bandwidth_gbs"),
        "dram_servers": (SERVERS_PER_CHANNEL * channels, f"rule: {SERVERS_PER_CHANNEL} for {each}"),
        "dram_gbs": (round(STAGE_RATE * sustained, 1), f"rule: {STAGE_RATE:g} x bandwidth_gbs"),
    }
    queue = memory.get("queue", {})
    if not isinstance(queue, Mapping):
        return
    for key, (value, how) in rule.items():
        yield f"queue.{key}", value, how
    offset = queue.get("latency_offset_cycles", 0.0)
    servers, rate = (_number(queue.get(key, rule[key][0])) for key in ("dram_servers", "dram_gbs"))
    if not isinstance(offset, int | float):
        offset = 0.0
    # likewise for a clock or a latency that is wrong
    latency, servers, rate, clock = (value or 1.0 for value in (latency, servers, rate, _number(clock_ghz)))
    found = {"dram_servers": servers, "dram_gbs": rate, "latency_offset_cycles": offset}
    how = "rule: mean wait of the DRAM stage with random arrivals (Pollaczek-Khinchine)"
    for key, value in contention({"latency_cycles": latency, "queue": found}, clock).items():
        yield f"contention.{key}", value, how


def contention(memory: Mapping[str, Any], clock_ghz: float) -> dict[str, float]:
    """Returns the keys of [memory.contention] by the rule: the mean wait with random arrivals (M/D/1) at a server of DRAM.

    Args:
        memory: the keys of [memory], with `latency_cycles` and a complete table `queue`.
        clock_ghz: clock of the chip in GHz.
    """
    queue = memory["queue"]
    half_service = COALESCED_BYTES * queue["dram_servers"] / gbs_to_bytes_per_cycle(queue["dram_gbs"], clock_ghz) / 2
    a_cycles = float(memory["latency_cycles"] + queue["latency_offset_cycles"])
    return {"a_cycles": a_cycles, "b_cycles": round(half_service, 1), "c_gbs": queue["dram_gbs"]}


def _number(value: object) -> float | None:
    """Returns a number above 0; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return value if is_number else None  # type: ignore[return-value]
