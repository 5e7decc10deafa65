"""Chips that name an architecture: what their files leave out, and what follows from latency and bandwidth."""

from __future__ import annotations

import copy
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import warpsim as ws
from warpsim.hardware import files as params
from warpsim.hardware.architectures import (
    SERVERS_PER_CHANNEL,
    STAGE_RATE,
    complete,
    filled_in,
    list_architectures,
    nearest_architecture,
)
from warpsim.hardware.gpu import Gpu, GpuFileError, load_gpu

MODERN = tuple(name for name in ws.list_gpus() if load_gpu(name).architecture)
DATA_SHEET = {  # what a data sheet and a latency test give
    "name": "mine",
    "architecture": "sm_86",
    "sms": 46,
    "clock_ghz": 1.7,
    "sm": {"schedulers": 4, "max_warps": 48, "registers": 65536},
    "memory": {"latency_cycles": 500, "bandwidth_gbs": 400.0},
}


def changed(data: dict[str, Any], **memory: Any) -> dict[str, Any]:
    return data | {"memory": {key: value for key, value in (data["memory"] | memory).items() if value is not None}}


def test_chips_of_six_generations() -> None:
    found = {load_gpu(name).generation for name in MODERN}
    assert found == {"Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"}
    until_ampere = "titan_x v100 t4 rtx2080ti a10 a40 rtx3080 rtx3090 a100 a100_40gb a100_sxm"
    since_ada = "rtx4090 l4 l40 l40s h100 h100_pcie h200 gh200 b200 rtx5090 rtx_pro_6000"
    assert {*until_ampere.split(), *since_ada.split()} <= set(MODERN)


@pytest.mark.parametrize("name", MODERN)
class TestEveryModernChip:
    def test_every_value_has_its_source(self, name: str) -> None:
        architecture = load_gpu(name).architecture
        for kind, file in (("gpus", name), ("architectures", architecture)):
            text = (params.params_dir() / kind / f"{file}.toml").read_text(encoding="utf-8")
            values = [line for line in text.splitlines() if re.match(r"\w+ = ", line)]
            assert len(values) > 10
            assert [line for line in values if not re.search(r"#.*\w", line)] == []
            assert [line for line in values if "assumed" in line and not re.search(r"assumed: \w", line)] == []
            comments = "".join(line.partition("#")[2] for line in values)
            cited = set(re.findall(r"\b(A[BORST]|BP|C[BCGTV]|FA|GB|HU|J[TV]|KM|LU|M[DT]|OC|P[GT]|SX)\b", comments))
            explained = set(re.findall(r"^# (\w\w) = ", text, re.MULTILINE))
            assert cited <= explained

    def test_bounds_follow_from_the_lanes(self, name: str) -> None:
        gpu = load_gpu(name)
        assert gpu.unit_ipc("alu") in (2.0, 4.0)
        assert gpu.memory.bandwidth_gbs <= gpu.memory.pin_bandwidth_gbs
        assert gpu.memory.queue.dram_gbs >= gpu.memory.bandwidth_gbs
        assert gpu.memory.queue.crossbar_gbs > gpu.memory.bandwidth_gbs
        assert gpu.memory.l1_latency_cycles < gpu.memory.l2_latency_cycles < gpu.memory.latency_cycles

    def test_runs(self, name: str) -> None:
        """A dependent chain of adds of one warp shows the latency of the add."""
        ds = ws.simulate(name, "add_chain", warps=1, block_warps=1, sms=1, engine="reference", warmup=400, cycles=400)
        assert float(ds.ipc.sum()) == pytest.approx(1 / load_gpu(name).ops["alu"].latency_cycles, rel=0.02)

    def test_its_description_is_complete(self, name: str) -> None:
        gpu = load_gpu(name)
        assert Gpu.from_dict(gpu.to_dict()) == gpu
        assert complete(gpu.to_dict())[1] == {}


