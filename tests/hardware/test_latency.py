"""Latency quantiles and contention curves, against the tables of V."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from warpsim.engine import constants
from warpsim.hardware import file_errors
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.latency import (
    BINS,
    LatencyDistribution,
    load_distribution,
)
from warpsim.reference import memory

LEVELS = [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
TABLE_6_6 = {
    3.8: [280, 292, 296, 300, 304, 324, 536],
    30: [272, 292, 296, 304, 312, 344, 588],
    58: [272, 292, 300, 308, 324, 372, 680],
    82: [272, 296, 304, 316, 344, 416, 756],
    107: [275, 300, 316, 344, 388, 476, 961],
    129: [275, 308, 352, 400, 468, 584, 1331],
    144: [278, 340, 416, 488, 572, 708, 1453],
}


@pytest.fixture(scope="module")
def kepler() -> LatencyDistribution:
    return load_distribution("kepler")


def test_table_6_6_is_complete(kepler: LatencyDistribution) -> None:
    assert kepler.name == "kepler"
    assert kepler.loads_gbs.tolist() == list(TABLE_6_6)
    assert kepler.levels.tolist() == LEVELS
    assert kepler.cycles.tolist() == list(TABLE_6_6.values())


def test_quantiles_at_the_levels_equal_the_table(kepler: LatencyDistribution) -> None:
    for row, cycles in enumerate(TABLE_6_6.values()):
        np.testing.assert_allclose(kepler.quantile(LEVELS, row), cycles, rtol=1e-12)


def test_means_agree_with_v(kepler: LatencyDistribution) -> None:
    """V 6.6 prints two of the means; the curve of V Table 6.5 is the mean of all of them."""
    assert kepler.mean(0) == pytest.approx(303, rel=0.002)
    assert kepler.mean(6) == pytest.approx(501, rel=0.01)
    curve = load_gpu("kepler").memory.contention.latency(kepler.loads_gbs)
    np.testing.assert_allclose([kepler.mean(row) for row in range(7)], curve, rtol=0.06)


def test_tails_are_exponential(kepler: LatencyDistribution) -> None:
    scale = (1453 - 708) / np.log(0.05 / 1e-7)
    u = 1 - 0.05 * np.exp(-np.array([0.0, 1.0, 2.0, 5.0]))
    np.testing.assert_allclose(kepler.quantile(u, 6), 708 + scale * np.array([0, 1, 2, 5]), rtol=1e-9)
    scale = (340 - 278) / np.log(0.05 / 1e-7)
    u = 0.05 * np.exp(-np.array([0.0, 1.0, 2.0, 5.0]))
    np.testing.assert_allclose(kepler.quantile(u, 6), 340 - scale * np.array([0, 1, 2, 5]), rtol=1e-9)
    assert kepler.quantile([0, 1e-9, 1 - 1e-9, 1], 6).tolist() == [278, 278, 1453, 1453]


def test_quantiles_increase(kepler: LatencyDistribution) -> None:
    u = np.linspace(0, 1, 10_001)
    for row in range(7):
        assert np.all(np.diff(kepler.quantile(u, row)) >= 0)


def test_table_for_draws(kepler: LatencyDistribution) -> None:
    """Draws from the table on a fine grid of probabilities have the mean and the quantiles of the distribution."""
    u = (np.arange(1_000_000) + 0.5) / 1_000_000
    for row in (0, 6):
        table = kepler.quantile_table(row)
        assert table.shape == (BINS + 1,) and table.dtype == np.float64
        draws = np.interp(u, np.linspace(0, 1, BINS + 1), table)
        assert draws.mean() == pytest.approx(kepler.quantile(u, row).mean(), abs=0.1)
        assert draws.mean() == pytest.approx(kepler.mean(row), abs=1e-3)
        np.testing.assert_allclose(np.quantile(draws, LEVELS[1:-1]), kepler.cycles[row, 1:-1], atol=0.2)
    np.testing.assert_allclose(kepler.quantile_table(3, bins=20)[[1, 10, 19]], [296, 316, 416], rtol=1e-12)


def test_scaled(kepler: LatencyDistribution) -> None:
    fermi = kepler.scaled(501)
    assert fermi.mean(0) == pytest.approx(501, rel=1e-12)
    np.testing.assert_allclose(fermi.cycles / kepler.cycles, 501 / kepler.mean(0), rtol=1e-12)
    assert fermi.loads_gbs.tolist() == kepler.loads_gbs.tolist()
    with pytest.raises(ValueError, match=r"to_mean = 0: must be above 0 cycles"):
        kepler.scaled(0)


def test_tables_have_the_bins_of_the_engine_and_of_the_reference() -> None:
    assert BINS == constants.BINS == memory.BINS


@pytest.mark.parametrize("u", [-0.1, 1.1, float("nan")])
def test_probability_out_of_range(kepler: LatencyDistribution, u: float) -> None:
    with pytest.raises(ValueError, match=r"probability = .*: must be from 0 to 1"):
        kepler.quantile(u)


def test_all_errors_of_a_distribution(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("# mine\nload,0,0.5,1\n3,1,2,x\n\n2,3,2,4\n5,1,2\n1,2,3,4\n1,2,3,4\n-1,2,3,4\n")
    with pytest.raises(file_errors.ParamsFileError) as caught:
        load_distribution(file)
    assert [line.removeprefix(f"{file}: ") for line in caught.value.errors] == [
        'line 2 = "load,0,0.5,1": must be load_gbs and at least four levels that increase from 0 to 1',
        'line 3 = "3,1,2,x": must be 4 numbers, with latencies above 0 and up to 1000000 that do not decrease',
        'line 5 = "2,3,2,4": must be 4 numbers, with latencies above 0 and up to 1000000 that do not decrease',
        'line 6 = "5,1,2": must be 4 numbers, with latencies above 0 and up to 1000000 that do not decrease',
        'line 8 = "1,2,3,4": the load in GB/s must be above 0 and increase from row to row',
        'line 9 = "-1,2,3,4": the load in GB/s must be above 0 and increase from row to row',
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"# nothing\n", "there must be a header and at least one row"), (b"\xff\xfe", "not a text file")],
)
def test_files_without_data(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_bytes(content)
    with pytest.raises(file_errors.ParamsFileError, match=says):
        load_distribution(file)


def test_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("load_gbs,0,0.5,0.9,1\n10,300,310,320,900\n", encoding="utf-8-sig")
    assert load_distribution(file).cycles.tolist() == [[300, 310, 320, 900]]


def test_unknown_distribution() -> None:
    with pytest.raises(ValueError, match=re.escape("'kepller' is unknown, did you mean 'kepler'?")):
        load_distribution("kepller")


def test_contention_of_kepler() -> None:
    """V 6.5 gives the curve per SM: 300 + 32 x / (0.1477 - x)."""
    contention = load_gpu("kepler").memory.contention
    gbs_per_ipc = 128 * 8 * 1.124
    x = np.array([0.0, 0.05, 0.1, 0.1338])
    expected = 300 + 32 * x / (0.1477 - x)
    np.testing.assert_allclose(contention.latency(x * gbs_per_ipc), expected, rtol=2e-3)
    assert contention.latency([170, 200]).tolist() == [np.inf, np.inf]


def test_refined_contention_of_g80() -> None:
    contention = load_gpu("g80").memory.contention
    assert contention.latency(40, refined=True) == pytest.approx(
        441 + 4 * 40 / 31 + 156 * 40 / 81
    )
    assert contention.latency(40) == pytest.approx(453 + 61 * 40 / 41)
    assert contention.latency(75, refined=True) == np.inf
    kepler = load_gpu("kepler").memory.contention
    assert kepler.latency(40, refined=True) == kepler.latency(40)
