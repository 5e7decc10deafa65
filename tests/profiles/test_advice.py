"""What-if studies and advice of a profiled launch."""

import math
from dataclasses import replace

import pytest

from tests.support.profiled_launches import TRIPS, WARPS, launch
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.traversal import walk
from warpsim.profiles.advice import _coalesced, _limit, _without_conflicts, advise
from warpsim.profiles.api import profile_of
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.launch import Rule
from warpsim.profiles.roofline import of_chip, roofline
from warpsim.profiles.whatif import dram_bytes
from warpsim.units import gbs_to_bytes_per_cycle

OF_LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"
FAST = {"replicates": 1, "budget": 20_000}


@pytest.fixture(scope="module")
def profile():
    return profile_of(launch())


def load(profile):
    return next(one for _, one in walk(profile.kernel.body) if isinstance(one, Instruction) and one.op == "load")


def test_the_same_warps_in_other_blocks(profile):
    changed = profile.what_if(block_threads=128)
    assert (changed.launch.blocks, changed.launch.block_warps) == (400, 4)
    assert changed.launch.resident_blocks == 12  # as many warps of 48 as before
    assert changed.measured is profile.measured
    with pytest.raises(ProfileError, match="block_threads"):
        replace(profile, kernel=profile.kernel.model_copy(update={"shared_bytes_per_block": 90_000})).what_if(block_threads=1024)
    with pytest.raises(ValueError, match="block_threads = 4096: must be"):
        profile.what_if(block_threads=4096)


def test_other_hit_rates_move_other_bytes(profile):
    assert dram_bytes(profile.kernel) == pytest.approx(profile.measured.dram_bytes / WARPS)
    assert load(profile).access.l2_hit == 0.5
    assert load(profile.what_if(l1_hit=0.75)).access.l1_hit == 0.75
    assert profile.what_if(l1_hit=0.75).dram_bytes == pytest.approx(profile.dram_bytes / 4)
    assert profile.what_if(l2_hit=1.0).dram_bytes == 0.0
    assert load(profile.what_if(l1_size=4)).access.l1_hit == pytest.approx(0.5)  # of misses in all cases, half are left
    assert load(profile.what_if(l1_size=0.1)).access.l1_hit == 0.0
    for wrong in ({"l1_hit": 1.5}, {"l2_hit": -0.1}, {"l1_size": 0.0}, {"bandwidth": math.inf}):
        with pytest.raises(ProfileError, match=f"{next(iter(wrong))} = "):
            profile.what_if(**wrong)


def test_values_of_a_wrong_type_are_named(profile):
    for wrong in ({"l1_hit": "x"}, {"bandwidth": "2"}, {"l1_size": None}, {"latency": True}):
        with pytest.raises(TypeError, match=f"{next(iter(wrong))} = .*: must be a"):
            profile.what_if(**wrong)
    with pytest.raises(ValueError, match="budget = 0: must be an integer from 1"):
        profile.replay(budget=0)


@pytest.mark.parametrize("hits", [0.3, 0.9])
def test_the_rate_of_l1_is_that_of_the_counters(hits):
    """Two lines in each load: it waits for both. The measured rate changes nothing, a lower one and a smaller L1 move more."""
    asked = WARPS * TRIPS * 8
    one = launch({f"{OF_LOADS}.sum": asked, f"{OF_LOADS}_lookup_hit.sum": hits * asked})
    code = [replace(at, counts=dict(at.counts) | scattered(at)) if "LDG" in at.text else at for at in one.code]
    profile = profile_of(replace(one, code=tuple(code)))
    assert load(profile).access.l1_hit == pytest.approx(hits**2, rel=0.01)
    same = profile.what_if(l1_hit=hits)
    assert same.kernel == profile.kernel and same.dram_bytes == profile.dram_bytes
    moved = [profile.what_if(l1_hit=rate).dram_bytes for rate in (0.0, hits / 2, hits, (1 + hits) / 2, 1.0)]
    assert moved == sorted(moved, reverse=True) and moved[-1] == 0.0
    assert moved[0] == pytest.approx(moved[2] / (1 - hits), rel=0.01)
    smaller = profile.what_if(l1_size=0.25)
    assert smaller.dram_bytes == pytest.approx(profile.dram_bytes * min(2.0, 1 / (1 - hits)), rel=0.01)
    with pytest.raises(ProfileError, match="l1_hit, l1_size: must be the first of several changes"):
        smaller.what_if(l1_hit=0.5)


