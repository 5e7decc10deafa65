"""warpsim trace: the numbers in the file are those of the simulator; errors. The report of a point shows its trace."""

import json
import re
import sys

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from tests.support.trace_processor import trace_processor
from warpsim import cli
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import load_kernel
from warpsim.simulation.api import simulate
from warpsim.simulation.trace import Trace

GRID = "--gpu kepler --kernel vector_add --sms 2 --warps 8 --blocks 24 --block-warps 2".split()


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    file = tmp_path_factory.mktemp("trace") / "run.perfetto-trace"
    assert cli.main(["trace", *GRID, "--issues", "0:600", "-o", str(file)]) == 0
    return file.read_bytes()


@pytest.fixture(scope="module")
def run():
    launch = Launch(blocks=24, block_warps=2)
    recorded = Trace(occupancy=True, warps=True, issues=(0, 600), states=200)
    run = simulate(load_gpu("kepler"), load_kernel("vector_add"), warps=8, launch=launch, sms=2, trace=recorded)
    return run.isel(replicate=0)


def test_the_trace_processor_finds_the_numbers_of_the_simulator(trace, run):
    with trace_processor(trace) as processor:
        assert processor.query("select name, value from stats where severity = 'error' and value > 0") == []
        (warps,) = processor.query("select count(*) as n, sum(dur) as cycles from slice where name glob 'block *'")
        lifetimes = (run["warp_end"] + 1 - run["warp_start"]).values
        assert warps == {"n": 48, "cycles": int(np.nansum(lifetimes))}
        np.testing.assert_allclose(warps["cycles"] / 48, run["warp_latency"])
        (issues,) = processor.query("select count(*) as n from slice where extract_arg(arg_set_id, 'debug.line') is not null")
        assert issues["n"] == int(np.isfinite(run["issue_cycle"]).sum())
        (states,) = processor.query("""
            select sum(c.value) as cycles from counter c join track t on c.track_id = t.id where t.name glob 'warp state *'
        """)
        np.testing.assert_allclose(states["cycles"], run["warp_cycles"].sum())
        names = {row["name"] for row in processor.query("select distinct name from process where name is not null")}
        assert names >= {"SM 0", "SM 1"}


def test_occupancy_in_the_file_integrates_to_the_mean(trace, run):
    packets = PerfettoTrace.FromString(trace).packet
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}
    cycles = float(run["cycles"])
    area = 0.0
    for uuid, track in tracks.items():
        if track.name == "occupancy":
            counts = [p for p in packets if p.track_event.track_uuid == uuid and p.track_event.type == TrackEvent.TYPE_COUNTER]
            at = [p.timestamp for p in counts] + [cycles]
            area += float(np.dot(np.diff(at), [p.track_event.double_counter_value for p in counts]))
    np.testing.assert_allclose(area / cycles / 2, run["occupancy"])


def test_the_report_of_a_point_shows_its_trace(tmp_path, run):
    assert cli.main(["report", *GRID, "-o", str(tmp_path / "run.html")]) == 0
    text = (tmp_path / "run.html").read_text()
    data = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])
    assert [panel["y"] for panel in data["panels"]] == [
        "warp_cycles", "occupancy_over_time", "warp_cycles_over_time", "line_warp_cycles", "memory_latency_quantile",
    ]  # fmt: skip
    lines = data["variables"]["line_warp_cycles"]
    np.testing.assert_allclose(np.array(lines["mean"], float).sum(), run["line_warp_cycles"].sum(), rtol=1e-4)
    assert any("load" in text for text in data["dims"]["line"]["texts"])
    assert "What binds: latency" in text


def test_issues_after_the_end_of_the_run_are_refused(tmp_path, run, capsys):
    end = int(run["cycles"])
    output = tmp_path / "run.perfetto-trace"
    assert cli.main(["trace", *GRID, "--issues", f"{end}:{end + 9}", "-o", str(output)]) == 2
    said = f"trace.issues = ({end}, {end + 9}): must begin within the run, whose last cycle is {end - 1}"
    assert said in capsys.readouterr().err
    assert not output.exists()
    assert cli.main(["trace", *GRID, "--issues", f"{end - 1}:{end + 9}", "-o", str(output)]) == 0


def test_errors_state_what_is_allowed(tmp_path, monkeypatch, capsys):
    output = str(tmp_path / "run.perfetto-trace")

    def refused(*arguments):
        assert cli.main(["trace", *GRID, *arguments]) == 2
        return capsys.readouterr().err

    assert "--issues 9:3: must be A:B, two cycles with A before B" in refused("--issues", "9:3", "-o", output)
    assert "--replicates 2: must be 1" in refused("--replicates", "2", "-o", output)
    assert "--bins 0: must be an integer from 1" in refused("--bins", "0", "-o", output)
    assert "must end in one of .perfetto-trace, .pftrace" in refused("-o", str(tmp_path / "run.json"))
    assert "must be a file in a folder that exists" in refused("-o", str(tmp_path / "none" / "run.pftrace"))
    assert "max_bytes = 1000" in refused("--max-bytes", "1000", "-o", output)
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    assert "pip install 'warpsim[trace]'" in refused("-o", output)
    assert list(tmp_path.iterdir()) == []
