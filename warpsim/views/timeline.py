"""A traced run as a file for the timeline viewer Perfetto (ui.perfetto.dev).

The format is Perfetto's own, a stream of TrackEvent messages: its documentation recommends it for data from elsewhere, over
Chrome's JSON, which is legacy (perfetto.dev/docs, "Converting arbitrary timestamped data to Perfetto", "Visualizing external
trace formats"). The viewer counts nanoseconds, so 1 ns there is 1 cycle here.

A process is an SM, and a thread one of its warp schedulers. Under it, each warp slot has a track, with a slice for each warp
from its start up to and including its last resident cycle; the scheduler's own track has a slice of one cycle for each
recorded issue. Occupancy is a counter of each SM; bandwidth, instructions issued and warp states are counters of the chip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.views.atomic_file import atomic_write

if TYPE_CHECKING:
    import xarray as xr

SOURCES = ("warp_start", "issue_cycle", "occupancy_change_cycle", "occupancy_over_time", "bandwidth_over_time",
           "instructions_over_time", "warp_cycles_over_time")  # fmt: skip
"""Variables of a traced result that become tracks."""

_SEQUENCE = 1  # one writer, so one sequence of packets
_UNITS = {"warps/SM": "warps", "warp cycles": "warp-cycles"}


def write_timeline(results: xr.Dataset, path: str | os.PathLike[str], *, replicate: int = 0) -> int:
    """Write one replicate of a traced run as a Perfetto trace.

    Args:
        results: what `simulate(..., trace=...)` returned. Whatever of the trace is there becomes tracks.
        path: the file; it appears complete or not at all.
        replicate: index of the replicate.

    Returns:
        The number of packets written.

    Raises:
        ValueError: the results hold no trace, or have no such replicate.
        ModuleNotFoundError: the package perfetto is not installed.
    """
    found = [name for name in SOURCES if name in results.data_vars]
    if not found:
        raise ValueError(f"results: must hold a trace, one of {', '.join(SOURCES)}; simulate with trace=Trace(...)")
    replicates = results.sizes.get("replicate", 1)
    if not 0 <= replicate < replicates:
        raise ValueError(f"replicate = {replicate}: must be from 0 to {replicates - 1}")
    if "replicate" in results.dims:
        results = results.isel(replicate=replicate)
    try:
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a timeline needs the package {error.name}: pip install 'warpsim[trace]'") from None
    count = 0
    with atomic_write(path) as name, open(name, "wb") as file:
        builder = StreamingTraceProtoBuilder(file)
        for packet in _Tracks(builder.create_packet, results).packets():
            packet.trusted_packet_sequence_id = _SEQUENCE
            builder.write_packet(packet)
            count += 1
    return count


class _Tracks:
    """The packets of one run. A track is described before its first event."""

    def __init__(self, create_packet: Any, results: xr.Dataset) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

        self._create = create_packet
        self._event: Any = protos.TrackEvent
        self._descriptor: Any = protos.TrackDescriptor
        self._results = results
        self._known: dict[tuple[Any, ...], int] = {}

    def packets(self) -> Iterator[Any]:
        """Every packet, first those that describe the SMs and schedulers, in order of their numbers."""
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
        """Rows of some variables along their one dimension, as numbers, without the padding where `by` is NaN."""
        there = ~np.isnan(self._results[by].values.astype(float))
        return list(zip(*(self._results[name].values[there].tolist() for name in names), strict=True))

    def _schedulers(self) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for by, kind in (("warp_start", "warp"), ("issue_cycle", "issue")):
            if by in self._results:
                rows = self._rows(by, f"{kind}_sm", f"{kind}_scheduler")
                found |= {(int(sm), int(scheduler)) for sm, scheduler in rows}
        return found

    def _track(self, key: tuple[Any, ...], parent: int = 0, **fields: Any) -> Iterator[Any]:
        """Describe a track, once. Its identity is the place at which it was first met, from 1."""
        if key in self._known:
            return
        self._known[key] = len(self._known) + 1
        packet = self._create()
        track = packet.track_descriptor
        track.uuid = self._known[key]
        if parent:
            track.parent_uuid = parent
        track.child_ordering = self._descriptor.EXPLICIT
        for name, value in fields.items():
            if isinstance(value, dict):
                part = getattr(track, name)
                part.SetInParent()
                for inner, text in value.items():
                    setattr(part, inner, text)
            else:
                setattr(track, name, value)
        yield packet

    def _process(self, sm: int) -> Iterator[Any]:
        process = {"pid": sm + 1, "process_name": f"SM {sm}"}  # a viewer takes process 0 for its own
        yield from self._track(("sm", sm), process=process, sibling_order_rank=sm)

    def _thread(self, sm: int, scheduler: int) -> Iterator[Any]:
        yield from self._process(sm)
        thread = {"pid": sm + 1, "tid": 1000 * (sm + 1) + scheduler, "thread_name": f"scheduler {scheduler}"}
        key = ("scheduler", sm, scheduler)
        yield from self._track(key, self._known["sm", sm], thread=thread, sibling_order_rank=scheduler)

    def _counter(self, key: tuple[Any, ...], name: str, unit: str, parent: int = 0) -> Iterator[Any]:
        counter = {"unit_name": _UNITS.get(unit, unit)}
        yield from self._track(key, parent, name=name, counter=counter)

    def _at(self, cycle: float, key: tuple[Any, ...], kind: int) -> Any:
        packet = self._create()
        packet.timestamp = int(cycle)
        packet.track_event.type = kind
        packet.track_event.track_uuid = self._known[key]
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
        for sm, row in enumerate(binned.values):
            for cycle, warps in zip(binned["time"].values, row, strict=True):
                yield from self._occupancy(cycle, sm, float(warps))

    def _occupancy(self, cycle: float, sm: int, warps: float) -> Iterator[Any]:
        key = ("occupancy", sm)
        if key not in self._known:
            yield from self._process(sm)
            yield from self._counter(key, "occupancy", "warps", self._known["sm", sm])
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
        yield from self._counter(("chip", name), name, str(series.attrs.get("units", "")), self._known["chip",])
        for cycle, value in zip(series["time"].values, series.values.tolist(), strict=True):
            if value == value:
                yield self._value(cycle, ("chip", name), value)

    def _warps(self) -> Iterator[Any]:
        """Slices of a slot in order of time: of two events in one cycle, the viewer takes them as they come."""
        names = ("start", "end", "sm", "scheduler", "slot", "block")
        rows = self._rows("warp_start", *(f"warp_{name}" for name in names), "warp")
        width = len(str(int(max((row[4] for row in rows), default=0))))  # the viewer sorts tracks as text
        for start, end, sm, scheduler, slot, block, warp in sorted(rows):
            key = ("slot", int(sm), int(slot))
            thread = self._known["scheduler", int(sm), int(scheduler)]
            yield from self._track(key, thread, name=f"slot {int(slot):0{width}}", sibling_order_rank=int(slot))
            begin = self._at(start, key, self._event.TYPE_SLICE_BEGIN)
            begin.track_event.name = f"block {int(block)}, warp {int(warp)}"
            _annotate(begin, block=block, warp=warp)
            yield begin
            if end == end:  # NaN: it was resident to the end
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
    """Add what the viewer shows beside a slice."""
    for name, value in values.items():
        note = packet.track_event.debug_annotations.add()
        note.name = name
        note.int_value = int(value)
