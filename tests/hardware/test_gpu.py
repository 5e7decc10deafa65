"""Chip files: their values against the tables of V, and the messages for files with errors."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from warpsim.engine import constants
from warpsim.hardware import files as params
from warpsim.hardware.chip_file import write_queue_parameters
from warpsim.hardware.gpu import Gpu, GpuFileError, list_gpus, load_gpu
from warpsim.units import MAX_SCHEDULERS, MAX_WARPS, OPS, gbs_to_ipc

CHIPS = ["g80", "gt200", "fermi", "kepler", "maxwell"]

# V Table 6.1, ops per cycle per scheduler, and Table 6.2, cycles: add, sfu, smem, smem2.
PEAKS = {
    "g80": (8, 2, 6, 3),
    "gt200": (8, 2, 8, 4),
    "fermi": (16, 2, 8, 4),
    "kepler": (32, 8, 8, 4),
    "maxwell": (32, 8, 8, 4),
}
LATENCIES = {
    "g80": (20, 32, 38, 54),
    "gt200": (24, 34, 40, 56),
    "fermi": (18, 22, 26, 58),
    "kepler": (9, 9, 24, 56),
    "maxwell": (6, 13, 24, 26),
}
# V Table 6.1, stream and random, and Table 6.2, the same.
STREAM = {
    "g80": (0.86, 0.027),
    "gt200": (0.89, 0.016),
    "fermi": (0.97, 0.029),
    "kepler": (1.07, 0.034),
    "maxwell": (0.65, 0.023),
}
# V Table 6.5, with latency and peak of Tables 6.2 and 6.4: latency, a and b in cycles, c and peak in GB/s
CONTENTION = {
    "g80": (444, 453, 61, 81, 74),
    "gt200": (434, 438, 17, 140, 138),
    "fermi": (513, 501, 41, 170, 161),
    "kepler": (301, 300, 32, 170, 154),
    "maxwell": (368, 372, 22, 221, 211),
}
MEMORY_LATENCIES = {
    "g80": (444, 644),
    "gt200": (434, 662),
    "fermi": (513, 1571),
    "kepler": (301, 1213),
    "maxwell": (368, 534),
}
# V Table 4.1: mem_thru and issue_thru in IPC per SM.
MODEL = {
    "g80": (0.0268, 0.5),
    "gt200": (0.0277, 0.5),
    "fermi": (0.0599, 1),
    "kepler": (0.1338, 4),
    "maxwell": (0.0814, 4),
}


@pytest.fixture
def kepler() -> dict[str, Any]:
    """A description that a test can change."""
    return load_gpu("kepler").to_dict()


def errors_of(data: dict[str, Any]) -> list[str]:
    with pytest.raises(GpuFileError) as caught:
        Gpu.from_dict(data, source="chip.toml")
    assert all(line.startswith("chip.toml: ") for line in caught.value.errors)
    assert str(caught.value) == "\n".join(caught.value.errors)
    return [line.removeprefix("chip.toml: ") for line in caught.value.errors]


def test_there_are_five_chips() -> None:
    assert set(CHIPS) <= set(list_gpus())
    assert [load_gpu(name).name for name in CHIPS] == CHIPS


@pytest.mark.parametrize("name", CHIPS)
class TestTables:
    def test_unit_rates(self, name: str) -> None:
        gpu = load_gpu(name)
        add, sfu, smem, smem2 = PEAKS[name]
        schedulers = gpu.sm.schedulers
        assert 32 * min(gpu.unit_ipc("alu"), gpu.issue_ipc) == pytest.approx(add * schedulers)
        assert 32 * gpu.unit_ipc("sfu") == pytest.approx(sfu * schedulers)
        assert 32 * gpu.unit_ipc("smem") == pytest.approx(smem * schedulers)
        assert 32 * gpu.unit_ipc("smem") / 2 == pytest.approx(smem2 * schedulers)

    def test_latencies(self, name: str) -> None:
        ops = load_gpu(name).ops
        smem = ops["smem"].latency_for("smem")
        found = ops["alu"].latency_for("alu"), ops["sfu"].latency_for("sfu"), smem
        assert (*found, smem + ops["smem"].conflict_latency_cycles) == LATENCIES[name]

    def test_issue_and_memory_rates(self, name: str) -> None:
        gpu = load_gpu(name)
        mem_thru, issue_thru = MODEL[name]
        assert gpu.issue_ipc == issue_thru
        assert gbs_to_ipc(gpu.memory.bandwidth_gbs, gpu.clock_ghz, gpu.sms) == pytest.approx(
            mem_thru, rel=5e-3
        )
        assert gpu.bandwidth_bytes_per_cycle == pytest.approx(mem_thru * 128 * gpu.sms, rel=5e-3)

    def test_divergent_accesses(self, name: str) -> None:
        """32 single transactions at the sustained rate give V's random throughput, and the sum of their latencies V's latency."""
        gpu = load_gpu(name)
        stream, random = STREAM[name]
        per_instruction = 32 * gpu.memory.divergent_transaction_bytes
        assert gbs_to_ipc(1, 1, 1, per_instruction) / gbs_to_ipc(1, 1, 1) == pytest.approx(
            random / stream, rel=1e-3
        )
        coalesced, divergent = MEMORY_LATENCIES[name]
        assert gpu.memory.latency_cycles == coalesced
        extra = 32 - 128 // gpu.memory.transaction_bytes
        slack = 0.05 * extra if gpu.memory.transaction_latency_cycles < 10 else 0.5 * extra  # of the rounding
        assert abs(coalesced + extra * gpu.memory.transaction_latency_cycles - divergent) <= slack

    def test_contention_is_the_table(self, name: str) -> None:
        gpu = load_gpu(name)
        contention = gpu.memory.contention
        coefficients = contention.a_cycles, contention.b_cycles, contention.c_gbs
        assert (gpu.memory.latency_cycles, *coefficients, gpu.memory.bandwidth_gbs) == CONTENTION[name]

    def test_every_value_has_its_source(self, name: str) -> None:
        text = (params.params_dir() / "gpus" / f"{name}.toml").read_text(encoding="utf-8")
        values = [line for line in text.splitlines() if re.match(r"\w+ = ", line)]
        assert len(values) > 70
        assert [line for line in values if not re.search(r"#.*\w", line)] == []
        assert [line for line in values if "assumed" in line and not re.search(r"assumed: \w", line)] == []

    def test_round_trip(self, name: str) -> None:
        gpu = load_gpu(name)
        assert Gpu.from_dict(json.loads(json.dumps(gpu.to_dict()))) == gpu
        assert Gpu.model_validate(gpu.model_dump(mode="json")) == gpu
        assert Gpu.model_validate(gpu.model_dump()) == gpu


def test_properties_of_single_chips() -> None:
    g80, fermi, kepler, maxwell = (load_gpu(name) for name in ("g80", "fermi", "kepler", "maxwell"))
    assert g80.memory.contention.refined == ((4, 71), (156, 121))
    assert g80.ops["smem"].interval_cycles == Fraction(16, 3)
    assert fermi.ops["sfu"].scope == "sm"
    assert (fermi.ops["store"].gap_cycles, fermi.memory.loads_per_warp) == (34, 5)
    assert (fermi.ops["branch"].gap_cycles, fermi.ops["branch"].taken_gap_cycles) == (28, 32)
    assert 546 + fermi.ops["barrier"].latency_cycles == 580  # V Listing 3.3
    assert kepler.ops["alu"].interval_cycles == Fraction(2, 3)
    assert (kepler.block_launch_cycles, kepler.memory.measured) == (201, True)
    assert [maxwell.ops[op].issue_slots for op in ("alu", "sfu", "smem", "load")] == [1, 2, 3, 8]
    assert (maxwell.ops["sfu"].latency_for("alu"), maxwell.ops["smem"].latency_for("alu")) == (9, 22)
    assert [load_gpu(name).memory.measured for name in CHIPS] == [False, False, False, True, False]


def test_files_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(params.params_dir() / "gpus" / "fermi.toml", tmp_path / "mine.toml")
    monkeypatch.chdir(tmp_path)
    assert load_gpu("mine.toml") == load_gpu(tmp_path / "mine.toml") == load_gpu("fermi")


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("keplr", ValueError, "'keplr' is unknown, did you mean 'kepler'?; allowed: a10, a100"),
        ("no/such.toml", ValueError, "no file no/such.toml"),
        (7, TypeError, "7 is not a name or a path"),
    ],
)
def test_unknown_chips(name: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        load_gpu(name)


def test_not_toml(tmp_path: Path) -> None:
    file = tmp_path / "chip.toml"
    file.write_text("sms = ")
    with pytest.raises(GpuFileError, match="not a TOML file"):
        load_gpu(file)


# Dotted key, bad value, the whole line; None in place of a value takes the key out.
MISTAKES = [
    ("ops.alu.latency_cycles", -1, "ops.alu.latency_cycles = -1: must be an integer from 0"),
    ("sm.schedulers", 9, "sm.schedulers = 9: must be an integer from 1 to 8"),
    ("sm.max_warps", 65, "sm.max_warps = 65: must be an integer from 1 to 64"),
    ("sm.max_warps", 64.0, "sm.max_warps = 64.0: must be an integer from 1 to 64"),
    ("sm.max_warps", "64", 'sm.max_warps = "64": must be an integer from 1 to 64'),
    ("sms", True, "sms = true: must be an integer from 1"),
    ("clock_ghz", 0, "clock_ghz = 0: must be a number from 0.001 to 100, in GHz"),
    ("clock_ghz", math.inf, "clock_ghz = Infinity: must be a number from 0.001 to 100, in GHz"),
    ("clock_ghz", 1700, "clock_ghz = 1700: must be a number from 0.001 to 100, in GHz"),
    ("clock_ghz", None, "clock_ghz is missing: must be a number from 0.001 to 100, in GHz"),
    ("name", "", 'name = "": must be text that is not empty'),
    ("issue.width", 3, "issue.width = 3: must be an integer from 1 to 2"),
    ("ops.alu.scope", "chip", 'ops.alu.scope = "chip": must be \'scheduler\' or \'sm\''),
    ("ops.alu.interval_cycles", "2/0", 'ops.alu.interval_cycles = "2/0": must be a number above 0 and up to 1000000, or an'),
    ("ops.alu.interval_cycles", 0, "ops.alu.interval_cycles = 0: must be a number above 0 and up to 1000000, or an exact"),
    ("ops.alu.interval_cycles", False, "ops.alu.interval_cycles = false: must be a number above 0"),
    ("ops.alu.interval_cycles", math.nan, "ops.alu.interval_cycles = NaN: must be a number above 0"),
    ("ops.alu", 4, "ops.alu = 4: must be a table of latency_cycles, interval_cycles"),
    ("ops.exit", None, "ops.exit is missing: every chip must have alu, sfu"),
    ("ops.sfu.latency_to", {"alx": 9}, "ops.sfu.latency_to.alx = 9: the key must be one of alu, sfu"),
    ("ops.alu.taken_gap_cycles", 9, "ops.alu.taken_gap_cycles = 9: must be left out, since only ops.branch has it"),
    ("ops.sfu.conflict_latency_cycles", 9, "ops.sfu.conflict_latency_cycles = 9: must be left out, since only ops.smem has it"),
    ("memory.transaction_bytes", 33, "memory.transaction_bytes = 33: must be 32, 64 or 128"),
    ("memory.measured", 1, "memory.measured = 1: must be true or false"),
    ("memory.loads_per_warp", 0, "memory.loads_per_warp = 0: must be an integer from 1"),
    ("memory.distribution", "keplr", "memory.distribution = \"keplr\": latency: 'keplr' is unknown"),
    ("memory.contention.refined", [[4, 71]], "memory.contention.refined = [[4, 71]]: must be given together with"),
    ("memory.contention.refined", [[4, -1]], "memory.contention.refined[0][1] = -1: must be a number from 0.001 to 1e9"),
    ("memory.bandwidth_gbs", 999, "memory.bandwidth_gbs = 999: must be at most memory.pin_bandwidth_gbs = 192.3"),
    ("sm.max_warps", 16, "sm.max_block_warps = 32: must be at most sm.max_warps = 16"),
    ("sm.max_warp", 64, "sm.max_warp = 64: unknown key, did you mean 'max_warps'?; allowed here: schedulers"),
    ("paint", "green", 'paint = "green": unknown key; allowed here: name, title'),
]


def spoil(data: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        data = data[part]
    if value is None:
        del data[last]
    else:
        data[last] = value


@pytest.mark.parametrize(("key", "value", "says"), MISTAKES)
def test_each_mistake_is_named(kepler: dict[str, Any], key: str, value: Any, says: str) -> None:
    spoil(kepler, key, value)
    assert any(line.startswith(says) for line in errors_of(kepler)), errors_of(kepler)


def test_a_latency_below_zero_is_one_mistake(kepler: dict[str, Any]) -> None:
    spoil(kepler, "memory.latency_cycles", -500)
    assert errors_of(kepler) == ["memory.latency_cycles = -500: must be an integer from 1 to 1000000"]


def test_a_class_with_rates_has_one_latency_for_all_consumers(kepler: dict[str, Any]) -> None:
    """The results of its matrix instructions are ready after their interval, whoever reads them."""
    spoil(kepler, "ops.sfu.rates", {"f16_f32": 64})
    Gpu.from_dict(kepler)
    spoil(kepler, "ops.sfu.latency_to", {"alu": 8})
    assert errors_of(kepler) == ["ops.sfu.latency_to: must be left out of a class with rates"]


def test_all_mistakes_at_once(kepler: dict[str, Any]) -> None:
    """Wrong types do not hide unknown keys, and neither hides contradictions."""
    together = {
        key: (value, says) for key, value, says in MISTAKES if key != "ops.alu"
    }  # the last of each key
    together.pop("sm.max_warps")  # its last mistake is reported at another key
    for key, (value, _) in together.items():
        spoil(kepler, key, value)
    lines = errors_of(kepler)
    assert len(lines) == len(together) + 1  # refined is wrong in itself, and without refined_a_cycles
    for _, says in together.values():
        assert any(line.startswith(says) for line in lines), (says, lines)


def test_a_file_reports_its_path(tmp_path: Path) -> None:
    text = (params.params_dir() / "gpus" / "kepler.toml").read_text(encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(
        text.replace("sms = 8 ", "sms = -8 ").replace("banks = 32", "bank = 32"), encoding="utf-8"
    )
    with pytest.raises(GpuFileError) as caught:
        load_gpu(file)
    assert [line.split(" = ")[0].split(" is ")[0] for line in caught.value.errors] == [
        f"{file}: sms",
        f"{file}: shared.banks",
        f"{file}: shared.bank",
    ]


def test_inconsistent_chips_cannot_be_made(kepler: dict[str, Any]) -> None:
    del kepler["ops"]["exit"]
    with pytest.raises(ValidationError, match="every chip must have"):
        Gpu.model_validate(kepler)


def test_the_limits_of_a_chip_are_those_of_the_engine() -> None:
    assert (MAX_SCHEDULERS, MAX_WARPS) == (constants.MAX_SCHEDULERS, constants.MAX_WARPS)


def test_chips_are_frozen() -> None:
    gpu = load_gpu("kepler")
    with pytest.raises(ValidationError, match="frozen"):
        setattr(gpu, "sms", 9)  # noqa: B010


def test_more_operation_classes(kepler: dict[str, Any]) -> None:
    kepler["ops"]["fp64"] = copy.deepcopy(kepler["ops"]["alu"]) | {"interval_cycles": 0.1}
    gpu = Gpu.from_dict(kepler)
    assert set(gpu.ops) == {*OPS, "fp64"}
    assert gpu.ops["fp64"].interval_cycles == Fraction(1, 10)


class TestQueueOfAnotherChip:
    """A file that mixes the memory of one chip with the fitted queue of another would simulate a slower memory."""

    @staticmethod
    def file(folder: Path, **changes: str) -> Path:
        text = (params.params_dir() / "gpus" / "maxwell.toml").read_text(encoding="utf-8")
        for key, value in changes.items():
            text, count = re.subn(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.MULTILINE)
            assert count == 1
        path = folder / "copy.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def test_stages_slower_than_the_memory(self, tmp_path: Path) -> None:
        path = self.file(tmp_path, bandwidth_gbs="1400", pin_bandwidth_gbs="1555", sms="108", clock_ghz="1.41")
        with pytest.raises(GpuFileError) as error:
            load_gpu(path)
        lines = str(error.value).splitlines()
        for stage in ("crossbar_gbs", "dram_gbs"):
            (line,) = [line for line in lines if stage in line]
            rate = getattr(load_gpu("maxwell").memory.queue, stage)
            assert f"memory.queue.{stage} = {rate:g}: must be at least memory.bandwidth_gbs = 1400" in line
            assert "start from 1.1 times the bandwidth, and fit them with warpsim.analysis.calibration" in line

    def test_the_latency_of_another_chip(self, tmp_path: Path) -> None:
        path = self.file(tmp_path, latency_offset_cycles="-95.0")
        with pytest.raises(GpuFileError, match=r"latency_offset_cycles = -95: must be from -36\.8 to 36\.8.* start from 0"):
            load_gpu(path)
        old = path.read_text(encoding="utf-8").replace("latency_offset_cycles = -95.0", "base_latency_cycles = 375.0")
        path.write_text(old.replace("latency_cycles = 368", "latency_cycles = 466"), encoding="utf-8")  # of a file of 0.1
        with pytest.raises(GpuFileError, match=r"latency_offset_cycles = -91: must be from -46\.6"):
            load_gpu(path)

    def test_the_remedies_work(self, tmp_path: Path) -> None:
        path = self.file(tmp_path, bandwidth_gbs="1400", pin_bandwidth_gbs="1555", latency_offset_cycles="-95.0")
        rates = {"crossbar_gbs": 1540.0, "dram_gbs": 1540.0}
        queue = load_gpu("maxwell").memory.queue.model_copy(update={"latency_offset_cycles": 0.0, **rates})
        write_queue_parameters(path, queue)
        assert load_gpu(path).memory.queue == queue
        before = path.read_text(encoding="utf-8")
        with pytest.raises(GpuFileError, match="dram_gbs = 1000"):
            write_queue_parameters(path, queue.model_copy(update={"dram_gbs": 1000.0}))
        assert path.read_text(encoding="utf-8") == before


def test_a_bandwidth_in_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    head = 'name = "mine"\narchitecture = "sm_86"\nsms = 46\nclock_ghz = 1.7\n'
    path.write_text(f"{head}[memory]\nlatency_cycles = 500\nbandwidth_gbs = 400000\n", encoding="utf-8")
    with pytest.raises(GpuFileError, match=r"memory\.bandwidth_gbs = 400000: must be at most 1\.001e\+04, .* is it in GB/s\?"):
        load_gpu(path)


def test_classes_share_a_declared_unit(kepler: dict[str, Any]) -> None:
    shared = kepler | {"units": {"fma": {"scope": "sm"}}}
    for op in ("alu", "sfu"):
        del shared["ops"][op]["scope"]
        shared["ops"][op]["unit"] = "fma"
    gpu = Gpu.from_dict(shared)
    assert [gpu.unit_of(op) for op in ("alu", "sfu", "smem")] == ["fma", "fma", "smem"]
    assert (gpu.ops["alu"].scope, gpu.units_per_sm("alu"), gpu.units_per_sm("branch")) == ("sm", 1, 4)
    assert Gpu.from_dict(gpu.to_dict()) == gpu
    assert "units" not in load_gpu("kepler").to_dict()


def test_errors_of_units(kepler: dict[str, Any]) -> None:
    kepler["ops"]["alu"]["unit"] = "fma"
    assert errors_of(kepler) == ['ops.alu.unit = "fma": must be left out, since the chip has no table [units]']
    kepler["units"] = {"other": {"scope": "sm"}}
    assert errors_of(kepler) == ['ops.alu.unit = "fma": must be one of other']
    kepler["units"] = {"fma": {"scope": "sm"}, "sfu": {"scope": "sm"}}
    assert errors_of(kepler) == [
        'ops.alu.scope = "scheduler": must be left out, or that of units.fma',
        "units.sfu: must have another name than the class ops.sfu, which does not use it",
    ]
