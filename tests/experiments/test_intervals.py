"""experiments/intervals: what the intervals of predicted times are made of, and how often they held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.experiment_modules import modules_of
from warpsim.simulation.predictions import prediction_interval

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def modules():
    return modules_of("intervals", "compared", "run")


def test_the_file_and_the_page_are_of_the_same_kernels(modules, tmp_path):
    """Without results of other experiments, the file is made of itself, and of the list of public sources."""
    compared, run = modules
    rows = compared.compared_in(tmp_path)
    again = compared.compared_in(tmp_path)
    assert rows == again and {one.origin for one in rows} == {"report", "source"}
    lines = compared.PREDICTIONS.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(rows) + 1
    assert run.table(rows) in (EXPERIMENTS / "intervals" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("origin", ["report", "source"])
def test_the_interval_holds_the_kernels_that_it_is_made_of(modules, tmp_path, origin):
    ratios = [one.ratio for one in modules[0].compared_in(tmp_path) if one.origin == origin]
    at = prediction_interval(100.0, origin)
    inside = sum(at.low <= 100.0 * ratio <= at.high for ratio in ratios)
    assert at.kernels == len(ratios) and 0.9 <= inside / len(ratios) < 0.95


def test_results_of_another_experiment_replace_those_of_the_file(modules, tmp_path):
    compared, _ = modules
    (tmp_path / "worklogs").mkdir()
    text = "gpu,kernel,published,simulated,half_width,sampling\na6000,k,10.0,8.0,0.1,all\na6000,k,10.0,9.0,0.1,all\n"
    (tmp_path / "worklogs" / "worklogs.csv").write_text(text, encoding="utf-8")
    (one,) = (one for one in compared.compared_in(tmp_path) if one.set == "worklogs")
    assert (one.gpu, one.kernel, one.launches, one.ratio) == ("a6000", "k", 2, 0.85)  # the time is 0.85 of the simulated one
