"""Fitted values in chip files."""

import re
import shutil
from pathlib import Path

import pytest

from warpsim.hardware import files as params
from warpsim.hardware.chip_file import check_fitted, write_fitted_memory, write_queue_parameters
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.memory import Queue


class TestWriteQueueParameters:
    FIT = Queue(
        latency_offset_cycles=-1.5,
        crossbar_servers=21,
        crossbar_gbs=174.25,
        dram_servers=24,
        dram_gbs=176.5,
        fit_rms_percent=1.75,
    )

    TABLE = """[memory.queue]  # two stages
latency_offset_cycles = 9.0  # start value: a of V Table 6.5
crossbar_servers = 22        # start value
crossbar_gbs = 174.25        # mine # own
# between
dram_servers = 22            # start value: as the crossbar
dram_gbs = 83.4

"""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        text = (params.params_dir() / "gpus" / "g80.toml").read_text(encoding="utf-8")
        head, tail = text.split("[memory.queue]")
        file = tmp_path / "chip.toml"
        file.write_text(head + self.TABLE + tail[tail.index("[memory.contention]") :], encoding="utf-8")
        return file

    def test_only_the_table_changes(self, file: Path) -> None:
        before = file.read_text(encoding="utf-8")
        gpu = load_gpu(file)
        write_queue_parameters(file, self.FIT)
        expected = """[memory.queue]  # two stages
latency_offset_cycles = -1.5  # fitted: experiments/memory_contention
crossbar_servers = 21        # fitted: experiments/memory_contention
crossbar_gbs = 174.25        # mine # own
# between
dram_servers = 24            # fitted: experiments/memory_contention
dram_gbs = 176.5  # fitted: experiments/memory_contention
fit_rms_percent = 1.75  # fitted: experiments/memory_contention

"""
        assert file.read_text(encoding="utf-8") == before.replace(self.TABLE, expected)
        memory = gpu.memory.model_copy(update={"queue": self.FIT})
        assert load_gpu(file) == gpu.model_copy(update={"memory": memory})
        assert [path.name for path in file.parent.iterdir()] == ["chip.toml"]

    def test_a_value_may_be_written_in_any_way(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8").replace("crossbar_gbs = 174.25 ", '"crossbar_gbs"=8.34E1 ')
        file.write_text(text, encoding="utf-8")
        write_queue_parameters(file, self.FIT)
        assert re.search(r'"crossbar_gbs"=174\.25 +# fitted', file.read_text(encoding="utf-8"))
        assert load_gpu(file).memory.queue == self.FIT

    def test_a_parameter_of_earlier_versions_is_replaced(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8").replace("latency_offset_cycles = 9.0 ", "base_latency_cycles = 453.0 ")
        file.write_text(text, encoding="utf-8")
        write_queue_parameters(file, self.FIT)
        assert "base_latency_cycles" not in file.read_text(encoding="utf-8")
        assert load_gpu(file).memory.queue == self.FIT

    def test_again_and_without_an_error(self, file: Path) -> None:
        write_queue_parameters(file, self.FIT)
        once = file.read_text(encoding="utf-8")
        write_queue_parameters(file, self.FIT)
        assert file.read_text(encoding="utf-8") == once
        write_queue_parameters(file, self.FIT.model_copy(update={"fit_rms_percent": None}))
        assert load_gpu(file).memory.queue.fit_rms_percent is None
        assert "fit_rms_percent" not in file.read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            ("[memory.queue]", "[memory.queues]", "memory.queue is missing: must be a table of latency_offset_cycles"),
            ("dram_gbs = ", "dram_gbs : ", "not a TOML file"),
            ("sms = 16", "sms = -16", "sms = -16: must be an integer"),
        ],
    )
    def test_a_file_that_would_not_load_stays(self, file: Path, old: str, new: str, says: str) -> None:
        text = file.read_text(encoding="utf-8").replace(old, new)
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=re.escape(says)):
            write_queue_parameters(file, self.FIT)
        assert file.read_text(encoding="utf-8") == text


HEAD = 'name = "mine"\narchitecture = "sm_70"\nsms = 80\nclock_ghz = 1.38\n'


class TestWriteFittedMemory:
    def test_a_table_beside_the_chip_is_found_from_another_folder(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        base, file = tmp_path / "sub" / "base.toml", tmp_path / "mine.toml"
        shutil.copy(params.params_dir() / "latency" / "h100.csv", tmp_path / "sub" / "own.csv")
        base.write_text(f'{HEAD}[memory]\nlatency_cycles = 440\nbandwidth_gbs = 860\ndistribution = "own.csv"\n')
        memory = load_gpu(base).memory
        write_fitted_memory(file, base, memory, "fitted", "")
        assert 'distribution = "sub/own.csv"' in file.read_text()
        assert load_gpu(file).latency_table == load_gpu(base).latency_table
        write_fitted_memory(tmp_path / "sub" / "other.toml", base, memory, "fitted", "")
        assert 'distribution = "own.csv"' in (tmp_path / "sub" / "other.toml").read_text()

    def test_quantiles_stay_those_of_the_latency_at_which_they_were_measured(self, tmp_path: Path) -> None:
        base, file = tmp_path / "base.toml", tmp_path / "mine.toml"
        base.write_text(f"{HEAD}[memory]\nlatency_cycles = 440\nbandwidth_gbs = 860\nmeasured = true\n")
        memory = load_gpu(base).memory.model_copy(update={"latency_cycles": 500})
        write_fitted_memory(file, base, memory, "fitted", "")
        assert load_gpu(file).memory.measured_latency_cycles == 440
        assert load_gpu(file).memory.measured_shift_cycles == 60

    def test_a_fitted_value_that_stays_the_same_names_the_fit(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.toml"
        write_fitted_memory(file, "v100", load_gpu("v100").memory, "fitted: c.csv", "")
        for key in ("latency_cycles", "latency_offset_cycles", "dram_servers", "dram_gbs"):
            assert re.search(rf"(?m)^{key} = .* # fitted: c.csv$", file.read_text())
        assert re.search(r"crossbar_servers = 64 +# assumed", file.read_text())

    def test_a_file_that_begins_with_a_byte_order_mark(self, tmp_path: Path) -> None:
        base, file = tmp_path / "base.toml", tmp_path / "mine.toml"
        base.write_text((params.params_dir() / "gpus" / "v100.toml").read_text(encoding="utf-8"), encoding="utf-8-sig")
        write_fitted_memory(file, base, load_gpu(base).memory, "fitted", "")
        assert load_gpu(file).memory == load_gpu(base).memory

    def test_no_name_of_a_file_ends_a_comment(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.toml"
        write_fitted_memory(file, "v100", load_gpu("v100").memory, "fitted: a\nb = 1\x07\udcff.csv", "")
        assert "# fitted: a?b = 1??.csv" in file.read_text(encoding="utf-8")
        assert load_gpu(file).memory == load_gpu("v100").memory

    @pytest.mark.parametrize(
        ("memory", "name", "says"),
        [
            ("memory = {latency_cycles = 440, bandwidth_gbs = 860}", "x.toml", r"memory = {...}: must be a table [memory]"),
            ("[memory]\nlatency_cycles = 440\nbandwidth_gbs = 860", "\udcff.toml", "the name must be valid Unicode"),
        ],
    )
    def test_what_cannot_be_written_is_refused_before_the_fit(self, tmp_path: Path, memory: str, name: str, says: str) -> None:
        base = tmp_path / "base.toml"
        base.write_text(f"{HEAD}{memory}\n")
        with pytest.raises(ValueError, match=re.escape(says)):
            check_fitted(tmp_path / name, base)