RESULTS = {  # per cycle and SM: CUDA C Programming Guide, table of arithmetic throughput; since 13.0 in the Best Practices Guide
    "sm_61": {"alu": 128, "int": 128, "half": 2, "fp64": 4, "sfu": 32},
    "sm_70": {"alu": 64, "int": 64, "imad": 64, "half": 128, "fp64": 32, "sfu": 16},
    "sm_75": {"alu": 64, "int": 64, "imad": 64, "half": 128, "fp64": 2, "sfu": 16},
    "sm_80": {"alu": 64, "int": 64, "imad": 64, "fp64": 32, "sfu": 16},
    "sm_86": {"alu": 128, "int": 64, "imad": 64, "half": 128, "fp64": 2, "sfu": 16},
    "sm_89": {"alu": 128, "int": 64, "imad": 64, "half": 128, "fp64": 2, "sfu": 16},
    "sm_90": {"alu": 128, "int": 64, "imad": 64, "fp64": 64, "sfu": 16},
    "sm_100": {"alu": 128, "int": 64, "half": 128, "fp64": 64},
    "sm_120": {"alu": 128, "fp64": 2, "sfu": 16},
}


@pytest.mark.parametrize("name", RESULTS)
def test_rates_are_those_of_the_programming_guide(name: str) -> None:
    """Left out are those that a file states otherwise: half precision of 8.0 and 9.0, and integers of 12.0."""
    gpu = Gpu.from_dict(DATA_SHEET | {"architecture": name, "sm": {}})
    rates = {op: 32 * gpu.unit_ipc(op) * (2 if op == "half" else 1) for op in RESULTS[name]}
    assert rates == RESULTS[name]


@pytest.mark.parametrize("name", list_architectures())
def test_each_architecture_serves_a_data_sheet(name: str) -> None:
    gpu = Gpu.from_dict({"name": "x", "architecture": name, "sms": 10, "clock_ghz": 1.5, "memory": DATA_SHEET["memory"]})
    assert gpu.title == "x"
    assert set(tomllib.loads((params.params_dir() / "architectures" / f"{name}.toml").read_text())["ops"]) == set(gpu.ops)


def test_a_data_sheet_is_enough() -> None:
    gpu, (_, defaults) = Gpu.from_dict(DATA_SHEET), complete(DATA_SHEET)
    assert gpu.memory.queue.dram_servers == SERVERS_PER_CHANNEL * round(400 / 24)
    assert gpu.memory.queue.dram_gbs == round(STAGE_RATE * 400, 1)
    assert gpu.memory.pin_bandwidth_gbs == round(400 / 0.93, 1)
    assert defaults["ops.alu.latency_cycles"] == "params/architectures/sm_86.toml"
    assert defaults["memory.queue.dram_servers"].startswith("rule: ")
    assert not {"sms", "clock_ghz", "sm.schedulers", "memory.latency_cycles", "memory.bandwidth_gbs"} & set(defaults)


def test_what_a_file_states_is_kept() -> None:
    data = changed(DATA_SHEET, queue={"dram_servers": 7}) | {"ops": {"alu": {"latency_cycles": 5}}}
    gpu = Gpu.from_dict(data)
    assert (gpu.memory.queue.dram_servers, gpu.ops["alu"].latency_cycles, gpu.ops["alu"].pipe) == (7, 5, "math")


def test_mean_wait_is_that_of_the_stage() -> None:
    """Half a service at the load one half of M/D/1: b x / (c - x) with x = c / 2."""
    gpu = Gpu.from_dict(DATA_SHEET)
    service = 128 * gpu.memory.queue.dram_servers / (gpu.memory.queue.dram_gbs / gpu.clock_ghz)
    latency = float(gpu.memory.contention.latency(gpu.memory.queue.dram_gbs / 2))
    assert latency - gpu.memory.latency_cycles == pytest.approx(service / 2, rel=0.01)


def test_the_pins_give_the_sustained_bandwidth() -> None:
    gpu = Gpu.from_dict(changed(DATA_SHEET, bandwidth_gbs=None, pin_bandwidth_gbs=1000.0))
    assert gpu.memory.bandwidth_gbs == 930.0


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (DATA_SHEET | {"architecture": "sm_99"}, "architecture = \"sm_99\": architectures: 'sm_99' is unknown, did you mean"),
        (DATA_SHEET | {"architecture": 8.6}, "architecture = 8.6: must be"),
        (changed(DATA_SHEET, bandwidth_gbs=None), "memory.bandwidth_gbs is missing"),
        (changed(DATA_SHEET, bandwidth_gbs=-1), "memory.bandwidth_gbs = -1: must be"),
        (changed(DATA_SHEET, queue=3), "memory.queue = 3: must be a table"),
        (changed(DATA_SHEET, latency_cycles=None), "memory.latency_cycles is missing"),
        (DATA_SHEET | {"memory": 1}, "memory = 1: must be a table"),
        (DATA_SHEET | {"clock_ghz": "fast"}, 'clock_ghz = "fast": must be'),
    ],
)
def test_errors_name_the_key(data: dict[str, Any], says: str) -> None:
    with pytest.raises(GpuFileError, match=re.escape(says)):
        Gpu.from_dict(data)


