"""Output files: those that cannot be written are refused before the work starts."""

import errno
import os
from pathlib import Path

import pytest

from warpsim import cli
from warpsim.analysis import comparison
from warpsim.cli import experiment, plot
from warpsim.simulation import api

LONG = "a" * 300
"""Longer than the name of a file may be."""

TRACE = "trace --gpu kepler --kernel vector_add --warps 16 --blocks 8 --sms 1".split()
COMPARE = "compare --gpu kepler --kernel mix --warps 4 --cycles 400 --sms 1".split()
REPORT = "report --gpu kepler --kernel mix --cycles 400 --sms 1".split()


@pytest.fixture
def no_work(monkeypatch):
    """Removes the functions that do the work, so that a test fails if they are called."""
    for module, name in ((comparison, "compare"), (api, "simulate"), (plot, "opened"), (experiment, "importlib")):
        monkeypatch.setattr(module, name, None)


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        (["plot", "out.zarr"], "-o", f"{LONG}.png"),
        (["plot", "out.zarr"], "-o", f"{LONG}/a.png"),
        (["import", "a.cu", "-o", "a.toml"], "--listing", f"{LONG}.sass"),
        (REPORT, "-o", f"{LONG}.html"),
        (TRACE, "-o", f"{LONG}.pftrace"),
        (COMPARE, "-o", f"{LONG}.png"),
        (["experiment", "validation"], "--out", LONG),
        (["experiment", "validation"], "--out", f"file/{LONG}"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value[-4:],
)
@pytest.mark.usefixtures("no_work")
def test_an_output_that_cannot_be_written_is_a_wrong_request(tmp_path, monkeypatch, capsys, command, option, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert cli.main([*command, option, name]) == 2
    assert f"{option} {name}: cannot be written: " in capsys.readouterr().err
    assert os.listdir() == ["file"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that is never writable")
@pytest.mark.parametrize(
    "arguments",
    [
        ["plot", "out.zarr", "-o", "/proc/a.png"],
        ["experiment", "validation", "--out", "/proc"],
        ["experiment", "validation", "--out", "/proc/x"],
        [*TRACE, "-o", "/proc/a.pftrace"],
    ],
)
@pytest.mark.usefixtures("no_work")
def test_a_folder_that_is_not_writable(capsys, arguments):
    assert cli.main(arguments) == 2
    assert "cannot be written: " in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_a_full_disk_is_no_wrong_request(tmp_path, monkeypatch, capsys):
    def full(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    assert cli.main(["plot", "out.zarr", "-o", str(tmp_path / "a.png")]) == 1
    assert "No space left on device" in capsys.readouterr().err


def test_a_figure_on_a_full_disk_leaves_no_file(tmp_path, monkeypatch, capsys):
    def full(self, name, **_):
        Path(name).write_text("incomplete")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    assert cli.main([*COMPARE, "-o", str(tmp_path / "a.png")]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
