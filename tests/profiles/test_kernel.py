"""Launches become kernels: structure from counts, dependences from control fields, costs from counters."""

import math
import re
from dataclasses import replace

import pytest

from tests.support.executions import expected_ops
from tests.support.profiled_launches import TRIPS, WARPS, launch
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import occupancy
from warpsim.kernels.access import updates_of_one_address
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Conditional, Loop
from warpsim.kernels.traversal import walk
from warpsim.profiles.api import profile_of
from warpsim.profiles.chip import chip_of, pin_bandwidth, scaled
from warpsim.profiles.code import decoded
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.inputs import inputs_of
from warpsim.profiles.kernel import to_kernel
from warpsim.profiles.measured import OTHER, measurements
from warpsim.profiles.roofline import roofline
from warpsim.profiles.traffic import traffic
from warpsim.profiles.updates import Updates, updates
from warpsim.simulation.endless import endless, without_exits


@pytest.fixture(scope="module")
def profile():
    return profile_of(launch())


def instruction(profile, text):
    return next(one for _, one in walk(profile.kernel.body) if text in getattr(one, "comment", ""))


def test_the_back_edge_is_a_loop(profile):
    (loop,) = [one for one in profile.kernel.body if isinstance(one, Loop)]
    assert loop.trips == TRIPS
    executed = sum(one.executed for one in launch().code)
    assert sum(count for _, count in expected_ops(profile.kernel.body)) + 1 == pytest.approx(executed / WARPS)


def test_clocks_of_a_launch_whose_time_was_measured_too_long():
    """All clocks seem to be slow by as much as that of the memory, which is fixed."""
    fixed = {"device__attribute_max_mem_frequency_khz": 7.2e6}
    slow = {"gpc__cycles_elapsed.avg.per_second": 0.91e9, "dram__cycles_elapsed.avg.per_second": 5.04e9}
    true, seeming, found = (chip_of(launch(metrics))[0] for metrics in (fixed, slow, fixed | slow))
    assert found.clock_ghz == pytest.approx(true.clock_ghz) and seeming.clock_ghz == 0.91
    assert found.memory.pin_bandwidth_gbs == pytest.approx(true.memory.pin_bandwidth_gbs)
    assert found.memory.latency_cycles == true.memory.latency_cycles > seeming.memory.latency_cycles
    assert chip_of(launch(fixed | slow))[1] == (
        "the clock of the SMs seems 0.91 GHz and is taken as 1.30: "
        "by the fixed clock of the memory, the measured time is 1.43 times the true one",
    )
    assert chip_of(launch(fixed))[1] == ()
    near = fixed | {"dram__cycles_elapsed.avg.per_second": 7.0e9}
    assert chip_of(launch(near))[0].clock_ghz == 1.3


def test_the_inputs_are_those_that_the_report_has(profile):
    assert "sectors by instruction" in profile.inputs and "lines that L1 asked L2 for" not in profile.inputs
    requests = {"lts__t_requests_srcunit_tex_op_read.sum": 100.0, "lts__cycles_elapsed.avg.per_second": 1e9}
    assert {"lines that L1 asked L2 for", "L2's clock"} <= set(inputs_of(launch(requests)))


def test_sectors_between_the_caches_are_an_input(profile):
    assert "sectors between L1 and L2" not in profile.inputs
    for metric in (
        "lts__t_sectors_srcunit_tex.sum",
        "lts__t_sectors_srcunit_tex_op_write.sum",
        "l1tex__m_xbar2l1tex_read_sectors_mem_lg_op_ld.sum",
    ):
        assert "sectors between L1 and L2" in inputs_of(launch({metric: 100.0}))


