"""warpsim plot: every kind from a store, and what it says of stores that are not complete."""

import pytest
from matplotlib.axes import Axes

from tests.sweeps import PLAN_TOML, small_plan
from warpsim import cli
from warpsim.batch.plan import Plan
from warpsim.store.zarr_store import create_store, open_store, pending_tiles


@pytest.fixture
def plan(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN_TOML)
    return file


def test_plot_of_a_half_finished_and_of_an_empty_store(plan, tmp_path, capsys, monkeypatch):
    out, figure = tmp_path / "out.zarr", tmp_path / "figure.svg"
    request = ["plot", str(out), "--kind", "throughput", "--where", "gpu=kepler", "--where", "alpha=8", "-o", str(figure)]
    titles = []
    monkeypatch.setattr(Axes, "set_title", lambda ax, text, **_: titles.append(text))
    create_store(out, Plan.from_toml(plan).layout())
    tiles = len(small_plan().tiles())
    assert cli.main(request) == 0
    assert f"out.zarr: incomplete: of {tiles} tiles {tiles} pending" in capsys.readouterr().err
    assert cli.main(["sweep", str(plan), str(out), "--tile", "1/2"]) == 0
    capsys.readouterr()
    assert cli.main(request) == 0
    pending = len(pending_tiles(open_store(out)))
    assert 0 < pending < tiles
    assert f"incomplete: of {tiles} tiles {pending} pending" in capsys.readouterr().err
    assert titles == [f"incomplete: of {tiles} tiles {n} pending" for n in (tiles, pending)]
    assert cli.main(["plot", str(out), "--kind", "pie", "-o", str(figure)]) == 2
    assert "--kind pie: must be one of lines, throughput" in capsys.readouterr().err
