"""Limits on the parameters of a chip prevent overflow in the engine; decimal intervals are read as fractions."""

import contextlib
import re
from fractions import Fraction

import numpy as np
import pytest

import warpsim as ws
from warpsim.engine import allocation, state
from warpsim.engine.bits import cause_of, end_of, reason_of, wait_until
from warpsim.engine.constants import MAX_WARPS, MOST_STEPS, REASON_BITS, UNKNOWN
from warpsim.hardware.fields import MAX_INTERVAL
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import load_distribution
from warpsim.hardware.operations import MOST_QUEUED
from warpsim.hardware.residency import resolve_launch
from warpsim.hardware.whatif import changed_gpu
from warpsim.simulation.encode import encode
from warpsim.simulation.limits import MAX_CYCLES, MAX_OCCUPIED, MAX_TICKS, MAX_WAIT, executions, most_in_flight_of_warp
from warpsim.simulation.point import make_point
from warpsim.units import MAX_SCHEDULERS

MAXWELL = ws.load_gpu("maxwell")
SHORT = {"warps": 64, "sms": 1, "warmup": 1_000, "cycles": 6_000}


@pytest.mark.parametrize("interval", [1, 4 / 3, 1.5, 5 / 3, 2 / 3, 0.1, "7/5"])
def test_a_decimal_interval_is_read_as_a_fraction(interval):
    gpu = changed_gpu(MAXWELL, {"alu.interval_cycles": interval, "issue.width": 1})
    exact = Fraction(interval).limit_denominator(1000) if isinstance(interval, float) else Fraction(interval)
    assert gpu.ops["alu"].interval_cycles == exact
    ipc = ws.simulate(gpu, ws.kernels.chain("alu", ilp=4), **SHORT).ipc.sel(op="alu").item()
    assert ipc == pytest.approx(min(4.0, 4 / float(exact)), rel=2e-3)


@pytest.mark.parametrize("interval", [0.123456, 1e-4, 2e6, float("nan"), "1/1001"])
def test_an_interval_that_is_no_small_fraction_is_rejected(interval):
    with pytest.raises(ws.InvalidPoint, match=r"interval_cycles = .*: must be a number above 0 and up to 1000000, or an"):
        changed_gpu(MAXWELL, {"alu.interval_cycles": interval})


def test_too_many_different_denominators_are_refused_before_the_run():
    gpu = changed_gpu(MAXWELL, {"alu.interval_cycles": "1/997", "sfu.interval_cycles": "1/991", "smem.interval_cycles": "1/983"})
    with pytest.raises(ValueError, match=r"alu 1/997, gpu.ops.sfu 1/991, gpu.ops.smem 1/983, .* at most 1000000"):
        ws.simulate(gpu, ws.kernels.mix(8), **SHORT)


def extreme(data: dict, issue_slots: int = 10_000) -> dict:
    """Returns the chip with the largest latencies, gaps and intervals that a file can have, and up to 10,000 issue slots."""
    for op in data["ops"].values():
        op |= {"interval_cycles": "1000000", "gap_cycles": 10**6, "issue_slots": issue_slots, "latency_to": {}}
        if op["pipe"] != "lg":
            op["latency_cycles"] = 10**6
    data["ops"]["smem"]["conflict_latency_cycles"] = 10**6
    data["issue"]["interval_cycles"] = data["block_launch_cycles"] = 10**6
    data["memory"] |= {"latency_cycles": 10**6, "bandwidth_gbs": 1e-3, "transaction_latency_cycles": 1e6}
    data["memory"]["queue"] |= {"latency_offset_cycles": 1e6, "crossbar_gbs": 1e-3, "dram_gbs": 1e-3}
    return data


@pytest.mark.parametrize("memory", ["queue", "fixed"])
@pytest.mark.parametrize("kernel", [ws.kernels.vector_add(), ws.kernels.chain("smem", ways=32, iterations=3)])
def test_the_largest_allowed_numbers_do_not_wrap_around(kernel, memory):
    # A warp that a unit refuses asks again in every window: the run with accesses has fewer windows with fewer issue slots.
    gpu = Gpu.from_dict(extreme(MAXWELL.to_dict(), issue_slots=500 if kernel.name == "vector_add" else 10_000))
    launch = ws.Launch(blocks=2, block_warps=1, resident_blocks=2)
    ds = ws.simulate(gpu, kernel, launch=launch, memory=memory, sms=1)
    assert 10**9 < ds.cycles.item() < 10**12
    assert ds.warp_cycles.min() >= 0
    assert ds.scheduler_cycles.min() >= 0
    assert ds.warp_latency.item() > 0