def test_missing_hits_and_sectors_are_noted_and_are_no_inputs(profile):
    sectors, hits = ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld" + end for end in (".sum", "_lookup_hit.sum"))
    assert "L1's hit rate of loads" in profile.inputs and not profile.notes
    without = profile_of(launch(without=[hits]))
    (note,) = without.notes
    assert "L1's hit rate of loads" not in without.inputs
    assert "L1's hit rate of loads is missing and is taken as 0: ncu --section MemoryWorkloadAnalysis_Tables" in note
    one = launch(without=[hits, sectors])
    bare = replace(one, code=tuple(replace(at, counts={}) for at in one.code))
    (note,) = to_kernel(bare, profile.gpu).notes
    assert "sectors of loads and stores are missing" in note and "ncu --section SourceCounters" in note
    assert not [what for what in inputs_of(bare) if "sectors" in what]


def test_wait_masks_are_the_dependences(profile):
    load, product = instruction(profile, "LDG"), instruction(profile, "FMUL")
    assert load.dst in product.src
    assert instruction(profile, "S2R").dst in instruction(profile, "IMAD.WIDE").src
    assert product.cost.gap_cycles == 4 and load.cost.gap_cycles == 2


def test_half_of_the_bytes_come_from_memory(profile):
    load, store = instruction(profile, "LDG"), instruction(profile, "STG")
    assert (load.cost.requests, load.cost.bytes_per_request) == (1, 128.0)
    assert load.access.l2_hit == pytest.approx(0.5) and store.access.l2_hit == 1.0
    of = traffic(launch({"dram__bytes_read.sum": WARPS * TRIPS * 128 * 1.5}))
    assert of.load_excess == pytest.approx(1.5)


def test_lines_that_are_written_in_part_take_the_ports_of_l2_for_longer(profile):
    """48 slices at 1 GHz take in 48 sectors in a cycle."""
    ports = {"device__attribute_l2s_count": 48, "lts__cycles_elapsed.avg.per_second": 1e9}
    one = launch(ports | {"dram__bytes_write.sum": WARPS * TRIPS * 64})
    assert profile_of(one).gpu.memory.l2_store_gbs == pytest.approx(48 * 32)
    of = traffic(one)
    assert of.stored(4, 1, 128) == (128.0, 4.0) and of.stored(32, 12, 128) == (1024.0, 32.0 + 12.0)
    assert of.store_l2_hit == 0.5
    assert profile_of(launch()).gpu.memory.l2_store_gbs == pytest.approx(load_gpu("a40").memory.l2_store_gbs * 1.3 / 1.74)


