"""What-if studies: chips and kernels with single fields changed."""

import numpy as np
import pytest

from tests.support.small_plans import SHORT
from warpsim.arguments import InvalidPoint
from warpsim.engine.constants import Kind
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.whatif import at_clock, changed_gpu, check_fields_act
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop, mix
from warpsim.kernels.whatif import changed_kernel
from warpsim.simulation.api import simulate
from warpsim.simulation.encode import encode
from warpsim.simulation.launches import launch_time
from warpsim.simulation.point import make_point
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

KEPLER = load_gpu("kepler")


def test_a_field_of_an_operation_class_is_found_without_ops():
    changed = changed_gpu(KEPLER, {"alu.latency_cycles": 4, "memory.latency_cycles": 100, "clock_ghz": 2.0})
    expected = KEPLER.to_dict()
    expected["ops"]["alu"]["latency_cycles"] = 4
    expected["memory"]["latency_cycles"] = 100
    expected["clock_ghz"] = 2.0
    assert changed.to_dict() == expected
    assert changed_gpu(KEPLER, {"ops.alu.interval_cycles": "2/3"}).ops["alu"].interval_cycles == pytest.approx(2 / 3)
    assert changed_gpu(KEPLER, {}) is KEPLER


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"alu.latency_cycles": -1}, "gpu.alu.latency_cycles = -1 on kepler.*ops.alu.latency_cycles"),
        ({"alu.latency": 4}, "ops.alu.latency = 4: unknown key"),
        ({"sm.max_warps": 2}, "sm.schedulers = 4: must be at most sm.max_warps = 2"),
        ({"fp64.latency_cycles": 4}, "kepler has no operation class fp64; it has alu"),
        ({"clock_ghz.x": 4}, "gpu.clock_ghz.x: kepler has no such field"),
        ({"name": "mine"}, "a changed chip keeps its name"),
        ({"memory.contention.refined": [7], "memory.contention.refined_a_cycles": 1.0}, r"contention.refined\[0\] = 7: must be"),
    ],
)
def test_invalid_changes_are_rejected(fields, message):
    with pytest.raises(InvalidPoint, match=f"(?s){message}"):
        changed_gpu(KEPLER, fields)


def test_the_resources_of_a_kernel():
    changed = changed_kernel(mix(alpha=4), {"registers_per_thread": 63})
    assert changed.registers_per_thread == 63
    assert changed.body == mix(alpha=4).body
    with pytest.raises(ValueError, match=r"kernel.body: must be one of kernel.registers_per_thread, kernel.shared"):
        changed_kernel(mix(alpha=4), {"body": ()})
    with pytest.raises(ValueError, match=r"kernel.registers_per_thread = 0: "):
        changed_kernel(mix(alpha=4), {"registers_per_thread": 0})


