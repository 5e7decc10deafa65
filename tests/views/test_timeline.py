"""The timeline file, read by Perfetto's message types and by its trace processor."""

import sys

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from tests.support.trace_processor import trace_processor
from tests.support.traced_result import CHANGES, ISSUES, TEXT, WARPS, traced_result
from warpsim.views.timeline import write_timeline


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    file = tmp_path_factory.mktemp("timeline") / "run.perfetto-trace"
    assert write_timeline(traced_result(), file) > 0
    return file.read_bytes()


def test_the_file_is_a_stream_of_packets_with_each_track_described_before_its_events(trace):
    packets = Trace.FromString(trace).packet
    known = set()
    for packet in packets:
        assert packet.trusted_packet_sequence_id
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in known
            assert track.parent_uuid in known or not track.parent_uuid
            known.add(track.uuid)
        else:
            assert packet.track_event.track_uuid in known
    kinds = [packet.track_event.type for packet in packets]
    assert kinds.count(TrackEvent.TYPE_SLICE_BEGIN) == len(WARPS) + len(ISSUES)
    assert kinds.count(TrackEvent.TYPE_SLICE_END) == len(WARPS) + len(ISSUES) - 1  # one warp is resident at the end


def test_the_trace_processor_reads_the_file(trace):
    with trace_processor(trace) as processor:
        assert processor.query("select name, value from stats where severity = 'error' and value > 0") == []
        slices = processor.query("""
            select s.ts, s.dur, s.name, t.name as track, p.name as process, h.name as thread,
                   extract_arg(s.arg_set_id, 'debug.line') as line
            from slice s join track t on s.track_id = t.id
            left join thread_track tt on s.track_id = tt.id left join thread h using (utid)
            left join process p on p.upid = h.upid order by s.ts, s.name
        """)
        warps = {row["name"]: (row["ts"], row["dur"], row["track"]) for row in slices if row["line"] is None}
        for warp, (start, end, _, _, slot, block) in enumerate(WARPS):
            duration = end + 1 - start if end == end else -1
            assert warps[f"block {block}, warp {warp}"] == (start, duration, f"slot {slot}")
        issues = [row for row in slices if row["line"] is not None]
        expected = sorted((c, 1, TEXT[line], f"SM {sm}", f"scheduler {s}") for c, sm, s, _, line in ISSUES)
        assert sorted((row["ts"], row["dur"], row["name"], row["process"], row["thread"]) for row in issues) == expected
        counters = processor.query("""
            select c.ts, c.value, t.name, p.name as process from counter c join track t on c.track_id = t.id
            left join process_counter_track pt on pt.id = t.id left join process p using (upid) order by c.ts
        """)
        occupancy = sorted((row["ts"], row["process"], row["value"]) for row in counters if row["name"] == "occupancy")
        assert occupancy == sorted((cycle, f"SM {sm}", warps) for cycle, sm, warps in CHANGES)
        assert [row["value"] for row in counters if row["name"] == "bandwidth"] == [1.5, 2.5]
        assert [row["value"] for row in counters if row["name"] == "warp state wait"] == [10.0, 20.0]


def test_the_second_replicate(tmp_path):
    write_timeline(traced_result(), tmp_path / "second", replicate=1)
    packets = Trace.FromString((tmp_path / "second").read_bytes()).packet
    assert [p.track_event.name for p in packets if p.track_event.name] == ["block 0, warp 0", "load r0"]


def test_the_bins_of_a_replicate_begin_after_its_own_warm_up(tmp_path):
    results = traced_result().assign(warmup_cycles=("replicate", [0.0, 30.0]))
    write_timeline(results[["bandwidth_over_time", "warmup_cycles"]], tmp_path / "second", replicate=1)
    packets = Trace.FromString((tmp_path / "second").read_bytes()).packet
    assert [p.timestamp for p in packets if p.HasField("track_event")] == [30, 130]


def test_binned_occupancy_is_a_counter(tmp_path):
    results = traced_result()
    results["occupancy_over_time"] = (("replicate", "sm", "time"), [[[2.0, 1.5], [1.0, 0.5]]] * 2)
    write_timeline(results[["occupancy_over_time"]], tmp_path / "binned")
    packets = Trace.FromString((tmp_path / "binned").read_bytes()).packet
    values = [p.track_event.double_counter_value for p in packets if p.HasField("track_event")]
    assert values == [2.0, 1.5, 1.0, 0.5]


def test_binned_occupancy_ends_with_the_replicate_and_has_the_number_of_its_sm(tmp_path):
    results = traced_result().assign_coords(sm=[0, 1])
    results["occupancy_over_time"] = (("replicate", "sm", "time"), [[[2.0, 1.5], [1.0, np.nan]]] * 2)
    write_timeline(results[["occupancy_over_time"]].sel(sm=[1]), tmp_path / "binned")
    packets = Trace.FromString((tmp_path / "binned").read_bytes()).packet
    assert [p.track_event.double_counter_value for p in packets if p.HasField("track_event")] == [1.0]
    names = [p.track_descriptor.process.process_name for p in packets if p.track_descriptor.HasField("process")]
    assert names == ["SM 1"]


def test_errors_leave_no_file(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="results: must hold a trace, one of warp_start, issue_cycle"):
        write_timeline(traced_result()[["line"]], tmp_path / "none")
    with pytest.raises(ValueError, match="replicate = 2: must be an integer from 0 to 1"):
        write_timeline(traced_result(), tmp_path / "none", replicate=2)
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'warpsim\[trace\]'"):
        write_timeline(traced_result(), tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
