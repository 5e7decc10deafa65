"""experiments/streams: its data, and its kernels on a chip."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import warpsim as ws
from warpsim.cli.experiment import experiments_dir


@pytest.fixture(scope="module")
def streams():
    folder = str(Path(experiments_dir()) / "streams")
    sys.path.insert(0, folder)
    try:
        import streams
    finally:
        sys.path.remove(folder)
    return streams


def test_the_short_plan_leaves_the_page_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(experiments_dir()))
    monkeypatch.syspath_prepend(str(Path(experiments_dir()) / "streams"))
    spec = importlib.util.spec_from_file_location("streams_run", Path(experiments_dir()) / "streams" / "run.py")
    assert spec is not None and spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    pages: list[str] = []
    monkeypatch.setattr(run, "replace_tables", lambda page, text: pages.append(text))
    run.write_tables(tmp_path, [[{"kernel": "read", "error, %": "1.0"}]], full=False)
    assert not pages and "| read | 1.0 |" in (tmp_path / "streams.md").read_text()
    run.write_tables(tmp_path, [[{"kernel": "init", "error, %": "2.0"}]], full=True)
    assert "| init | 2.0 |" in pages[0]


def test_both_chips_have_all_curves(streams) -> None:
    points = streams.measured()
    assert set(points) == {"v100", "a100"}
    assert all(set(kernels) == set(streams.STREAMS) for kernels in points.values())
    assert all(len(curve) == 32 for kernels in points.values() for curve in kernels.values())


def test_small_blocks_have_the_measured_bandwidth(streams) -> None:
    gpu, points = ws.load_gpu("v100"), streams.measured()["v100"]
    for name in ("read", "init", "scale"):
        simulated = streams.bandwidth(gpu, name, 32, sms=4, cycles=20_000)
        assert simulated == pytest.approx(points[name][32], rel=0.08)
