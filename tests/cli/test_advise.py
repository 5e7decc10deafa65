"""warpsim advise: output and exit codes."""

from __future__ import annotations

import re

import pytest

from warpsim import cli

POINT = "advise --gpu fermi --kernel mix --set alpha=8 --warps 4 --sms 1 --warmup 500 --cycles 2000 --workers 1".split()


def test_output(capsys):
    assert cli.main([*POINT, "--replicates", "2", "--memory", "fixed"]) == 0
    output = capsys.readouterr().out
    assert "latency (V); with latency hidden: memory; latency (S)" in output
    assert "for 90% of the peak (V); there are 4, and 48 fit" in output
    assert re.search(r"at most .*ITILP 17%.* of the time \(S\)", output)
    header = next(line for line in output.splitlines() if line.startswith("change"))
    assert header.split() == ["change", "benefit", "potential", "S", "V", "simulated"]
    row = next(line for line in output.splitlines() if line.startswith("no memory latency"))
    assert row.split()[3] == "MLP" and "±" in row
    assert all(name in output for name in ("Volkov 2016", "Sim et al. 2012", "ITILP, more", "MLP, more", "FP, only"))
    assert "2 replicates" in output


def test_a_benefit_below_zero_is_explained(capsys):
    for warps, negative in (("4", True), ("48", False)):
        assert cli.main([*POINT, "--replicates", "1", "--warps", warps]) == 0
        output = capsys.readouterr().out
        saved = {name: int(share) for name, share in re.findall(r"(ITILP|FP) (-?\d+)%", output)}
        assert (saved["FP"] < 0) == negative
        assert ("FP is below 0 because the essential computation of S" in output) == negative
        if negative:
            together = int(re.search(r"their sum is meaningful: at most (-?\d+)% of the time", output)[1])
            assert abs(together - sum(saved.values())) <= 1 and together >= 0


def test_four_replicates_unless_asked_otherwise(capsys):
    assert cli.main(POINT) == 0
    assert "4 replicates" in capsys.readouterr().out


def test_without_an_interval(capsys):
    assert cli.main([*POINT, "--replicates", "1"]) == 0
    assert "±" not in capsys.readouterr().out


def test_a_kernel_that_s_does_not_cover_is_reported(capsys):
    assert cli.main(["advise", "--gpu", "fermi", "--kernel", "worksheet_3_2", *POINT[7:]]) == 0
    output = capsys.readouterr().out
    assert "not covered (S): worksheet_3_2: departure_delay is needed" in output
    assert cli.main(["advise", "--gpu", "fermi", "--kernel", "worksheet_3_2", "--departure-delay", "20", *POINT[7:]]) == 0
    assert "not covered" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--fraction", "2"], "fraction = 2.0: must be above 0 and at most 1"),
        (["--departure-delay", "-1"], "departure_delay = -1.0: must be at least 0"),
        (["--gpu", "g81"], "g81"),
        (["--warps", "49"], "warps = 49"),
        (["--set", "beta=1"], "beta"),
        (["--replicates", "0"], "replicates = 0"),
    ],
)
def test_a_wrong_request(wrong, message, capsys):
    assert cli.main([*POINT, *wrong]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and not captured.out