def test_waits_within_the_limits_of_the_fields_fit_into_the_engine():
    gpu = Gpu.from_dict(extreme(MAXWELL.to_dict()))
    conflict = 31 * gpu.ops["smem"].conflict_latency_cycles
    reissues = 32 * 16  # more than the transactions of any access
    own = max(op.latency_cycles + conflict for op in gpu.ops.values())
    busy = max(gpu.issue.interval_cycles * (op.issue_slots + reissues) for op in gpu.ops.values())
    queued = MOST_QUEUED * MAX_SCHEDULERS * (MAX_OCCUPIED + gpu.ops["alu"].gap_cycles)  # all wait for one unit
    assert max(own, busy, queued, gpu.block_launch_cycles) < 2e10 < MAX_WAIT
    assert 2 * MAX_CYCLES + MAX_WAIT < UNKNOWN
    assert (2 * MAX_CYCLES + MAX_SCHEDULERS * MOST_QUEUED * MAX_OCCUPIED) * MAX_TICKS < 2**63


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (ws.Instruction("smem", dst="r", ways=32), None),  # the longest that is allowed
        (ws.Instruction("smem", dst="r", cost=ws.Cost(passes="65/2")), "cost.passes = 65/2: must be so small that no smem"),
        (ws.Instruction("load", dst="r", access=ws.Access(pattern="random")), "core.pass_cycles = 1000000: must be so small"),
    ],
)
def test_passes_that_take_too_long_are_refused(instruction, message):
    gpu = changed_gpu(ws.load_gpu("a100"), {"core.pass_cycles": MAX_INTERVAL})
    kernel = ws.Kernel(name="long", body=[instruction])
    if message is None:
        assert make_point(gpu, kernel).gpu is gpu
    else:
        with pytest.raises(ValueError, match=re.escape(message)):
            make_point(gpu, kernel)


def test_counters_of_the_longest_run_on_the_largest_chip_fit_into_64_bits():
    """Each counter is at most the bound beside it: nothing is counted more often than these per cycle, up to the end of a run."""
    largest = changed_gpu(MAXWELL, {"sms": 1024})
    with pytest.raises(ws.GpuFileError, match="sms = 1025"):
        Gpu.from_dict({**MAXWELL.to_dict(), "sms": 1025})
    cycles = 2 * MAX_CYCLES + MAX_WAIT  # the last cycle in which a wait of a run can end
    warp_cycles = largest.sms * MAX_WARPS * cycles  # every resident warp has one state in a cycle
    issues = largest.sms * MAX_SCHEDULERS * 2 * cycles  # a scheduler issues at most two instructions in a cycle
    longest_busy = 10_000 * 10**6  # issue slots by issue interval: what one issue can carry over the end of a window
    carried = largest.sms * MAX_SCHEDULERS * (cycles + longest_busy)
    assert max(warp_cycles, issues, carried) < 2**63
    bounds = {
        "COUNT": {"issued": issues, "waited": warp_cycles, "issued_on": issues, "waited_on": warp_cycles},
        "PART": {"second_issues": issues, "throttled": warp_cycles, "held": warp_cycles, "unfetched": warp_cycles},
        "TALLY": {
            "pair_busy": carried, "held": carried, "carried": carried, "latency_sum": 2**62, "retired": issues,
            "lifetime_sum": warp_cycles, "tracing": 1, "traced": issues, "n_changes": issues, "histogram": issues,
            "occupancy": largest.sms * cycles,
        },
    }  # fmt: skip
    for name, of_record in bounds.items():
        for field, (kind, *_) in getattr(state, name).fields.items():
            if field != "unused" and kind.base != np.float64:  # bytes are rounded, and cannot wrap around
                assert kind.base == np.int64 and of_record[field] < 2**63, field
    launch = resolve_launch(MAXWELL, ws.kernels.mix(8), warps=8)
    room = allocation.allocate(encode(MAXWELL, ws.kernels.mix(8), launch, scheduler="lrr", memory="queue", sms=1))
    assert {room.stalls.dtype, room.caused.dtype, room.sms.warp_cycles.dtype} == {np.dtype(np.int64)}


