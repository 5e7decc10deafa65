"""warpsim measure, as a command."""

import argparse
import json
import re
import shutil

import numpy as np
import pytest

from tests.measure.analytic_device import AnalyticDevice
from warpsim.analysis import measured_curve
from warpsim.cli import measure
from warpsim.cli.common import DONE, RequestError, WorkError
from warpsim.cli.logs import show_messages
from warpsim.frontends.errors import MissingToolError
from warpsim.frontends.sources import nvrtc
from warpsim.hardware.gpu import load_gpu
from warpsim.measure import benchmarks, device
from warpsim.measure.benchmarks import run_benchmarks
from warpsim.measure.session import QUICK


def command(*arguments):
    parser = argparse.ArgumentParser()
    measure.add(parser.add_subparsers(required=True))
    options = parser.parse_args(["measure", *map(str, arguments)])
    show_messages(options)
    return options.run(options)


@pytest.fixture
def found_at_once(monkeypatch):
    """The fit of the queue takes half a minute; here it finds the chip as it is."""
    found = measured_curve.CurveFit
    monkeypatch.setattr(measured_curve, "fit_measured", lambda gpu, curve: found(gpu, np.zeros(curve.bandwidth_gbs.size), 0.0))


def test_it_measures_and_writes_chip_latencies_and_record(tmp_path, monkeypatch, capsys, found_at_once):
    monkeypatch.setattr(device, "CudaDevice", lambda number: AnalyticDevice())
    assert command("-o", tmp_path / "mygpu.toml", "--quick") == DONE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mygpu.record", "mygpu.toml", "mygpu_latency.csv"]
    printed = capsys.readouterr()
    assert "ops.fadd.latency_cycles = 4.0 cycles" in printed.out and "wrote " in printed.out
    assert "chains of fadd" in printed.err


def test_a_record_is_evaluated_again_without_a_gpu(tmp_path, capsys):
    run_benchmarks(AnalyticDevice(), QUICK).write(tmp_path / "r")
    assert command("-o", tmp_path / "again.toml", "--from-record", tmp_path / "r") == DONE
    chip = (tmp_path / "again.toml").read_text()
    assert re.search(r"dram_gbs = .*# fitted: latency against throughput", chip) and "crossbar_gbs" not in chip
    assert "the queue of the memory: rms error" in capsys.readouterr().err
    assert load_gpu(tmp_path / "again.toml").memory.queue.fit_rms_percent < 2


def test_values_as_json(tmp_path, capsys, found_at_once):
    run_benchmarks(AnalyticDevice(), QUICK).write(tmp_path / "r")
    capsys.readouterr()
    assert command("-o", tmp_path / "again.toml", "--from-record", tmp_path / "r", "--json") == DONE
    printed = json.loads(capsys.readouterr().out)
    latency = printed["values"]["ops.fadd.latency_cycles"]
    assert latency["value"] == 4.0 and latency["unit"] == "cycles" and latency["how"]
    assert isinstance(printed["values"]["barrier.curve"]["value"], list)
    assert str(tmp_path / "again.toml") in printed["files"] and isinstance(printed["doubts"], list)


def test_without_a_driver_the_message_says_what_is_needed(tmp_path, monkeypatch):
    def none(number):
        raise MissingToolError("no NVIDIA driver on this machine: libcuda.so.1 is not found")

    monkeypatch.setattr(device, "CudaDevice", none)
    with pytest.raises(RequestError, match="no NVIDIA driver on this machine"):
        command("-o", tmp_path / "x.toml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module, text", [("driver", "driver API"), ("nvrtc", "NVRTC")])
