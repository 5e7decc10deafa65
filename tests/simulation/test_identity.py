"""The identity of a point: what a kernel does not read has no effect, not even on the random numbers."""

import pytest

import warpsim as ws
from warpsim.hardware.whatif import changed_gpu
from warpsim.simulation.point import make_point

KEPLER = ws.load_gpu("kepler")
SETTINGS = {"warps": 16, "sms": 1, "warmup": 200, "cycles": 2_000, "replicates": 2}
NOT_READ_BY_A_MIX = {
    "sfu.latency_cycles": 36,
    "smem.interval_cycles": 7,
    "memory.l2_latency_cycles": 100,
    "memory.transaction_bytes": 128,
    "memory.transaction_latency_cycles": 5.0,
    "memory.stores_per_sm": 3,
    "shared.banks": 16,
    "sm.registers": 32768,
    "sm.shared_bytes": 65536,
}
READ_BY_A_MIX = {
    "alu.latency_cycles": 12,
    "load.interval_cycles": 2,
    "memory.latency_cycles": 350,
    "memory.bandwidth_gbs": 120.0,
    "memory.queue.dram_servers": 40,
    "clock_ghz": 1.5,
    "issue.width": 1,
    "memory.loads_per_sm": 8,
}


@pytest.mark.parametrize(("key", "value"), NOT_READ_BY_A_MIX.items())
def test_what_a_kernel_does_not_read_changes_nothing(key, value):
    kernel = ws.kernels.mix(8)
    changed = changed_gpu(KEPLER, {key: value})
    assert changed != KEPLER
    assert make_point(changed, kernel, **SETTINGS).streams() == make_point(KEPLER, kernel, **SETTINGS).streams()
    assert ws.simulate(changed, kernel, **SETTINGS).equals(ws.simulate(KEPLER, kernel, **SETTINGS))


@pytest.mark.parametrize(("key", "value"), READ_BY_A_MIX.items())
def test_what_a_kernel_reads_is_part_of_its_identity(key, value):
    kernel = ws.kernels.mix(8)
    changed = changed_gpu(KEPLER, {key: value})
    assert make_point(changed, kernel, **SETTINGS).streams() != make_point(KEPLER, kernel, **SETTINGS).streams()


MANY_FIELDS = ws.Kernel(
    name="many_fields",
    inputs=("r0",),
    body=[
        ws.Instruction("load", dst="r1", src=["r0"], access=ws.Access(l1_hit=0.2, l2_hit=0.4)),
        ws.Instruction("alu", dst="r1", src=["r1"]),
        ws.Instruction("smem", dst="r1", src=["r1"], access=ws.Access(pattern="stride", stride=2)),
        ws.Instruction("sfu", dst="r1", src=["r1"]),
        ws.Instruction("load", dst="r2", src=["r1"], access=ws.Access(pattern="stride", stride=8)),
        ws.Instruction("store", src=["r2"]),
    ]
    * 4,
)


