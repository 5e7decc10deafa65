"""The array script, run task by task as by Slurm, and the calls of Slurm's commands. test_slurm_node.py uses a real Slurm."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.small_plans import LONG_TOML, small_plan
from tests.support.stores import stored_data
from warpsim import cli
from warpsim.store.place import place_of
from warpsim.store.status import tile_counts, tile_records
from warpsim.store.writing import mark_failed
from warpsim.store.zarr_store import open_store, pending_tiles
from warpsim.sweeps import array_jobs, slurm
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

ALL = len(small_plan().tiles())

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Makes commands of Slurm that write down their arguments and standard input, and print what they are told to."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name, output="", code=0, error=""):
        file = folder / name
        file.write_text(
            f"#!/bin/bash\necho \"$@\" >>{folder}/{name}.asked\n[ {name} = sbatch ] && cat >{folder}/{name}.in\n"
            f"cat <<'END'\n{output}\nEND\necho '{error}' >&2\nexit {code}\n"
        )
        file.chmod(0o755)
        return folder / f"{name}.asked", folder / f"{name}.in"

    return make


def task(script, number, **environment):
    return subprocess.Popen(
        ["bash", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_JOB_ID": "7", **environment},
        cwd=script.parent,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("tiles", "text"), [([4], "4"), ([0, 1, 2, 12, 14, 15], "0-2,12,14-15"), ([3, 1], "1,3"), (range(1000), "0-999")]
)
def test_lists_of_tiles(tiles, text):
    assert f"<<'TILES' &\n{text}\nTILES\n" in slurm.array_script(Path("plan.toml"), "out.zarr", tiles)
    assert array_jobs.parse_tiles(f"{text}\n") == sorted(tiles)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "-1"])
def test_lists_that_are_none(text):
    with pytest.raises(ValueError, match="must be numbers and ranges, such as 0-9,12"):
        array_jobs.parse_tiles(text)


def test_the_tasks_of_the_script_do_the_tiles_that_are_not_done(plan, scratch, tmp_path, capsys):
    out, whole, script = tmp_path / "out.zarr", tmp_path / "whole.zarr", tmp_path / "a.sh"
    sweep(small_plan(), whole)
    sweep(small_plan(), out, tiles=[0])
    store = open_store(out)
    mark_failed(store, 2, "broken")
    first = tile_records(store.log)["done"][0]
    assert cli.main(["slurm", str(plan), str(out), "--dry-run", "--tasks", "2", "--sbatch=--partition=short"]) == 0
    script.write_text(capsys.readouterr().out)
    assert "#SBATCH --array=1-2\n" in script.read_text()
    assert "#SBATCH --partition=short\n" in script.read_text()
    assert f"<<'TILES' &\n1-{ALL - 1}\nTILES\n" in script.read_text()
    for number in (1, 2):
        ran = task(script, number, SCRATCH=str(scratch))
        assert ran.wait() == 0, ran.stderr.read()
    assert pending_tiles(store) == []
    assert tile_records(store.log)["done"][0] == first
    assert stored_data(out) == stored_data(whole)
    assert cli.main(["slurm", str(plan), str(out)]) == 0
    assert capsys.readouterr().out.startswith("nothing to submit")


def test_each_tile_is_with_one_task(plan, tmp_path):
    tiles = [0, 2, 3, 4, 7, 11]
    script = slurm.array_script(plan, "s3://bucket/a b.zarr", tiles, tasks=4)
    assert array_jobs.shares_of(script) == [(0, 7), (2, 11), (3,), (4,)]
    assert "sweep " + str(plan) + " 's3://bucket/a b.zarr' --workers 1 --share \"$SLURM_ARRAY_TASK_ID/4\"" in script
    assert "--job-name=warpsim-a_b\n" in script
    assert array_jobs.shares_of(slurm.array_script(plan, "x.zarr", [5], tasks=100)) == [(5,)]


def test_a_signal_stops_the_task_and_queues_it_again(tmp_path, scratch, commands):
    plan, out, script = tmp_path / "plan.toml", tmp_path / "out.zarr", tmp_path / "a.sh"
    plan.write_text(LONG_TOML)
    asked, _ = commands("scontrol")
    tiles = Plan.from_toml(plan).tiles()
    script.write_text(slurm.array_script(plan, str(out), tiles, tasks=1, scratch=str(scratch)))
    for restarts, requeued in ((0, "requeue 7_1\n"), (slurm.REQUEUES, "")):
        asked.write_text("")
        before = tile_counts(open_store(out).log).done if out.exists() else 0
        running = task(script, 1, SLURM_RESTART_COUNT=str(restarts))
        while not (out.exists() and tile_counts(open_store(out, read_only=True).log).done > before):
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.02)
        running.send_signal(signal.SIGUSR1)
        assert running.wait() == 1
        assert "interrupted; run the same command again to continue" in running.stderr.read()
        assert asked.read_text() == requeued
        assert before < tile_counts(open_store(out).log).done < len(tiles)


def test_submitting_and_what_the_queue_says(plan, tmp_path, commands, capsys):
    out = tmp_path / "out.zarr"
    asked, submitted = commands("sbatch", "31;cluster")
    commands("squeue", "")
    assert cli.main(["slurm", str(plan), str(out), "--tasks", "2"]) == 0
    assert f"job 31: {ALL} tiles in 2 tasks; script and logs in {tmp_path}/out.slurm" in capsys.readouterr().out
    assert asked.read_text() == "--parsable\n"
    assert (tmp_path / "out.slurm/31.sh").read_text() == submitted.read_text()
    commands("squeue", "31|1|RUNNING|node5\n29|1|RUNNING|node6")  # 29 is another store's
    theirs = tuple(range(0, ALL, 2))
    assert [(task.state, task.node, task.tiles) for task in array_jobs.tasks(out)] == [("running", "node5", theirs)]
    sweep(small_plan(), out, tiles=[0])
    cli.main(["status", str(out)])
    shown = capsys.readouterr().out.splitlines()
    assert f"Slurm job 31: tasks 1 running on node5; {len(theirs) - 1} of the {ALL - 1} unfinished tiles" in shown
    assert f"{ALL // 2} of the {ALL - 1} unfinished tiles are not assigned to a task" in shown
    assert slurm.tiles_to_do(small_plan(), out, create=True) == [*range(1, ALL, 2)]  # 2 is with the task that runs
    assert cli.main(["slurm", str(plan), str(out), "--extend"]) == 2
    assert "extend: tasks of job 31 are waiting or running for this store" in capsys.readouterr().err
    larger = tmp_path / "larger.toml"
    larger.write_text(plan.read_text().replace("replicates = 2", "replicates = 3"))
    for queue, code, message in [
        ("31|2|PENDING|", 2, "extend: tasks of job 31 are waiting or running for this store; let them end, or scancel them"),
        (None, 1, "squeue: Unable to contact slurm controller"),
    ]:
        commands("squeue", queue or "", int(queue is None), "Unable to contact slurm controller")
        before = stored_data(out)
        assert cli.main(["sweep", str(larger), str(out), "--extend"]) == code
        assert message in capsys.readouterr().err
        assert stored_data(out) == before
    commands("squeue", "", 1, "slurm_load_jobs error: Unable to contact slurm controller")
    assert cli.main(["status", str(out)]) == 0
    assert "Slurm does not answer: squeue: slurm_load_jobs error: Unable to contact" in capsys.readouterr().out
    assert cli.main(["slurm", str(plan), str(out)]) == 1


@pytest.mark.parametrize("script", [b"", b"\xff", b"#SBATCH --array=1-2\n<<'TILES' &\n0-x\nTILES\n", None])
def test_a_damaged_script_is_named(plan, tmp_path, commands, script, capsys):
    out = tmp_path / "out.zarr"
    commands("sbatch", "31")
    commands("squeue", "")
    assert cli.main(["slurm", str(plan), str(out), "--tasks", "2"]) == 0
    if script is not None:
        (tmp_path / "out.slurm/31.sh").write_bytes(script)
    commands("squeue", f"31|{1 if script is not None else 3}|RUNNING|node5")
    capsys.readouterr()
    assert cli.main(["slurm", str(plan), str(out)]) == 1
    assert f"{tmp_path}/out.slurm/31.sh: is damaged" in capsys.readouterr().err


def test_nothing_is_submitted_of_which_the_script_cannot_be_kept(plan, tmp_path, commands, capsys, monkeypatch):
    asked, _ = commands("sbatch", "31")
    commands("squeue", "")
    write = Path.write_text

    def full_disk(file, *given, **options):
        if file.parent.suffix == ".slurm":
            raise OSError(28, "No space left on device", str(file))
        return write(file, *given, **options)

    monkeypatch.setattr(Path, "write_text", full_disk)
    assert cli.main(["slurm", str(plan), str(tmp_path / "out.zarr")]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert not asked.exists() and list((tmp_path / "out.slurm").iterdir()) == []


def test_what_sbatch_refuses_is_said(plan, tmp_path, commands, capsys, monkeypatch):
    out = tmp_path / "out.zarr"
    commands("sbatch", "", 1, "sbatch: error: invalid partition specified: short")
    assert cli.main(["slurm", str(plan), str(out)]) == 1
    kept = f"nothing was submitted; the store {out} is kept, and the same command will use it"
    assert capsys.readouterr().err == f"warpsim: sbatch: error: invalid partition specified: short\n{kept}\n"
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "")
    assert cli.main(["slurm", str(plan), str(out)]) == 1
    assert f"sbatch: not found; Slurm is not installed on this machine\n{kept}" in capsys.readouterr().err
    monkeypatch.setenv("PATH", path)
    commands("sbatch", "31")
    assert cli.main(["slurm", str(plan), str(out)]) == 0
    assert f"job 31: {ALL} tiles in" in capsys.readouterr().out


def test_a_dry_run_makes_nothing(plan, tmp_path, capsys):
    assert cli.main(["slurm", str(plan), str(tmp_path / "out.zarr"), "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(f"#!/bin/bash\n#SBATCH --job-name=warpsim-out\n#SBATCH --array=1-{ALL}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks", "0"], "tasks = 0: must be an integer from 1"),
        (["--extend"], "a dry run changes nothing"),
        (["--workers", "0"], "workers = 0: must be an integer from 1"),
        (["--time", "soon"], "time = 'soon': must be a time limit of Slurm"),
        (["--time", "-5"], "time = '-5': must be a time limit of Slurm"),
        (["--sbatch", "partition=short"], "options: 'partition=short' must be an option of sbatch"),
    ],
)
def test_wrong_requests(plan, tmp_path, options, message, capsys):
    assert cli.main(["slurm", str(plan), str(tmp_path / "out.zarr"), "--dry-run", *options]) == 2
    assert message in capsys.readouterr().err


def test_without_slurm_no_store_is_created(plan, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert cli.main(["slurm", str(plan), str(tmp_path / "out.zarr")]) == 1
    assert "sbatch: not found" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


EVIL = "x\nscancel --user root\n.zarr"


@pytest.mark.parametrize(
    "changes",
    [
        {"path": EVIL},
        {"path": f"s3://bucket/{EVIL}"},
        {"plan": Path(EVIL)},
        {"scratch": EVIL},
        {"setup": ["module load a", EVIL]},
        {"options": ["--partition=a\r\n"]},
    ],
    ids=str,
)
def test_newlines_are_refused(plan, changes):
    with pytest.raises(ValueError, match="must be one line of printable characters, because a job script contains it"):
        slurm.array_script(**{"plan": plan, "path": "out.zarr", "tiles": [0], **changes})


def test_strange_paths_are_quoted(tmp_path):
    """bash runs the script with a python that prints its arguments: no part of a path is read as a command."""
    folder = tmp_path / "it's $(touch evil) `touch evil` \"; touch evil; \\ %j #"
    folder.mkdir()
    plan, out, scratch = folder / "-plan.toml", folder / "out.zarr", str(folder / "scratch")
    plan.write_text("")
    script = slurm.array_script(plan, str(out), [0, 1], scratch=scratch, setup=["python() { printf '%s\\n' \"$@\"; }"])
    script = script.replace(f"\n{sys.executable} -m", "\npython -m").replace(f"source {sys.prefix}", ": ")
    environment = {"SLURM_ARRAY_TASK_ID": "1", "PATH": os.environ["PATH"]}
    ran = subprocess.run(["bash"], input=script, text=True, check=True, capture_output=True, cwd=tmp_path, env=environment)
    assert ran.stdout.splitlines()[2:5] == ["sweep", str(plan), str(out)]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    (log,) = (line for line in script.splitlines() if line.startswith("#SBATCH --output="))
    quoted = str(folder / "out.slurm").replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    assert log == f'#SBATCH --output="{quoted}/%A_%a.log"'


@pytest.mark.parametrize("out", ["~/out.zarr", "file://{home}/out.zarr"])
def test_the_tasks_write_to_the_store_that_was_created(plan, tmp_path, monkeypatch, out):
    """A path in the home of the user, or a URL of a folder, is the same place for the command and for the script."""
    monkeypatch.setenv("HOME", str(tmp_path))
    out = out.format(home=tmp_path)
    script = slurm.array_script(plan, out, [0])
    assert f" sweep {plan} {place_of(out).root} --workers" in script
    assert array_jobs.folder_of(out) == tmp_path / "out.slurm"


def test_the_set_up(plan, monkeypatch):
    assert '\nexport NUMBA_CACHE_DIR="${SCRATCH:-${TMPDIR:-/tmp}}"/warpsim-' in slurm.array_script(plan, "x.zarr", [0])
    first = 'module load python\necho "it\'s"'
    script = slurm.array_script(plan, "x.zarr", [0], setup=first.splitlines())
    lines = script.splitlines()
    start = lines.index("module load python")
    assert lines[start + 1] == 'echo "it\'s"'
    if sys.prefix != sys.base_prefix:
        assert lines[start + 2] == f"source {sys.prefix}/bin/activate"
        assert "\npython -m warpsim.cli sweep " in script
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert f"\n{sys.executable} -m warpsim.cli sweep " in slurm.array_script(plan, "x.zarr", [0])
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
