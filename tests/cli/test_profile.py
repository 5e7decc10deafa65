"""warpsim profile, with launches in the place of those of a report."""

import contextlib
import json
import re

import pytest

from tests.support.profiled_launches import METRICS, launch
from warpsim import cli
from warpsim.cli.profile import _estimate
from warpsim.profiles import api, report
from warpsim.simulation import sampled_run
from warpsim.simulation.sampled_run import Estimate
from warpsim.views import text_table

FAST = ["r.ncu-rep", "--replicates", "1"]


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    monkeypatch.setattr(api, "read_launch", lambda path, number: launch())
    monkeypatch.setattr(report, "list_launches", lambda path: [(0, "kernel(float*)", METRICS)])


def run(capsys, *arguments):
    assert cli.main(["profile", *arguments]) == 0
    return capsys.readouterr().out


def test_the_launches(capsys):
    assert run(capsys, "r.ncu-rep", "--list").splitlines()[1].split() == "0 kernel NVIDIA A40 200 x 256 6.9".split()
    (one,) = json.loads(run(capsys, "r.ncu-rep", "--list", "--json"))
    assert one == {"launch": 0, "kernel": "kernel", "gpu": "NVIDIA A40", "blocks": 200, "threads": 256, "microseconds": 6.9}


def test_counts_of_a_listed_launch_are_whole_numbers(capsys, monkeypatch):
    """The reader gives them as floating-point numbers where the profiler of the report is an older one."""
    metrics = METRICS | {"launch__grid_size": 200.0, "launch__block_size": 256.0}
    monkeypatch.setattr(report, "list_launches", lambda path: [(0, "kernel(float*)", metrics)])
    assert '"blocks": 200, "threads": 256' in run(capsys, "r.ncu-rep", "--list", "--json")


def test_stalls_that_were_not_collected_are_no_zeros(capsys, monkeypatch):
    stalls = [metric for metric in METRICS if metric.startswith("smsp__average_warps")]
    monkeypatch.setattr(api, "read_launch", lambda path, number: launch(without=stalls))
    (row,) = [line.split() for line in run(capsys, *FAST).splitlines() if line.startswith("long_scoreboard")]
    assert row[1:3] == ["not", "collected"]


def test_the_comparison_says_what_was_changed(capsys):
    shown = run(capsys, *FAST, "--bandwidth", "0.5", "--block-threads", "128", "--if-scheduler", "lrr")
    assert "what if: block threads 128, bandwidth 0.5, scheduler lrr (NVIDIA A40" in shown
    assert "400 blocks of 4 warps, 12 resident per SM)" in shown
    assert "note: missing: samples by instruction: ncu --section SourceCounters" in shown
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("microseconds")]
    (cycles,) = [line.replace(",", "").split() for line in shown.splitlines() if line.startswith("cycles")]
    (moved,) = [line.split()[3:] for line in shown.splitlines() if line.startswith("DRAM MB")]
    assert moved == ["input", "input"]  # the simulation moves what was measured
    assert row[1] == "6.9" and float(row[2]) == pytest.approx(float(cycles[2]) / 1300, rel=1e-3)


def test_json_and_a_page(capsys, tmp_path):
    page = tmp_path / "page.html"
    found = json.loads(run(capsys, *FAST, "--bandwidth", "0.5", "--json", "-o", str(page)))
    assert found["what_if"]["changes"] == {"bandwidth": 0.5}
    assert found["what_if"]["dram_bytes"] == found["measured"]["dram_bytes"]
    text = page.read_text(encoding="utf-8")
    assert "what if: bandwidth 0.5" in text
    assert '<td class="text">LDG.E R6, [R4.64]</td>' in text and '<td class="text">input' not in text


def test_the_page_is_written_where_nobody_reads_the_tables(tmp_path, monkeypatch):
    def closed(*_):
        raise BrokenPipeError

    page = tmp_path / "page.html"
    monkeypatch.setattr(text_table, "text_table", closed)
    with contextlib.suppress(BrokenPipeError, SystemExit):
        cli.main(["profile", *FAST, "-o", str(page)])
    assert "simulated" in page.read_text(encoding="utf-8")


def test_no_number_depends_on_the_workers(capsys, monkeypatch):
    given = []
    real = sampled_run.simulate_point
    monkeypatch.setattr(sampled_run, "simulate_point", lambda point, threads: given.append(threads) or real(point, threads))
    request = ["r.ncu-rep", "--replicates", "2", "--if-scheduler", "lrr", "--json", "--workers"]
    assert run(capsys, *request, "3") == run(capsys, *request, "1")
    assert given == [3, 1]


@pytest.mark.parametrize(("name", "text"), [("none/page.html", "must be a file in a folder"), ("page.txt", "must end in")])
def test_a_page_that_cannot_be_written_is_refused_before_the_work(capsys, tmp_path, monkeypatch, name, text):
    monkeypatch.setattr(api, "read_launch", None)
    assert cli.main(["profile", *FAST, "-o", str(tmp_path / name)]) == 2
    assert text in capsys.readouterr().err


def test_rounding_is_no_interval():
    assert _estimate(Estimate(0.25, 1e-17)) == "0.25 ± 0"
    assert _estimate(Estimate(2000.0, 1.5)) == "2,000 ± 1.5"
    assert _estimate(None) == "0"


def test_one_replicate_has_no_interval(capsys, tmp_path):
    page = tmp_path / "page.html"
    shown = run(capsys, *FAST, "--advise", "-o", str(page))
    assert re.search(r"^cycles +[\d,]+ +[\d,.]+$", shown, re.MULTILINE)
    for text in (shown, page.read_text(encoding="utf-8")):
        assert "±" not in text and "nan" not in text.lower()
    found = json.loads(run(capsys, *FAST, "--json"))
    assert found["simulated"]["cycles"]["half_width"] is None
    assert run(capsys, "r.ncu-rep", "--replicates", "2", "--advise").count("±") > 10