def numbers(table, path=""):
    """Yields the keys of the numbers in a chip's table, and of what it leaves out, with changed values to try."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{path}{key}.")
        elif value is None:
            yield f"{path}{key}", (1, 0.5)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{path}{key}", (value + 1, 2 * value, value / 2)


def test_fields_outside_the_identity_have_no_effect():
    """Tries every number of a chip. A new one that the machine reads belongs into `warpsim/simulation/identity.py`."""
    gpu, launch = ws.load_gpu("v100"), ws.Launch(blocks=6, block_warps=2, resident_blocks=2)
    point = make_point(gpu, MANY_FIELDS, launch=launch, sms=1)
    result = ws.simulate(gpu, MANY_FIELDS, launch=launch, sms=1)
    outside = []
    for key, values in numbers(gpu.to_dict()):
        for value in values:
            try:
                changed = changed_gpu(gpu, {key: value})
                other = make_point(changed, MANY_FIELDS, launch=launch, sms=1)
            except ValueError:  # the chip cannot have this value
                continue
            if other.streams() == point.streams():
                outside.append(key)
                assert ws.simulate(changed, MANY_FIELDS, launch=launch, sms=1).equals(result), key
            break
    assert "memory.pin_bandwidth_gbs" in outside and "memory.latency_cycles" not in outside


def test_the_same_field_is_read_by_another_kernel():
    slow = changed_gpu(KEPLER, {"sfu.latency_cycles": 36})
    kernel = ws.kernels.chain("sfu")
    assert make_point(slow, kernel, **SETTINGS).identity() != make_point(KEPLER, kernel, **SETTINGS).identity()
    strided = ws.kernels.chain("load", pattern="stride", stride=8)
    wide = changed_gpu(KEPLER, {"memory.transaction_bytes": 128})
    assert make_point(wide, strided, **SETTINGS).identity() != make_point(KEPLER, strided, **SETTINGS).identity()


def test_resources_count_only_through_the_launch():
    kernel = ws.kernels.mix(8)
    hungry = kernel.model_copy(update={"registers_per_thread": 20, "shared_bytes_per_block": 64})
    assert make_point(KEPLER, hungry, **SETTINGS).identity() == make_point(KEPLER, kernel, **SETTINGS).identity()


def test_memory_models_read_their_own_parameters():
    kernel = ws.kernels.mix(8)
    other = changed_gpu(KEPLER, {"memory.queue.dram_servers": 40})
    for memory, same in (("queue", False), ("fixed", True), ("measured", True)):
        points = [make_point(gpu, kernel, memory=memory, **SETTINGS) for gpu in (KEPLER, other)]
        assert (points[0].identity() == points[1].identity()) == same


def test_an_unknown_argument_has_a_hint():
    with pytest.raises(TypeError, match=r"warp: must be one of gpu, kernel, warps, .*did you mean 'warps'"):
        make_point(KEPLER, ws.kernels.mix(8), warp=3)


def test_arguments_of_a_named_kernel_reach_its_builder():
    settings = {"sms": 1, "warmup": 0, "cycles": 500}
    named = ws.simulate("KEPLER", "mix", alpha=4, warps=8, **settings)
    assert named.equals(ws.simulate(KEPLER, ws.kernels.mix(4), warps=8, **settings))
    assert ws.compare("kepler", "mix", alpha=4, warps=[8], replicates=1, **settings).results.sizes["warps"] == 1
    with pytest.raises(TypeError, match="alpha: is not an argument, and a Kernel object takes none"):
        ws.simulate(KEPLER, ws.kernels.mix(4), alpha=4)


def test_costs_of_a_class_that_no_instruction_has_are_not_read():
    own = ws.Cost(gap_cycles=5, interval_cycles=3, latency_cycles=7, issue_slots=2)
    kernel = ws.Kernel(name="own", inputs=("r",), body=[ws.Instruction("alu", dst="r", src=["r"], cost=own)])
    fields = {"alu.latency_cycles": 30, "alu.interval_cycles": 5, "alu.gap_cycles": 3, "alu.issue_slots": 4}
    changed = changed_gpu(KEPLER, fields)
    launch = ws.Launch(blocks=1, block_warps=1)
    points = [make_point(gpu, kernel, launch=launch, sms=1) for gpu in (KEPLER, changed)]
    assert points[0].streams() == points[1].streams()
    assert ws.simulate(changed, kernel, launch=launch, sms=1).equals(ws.simulate(KEPLER, kernel, launch=launch, sms=1))
    one_without = kernel.model_copy(update={"body": (*kernel.body, ws.Instruction("alu", dst="r", src=["r"]))})
    points = [make_point(gpu, one_without, launch=launch, sms=1) for gpu in (KEPLER, changed)]
    assert points[0].streams() != points[1].streams()


def test_a_cost_is_part_of_the_identity_and_a_missing_one_is_not():
    add = ws.Instruction("alu", dst="r")
    plain, none, own = (
        ws.Kernel(name="x", body=[ws.Instruction("alu", dst="r", **cost)])
        for cost in ({}, {"cost": ws.Cost()}, {"cost": ws.Cost(gap_cycles=5)})
    )
    optional = {"comment", "cost", "reads", "hints", "arrives", "awaits", "reports"}
    assert plain.identity()["body"][0].keys() == add.model_dump().keys() - optional
    assert plain.identity() == none.identity() != own.identity()


def test_names_of_shared_units_are_labels():
    data = KEPLER.to_dict()
    for op in ("alu", "sfu"):
        del data["ops"][op]["scope"]

    def sharing(name, *ops):
        own = {op: facts | {"unit": name} if op in ops else {"scope": "scheduler", **facts} for op, facts in data["ops"].items()}
        return KEPLER.from_dict(data | {"ops": own, "units": {name: {"scope": "scheduler"}}})

    kernel = ws.Kernel(name="both", body=[ws.Instruction("alu", dst="r"), ws.Instruction("sfu", dst="s")])
    first, second, third = (
        make_point(gpu, kernel, **SETTINGS).streams()
        for gpu in (sharing("a", "alu", "sfu"), sharing("b", "alu", "sfu"), sharing("a", "alu"))
    )
    assert first == second != third


def test_a_chip_without_contended_atomics_refuses_their_class_by_name() -> None:
    with pytest.raises(ValueError, match="operation class"):
        ws.simulate("kepler", "cuda/histogram", cycles=1000)


def test_the_cycles_of_a_window_do_not_matter_to_a_grid_that_ends():
    kernel = ws.load_kernel("vector_add")
    grid, window = {"launch": ws.Launch(blocks=10, block_warps=8)}, {"launch": ws.Launch(block_warps=8)}
    for launch, same in ((grid, True), (window, False)):
        points = [make_point(KEPLER, kernel, cycles=cycles, **launch) for cycles in (500, 900)]
        assert (points[0].identity() == points[1].identity()) == same