def test_lines_hit_each_by_itself_unless_they_lie_side_by_side(profile):
    hits = {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": WARPS * TRIPS * 2}
    of = traffic(launch(hits))
    assert of.loaded(4, 1, 128)[:2] == (0.5, 1.0) and of.loaded(16, 4, 512)[:2] == (0.5, 4.0)
    hit, lines, _ = of.loaded(2, 2, 8)
    assert hit == 0.25 and lines == pytest.approx(2 * 0.5 / 0.75)


def test_bytes_that_a_load_brings_and_does_not_ask_for_hit_first(profile):
    """Of the 4 sectors of each load half are spare; of its hits, as many as possible are due to these."""
    hits = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
    one = launch()
    narrow = (replace(code, counts=dict(code.counts) | {"memory_access_size_type": 16.0}) for code in one.code)
    one = replace(one, code=tuple(narrow))
    few, many = (traffic(replace(one, metrics=dict(one.metrics) | {hits: WARPS * TRIPS * n})) for n in (1, 3))
    assert (few.l1_hit, few.asked_hit, few.spare_hit) == (0.25, 0.0, 0.5)
    assert (many.l1_hit, many.asked_hit, many.spare_hit) == (0.75, 0.5, 1.0)
    for of in (few, many):
        assert of.loaded(4, 1, 64)[0] == pytest.approx(of.l1_hit)  # as all loads of the kernel
        assert of.loaded(4, 1, 128)[0] == pytest.approx(of.asked_hit)  # all of its bytes are asked for
        assert of.loaded(4, 1, 32)[0] == pytest.approx(0.75 * of.spare_hit + 0.25 * of.asked_hit)


def test_accesses_that_are_counted_in_sum_have_their_mean(profile):
    counts = "memory_l2_theoretical_sectors_global", "memory_l1_tag_requests_global"
    one = launch({"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": WARPS * TRIPS / 2})
    without = (replace(code, counts={k: v for k, v in code.counts.items() if k not in counts}) for code in one.code)
    one = replace(one, code=tuple(without))
    assert traffic(one).load_sectors == 8
    assert instruction(profile_of(one), "LDG").cost.bytes_per_request == pytest.approx(128)
    assert instruction(profile_of(one), "LDG").cost.requests == 2


def test_what_was_measured():
    measured = measurements(launch({"smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio": 2.0}))
    assert measured.stalls == {"long_scoreboard": 9.0, "selected": 1.0, OTHER: 2.0}
    assert measured.ipc == pytest.approx(sum(one.executed for one in launch().code) / 84 / 9000)
    assert measured.missing == ("samples by instruction: ncu --section SourceCounters (or --set full)",)
    sampled = launch({"smsp__pcsamp_interval": 5})
    assert measurements(sampled).missing == ()
    without_lines = replace(sampled, code=tuple(replace(one, line=None) for one in sampled.code))
    assert measurements(without_lines).missing == ("source lines: nvcc -lineinfo",)
    less = measurements(launch(without=["sm__warps_active.avg.per_cycle_active"]))
    assert less.warps is None and "--section Occupancy" in less.missing[0]


def test_samples_of_an_instruction():
    """Some versions of the profiler count them by reason only."""
    reasons = {"smsp__pcsamp_warps_issue_stalled_wait": 3.0, "smsp__pcsamp_warps_issue_stalled_selected": 1.0}
    one = replace(launch().code[0], counts=reasons | {"inst_executed": 9.0})
    assert one.samples == 4.0
    assert replace(one, counts=reasons | {"smsp__pcsamp_sample_count": 5.0}).samples == 5.0
    assert replace(one, counts={}).samples == 0.0


@pytest.mark.parametrize(
    ("metric", "option"),
    [
        ("dram__bytes_read.sum", "MemoryWorkloadAnalysis_Tables"),
        ("launch__grid_size", "LaunchStats"),
        ("gpu__time_duration.sum", "SpeedOfLight"),
    ],
)
def test_a_missing_section_is_named_with_its_option(metric, option):
    with pytest.raises(ProfileError, match=f"{metric} is missing; collect it with ncu --section {option}"):
        profile_of(launch(without=[metric]))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("gpc__cycles_elapsed.max", 0),
        ("sm__cycles_elapsed.avg", 0),
        ("gpu__time_duration.sum", -1),
        ("launch__grid_size", 1e30),
        ("launch__grid_size", math.inf),
        ("launch__block_size", 0),
    ],
)
def test_a_counter_that_no_launch_has_is_named(metric, value):
    with pytest.raises(ProfileError, match=re.escape(f"{metric} = {value:g}: must be above 0")):
        profile_of(launch({metric: value}))


def test_a_launch_of_which_nothing_was_measured_is_said():
    with pytest.raises(ProfileError, match=r"gpc__cycles_elapsed.max is no number: the profiler measured nothing of this launch"):
        profile_of(launch({"gpc__cycles_elapsed.max": math.nan}))


