"""Files that appear complete or not at all; the command line refuses those that cannot be written before the work."""

import errno
import os
from pathlib import Path

import pytest

from warpsim import cli
from warpsim.analysis import comparison as side_by_side
from warpsim.cli import experiment, plot
from warpsim.simulation import api as simulation
from warpsim.views.drafts import draft

LONG = "a" * 300
"""Longer than a file's name may be."""

TRACE = "trace --gpu kepler --kernel vector_add --warps 16 --blocks 8 --sms 1".split()
COMPARE = "compare --gpu kepler --kernel mix --warps 4 --cycles 400 --sms 1".split()
REPORT = "report --gpu kepler --kernel mix --cycles 400 --sms 1".split()


def test_a_file_is_whole_or_as_it_was(tmp_path):
    file = tmp_path / "file.txt"
    file.write_text("before")
    with pytest.raises(OSError, match="full"), draft(file) as name:
        Path(name).write_text("a part")
        raise OSError(errno.ENOSPC, "full")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file.txt": "before"}
    with draft(file) as name:
        Path(name).write_text("after")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file.txt": "after"}


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "elsewhere" / "file.txt")
    with draft(link) as name:
        Path(name).write_text("text")
    assert link.is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file.txt"]


@pytest.fixture
def no_work(monkeypatch):
    """Whatever would take long is not there."""
    for module, name in ((side_by_side, "compare"), (simulation, "simulate"), (plot, "opened"), (experiment, "importlib")):
        monkeypatch.setattr(module, name, None)


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        (["plot", "out.zarr"], "-o", f"{LONG}.png"),
        (["plot", "out.zarr"], "-o", f"{LONG}/a.png"),
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


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder in which nobody can make a file")
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
def test_a_folder_in_which_no_file_can_be_made(capsys, arguments):
    assert cli.main(arguments) == 2
    assert "cannot be written: " in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_a_full_disk_is_no_wrong_request(tmp_path, monkeypatch, capsys):
    def full(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    assert cli.main(["plot", "out.zarr", "-o", str(tmp_path / "a.png")]) == 1
    assert "No space left on device" in capsys.readouterr().err


def test_a_picture_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch, capsys):
    def full(self, name, **_):
        Path(name).write_text("a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    assert cli.main([*COMPARE, "-o", str(tmp_path / "a.png")]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