def test_the_last_cycle_of_a_wait_fits_into_a_word_of_the_engine():
    last, cause, reason = 2 * MAX_CYCLES + MAX_WAIT, MOST_STEPS - 1, (1 << REASON_BITS) - 1
    word = np.int64(wait_until(last, cause, reason))
    assert (end_of(word), cause_of(word), reason_of(word)) == (last, cause, reason)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alu.latency_cycles": 10**6 + 1}, "latency_cycles = 1000001: must be an integer from 0 to 1000000"),
        ({"alu.gap_cycles": 10**6 + 1}, "gap_cycles = 1000001: must be an integer from 1 to 1000000"),
        ({"alu.issue_slots": 10_001}, "issue_slots = 10001: must be an integer from 1 to 10000"),
        ({"smem.conflict_latency_cycles": 10**6 + 1}, "conflict_latency_cycles = 1000001: must be an integer"),
        ({"branch.taken_gap_cycles": 10**6 + 1}, "taken_gap_cycles = 1000001: must be an integer"),
        ({"issue.interval_cycles": 10**6 + 1}, "interval_cycles = 1000001: must be an integer"),
        ({"block_launch_cycles": 10**6 + 1}, "block_launch_cycles = 1000001: must be an integer"),
        ({"memory.latency_cycles": 10**6 + 1}, "latency_cycles = 1000001: must be an integer"),
        ({"memory.transaction_latency_cycles": 1.1e6}, "transaction_latency_cycles = 1100000.0: must be a number"),
        ({"memory.divergent_transaction_bytes": 1.1e9}, "divergent_transaction_bytes = 1100000000.0: must be a"),
        ({"memory.bandwidth_gbs": 1e-4}, "bandwidth_gbs = 0.0001: must be a number from 0.001 to 1e9"),
        ({"queue.dram_gbs": 1e-4}, "dram_gbs = 0.0001: must be a number from 0.001 to 1e9"),
        ({"queue.latency_offset_cycles": 1.1e6}, "latency_offset_cycles = 1100000.0: must be a number from -1e6 to 1e6"),
        ({"queue.crossbar_servers": 65537}, "crossbar_servers = 65537: must be an integer from 1 to 65536"),
        ({"memory.loads_per_warp": 1025}, "loads_per_warp = 1025: must be an integer from 1 to 1024"),
        ({"sms": 1025}, "sms = 1025: must be an integer from 1 to 1024"),
        ({"clock_ghz": 1e10}, "clock_ghz = 10000000000.0: must be a number from 0.001 to 100, in GHz"),
    ],
)
def test_a_number_of_a_chip_has_a_bound(change, words):
    data = MAXWELL.to_dict()
    for key, value in change.items():
        *path, last = {"queue": ["memory", "queue"]}.get(key.split(".")[0], key.split(".")[:1]) + key.split(".")[1:]
        table = data
        for part in path:
            table = table["ops"][part] if part in data["ops"] else table[part]
        table[last] = value
    with pytest.raises(ws.GpuFileError, match=re.escape(words)):
        Gpu.from_dict(data)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ws.kernels.mix(1, iterations=10**12 + 1), "iterations = 1000000000001: must be None (endless) or an integer"),
        (lambda: ws.Loop(body=[ws.Instruction("alu")], trips=10**12 + 1), "must be an integer from 1 to 1000000000000"),
        (lambda: ws.Loop(body=[ws.Instruction("alu")], trips=[1, 2**63]), "must be an integer from 1 to 1000000000000"),
        (lambda: ws.Access(pattern="stride", stride=2**31 + 1), "stride = 2147483649: must be an integer from 1 to 2147483648"),
        (lambda: ws.Access(offset_bytes=2**49), "offset_bytes = 562949953421312: must be an integer from 0 to"),
        (lambda: ws.Access(pattern="addresses", addresses=[2**49] * 32), "must be an integer from 0 to 281474976710656"),
        (lambda: ws.Instruction("smem", dst="r1", ways=33), "ways = 33: must be an integer from 1 to 32"),
        (lambda: ws.Kernel(name="k", registers_per_thread=256, body=[]), "must be an integer from 1 to 255"),
        (lambda: ws.Kernel(name="k", shared_bytes_per_block=10**9 + 1, body=[]), "must be an integer from 0 to 1000000000"),
        (lambda: ws.Launch(blocks=2**31, block_warps=1), "blocks = 2147483648: must be an integer from 1 to 2147483647"),
        (lambda: ws.Launch(block_warps=10**6 + 1), "block_warps = 1000001: must be an integer from 1 to 1000000"),
        (lambda: ws.simulate(MAXWELL, "mix", alpha=1, cycles=10**12 + 1), "cycles = 1000000000001: must be an integer from 1 to"),
        (lambda: ws.simulate(MAXWELL, "mix", alpha=1, warmup=10**12 + 1), "warmup = 1000000000001: must be an integer from 0 to"),
        (lambda: ws.simulate(MAXWELL, "mix", alpha=1, launch=ws.Launch(block_warps=33)), "block_warps = 33: must be an"),
    ],
)
def test_a_number_of_a_kernel_or_a_launch_has_a_bound(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_latencies_of_a_table_have_a_bound(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("load_gbs,0,0.05,0.5,0.95,1\n10,100,200,300,400,1000001\n")
    with pytest.raises(ValueError, match="latencies above 0 and up to 1000000 that do not decrease"):
        load_distribution(table)


def test_a_grid_that_runs_for_too_long_is_refused_before_the_run():
    launch = ws.Launch(blocks=10**6, block_warps=4)
    with pytest.raises(ValueError, match=r"launch.blocks = 1000000: .* at least .*: each of its 4000000 warps executes alu"):
        ws.simulate(MAXWELL, ws.kernels.mix(32, iterations=10**9), launch=launch)
    persistent = ws.Launch(block_warps=4, persistent=True)
    with pytest.raises(ValueError, match=r"must be few enough for a grid of at most 1e\+12 cycles"):
        ws.simulate(MAXWELL, ws.kernels.chain("sfu", iterations=10**12), launch=persistent, sms=1)


@pytest.mark.parametrize(("name", "why"), [("kepler", "cycles; on kepler"), ("maxwell", "warp instructions; this grid of loop")])
def test_one_block_with_very_many_trips_is_refused_before_the_run(name, why):
    add = ws.Instruction("alu", dst="r1")
    loop = ws.Kernel(name="loop", body=[ws.Loop(body=[add], trips=10**12), add])
    with pytest.raises(ValueError, match=rf"launch.blocks = 1: must be few enough for a grid of at most 1e\+12 {why}"):
        ws.simulate(name, loop, launch=ws.Launch(blocks=1, block_warps=1))


def test_a_grid_that_does_not_end_in_time_is_stopped(monkeypatch):
    monkeypatch.setattr("warpsim.simulation.run.MAX_CYCLES", 1_000)
    with pytest.raises(ValueError, match=r"launch: the grid of mix has not ended after 1e\+03 cycles"):
        ws.simulate(MAXWELL, ws.kernels.mix(8, iterations=100), launch=ws.Launch(blocks=1, block_warps=4), sms=1)


def test_accesses_that_could_wait_too_long_for_the_memory_are_refused():
    data = MAXWELL.to_dict()
    data["memory"] |= {"bandwidth_gbs": 1e-3, "stores_per_sm": 65536, "divergent_transaction_bytes": 1e9}
    data["memory"]["queue"] |= {"crossbar_gbs": 1e-3, "dram_gbs": 1e-3}
    gpu = Gpu.from_dict(data)
    with pytest.raises(ValueError, match=r"load of load_chain: up to 1024 in flight on maxwell could wait .* for the memory"):
        ws.simulate(gpu, ws.kernels.chain("load", pattern="random"), warps=64)


def test_loads_are_bounded_by_those_of_the_resident_warps():
    """A warp stays until its copies are back: that no register, counter or mbarrier names the first of a stage is no obstacle."""
    copies = [ws.Instruction("async_copy"), ws.Instruction("async_copy"), ws.Instruction("smem", arrives="full")]
    full = ws.kernels.Mbarrier(name="full", arrivals=1)
    kernel = ws.Kernel(name="copies", mbarriers=[full], body=[ws.Loop(body=copies, trips=50)])
    assert most_in_flight_of_warp(kernel, copies[:2]) is None
    make_point("h100", kernel, warps=8, block_warps=1, cycles=10**10)
    with pytest.raises(ValueError, match=r"load of copies: up to .* in flight on h100 could wait"):
        endless = ws.Kernel(name="copies", body=[ws.Loop(body=copies[:2], trips=None)])
        make_point("h100", endless, warps=8, block_warps=1, cycles=10**10)


def test_stores_without_any_limit_are_bounded_by_the_cycles_of_the_run():
    data = MAXWELL.to_dict()
    del data["memory"]["stores_per_sm"]
    gpu, store = Gpu.from_dict(data), ws.Kernel(name="stores", body=[ws.Loop(body=[ws.Instruction("store")], trips=None)])
    ws.simulate(gpu, store, **SHORT)
    with pytest.raises(ValueError, match=r"store of stores: up to .* in flight on maxwell could wait .*; give the chip a limit"):
        ws.simulate(gpu, store, warps=64, cycles=10**12)


@pytest.mark.parametrize(("blocks", "is_refused"), [(2_000, False), (2_000_000, True)])
def test_the_latencies_of_a_grid_are_those_of_its_loads(blocks, is_refused):
    """Loads of unrolled machine code have a register each, so that nothing bounds how many of them are in flight."""
    body = [ws.Instruction("load", dst=f"r{number}") for number in range(3600)]
    launch = ws.Launch(blocks=blocks, block_warps=3, resident_blocks=16)
    with pytest.raises(ValueError, match="their latencies could add up") if is_refused else contextlib.nullcontext():
        make_point("a40", ws.Kernel(name="unrolled", body=body), launch=launch)


def test_latencies_that_could_add_up_to_too_much_are_refused():
    load = ws.Kernel(name="loads", body=[ws.Loop(body=[ws.Instruction("load")], trips=None)])
    with pytest.raises(ValueError, match=r"load of loads: .* in flight .*: their latencies could add up to more than 2\*\*62"):
        ws.simulate(changed_gpu(MAXWELL, {"memory.latency_cycles": 400}), load, warps=64, warmup=10**6, cycles=10**7)


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ([{"dst": "r1"}, {"dst": "r2"}, {"dst": "r1"}], 2),
        ([{"dst": "r1"}, {"dst": "r1", "hints": ws.kernels.Hints(write=2)}], None),  # the second one overwrites r1 without a wait
        ([{"dst": "r1"}, {"dst": "r2", "hints": ws.kernels.Hints(write=2)}, {"hints": ws.kernels.Hints(write=2)}], 64),
        ([{"hints": ws.kernels.Hints(write=0)}, {"hints": ws.kernels.Hints(write=5)}], 126),
        ([{"hints": ws.kernels.Hints()}, {"dst": "r1"}], None),
        ([{}], None),
    ],
)
def test_registers_and_counters_limit_the_loads_in_flight(body, most):
    """Of the loads of a warp without other limits, no more are in flight, and as many of those that nothing else awaits."""
    loads = tuple(ws.Instruction("load", **fields) for fields in body)
    kernel = ws.Kernel(name="loads", inputs=("r1", "r2"), body=[ws.Loop(body=loads * 200, trips=None)])
    assert most_in_flight_of_warp(kernel, list(loads)) == most
    gpu = changed_gpu(MAXWELL, {"sms": 1, "memory.latency_cycles": 5_000})
    flying = ws.simulate(gpu, kernel, warps=1, memory="fixed", replicates=1, warmup=5_000, cycles=20_000)
    in_flight = float(flying["bandwidth"][0] / 128 / gpu.clock_ghz) * 5_000
    assert in_flight < 1.02 * (most or 10**6)
    if all("hints" in fields or not fields for fields in body):
        assert in_flight > 0.95 * (most or 600)


def test_executions_are_counted_at_least_and_at_most():
    add, load = ws.Instruction("alu"), ws.Instruction("load")
    body = (
        ws.Loop(body=[add, load], trips=[2, 5]),
        ws.Conditional(probability=0.5, then=[add, add, add], orelse=[load]),
        ws.Conditional(diverges=True, then=[add], orelse=[load]),
    )
    assert executions(body, min) == {"alu": 3, "load": 3, "branch": 2}
    assert executions(body, max) == {"alu": 9, "load": 7, "branch": 2}


def test_a_sweep_is_refused_before_it_begins(tmp_path):
    data = MAXWELL.to_dict()
    del data["memory"]["stores_per_sm"]
    with pytest.raises(ValueError, match=r"store of vector_add: up to .* in flight on maxwell could wait .*"):
        ws.Plan(gpu=[Gpu.from_dict(data)], kernel="vector_add", warps=[8, 64], cycles=10**12)
