"""What the counters of a launch say of its accesses."""

from dataclasses import replace

import pytest

from tests.profiles.test_report_file import CountedAction
from tests.support.profiled_launches import TRIPS, WARPS, launch
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
