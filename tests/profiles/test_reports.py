"""Real reports, where the folder that WARPSIM_PROFILES names holds them."""

import os
from pathlib import Path

import pytest

from warpsim.cli import main
from warpsim.profiles.api import from_profile
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.report import list_launches, read_launch

FOLDER = Path(os.environ.get("WARPSIM_PROFILES", ""))
REPORTS = sorted(FOLDER.rglob("*.ncu-rep")) if os.environ.get("WARPSIM_PROFILES") else []

pytestmark = pytest.mark.skipif(not REPORTS, reason="WARPSIM_PROFILES names no folder with reports")


def a40():
    found = [path for path in REPORTS if "3176628c" in path.name or "IndexSpaces" in str(path)]
    if not found:
        pytest.skip("the report of IndexSpaces.jl is not there")
    return found[0]


def test_a_launch_is_read_whole():
    one = read_launch(a40())
    assert one.arch == 86 and one.words
    assert sum(code.executed for code in one.code) == one.need("smsp__inst_executed.sum")


def test_a_truncated_report(tmp_path):
    cut = tmp_path / "cut.ncu-rep"
    cut.write_bytes(a40().read_bytes()[:300_000])
    with pytest.raises(ProfileError, match="is truncated"):
        list_launches(cut)
    with pytest.raises(ProfileError, match="launch = 99: must be a number from 0 to"):
        read_launch(a40(), 99)


def test_the_command(capsys, tmp_path):
    assert main(["profile", str(a40()), "--list"]) == 0
    assert "NVIDIA A40" in capsys.readouterr().out
    options = ["--replicates", "1", "--advise", "--l1-hit", "1", "-o", str(tmp_path / "page.html")]
    assert main(["profile", str(a40()), *options]) == 0
    shown = capsys.readouterr().out
    assert "simulated / measured cycles" in shown and "STG.E" in shown and "what if" in shown
    assert "The busiest resource is" in shown and "DRAM of twice the bandwidth" in shown and "Roofline Analysis" in shown
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "STG.E" in page and "DRAM of twice the bandwidth" in page and "Roofline Analysis" in page


def test_the_machine_code_of_a_launch_can_be_imported(tmp_path, capsys):
    output = tmp_path / "kernel.toml"
    assert main(["import", str(a40()), "-o", str(output)]) == 0
    assert "17 instructions" in capsys.readouterr().out


def test_a_kernel_that_only_stores_is_bound_by_memory():
    profile = from_profile(a40())
    replay = profile.replay(replicates=1)
    assert replay.instructions == pytest.approx(1.0, abs=0.01)
    assert replay.cycles.mean == pytest.approx(profile.measured.cycles, rel=0.1)
