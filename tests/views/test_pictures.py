"""Every picture of docs/pictures.md, drawn by its command and compared with the image on that page."""

import re
import shlex

import numpy as np
import pytest
import xarray as xr

from tests.support import pictures
from warpsim import cli
from warpsim.cli import plot
from warpsim.views.plots import KINDS
from warpsim.views.plots.style import SETTINGS

PAGE = pictures.PAGE.read_text(encoding="utf-8")
COMMANDS = {kind: command for command, kind in re.findall(r"^(warpsim plot .*--kind (\S+).*)", PAGE, re.M) if kind != "KIND"}

TOLERANCE = 1.5
"""Root mean square difference of two images, from 0 to 255. A curve that is not there makes 2 to 26, a box 4, a single number in
a heat map 1.8. The images were drawn by matplotlib 3.11 with the fonts and the FreeType that it brings."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    pictures.kept().to_netcdf(folder / "example.zarr", engine="scipy")
    xr.load_dataset(pictures.RUN, engine="scipy").to_netcdf(folder / "run.zarr", engine="scipy")
    return folder


def draw(command, stores):
    _, *words = shlex.split(command)
    words = [str(stores / word) if word.endswith(".zarr") else word for word in words]
    return plot.picture(cli._parser().parse_args(words))


def compared(kind):
    settings = {"baseline_dir": "../../docs/pictures", "filename": f"{kind}.png", "tolerance": TOLERANCE, "style": SETTINGS}
    saved = {"dpi": 110, "metadata": {"Software": None}, "pil_kwargs": {"optimize": True}}
    return pytest.param(kind, marks=pytest.mark.mpl_image_compare(**settings, savefig_kwargs=saved), id=kind)


@pytest.mark.parametrize("kind", [compared(kind) for kind in COMMANDS])
def test_picture(kind, stores, capsys):
    figure = draw(COMMANDS[kind], stores)
    assert capsys.readouterr().err == ""
    return figure


def test_the_page_has_every_kind_and_its_image():
    assert list(COMMANDS) == re.findall(r"^## (.*)", PAGE, re.M)
    assert sorted(COMMANDS) == sorted(KINDS)
    for kind, command in COMMANDS.items():
        assert command.endswith(f" -o {kind}.png")
        assert f"![{kind}](pictures/{kind}.png)" in PAGE
    images = list((pictures.ROOT / "docs" / "pictures").glob("*.png"))
    assert {image.stem for image in images} == set(KINDS)
    assert sum(image.stat().st_size for image in images) < 400_000


def test_the_kept_data_are_what_the_simulator_gives():
    now, then = pictures.simulated(), pictures.kept()
    assert dict(now.sizes) == dict(then.sizes)
    for name in ("throughput", "bandwidth", "occupancy", "memory_latency", "peak_fraction"):
        np.testing.assert_allclose(now[name].mean("replicate"), then[name].mean("replicate"), rtol=0.1, err_msg=name)
    for dim in ("alpha", "warps"):
        np.testing.assert_array_equal(now[dim], then[dim])


def test_the_run_on_the_page_is_drawn_by_its_commands(tmp_path, monkeypatch):
    now, then = pictures.traced(tmp_path), xr.load_dataset(pictures.RUN, engine="scipy")
    assert set(now.variables) == set(then.variables)
    assert float(now["cycles"][0]) == pytest.approx(float(then["cycles"][0]), rel=0.1)
    monkeypatch.chdir(tmp_path)
    for kind in ("occupancy", "lifelines"):
        assert cli.main(shlex.split(COMMANDS[kind])[1:]) == 0
        assert (tmp_path / f"{kind}.png").is_file()
