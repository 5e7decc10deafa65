"""Writes a traced run as a file for the timeline viewer Perfetto (ui.perfetto.dev).

The format is a stream of Perfetto's TrackEvent messages. Perfetto's documentation recommends it for converted data, and calls the
JSON format of Chrome legacy (perfetto.dev/docs, "Converting arbitrary timestamped data to Perfetto", "Visualizing external trace
formats"). The viewer counts nanoseconds; 1 ns stands for 1 cycle.

A process is an SM, and a thread is one of its warp schedulers. Each warp slot is a track below its scheduler, with a slice per
warp from its start to its last resident cycle, inclusive. The track of the scheduler has a slice of one cycle per recorded issue.
Occupancy is a counter of each SM; bandwidth, issued instructions and warp states are counters of the chip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.atomic_file import atomic_write
from warpsim.views.plots.selection import require_variables, select_replicate

if TYPE_CHECKING:
    import xarray as xr

SOURCES = ("warp_start", "issue_cycle", "occupancy_change_cycle", "occupancy_over_time", "bandwidth_over_time",
           "instructions_over_time", "warp_cycles_over_time")  # fmt: skip
"""Variables of a trace that become tracks."""

_SEQUENCE = 1  # identifies the writer of the packets, of which there is one
_UNITS = {"warps/SM": "warps", "warp cycles": "warp-cycles"}


def write_timeline(results: xr.Dataset, path: str | os.PathLike[str], *, replicate: int = 0) -> int:
    """Writes one replicate of a traced run as a Perfetto trace.

    Args:
        results: what `simulate(..., trace=...)` returned. Every recorded part of the trace becomes tracks.
        path: the file, which is written atomically.
        replicate: index of the replicate.

    Returns:
        The number of packets written.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: the results hold no trace, or do not have this replicate.
        ModuleNotFoundError: the package perfetto is not installed.
    """
    require_variables(results)
    if not any(name in results.data_vars for name in SOURCES):
        raise ValueError(f"results: must hold a trace, one of {', '.join(SOURCES)}; simulate with trace=Trace(...)")
    results = select_replicate(results, replicate)
    try:
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a timeline needs the package {error.name}: pip install 'warpsim[trace]'") from None
    count = 0
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        builder = StreamingTraceProtoBuilder(file)
        for packet in _Tracks(builder.create_packet, results).packets():
            packet.trusted_packet_sequence_id = _SEQUENCE
            builder.write_packet(packet)
            count += 1
    return count


class _Tracks:
    """Generates the packets of one run. A track is described before its first event."""

    def __init__(self, create_packet: Any, results: xr.Dataset) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

        self._create = create_packet
        self._event: Any = protos.TrackEvent
        self._descriptor: Any = protos.TrackDescriptor
        self._results = results
        self._uuids: dict[tuple[Any, ...], int] = {}

    def packets(self) -> Iterator[Any]:
        """Yields every packet, starting with those that describe the SMs and schedulers in numerical order."""
        for sm, scheduler in sorted(self._schedulers()):
            yield from self._thread(sm, scheduler)
        if "occupancy_change_cycle" in self._results:
            yield from self._occupancy_changes()
        elif "occupancy_over_time" in self._results:
            yield from self._occupancy_bins()
        yield from self._chip_counters()
        if "warp_start" in self._results:
            yield from self._warps()
        if "issue_cycle" in self._results:
            yield from self._issues()

    def _rows(self, by: str, *names: str) -> list[tuple[Any, ...]]:
        """Returns the rows of some variables as numbers, without the padding, which is where `by` is NaN."""
        present = ~np.isnan(self._results[by].values.astype(float))
        return list(zip(*(self._results[name].values[present].tolist() for name in names), strict=True))

    def _schedulers(self) -> set[tuple[int, int]]:
        """Returns SM and number of every scheduler in the trace."""
        schedulers: set[tuple[int, int]] = set()
        for by, kind in (("warp_start", "warp"), ("issue_cycle", "issue")):
            if by in self._results:
                rows = self._rows(by, f"{kind}_sm", f"{kind}_scheduler")
                schedulers |= {(int(sm), int(scheduler)) for sm, scheduler in rows}
        return schedulers

    def _track(self, key: tuple[Any, ...], parent: int = 0, **fields: Any) -> Iterator[Any]:
        """Yields the description of a track unless it has been described. Tracks are numbered from 1."""
        if key in self._uuids:
            return
        self._uuids[key] = len(self._uuids) + 1
        packet = self._create()
        track = packet.track_descriptor
        track.uuid = self._uuids[key]
        if parent:
            track.parent_uuid = parent
        track.child_ordering = self._descriptor.EXPLICIT
        for name, value in fields.items():
            if isinstance(value, dict):
                message = getattr(track, name)
                message.SetInParent()
                for inner, text in value.items():
                    setattr(message, inner, text)
            else:
                setattr(track, name, value)
        yield packet

    def _process(self, sm: int) -> Iterator[Any]:
        process = {"pid": sm + 1, "process_name": f"SM {sm}"}  # the viewer reserves process 0
        yield from self._track(("sm", sm), process=process, sibling_order_rank=sm)

    def _thread(self, sm: int, scheduler: int) -> Iterator[Any]:
        yield from self._process(sm)
        thread = {"pid": sm + 1, "tid": 1000 * (sm + 1) + scheduler, "thread_name": f"scheduler {scheduler}"}
        key = ("scheduler", sm, scheduler)
        yield from self._track(key, self._uuids["sm", sm], thread=thread, sibling_order_rank=scheduler)

    def _counter(self, key: tuple[Any, ...], name: str, unit: str, parent: int = 0) -> Iterator[Any]:
        counter = {"unit_name": _UNITS.get(unit, unit)}
        yield from self._track(key, parent, name=name, counter=counter)

    def _at(self, cycle: float, key: tuple[Any, ...], kind: int) -> Any:
        packet = self._create()
        packet.timestamp = int(cycle)
        packet.track_event.type = kind
        packet.track_event.track_uuid = self._uuids[key]
        return packet

    def _value(self, cycle: float, key: tuple[Any, ...], value: float) -> Any:
        packet = self._at(cycle, key, self._event.TYPE_COUNTER)
        packet.track_event.double_counter_value = value
        return packet

    def _occupancy_changes(self) -> Iterator[Any]:
        names = [f"occupancy_change_{name}" for name in ("cycle", "sm", "warps")]
        for cycle, sm, warps in self._rows(names[0], *names):
            yield from self._occupancy(cycle, int(sm), warps)

    def _occupancy_bins(self) -> Iterator[Any]:
        binned = self._results["occupancy_over_time"].transpose("sm", "time")
        for sm, row in zip(binned["sm"].values, binned.values, strict=True):
            for cycle, warps in zip(binned["time"].values, row.tolist(), strict=True):
                if warps == warps:  # NaN: after the end of the replicate
                    yield from self._occupancy(cycle, int(sm), warps)

    def _occupancy(self, cycle: float, sm: int, warps: float) -> Iterator[Any]:
        key = ("occupancy", sm)
        if key not in self._uuids:
            yield from self._process(sm)
            yield from self._counter(key, "occupancy", "warps", self._uuids["sm", sm])
        yield self._value(cycle, key, warps)

    def _chip_counters(self) -> Iterator[Any]:
        for name in ("bandwidth_over_time", "instructions_over_time"):
            if name in self._results:
                yield from self._series(name.removesuffix("_over_time"), self._results[name])
        if "warp_cycles_over_time" in self._results:
            by_state = self._results["warp_cycles_over_time"]
            for state in by_state["state"].values.tolist():
                if bool((by_state.sel(state=state) > 0).any()):
                    yield from self._series(f"warp state {state}", by_state.sel(state=state))

    def _series(self, name: str, series: xr.DataArray) -> Iterator[Any]:
        yield from self._track(("chip",), name="chip")
        yield from self._counter(("chip", name), name, str(series.attrs.get("units", "")), self._uuids["chip",])
        for cycle, value in zip(series["time"].values, series.values.tolist(), strict=True):
            if value == value:
                yield self._value(cycle, ("chip", name), value)

    def _warps(self) -> Iterator[Any]:
        """Yields the slices of each slot in order of time, because the viewer keeps the order of events in one cycle."""
        names = ("start", "end", "sm", "scheduler", "slot", "block")
        rows = self._rows("warp_start", *(f"warp_{name}" for name in names), "warp")
        width = len(str(int(max((row[4] for row in rows), default=0))))  # the viewer sorts tracks by name
        for start, end, sm, scheduler, slot, block, warp in sorted(rows):
            key = ("slot", int(sm), int(slot))
            thread = self._uuids["scheduler", int(sm), int(scheduler)]
            yield from self._track(key, thread, name=f"slot {int(slot):0{width}}", sibling_order_rank=int(slot))
            begin = self._at(start, key, self._event.TYPE_SLICE_BEGIN)
            begin.track_event.name = f"block {int(block)}, warp {int(warp)}"
            _annotate(begin, block=block, warp=warp)
            yield begin
            if end == end:  # NaN: resident at the end of the run
                yield self._at(end + 1, key, self._event.TYPE_SLICE_END)

    def _issues(self) -> Iterator[Any]:
        texts: dict[Any, str] = {}
        if "line_text" in self._results.coords:
            lines = self._results["line"].values.tolist()
            texts = dict(zip(lines, map(str, self._results["line_text"].values), strict=True))
        rows = self._rows("issue_cycle", *(f"issue_{name}" for name in ("cycle", "sm", "scheduler", "slot", "line")))
        for cycle, sm, scheduler, slot, line in sorted(rows):
            key = ("scheduler", int(sm), int(scheduler))
            begin = self._at(cycle, key, self._event.TYPE_SLICE_BEGIN)
            begin.track_event.name = texts.get(line) or f"line {int(line)}"
            _annotate(begin, slot=slot, line=line)
            yield begin
            yield self._at(cycle + 1, key, self._event.TYPE_SLICE_END)


def _annotate(packet: Any, **values: float) -> None:
    """Adds values that the viewer shows with a slice."""
    for name, value in values.items():
        note = packet.track_event.debug_annotations.add()
        note.name = name
        note.int_value = int(value)