@pytest.mark.parametrize("clock", [-1, 0, "fast", True, None])
def test_a_wrong_clock_is_the_only_error(clock: Any) -> None:
    data = DATA_SHEET | {"clock_ghz": clock}
    with pytest.raises(GpuFileError) as error:
        Gpu.from_dict({key: value for key, value in data.items() if value is not None}, source="mine.toml")
    assert str(error.value).startswith("mine.toml: clock_ghz ") and len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("bandwidth", [-1, math.inf, math.nan, "wide"])
def test_a_wrong_bandwidth_is_the_only_error(bandwidth: Any) -> None:
    with pytest.raises(GpuFileError) as error:
        Gpu.from_dict(changed(DATA_SHEET, bandwidth_gbs=bandwidth), source="mine.toml")
    assert str(error.value).startswith("mine.toml: memory.bandwidth_gbs = ") and len(str(error.value).splitlines()) == 1


def test_architecture_is_a_label() -> None:
    gpu = load_gpu("v100")
    assert gpu.model_copy(update={"architecture": None}).identity() == gpu.identity()


def test_a_file_of_ones_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "mine.toml"
    own = ['name = "mine"', 'architecture = "SM_90"', "sms = 100", "clock_ghz = 1.5"]
    file.write_text("\n".join([*own, "[memory]", "latency_cycles = 600", "bandwidth_gbs = 2000"]))
    with caplog.at_level("INFO", logger="warpsim"):
        assert load_gpu(file).sm.max_warps == 64
    assert "values are those of SM_90, follow by rules, or are assumed" in caplog.text


def test_options_that_a_chip_turns_off_stay_off() -> None:
    from warpsim.hardware.whatif import changed_gpu

    h100 = load_gpu("h100")
    off = {"core.register_banks": None, "core.replays": "issue", "memory.store_drain_cycles": None, "ops.smem.unit": None}
    changed = changed_gpu(h100, {**off, "ops.smem.scope": "sm"})
    assert (changed.core.register_banks, changed.core.replays, changed.memory.store_drain_cycles) == (None, "issue", None)
    assert (changed.unit_of("smem"), changed.unit_of("load")) == ("smem", "lsu")
    assert Gpu.from_dict(changed.to_dict()) == changed
    assert Gpu.from_dict(h100.to_dict()) == h100


@pytest.mark.parametrize("name", list_architectures())
def test_each_value_that_is_filled_in_has_its_source(name: str) -> None:
    values = filled_in(DATA_SHEET | {"architecture": name})
    assert len(values) > 80
    assert not [key for key, _, source in values if not source or source.startswith("params/architectures")]


@pytest.mark.parametrize(
    "capability, found",
    [
        ("9.0", ("sm_90", True)),
        ("8.7", ("sm_86", False)),
        ("10.0", ("sm_100", True)),
        ("10.3", ("sm_100", False)),
        ("12.1", ("sm_120", False)),
        ("5.2", ("sm_61", False)),
    ],
)
def test_the_architecture_of_a_compute_capability(capability: str, found: tuple[str, bool]) -> None:
    assert nearest_architecture(capability) == found


def test_a_file_without_an_architecture_is_told_of_them() -> None:
    with pytest.raises(GpuFileError, match=r"mine: architecture is missing: with one of sm_100, .*, sm_61, .* leaves out"):
        Gpu.from_dict({key: value for key, value in DATA_SHEET.items() if key != "architecture"}, source="mine")


