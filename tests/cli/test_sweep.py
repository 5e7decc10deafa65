"""The commands that create and read a store."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.small_plans import PLAN_TOML, at_a_terminal, small_plan
from warpsim import cli
from warpsim.store.status import tile_counts
from warpsim.store.zarr_store import open_results, open_store, pending_tiles
from warpsim.sweeps import tile

ROOT = Path(cli.__file__).resolve().parents[2]


def test_sweep_status_and_plot(plan, tmp_path, capsys):
    out = tmp_path / "out.zarr"
    assert cli.main(["sweep", str(plan), str(out), "--workers", "2", "--share", "1/2"]) == 0
    capsys.readouterr()
    assert cli.main(["status", str(out)]) == 0
    tiles, counts, left = capsys.readouterr().out.splitlines()
    assert tiles == f"{len(small_plan().tiles())} tiles of 24 points"
    assert re.fullmatch(r"done [1-9]\d*, pending [1-9]\d*, failed 0", counts)
    assert left.startswith("time left: about ")

    assert cli.main(["sweep", str(plan), str(out)]) == 0
    assert pending_tiles(open_store(out)) == []
    assert "24 of 24 points" in capsys.readouterr().err
    assert cli.main(["status", str(out)]) == 0
    assert f"done {len(small_plan().tiles())}, pending 0, failed 0" in capsys.readouterr().out

    figure = tmp_path / "figure.png"
    where = ["--where", "gpu=kepler", "--where", "op=alu"]
    request = ["--x", "warps", "--y", "ipc", "--hue", "alpha", "--where", "scheduler=gto", "-o", str(figure)]
    assert cli.main(["plot", str(out), *where, *request]) == 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_plot_says_what_is_left_to_choose(plan, tmp_path, capsys):
    out = tmp_path / "out.zarr"
    cli.main(["sweep", str(plan), str(out)])
    capsys.readouterr()
    wrong = {
        ("-o", "figure.png"): "select one value of gpu (g80, kepler); alpha (1, 8)",
        ("--where", "gpu=kepler", "--y", "ipcs", "-o", "figure.png"): "y = 'ipcs': must be",
        ("--where", "gpu=fermi", "-o", "figure.png"): "gpu = 'fermi': must be one of g80, kepler",
        ("--where", "gpu=kepler", "--where", "alpha=1", "-o", "figure.txt"): "must end in one of .",
    }
    for arguments, message in wrong.items():
        assert cli.main(["plot", str(out), *arguments]) == 2
        assert message in capsys.readouterr().err


def test_failed_tiles_are_shown_and_the_exit_code_is_1(plan, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out.zarr"
    real = tile.simulate_point

    def broken(point, **options):
        if point.gpu.name == "kepler":
            raise RuntimeError("broken on purpose")
        return real(point, **options)

    with monkeypatch.context() as patch:
        patch.setattr(tile, "simulate_point", broken)
        assert cli.main(["sweep", str(plan), str(out)]) == 1
    message = capsys.readouterr().err
    assert "tiles failed; all others are done" in message and "gpu=kepler, alpha=" in message
    assert cli.main(["status", str(out)]) == 0
    assert "RuntimeError: broken on purpose" in capsys.readouterr().out
    assert cli.main(["sweep", str(plan), str(out)]) == 0
    assert not tile_counts(open_store(out).log).failures


def test_a_store_of_another_plan_is_refused(plan, tmp_path, capsys):
    out = tmp_path / "out.zarr"
    assert cli.main(["sweep", str(plan), str(out)]) == 0
    before = open_results(out).load()
    plan.write_text(PLAN_TOML.replace("400", "500"))
    capsys.readouterr()
    assert cli.main(["sweep", str(plan), str(out)]) == 2
    assert "settings.cycles: 500 here, 400 in the store" in capsys.readouterr().err
    assert open_results(out).load().equals(before)


def test_where_a_store_cannot_be_made(plan, tmp_path, capsys):
    file = tmp_path / "notes.txt"
    file.write_text("kept")
    assert cli.main(["sweep", str(plan), str(file / "out.zarr")]) == 2
    assert capsys.readouterr().err.startswith(f"warpsim: {file}/out.zarr: no store can be created there")
    assert file.read_text() == "kept" and list(tmp_path.iterdir()) == [plan, file]


@pytest.mark.parametrize("name", ["cycles", "warmup"])
def test_more_cycles_than_can_be_counted(plan, tmp_path, capsys, name):
    assert cli.main(["simulate", "--gpu", "kepler", "--kernel", "mix", f"--{name}", "9" * 19]) == 2
    assert re.search(rf"{name} = 9{{19}}: must be an integer from \d to 1000000000000$", capsys.readouterr().err)
    plan.write_text(re.sub(rf"{name} = \d+", f"{name} = {'9' * 19}", PLAN_TOML))
    assert cli.main(["sweep", str(plan), str(tmp_path / "out.zarr")]) == 2
    assert re.search(rf"{name} = 9{{19}}: must be an integer from \d to 1000000000000$", capsys.readouterr().err)


def test_tiles_that_there_are_not(plan, tmp_path, capsys):
    assert cli.main(["sweep", str(plan), str(tmp_path / "out.zarr"), "--tiles", "0-999999999999"]) == 2
    assert re.search(r"tiles 0-999999999999: must be from 0 to \d+$", capsys.readouterr().err)
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("line", ["derived = 3", "tile_shape = [3]"])
def test_what_only_the_record_of_a_plan_holds_is_not_a_setting(plan, tmp_path, capsys, line):
    plan.write_text(f"{line}\n{PLAN_TOML}")
    assert cli.main(["sweep", str(plan), str(tmp_path / "out.zarr")]) == 2
    assert f"{line.split()[0]} = " in capsys.readouterr().err


@pytest.mark.parametrize("share", ["0/2", "3/2", "1", "a/b", "1/2/3"])
def test_wrong_shares(plan, tmp_path, capsys, share):
    assert cli.main(["sweep", str(plan), str(tmp_path / "out.zarr"), "--share", share]) == 2
    assert f"--share {share}: must be K/N" in capsys.readouterr().err
    assert not (tmp_path / "out.zarr").exists()


def test_tile_is_the_name_of_share_in_older_job_scripts(plan, tmp_path, capsys):
    stores = tmp_path / "share.zarr", tmp_path / "tile.zarr"
    for option, out in zip(("--share", "--tile"), stores, strict=True):
        assert cli.main(["sweep", str(plan), str(out), option, "2/3"]) == 0
    assert pending_tiles(open_store(stores[0])) == pending_tiles(open_store(stores[1]))
    with pytest.raises(SystemExit):
        cli.main(["sweep", "--help"])
    assert "--tile " not in capsys.readouterr().out


def test_share_under_two_names_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as done:
        cli.main(["sweep", "plan.toml", str(tmp_path / "out.zarr"), "--share", "1/3", "--tile", "2/3"])
    assert done.value.code == 2
    assert "--tile: not allowed with argument --share" in capsys.readouterr().err


def test_ctrl_c_leaves_a_store_that_goes_on(tmp_path):
    file, out = tmp_path / "plan.toml", tmp_path / "out.zarr"
    file.write_text(PLAN_TOML.replace("alpha = [1, 8]", f"alpha = {[*range(1, 41)]}").replace("400", "200000"))
    command = [sys.executable, "-m", "warpsim.cli", "sweep", str(file), str(out), "--workers", "2"]
    running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=at_a_terminal)
    while running.poll() is None and not (out.exists() and tile_counts(open_store(out, read_only=True).log).done >= 2):
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 1
    assert "interrupted; run the same command again to continue" in errors
    assert "Traceback" not in errors
    left = tile_counts(open_store(out).log)
    assert 0 < left.pending and 2 <= left.done
    assert not left.failures