def test_without_the_extra_the_message_says_how_to_install_it(monkeypatch, module, text):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(device, "import_module", missing)
    monkeypatch.setattr(nvrtc, "import_module", missing)
    with pytest.raises(MissingToolError, match=rf"{text}.*pip install 'warpsim\[cuda\]'"):
        device.CudaDevice() if module == "driver" else nvrtc.nvrtc_version()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-o", "x.csv"], r"-o: path = 'x\.csv': a name of .* and the suffix \.toml"),
        (["-o", "no/where/x.toml"], "there is no folder no/where"),
        (["-o", "x.toml", "--from-record", "nowhere"], r"nowhere/record\.toml: not the head of a record"),
        (["-o", "x.toml", "--from-record", ""], r"record\.toml: not the head of a record"),
        (["-o", "x.toml", "--from-record", "r", "--record", "s"], "--record: must be left out with --from-record"),
        (["-o", "x.toml", "--from-record", "r", "--device", "0"], "--device: must be left out with --from-record"),
        (["-o", "x.toml", "--from-record", "r", "--quick"], "--quick: must be left out with --from-record"),
    ],
)
def test_a_wrong_request_is_refused(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=message):
        command(*arguments)


@pytest.mark.parametrize("name", ["x.toml", "x.record"])
def test_where_nothing_can_be_written_nothing_is_measured(tmp_path, monkeypatch, name):
    def measured(*arguments, **options):
        raise AssertionError("it was measured")

    monkeypatch.setattr(device, "CudaDevice", lambda number: AnalyticDevice())
    monkeypatch.setattr(benchmarks, "run_benchmarks", measured)
    (tmp_path / name).write_text("") if name == "x.record" else (tmp_path / name).mkdir()
    with pytest.raises(RequestError, match=f"{name}: must be a f"):
        command("-o", tmp_path / "x.toml")


def test_messages_name_no_file_that_is_gone(whole, tmp_path, capsys, found_at_once):
    assert command("-o", tmp_path / "x.toml", "--from-record", whole) == DONE
    notes = [line for line in capsys.readouterr().err.splitlines() if "values are those of" in line]
    assert len(notes) == 1 and str(tmp_path / "x.toml") in notes[0]
    shutil.copytree(whole, tmp_path / "r")
    path = tmp_path / "r" / "single_loads.csv"
    path.write_text(re.sub(r"(?m)^(timing,\d+,\d+),\d+,", r"\1,90000,", path.read_text()))
    with pytest.raises(RequestError, match=r'memory\.distribution = "y_latency.csv": y_latency.csv: line 5 = "'):
        command("-o", tmp_path / "y.toml", "--from-record", tmp_path / "r")


