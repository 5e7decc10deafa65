"""--json: what each command prints can be read by programs."""

import json
import tomllib

import numpy as np
import pytest

from warpsim import cli
from warpsim.cli.common import CommandParser
from warpsim.hardware.files import params_dir
from warpsim.hardware.gpu import list_gpus, load_gpu
from warpsim.kernels import list_kernels, load_kernel

SILENT = {"sweep", "plot", "report", "completion"}
"""Commands that print no results: they write files, or a script."""


def printed(capsys, *arguments):
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_command_that_prints_has_it():
    (actions,) = [action for action in cli.make_parser()._actions if action.choices]
    for name, parser in actions.choices.items():
        assert isinstance(parser, CommandParser)
        parser.add_pending_options()
        options = {option for action in parser._actions for option in action.option_strings}
        assert {"-v", "-q"} <= options
        if name not in SILENT:
            assert "--json" in options, name


def test_chips_and_kernels(capsys):
    chips = printed(capsys, "gpus")
    assert {chip["name"] for chip in chips} == {*list_gpus()}
    assert next(chip for chip in chips if chip["name"] == "kepler")["SMs"] == 8
    assert printed(capsys, "gpus", "Kepler") == load_gpu("kepler").to_dict()
    kernels = {kernel["name"]: kernel for kernel in printed(capsys, "kernels")}
    assert [*kernels] == list_kernels() and kernels["mix"]["arguments"]["alpha"] == 32
    assert printed(capsys, "kernels", "mix")["kernel"]["name"] == "mix"


def test_plan_status_and_verify(capsys, plan, store):
    numbers = printed(capsys, "plan", str(plan), "--seconds", "0.1")
    assert numbers["points"] == 24 and numbers["axes"]["alpha"] == 2 and numbers["seconds"] > 0
    status = printed(capsys, "status", str(store))
    assert status["done"] == status["tiles"] and status["pending"] == 0 and status["failures"] == {}
    assert printed(capsys, "verify", str(store)) == {"damages": [], "pending": 0, "repaired": False}


def test_trace(capsys, tmp_path):
    pytest.importorskip("perfetto")
    out = tmp_path / "run.pftrace"
    read = printed(capsys, *"trace --gpu kepler --kernel vector_add --warps 4 --blocks 4 --sms 1".split(), "-o", str(out))
    assert read["output"] == str(out) and read["packets"] > 0


def test_one_chip_is_printed_with_its_sources(capsys):
    assert cli.main(["gpus", "maxwell"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["sms"] == 16 and "# V Table" in text
    assert cli.main(["kernels", "mix"]) == 0
    assert "V 4.1" in capsys.readouterr().out
    assert cli.main(["gpus", "voodoo"]) == 2
    assert "'voodoo' is unknown" in capsys.readouterr().err


@pytest.mark.parametrize("name", list_gpus())
def test_a_template_is_a_chip_of_its_own(capsys, tmp_path, name):
    assert cli.main(["gpus", name, "--template"]) == 0
    mine = tmp_path / "mine.toml"
    mine.write_text(capsys.readouterr().out)
    assert load_gpu(mine).name == f"my_{name}"
    assert load_gpu(mine).sms == load_gpu(name).sms


def test_a_template_of_a_file_that_begins_with_a_byte_order_mark(capsys, tmp_path):
    (tmp_path / "mine.toml").write_text((params_dir() / "gpus" / "t4.toml").read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert cli.main(["gpus", str(tmp_path / "mine.toml"), "--template"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["name"] == "my_t4"


@pytest.mark.parametrize("command", ["gpus", "kernels"])
def test_a_template_of_nothing_is_refused(capsys, command):
    assert cli.main([command, "--template"]) == 2
    assert "--template: needs NAME" in capsys.readouterr().err


def test_a_chip_is_printed_with_what_its_file_leaves_out(capsys, tmp_path):
    assert cli.main(["gpus", "h100_pcie"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if "sm.max_warps" in line] == ["# sm.max_warps = 64 # AT: 2048 threads".split()]
    assert any(line.split() == "# memory.store_drain_cycles = 11 # rule: 0.042 x l2_latency_cycles".split() for line in lines)
    assert "# AT = NVIDIA/cccl, libcudacxx arch_traits.h, commit 004ad198." in lines
    stated = {line.split(" = ")[0] for line in lines if " = " in line and line[0] != "#"}
    assert "sms" in stated and not any(line.startswith("# sms = ") for line in lines)
    copy = tmp_path / "h100_pcie.toml"
    copy.write_text("\n".join(lines))
    assert load_gpu(copy) == load_gpu("h100_pcie")


SOON_LOADED = ("cuda/black_scholes_fast", "cuda/copy", "cuda/reduction", "cuda/transpose_padded")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.verify if name.startswith("cuda/") and name not in SOON_LOADED else ())
        for name in list_kernels()
    ],
)
def test_a_template_is_a_kernel_of_its_own(capsys, tmp_path, name):
    assert cli.main(["kernels", name, "--template"]) == 0
    mine = tmp_path / "mine.toml"
    mine.write_text(capsys.readouterr().out)
    assert load_kernel(mine).body == load_kernel(name).body


def test_fit(capsys, tmp_path, monkeypatch):
    from warpsim.analysis import measured_curve

    gpu = load_gpu("v100")
    (tmp_path / "curve.csv").write_text("bandwidth_gbs,latency_ns\n100,300\n400,310\n800,500\n")
    found = measured_curve.CurveFit(gpu, np.array([0.5, -1.0, np.nan]), 0.8, as_good=(96, 192), doubts=("dram_servers = 96",))
    monkeypatch.setattr(measured_curve, "fit_measured", lambda *_, **__: found)
    out = tmp_path / "mine.toml"
    wrong = ["fit", str(tmp_path / "curve.csv"), "--gpu", "v100", "-o", str(tmp_path / "none" / "mine.toml")]
    assert cli.main(wrong) == 2 and "must be a file in a folder that exists" in capsys.readouterr().err
    (tmp_path / "fast.csv").write_text("bandwidth_gbs,latency_ns\n100,300\n400,310\n1000,500\n")
    assert cli.main(["fit", str(tmp_path / "fast.csv"), "--gpu", "v100", "-o", str(out)]) == 0
    warned = capsys.readouterr().err
    assert "the curve reaches 1000 GB/s, and the memory of v100 only 900" in warned and "doubtful: dram_servers = 96" in warned
    read = printed(capsys, "fit", str(tmp_path / "curve.csv"), "--gpu", "v100", "-o", str(out))
    assert read["output"] == str(out) and read["errors_percent"] == [0.5, -1.0, None] and read["rms_percent"] == 0.8
    assert read["servers_as_good"] == [96, 192] and read["doubts"] == ["dram_servers = 96"]
    assert read["latency_cycles"] == load_gpu(out).memory.latency_cycles
