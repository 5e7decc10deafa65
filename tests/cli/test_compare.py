"""warpsim compare: tables, figure and errors."""

import json
import re

import pytest

from warpsim import cli, models

SHORT = "--gpu kepler --kernel mix --set alpha=8 --sms 1 --warmup 500 --cycles 1000 --replicates 2".split()


def test_tables_and_figure(tmp_path, capsys):
    figure = tmp_path / "figure.svg"
    assert cli.main(["compare", *SHORT, "--warps", "4,64", "-o", str(figure)]) == 0
    output = capsys.readouterr().out
    assert figure.read_text().startswith("<?xml")
    assert "NVIDIA GeForce GTX 680: 8 adds and 1 load instructions" in output
    rows = re.findall(r"^(4|64) +[\d.]+ ± [\d.]+ +([-+\d ]+)$", output, re.MULTILINE)
    assert [warps for warps, _ in rows] == ["4", "64"]
    assert re.search(r"^[A-Z]  volkov +[\d.]+ +[-+]\d+ at (4|64) +latency 4, memory 64$", output, re.MULTILINE)
    assert re.search(r"^Not covered:\n  littles_law: mix: ", output, re.MULTILINE)
    for name in models.NAMES:
        assert name in output
    columns = len(re.search(r"^warps  simulation (.*)$", output, re.MULTILINE)[1].split())
    assert all(len(errors.split()) == columns for _, errors in rows)


def test_errors_that_round_to_0_have_no_sign(capsys):
    chain = "--gpu kepler --kernel add_chain --sms 1 --warmup 500 --cycles 5000 --replicates 2 --warps 4".split()
    assert cli.main(["compare", *chain]) == 0
    output = capsys.readouterr().out
    assert not re.search(r"[-+]0\b", output)
    assert re.search(r"^[A-Z]  volkov +0\.\d +0 at 4 ", output, re.MULTILINE)


def test_no_file_is_written_unless_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", *SHORT, "--warps", "4", "--json"]) == 0
    assert not list(tmp_path.iterdir())
    read = json.loads(capsys.readouterr().out)
    assert read["variables"]["error"]["dims"] == ["model", "warps"]
    assert "littles_law" in read["not_covered"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpu", "voodoo"], "'voodoo' is unknown"),
        (["--set", "beta=1"], "beta = 1: unknown"),
        (["--warps", "4;8"], "--warps 4;8: must be integers separated by commas"),
        (["--warps", "8,4"], "ascending"),
        (["--warps", "8,0"], "warps = 0: must be an integer from 1 to 64 on kepler"),
        (["--warps", "99"], "warps = 99"),
        (["--op", "tensor"], "op = 'tensor': must be one of alu, load"),
        (["--scheduler", "fifo"], "scheduler = 'fifo'"),
        (["--scheduler", "lr"], "did you mean 'lrr'?"),
        (["-o", "figure.txt"], "-o figure.txt: must end in one of"),
        (["--replicates", "0"], "replicates = 0"),
        (["--warmup", "100", "--cycles", "10", "--warps", "4"], "cycles = 10: must be larger"),
    ],
)
def test_wrong_requests(options, message, capsys):
    assert cli.main(["compare", *SHORT, *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out