def scattered(at):
    return {"memory_l2_theoretical_sectors_global": 8 * at.executed, "memory_l1_tag_requests_global": 2 * at.executed}


def test_bytes_that_no_launch_moved_are_counted():
    """The counters of DRAM are 0 where all was in L2."""
    profile = profile_of(launch({"dram__bytes_read.sum": 0}))
    assert profile.dram_bytes == 0.0
    assert profile.what_if(l2_hit=0.0).dram_bytes == pytest.approx(WARPS * TRIPS * 128)


@pytest.mark.parametrize(
    ("text", "counts", "passes"),
    [
        ("LDS.128 R8, [R4]", {"memory_l1_wavefronts_shared_ideal": 4}, 4),
        ("LDS R8, [R4]", {"memory_l1_wavefronts_shared_ideal": 1}, 1),
        ("LDS.128 R8, [R4]", {"memory_access_size_type": 128}, 4),
        ("LDS R8, [R4]", {"memory_access_size_type": 64}, 2),
        ("LDSM.16.M88.4 R8, [R4]", {}, 4),
    ],
)
def test_passes_that_are_no_conflicts_stay(text, counts, passes):
    one = launch(texts={3: text})
    code = list(one.code)
    times = code[3].executed
    sums = {name: value * times if "ideal" in name else value for name, value in counts.items()}
    counted = {"thread_inst_executed_true": 32 * times, "memory_l1_wavefronts_shared": 6 * times} | sums
    code[3] = replace(code[3], counts=counted)
    profile = profile_of(replace(one, code=tuple(code)))
    changed = _without_conflicts(profile.kernel, profile.code)
    every = [one for kernel in (profile.kernel, changed) for _, one in walk(kernel.body) if getattr(one, "op", "") == "smem"]
    assert [one.cost.passes for one in every if one.cost.passes] == [6, passes]


def test_changes_of_the_program(profile):
    assert _without_conflicts(profile.kernel, profile.code) == profile.kernel == _coalesced(profile.kernel)
    scattered = {"memory_l2_theoretical_sectors_global": 32.0, "memory_l1_tag_requests_global": 32.0}
    one = launch()
    code = list(one.code)
    number = next(number for number, at in enumerate(code) if "LDG" in at.text)
    counts = {name: count * code[number].executed for name, count in scattered.items()}
    code[number] = replace(code[number], counts=dict(code[number].counts) | counts)
    spread = profile_of(replace(one, code=tuple(code)))
    assert (load(spread).cost.requests, load(spread).cost.passes) == (32, 32)
    together = replace(spread, kernel=_coalesced(spread.kernel))
    assert (load(together).cost.requests, load(together).cost.passes) == (1, 1)
    assert load(together).cost.bytes_per_request == 128.0


