"""warpsim advise: output and exit codes."""

from __future__ import annotations

import json
import re

import pytest
import xarray as xr

from tests.support.model_inputs import STENCIL
from warpsim import cli
from warpsim.analysis.advice import advise_point
from warpsim.cli.advise import _headline, _page
from warpsim.simulation.point import make_point

POINT = "advise --gpu fermi --kernel mix --set alpha=8 --warps 4 --sms 1 --warmup 500 --cycles 2000 --workers 1".split()


def words(text):
    return " ".join(text.split())


def test_output(capsys):
    assert cli.main([*POINT, "--replicates", "2", "--memory", "fixed"]) == 0
    output = capsys.readouterr().out
    assert "latency (Volkov); with latency hidden: memory; latency (Sim et al.)" in output
    assert "In blocks of 1 warp, no launch attains 90% of the peak. In blocks of " in words(output)
    assert "There are 4 warps now, which attain " in words(output)
    assert re.search(r"at most, of the time, by Sim et al\.: .*inter-thread ILP 17%", output)
    header = next(line for line in output.splitlines() if line.startswith("change"))
    assert re.split("  +", header) == [
        "change", "simulated gain", "Volkov 2016", "Sim et al. 2012", "limit", "kind of change by Sim et al.",
    ]  # fmt: skip
    row = next(line for line in output.splitlines() if line.startswith("no memory latency"))
    assert row.endswith("memory-level parallelism") and "±" in row
    assert "2 replicates" in output and "1 of 15 SMs" in output


def test_abbreviations_are_spelled_out(capsys):
    assert cli.main([*POINT, "--replicates", "1"]) == 0
    output = capsys.readouterr().out
    assert not re.search(r"\b(V|S|MLP|ITILP|FP)\b", output)
    assert "ILP is instruction-level parallelism" in words(output)


def test_the_simulation_is_the_headline_and_contradictions_are_marked():
    point = make_point("kepler", STENCIL, warps=16, block_warps=8, replicates=4, warmup=5000, cycles=20_000)
    page = _page(point, advise_point(point))
    headline = words(page).partition("warps/SM blocks")[0]
    assert re.search(r"32 warps per SM in blocks of 8 warps attain 90% of the peak: 9\d", headline)
    assert "There are 16 warps now, which attain 7" in headline
    row = next(line for line in page.splitlines() if line.startswith("Volkov 2016  "))
    assert row.split()[2:4] == ["15.7", "16"] and row.split()[4].endswith("*")
    row = next(line for line in page.splitlines() if line.startswith("32 warps per SM  "))
    assert "1.090*" in row
    assert "Believe the simulation" in page


def test_lines_of_the_kernel_at_which_warps_wait(capsys):
    assert cli.main([*POINT, "--replicates", "1", "--memory", "fixed"]) == 0
    output = capsys.readouterr().out
    header, *rows = output[output.index("program line") :].split("\n\n")[0].splitlines()
    assert header.split("  ")[0] == "program line (shares of the warp-cycles)"
    assert len(rows) == 5
    load, add = rows[:2]
    assert load.startswith("1: load r1 <- r1") and re.search(r" 78%$", load)
    assert add.startswith("2: alu r1 <- r1 # FADD") and re.search(r"78% +long_scoreboard +3%$", add)


def test_the_headline_tells_launches_of_as_many_warps_apart():
    ds = xr.Dataset(
        {
            "trial_warps": ("trial", [8, 8, 16]),
            "trial_block_warps": ("trial", [1, 8, 8]),
            "share": ("trial", [0.92, 0.83, 0.99]),
            "share_high": ("trial", [0.92, 0.83, 0.99]),
            **{"warps": 8, "block_warps": 8, "most_warps": 48, "fewest_warps": 8, "fewest_block_warps": 1},
            **dict.fromkeys(("needed_warps", "needed_warps_low", "needed_warps_high"), 16),
        },
        attrs={"fraction": 0.9},
    )
    headline = _headline(ds)
    assert "In blocks of 1 warp, 8 warps per SM attain it: 92.0" in headline
    assert "There are 8 warps now, which attain 83.0" in headline


def test_the_headline_does_not_contradict_the_launches_below_it():
    nan = float("nan")
    ds = xr.Dataset(
        {
            "trial_warps": ("trial", [16, 32, 64]),
            "trial_block_warps": ("trial", [8, 8, 8]),
            "share": ("trial", [0.8, 0.92, 0.84]),
            "share_high": ("trial", [0.82, 0.94, 0.86]),
            **{"warps": 64, "block_warps": 8, "most_warps": 64, "fewest_warps": nan, "needed_warps": nan},
        },
        attrs={"fraction": 0.9},
    )
    headline = _headline(ds)
    assert headline.startswith("The largest occupancy that fits, 64 warps per SM, attains 84.0 ± 2 %, less than 90% of the peak")
    assert ", but 32 warps per SM attain 92.0 ± 2 %. There are 64 warps now" in headline
    assert _headline(ds.isel(trial=[0, 2])).startswith("No launch attains 90% of the peak: the largest occupancy that fits, 64 ")


def test_json(capsys):
    assert cli.main([*POINT, "--replicates", "2", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["variables"]["warps"] == {"dims": [], "units": "warps/SM", "values": 4}
    assert read["variables"]["predicted"]["dims"] == ["model", "change"]
    assert read["coordinates"]["model"] == ["Sim et al. 2012", "Volkov 2016"]
    assert read["attributes"]["fraction"] == 0.9


def test_a_benefit_below_zero_is_explained(capsys):
    for warps, negative in (("4", True), ("48", False)):
        assert cli.main([*POINT, "--replicates", "1", "--warps", warps]) == 0
        output = words(capsys.readouterr().out)
        saved = {name: int(share) for name, share in re.findall(r"(inter-thread ILP|essential work only) (-?\d+)%", output)}
        assert (saved["essential work only"] < 0) == negative
        assert ("is below 0 because the essential work of Sim et al. (equation 18)" in output) == negative
        if negative:
            together = int(re.search(r"their sum is meaningful: at most (-?\d+)% of the time", output)[1])
            assert abs(together - sum(saved.values())) <= 1 and together >= 0


def test_four_replicates_unless_asked_otherwise(capsys):
    assert cli.main(POINT) == 0
    assert "4 replicates" in capsys.readouterr().out


def test_without_an_interval(capsys):
    assert cli.main([*POINT, "--replicates", "1"]) == 0
    output = capsys.readouterr().out
    assert "±" not in output and "nan" not in output


def test_a_kernel_that_sim_et_al_do_not_cover_is_reported(capsys):
    assert cli.main(["advise", "--gpu", "fermi", "--kernel", "worksheet_3_2", *POINT[7:]]) == 0
    output = capsys.readouterr().out
    assert "not covered by Sim et al.: worksheet_3_2: departure_delay is needed" in output and "nan" not in output
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
