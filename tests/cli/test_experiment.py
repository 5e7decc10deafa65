"""warpsim experiment."""

import json
import sys

import pytest

from warpsim import cli
from warpsim.cli import experiment


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    folder = tmp_path / "experiments" / "tiny"
    folder.mkdir(parents=True)
    (folder / "own_helper.py").write_text("WORD = 'found'\n")
    (folder.parent / "_shared_helper.py").write_text("NUMBER = 7\n")
    (folder / "run.py").write_text(
        "from _shared_helper import NUMBER\n"
        "from own_helper import WORD\n"
        "def main(out, *, full, workers):\n"
        "    out.mkdir(parents=True, exist_ok=True)\n"
        "    (out / 'table.txt').write_text(f'{WORD} {NUMBER} {full} {workers}')\n"
        "    return 0\n"
    )
    monkeypatch.setattr(experiment, "experiments_dir", lambda: folder.parent)
    return folder


def test_an_experiment_is_run(experiments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["experiment", "tiny", "--workers", "3"]) == 0
    assert (tmp_path / "results/tiny/table.txt").read_text() == "found 7 False 3"
    assert cli.main(["experiment", "tiny", "--full", "--out", "elsewhere", "--workers", "1"]) == 0
    assert (tmp_path / "elsewhere/table.txt").read_text() == "found 7 True 1"
    assert not {str(experiments), str(experiments.parent)} & set(sys.path)


def test_the_files_of_an_experiment_as_json(experiments, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    script, more = experiments / "run.py", "    (out / 'a.zarr').mkdir()\n    print('a table')\n    return 0\n"
    script.write_text(script.read_text().replace("    return 0\n", more))
    assert cli.main(["experiment", "tiny", "--out", str(out), "--workers", "1", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "experiment": "tiny", "full": False, "folder": str(out), "files": ["a.zarr", "table.txt"], "complete": True
    }  # fmt: skip
    assert "a table" in printed.err


def test_an_experiment_does_not_overwrite_a_folder(experiments, tmp_path, capsys):
    (experiments / "run.py").write_text(
        "import warpsim as ws\n"
        "def main(out, *, full, workers):\n"
        "    ws.sweep(ws.Plan(gpu='kepler', kernel='mix', warps=4, sms=1, warmup=0, cycles=400), out / 'a.zarr')\n"
        "    return 0\n"
    )
    (tmp_path / "a.zarr").mkdir()
    assert cli.main(["experiment", "tiny", "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "exists, but is not a warpsim store; it was not changed" in message and "--out DIR" in message


def test_an_experiment_needs_a_folder(experiments, tmp_path, capsys):
    file = tmp_path / "notes.txt"
    file.write_text("kept")
    assert cli.main(["experiment", "tiny", "--out", str(file)]) == 2
    assert f"--out {file}: must be a folder" in capsys.readouterr().err
    assert file.read_text() == "kept"


def test_an_unknown_experiment_is_refused(experiments, capsys):
    assert cli.main(["experiment", "tinny"]) == 2
    assert "experiment 'tinny': must be one of tiny" in capsys.readouterr().err
