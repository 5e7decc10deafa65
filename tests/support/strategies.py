"""Random small chips, kernels and launches, for tests that compare two implementations of docs/model.md.

They are small, so that the slow reference runs a case in tens of milliseconds, and cause contention between warps: short
latencies, few units, slow memory. Deterministic cases have the memory model `fixed` and use no random numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.support.cases import POLICIES, REGISTERS, Case, changed, op_facts, paths, small_gpu
from tests.support.random_chips import fetching, gpus, operand_reads, stores_among_loads
from tests.support.random_programs import bodies, hinted, kernels, pipelines
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Instruction, Kernel, Loop

_DRAWN = (*POLICIES, "two_level:1", "two_level:4")


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


@st.composite
def with_many_warps(draw: st.DrawFn) -> Case:
    """Generates runs on SMs with up to 64 warps, up to 8 schedulers, and blocks of up to 32 warps, with any of the policies.

    The windows are short, as the reference visits every warp in every cycle.
    """
    case = draw(cases())
    warps = draw(st.sampled_from([16, 33, 48, 64, 64]))
    most, schedulers = min(warps, 32), draw(st.sampled_from([1, 2, 3, 4, 8]))
    sm = {"max_warps": warps, "max_blocks": most, "max_block_warps": most, "schedulers": schedulers}
    gpu = Gpu.model_validate(changed(case.gpu.to_dict(), {"sms": 1, "sm": sm}))
    block_warps = draw(st.sampled_from([size for size in (1, 4, 8, 11, 16, 32) if size <= warps]))
    blocks = None if case.launch.blocks is None else draw(st.integers(1, 12))
    resident = min(draw(st.integers(1, most)), warps // block_warps)
    launch = case.launch.model_copy(update={"blocks": blocks, "block_warps": block_warps, "resident_blocks": resident})
    policies = st.sampled_from([case.options["scheduler"], "two_level", "two_level:16", "two_level:32", "gto", "grr"])
    length = {} if case.options["cycles"] is None else {"cycles": min(case.options["cycles"], 120)}
    return replace(case, gpu=gpu, launch=launch, options=case.options | {"scheduler": draw(policies), "sms": None} | length)


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
    if draw(st.integers(0, 4)) == 0:
        kernel = draw(pipelines(launch.block_warps, draw(st.booleans())))
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
    gpu = Gpu.model_validate(changed(gpu.to_dict(), {"core": {"register_banks": 2}}))
    return replace(case, gpu=gpu, kernel=case.kernel.model_copy(update={"body": draw(hinted(case.kernel.body))}))


@st.composite
def with_mbarriers(draw: st.DrawFn) -> Case:
    """Generates runs of kernels in which warps of a block wait for each other at mbarriers, on chips with various options."""
    case = draw(draw(st.sampled_from([cases(), cases(), with_hints(), with_fetch(), with_stores_among_loads()])))
    kernel = draw(pipelines(case.launch.block_warps, case.kernel.endless))
    if draw(st.integers(0, 3)) == 0:
        kernel = kernel.model_copy(update={"body": draw(hinted(kernel.body, every=draw(st.sampled_from([2, 4]))))})
    length = {} if case.options["cycles"] is None else {"cycles": 2 * case.options["cycles"]}
    return replace(case, kernel=kernel, options=case.options | length)


@st.composite
def arithmetic(draw: st.DrawFn) -> Case:
    """Generates runs of dependent arithmetic among loads and barriers, with which the schedulers of the engine run ahead."""
    case = draw(cases(memory=draw(st.sampled_from(["fixed", "queue"]))))
    interval = draw(st.sampled_from([1, 1, 2, 5]))
    facts = {
        name: op_facts(
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
        reads = st.sampled_from([(), (), ("R2", "R4", "R6"), ("R2.reuse", "R3"), ("R2:4", "R4:39")])
        return [Instruction(name, dst="r0", src=("r0", *draw(others)), reads=draw(reads)) for name in names]

    other = st.sampled_from([Instruction("load", dst="r1", src=("r0",)), Instruction("barrier"), Instruction("smem", dst="r1")])
    body: list[Any] = [*chain(), draw(other), *chain()]
    loop = Loop(body=body, trips=draw(st.integers(1, 5)) if case.options["cycles"] is None else draw(st.sampled_from([2, None])))
    kernel = Kernel(name="arithmetic", inputs=REGISTERS, body=(*chain(), loop))
    return Case(gpu, kernel, case.launch, case.options | {"sms": None})


@st.composite
def long_runs(draw: st.DrawFn) -> Case:
    """Generates long runs of dependent arithmetic among loads and barriers, which the schedulers of the engine issue at once."""
    case = draw(cases(memory=draw(st.sampled_from(["fixed", "queue"]))))
    facts = {
        name: op_facts(
            "math",
            latency_cycles=draw(st.sampled_from([1, 2, 2, 3, 3, 4, 5, 9, 24])),
            interval_cycles=draw(st.sampled_from(["1/2", 1])),
            gap_cycles=draw(st.sampled_from([1, 1, 1, 3])),
        )
        for name in ("alu", "fp64")
    }
    gpu = small_gpu(
        sms=draw(st.integers(1, 2)),
        block_launch_cycles=draw(st.sampled_from([40, 150])),
        sm={"schedulers": draw(st.sampled_from([1, 1, 2]))},
        issue={"interval_cycles": draw(st.sampled_from([1, 1, 1, 1, 2])), "width": draw(st.sampled_from([1, 1, 2]))},
        ops=facts,
        memory={"latency_cycles": draw(st.sampled_from([90, 300])), "l2_latency_cycles": 80, "l1_latency_cycles": 70},
    )

    def run() -> list[Instruction]:
        source = draw(st.sampled_from(["r0", "r0", "r1"]))
        first = Instruction(draw(st.sampled_from(["alu", "fp64"])), dst="r0", src=("r0", source))
        return [first, *[Instruction("alu", dst="r0", src=("r0",))] * draw(st.integers(1, 150))]

    other = st.sampled_from([Instruction("load", dst="r1", src=("r0",)), Instruction("barrier"), Instruction("smem", dst="r1")])
    body = [*run(), draw(other), *run(), draw(other)]
    loop = Loop(body=body, trips=2 if case.options["cycles"] is None else None)
    length = {} if case.options["cycles"] is None else {"cycles": draw(st.sampled_from([100, 700, 1500]))}
    kernel = Kernel(name="long_runs", inputs=REGISTERS, body=(*run(), loop))
    return Case(gpu, kernel, case.launch, case.options | length | {"sms": None})


@st.composite
def dependences(draw: st.DrawFn) -> Case:
    """Generates runs whose instructions need results of steps that issued about as long ago as these take."""
    case = draw(cases(memory="fixed"))
    readers = st.dictionaries(st.sampled_from(["alu", "sfu", "store", "load"]), st.integers(1, 12), max_size=2)
    facts = {
        name: op_facts(
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
