"""Random small chips: short latencies, few units and slow memory, so that warps contend."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.cases import changed, op_facts, small_gpu
from warpsim.hardware.gpu import Gpu
from warpsim.units import MEMORY_OPS

_PIPES = {
    "alu": "math",
    "fp64": "math",
    "sfu": "mio",
    "smem": "mio",
    "load": "lg",
    "store": "lg",
    "texture": "tex",
    "atomic": "lg",
    "reduction": "lg",
    "async_copy": "lg",
    "barrier": "none",
    "branch": "none",
    "exit": "none",
}
PIPES = ["math", "mio", "lg", "none", "tex", "branch", "imc", "membar", "sleep"]
_INTERVALS = ("1/3", "1/2", "2/3", 1, 1, 1, "4/3", "3/2", 2, "7/3", 4, 7)


@st.composite
def ops(draw: st.DrawFn) -> dict[str, Any]:
    """Generates all operation classes of a chip."""
    often_usual = st.integers(0, 4)
    result = {}
    for name, pipe in _PIPES.items():
        facts = op_facts(
            pipe if name in MEMORY_OPS or draw(often_usual) else draw(st.sampled_from(PIPES)),
            latency_cycles=draw(st.sampled_from([0, 1, 2, 3, 5, 9, 24])),
            interval_cycles=draw(st.sampled_from(_INTERVALS)),
            scope=draw(st.sampled_from(["scheduler", "sm"])),
            gap_cycles=draw(st.sampled_from([1, 1, 1, 2, 3, 6, 17])),
            issue_slots=draw(st.sampled_from([1, 1, 1, 2, 3])),
        )
        if name not in MEMORY_OPS and not draw(often_usual):
            consumers = st.sampled_from(list(_PIPES))
            facts["latency_to"] = draw(st.dictionaries(consumers, st.integers(0, 30), max_size=3))
        result[name] = facts
    result["branch"]["taken_gap_cycles"] = draw(st.sampled_from([None, 1, 2, 8]))
    result["smem"]["conflict_latency_cycles"] = draw(st.sampled_from([0, 1, 5]))
    return result


@st.composite
def shared_units(draw: st.DrawFn, classes: dict[str, Any]) -> dict[str, Any]:
    """Generates the tables `units` and `ops` of a chip, in which some classes may share units."""
    if draw(st.integers(0, 2)):
        return {"ops": classes}
    declared: dict[str, Any] = {name: {"scope": draw(st.sampled_from(["scheduler", "sm"]))} for name in ("first", "second")}
    for unit in declared.values():
        if draw(st.booleans()):
            unit["queue"] = draw(st.sampled_from([1, 2, 5]))
            unit["lead_cycles"] = draw(st.sampled_from([0, 1, 11]))
            unit["address_cycles"] = draw(st.sampled_from([0, 1, 4]))
    names = st.sampled_from([None, None, *declared])
    members = {name: draw(names) for name in classes}
    ops = {
        name: facts if members[name] is None else {**facts, "unit": members[name], "scope": declared[members[name]]["scope"]}
        for name, facts in classes.items()
    }
    return {"ops": ops, "units": declared}


@st.composite
def memories(draw: st.DrawFn, measured: bool = False) -> dict[str, Any]:
    """Generates memory systems. At 1 GHz, 1 GB/s is 1 byte per cycle, and a coalesced access requests 128 bytes."""
    gbs = st.sampled_from([16.0, 37.3, 51.2, 100.0, 128.0, 300.1, 1024.0])
    usual = 150.0 if measured else draw(gbs)
    limits = st.sampled_from([None, None, None, 1, 2, 5])
    latency = draw(st.sampled_from([1, 2, 10, 31, 80]))
    return {
        "latency_cycles": latency,
        "bandwidth_gbs": usual,
        "transaction_bytes": draw(st.sampled_from([32, 64, 128])),
        "coalescing": draw(st.sampled_from(["half-warp-ordered", "half-warp", "warp"])),
        "transaction_latency_cycles": draw(st.sampled_from([0.0, 0.3, 1.0, 2.75])),
        "divergent_transaction_bytes": draw(st.sampled_from([32.0, 47.3, 125.9])),
        "loads_per_warp": draw(limits),
        "loads_per_sm": draw(limits),
        "stores_per_sm": draw(limits),
        "store_drain_cycles": draw(st.sampled_from([None, None, 1, 25])),
        "l1_latency_cycles": draw(st.integers(1, 12)),
        "l2_latency_cycles": draw(st.integers(5, 30)),
        "l2_far_latency_cycles": draw(st.sampled_from([None, None, 30, 55])),
        "l2_store_gbs": draw(st.sampled_from([None, 40.0, 200.0])),
        "atomic_interval_cycles": draw(st.sampled_from([0.0, 1.0, 2.3])),
        "measured": measured,
        "measured_latency_cycles": draw(st.sampled_from([None, 1, 60, 400])) if measured else None,
        "queue": {
            "latency_offset_cycles": draw(st.sampled_from([4.5, 20.0, 61.3])) - latency,
            "crossbar_servers": draw(st.integers(1, 5)),
            "crossbar_gbs": draw(gbs),
            "dram_servers": draw(st.integers(1, 5)),
            "dram_gbs": draw(gbs),
        },
    }


@st.composite
def gpus(draw: st.DrawFn, measured: bool = False) -> Gpu:
    """Generates chips with 1 to 3 SMs of 1 to 4 schedulers."""
    cold_constants = draw(st.sampled_from([{}, {}, {"cold_constants": "dram"}, {"cold_constants": "l2"}]))
    return small_gpu(
        sms=draw(st.integers(1, 3)),
        block_launch_cycles=draw(st.sampled_from([0, 1, 2, 7, 30])),
        launch_interval_cycles=draw(st.sampled_from([0.0, 0.0, 0.4, 2.0, 6.7])),
        grid_launch_cycles=draw(st.sampled_from([0, 0, 1, 30])),
        sm={"schedulers": draw(st.integers(1, 4))},
        issue={"interval_cycles": draw(st.integers(1, 2)), "width": draw(st.integers(1, 2))},
        **draw(shared_units(draw(ops()))),
        core=draw(st.sampled_from([{}, {}, {"register_banks": 2}, {"register_banks": 1}])) | draw(passes()) | cold_constants,
        memory=draw(memories(measured)),
    )


@st.composite
def passes(draw: st.DrawFn) -> dict[str, Any]:
    """Generates where further passes of an access take their time, and how much in the unit."""
    fields = {"pass_cycles": draw(st.sampled_from([1, 1, 2, 3])), "fill_bytes": draw(st.sampled_from([None, 32, 100]))}
    return draw(st.sampled_from([{}, {"replays": "unit"}])) | fields


@st.composite
def stores_among_loads(draw: st.DrawFn, gpu: Gpu) -> Gpu:
    """Generates chips on which stores hold their warps and slow down the loads, and whose warps start one after another."""
    rates = draw(st.sampled_from([(0.9, 1.0), (0.8, 1.1), (0.5, 0.7)]))
    times = {key: draw(st.sampled_from([0.0, 9.3, 60.0, 400.0])) for key in ("write_burst_ns", "read_delay_ns", "idle_ns")}
    writes = {"mixed_rate": rates[0], "write_rate": rates[1], **times}
    memory = {"writes": writes, "store_drain_cycles": draw(st.sampled_from([None, 1, 25]))}
    return Gpu.model_validate(changed(gpu.to_dict(), {"warp_launch_cycles": draw(st.sampled_from([0, 1, 5])), "memory": memory}))


@st.composite
def fetching(draw: st.DrawFn, gpu: Gpu) -> Gpu:
    """Generates chips that fetch instructions, with caches of few lines, or of enough for a program."""
    lines = draw(st.sampled_from([1, 2, 3, 8, 32]))
    fetch = {
        "buffer": draw(st.sampled_from([1, 2, 3, 3])),
        "stages": draw(st.sampled_from([1, 2, 2, 5])),
        "lines": lines,
        "line_instructions": draw(st.sampled_from([1, 2, 4, 16])),
        "miss_cycles": draw(st.sampled_from([1, 4, 16, 70])),
        "prefetch_lines": min(lines - 1, draw(st.sampled_from([0, 0, 1, 5]))),
        "prefetch_cycles": draw(st.sampled_from([1, 3])),
    }
    return Gpu.model_validate(changed(gpu.to_dict(), {"core": {"fetch": fetch}}))


@st.composite
def operand_reads(draw: st.DrawFn, gpu: Gpu) -> Gpu:
    """Generates chips whose classes read their operands some cycles after the issue, for dependence counters."""
    cycles = st.sampled_from([1, 2, 5, 14])
    return Gpu.model_validate(changed(gpu.to_dict(), {"ops": {name: {"operand_cycles": draw(cycles)} for name in gpu.ops}}))
