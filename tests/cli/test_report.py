"""warpsim report: stores, saved results, points and errors."""

import re
import shutil
import sys

import numpy as np
import xarray as xr

from tests.support.report_pages import page_data
from tests.support.small_plans import small_plan
from warpsim import cli
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.sweeps.local import sweep

POINT = "--gpu kepler --kernel mix --warps 8 --sms 1 --warmup 0 --cycles 2000".split()


def test_an_incomplete_store_is_reported_with_a_note(tmp_path, capsys):
    sweep(small_plan(), tmp_path / "half.zarr", tiles=[0])
    output = tmp_path / "half.html"
    assert cli.main(["report", str(tmp_path / "half.zarr"), "-o", str(output)]) == 0
    output_text = capsys.readouterr().err
    assert re.search(r"^warpsim: Incomplete sweep: \d+ of 24 points, 1 of \d+ tiles; \d+ tiles pending, 0 failed\.", output_text)
    assert "No point is done for gpu kepler" in output_text
    assert "No point is done for gpu kepler" in output.read_text()
    assert {row[0] for row in page_data(output.read_text())["table"]["rows"]} == {"g80"}


def test_an_empty_store_is_reported_with_a_note(tmp_path, capsys):
    from warpsim.store.create import create_store

    create_store(tmp_path / "empty.zarr", small_plan().layout())
    assert cli.main(["report", str(tmp_path / "empty.zarr"), "-o", str(tmp_path / "page.html")]) == 0
    assert "Incomplete sweep: 0 of 24 points" in capsys.readouterr().err
    text = (tmp_path / "page.html").read_text()
    assert "Incomplete sweep: 0 of 24 points" in text
    assert "sweep of 24 points" in text
    assert page_data(text)["panels"] == page_data(text)["table"]["rows"] == []


def test_saved_results_and_a_point(tmp_path, capsys):
    from warpsim.simulation.api import simulate

    run = simulate(load_gpu("kepler"), mix(alpha=2), warps=8, sms=1, warmup=0, cycles=200, replicates=2)
    run.to_zarr(tmp_path / "run.zarr", zarr_format=2)
    run.to_netcdf(tmp_path / "run.nc", engine="scipy")
    wanted = float(run["bandwidth"].mean())
    for source in (["run.zarr"], ["run.nc"]):
        assert cli.main(["report", str(tmp_path / source[0]), "-o", str(tmp_path / "run.html")]) == 0
        data = page_data((tmp_path / "run.html").read_text())
        np.testing.assert_allclose(data["variables"]["bandwidth"]["mean"], [wanted], rtol=1e-5)
        assert "± 95 %" in [column["text"] for column in data["table"]["columns"]]
    assert cli.main(["report", *POINT, "--set", "alpha=2", "-o", str(tmp_path / "point.html")]) == 0
    text = (tmp_path / "point.html").read_text()
    assert "What binds: latency" in text
    assert "Resource: Memory system" in text
    rows = page_data(text)["table"]["rows"]
    assert [row[0] for row in rows if row[1] == "alu"] == ["ipc", "throughput"]
    titles = [column["text"] for column in page_data(text)["table"]["columns"]]
    assert titles == ["variable", "of", "mean", "model", "units"]  # one replicate has no interval
    assert "±" not in capsys.readouterr().out


def test_errors_state_what_is_allowed(store, tmp_path, monkeypatch, capsys):
    output = str(tmp_path / "page.html")

    def refused(*arguments):
        assert cli.main(["report", *arguments]) == 2
        return capsys.readouterr().err

    assert "needs either OUT.zarr, or --gpu and --kernel" in refused("-o", output)
    assert "needs either OUT.zarr, or --gpu and --kernel" in refused(str(store), *POINT, "-o", output)
    assert "--block-warps: only with --gpu and --kernel" in refused(str(store), "--block-warps", "4", "-o", output)
    assert "--set: only with --gpu and --kernel" in refused(str(store), "--set", "alpha=4", "-o", output)
    assert "needs --kernel as well" in refused("--gpu", "kepler", "-o", output)
    assert "no such store" in refused(str(tmp_path / "none.zarr"), "-o", output)
    assert "page.txt: must end in one of .html" in refused(str(store), "-o", str(tmp_path / "page.txt"))
    assert "must be a file in a folder that exists" in refused(str(store), "-o", str(tmp_path / "none" / "page.html"))
    assert "warps = 5: must be one of 4, 8, 48" in refused(str(store), "--where", "warps=5", "-o", output)
    (tmp_path / "text.nc").write_text("no result")
    assert "a result saved by to_netcdf" in refused(str(tmp_path / "text.nc"), "-o", output)
    other = tmp_path / "other.zarr"
    xr.Dataset({"a": 1}, attrs={"provenance": "x"}).to_zarr(other, zarr_format=2)
    assert f"{other}: must hold peak_fraction" in refused(str(other), "-o", output)
    shutil.rmtree(other)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert "pip install 'warpsim[report]'" in refused(str(store), "-o", output)
    assert not (tmp_path / "page.html").exists()


def test_a_selection_is_reported(store, tmp_path):
    arguments = ["--where", "gpu=kepler", "--where", "warps=4,48"]
    assert cli.main(["report", str(store), *arguments, "-o", str(tmp_path / "page.html")]) == 0
    data = page_data((tmp_path / "page.html").read_text())
    assert data["axes"] == ["alpha", "warps", "scheduler"]
    assert data["dims"]["warps"]["values"] == [4, 48]


def test_one_class_is_reported_and_shares_are_of_all_states(store, tmp_path, capsys):
    """A selection of states or slots would make shares of those that are left."""
    page = tmp_path / "page.html"
    assert cli.main(["report", str(store), "--where", "alpha=8", "--where", "op=alu", "-o", str(page)]) == 0
    whole = tmp_path / "whole.html"
    assert cli.main(["report", str(store), "--where", "alpha=8", "-o", str(whole)]) == 0
    one, every = (page_data(path.read_text())["variables"]["ipc"] for path in (page, whole))
    classes = len(every["indices"]["op"])
    assert one["mean"] == every["mean"][::classes] and one["model"] == every["model"][::classes]
    for selected, what in (("state=wait", "state"), ("slot=idle,busy", "slot")):
        assert cli.main(["report", str(store), "--where", selected, "-o", str(tmp_path / "no.html")]) == 2
        assert f"{what}: must be left as it is, since all {what}s together are" in capsys.readouterr().err
