"""warpsim plan: the size and the estimated cost of a plan."""

import re
from unittest.mock import patch

from warpsim import cli


def command(tmp_path, capsys, text, *options):
    file = tmp_path / "plan.toml"
    file.write_text(text)
    code = cli.main(["plan", str(file), *options])
    return code, capsys.readouterr()


PLAN = 'gpu = ["g80", "kepler"]\nkernel = "mix"\nwarps = [4, 8, 48]\nsms = 1\nwarmup = 0\n'


def test_the_command(tmp_path, capsys):
    code, printed = command(tmp_path, capsys, PLAN + "cycles = 400\nreplicates = 3\n", "--seconds", "0.1")
    assert code == 0
    lines = printed.out.splitlines()
    assert lines[0] == "points      6 (2 gpu x 3 warps)"
    assert lines[1] == "            the chips can hold about 83% of them; the others are NaN"
    assert lines[2] == "replicates  3"
    assert re.fullmatch(r"tiles       1 of at most 6 points, about 0 s each on one core", lines[3])
    assert re.fullmatch(r"core-hours  [\d.e-]+ \(0 s on one core\), from (1 point|\d+ points) timed here", lines[4])
    assert re.fullmatch(r"store       about [\d.]+ kB \([\d.]+ kB before compression\)", lines[5])
    assert not (tmp_path / "out.zarr").exists()


def test_the_command_says_what_was_scaled_up(tmp_path, capsys):
    text = PLAN.replace("48", "16") + "cycles = 10_000_000\nreplicates = 1000\n"
    out = command(tmp_path, capsys, text, "--seconds", "0.1")[1].out
    assert re.search(r"scaled up: [1-6] of the sampled points are too long, and were timed in a shorter window", out)
    assert re.search(r"scaled up: [\d.]+ replicates of each sampled point were timed", out)
    few = command(tmp_path, capsys, PLAN + "cycles = 1\nreplicates = 1\n", "--seconds", "1")[1].out
    assert "scaled up" not in few


def test_the_command_with_a_rule_and_with_nothing_to_do(tmp_path, capsys):
    text = PLAN + "cycles = 400\nreplicates = {rtol = 0.05, least = 2, most = 4}\n"
    assert re.search(r"replicates  2 to 4, about [234](\.\d+)? in the sample", command(tmp_path, capsys, text)[1].out)
    nothing = PLAN.replace("[4, 8, 48]", "[65, 66]")
    code, printed = command(tmp_path, capsys, nothing)
    assert code == 2 and "plan.toml: no point of the plan: fits no chip: warps = 65: must be" in printed.err
    with patch("warpsim.sweeps.plan.check_fits"):  # as where a plan has too many points to find one that fits
        assert "no sampled point fits its chip" in command(tmp_path, capsys, nothing)[1].out


def test_the_command_refuses_what_is_wrong(tmp_path, capsys):
    code, printed = command(tmp_path, capsys, "gpu = 1\n")
    assert code == 2 and "plan.toml" in printed.err
    code, printed = command(tmp_path, capsys, PLAN, "--seconds", "0")
    assert code == 2 and "--seconds 0.0: must be above 0" in printed.err
