"""The evaluation of measurements that others published, and of made-up ones with known parameters."""

from pathlib import Path

import numpy as np
import pytest

from warpsim.hardware.latency import load_distribution
from warpsim.measure.chipfile import latency_table, nearest
from warpsim.measure.core_values import chain_cycles
from warpsim.measure.derive import derive
from warpsim.measure.launch import turnovers, warp_delays
from warpsim.measure.memory_values import fit_contention
from warpsim.measure.record import Record, Table, read_record
from warpsim.measure.session import elapsed_by_sm, histogram
from warpsim.measure.values import quantile_of

MESS_H100_READS = [  # GB/s, ns: bsc-mem/Mess-benchmark, commit 9e98dc2c, H100 64 GB, 100 % reads
    (0.03, 365), (3.0, 366), (277, 379), (423, 386), (502, 394), (670, 402), (766, 412), (854, 422),
]  # fmt: skip

V100_DFMA = {  # (warps, ILP) -> cycles of the SM per instruction of a warp: te42kyfo/gpu-benches, commit 1c36d509, cuda-incore
    (1, 1): 8.67, (1, 2): 4.63, (1, 3): 4.57, (1, 4): 4.66, (1, 5): 4.63,
}  # fmt: skip

CHAIN_UNITS = dict.fromkeys(("op", "ways", "schedulers", "ilp", "repeats", "warps", "trips", "cycles"), "")


def chains(points, trips=10, loop=9):
    """A table of chains from (op, schedulers, ilp, warps) -> cycles of a step."""
    rows = [
        (op, 1, schedulers, ilp, repeats, warps, trips, round(trips * (repeats * step + loop)))
        for (op, schedulers, ilp, warps), step in points.items()
        for repeats in (16, 32)
    ]
    return Record({}, {"chains": Table("x", CHAIN_UNITS, rows)})


def test_contention_fits_exact_points():
    x = np.array([10.0, 500, 1000, 1500, 2000, 2500, 2900])
    a, b, c = fit_contention(x, 600 + 40 * x / (3100 - x))
    assert (a, b, c) == pytest.approx((600, 40, 3100), rel=0.01)


def test_contention_fits_noisy_points():
    random = np.random.default_rng(3)
    x = np.linspace(50, 2950, 30)
    y = (600 + 40 * x / (3100 - x)) * (1 + 0.005 * random.standard_normal(30))
    a, b, c = fit_contention(x, y)
    fitted = a + b * x / (c - x)
    # 30 points with 0.5 % of noise: the curve is known to 0.5 % / sqrt(30 / 3), and 4 of these are 0.7 %
    assert np.max(np.abs(fitted / (600 + 40 * x / (3100 - x)) - 1)) < 0.01


def test_contention_of_a_constant_latency_has_no_load_dependence():
    a, b, _ = fit_contention(np.arange(1.0, 9), np.full(8, 300.0))
    assert a == pytest.approx(300) and abs(b) < 1e-6


def test_contention_follows_a_published_curve():
    x, y = (np.array(column, dtype=float) for column in zip(*MESS_H100_READS, strict=True))
    a, b, c = fit_contention(x, y)
    assert np.max(np.abs((a + b * x / (c - x)) / y - 1)) < 0.015
    assert 360 < a < 370


def test_contention_needs_four_points():
    with pytest.raises(ValueError, match="3 points: at least 4"):
        fit_contention(np.arange(3.0), np.ones(3))


def test_published_dfma_times_give_latency_and_interval():
    points = {("dfma", 4, ilp, warps): cycles * ilp * warps for (warps, ilp), cycles in V100_DFMA.items()}
    points |= {("dfma", 4, 1, 16): 1.03 * 16, ("dfma", 1, 1, 4): 4.57 * 4}
    values = derive(chains(points))
    assert values["ops.dfma.latency_cycles"].value == pytest.approx(8.67, abs=0.01)  # 8 cycles, and the source's loop
    assert values["ops.dfma.interval_sm_cycles"].value == pytest.approx(1.03, abs=0.01)
    assert values["ops.dfma.scope"].value == "scheduler"


def test_a_shared_unit_is_told_from_one_for_each_scheduler():
    shared = derive(chains({("lds", 4, 1, 1): 23, ("lds", 4, 4, 32): 130, ("lds", 1, 4, 8): 33}))
    assert shared["ops.lds.scope"].value == "sm"
    own = derive(chains({("fadd", 4, 1, 1): 4, ("fadd", 4, 4, 32): 32, ("fadd", 1, 4, 8): 32}))
    assert own["ops.fadd.scope"].value == "scheduler"


