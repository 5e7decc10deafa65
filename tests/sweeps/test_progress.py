"""Progress of a sweep: counts, plain lines in a log, a bar on a terminal."""

import io
import signal
import sys

import pytest

from tests.support.small_plans import failing, small_plan
from warpsim.store.zarr_store import open_store, pending_tiles
from warpsim.sweeps import local
from warpsim.sweeps.local import SweepError, sweep
from warpsim.sweeps.progress import Progress, duration, reporting
from warpsim.sweeps.tile import complete_tile


def test_progress_is_reported_from_start_to_end(tmp_path):
    seen: list[Progress] = []
    plan = small_plan()
    sweep(plan, tmp_path / "out.zarr", progress=seen.append)
    assert [progress.done for progress in seen] == list(range(len(plan.tiles()) + 1))
    assert (seen[0].points_done, seen[-1].points_done, seen[-1].points) == (0, 24, 24)
    assert seen[0].seconds_left is None and seen[-1].seconds_left == 0.0
    assert seen[-1].finished
    seen.clear()
    sweep(plan, tmp_path / "out.zarr", progress=seen.append)
    assert [progress.done for progress in seen] == [len(plan.tiles())]


def test_a_log_gets_plain_lines(capsys, monkeypatch):
    failing(monkeypatch, lambda point: point.gpu.name == "kepler" and point.scheduler == "gto")
    with pytest.raises(SweepError) as error:
        sweep(small_plan(), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("0 of ")
    assert any("failed: gpu=kepler" in line and "broken on purpose" in line for line in lines)
    plan = small_plan()
    done = 24 - sum(map(plan.grid.tile_points, error.value.failures))
    assert f", {len(error.value.failures)} failed, {done} of 24 points, " in lines[-1] and 0 < done < 24
    assert not any("\x1b" in line for line in lines)


def test_without_standard_error_nothing_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert sweep(small_plan(gpu="kepler", alpha=1), progress=True)["valid"].any()
    assert not capsys.readouterr().out


def test_a_terminal_gets_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with reporting(True) as report:
        report(Progress(4, 1, 1, 40, 20, 3.0, 3.0, "tile 2 failed: why [not]"))
        report(Progress(4, 3, 1, 40, 30, 6.0, 0.0, points_failed=10))
    assert "\x1b[" in terminal.getvalue()
    assert "tile 2 failed: why [not]" in terminal.getvalue()
    assert "3 of 4 tiles, 1 failed, 30 of 40 points" in terminal.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(7.2, "7 s"), (600, "10 min"), (12_600, "3.5 h")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_last_line_after_an_interruption_counts_what_is_done(tmp_path, capsys, monkeypatch):
    plan = small_plan(alpha=[*range(1, 13)])
    assert len(plan.tiles()) > 3
    done = []

    def complete(*arguments):
        done.append(complete_tile(*arguments))
        if len(done) == 2:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C, while the tile's outcome is not yet counted
        return done[-1]

    monkeypatch.setattr(local, "complete_tile", complete)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start its jobs with the signal ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            sweep(plan, tmp_path / "out.zarr", progress=True)
    finally:
        signal.signal(signal.SIGINT, before)
    last = capsys.readouterr().err.splitlines()[-1]
    stored = len(plan.tiles()) - len(pending_tiles(open_store(tmp_path / "out.zarr")))
    assert stored >= 2
    assert last.startswith(f"{stored} of {len(plan.tiles())} tiles, ") and last.endswith(", stopped")
