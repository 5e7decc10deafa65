"""experiments/pipeline: the statements of its page about the tables of L."""

import runpy
from pathlib import Path

import pytest

import warpsim
from warpsim.models.lemeire import pipeline

RUN = runpy.run_path(str(Path(warpsim.__file__).resolve().parents[1] / "experiments" / "pipeline" / "run.py"))
CHIPS = [pipeline.load_pipelines(name) for name in RUN["CHIPS"]]


def test_the_occupancies_and_table_1_are_those_of_the_paper():
    rows = list(RUN["configurations"](CHIPS))
    assert len(rows) == 6
    assert all(row["L"] == row["here"] for row in rows)


def test_fadd_on_pascal_loses_time_because_it_is_checked_again_a_cycle_later():
    fermi, pascal = (RUN["against_equation_1"](chip, "fadd")["here: error, %"] for chip in CHIPS)
    assert fermi == "+0.00 ± 0.00"
    mean, spread = map(float, pascal.split(" ± "))
    assert (mean, spread) == (-2.05, 3.61)


def test_bank_conflicts_attain_the_bound_of_local_memory():
    curves = RUN["matrix_multiplication"](CHIPS[:1], 32, 1)
    rows = {row["kernel"]: row for row in RUN["bounds"](CHIPS[:1], curves)}
    assert len(curves) == 2 * (8 + 6)
    for kernel in ("mmul08, conflicts", "mmul16, conflicts"):
        assert rows[kernel]["bound, Gflop/s"] == "32 (local memory)"
        assert float(rows[kernel]["best / bound"]) == pytest.approx(0.96, abs=0.04)
    figure = RUN["figure"](CHIPS[:1] * 2, curves)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == list(rows)
