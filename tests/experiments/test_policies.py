"""experiments/policies: pairs of runs, differences and their intervals."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import warpsim as ws
from warpsim.cli.experiment import experiments_dir
from warpsim.results.statistics import half_width

RUN = runpy.run_path(str(Path(experiments_dir()) / "policies" / "run.py"))


def made_up_rates():
    base = np.array([1.0, 2.0, 4.0, 1.0])
    rates = {}
    for chip in ("v100", "a100"):
        for kernel, gain in (("fast", 1.1), ("same", 1.0)):
            rates[chip, kernel, "lrr"] = base
            rates[chip, kernel, "gto"] = gain * base
            rates[chip, kernel, "gty"] = base * np.array([0.9, 1.1, 0.9, 1.1])
    return rates


def test_differences_are_those_of_pairs():
    found = RUN["differences"](made_up_rates())
    assert len(found) == 8 and all(policy != "lrr" for _, _, policy in found)
    assert found["v100", "fast", "gto"].values == pytest.approx([10] * 4)
    noisy = found["v100", "same", "gty"]
    assert noisy.mean == pytest.approx(0) and noisy.half == pytest.approx(half_width([-10, 10, -10, 10]))
    assert noisy.strict == pytest.approx(half_width([-10, 10, -10, 10], 1 - 0.05 / 8))


def test_tables_count_what_is_larger_than_its_interval():
    found = RUN["differences"](made_up_rates())
    second = {key: one for key, one in found.items() if abs(one.mean) > one.half}
    assert set(second) == {("v100", "fast", "gto"), ("a100", "fast", "gto")}
    gto, gty = RUN["summary"](found, second)
    assert gto["confirmed by other seeds"] == "2: 2 faster, 0 slower" and gto["of these above 1 %"] == "2"
    assert gty["confirmed by other seeds"].startswith("0:")
    assert [row["kernel"] for row in RUN["confirmed"](found, second)] == ["fast", "fast"]
    opposite = {key: RUN["Difference"](-one.values, 2) for key, one in second.items()}
    assert RUN["confirmed"](found, opposite) == []
    v100, a100 = RUN["by_chip"](found, {(chip, "fast"): 3.0 for chip in ("v100", "a100")} | {("a100", "same"): 2.0})
    assert v100["gto against lrr, mean over kernels, %"] == "+5.00 ± 0.00"
    assert a100["shortest window, lifetimes of a warp"] == "2.0 (same)"
    assert len(RUN["figure"](found).axes) == 2


def test_policies_of_a_point_are_pairs():
    chips = {"a100": "sm_80"}
    rates, lifetimes = RUN["simulate_all"](["vabs"], replicates=2, chips=chips)
    assert lifetimes["a100", "vabs"] > 20
    assert list(rates) == [("a100", "vabs", policy) for policy in ("lrr", "gto", "gty")]
    assert all(values.shape == (2,) for values in rates.values())
    found = RUN["differences"](rates)
    assert max(abs(one.mean) for one in found.values()) < 10
    found["a100", "vabs", "gto"] = RUN["Difference"](np.array([1.0, 1.0]), 1)
    del found["a100", "vabs", "gty"]
    repeated = RUN["again"](found, replicates=2, chips=chips)
    assert list(repeated) == [("a100", "vabs", "lrr"), ("a100", "vabs", "gto")]
    assert not set(repeated["a100", "vabs", "lrr"]) & set(rates["a100", "vabs", "lrr"])


def test_shortened_kernels_exist_and_spans_have_limits():
    assert set(RUN["SHORTER"]) <= set(ws.list_kernels())
    warmup, window, lifetime = RUN["spans"](ws.load_gpu("a100"), RUN["load"]("vabs", "sm_80"))
    assert (warmup, window) == (4_000, 30_000) and lifetime < 2_000