def test_fields_are_axes(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(
        'gpu.name = "kepler"\ngpu.alu.latency_cycles = [9, 18, 36]\nkernel.name = "mix"\n'
        "kernel.registers_per_thread = [16, 63]\nalpha = inf\nwarps = 4\ncycles = 9000\nsms = 1\n"
    )
    plan = Plan.from_toml(file)
    assert plan.grid.axes == ("gpu.alu.latency_cycles", "kernel.registers_per_thread")
    results = sweep(plan).isel(replicate=0)
    assert results["gpu.alu.latency_cycles"].attrs["units"] == "cycles"
    # a warp's chain of adds issues once in a latency: 4 warps, 4 / latency
    ipc = results["ipc"].sel({"op": "alu", "kernel.registers_per_thread": 16})
    assert ipc.values == pytest.approx([4 / 9, 4 / 18, 4 / 36], rel=0.01)
    assert results["valid"].values.tolist() == [[True, True]] * 3
    text = file.read_text()
    file.write_text(text.replace("[16, 63]", "[16, 64]"))
    with pytest.raises(ValueError, match=r"kernel.registers_per_thread = 64: fits no chip: .* \(at most 63,"):
        Plan.from_toml(file)
    again = Plan.from_provenance(plan.attributes()["provenance"])
    assert again.record() == plan.record()


def test_a_value_is_rejected_only_if_no_chip_can_have_it():
    with pytest.raises(ValueError, match=r"gpu.alu.latency_cycles = -4 on g80"):
        Plan(gpu=["g80", "kepler"], kernel="mix", **{"gpu.alu.latency_cycles": [4, -4]})
    plan = Plan(gpu=["g80", "kepler"], kernel="mix", warps=8, **SHORT, **{"gpu.memory.bandwidth_gbs": [60.0, 160.0]})
    assert sweep(plan)["valid"].values.tolist() == [[True, False], [True, True]]  # g80 has pins for 86.4 GB/s


def test_a_bandwidth_above_the_stages_of_the_queue_is_refused():
    """It would have no effect: on Kepler both stages have 163.7 GB/s."""
    given = {"gpu": "kepler", "kernel": "mix", "warps": 8, **SHORT}
    message = r"gpu.memory.bandwidth_gbs = 180: must be at most 163.7 on kepler, .* gpu.memory.queue.dram_gbs with it"
    with pytest.raises(ValueError, match=message):
        Plan(**given, **{"gpu.memory.bandwidth_gbs": [120.0, 180.0]})
    Plan(**given, memory="fixed", **{"gpu.memory.bandwidth_gbs": [120.0, 180.0]})
    names = ["gpu.memory.bandwidth_gbs", "gpu.memory.queue.crossbar_gbs", "gpu.memory.queue.dram_gbs"]
    faster = {name: [rate, 1.17 * rate] for name, rate in zip(names, (154.0, 163.7, 163.7), strict=True)}
    plan = Plan(**(given | {"alpha": 0, "warps": 48, "cycles": 6000}), zip={"rates": names}, **faster)
    slow, fast = sweep(plan).bandwidth.values.ravel()
    assert fast > 1.05 * slow


ALL_OPS = tuple(
    [
        Instruction("load", dst="a", access=Access(l1_hit=0.25, l2_hit=0.25)),
        Instruction("load", dst="b", access=Access(pattern="stride", stride=5)),
        Instruction("load", dst="c", access=Access(pattern="stride", stride=64)),
        Instruction("smem", dst="a", src=("a",), access=Access(pattern="stride", stride=7)),
        Instruction("smem", dst="d", src=("a",), access=Access(pattern="stride", stride=8)),
        Instruction("alu", dst="b", src=("b",)),
        Instruction("sfu", dst="c", src=("c",)),
        Instruction("store", src=("c",)),
        Instruction("barrier"),
        Conditional(probability=0.5, then=(Instruction("alu", dst="b", src=("b",)),)),
    ]
)
EVERYTHING = Kernel(name="everything", body=(Loop(trips=None, body=ALL_OPS),))


def simulated(gpu, memory):
    """All that simulations of some launches depend on: what the engine gets, without what it does not read."""
    found = [gpu.clock_ghz]
    for block_warps in (3, 16):
        for registers, shared in ((16, 9001), (63, 0), (16, 0), (37, 3001)):
            resources = {"registers_per_thread": registers, "shared_bytes_per_block": shared}
            try:
                point = make_point(gpu, EVERYTHING.model_copy(update=resources), block_warps=block_warps, memory=memory)
            except InvalidPoint:
                found.append("invalid")
                continue
            machine = encode(point.gpu, point.kernel, point.launch, scheduler="lrr", memory=memory)
            program, chip = machine.program, machine.chip[0]
            program.latency[~np.isin(program.kind, (Kind.COMPUTE, Kind.BARRIER))] = 0  # nobody waits for it
            program.gap[program.kind == Kind.EXIT] = 0
            machine.details.taken_gap[program.kind != Kind.BRANCH] = 0
            if memory != "queue":
                chip.crossbar_servers = chip.dram_servers = 0
                machine.details.slices[:], machine.details.slice_cycles[:], machine.details.dram_cycles[:] = 0, 0, 0
            if memory != "fixed":
                chip.latency = 0
            found.append([np.asarray(part).tobytes() for part in machine])
    return found


def leaves(data, prefix=""):
    for key, value in data.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def others(key, value):
    """Other values of a field, some of which a chip may have."""
    words = {"scope": ["sm", "scheduler"], "pipe": ["math", "mio", "none"], "register_allocation": ["warp", "block"]}
    words |= {"coalescing": ["warp", "half-warp", "half-warp-ordered"], "distribution": ["FILE"], "measured": [False]}
    last = key.rpartition(".")[2]
    if last in words:
        return [word for word in words[last] if word != value]
    if isinstance(value, str) and not value.replace("/", "").isdecimal():
        return ["other"]
    if last == "interval_cycles" and key != "issue.interval_cycles":
        return [7]
    if value is None:
        return [1, 30]
    numbers = (1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 256, 1000, value * 2, value // 2 or 1, value * 4, value // 5)
    return [number for number in numbers if number != value]


@pytest.mark.parametrize("memory", ["queue", *(pytest.param(name, marks=pytest.mark.verify) for name in ("fixed", "measured"))])
def test_exactly_the_fields_that_a_simulation_does_not_read_are_refused(memory, tmp_path):
    file = tmp_path / "other.csv"
    file.write_text("load_gbs,0,0.1,0.9,1\n5,10,20,30,40\n", encoding="utf-8")
    gpu = changed_gpu(KEPLER, {"memory.l1_latency_cycles": 30, "memory.l2_latency_cycles": 90, "memory.loads_per_sm": 60})
    before = simulated(gpu, memory)
    silent, changeable = set(), set()
    for key, value in leaves(gpu.to_dict()):
        if key == "name" or (memory == "measured" and key == "memory.measured"):
            continue
        for other in others(key, value):
            try:
                changed = changed_gpu(gpu, {key: str(file) if other == "FILE" else other})
            except InvalidPoint:
                continue
            changeable.add(key)
            if simulated(changed, memory) != before:
                break
        else:
            silent.add(key)
    refused = set()
    for key, _ in leaves(gpu.to_dict()):
        try:
            check_fields_act([key], memory)
        except ValueError:
            refused.add(key)
    assert silent & changeable == refused & changeable


def test_the_field_that_acts_is_named():
    with pytest.raises(ValueError, match=r"gpu\.memory\.queue\.dram_gbs: .*memory = 'fixed' .*gpu\.memory\.bandwidth_gbs"):
        check_fields_act(["memory.queue.dram_gbs"], "fixed")
    with pytest.raises(ValueError, match=r"gpu\.load\.latency_cycles: .*gpu\.memory\.latency_cycles"):
        check_fields_act(["load.latency_cycles"], "queue")
    check_fields_act(["memory.queue.dram_gbs", "alu.latency_cycles"], "queue")


@pytest.mark.parametrize("memory", ["queue", "fixed", "measured"])
def test_every_memory_model_respects_the_unloaded_latency(memory):
    settings = {"warps": 1, "memory": memory, "sms": 1, "warmup": 0, "cycles": 400_000}  # 1,000 loads: s.e. 0.9
    low, high = (
        simulate(changed_gpu(KEPLER, {"memory.latency_cycles": cycles}), mix(alpha=0), **settings) for cycles in (301, 401)
    )
    assert float((high.memory_latency - low.memory_latency).item()) == pytest.approx(100, abs=4)


def test_at_another_clock_times_of_the_memory_stay():
    gpu = load_gpu("a100")
    half = at_clock(gpu, gpu.clock_ghz / 2)
    of_l2 = gpu.memory.l2_latency_cycles
    assert half.memory.l2_latency_cycles == of_l2
    assert half.memory.latency_cycles - of_l2 == pytest.approx((gpu.memory.latency_cycles - of_l2) / 2, abs=0.5)
    assert half.memory.queue.crossbar_gbs == gpu.memory.queue.crossbar_gbs / 2
    assert (half.memory.bandwidth_gbs, half.memory.queue.dram_gbs) == (gpu.memory.bandwidth_gbs, gpu.memory.queue.dram_gbs)
    assert at_clock(gpu, gpu.clock_ghz).to_dict() == gpu.to_dict()
    with pytest.raises(InvalidPoint, match=r"clock_ghz = -1"):
        at_clock(gpu, -1.0)


@pytest.mark.parametrize(("kernel", "least", "most"), [("cuda/black_scholes", 1.35, 1.42), ("cuda/copy", 1.0, 1.3)])
def test_a_launch_at_a_lower_clock(kernel, least, most):
    """Arithmetic takes longer by the ratio of the clocks, 1.41; a stream that DRAM limits hardly does."""
    fast, slow = (launch_time("a100", kernel, 20_000, clock_ghz=clock, replicates=1) for clock in (None, 1.0))
    assert least < slow.microseconds.mean / fast.microseconds.mean < most
    assert slow.point.gpu.clock_ghz == 1.0
