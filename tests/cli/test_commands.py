"""The command line: output, exit codes, and errors without a traceback."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from warpsim import cli
from warpsim.analysis.advice import REPLICATES
from warpsim.arguments import DeadlockError
from warpsim.hardware.gpu import list_gpus, load_gpu
from warpsim.kernels import Instruction, Kernel, list_kernels, mix
from warpsim.simulation import api
from warpsim.simulation.api import simulate
from warpsim.simulation.point import from_provenance
from warpsim.views.plots import KINDS

ROOT = Path(cli.__file__).resolve().parents[2]

POINT = "simulate --gpu kepler --kernel mix --warps 8 --sms 1 --warmup 0 --cycles 400".split()


def warpsim(*arguments, **options):
    """Runs the command in its own process."""
    command = [sys.executable, "-m", "warpsim.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, **options)


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as done:
        cli.main(["--help"])
    assert done.value.code == 0
    output = capsys.readouterr().out
    names = [command.__name__.rpartition(".")[2].rstrip("_") for command in cli.COMMANDS]
    assert re.findall(r"^    (\w+)", output, re.MULTILINE) == names


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("advise", f"--replicates N number of replicates (default: {REPLICATES})"),
        ("compare", "--replicates N number of replicates (default: 4)"),
        ("simulate", "--replicates N number of replicates (default: 1)"),
        ("simulate", "--warmup N cycles before counting starts (default: derived from a pilot run)"),
        ("simulate", "--scheduler SCHEDULER scheduling policy: lrr (loose round robin; the default), gto (greedy, then"),
        ("simulate", "--memory MEMORY memory model: queue (default), fixed, measured"),
        ("trace", "--replicates N must be 1: a timeline shows one run"),
        ("trace", "upper limit on the memory of the trace, in bytes (default: 256 MiB)"),
        ("plot", f"kind of figure: {', '.join(KINDS)} (default: lines)"),
        (
            "experiment",
            "NAME one of core, cusp, hardware, hits, incore, intervals, kernels, memory_contention, occupancy, pipeline,",
        ),
        ("sweep", "PLAN.toml a plan; docs/sweeps.md describes the format"),
    ],
)
def test_the_help_of_a_command_states_its_defaults_and_names(capsys, command, text):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert text in " ".join(capsys.readouterr().out.split())


def test_gpus_is_a_table_of_all_chips(capsys):
    assert cli.main(["gpus"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["name", "chip"]
    assert sorted(row.split()[0] for row in rows) == sorted(list_gpus())
    assert any("GTX 680" in row and "2012" in row for row in rows)


def test_kernels_is_a_table_with_arguments(capsys):
    assert cli.main(["kernels"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == list_kernels()
    assert any("alpha=32" in row for row in rows)


def test_simulate_prints_a_summary(capsys):
    assert cli.main([*POINT, "--set", "alpha=2", "--scheduler", "gto"]) == 0
    output = capsys.readouterr().out
    assert "NVIDIA GeForce GTX 680: 2 adds and 1 load instructions" in output
    assert re.search(r"^ipc alu +[\d.]+ +instructions/cycle/SM$", output, re.MULTILINE)
    assert re.search(r"^memory latency, 95% quantile +[\d.]+ +cycles$", output, re.MULTILINE)
    shares = [float(share) for share in re.findall(r"^warp_cycles \w+ +([\d.e-]+) +%$", output, re.MULTILINE)]
    assert sum(shares) == pytest.approx(100.0, abs=0.01)
    assert "±" not in output


def test_cache_hits_on_a_chip_without_that_cache_are_a_wrong_request(tmp_path, capsys):
    file = tmp_path / "hits.toml"
    load = '{op = "load", dst = "r0", access = {pattern = "coalesced", l1_hit = 0.5}}'
    file.write_text(f'name = "hits"\ntitle = "hits"\nbody = [{load}]\n')
    assert cli.main(["simulate", "--gpu", "g80", "--kernel", str(file), "--warps", "4", "--sms", "1"]) == 2
    assert "access.l1_hit = 0.5: must be 0 on g80, whose file does not state memory.l1_latency_cycles" in capsys.readouterr().err


def test_simulate_runs_a_grid_to_its_end(capsys):
    grid = "simulate --gpu kepler --kernel vector_add --sms 1 --warps 8 --blocks 12".split()
    assert cli.main(grid) == 0
    output = capsys.readouterr().out
    assert "1 block of 8 warps per SM" in output or "8 blocks of 1 warp per SM" in output
    assert "\n1 SM, " in output
    assert "to the end of the grid" in output
    assert cli.main([*POINT, "--blocks", "4"]) == 2
    assert "endless loop" in capsys.readouterr().err
    few = "simulate --gpu kepler --kernel vector_add --sms 1 --blocks 9".split()
    assert cli.main(few) == 0
    captured = capsys.readouterr()
    assert "a grid of 9 blocks puts at most 2 on each of 8 SMs, where 16 would fit" in captured.err
    assert "occupancy_max" in captured.out
    assert cli.main([*grid, "--cycles", "100"]) == 2
    assert "--cycles: must be left out with --blocks" in capsys.readouterr().err


def test_simulate_with_replicates_prints_intervals(capsys):
    assert cli.main([*POINT, "--replicates", "4"]) == 0
    output = capsys.readouterr().out
    expected = simulate(load_gpu("kepler"), mix(alpha=32), warps=8, sms=1, warmup=0, cycles=400, replicates=4)
    mean = f"{float(expected['bandwidth'].mean()):.5g} ± "
    assert "means of 4 replicates ± half the width of their 95 % intervals" in output
    assert re.search(rf"^bandwidth +{re.escape(mean)}[\d.]+ +GB/s$", output, re.MULTILINE)


def test_simulate_as_json_can_be_run_again(capsys):
    assert cli.main([*POINT, "--set", "alpha=inf", "--json"]) == 0
    record = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    again = simulate(**from_provenance(json.dumps(record["provenance"])))
    assert record["ops"] == again["op"].values.tolist()
    assert record["variables"]["ipc"] == again["ipc"].values.tolist()
    assert record["variables"]["memory_latency"] == [None]
    assert np.isnan(again["memory_latency"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpu", "keppler"], "'keppler' is unknown, did you mean 'kepler'"),
        (["--kernel", "mixx"], "'mixx' is unknown, did you mean 'mix'"),
        (["--set", "alpha=3e5"], "alpha = 300000"),
        (["--set", "alpha"], "--set alpha: must be NAME=VALUE"),
        (["--set", "alpha=1", "--set", "alpha=2"], "alpha is set twice"),
        (["--set", "beta=1"], "beta = 1: unknown; kernel 'mix' takes alpha"),
        (["--warps", "65"], "warps = 65: must be an integer from 1 to 64 on kepler"),
        (["--replicates", "0"], "replicates = 0"),
        (["--scheduler", "gtoo"], "scheduler = 'gtoo'"),
        (["--memory", "ideal"], "memory = 'ideal'"),
    ],
)
def test_wrong_requests_are_reported_without_a_traceback(capsys, arguments, message):
    assert cli.main([*POINT, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("warpsim: ") and message in captured.err
    assert "Traceback" not in captured.err


def test_a_chip_file_with_errors_is_refused_with_all_of_them(capsys, tmp_path):
    good = (ROOT / "params/gpus/kepler.toml").read_text()
    bad = re.sub(
        r"^block_launch_cycles = \d+", "block_launch_cycles = -1\nturbo = 2", good, flags=re.MULTILINE
    )
    (tmp_path / "mine.toml").write_text(bad)
    assert cli.main([*POINT, "--gpu", str(tmp_path / "mine.toml")]) == 2
    message = capsys.readouterr().err
    assert "block_launch_cycles = -1: must be an integer from 0" in message
    assert "turbo = 2: unknown key" in message


def test_a_kernel_that_reads_an_unwritten_register_is_refused(capsys, tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\nbody = [{op = "alu", dst = "r1", src = ["r2"]}]\n')
    assert cli.main([*POINT, "--kernel", str(tmp_path / "mine.toml")]) == 2
    assert "'r2': alu reads a register that no earlier instruction writes" in capsys.readouterr().err


def test_a_deadlock_is_named(capsys, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nbody = [{then = [{op = "barrier"}], probability = 0.5}]\n'
    )
    assert cli.main([*POINT, "--kernel", str(tmp_path / "mine.toml"), "--block-warps", "4"]) == 2
    assert "deadlock: the barrier at body[0].then[0]" in capsys.readouterr().err


def test_a_deadlock_during_the_run_is_a_wrong_request(capsys, monkeypatch):
    def stuck(_, **options):
        raise DeadlockError("deadlock at cycle 7")

    monkeypatch.setattr("warpsim.simulation.api.simulate_point", stuck)
    assert cli.main(POINT) == 2
    assert "deadlock at cycle 7" in capsys.readouterr().err


def test_a_bug_is_not_reported_as_a_wrong_request(monkeypatch):
    def broken(_, **options):
        raise ValueError("a bug")

    monkeypatch.setattr("warpsim.simulation.api.simulate_point", broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(POINT)


@pytest.mark.parametrize(
    ("command", "function", "message"),
    [
        (POINT, "warpsim.simulation.api.simulate_point", "interrupted"),
        (["compare", *POINT[1:5]], "warpsim.analysis.comparison.compare", "interrupted"),
        (["status", "out.zarr"], "warpsim.store.zarr_store.open_store", "interrupted"),
        (["verify", "o.zarr"], "warpsim.sweeps.repair.verify", "interrupted"),
        (
            ["verify", "o.zarr", "--repair"],
            "warpsim.sweeps.repair.verify",
            "interrupted; the same command repairs what is still damaged, and warpsim sweep runs missing tiles",
        ),
        (
            ["sweep", "p.toml", "o.zarr"],
            "warpsim.sweeps.plan.Plan.from_toml",
            "interrupted; run the same command again to continue",
        ),
    ],
)
def test_only_a_command_that_continues_says_so(capsys, monkeypatch, command, function, message):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(function, stopped)
    assert cli.main(command) == 1
    assert capsys.readouterr().err == f"warpsim: {message}\n"


def test_an_interruption_while_the_options_are_read(capsys, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("warpsim.cli.make_parser", stopped)
    assert cli.main(["plot", "o.zarr"]) == 1
    assert capsys.readouterr().err == "warpsim: interrupted\n"


def test_unknown_commands_and_options_exit_with_2(capsys):
    for arguments in (["simulat"], ["simulate"], [*POINT, "--warps", "many"]):
        with pytest.raises(SystemExit) as done:
            cli.main(arguments)
        assert done.value.code == 2
    assert "usage: warpsim" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "none.toml", "out.zarr"], "warpsim: none.toml: No such file or directory\n"),
        (["status", "none.zarr"], "none.zarr: no such store"),
        (["plot", "none.zarr", "-o", "figure.png"], "none.zarr: no such store"),
    ],
)
def test_missing_files(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "simulate --gpu g80 --kernel mix", "advise --gpu g80 --kernel mix", "profile r.ncu-rep", "sweep p.toml o.zarr",
        "experiment cusp",
    ],
)
@pytest.mark.parametrize("workers", ["0", "-1", "two"])
def test_wrong_numbers_of_workers(capsys, command, workers):
    with pytest.raises(SystemExit) as done:
        cli.main([*command.split(), "--workers", workers])
    assert done.value.code == 2
    assert f"--workers: {workers}: must be an integer, at least 1" in capsys.readouterr().err


def test_no_number_depends_on_the_workers_of_simulate(capsys, monkeypatch):
    given = []
    real = api.simulate_point

    def simulate_point(point, threads, **options):
        given.append(threads)
        return real(point, threads=threads, **options)

    monkeypatch.setattr(api, "simulate_point", simulate_point)
    found = []
    for workers in ("1", "2", "7"):
        assert cli.main([*POINT, "--replicates", "3", "--workers", workers, "--json"]) == 0
        found.append(capsys.readouterr().out)
    assert given == [1, 2, 7]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--block-warps", "0"], "block_warps = 0: must be an integer from 1 to 32 on kepler"),
        (["--block-warps", "33"], "block_warps = 33: must be an integer from 1 to 32 on kepler"),
    ],
)
def test_wrong_blocks_of_a_grid(capsys, options, message):
    assert cli.main(["simulate", "--gpu", "kepler", "--kernel", "vector_add", "--blocks", "4", *options]) == 2
    assert capsys.readouterr().err == f"warpsim: {message}\n"


@pytest.mark.parametrize("output", ["none/figure.png", "folder.png", "figure", "figure.txt"])
def test_a_figure_that_cannot_be_written_is_refused(capsys, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    for command in (["plot", "none.zarr"], ["compare", "--gpu", "g80", "--kernel", "mix"]):
        assert cli.main([*command, "-o", output]) == 2
        assert capsys.readouterr().err.startswith(f"warpsim: -o {output}: must ")


def test_short_commands_import_nothing_heavy():
    code = (
        "import contextlib, sys\nfrom warpsim.cli import main\nmain(['gpus'])\nmain(['kernels'])\n"
        "with contextlib.suppress(SystemExit):\n    main(['--help'])\n"
        "heavy = {'numba', 'xarray', 'pandas', 'zarr', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_simulate_does_not_import_xarray():
    code = (
        f"import sys\nfrom warpsim.cli import main\nmain({POINT!r})\n"
        "heavy = {'xarray', 'pandas', 'zarr', 'matplotlib'} & set(sys.modules)\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_the_program_is_a_module_with_exit_codes():
    assert warpsim("gpus").returncode == 0
    done = warpsim(*POINT, "--warps", 65, env={**os.environ, "PYTHONWARNINGS": "error"})
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m warpsim.cli kernels | head -1 > /dev/null"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_kernels_need_not_have_a_title(tmp_path, capsys):
    kernel = Kernel(name="bare", inputs=("r1",), body=(Instruction("alu", dst="r1", src=("r1",)),))
    assert kernel.title == ""
    (tmp_path / "bare.toml").write_text(
        'name = "bare"\ninputs = ["r1"]\nbody = [{op = "alu", dst = "r1", src = ["r1"]}]\n'
    )
    assert cli.main([*POINT, "--kernel", str(tmp_path / "bare.toml")]) == 0
    assert "NVIDIA GeForce GTX 680: bare" in capsys.readouterr().out


def test_a_command_whose_output_is_closed(monkeypatch):
    """As that of a service may be."""
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["gpus"]) == 0


def test_a_command_whose_errors_are_closed(monkeypatch, capsys):
    """They are not mixed into the output."""
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["gpus", "no such chip"]) == 2
    assert not capsys.readouterr().out