def test_a_damaged_record_is_refused(tmp_path):
    run_benchmarks(AnalyticDevice(), QUICK, groups=("launch",)).write(tmp_path / "r")
    path = tmp_path / "r" / "turnover.csv"
    path.write_text(path.read_text().replace(",450.0", ",x"))
    with pytest.raises(RequestError, match="table turnover: it cannot be evaluated"):
        command("-o", tmp_path / "x.toml", "--from-record", tmp_path / "r")
    (tmp_path / "r" / "record.toml").write_text("format = 1\ntables = []\n")
    with pytest.raises(RequestError, match=r"the record lacks clock_ghz.*device\.sms"):
        command("-o", tmp_path / "x.toml", "--from-record", tmp_path / "r")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a whole record."""
    folder = tmp_path_factory.mktemp("whole") / "r"
    run_benchmarks(AnalyticDevice(), QUICK).write(folder)
    return folder


@pytest.mark.parametrize(
    "name, old, new, message",
    [
        ("record.toml", "sms = 12", "sms = 0", r"record\.toml: device\.sms = 0: must be an integer from 1"),
        ("record.toml", "sms = 12", "sms = 12.0", r"record\.toml: device\.sms = 12\.0: must be an integer from 1"),
        ("record.toml", "sms = 12", "", r"r: the record lacks device\.sms"),
        ("record.toml", "[device]", "[other]", r"r: table levels: .*device\.l2_bytes is missing"),
        ("record.toml", "begun = ", "ended = ", r"r: the record lacks run\.begun"),
        ("record.toml", "max_blocks_per_sm = 32", "max_blocks_per_sm = -1", r"device\.max_blocks_per_sm = -1: must be"),
        ("record.toml", "memory_clock_ghz = ", "memory_clock_ghz = nan # ", r"device\.memory_clock_ghz = NaN: must be a number"),
        ("record.toml", 'capability = "9.0"', 'capability = "x"', r"compute_capability = \"x\": must be text such as \"9\.0\""),
        ("record.toml", "tables = [", "tables = [[], ", "tables: the names of the tables"),
        ("record.toml", "sms = 12", "sms = " + "9" * 5000, r"record\.toml: not the head of a record"),
        ("record.toml", "sms = 12", "sms = " + "[" * 5000, r"record\.toml: not the head of a record"),
        ("clocks.csv", "20000000,", "-5,", r"r: table clocks: .*row 1: ns = -5: must be a number from 0"),
        ("chains.csv", "trips,cycles", "cycles,trips", r"table chains: .*columns = op .* cycles trips: must be op"),
        ("streams.csv", "\nread,", "\n", r"streams\.csv: row \d+ has 7 values: 8"),
        ("streams.csv", "\ntriad,1,32", "\n# triad,1,32", r"streams\.csv: rows = \d+: \d+ were written"),
        ("clocks.csv", "20000000,", "x,", r"r: table clocks: .*row 1: ns = \"x\": must be a number from 0"),
        ("clocks.csv", "20000000,", "9" * 400 + ",", r"r: table clocks: .*row 1: ns = 99"),
        ("chains.csv", "\nfadd,", "\n5,", r"r: table chains: .*row 1: op = 5: must be a word"),
        ("streams.csv", ",26843", ",0.00000", r"table streams: .*bandwidth_gbs\.init = 0 GB/s: must be above 0"),
        ("streams.csv", "\ninit,", '\n"' + "i" * 200_000 + '",', r"streams\.csv: not a table: field larger"),
    ],
)  # fmt: skip
def test_a_damaged_record_names_file_and_key_and_leaves_a_good_chip_alone(whole, tmp_path, name, old, new, message):
    shutil.copytree(whole, tmp_path / "r")
    path = tmp_path / "r" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    (tmp_path / "x.toml").write_text("good")
    (tmp_path / "x_latency.csv").write_text("good")
    with pytest.raises(RequestError, match=message) as error:
        command("-o", tmp_path / "x.toml", "--from-record", tmp_path / "r")
    assert str(tmp_path / "r") in str(error.value)
    assert {file.name: file.is_dir() or file.read_text() for file in tmp_path.iterdir()} == {
        "r": True, "x.toml": "good", "x_latency.csv": "good"
    }  # fmt: skip


def test_a_chip_that_does_not_load_is_not_written(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "r")
    path = tmp_path / "r" / "clocks.csv"
    path.write_text(re.sub(r"(?m)^(\w[\w-]*,\d+),.*", r"\1,1e12,1e12,1e12", path.read_text()))
    with pytest.raises(RequestError, match=r"r: no valid chip follows from the record: clock_ghz = 1000000000000\.0: must be"):
        command("-o", tmp_path / "x.toml", "--from-record", tmp_path / "r")
    assert [file.name for file in tmp_path.iterdir()] == ["r"]


def test_nothing_is_written_before_the_queue_is_fitted(whole, tmp_path, monkeypatch):
    def broken(chip, values):
        assert chip.is_file() and not (tmp_path / "x.toml").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "_fit_queue", broken)
    with pytest.raises(KeyboardInterrupt):
        command("-o", tmp_path / "x.toml", "--from-record", whole)
    assert not list(tmp_path.iterdir())


def test_a_failure_of_the_device_is_a_failure_of_the_work(tmp_path, monkeypatch):
    class Broken(AnalyticDevice):
        def launch(self, *arguments, **options):
            raise device.DeviceError("cuLaunchKernel: an illegal memory access was encountered")

    monkeypatch.setattr(device, "CudaDevice", lambda number: Broken())
    with pytest.raises(WorkError, match="illegal memory access"):
        command("-o", tmp_path / "x.toml", "--quick")