def test_advice_has_bounds_claims_and_gains(profile):
    rules = (Rule("b", "", "Do that.", None, False), Rule("a", "", "Do this.", 0.25, True))
    found = advise(replace(profile, rules=rules), **FAST)
    assert [one.name for one in found.rules] == ["a", "b"]
    changes = [one.change for one in found.gains]
    assert "all loads hit L1" in changes and "3 resident blocks in place of 6" in changes
    assert "scheduling policy gto in place of grr" in changes and len(set(changes)) == len(changes)
    speedups = [one.speedup for one in found.gains]
    assert speedups == sorted(speedups, reverse=True)
    assert all(one.speedup == pytest.approx(found.base.cycles.mean / one.cycles.mean) for one in found.gains)
    assert next(iter(found.bounds)) in found.limit and "long_scoreboard" in found.limit
    whole = max(roofline(profile).values())  # with the constant cost of a launch, for which nothing is busy
    assert max(found.bounds.values()) * profile.measured.cycles == pytest.approx(whole - profile.gpu.grid_launch_cycles)
    assert sum(found.states.values()) == pytest.approx(1)


def test_ports_and_updates_of_chip_are_resources():
    """Each of the 32 threads of a reduction updates one address, which takes 3.4 cycles, and stores 4 sectors into 48 slices."""
    slices = {"device__attribute_l2s_count": 48, "lts__cycles_elapsed.avg.per_second": 1.3e9}
    stores = profile_of(launch(slices))
    assert of_chip(stores) == {"stores into L2": pytest.approx(4 * WARPS * TRIPS / 48)}
    count = 32.0 * WARPS * TRIPS
    sums = {
        "lts__t_sectors_srcunit_tex_op_red.sum": count,
        "lts__t_sectors.sum": count * 9 / 8,
        "lts__t_sectors.max": count * (1 + 1 / 384),
    }
    one = profile_of(launch(slices | sums, texts={5: "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R4.64], R6"}))
    assert of_chip(one)["updates of L2"] == pytest.approx(3.4 * count)
    assert "The busiest resource is updates of L2" in advise(one, **FAST).limit


def test_starts_of_blocks_are_a_resource(profile):
    """A chip on which a block starts every 2000 cycles spends its time with that."""
    slow = replace(profile, gpu=profile.gpu.model_copy(update={"launch_interval_cycles": 2000.0}), changed=True)
    assert of_chip(slow)["starts of blocks"] == 2000.0 * profile.launch.blocks
    found = advise(slow, **FAST)
    assert "The busiest resource is starts of blocks" in found.limit and "of the simulated cycles" in found.limit
    assert 0.9 < found.bounds["starts of blocks"] <= 1.0


@pytest.mark.parametrize("change", [{"l2_hit": 0.75}, {"block_threads": 128}, {"l1_hit": 0.5}, {"gpu": "rtx4090"}])
def test_a_changed_launch_has_advice_by_its_simulation(profile, change):
    changed = profile.what_if(**change)
    found = advise(changed, **FAST)
    assert "of the simulated cycles" in found.limit and "all loads hit L1" in [one.change for one in found.gains]
    assert found.states == {state: share for state, share in sorted(found.base.shares.items(), key=lambda one: -one[1])}
    moved = changed.dram_bytes / gbs_to_bytes_per_cycle(changed.gpu.memory.bandwidth_gbs, changed.gpu.clock_ghz)
    assert found.bounds["dram"] * found.base.cycles.mean == pytest.approx(moved)


def test_loads_from_local_memory_hit_l1_with_all_others():
    local = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld"
    sectors = {f"{local}.sum": 4 * WARPS * TRIPS, f"{local}_lookup_miss.sum": 4 * WARPS * TRIPS}
    spilled = profile_of(launch(sectors, texts={3: "LDL R6, [R1]"}))
    assert load(spilled).access.l1_hit == 0.0
    gain = next(one for one in advise(spilled, **FAST).gains if one.change == "all loads hit L1")
    assert gain.cycles.mean == spilled.what_if(l1_hit=1.0).replay(**FAST).cycles.mean


def test_a_limit_without_stalls_and_gains():
    assert "stall reasons were not collected; no change of the memory" in _limit({"dram": 0.5}, {}, [])


def test_executions_of_the_changed_kernel(profile):
    assert profile.what_if(l1_hit=1.0).replay(**FAST).instructions == pytest.approx(1.0, abs=0.01)