@pytest.mark.parametrize(
    "key, cycles, says",
    [
        ("l1_latency_cycles", 900, "memory.l1_latency_cycles = 900: must be at most memory.l2_latency_cycles"),
        ("latency_cycles", 100, "must be at most memory.latency_cycles = 100"),
    ],
)
def test_a_near_memory_is_not_slower_than_a_far_one(tmp_path: Path, key: str, cycles: int, says: str) -> None:
    text = (params.params_dir() / "gpus" / "a40.toml").read_text()
    file = tmp_path / "mine.toml"
    memory = "[memory]\n" + (f"{key} = {cycles}\n" if key not in text else "")
    file.write_text(re.sub(rf"^{key} = .*", f"{key} = {cycles}", text, flags=re.M).replace("[memory]\n", memory))
    with pytest.raises(GpuFileError, match=re.escape(says)):
        load_gpu(file)


def written(file: Path, *, memory: str = "", more: str = "") -> Path:
    head = 'name = "mine"\narchitecture = "sm_86"\nsms = 46\nclock_ghz = 1.7\n'
    file.write_text(f"{head}[memory]\nlatency_cycles = 500\nbandwidth_gbs = 400\n{memory}{more}", encoding="utf-8")
    return file


def test_stores_do_not_exceed_the_pins(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.toml", more="[memory.writes]\nmixed_rate = 0.9\nwrite_rate = 2.0\n")
    with pytest.raises(GpuFileError, match=r"memory.writes.write_rate = 2: must be at most 1.097, with which stores"):
        load_gpu(file)


def test_a_description_is_not_changed() -> None:
    data: dict[str, Any] = DATA_SHEET | {"architecture": "sm_90"}
    data["memory"] = data["memory"] | {"queue": {"crossbar_servers": 7}}
    before = copy.deepcopy(data)
    filled_in(data)
    Gpu.from_dict(data)
    assert data == before


def test_a_table_of_latencies_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.csv").write_text("load_gbs,0,0.25,0.5,1\n1,300,400,500,900\n")
    file = written(tmp_path / "mine.toml", memory='distribution = "own.csv"\n')
    monkeypatch.chdir("/")
    assert load_gpu(file).memory.distribution == str(tmp_path / "own.csv")
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())  # as some editors begin a file
    assert load_gpu(file).memory.distribution == str(tmp_path / "own.csv")


@pytest.mark.parametrize(
    "text",
    [
        "load_gbs,0,0.25,0.5,1\n1,300,400,500,900\n2\n",
        "load_gbs\n1\n2\n",
        "load_gbs;0;1\n1;3;4\n",
        "x" * 200_000 + "\n1\n",
        "a\n2,,,,,\n",
    ],
)
def test_a_damaged_table_of_latencies_is_refused_with_the_chip(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(GpuFileError, match=r"memory.distribution = .*own.csv: "):
        load_gpu(written(tmp_path / "mine.toml", memory='distribution = "own.csv"\n'))


def test_a_slice_needs_a_latency_of_two_cycles(tmp_path: Path) -> None:
    """The requests of echoes arrive half a cycle late, and return as if they had not."""
    gpu = load_gpu(written(tmp_path / "mine.toml", memory="l1_latency_cycles = 1\nl2_latency_cycles = 1\n"))
    fast = gpu.model_copy(update={"memory": gpu.memory.model_copy(update={"latency_cycles": 1})})
    with pytest.raises(ValueError, match="shortest latency of memory = 1 cycle: must be at least 2 in a slice"):
        ws.simulate(fast, ws.load_kernel("load_chain"), warps=1, sms=1, warmup=1000, cycles=1000)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"memory": {"latency_cycles": 500}}, ["mine: memory.bandwidth_gbs is missing: must be a number from 0.001 to 1e9"]),
        ({"architecture": 86}, [f"mine: architecture = 86: must be one of {', '.join(list_architectures())}"]),
    ],
)
def test_what_would_follow_is_not_called_missing(changes: dict[str, Any], lines: list[str]) -> None:
    with pytest.raises(GpuFileError) as error:
        Gpu.from_dict(DATA_SHEET | changes, source="mine")
    assert str(error.value).splitlines() == lines


def test_the_measured_model_names_what_it_needs() -> None:
    with pytest.raises(ValueError, match=r"not measured on h100.*memory.distribution\) with memory.measured = true"):
        ws.simulate("h100", "mix", alpha=4, memory="measured", sms=1, cycles=1000)