def test_a_sum_of_operations_is_taken_apart():
    values = derive(chains({("rcp", 4, 1, 1): 27, ("fadd", 4, 1, 1): 4, ("cvt_f32_s32", 4, 1, 1): 30}))
    assert values["ops.rcp.latency_cycles"].value == 23
    assert values["ops.cvt_f32_s32.latency_cycles"].value == 15
    assert "ops.sin.latency_cycles" not in values
    assert "ops.rcp.latency_cycles" not in derive(chains({("rcp", 4, 1, 1): 27})), "what is subtracted was not measured"


def test_one_length_of_a_chain_is_not_enough():
    rows = [("fadd", 1, 4, 1, 16, 1, 10, 700)]
    assert chain_cycles(Table("x", CHAIN_UNITS, rows)) == {}


def test_quantiles_of_a_histogram():
    cycles, counts = np.array([300.0, 100.0, 200.0]), np.array([1.0, 2.0, 1.0])
    assert [quantile_of(cycles, counts, level) for level in (0.0, 0.5, 0.51, 0.75, 0.76, 1.0)] == [100, 100, 200, 200, 300, 300]
    assert histogram(np.array([5, 3, 5, 5], np.uint32)) == [(3, 1), (5, 3)]


def test_a_table_of_quantiles_has_the_mean_and_the_tail_of_the_samples(tmp_path):
    """Those of an H100 have two peaks, for the halves of L2."""
    record = read_record(Path(__file__).parents[2] / "experiments" / "hardware" / "h100.record")
    values = derive(record)
    (tmp_path / "x.csv").write_text(latency_table(record, values, "today"))
    table = load_distribution(tmp_path / "x.csv")
    points = record.tables["stream_chase"].where(every=4)
    less = values["memory.timing_cycles"].value + values["ops.imad_wide.latency_cycles"].value
    for row in (0, 5, 12):
        (point,) = points.where(gbs=table.loads_gbs[row]).column("point")
        samples = record.tables["stream_chase_samples"].where(point=int(point))
        cycles = np.repeat(samples.column("cycles") - less, samples.column("count"))
        assert table.mean(row) == pytest.approx(cycles.mean(), rel=0.005)
        assert table.quantile(0.99, row) == pytest.approx(np.quantile(cycles, 0.99), rel=0.005)


def test_elapsed_counts_only_sms_with_all_their_warps():
    rows = np.array([[10, 50, 0, 9], [12, 60, 0, 9], [10, 99, 1, 9]], np.uint64)
    assert elapsed_by_sm(rows, 2).tolist() == [50]
    assert elapsed_by_sm(rows, 1).tolist() == [89]


def test_turnover_matches_ends_and_starts_in_order_of_time():
    blocks = [(0, 100), (5, 90), (120, 220), (140, 230), (270, 300)]  # two places on one SM
    rows = np.array([(start, end, 7, 0) for start, end in blocks], np.uint64)
    assert turnovers(rows, 1, 2).tolist() == [120 - 90, 140 - 100, 270 - 220]
    two_warps = np.array([(0, 50, 1, 0), (6, 60, 1, 0), (80, 90, 1, 0), (90, 99, 1, 0)], np.uint64)
    assert turnovers(two_warps, 2, 1).tolist() == [20]
    assert warp_delays(two_warps, 2).tolist() == [0, 8]


@pytest.mark.parametrize(
    "value, wanted", [(1.03, 1), (0.49, 0.5), (2.1, 2), (7.9, 8), (2.9, 2.9), (66.0, 64), (0.3, 0.3), (5.333, 5.33)]
)
def test_intervals_round_to_powers_of_two_where_they_are_near(value, wanted):
    assert nearest(value) == wanted


def test_a_record_without_tables_has_no_values():
    assert derive(Record({}, {})) == {}


def halves(first):
    """A record of one SM whose first pass has these latencies; the second pass takes 280 to 300 cycles, the timing 2."""
    units = {"sm": "", "pass": "", "cycles": "", "count": ""}
    second = [(5, "second", cycles, 10) for cycles in (280, 290, 300)]
    timing = Table("x", {"level": "", "footprint": "", "sm": "", "cycles": "", "count": ""}, [("timing", 4096, 0, 2, 100)])
    rows = [(5, "first", cycles, count) for cycles, count in first] + second
    return derive(Record({}, {"single_loads": timing, "l2_halves": Table("x", units, rows)}))


def test_the_far_half_of_l2_is_what_only_the_first_pass_waits_for():
    found = halves([(285, 30), (460, 5), (480, 5)])
    assert found["memory.l2_far_latency_cycles"].value == 468
    assert found["memory.l2_far_share"].value == [(5, 0.25)]


def test_an_l2_of_one_part_has_no_far_half():
    assert "memory.l2_far_latency_cycles" not in halves([(285, 40)])
