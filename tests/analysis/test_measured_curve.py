"""Curves of a user: reading, the fit of the queue, and the chip file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.cases import small_gpu
from warpsim.analysis import measured_curve
from warpsim.analysis.calibration import curve
from warpsim.analysis.measured_curve import CurveError, CurveFit, MeasuredCurve, errors, fit_measured, read_curve, write_fitted
from warpsim.hardware.files import params_dir
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.memory import Contention

GPU = small_gpu(
    memory={
        "latency_cycles": 400, "bandwidth_gbs": 100.0,
        "queue": {"crossbar_servers": 8, "crossbar_gbs": 400.0, "dram_servers": 8, "dram_gbs": 110.0},
    }
)  # fmt: skip
WARPS = (1, 2, 4, 8, 12, 16)


def test_the_fit_finds_the_queue_of_the_simulator() -> None:
    truth = GPU.model_copy(update={"memory": GPU.memory.model_copy(update={"latency_cycles": 460})})
    found = curve(truth, WARPS, cycles=20_000, seed=7)
    measured = MeasuredCurve(found["bandwidth"], warps=np.array(WARPS))
    fit = fit_measured(GPU, measured, factors=(1.0,), cycles=10_000, most_runs=25)
    assert abs(fit.gpu.memory.latency_cycles - 460) < 14
    assert fit.rms_percent < 3
    memory = fit.gpu.memory
    assert memory.contention.a_cycles == pytest.approx(memory.latency_cycles + memory.queue.latency_offset_cycles)
    assert (memory.contention.c_gbs, memory.contention.refined) == (memory.queue.dram_gbs, None)
    assert np.abs(fit.errors_percent).max() < 8


def test_latencies_at_more_load_than_one_load_of_each_warp_attains() -> None:
    """The most warps, with one load of each in flight, attain half of the bandwidth; a benchmark can have more in flight."""
    queue = {"crossbar_servers": 8, "crossbar_gbs": 32.0, "dram_servers": 8, "dram_gbs": 9.0}
    chip = small_gpu(memory={"latency_cycles": 400, "bandwidth_gbs": 8.2, "pin_bandwidth_gbs": 10.0, "queue": queue})
    alone = curve(chip, [chip.sm.max_warps], cycles=20_000)["bandwidth"][0]
    found = [curve(chip, [warps], cycles=20_000, seed=7, loads=4) for warps in range(1, 9)]
    measured = MeasuredCurve(*(np.concatenate([one[name] for one in found]) for name in ("bandwidth", "memory_latency")))
    assert measured.bandwidth_gbs.max() > 1.3 * alone
    assert np.abs(errors(chip, measured)).max() < 0.06


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "columns = none: must be"),
        ("a,b\n1,2\n", "columns = a, b: must be"),
        ("warps,bandwidth_gbs\n", "points with different warps = 0: must be at least 3"),
        ("warps,bandwidth_gbs\n1,2\n2,4\n", "points with different warps = 2: must be at least 3"),
        ("bandwidth_gbs,latency_ns\n1,200\n1,210\n1,220\n2,300", "points with different bandwidth_gbs = 2: must be at least 3"),
        ("bandwidth_gbs,latency_cycles\n1,900\n2,500\n3,400\n", "latency at 3 GB/s = 400 cycles: must be .* 1 GB/s, 900"),
        ("warps,bandwidth_gbs\n1,2\n2\n4,8\n", "point 2 = 2: must be 2 numbers"),
        ("warps,bandwidth_gbs\n1,2\n2,x\n4,8\n", "point 2, bandwidth_gbs = x: must be a number above 0"),
        ("warps,bandwidth_gbs\n1,2\n2,nan\n4,8\n", "bandwidth_gbs = nan: must be"),
        ("warps,bandwidth_gbs\n1,2\n2,3\n99,8\n", "warps = 99: must be an integer from 1 to 16"),
        ("warps,bandwidth_gbs\n1,2\n2.5,3\n9,8\n", "warps = 2.5: must be an integer"),
    ],
)
def test_wrong_files_are_refused(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "curve.csv"
    file.write_text(text)
    with pytest.raises(CurveError, match=says):
        read_curve(file, GPU)


def test_nanoseconds_become_cycles(tmp_path: Path) -> None:
    file = tmp_path / "curve.csv"
    file.write_text("# a comment\nbandwidth_gbs,latency_ns\n1,300\n2,310\n3,320\n")
    h100 = load_gpu("h100")
    latency = read_curve(file, h100).latency_cycles
    assert latency is not None
    assert latency.tolist() == pytest.approx([594.0, 613.8, 633.6])


def test_a_curve_that_does_not_tell_the_servers_says_so(tmp_path: Path) -> None:
    """Far below the sustained bandwidth, loads hardly wait, whatever the number of servers."""
    slow = MeasuredCurve(np.array([0.01, 0.02, 0.03]), np.array([400.0, 401.0, 402.0]))
    fit = fit_measured(GPU, slow, factors=(1.0, 2.0), cycles=2_000, most_runs=8)
    assert (fit.as_good, sorted(fit.tried)) == ((8, 16), [8, 16])
    assert [doubt.partition(":")[0] for doubt in fit.doubts] == [f"dram_servers = {fit.gpu.memory.queue.dram_servers}, of 8, 16"]
    write_fitted(tmp_path / "x.toml", "v100", replace(fit, gpu=load_gpu("v100")), "c.csv")
    text = (tmp_path / "x.toml").read_text()
    assert re.search(r"dram_gbs = .* # fitted: c.csv, 3 points, rms .* %; 8, 16.* servers fit as well", text)


@pytest.mark.parametrize(("points", "good"), [(3, (96, 192, 384, 768)), (10, (96, 192)), (30, (96,))])
def test_fewer_points_tell_servers_apart_less_well(points: int, good: tuple[int, ...]) -> None:
    """The errors of a curve with 1 % of noise: the true number is 170, and 192 the nearest that was tried."""
    assert measured_curve._as_good({96: 1.17, 192: 1.4, 384: 2.1, 768: 4.0}, points) == good


def test_parameters_at_a_limit_of_the_search_are_doubted() -> None:
    found = curve(GPU, (1, 2, 4, 8, 16), cycles=5_000)
    steep = MeasuredCurve(found["bandwidth"], found["memory_latency"] * np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    fit = fit_measured(GPU, steep, factors=(1.0,), cycles=2_000, most_runs=30)
    assert [doubt.partition(" =")[0] for doubt in fit.doubts] == ["rms error", "unloaded latency"]
    assert "limit of the search, from 0.7 to 1.3 times" in fit.doubts[1]


def test_the_order_of_the_points_does_not_matter() -> None:
    """Two measurements at the least bandwidth: neither of them alone is where the search begins."""
    gbs, cycles = np.array([1.0, 1.0, 2.0, 3.0]), np.array([400.0, 600.0, 510.0, 520.0])
    fits = [
        fit_measured(GPU, MeasuredCurve(gbs[order], cycles[order]), factors=(1.0,), cycles=1_000, most_runs=5)
        for order in ([0, 1, 2, 3], [1, 0, 2, 3], [3, 2, 1, 0])
    ]
    assert fits[0].gpu == fits[1].gpu == fits[2].gpu


def test_points_of_equal_occupancy_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def counted(gpu: Gpu, occupancies: list[int], **options: int) -> dict[str, np.ndarray]:
        runs.extend(occupancies)
        return curve(gpu, occupancies, **options)

    monkeypatch.setattr(measured_curve, "curve", counted)
    measured = MeasuredCurve(np.array([2.0, 1.0, 1.1, 3.0]), warps=np.array([8, 4, 4, 12]))
    error = errors(GPU, measured, cycles=1_000)
    assert runs == [4, 8, 12]
    assert error[2] == pytest.approx(error[1] - np.log(1.1))


def test_saturated_curves_and_small_bandwidths_are_refused() -> None:
    flat = MeasuredCurve(np.array([98.0, 99.0, 100.0]), np.array([400.0, 500.0, 600.0]))
    with pytest.raises(CurveError, match="sustained 100 GB/s = 0: must be at least 3"):
        fit_measured(GPU, flat)
    with pytest.raises(CurveError, match="sustained bandwidth = 50 GB/s: must be at least the highest of the curve, 100"):
        fit_measured(GPU, flat, sustained_gbs=50.0)


def test_the_file_names_its_source(tmp_path: Path) -> None:
    v100 = load_gpu("v100")
    queue = v100.memory.queue.model_copy(update={"dram_servers": 99, "fit_rms_percent": 1.5})
    memory = v100.memory.model_copy(update={"latency_cycles": 450, "queue": queue})
    fit = CurveFit(v100.model_copy(update={"memory": memory}), np.array([0.5, np.nan, 1.0]), 1.5)
    file = tmp_path / "mine.toml"
    write_fitted(file, "v100", fit, "measured.csv")
    assert (load_gpu(file).memory.latency_cycles, load_gpu(file).memory.queue) == (450, queue)
    assert re.search(r"dram_servers = 99 +# fitted: measured.csv, 2 points, rms 1.5 %", file.read_text())


def test_only_what_was_fitted_is_said_to_be(tmp_path: Path) -> None:
    base, file = tmp_path / "base.toml", tmp_path / "mine.toml"
    head = 'name = "base"\narchitecture = "sm_86"\nsms = 46\nclock_ghz = 1.7\n'
    base.write_text(head + "[memory]\nlatency_cycles = 500\nbandwidth_gbs = 400  # mine\n")
    memory = load_gpu(base).memory
    queue = memory.queue.model_copy(update={"dram_gbs": 500.0, "crossbar_gbs": 1200.0, "fit_rms_percent": 1.5})
    wider = memory.model_copy(update={"bandwidth_gbs": 450.0, "pin_bandwidth_gbs": 500.0, "queue": queue})
    for changed, given in ((memory.model_copy(update={"queue": queue}), None), (wider, None), (wider, 450.0)):
        fit = CurveFit(load_gpu(base).model_copy(update={"memory": changed}), np.array([1.0, 1.0, 1.0]), 1.5)
        write_fitted(file, base, fit, "c.csv", given)
        text = file.read_text()
        assert load_gpu(file).memory.model_dump(exclude={"contention"}) == changed.model_dump(exclude={"contention"})
        assert re.search(r"dram_gbs = 500.0 +# fitted: c.csv, 3 points", text)
        assert re.search(r"crossbar_gbs = 1200.0 +# not fitted: as in base.toml", text)
        if changed.bandwidth_gbs == 400:
            assert "crossbar_servers" not in text  # it follows from the bandwidth, as before
            assert "bandwidth_gbs = 400  # mine" in text and "pin_bandwidth" not in text
        else:
            how = "the highest of c.csv" if given is None else "given for the fit to c.csv"
            assert re.search(rf"bandwidth_gbs = 450.0 +# {how}", text)


@pytest.mark.parametrize("base", ["g80", "kepler"])
def test_the_contention_of_a_paper_is_replaced(base: str, tmp_path: Path) -> None:
    """What models know of a fitted chip is its latency, and not that of the chip from which the fit began."""
    memory, file = load_gpu(base).memory, tmp_path / "mine.toml"
    found = {"latency_cycles": 700, "contention": Contention(a_cycles=702.7, b_cycles=12.5, c_gbs=163.7)}
    changed = load_gpu(base).model_copy(update={"memory": memory.model_copy(update=found)})
    write_fitted(file, base, CurveFit(changed, np.array([1.0, 1.0, 1.0]), 1.5), "c.csv")
    assert load_gpu(file).memory == changed.memory
    assert re.search(r"a_cycles = 702.7 +# follows from", file.read_text()) and "refined =" not in file.read_text()


@pytest.mark.verify
def test_errors_of_a_fit_do_not_depend_on_chance(tmp_path: Path) -> None:
    """Occupancies at which the memory is saturated, of which one or the other has the higher bandwidth, leave no trace."""
    base, file = tmp_path / "base.toml", tmp_path / "curve.csv"
    head = 'name = "b"\narchitecture = "sm_86"\nsms = 46\nclock_ghz = 1.7\n'
    base.write_text(head + "[memory]\nlatency_cycles = 500\nbandwidth_gbs = 400\n")
    file.write_text("bandwidth_gbs,latency_cycles\n60,503\n160,512\n240,526\n310,552\n360,598\n")
    gpu = load_gpu(base)
    measured = read_curve(file, gpu)
    fit = fit_measured(gpu, measured)
    assert fit.rms_percent < 1
    for seed in (1, 2):
        again = 100 * np.expm1(errors(fit.gpu, measured, cycles=60_000, seed=seed))
        assert np.abs(again - fit.errors_percent).max() < 2.5


_AT = "bandwidth_gbs,"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (_AT + "latency_ns\n60,0.296\n160,0.301\n240,0.309", "latency = 0.58608 cycles, at 1.98 GHz: .* 10 to 20000; latency_ns"),
        (_AT + "latency_ns\n60,296e3\n160,301e3\n240,309e3", "latency = 586080 cycles, at 1.98 GHz: .* 10 to 20000; latency_ns"),
        (_AT + "latency_cycles\n60e3,500\n160e3,510\n240e3,600", r"bandwidth_gbs = 240000: must be at most 3.345e\+04, with"),
        (_AT + "latency_cycles\n1,500\n2,510\n3,6e8", "latency_cycles = 6e8: must be a number above 0, and up to 100000000"),
        (_AT + "latency_cycles\n60,200\n160,210\n240,220", "latency = 200 cycles, .*: must be at least 287, that of L2 of h100"),
        ("warps,bandwidth_gbs\n1,0.045\n2,0.09\n3,0.13", "latency = 743424 cycles, of bytes in flight over bandwidth, .* 20000"),
        ("warps,bandwidth_gbs\n1,90\n2,60\n3,40", "bandwidth at 3 warps = 40 GB/s: must be at least that at 1 warps, 90"),
        (_AT + "latency_cycles\n1," + "9" * 200_000, "must be a CSV file: field larger than field limit"),
        ("\0\x1b" * 500, r"columns = \?{197}\.\.\.: must be bandwidth_gbs with"),
    ],
)
def test_what_no_memory_does_is_refused(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "curve.csv"
    file.write_text(text)
    with pytest.raises(CurveError, match=says):
        read_curve(file, load_gpu("h100"))


def test_a_curve_above_the_pins_makes_a_chip_that_loads(tmp_path: Path) -> None:
    """Stores of a V100 are faster than its loads; the pins of the new chip have room for both."""
    v100, file = load_gpu("v100"), tmp_path / "mine.toml"
    for highest in (895.0, 1000.0):
        measured = MeasuredCurve(np.array([100.0, 300.0, 500.0, highest]), np.array([440.0, 450.0, 470.0, 900.0]))
        fit = fit_measured(v100, measured, factors=(1.0,), cycles=1_000, most_runs=4)
        write_fitted(file, "v100", fit, "c.csv")
        assert load_gpu(file).memory == fit.gpu.memory
        assert re.search(r"pin_bandwidth_gbs = .* # rule: bandwidth_gbs / 0.93, since v100.toml has less", file.read_text())


def test_a_file_of_warpsim_0_1_can_be_fitted(tmp_path: Path) -> None:
    """It has the latency of the queue in place of an offset."""
    base, file = tmp_path / "old.toml", tmp_path / "mine.toml"
    text = (params_dir() / "gpus" / "kepler.toml").read_text()
    base.write_text(re.sub(r"^latency_offset_cycles = .*", "base_latency_cycles = 301.0", text, flags=re.M))
    old = load_gpu(base)
    write_fitted(file, base, CurveFit(old, np.array([1.0, 1.0, 1.0]), 1.5), "c.csv")
    assert load_gpu(file).memory.queue == old.memory.queue and "base_latency_cycles" not in file.read_text()
