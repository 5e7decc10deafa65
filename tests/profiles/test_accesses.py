"""What the counters of a launch say of its accesses."""

from dataclasses import replace

import pytest

from tests.profiles.test_report_file import CountedAction
from tests.support.profiled_launches import METRICS, TRIPS, WARPS, launch
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels.traversal import walk
from warpsim.profiles import report
from warpsim.profiles.inputs import inputs_of
from warpsim.profiles.kernel import to_kernel
from warpsim.profiles.traffic import passes_of_l1

ACCESSES = 2 * WARPS * TRIPS
"""Loads and stores of the launch, of a line each."""


def made(profiled, text):
    """The instruction that a profiled one becomes on an A40."""
    body = to_kernel(profiled, load_gpu("a40")).kernel.body
    return next(one for _, one in walk(body) if text in getattr(one, "comment", ""))


def counted(profiled, index, **counts):
    """The launch with further counters of an instruction."""
    code = list(profiled.code)
    code[index] = replace(code[index], counts=code[index].counts | counts)
    return replace(profiled, code=tuple(code))


@pytest.mark.parametrize(("bits", "lines"), [(32, 1), (128, 4)])
def test_vectors_in_local_memory_are_several_lines(bits, lines):
    profiled = launch(texts={3: "LDL R6, [R1]", 5: "STL [R1], R6"})
    for index, text in ((3, "LDL"), (5, "STL")):
        cost = made(counted(profiled, index, memory_access_size_type=float(bits)), text).cost
        assert (cost.requests, cost.bytes_per_request, cost.requested_bytes, cost.passes) == (lines, 128.0, 128 * lines, lines)


@pytest.mark.parametrize(("share", "passes"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.5), (9.0, 2.0), (None, 1.0)])
def test_passes_of_l1_are_as_many_as_counted_in_sum(share, passes):
    """But for those of shared memory, and at most twice as many as lines."""
    metrics = {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 100}
    if share is not None:
        metrics["l1tex__data_pipe_lsu_wavefronts.sum"] = 100 + share * ACCESSES
    profiled = launch(metrics)
    assert made(profiled, "LDG").cost.passes == made(profiled, "STG").cost.passes == passes
    assert ("passes of L1 in sum" in inputs_of(profiled)) == (share is not None)


def test_a_request_moves_something_where_counters_of_two_passes_leave_nothing():
    """All sectors hit L1 by its counters, and L1 asked L2 for lines by those of L2."""
    loads = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"
    asked = {"lts__t_requests_srcunit_tex_op_read.sum": 100, "lts__t_sectors_srcunit_tex_op_read.sum": 100}
    profiled = launch({f"{loads}_lookup_hit.sum": METRICS[f"{loads}.sum"]} | asked)
    assert made(profiled, "LDG").cost.bytes_per_request == 0.001


def test_passes_of_l1_follow_from_their_share_of_the_cycles():
    of_peak = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
    profiled = launch({"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 0, of_peak: 25.0, "gpc__cycles_elapsed.max": 9000})
    assert passes_of_l1(profiled) == 0.25 * 9000 * 84


def test_generic_accesses_to_shared_memory_are_some():
    """The report's `memory_type` is 16 for shared memory, and 4 for global memory."""
    profiled = counted(launch(texts={3: "LD.E R6, [R4.64]"}), 3, memory_type=4.0)
    assert made(profiled, "LD.E").op == "load"
    of_shared = counted(profiled, 3, memory_type=16.0, memory_l1_wavefronts_shared=3.0 * WARPS * TRIPS)
    assert (made(of_shared, "LD.E").op, made(of_shared, "LD.E").cost.passes) == ("smem", 3)


def test_a_fence_for_the_chip_keeps_the_time_of_its_class():
    assert made(launch(texts={4: "MEMBAR.SC.GPU"}), "MEMBAR").cost is None
    assert made(launch(), "FMUL").cost.gap_cycles == 4


def test_counters_of_the_first_versions_have_other_names(monkeypatch):
    action = CountedAction("memory_l2_sectors_global", [0.0, 32.0])
    monkeypatch.setattr(report, "_actions", lambda path: iter([(path, 0, action, [])]))
    _, second = report.read_launch("a.ncu-rep").code
    assert second.counts["memory_l2_theoretical_sectors_global"] == 32.0


@pytest.mark.parametrize("readers", [1.0, 1.6])
def test_reads_of_l2_for_several_sms_are_those_of_one_for_l2_alone(readers):
    """L2 counts the reads that its coalescer joins once; the SMs asked for all lines, none of which L1 held."""
    loads = ACCESSES / 2
    of_l2 = {
        "lts__t_requests_srcunit_tex_op_read.sum": loads / readers,
        "lts__t_sectors_srcunit_tex_op_read.sum": 4 * loads / readers,
        "lts__t_sectors_srcunit_tex.sum": 4 * loads / readers + 4 * loads,
        "l1tex__m_xbar2l1tex_read_sectors_mem_lg_op_ld.sum": 4 * loads,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 4 * loads,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 0,
        "lrc__average_xbar2gpc_sectors_op_read.ratio": readers,
    }
    profiled = launch(of_l2)
    assert "SMs that a read of L2 serves" in inputs_of(profiled)
    load, store = made(profiled, "LDG"), made(profiled, "STG")
    assert load.access.l2_coalesced == pytest.approx(1 - 1 / readers) and store.access.l2_coalesced == 0
    assert load.access.l1_hit == 0 and load.cost.bytes_per_request == store.cost.bytes_per_request == 128


def test_copies_past_l1_make_the_wavefronts_of_shared_memory_alone():
    wavefronts = {"memory_l1_wavefronts_shared": 6.0 * WARPS * TRIPS, "memory_access_size_type": 128.0}
    for width, passes in (("E.BYPASS.128", 6), ("E", 6 + 4)):
        profiled = counted(launch(texts={3: f"LDGSTS.{width} [R6], [R4.64]"}), 3, **wavefronts)
        assert made(profiled, "LDGSTS").cost.passes == passes
