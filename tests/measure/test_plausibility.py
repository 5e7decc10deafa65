"""What looks wrong is said, and a good measurement raises no doubt."""

import pytest

from tests.measure.analytic_device import AnalyticDevice
from warpsim.measure.benchmarks import run_benchmarks
from warpsim.measure.derive import derive
from warpsim.measure.plausibility import doubts
from warpsim.measure.record import Record, Table
from warpsim.measure.session import QUICK
from warpsim.measure.values import Value


def test_a_good_measurement_raises_no_doubt_but_that_of_its_few_warps():
    record = run_benchmarks(AnalyticDevice(), QUICK)
    assert [doubt for doubt in doubts(record, derive(record)) if "bandwidth" not in doubt] == []


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("ops.iadd3.latency_cycles", 0.4, "optimised away"),
        ("ops.fadd.interval_sm_cycles", 0.1, "four schedulers"),
        ("memory.timing_cycles", 70, "read slowly"),
        ("memory.bandwidth_gbs.read", 4000.0, "from 70 to 100 % of the pins' 3352"),
        ("memory.bandwidth_gbs.copy", 1000.0, "from 70 to 100 % of the pins' 3352"),
    ],
)
def test_an_implausible_value_is_named(name, value, message):
    record = Record({"device": {"memory_clock_ghz": 2.619, "memory_bus_bits": 5120}})
    (doubt,) = doubts(record, {name: Value(value, "", "")})
    assert doubt.startswith(f"{name} = {value:g}: ") and message in doubt


def test_levels_in_the_wrong_order_and_a_cold_tlb_are_named():
    values = {"memory.l1_latency_cycles": Value(300, "", ""), "memory.l2_latency_cycles": Value(200, "", "")}
    (doubt,) = doubts(Record({}), values)
    assert doubt == "memory.l1_latency_cycles = 300: below memory.l2_latency_cycles = 200 is expected"
    rows = [("dram", 64 * 2**20, 600.0), ("dram", 2**30, 750.0), ("dram", 2**32, 900.0)]
    (doubt,) = doubts(Record({}), {"memory.single_loads": Value(rows, "", "")})
    assert "750 cycles in 1024 MiB, 600 in 64 MiB" in doubt


def test_a_clock_that_rose_is_named():
    rows = [("warm-up", 1, 0.3, 0.3, 0.3), ("core", 1, 1.7, 1.7, 1.7), ("levels", 1, 1.98, 1.98, 1.98)]
    table = Table("x", dict.fromkeys(("label", "ns", "median_ghz", "least_ghz", "greatest_ghz"), ""), rows)
    (doubt,) = doubts(Record({}, {"clocks": table}), {})
    assert doubt.startswith("clocks: from 1.7 to 1.98 GHz")
