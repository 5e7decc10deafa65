"""Messages on standard error: notes, --quiet, --verbose, and clear refusals."""

import logging
import re

import pytest

import warpsim as ws
from warpsim import cli
from warpsim.cli.windows import warn_of_long_grids
from warpsim.simulation.point import make_point

POINT = "simulate --gpu KEPLER --kernel Mix --warps 4 --sms 1 --warmup 0 --cycles 40000 --scheduler GTO".split()
"""A window of more than twenty iterations of each warp, without the warning about short windows."""


def test_verbose_says_what_takes_how_long(capsys):
    assert cli.main([*POINT, "-v"]) == 0
    assert "kepler, mix, 4 blocks of 1 warps per SM" in capsys.readouterr().err
    assert cli.main(POINT) == 0
    assert capsys.readouterr().err == ""


def test_quiet_shows_results_but_no_progress(capsys, plan, tmp_path):
    assert cli.main(["sweep", str(plan), str(tmp_path / "a.zarr"), "-q"]) == 0
    short = "warpsim: 20 points: the window holds fewer than 20 iterations of a warp"
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(short) and err.count("\n") == 2
    assert "points: the throughput exceeds the chip's peak" in err  # its 400 cycles are counted from the begin on
    assert cli.main(["sweep", str(plan), str(tmp_path / "b.zarr")]) == 0
    assert "24 of 24 points" in capsys.readouterr().err
    assert cli.main([*POINT, "-q"]) == 0
    assert "peak_fraction" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "points"),
    [
        (["simulate"], ""),
        (["simulate", "--json"], ""),
        (["compare", "--warps", "4,8"], "2 points: "),
        (["advise", "--warps", "8"], r"\d+ points: "),
    ],
)
def test_short_windows_are_warned_of(capsys, command, points):
    short = "-q --gpu kepler --kernel mix --set alpha=8 --sms 1 --memory fixed --warmup 100 --cycles 1500 --replicates 2".split()
    assert cli.main([*command, *short]) == 0
    message = rf"warpsim: {points}the window holds fewer than 20 iterations of a warp, too few for a confidence interval"
    assert re.match(message, capsys.readouterr().err)


@pytest.mark.parametrize(("warmup", "warned"), [(["--warmup", "0"], True), ([], False)])
def test_throughput_beyond_the_peak_is_warned_of(capsys, warmup, warned):
    """The memory of a whole chip takes requests at first, whatever it can serve."""
    early = "simulate -q --gpu rtx4090 --kernel copy --sms 1 --cycles 20000".split()
    assert cli.main([*early, *warmup]) == 0
    assert ("the throughput exceeds the chip's peak" in capsys.readouterr().err) == warned


@pytest.mark.parametrize(("sms", "blocks", "warned"), [("2", 23, True), ("2", 24, False), (None, 23, False)])
def test_slices_of_short_grids_are_warned_of(capsys, sms, blocks, warned):
    """One block fits on an SM, so that 24 are 12 rounds on two SMs."""
    grid = f"simulate -q --gpu kepler --kernel vector_add --warps 4 --block-warps 4 --memory fixed --blocks {blocks}".split()
    assert cli.main([*grid, *(["--sms", sms] if sms else [])]) == 0
    assert ("fewer than 12 rounds of blocks" in capsys.readouterr().err) == warned


@pytest.mark.parametrize(("iterations", "warned"), [(10**9, False), (10**10, True)])
def test_grids_of_very_many_instructions_are_warned_of_before_they_run(caplog, iterations, warned):
    kernel = ws.kernels.chain("alu", iterations=iterations)
    point = make_point("maxwell", kernel, launch=ws.Launch(blocks=4, block_warps=1))
    with caplog.at_level("WARNING", logger="warpsim"):
        warn_of_long_grids(point)
    assert ("executes at least 4e+10 warp instructions" in caplog.text) == warned


def test_messages_are_those_of_logging(capsys):
    assert cli.main(POINT) == 0
    logging.getLogger("warpsim").info("a note")
    assert capsys.readouterr().err == "warpsim: a note\n"
    assert sum(type(handler).__name__ == "_Handler" for handler in logging.getLogger("warpsim").handlers) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*POINT, "--warps", "3.5"], "argument --warps: 3.5: must be an integer"),
        ([*POINT, "--gpu", "/tmp"], "/tmp is a folder; must be a name or a .toml file"),
        (["import", "my.py", "-o", "a.toml"], "my.py: must be my.py:NAME, with the name of a Triton function in that file"),
        (["import", "my.csv", "-o", "a.toml"], "my.csv: the export of a profiler has no machine code: give the report itself"),
        (["plot", "out.zarr", "-o", "a.gif"], "-o a.gif: must end in one of .pdf, .png, .svg"),
        (["compare", *POINT[1:5], "-o", "a.gif"], "-o a.gif: must end in one of .pdf, .png, .svg"),
    ],
)
def test_clear_refusals(capsys, arguments, message):
    try:
        code = cli.main(arguments)
    except SystemExit as stopped:  # argparse
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("package", "command"), [("plotly", "report"), ("perfetto", "trace")])
def test_a_missing_package_is_found_before_the_work(capsys, monkeypatch, tmp_path, package, command):
    import sys

    from warpsim.simulation import api

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(api, "simulate", None)  # a test that simulates fails
    output = tmp_path / ("a.html" if command == "report" else "a.pftrace")
    assert cli.main([command, *POINT[1:], "-o", str(output)]) == 2
    assert f"needs the package {package}: pip install 'warpsim[{command}]'" in capsys.readouterr().err


def test_a_command_says_each_warning_once(capsys):
    assert cli.main([*POINT, "-q"]) == 0
    for text in ("first", "first", "second", "first"):
        logging.getLogger("warpsim").warning(text)
    assert capsys.readouterr().err == "warpsim: first\nwarpsim: second\n"
    assert cli.main([*POINT, "-q"]) == 0
    logging.getLogger("warpsim").warning("first")
    assert capsys.readouterr().err == "warpsim: first\n"
