"""Fitted values in chip files."""

import re
from pathlib import Path

import pytest

from warpsim.hardware import files as params
from warpsim.hardware.chip_file import write_queue_parameters
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
