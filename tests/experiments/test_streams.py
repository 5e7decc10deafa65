"""experiments/streams: its data, and its kernels on a chip."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import warpsim as ws
from tests.support.experiment_modules import modules_of
from warpsim.cli.experiment import experiments_dir


@pytest.fixture(scope="module")
def streams():
    return modules_of("streams", "streams")[0]


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


def test_all_chips_have_all_curves(streams) -> None:
    points = streams.measured()
    assert {chip: len(curves["read"]) for chip, curves in points.items()} == {
        "v100": 32, "a100": 32, "a100_40gb": 12, "a40": 11, "h200": 12, "h100, own": 15, "h200, own": 15
    }  # fmt: skip
    for title, curves in points.items():
        assert set(curves) == (set(streams.OF_RECORDS.values()) if title in streams.RECORDS else set(streams.STREAMS))
    assert all(curve.keys() == curves["read"].keys() for curves in points.values() for curve in curves.values())


def test_only_the_edges_of_a_block_wait_for_what_other_blocks_load(streams) -> None:
    def far(kernel, launched: int) -> int:
        body = next(body for start, body in kernel.paths() if start == kernel.entry_of(launched))
        return sum(step.op == "load" and not step.access.l1_hit for step in body)

    for name in ("3pt", "5pt"):
        assert [far(streams.kernel(name, 4), warp) for warp in range(8)] == [2, 1, 1, 2, 2, 1, 1, 2]
        assert [far(streams.kernel(name, 2), warp) for warp in range(2)] == [2, 2]
        assert far(streams.kernel(name, 1), 0) == 3
    assert {far(streams.kernel("triad", 3), warp) for warp in range(3)} == {2}


def test_small_blocks_have_the_measured_bandwidth(streams) -> None:
    gpu, points = ws.load_gpu("v100"), streams.measured()["v100"]
    for name in ("read", "init", "scale"):
        simulated = streams.bandwidth(gpu, name, 32, sms=4, cycles=20_000)
        assert simulated == pytest.approx(points[name][32], rel=0.08)
