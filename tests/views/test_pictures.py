"""The figures of docs/pictures.md: each is drawn by its command and compared with the image on that page."""

import re
import shlex

import numpy as np
import pytest
import xarray as xr

from tests.support import picture_data
from warpsim import cli
from warpsim.cli import plot
from warpsim.results.windows import short_windows
from warpsim.views.plots import KINDS
from warpsim.views.plots.style import SETTINGS

PAGE = picture_data.PAGE.read_text(encoding="utf-8")
COMMANDS = {kind: command for command, kind in re.findall(r"^(warpsim plot .*--kind (\S+).*)", PAGE, re.M) if kind != "KIND"}

TOLERANCE = 1.5
"""Root mean square difference of two images, from 0 to 255. A missing curve changes it by 2 to 26, a missing box by 4, a missing
number in a heat map by 1.8. The images were drawn by matplotlib 3.11 with its own fonts and FreeType."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    picture_data.stored_sweep().to_netcdf(folder / "example.zarr", engine="scipy")
    xr.load_dataset(picture_data.RUN, engine="scipy").to_netcdf(folder / "run.zarr", engine="scipy")
    return folder


def draw(command, stores):
    _, *words = shlex.split(command)
    words = [str(stores / word) if word.endswith(".zarr") else word for word in words]
    return plot.make_figure(cli.make_parser().parse_args(words))


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
    images = list((picture_data.ROOT / "docs" / "pictures").glob("*.png"))
    assert {image.stem for image in images} == set(KINDS)
    assert sum(image.stat().st_size for image in images) < 400_000


def test_the_stored_data_are_what_the_simulator_returns():
    now, then = picture_data.simulated_sweep(), picture_data.stored_sweep()
    assert dict(now.sizes) == dict(then.sizes)
    assert not short_windows(now).any() and not short_windows(then).any()
    for name in ("throughput", "bandwidth", "occupancy", "memory_latency", "peak_fraction"):
        np.testing.assert_allclose(now[name].mean("replicate"), then[name].mean("replicate"), rtol=0.1, err_msg=name)
    for dim in ("alpha", "warps"):
        np.testing.assert_array_equal(now[dim], then[dim])


def test_the_commands_on_the_page_draw_the_run_of_the_page(tmp_path, monkeypatch):
    now, then = picture_data.simulated_run(tmp_path), xr.load_dataset(picture_data.RUN, engine="scipy")
    assert set(now.variables) == set(then.variables)
    assert float(now["cycles"][0]) == pytest.approx(float(then["cycles"][0]), rel=0.1)
    monkeypatch.chdir(tmp_path)
    for kind in ("occupancy", "lifelines"):
        assert cli.main(shlex.split(COMMANDS[kind])[1:]) == 0
        assert (tmp_path / f"{kind}.png").is_file()
