"""What a sweep will take: the estimate against the sweep itself, and the command that prints it."""

import re
import time

import pytest

from tests.support.small_plans import small_plan
from warpsim import cli
from warpsim.sweeps.estimate import estimate
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.replicates import Replicates

WINDOW = {"sms": 1, "warmup": 0, "cycles": 2000}


def test_the_estimate_is_near_what_the_sweep_takes(tmp_path):
    plan = Plan(gpu=["g80", "kepler"], kernel="mix", alpha=[0, 1, 4, 16], warps=[4, 8, 16, 32], replicates=4, **WINDOW)
    found = estimate(plan, seconds=1.0)
    start = time.process_time()
    results = sweep(plan, tmp_path / "out.zarr", workers=1)
    took = time.process_time() - start
    assert found.possible == pytest.approx(float(results["valid"].mean()), abs=0.01)
    assert found.possible < 1.0
    assert took / 8 < found.seconds < 8 * took  # the machine may be busy with other things
    assert found.replicates == 4
    assert found.raw_bytes == sum(results[name].nbytes for name in results.data_vars)
    stored = sum(file.stat().st_size for file in (tmp_path / "out.zarr").rglob("c/**/*") if file.is_file())
    assert stored / 4 < found.store_bytes < 4 * stored
    assert found.tile_seconds == pytest.approx(found.seconds / len(plan.grid))


def test_a_long_point_is_timed_in_a_short_window():
    plan = Plan(gpu="kepler", kernel="mix", alpha=8, warps=[8, 32], warmup=0, cycles=10**9, replicates=2)
    start = time.process_time()
    found = estimate(plan, seconds=0.5)
    assert time.process_time() - start < 30  # the two points take several minutes
    assert found.seconds > 60
    assert found.replicates is None


def test_the_number_of_replicates_comes_from_the_sample():
    rule = Replicates(least=3, most=48, rtol=0.05, of="bandwidth")
    plan = Plan(gpu="kepler", kernel="mix", alpha=0, warps=[1, 64], replicates=rule, **WINDOW)
    numbers = sweep(plan)["bandwidth"].notnull().sum("replicate").values
    assert numbers.min() <= estimate(plan, seconds=0.5).replicates <= numbers.max()


def test_a_plan_of_impossible_points():
    found = estimate(small_plan(gpu="g80", warps=[48, 64]))
    assert (found.possible, found.sampled, found.store_bytes) == (0.0, 0, 0)


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
    assert re.fullmatch(r"core-hours  [\d.e-]+ \(0 s on one core\), from \d+ points timed here", lines[4])
    assert re.fullmatch(r"store       about [\d.]+ kB \([\d.]+ kB before compression\)", lines[5])
    assert not (tmp_path / "out.zarr").exists()


def test_the_command_with_a_rule_and_with_nothing_to_do(tmp_path, capsys):
    text = PLAN + "cycles = 400\nreplicates = {rtol = 0.05, least = 2, most = 4}\n"
    assert re.search(r"replicates  2 to 4, about [234](\.\d+)? in the sample", command(tmp_path, capsys, text)[1].out)
    nothing = PLAN.replace("[4, 8, 48]", "[65, 66]")
    assert "no sampled point fits its chip" in command(tmp_path, capsys, nothing)[1].out


def test_the_command_refuses_what_is_wrong(tmp_path, capsys):
    code, printed = command(tmp_path, capsys, "gpu = 1\n")
    assert code == 2 and "plan.toml" in printed.err
    code, printed = command(tmp_path, capsys, PLAN, "--seconds", "0")
    assert code == 2 and "--seconds 0.0: must be above 0" in printed.err
