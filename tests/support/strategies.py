"""Random small chips, kernels and launches, for tests that compare two implementations of docs/model.md.

They are small, so that the slow reference runs a case in tens of milliseconds, and cause contention between warps: short
latencies, few units, slow memory. Deterministic cases have the memory model `fixed` and use no random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Conditional, Cost, Hints, Instruction, Kernel, Loop
from warpsim.kernels.instruction import OPS_WITHOUT_RESULT
from warpsim.simulation.policies import POLICIES as NAMED
from warpsim.units import ACCESSING_OPS, ATOMIC_OPS, MEMORY_OPS

POLICIES = (*NAMED, "two_level:2")
MAIN_POLICIES = ("lrr", "gto", "random")
"""Policies of the tests that `make test` runs under some of them, and `make verify` under all others."""

EACH_POLICY = [name if name in MAIN_POLICIES else pytest.param(name, marks=pytest.mark.verify) for name in POLICIES]
"""Parameters of such a test."""

_DRAWN = (*POLICIES, "two_level:1", "two_level:4")

REGISTERS = ("r0", "r1", "r2", "r3")


def examples(number: int) -> settings:
    """Returns settings for a number of reproducible random cases. Failing cases are not shrunk."""
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def _op(pipe: str, **changes: Any) -> dict[str, Any]:
    facts = {"latency_cycles": 6, "interval_cycles": 1, "scope": "scheduler", "gap_cycles": 1, "pipe": pipe}
    return facts | changes


SMALL_GPU: dict[str, Any] = {
    "name": "small",
    "title": "A small chip for tests",
    "generation": "test",
    "year": 2016,
    "sms": 1,
    "clock_ghz": 1.0,
    "block_launch_cycles": 5,
    "sm": {
        "schedulers": 1,
        "max_warps": 16,
        "max_blocks": 8,
        "max_block_warps": 8,
        "registers": 65536,
        "max_registers_per_thread": 255,
        "register_granularity": 1,
        "register_allocation": "warp",
        "warp_granularity": 1,
        "shared_bytes": 49152,
        "max_shared_bytes_per_block": 49152,
        "shared_granularity_bytes": 1,
        "shared_overhead_bytes": 0,
    },
    "issue": {"interval_cycles": 1, "width": 1},
    "shared": {"banks": 32, "bank_bytes": 4, "lanes_per_pass": 32},
    "ops": {
        "alu": _op("math"),
        "sfu": _op("mio", interval_cycles=4),
        "smem": _op("mio", latency_cycles=10, scope="sm", conflict_latency_cycles=2),
        "load": _op("lg", latency_cycles=0, scope="sm"),
        "store": _op("lg", latency_cycles=0, scope="sm"),
        "barrier": _op("none", latency_cycles=4),
        "branch": _op("none", latency_cycles=0, gap_cycles=2, taken_gap_cycles=3),
        "exit": _op("none", latency_cycles=0),
    },
    "memory": {
        "latency_cycles": 40,
        "pin_bandwidth_gbs": 1e6,
        "bandwidth_gbs": 1e5,
        "transaction_bytes": 32,
        "coalescing": "warp",
        "transaction_latency_cycles": 2.5,
        "divergent_transaction_bytes": 120.0,
        "loads_per_warp": None,
        "loads_per_sm": None,
        "stores_per_sm": None,
        "l1_latency_cycles": 7,
        "l2_latency_cycles": 19,
        "distribution": "kepler",
        "measured": False,
        "queue": {
            "latency_offset_cycles": 0.0,
            "crossbar_servers": 2,
            "crossbar_gbs": 60.0,
            "dram_servers": 3,
            "dram_gbs": 50.0,
            "fit_rms_percent": None,
        },
        "contention": {"a_cycles": 40, "b_cycles": 3, "c_gbs": 50},
    },
}


def small_gpu(**changes: Any) -> Gpu:
    """Returns a chip with one SM, one scheduler and ample memory bandwidth, with changes.

    A change of a table lists only the keys that change, as in `small_gpu(sms=2, memory={"loads_per_sm": 3})`.
    """
    return Gpu.model_validate(_changed(SMALL_GPU, changes))


def _changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(table)
    for key, value in changes.items():
        inner = result.get(key)
        nested = isinstance(value, Mapping) and isinstance(inner, Mapping)
        result[key] = _changed(inner, value) if nested else value
    return result


@dataclass(frozen=True)
class Case:
    """The arguments of one run. `options` are the keyword arguments of the simulation."""

    gpu: Gpu
    kernel: Kernel
    launch: Launch
    options: dict[str, Any]


# Chips

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
        facts = _op(
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
    return small_gpu(
        sms=draw(st.integers(1, 3)),
        block_launch_cycles=draw(st.sampled_from([0, 1, 2, 7, 30])),
        launch_interval_cycles=draw(st.sampled_from([0.0, 0.0, 0.4, 2.0, 6.7])),
        launch_microseconds=draw(st.sampled_from([0.0, 0.0, 0.0006, 0.03])),
        sm={"schedulers": draw(st.integers(1, 4))},
        issue={"interval_cycles": draw(st.integers(1, 2)), "width": draw(st.integers(1, 2))},
        **draw(shared_units(draw(ops()))),
        core=draw(st.sampled_from([{}, {}, {"register_banks": 2}, {"register_banks": 1}])) | draw(passes()),
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
    return Gpu.model_validate(_changed(gpu.to_dict(), {"warp_launch_cycles": draw(st.sampled_from([0, 1, 5])), "memory": memory}))


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
    return Gpu.model_validate(_changed(gpu.to_dict(), {"core": {"fetch": fetch}}))


@st.composite
def operand_reads(draw: st.DrawFn, gpu: Gpu) -> Gpu:
    """Generates chips whose classes read their operands some cycles after the issue, for dependence counters."""
    cycles = st.sampled_from([1, 2, 5, 14])
    return Gpu.model_validate(_changed(gpu.to_dict(), {"ops": {name: {"operand_cycles": draw(cycles)} for name in gpu.ops}}))


# Kernels

_PROBABILITIES = (0.0, 0.1, 0.5, 0.9, 1.0)


@st.composite
def accesses(draw: st.DrawFn, random: bool = True, atomic: bool = False) -> Access:
    """Generates accesses to global memory with up to 32 requests, and with cache hits if `random`."""
    pattern = draw(st.sampled_from(["coalesced", "coalesced", "stride", "random", "broadcast", "addresses"]))
    size = draw(st.sampled_from([1, 2, 4, 4, 8, 16]))
    fields: dict[str, Any] = {"pattern": pattern, "bytes_per_thread": size}
    if pattern == "stride":
        fields["stride"] = draw(st.sampled_from([1, 2, 3, 32]))
    if pattern == "addresses":
        first, step = draw(st.integers(0, 64)), draw(st.integers(0, 40))
        fields["addresses"] = tuple(size * (first + step * lane % 97) for lane in range(32))
    if pattern != "random" and draw(st.booleans()):
        fields["offset_bytes"] = size * draw(st.integers(0, 5))
    if random and draw(st.integers(0, 2)) == 0:
        fields["l1_hit"] = 0.0 if atomic else draw(st.sampled_from(_PROBABILITIES))
        fields["l2_hit"] = draw(st.sampled_from(_PROBABILITIES))
    if atomic:
        fields["contended_addresses"] = draw(st.sampled_from([None, 1, 2, 100]))
    return Access(**fields)


@st.composite
def own_costs(draw: st.DrawFn, op: str) -> Cost | None:
    """Generates costs of single instructions, of a class that is not a barrier."""
    if draw(st.integers(0, 3)):
        return None
    fields: dict[str, Any] = {
        "interval_cycles": draw(st.sampled_from([None, "1/3", 1, "5/2", 6])),
        "gap_cycles": draw(st.sampled_from([None, None, 1, 4, 13])),
        "issue_slots": draw(st.sampled_from([None, None, 1, 4])),
    }
    if fields["gap_cycles"] is None:
        fields["gap_ns"] = draw(st.sampled_from([None, None, None, 1, 30]))
    if op in MEMORY_OPS and draw(st.booleans()):
        fields |= {"requests": draw(st.integers(1, 5)), "bytes_per_request": draw(st.sampled_from([32.0, 71.5, 128.0]))}
        fields["port_sectors"] = draw(st.sampled_from([None, None, 1.0, 7.5]))
        fields["requested_bytes"] = draw(st.sampled_from([None, None, 0, 32, 500, 1024]))
    if op in ACCESSING_OPS:
        fields["passes"] = draw(st.sampled_from([None, None, "1/2", 3, "7/2"]))
    if op in ATOMIC_OPS:
        fields["updates"] = draw(st.sampled_from([None, 1, 3, 32]))
    if op not in (*MEMORY_OPS, "branch"):
        fields["latency_cycles"] = draw(st.sampled_from([None, 0, 3, 21]))
    return Cost(**fields)


@st.composite
def instructions(draw: st.DrawFn, random: bool, barriers: bool) -> Instruction:
    """Generates an instruction of any class but exit."""
    register = st.sampled_from(REGISTERS)
    reads = st.lists(register, min_size=draw(st.sampled_from([0, 1])), max_size=2)
    classes = ["load", "alu", "smem", "load", "store", "alu", "sfu", "load", "fp64", "alu", "branch"]
    classes += ["texture", "atomic", "reduction", "async_copy"] if draw(st.integers(0, 2)) == 0 else []
    op = draw(st.sampled_from(classes + ["barrier"] * 2 * barriers))
    if op == "barrier":
        return Instruction(op)
    fields: dict[str, Any] = {"src": draw(reads), "cost": draw(own_costs(op))}
    if draw(st.integers(0, 2)) == 0:
        machine = st.sampled_from(["R2", "R4", "R3", "R4.reuse", "R2.reuse", ""])
        fields["reads"] = draw(st.lists(machine, max_size=4))
    if op not in OPS_WITHOUT_RESULT:
        fields["dst"] = draw(st.one_of(st.none(), register, register, register))
    if op in MEMORY_OPS:
        fields["access"] = draw(accesses(random, atomic=op in ATOMIC_OPS))
        if random and draw(st.integers(0, 2)) == 0:
            late = {"l1_late_cycles": draw(st.integers(0, 50)), "l2_late_cycles": draw(st.integers(0, 50))}
            update = {"l2_kept": draw(st.sampled_from(_PROBABILITIES))} if op == "store" else late
            fields["access"] = fields["access"].model_copy(update=update)
    if op == "smem" and draw(st.booleans()):
        fields["access"] = Access(pattern="stride", stride=draw(st.sampled_from([1, 2, 3, 8])))
    elif op == "smem":
        fields["ways"] = draw(st.integers(1, 5))
    return Instruction(op, **fields)


@st.composite
def bodies(
    draw: st.DrawFn,
    random: bool = True,
    barriers: str = "even",
    depth: int = 0,
    room: int = 8,
    diverged: bool = False,
) -> tuple:
    """Generates statements, nested up to two levels deep.

    `random` allows random numbers. `barriers`: "none", "even" (only where all warps of a block reach them), or "any".
    """
    statements: list[Any] = []
    for _ in range(draw(st.integers(4 if depth == 0 else 1, room))):
        kind = draw(st.sampled_from(["one"] * 4 + ["loop", "conditional"] * (depth < 2)))
        inner = {"random": random, "depth": depth + 1, "room": 3}
        if kind == "one":
            statements.append(draw(instructions(random, barriers != "none")))
        elif kind == "loop":
            chance = random and draw(st.booleans())
            low = draw(st.integers(1, 3))
            trips = (low, low + draw(st.integers(0, 2))) if chance else low
            within = "none" if chance and barriers == "even" else barriers
            body = draw(bodies(barriers=within, diverged=diverged, **inner))
            statements.append(Loop(body=body, trips=trips))
        else:
            how = draw(st.sampled_from(["warps", "diverges"] + ["probability"] * 2 * random))
            within = "none" if how != "diverges" and barriers == "even" else barriers
            apart = diverged or how == "diverges"
            sides = [draw(bodies(barriers=within, diverged=apart, **inner)) for _ in range(2)]
            for i in range(2):
                if not apart and draw(st.integers(0, 5)) == 0:
                    sides[i] = (*sides[i], Instruction("exit"))
            rule: dict[str, Any] = {"diverges": True}
            if how == "warps":
                rule = {"warps": draw(st.sampled_from([(0,), (1,), (0, 2), (1, 3)]))}
            elif how == "probability":
                rule = {"probability": draw(st.sampled_from(_PROBABILITIES))}
            reads = draw(st.lists(st.sampled_from(REGISTERS), max_size=2))
            orelse = sides[1] if draw(st.booleans()) else ()
            statements.append(Conditional(then=sides[0], orelse=orelse, src=reads, cost=draw(own_costs("branch")), **rule))
    return tuple(statements)


@st.composite
def hints(draw: st.DrawFn, op: str) -> Hints:
    """Generates hints that name few counters, so that one counts several instructions."""
    counter = st.sampled_from([0, 0, 1, 5])
    return Hints(
        waits=draw(st.lists(counter, max_size=2)) if draw(st.booleans()) else (),
        at_most=draw(st.sampled_from([0, 0, 0, 1, 2])),
        write=draw(st.one_of(st.none(), counter)) if op not in OPS_WITHOUT_RESULT else None,
        read=draw(counter) if draw(st.integers(0, 3)) == 0 else None,
        yields=draw(st.integers(0, 3)) == 0,
    )


@st.composite
def hinted(draw: st.DrawFn, statements: tuple, every: int = 4) -> tuple:
    """Generates the same statements of which so many in four have hints, and a few loads and waits more among them."""
    result: list[Any] = []
    for statement in statements:
        one = statement
        if isinstance(one, Loop):
            one = Loop(body=draw(hinted(one.body, every)), trips=one.trips)
        elif isinstance(one, Conditional):
            sides = {"then": draw(hinted(one.then, every)), "orelse": draw(hinted(one.orelse, every))}
            one = one.model_copy(update=sides)
        if not isinstance(one, Loop) and draw(st.integers(0, 3)) < every:
            one = one.model_copy(update={"hints": draw(hints(one.op if isinstance(one, Instruction) else "branch"))})
        if draw(st.integers(0, 3)) == 0 and not isinstance(one, Loop):
            dst = draw(st.sampled_from([None, *REGISTERS]))
            result.append(Instruction("load", dst=dst, access=draw(accesses()), hints=draw(hints("load"))))
        result.append(one)
    return tuple(result)


@st.composite
def kernels(draw: st.DrawFn, random: bool = True, barriers: str = "even", endless: bool = False) -> Kernel:
    """Generates kernels, with an endless loop at the end if `endless`."""
    body = draw(bodies(random, barriers))
    if endless:
        body = (*body[:2], Loop(body=draw(bodies(random, barriers)), trips=None))
    return Kernel(name="random", inputs=REGISTERS, body=body)


# Runs


@st.composite
def launches(draw: st.DrawFn, finite: bool) -> Launch:
    """Generates launches with up to 8 warps per SM. A finite launch has up to 6 blocks or is persistent."""
    persistent = finite and draw(st.integers(0, 3)) == 0
    block_warps = draw(st.sampled_from([2, 1, 3, 4]))
    return Launch(
        blocks=draw(st.sampled_from([3, 1, 2, 4, 5, 6])) if finite and not persistent else None,
        block_warps=block_warps,
        resident_blocks=draw(st.sampled_from([2, 3, 1][: 8 // block_warps])),
        persistent=persistent,
    )


@st.composite
def cases(
    draw: st.DrawFn, random: bool = True, barriers: str | None = None, memory: str | None = None
) -> Case:
    """Generates the arguments of runs: to the end of a finite grid, or over a window of a finite or an endless grid.

    If `random` is False, the runs use no random numbers.
    """
    if barriers is None:
        barriers = draw(st.sampled_from(["none", "even", "any"]))
    if memory is None:
        memory = draw(st.sampled_from(["fixed", "queue", "queue"])) if random else "fixed"
    finite = draw(st.booleans())
    endless = not finite and draw(st.booleans())
    gpu = draw(gpus(measured=memory == "measured"))
    length = 1500 if memory == "measured" else 250
    end = {"warmup": 0, "cycles": None} if draw(st.integers(0, 3)) else {"warmup": 40, "cycles": 200}
    window = {"warmup": draw(st.sampled_from([0, 0, 1, 17, 90])), "cycles": draw(st.sampled_from([length, length // 7, 1]))}
    options = {
        "scheduler": draw(st.sampled_from([name for name in _DRAWN if random or name != "random"])),
        "memory": memory,
        "seed": draw(st.integers(0, 2**64 - 1)),
        **(end if finite else window),
        "sms": draw(st.sampled_from([None, None, *range(1, gpu.sms + 1)])),
    }
    return Case(gpu, draw(kernels(random, barriers, endless)), draw(launches(finite)), options)


def paths(*bodies: tuple[Any, ...], of_warp: tuple[int, ...]) -> Kernel:
    """Returns a kernel whose launched warps start at several entries."""
    body: list[Any] = []
    entries = []
    for number, path in enumerate(bodies):
        entries.append(len(body))
        body += [*path, *([Instruction("exit")] if number < len(bodies) - 1 else [])]
    inputs = tuple(f"r{number}" for number in range(6))
    return Kernel(name="paths", inputs=inputs, body=tuple(body), entries=tuple(entries), entry_of_warp=of_warp)


@st.composite
def with_paths(draw: st.DrawFn) -> Case:
    """Generates runs of kernels whose warps do not all execute the same instructions."""
    case = draw(cases(barriers="even"))
    first = case.kernel.body[:-1] if case.kernel.endless else case.kernel.body
    bodies = (first, *(other.body for other in draw(st.lists(kernels(), min_size=1, max_size=2))))
    numbers = range(len(bodies))
    of_warp = (*draw(st.lists(st.sampled_from(numbers), max_size=4)), *numbers)
    return replace(case, kernel=paths(*bodies, of_warp=of_warp))


@st.composite
def with_stores_among_loads(draw: st.DrawFn) -> Case:
    """Generates runs of the model `queue` on chips on which stores hold their warps."""
    case = draw(cases(memory="queue"))
    return replace(case, gpu=draw(stores_among_loads(case.gpu)))


@st.composite
def with_hints(draw: st.DrawFn) -> Case:
    """Generates runs of programs with hints."""
    case = draw(cases())
    body = draw(hinted(case.kernel.body, every=draw(st.sampled_from([2, 4, 4]))))
    return replace(case, gpu=draw(operand_reads(case.gpu)), kernel=case.kernel.model_copy(update={"body": body}))


@st.composite
def with_echoes(draw: st.DrawFn) -> Case:
    """Generates runs of slices that are long enough for echoes, of endless programs some of whose instructions have hints."""
    body = (*draw(bodies(barriers="none")), Instruction("load", dst="r1", src=("r0",)))
    body = draw(hinted(body, every=draw(st.sampled_from([0, 2, 4]))))
    gpu = draw(gpus()).model_copy(update={"sms": draw(st.integers(2, 5))})
    memory = draw(st.sampled_from(["fixed", "queue", "queue"]))
    options = {"scheduler": "lrr", "memory": memory, "seed": draw(st.integers(0, 999)), "warmup": 100, "cycles": 1400, "sms": 1}
    kernel = Kernel(name="random", inputs=REGISTERS, body=(Loop(body=body, trips=None),))
    launch = Launch(blocks=None, block_warps=draw(st.integers(1, 2)), resident_blocks=draw(st.integers(1, 2)))
    return Case(gpu, kernel, launch, options)


@st.composite
def with_fetch(draw: st.DrawFn) -> Case:
    """Generates runs on chips that fetch instructions."""
    case = draw(cases())
    return replace(case, gpu=draw(fetching(case.gpu)))


@st.composite
def with_all_options_of_a_core(draw: st.DrawFn) -> Case:
    """Generates runs with fetch, hints, register ports and stores that hold their warps; all chips can have queues of units."""
    case = draw(cases(memory="queue"))
    gpu = draw(operand_reads(draw(stores_among_loads(draw(fetching(case.gpu))))))
    gpu = Gpu.model_validate(_changed(gpu.to_dict(), {"core": {"register_banks": 2}}))
    return replace(case, gpu=gpu, kernel=case.kernel.model_copy(update={"body": draw(hinted(case.kernel.body))}))


@st.composite
def arithmetic(draw: st.DrawFn) -> Case:
    """Generates runs of dependent arithmetic among loads and barriers, with which the schedulers of the engine run ahead."""
    case = draw(cases(memory=draw(st.sampled_from(["fixed", "queue"]))))
    interval = draw(st.sampled_from([1, 1, 2, 5]))
    facts = {
        name: _op(
            "math",
            latency_cycles=draw(st.sampled_from([0, 1, 4, 9, 24, 70])),
            interval_cycles=draw(st.sampled_from(["1/2", 1, 1, interval, 2 * interval + 1])),
            gap_cycles=draw(st.sampled_from([1, 1, 2, 6])),
            issue_slots=draw(st.sampled_from([1, 1, 1, 2])),
        )
        for name in ("alu", "fp64", "sfu")
    }
    gpu = small_gpu(
        sms=case.gpu.sms,
        block_launch_cycles=draw(st.sampled_from([5, 60, 300])),
        sm={"schedulers": draw(st.integers(1, 4))},
        issue={"interval_cycles": interval, "width": draw(st.sampled_from([1, 1, 2]))},
        ops=facts,
        core=draw(st.sampled_from([{}, {}, {"register_banks": 2}])),
        memory={"latency_cycles": draw(st.sampled_from([10, 80, 300]))},
    )
    if draw(st.booleans()):
        gpu = draw(fetching(gpu))
    usual = st.sampled_from(["alu", "alu", "fp64", "sfu"])

    def chain() -> list[Instruction]:
        others = st.sampled_from([(), (), REGISTERS[:1], REGISTERS[1:2]])
        names = [draw(usual) for _ in range(draw(st.integers(1, 8)))]
        reads = st.sampled_from([(), (), ("R2", "R4", "R6"), ("R2.reuse", "R3")])
        return [Instruction(name, dst="r0", src=("r0", *draw(others)), reads=draw(reads)) for name in names]

    other = st.sampled_from([Instruction("load", dst="r1", src=("r0",)), Instruction("barrier"), Instruction("smem", dst="r1")])
    body: list[Any] = [*chain(), draw(other), *chain()]
    loop = Loop(body=body, trips=draw(st.integers(1, 5)) if case.options["cycles"] is None else draw(st.sampled_from([2, None])))
    kernel = Kernel(name="arithmetic", inputs=REGISTERS, body=(*chain(), loop))
    return Case(gpu, kernel, case.launch, case.options | {"sms": None})


@st.composite
def dependences(draw: st.DrawFn) -> Case:
    """Generates runs whose instructions need results of steps that issued about as long ago as these take."""
    case = draw(cases(memory="fixed"))
    readers = st.dictionaries(st.sampled_from(["alu", "sfu", "store", "load"]), st.integers(1, 12), max_size=2)
    facts = {
        name: _op(
            "math",
            latency_cycles=draw(st.integers(1, 9)),
            interval_cycles=draw(st.sampled_from(["1/2", 1, 2])),
            gap_cycles=draw(st.sampled_from([1, 1, 1, 2, 4])),
            latency_to=draw(readers),
        )
        for name in ("alu", "sfu", "smem")
    }
    branch = {"gap_cycles": draw(st.integers(1, 4)), "taken_gap_cycles": draw(st.integers(1, 6))}
    in_front = {"unit": "mio"} if draw(st.booleans()) else {}
    queue = {"scope": "sm", "queue": draw(st.integers(1, 3)), "lead_cycles": 1, "address_cycles": 2}
    gpu = small_gpu(
        sm={"schedulers": draw(st.integers(1, 2))},
        issue={"width": draw(st.sampled_from([1, 1, 2]))},
        ops={**facts, "smem": {**facts["smem"], "scope": "sm", **in_front}, "branch": branch},
        units={"mio": queue} if in_front else {},
        core=draw(st.sampled_from([{}, {"register_banks": 2}])),
        memory={"latency_cycles": draw(st.sampled_from([4, 9, 60])), "loads_per_warp": draw(st.sampled_from([None, None, 2]))},
    )
    register, name = st.sampled_from(REGISTERS), st.sampled_from(["alu", "alu", "alu", "sfu", "smem", "load", "store"])

    def straight() -> list[Any]:
        result: list[Any] = []
        for op in draw(st.lists(name, min_size=1, max_size=8)):
            dst = {} if op == "store" else {"dst": draw(st.one_of(st.none(), register, register))}
            reads = draw(st.sampled_from([(), (), (), ("R2", "R4", "R6")]))
            result.append(Instruction(op, src=draw(st.lists(register, max_size=2)), reads=reads, **dst))
        return result

    def nested(depth: int) -> list[Any]:
        inner = straight() if depth == 0 else [*straight(), *nested(depth - 1), *straight()]
        if draw(st.booleans()):
            return [Loop(body=inner, trips=draw(st.integers(1, 3)))]
        other = straight() if draw(st.booleans()) else ()
        return [Conditional(then=inner, orelse=other, probability=draw(st.sampled_from([0.0, 0.5, 1.0])))]

    body = [*straight(), *nested(draw(st.integers(0, 2))), *straight()]
    if case.options["cycles"] is not None and draw(st.booleans()):
        body = [*straight(), Loop(body=body, trips=None)]
    return Case(gpu, Kernel(name="dependences", inputs=REGISTERS, body=body), case.launch, case.options | {"sms": None})