@pytest.mark.parametrize("value", [-1.0, math.inf, -math.inf])
@pytest.mark.parametrize(
    "metric",
    [
        "dram__bytes_read.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    ],
)
def test_a_metric_that_is_negative_or_infinite_is_named(metric, value):
    with pytest.raises(ProfileError, match=re.escape(f"{metric} = {value:g}: must be finite, and at least 0")):
        profile_of(launch({metric: value}))


@pytest.mark.parametrize("metric", ["dram__cycles_elapsed.avg.per_second", "lts__cycles_elapsed.avg.per_second"])
def test_a_clock_that_no_memory_has_is_named(metric):
    fixed = {"device__attribute_max_mem_frequency_khz": 7.2e6}
    with pytest.raises(ProfileError, match=f"{metric} = 1e-300: must be 1e.06 at least"):
        profile_of(launch(fixed | {metric: 1e-300}))


def test_a_ratio_of_nothing_to_nothing_is_left_out():
    reason = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    assert profile_of(launch({reason: math.nan})).measured.stalls == {"selected": 1.0}


def test_clocks_that_no_chip_has_are_refused():
    with pytest.raises(ProfileError, match="its counters describe no chip"):
        profile_of(launch({"gpc__cycles_elapsed.avg.per_second": 1.0}))


def test_opcodes_from_encodings():
    assert decoded(0x0000000004037981) == "LDG"
    assert decoded(0x0000001000009947) == "@!P1 BRA"
    assert decoded(0x1F0 | 7 << 12) == "UNKNOWN_1F0"


def test_opcodes_that_are_not_listed_are_noted():
    assert profile_of(launch(texts={4: "FNEW R6, R6, 3"})).notes == (
        "1 instruction FNEW not in the table of opcodes (params/opcodes/sass.toml): taken as fp32",
    )


def test_a_replay_is_near_its_roofline_where_memory_is_idle(profile):
    replay = profile.replay(replicates=2)
    constant = profile.gpu.grid_launch_cycles
    assert replay.instructions == pytest.approx(1.0) and replay.share == 1.0 and not replay.sampling
    assert max(roofline(profile).values()) < replay.cycles.mean < constant + 6000
    assert sum(replay.shares.values()) == pytest.approx(1.0)


def test_wide_multiplications_take_their_unit_twice_as_long_and_the_issue_port_for_a_cycle_more():
    def costs(one):
        found = [instruction(profile_of(one), op).cost for op in ("IMAD", "MOV")]
        return [(cost.issue_slots, cost.interval_cycles) for cost in found]

    assert costs(launch()) == [(2, 4), (None, None)]
    assert costs(launch(texts={2: "IMAD.HI R4, R0, R2, R1"})) == [(None, 4), (None, None)]
    assert costs(launch(texts={2: "IMAD R4, R0, R2, R1"})) == [(None, None), (None, None)]
    turing = {"device__attribute_compute_capability_major": 7, "device__attribute_compute_capability_minor": 5}
    assert costs(launch(turing)) == [(None, 4), (None, None)]


def test_samples_agree_with_the_whole_launch():
    whole = profile_of(launch({"launch__grid_size": 84 * 6 * 60}))
    full, sampled = (whole.replay(replicates=1, budget=budget) for budget in (10**7, 30_000))
    assert sampled.share < 0.3 and "rounds of blocks" in sampled.sampling
    assert sampled.cycles.mean == pytest.approx(full.cycles.mean, rel=0.1)


def test_windows_of_an_endless_kernel_keep_the_mix(profile):
    def shares(kernel):
        (loop,) = [one for one in kernel.body if isinstance(one, Loop)]
        counts = dict.fromkeys(("load", "store", "alu"), 0.0)
        for op, count in expected_ops(loop.body if loop.trips is None else kernel.body):
            counts[op] = counts.get(op, 0.0) + count
        return counts["load"] / counts["alu"], counts["store"] / counts["load"]

    once = endless(profile.kernel, 0.5)
    assert shares(once) == pytest.approx(shares(profile.kernel))
    (around,) = once.body
    assert around.trips is None and [one.trips for one in around.body if isinstance(one, Loop)] == [TRIPS // 2]


def test_work_after_an_early_exit_is_that_of_the_other_warps():
    branch, work = Instruction("branch"), Instruction("alu")
    (both,) = without_exits((Conditional(then=(Instruction("exit"),), probability=0.25), work, work))
    assert both == Conditional(then=(branch,), orelse=(work, work), probability=0.25)


def test_a_launch_of_long_warps_is_a_window():
    long = profile_of(launch({"launch__grid_size": 84 * 6 * 2}))
    replay = long.replay(replicates=1, budget=2000)
    full = long.replay(replicates=1, budget=10**7)
    assert "windows of" in replay.sampling
    assert replay.cycles.mean == pytest.approx(full.cycles.mean, rel=0.5)  # the whole launch is mostly start and end


def test_what_if(profile):
    slower = profile.what_if(latency=2.0, bandwidth=0.5)
    assert slower.gpu.memory.bandwidth_gbs == profile.gpu.memory.bandwidth_gbs / 2
    assert slower.replay(replicates=1).cycles.mean > profile.replay(replicates=1).cycles.mean
    ada = {"device__attribute_compute_capability_minor": 9, "device__attribute_display_name": "NVIDIA L40"}
    with pytest.raises(ProfileError, match="must be a chip of sm_89, which"):
        profile_of(launch(ada)).what_if(gpu="a40")
    for name in ("h100", "a100"):
        with pytest.raises(ProfileError, match="must be a chip of sm_86 to sm_89"):
            profile.what_if(gpu=name)
    with pytest.raises(ProfileError, match="latency = 0"):
        profile.what_if(latency=0)
    with pytest.raises(ValueError, match="resident_blocks = 99"):
        profile.what_if(resident_blocks=99)


@pytest.mark.parametrize(("near", "far", "shortest"), [(100, None, 100), (100, 140, 120), (None, None, 1), (500, None, 400)])
def test_loads_from_dram_are_no_faster_than_those_from_l2(profile, near, far, shortest):
    memory = {"latency_cycles": 400, "l2_latency_cycles": near, "l2_far_latency_cycles": far, "measured_latency_cycles": None}
    data = profile.gpu.to_dict()
    chip = Gpu.from_dict(data | {"memory": data["memory"] | memory})
    found = [scaled(chip, latency, 1.0).memory.latency_cycles for latency in (2.0, 0.5, 1e-9)]
    assert found == [800, max(200, shortest), shortest]


def test_another_chip_that_executes_the_machine_code(profile):
    """It has its own rates of units, and as many resident blocks as it holds, unless the profiler knew of less room."""
    other = profile.what_if(gpu="rtx4090")
    assert (other.gpu.name, profile.gpu.architecture, other.gpu.architecture) == ("rtx4090", "sm_86", "sm_89")
    assert other.launch.resident_blocks == occupancy(other.gpu, other.kernel, other.launch.block_warps).blocks
    assert other.dram_bytes == profile.dram_bytes
    assert 0 < other.replay(replicates=1).cycles.mean < math.inf
    assert profile.what_if(gpu="rtx4090", l1_hit=0.5).dram_bytes == profile.what_if(l1_hit=0.5).dram_bytes
    with pytest.raises(ProfileError, match="must be the first of several changes"):
        profile.what_if(l1_hit=0.5).what_if(gpu="rtx4090")
    held_back = replace(profile, launch=profile.launch.model_copy(update={"resident_blocks": 1}))
    assert held_back.what_if(gpu="rtx4090").launch.resident_blocks == 1


def test_another_chip_of_the_same_architecture(profile):
    """Its SM may be another one, as in the file of a chip that is not built."""
    data = profile.gpu.to_dict()
    own = occupancy(profile.gpu, profile.kernel, profile.launch.block_warps).blocks
    assert profile.launch.resident_blocks == own > 1
    smaller = Gpu.from_dict(data | {"sm": data["sm"] | {"max_blocks": 1}})
    assert profile.what_if(gpu=smaller).launch.resident_blocks == 1
    assert profile.what_if(gpu=smaller).what_if(gpu=profile.gpu).launch.resident_blocks == own
    assert profile.what_if(gpu=profile.gpu).kernel == profile.kernel
    assert profile.what_if(l2_hit=0.5).what_if(gpu=smaller).launch.resident_blocks == 1


def with_sums(metrics, opcode="RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R4.64], R6"):
    """The launch with a reduction in place of its store, which L2 counted."""
    return launch({"device__attribute_l2s_count": 48} | metrics, texts={5: opcode})


def test_updates_of_one_address_keep_one_slice_busy():
    one = with_sums({
        "lts__t_sectors_srcunit_tex_op_red.sum": 32.0 * WARPS * TRIPS,
        "lts__t_sectors.sum": 36.0 * WARPS * TRIPS,
        "lts__t_sectors.max": (32 + 4 / 48) * WARPS * TRIPS,
    })
    assert updates(one) == Updates(1, 32)
    made = instruction(profile_of(one), "RED")
    assert made.op == "reduction" and made.access.contended_addresses == 1 and updates_of_one_address(made.access) == 32
    assert profile_of(one).gpu.memory.atomic_interval_cycles == pytest.approx(3.4)  # a sum of floating-point numbers


@pytest.mark.parametrize(
    ("before", "addresses"),
    [
        ("MOV R4, c[0x0][0x170]", 1),
        ("IMAD.MOV.U32 R4, RZ, RZ, c[0x0][0x170]", 1),
        ("IMAD.WIDE R4, R13, R0, c[0x0][0x170]", None),  # many addresses, or a few
        ("MOV R4, R6", None),
        ("MOV R5, c[0x0][0x170]", None),  # another register
    ],
)
def test_updates_at_an_address_that_is_an_argument_meet(before, addresses):
    """Where the report does not have the busiest slice of L2."""
    counted = {"device__attribute_l2s_count": 48, "lts__t_sectors_srcunit_tex_op_red.sum": 32.0 * WARPS * TRIPS}
    one = launch(counted, texts={2: before, 5: "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R4.64], R6"})
    assert updates(one) == Updates(addresses, 32 if addresses else 1)


def test_a_bus_narrower_than_the_partitions_peak_limits_the_pins():
    """An RTX 2080 Ti has six partitions of 16 bytes a cycle, and a bus of 352 bits."""
    clock = {"dram__cycles_elapsed.avg.per_second": 6.83e9, "dram__bytes.sum.peak_sustained": 96.0}
    assert pin_bandwidth(launch(clock)) == pytest.approx(96 * 6.83)
    bits = "device__attribute_global_memory_bus_width"
    assert pin_bandwidth(launch(clock | {bits: 352})) == pytest.approx(88 * 6.83)
    assert pin_bandwidth(launch(clock | {bits: 384})) == pin_bandwidth(launch(clock | {bits: 64})) == pytest.approx(96 * 6.83)


def test_what_others_read_from_dram_is_none_of_the_loads():
    sectors = launch().metrics["dram__bytes_read.sum"] / 32
    of_sms = {"lts__t_sectors_srcunit_tex_lookup_miss.sum": sectors}
    assert traffic(launch(of_sms)) == traffic(launch())
    beside = {name: value / 2 for name, value in of_sms.items()}
    assert traffic(launch(beside)) == traffic(launch())
    less = {name: value / 8 for name, value in of_sms.items()}
    assert traffic(launch(less)).load_l2_hit > traffic(launch()).load_l2_hit
    assert profile_of(launch(less)).measured.dram_bytes == profile_of(launch()).measured.dram_bytes


def test_a_kind_of_updates_may_be_a_negative_difference():
    """Only the sum of the kinds has to be a count."""
    red, alu = ("lts__t_sectors_srcunit_tex_op_" + kind + ".sum" for kind in ("red", "atom_dot_alu"))
    sums = {"lts__t_sectors.sum": 36.0 * WARPS * TRIPS, "lts__t_sectors.max": (32 + 4 / 48) * WARPS * TRIPS}
    count = 32.0 * WARPS * TRIPS
    assert updates(with_sums(sums | {red: -624.0, alu: count + 624.0})) == updates(with_sums(sums | {red: count}))
    assert updates(with_sums(sums | {red: -624.0, alu: 600.0})) == Updates(None, 1)
    with pytest.raises(ProfileError, match=f"{red} = inf: must be finite"):
        updates(with_sums(sums | {red: math.inf}))


def test_another_chip_takes_as_long_for_sums_of_floating_point_numbers():
    profile = profile_of(with_sums({}))
    other = profile.what_if(gpu="rtx4090")
    assert other.gpu.memory.atomic_interval_cycles == pytest.approx(3.4 * load_gpu("rtx4090").memory.atomic_interval_cycles)
    assert profile.what_if(gpu=profile.gpu).gpu.memory.atomic_interval_cycles == profile.gpu.memory.atomic_interval_cycles
    integers = profile_of(with_sums({}, "RED.E.ADD.STRONG.GPU [R4.64], R6"))
    assert integers.what_if(gpu="rtx4090").gpu.memory.atomic_interval_cycles == 1.0


def test_updates_that_are_spread_do_not_meet():
    one = with_sums({
        "lts__t_sectors_srcunit_tex_op_red.sum": 48.0 * WARPS,
        "lts__t_sectors.sum": 96.0 * WARPS,
        "lts__t_sectors.max": 2.1 * WARPS,
    }, "RED.E.ADD.STRONG.GPU [R4.64], R6")
    assert updates(one).addresses is None and updates(with_sums({})).addresses is None
    assert instruction(profile_of(one), "RED").access.contended_addresses is None
    assert profile_of(one).gpu.memory.atomic_interval_cycles == 1.0


def test_the_start_of_a_block_is_a_time(profile):
    slower = profile_of(launch({"gpc__cycles_elapsed.avg.per_second": 0.65e9})).gpu
    assert slower.block_launch_cycles == pytest.approx(profile.gpu.block_launch_cycles / 2, abs=1)


def test_code_that_was_not_executed_leaves_the_counters_to_the_rest():
    """The last side of the branch never ran: the wait mask of the multiplication decides all the same what it waits for."""
    profiled = launch()
    code = list(profiled.code)
    code[7] = replace(code[7], executed=0, counts={})  # the loop's way out
    kernel = to_kernel(replace(profiled, code=tuple(code)), load_gpu("a40")).kernel
    load, multiply = (next(one for _, one in walk(kernel.body) if getattr(one, "op", "") == op) for op in ("load", "alu"))
    assert load.dst is not None and load.dst in multiply.src


def test_a_jump_that_no_thread_took_is_none():
    """It would enter the middle of a loop otherwise. Its guard says so, or else that all warps come to what follows."""
    profiled = launch(texts={1: "@P0 BRA 0x1040"})
    assert to_kernel(profiled, load_gpu("a40")).kernel.body
    code = list(profiled.code)
    code[2] = replace(code[2], executed=code[2].executed // 2)
    with pytest.raises(ProfileError, match="irreducible control flow"):
        to_kernel(replace(profiled, code=tuple(code)), load_gpu("a40"))
    code[1] = replace(code[1], counts=code[1].counts | {"thread_inst_executed_true": 0.0})
    assert to_kernel(replace(profiled, code=tuple(code)), load_gpu("a40")).kernel.body


def test_nobody_waits_at_a_barrier_of_some_warps():
    """A block has 256 threads. Where 64 come to a barrier, some warps have tasks of their own."""
    for operands, op, notes in (("0x1, 0x40", "branch", 1), ("0x1, 0x100", "barrier", 0), ("0x0", "barrier", 0)):
        found = to_kernel(launch(texts={1: f"BAR.SYNC {operands}"}), load_gpu("a40"))
        assert next(one for _, one in walk(found.kernel.body) if "BAR" in getattr(one, "comment", "")).op == op
        assert sum("tasks of their own" in note for note in found.notes) == notes


def test_what_waits_after_branches():
    """A jump that is always taken has a gap of 5 at least, and the point where parts of a warp meet has 9 cycles more."""
    profiled = launch(texts={1: "BSYNC B0", 2: "BRA 0x1030"})
    body = to_kernel(profiled, load_gpu("a40")).kernel.body
    gaps = [one.cost.gap_cycles for one in body if isinstance(one, Instruction)]
    assert gaps[:3] == [1, 4 + 9, 5]


def parted(parts, texts):
    """The body of the launch with a meeting that so many parts of a warp execute, and the texts."""
    profiled = launch(texts={1: "BSYNC B0", **texts})
    code = list(profiled.code)
    code[1] = replace(code[1], executed=round(parts * code[1].executed))
    return to_kernel(replace(profiled, code=tuple(code)), load_gpu("a40")).kernel.body


def test_each_part_of_a_warp_executes_the_meeting():
    """All but the last part come by a jump, 4 cycles, and give way to another one, which resumes 9 cycles later."""
    meeting = next(one for one in parted(3, {}) if isinstance(one, Loop))
    (each,) = meeting.body
    assert meeting.trips == 3 and each.cost.gap_cycles == round((3 * (4 + 9) + 2 * (4 + 9)) / 3)
    more = next(one for one in parted(1.25, {}) if "BSYNC" in getattr(one, "comment", ""))  # once, and longer
    assert more.cost.gap_cycles == round(1.25 * (4 + 9) + 0.25 * (4 + 9))
    assert sum(isinstance(one, Loop) for one in parted(1, {})) == 1


@pytest.mark.parametrize(("text", "longer"), [("YIELD", 30), ("BREAK B0", 4)])
def test_what_waits_where_parts_of_a_warp_separate(text, longer):
    whole, apart = (parted(parts, {0: text})[0] for parts in (1, 2))
    assert text in whole.comment and apart.cost.gap_cycles == whole.cost.gap_cycles + longer


def test_lines_miss_as_often_as_l1_asked_l2():
    """A line of which one sector misses makes a load wait, so that the requests that came to L2 count, not the sectors."""
    loads = WARPS * TRIPS
    metrics = {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 3 * loads,
        "lts__t_requests_srcunit_tex_op_read.sum": loads / 2,
        "lts__t_sectors_srcunit_tex_op_read.sum": loads,
        "dram__bytes_read.sum": 16 * loads,
    }
    found = traffic(launch(metrics))
    assert (found.line_miss, found.line_sectors) == (0.5, 2.0)
    hit, lines, moved = found.loaded(4.0, 1.0, 128.0)
    assert (hit, lines) == (0.5, 1.0)
    assert (1 - hit) * moved == pytest.approx(32.0)  # a sector of each load
    assert traffic(launch()).line_miss == 1.0


def test_local_memory_misses_as_counted():
    loads = WARPS * TRIPS
    local = "l1tex__t_sectors_pipe_lsu_mem_local_op_"
    metrics = {f"{local}ld.sum": 4 * loads, f"{local}ld_lookup_miss.sum": loads, f"{local}st.sum": 0}
    profiled = launch(metrics, texts={3: "LDL R6, [R1]", 5: "STL [R1], R6"})
    body = to_kernel(profiled, load_gpu("a40")).kernel.body
    load, store = (next(one for _, one in walk(body) if getattr(one, "op", "") == op) for op in ("load", "store"))
    assert load.access.l1_hit == 0.75
    assert (load.cost.bytes_per_request, store.cost.bytes_per_request) == (128.0, 128.0)
    assert traffic(launch()).local_hit == 1.0


@pytest.mark.parametrize(
    ("change", "hit"),
    [({"l1_size": 4}, 0.875), ({"l1_size": 0.01}, 0.0), ({"l1_hit": 0.5}, 0.75), ({"l1_hit": 0.9}, 0.9), ({"l1_hit": 1.0}, 1.0)],
)
def test_local_memory_hits_a_larger_l1_more_often(change, hit):
    """A quarter of the sectors of local loads misses; of an L1 of four times the size, half as many."""
    loads, local = WARPS * TRIPS, "l1tex__t_sectors_pipe_lsu_mem_local_op_"
    metrics = {f"{local}ld.sum": 4 * loads, f"{local}ld_lookup_miss.sum": loads, f"{local}st.sum": 0}
    changed = profile_of(launch(metrics, texts={3: "LDL R6, [R1]", 5: "STL [R1], R6"})).what_if(**change)
    load = next(one for _, one in walk(changed.kernel.body) if getattr(one, "op", "") == "load")
    assert load.access.l1_hit == pytest.approx(hit)
