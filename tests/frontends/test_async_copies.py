"""Asynchronous copies and barriers in shared memory become loads that nobody waits for, and waits."""

import numpy as np
import pytest

import warpsim as ws
from tests.support.listings import function
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.frontends.waits.async_copies import CopyLog, bulk_of, is_phase_test, role_of
from warpsim.kernels import Access, Hints
from warpsim.kernels.costs import costs_on
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Loop
from warpsim.kernels.traversal import walk

HEAD = ("S2R R0, SR_TID.X", "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]", "IMAD.WIDE R2, R0, 0x4, R2", "MOV R9, RZ")
COPY = ("LDGSTS.E [R0.X4], [R2.64]", "--:-:0:-:1 LDGDEPBAR")
NEXT = ("IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P0, PT, R9, c[0x0][0x168], PT", "@!P0 BRA `(.L_loop)", "EXIT")


def instructions(kernel, op=None):
    return [one for _, one in walk(kernel.body) if isinstance(one, Instruction) and op in (None, one.op)]


def imported(*rows, launch="64,128", args=None, **options):
    given = Choices(arguments=args or {"n": 20}, **{key: options.pop(key) for key in ("patterns", "caches") if key in options})
    return to_kernel(function(*rows, **options), as_geometry(launch), given, name="f")


def one(text):
    opcode, _, operands = text.partition(" ")
    return MachineInstruction(0, opcode, operands)


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_a_pipeline_of_copies_leaves_the_later_stages_under_way(stages):
    """A wait for all but the last groups lets as many copies be under way, whatever trip of the loop has made them."""
    loop = (".L_loop:", *COPY, f"DEPBAR.LE SB0, {stages - 1:#x}", "BAR.SYNC 0x0", "LDS R5, [R0.X4]")
    kernel = imported(*HEAD, *COPY * (stages - 1), *loop, *NEXT)
    copies = instructions(kernel, "async_copy")
    assert len(copies) == stages
    assert {copy.hints for copy in copies} == {Hints(write=0)}
    waits = [each.hints for each in instructions(kernel) if each.hints is not None and each.hints.waits]
    assert waits == [Hints(waits=(0,), at_most=stages - 1)]


def test_copies_before_a_wait_for_all_are_under_way_together():
    """One warp makes so many copies in a loop, and then waits for all: for one latency, and while the copies issue."""
    gpu = ws.load_gpu("a100")
    fill = ("MOV R6, RZ", ".L_fill:", "LDGSTS.E [R0.X4], [R2.64]", "IADD3 R6, R6, 0x1, RZ")
    for copies in (1, 16, 40):
        ask = (f"ISETP.GE.AND P1, PT, R6, {copies:#x}, PT", "@!P1 BRA `(.L_fill)", "--:-:0:-:1 LDGDEPBAR", "DEPBAR.LE SB0, 0x0")
        cycles = []
        for trips in (50, 100):
            rows = (*HEAD, ".L_loop:", *fill, *ask, "LDS R5, [R0.X4]", *NEXT)
            kernel = imported(*rows, launch="1,32", args={"n": trips}, caches="none")
            found = ws.simulate(gpu, kernel, launch=ws.Launch(blocks=1, block_warps=1), memory="fixed", replicates=1)
            cycles.append(float(found["cycles"][0]))
        (copy,) = instructions(kernel, "async_copy")
        assert copy.dst is None and copy.hints == Hints(write=0)
        assert [each.hints for each in instructions(kernel) if each.hints and each.hints.waits] == [Hints(waits=(0,))]
        least = gpu.memory.latency_cycles
        assert least <= (cycles[1] - cycles[0]) / 50 <= least + 60 + 30 * copies


def test_a_deeper_pipeline_hides_more_of_the_latency():
    """With one warp, a pipeline of s stages has s copies under way, as long as nothing else takes longer."""
    latency = ws.load_gpu("a100").memory.latency_cycles
    for stages in (2, 3, 5):
        loop = (".L_loop:", *COPY, f"DEPBAR.LE SB0, {stages - 1:#x}", "LDS R5, [R0.X4]")
        cycles = []
        for trips in (300, 600):
            kernel = imported(*HEAD, *COPY * (stages - 1), *loop, *NEXT, launch="1,32", args={"n": trips}, caches="none")
            found = ws.simulate("a100", kernel, launch=ws.Launch(blocks=1, block_warps=1), memory="fixed")
            cycles.append(float(found.cycles.mean()))
        assert (cycles[1] - cycles[0]) / 300 == pytest.approx(latency / stages, rel=0.02)


PHASE = ("LDS R4, [R8+0x4]", "LOP3.LUT P1, RZ, R4, 0x80000000, R5, 0x48, !PT")


def waiting(test, back):
    """Rows that wait until a test of a barrier comes out, in a loop that the machine code repeats."""
    return (".L_wait:", *test, f"{back} BRA `(.L_wait)")


def test_a_wait_at_a_barrier_in_shared_memory_is_a_barrier_of_the_block():
    rows = (*HEAD, "MOV R8, RZ", ".L_loop:", "ATOMS.ARRIVE.64 R6, [R8]", *waiting(PHASE, "@!P1"), *NEXT)
    kernel = imported(*rows)
    loops = [each for _, each in walk(kernel.body) if isinstance(each, Loop)]
    assert [loop.trips for loop in loops] == [20]  # the loop that waits is not executed
    assert len(instructions(kernel, "barrier")) == 1


def test_a_block_of_one_warp_needs_no_barrier():
    kernel = imported(*HEAD, "MOV R8, RZ", *waiting(PHASE, "@!P1"), "EXIT", launch="64,32")
    assert not instructions(kernel, "barrier")


def test_warps_wait_for_copies_of_their_own_where_only_some_come_to_a_barrier():
    """Warp 0 waits for its copies at a barrier to which the other warps do not come."""
    rows = (*HEAD, "MOV R8, RZ", "ISETP.GE.AND P0, PT, R0, 0x20, PT", "@P0 EXIT", "LDGSTS.E [R0.X4], [R2.64]")
    with pytest.warns(AssumptionWarning, match="some warps wait at a barrier in shared memory here, and others do not"):
        kernel = imported(*rows, "ARRIVES.LDGSTSBAR.64 [R8]", *waiting(PHASE, "@!P1"), "EXIT")
    assert not instructions(kernel, "barrier")
    assert [each.comment for each in instructions(kernel) if each.hints and each.hints.waits] == [PHASE[1]]


def test_a_test_waits_for_the_copies_that_report_to_its_barrier():
    """Two barriers in turn: at the test of one, the copy that reports to the other may be under way."""
    turn = (
        "LOP3.LUT R8, R9, 0x1, RZ, 0xc0, !PT", "SHF.L.U32 R8, R8, 0x3, RZ", "LDGSTS.E [R0.X4+0x100], [R2.64]",
        "ARRIVES.LDGSTSBAR.64 [R8]", "IADD3 R10, R9, 0x1, RZ", "LOP3.LUT R8, R10, 0x1, RZ, 0xc0, !PT",
        "SHF.L.U32 R8, R8, 0x3, RZ",
    )  # fmt: skip
    first = ("LDGSTS.E [R0.X4+0x100], [R2.64]", "MOV R8, 0x8", "ARRIVES.LDGSTSBAR.64 [R8]")
    kernel = imported(*HEAD, *first, ".L_loop:", *turn, *waiting(PHASE, "@!P1"), *NEXT)
    assert [each.hints for each in instructions(kernel) if each.hints and each.hints.waits] == [Hints(waits=(0,), at_most=1)]


def test_more_copies_than_a_counter_counts_are_not_waited_for():
    rows = (*HEAD, ".L_loop:", *["LDGSTS.E [R0.X4], [R2.64]"] * 70, "--:-:0:-:1 LDGDEPBAR", "DEPBAR.LE SB0, 0x1", *NEXT)
    with pytest.warns(AssumptionWarning, match="more than 63 asynchronous copies of a warp are under way"):
        kernel = imported(*rows)
    assert all(each.hints is None for each in instructions(kernel))


BULK = (
    "S2R R0, SR_TID.X", "S2UR UR10, SR_CTAID.X", "ULDC.64 UR4, c[0x0][0x160]", "UIMAD.WIDE UR4, UR10, 0x2000, UR4",
    "UMOV UR8, 0x800", "UMOV UR9, 0x400", "UMOV UR6, 0x200", "MOV R2, 0x2000", "MOV R3, 0x400", "ISETP.NE.AND P1, PT, R0, RZ, PT",
    "@P1 BRA `(.L_wait)", "SYNCS.ARRIVE.TRANS64 RZ, [UR9], R2", "PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0",
    ".L_lanes:", "@P0 ELECT P2, URZ, PT",
)  # fmt: skip
AFTER = (
    "@P2 PLOP3.LUT P0, PT, P2, PT, PT, 0x8, 0x0", "PLOP3.LUT P2, PT, PT, PT, PT, 0x8, 0x0", "@P0 BRA.U.ANY `(.L_lanes)",
    *waiting(("SYNCS.PHASECHK.TRANS64.TRYWAIT P3, [R3+URZ], R1",), "@!P3"), "EXIT",
)  # fmt: skip


def test_a_bulk_copy_moves_its_bytes_once():
    """One thread copies 0x200 units of 16 bytes: 64 lines. All warps wait for it, warp 0 by its counter."""
    kernel = imported(*BULK, "UBLKCP.S.G [UR8], [UR4], UR6", *AFTER, arch=90, parameters="0x160 0:8:x 8:4:n")
    (copy,) = instructions(kernel, "async_copy")
    assert (copy.cost.requests, copy.cost.bytes_per_request, copy.cost.requested_bytes) == (64, 128.0, 8192)
    assert copy.access.l2_hit == 0.0
    assert len(instructions(kernel, "barrier")) == 1
    assert [each.op for each in instructions(kernel) if each.hints and each.hints.waits] == ["smem"]


def test_the_length_of_a_copy_for_a_cluster_is_the_lower_half_of_its_register():
    """The upper half names the blocks of the cluster that receive it."""
    rows = [row.replace("UR6, 0x200", "UR6, 0x30200") for row in BULK]
    (copy,) = instructions(imported(*rows, "UBLKCP.S.G.MULTICAST [UR8], [UR4], UR6", *AFTER, arch=90), "async_copy")
    assert (copy.cost.requests, copy.cost.requested_bytes) == (64, 8192)


def test_addresses_of_a_bulk_copy_are_known_without_caches(recwarn):
    imported(*BULK, "UBLKCP.S.G [UR8], [UR4], UR6", *AFTER, arch=90, parameters="0x160 0:8:x 8:4:n", caches="none")
    assert not [each for each in recwarn if "are not known" in str(each.message)]


def test_a_copy_from_another_block_of_the_cluster_takes_nothing_from_memory():
    kernel = imported(*BULK, "UBLKCP.S.S [UR8], [UR4], UR6", *AFTER, arch=90)
    assert not instructions(kernel, "async_copy") and bulk_of(one("UBLKCP.S.S [UR8], [UR4], UR6")) is None


def test_warps_wait_for_each_other_at_the_barrier_of_a_cluster():
    kernel = imported("UCGABAR_ARV", "UCGABAR_WAIT", "FADD R0, R0, R0", "EXIT", arch=90)
    assert [each.op for each in instructions(kernel)][-2:] == ["barrier", "alu"]


def test_blocks_that_copy_the_same_bytes_hit_l2():
    rows = [row.replace("UR10, 0x2000", "URZ, 0x2000") for row in BULK]
    kernel = imported(*rows, "UBLKCP.S.G [UR8], [UR4], UR6", *AFTER, arch=90, launch="1320,128")
    (copy,) = instructions(kernel, "async_copy")
    assert copy.access.l2_hit > 0.95


def test_barriers_tell_how_many_bytes_a_tensor_map_copies():
    rows = (*BULK, "UTMALDG.2D [UR8], [UR4]", *AFTER)
    with pytest.warns(AssumptionWarning, match="the addresses of UTMALDG.2D are not known: 8192 bytes, none of which hit L2"):
        (copy,) = instructions(imported(*rows, arch=90), "async_copy")
    assert (copy.cost.requests, copy.cost.requested_bytes, copy.access.l2_hit) == (64, 8192, 0.0)
    label = {"0xe0": Access(l2_hit=0.75)}
    (copy,) = instructions(imported(*rows, arch=90, patterns=label), "async_copy")
    assert (copy.cost.requested_bytes, copy.access.l2_hit) == (8192, 0.75)


@pytest.mark.parametrize(
    ("width", "scale", "passes"), [(".BYPASS.128", "0x10", 4), (".BYPASS.128", "0x40", 16), ("", "0x4", 2)]
)
def test_copies_past_l1_make_their_passes_once(width, scale, passes):
    """Each line is a pass; L1 takes in 64 bytes a cycle, in which it makes none, and shared memory while it makes them."""
    rows = [row.replace("R0, 0x4, R2", f"R0, {scale}, R2") for row in HEAD]
    (copy,) = instructions(imported(*rows, f"LDGSTS.E{width} [R0.X16], [R2.64]", *NEXT[-1:], caches="none"), "async_copy")
    sectors = 32 * 16 // 32 if width and scale == "0x10" else 32 if width else 4
    assert costs_on(ws.load_gpu("a100"), copy).data_cycles == (max(passes, sectors / 2) if width else passes + sectors / 2)


def test_what_is_copied_out_of_shared_memory_is_not_among_the_bytes_that_barriers_expect():
    rows = (*BULK, "UTMALDG.2D [UR8], [UR4]", *AFTER[:-1], "UTMACCTL.IV [UR4]", "UTMASTG.2D [UR8], [UR4]", "EXIT")
    with pytest.warns(AssumptionWarning, match="the addresses of UTMASTG.2D are not known: 8192 bytes") as warned:
        kernel = imported(*rows, arch=90)
    assert [one.cost.requested_bytes for one in instructions(kernel) if one.op in ("async_copy", "store")] == [8192, 8192]
    assert "table of opcodes" not in " ".join(str(each.message) for each in warned)


def test_the_bytes_of_a_copy_are_asked_for_where_nothing_tells_them():
    rows = [row for row in (*BULK, "UTMALDG.2D [UR8], [UR4]", *AFTER) if "ARRIVE" not in row]
    with pytest.raises(FrontEndError, match="the bytes that UTMALDG"):
        imported(*rows, arch=90)
    with pytest.warns(AssumptionWarning, match="4096 bytes"):
        (copy,) = instructions(imported(*rows, arch=90, patterns={"0xd0": 4096}), "async_copy")
    assert copy.cost.requests == 32


def test_a_bulk_copy_from_shared_memory_is_a_store():
    kernel = imported(*BULK, "UBLKCP.G.S [UR4], [UR8], UR6", *AFTER, arch=90)
    (store,) = instructions(kernel, "store")
    assert (store.cost.requests, store.dst) == (64, None)
    assert not instructions(kernel, "async_copy")


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("LDGSTS.E [R5], [R2.64]", "copy"),
        ("LDGDEPBAR", "commit"),
        ("ARRIVES.LDGSTSBAR.64 [UR6]", "report"),
        ("DEPBAR.LE SB0, 0x1", "wait"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R5+URZ], R2", "test"),
        (PHASE[1], "test"),
        ("SYNCS.ARRIVE.TRANS64 RZ, [UR5], R0", "expect"),
        ("SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [UR5], R6", "expect"),
        ("SYNCS.ARRIVE.TRANS64.A1T0 R4, [UR4], RZ", "arrive"),
        ("UBLKCP.S.G [UR8], [UR4], UR6", "bulk"),
        ("UTMASTG.2D [UR8], [UR4]", "bulk"),
        ("UTMACMDFLUSH", None),
        ("LOP3.LUT P0, RZ, R6, 0x80000000, R13, 0xc0, !PT", None),
        ("LOP3.LUT R1, R6, 0x80000000, R13, 0x48, !PT", None),
        ("LDS R4, [R8]", None),
    ],
)
def test_what_instructions_do_with_copies(text, role):
    assert role_of(one(text)) == role
    assert is_phase_test(one(text)) == (role == "test")


def test_the_parts_of_a_bulk_copy():
    found = bulk_of(one("UBLKCP.S.G [UR8], [UR4], UR6"))
    assert (found.barrier, found.length.name) == ("UR9", "UR6")
    assert [(term.name, term.pair) for term, _ in found.address.terms] == [("UR4", True)]
    found = bulk_of(one("UBLKCP.G.S [UR4], [UR8], UR7"))
    assert (found.barrier, found.length.name, found.address.terms[0][0].name) == (None, "UR7", "UR4")
    found = bulk_of(one("UTMALDG.2D [UR16], [UR8]"))
    assert (found.barrier, found.length, found.address) == ("UR17", None, None)


def test_a_log_that_was_copied_goes_on_by_itself():
    log, warps = CopyLog(2), np.array([True, False])
    log.follow((0, 0), one("LDGSTS.E [R5], [R2.64]"), "copy", warps, -1, -1)
    log.follow((0, 1), one("ARRIVES.LDGSTSBAR.64 [R8]"), "report", warps, 8, -1)
    other = log.copy()
    other.follow((0, 0), one("LDGSTS.E [R5], [R2.64]"), "copy", warps, -1, -1)
    for each in (log, other):
        each.follow((0, 2), one(PHASE[1]), "test", np.array([True, True]), 8, -1)
    assert (log.left_at((0, 2)), other.left_at((0, 2)), log.left_at((0, 3))) == (0, 1, None)


SOURCE = """
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void meet(const float *in, float *out, int n)
{
    __shared__ barrier bar;
    __shared__ alignas(16) float tile[256];
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    for (int t = blockIdx.x; t < n; t += gridDim.x) {
        cuda::memcpy_async(block, tile, in + t * 256, cuda::aligned_size_t<16>(sizeof tile), bar);
        bar.arrive_and_wait();
        out[t * 256 + threadIdx.x] = tile[255 - threadIdx.x];
        block.sync();
    }
}
"""


@pytest.mark.parametrize(("arch", "moved"), [("sm_80", 2 * 512), ("sm_90", 1024), ("sm_120", 1024)])
def test_the_barriers_of_cuda_cpp_need_no_trips(compiler, arch, moved):
    """Each trip copies 1024 bytes, by two warps with 16 bytes a thread or by one bulk copy, and meets twice."""
    kernel = ws.kernels.from_cuda(SOURCE, arch, launch=(132, 256), args={"n": 1320})
    (loop,) = [each for _, each in walk(kernel.body) if isinstance(each, Loop)]
    inside = [each for _, each in walk(loop.body) if isinstance(each, Instruction)]
    (copy,) = [each for each in inside if each.op == "async_copy"]
    asked = copy.cost.requested_bytes or 32 * copy.access.bytes_per_thread
    assert asked * (2 if arch == "sm_80" else 1) == moved
    assert sum(each.op == "barrier" for each in inside) == 2
    lines = {int(each.comment.split(":")[1].split()[0]) for each in instructions(kernel) if ":" in each.comment.split(" ")[0]}
    assert lines <= set(range(1, 1 + SOURCE.count("\n")))  # those of the source, not of CUDA's headers


RING = (
    "S2R R0, SR_TID.X", "ULDC.64 UR4, c[0x0][0x160]", "UMOV UR8, 0x800", "UMOV UR6, 0x200", "MOV R2, 0x2000", "MOV R9, RZ",
    "MOV R4, 0x400", "MOV R5, 0x600", "ISETP.NE.AND P1, PT, R0, RZ, PT",
)  # fmt: skip
FILL = (
    "R2UR UR9, R4", "SYNCS.ARRIVE.TRANS64 RZ, [UR9], R2", "UBLKCP.S.G [UR8], [UR4], UR6", "LOP3.LUT R4, R4, 0x8, RZ, 0x3c, !PT",
)  # fmt: skip
"""A copy reports to the barriers at 0x400 and 0x408 in turn."""


def test_the_warp_that_fills_buffers_waits_for_the_one_that_it_filled_first():
    """Other threads tell it by barriers of their own, at 0x600, that a buffer is free: one of two copies is under way then."""
    test = (".L_retry:", "SYNCS.PHASECHK.TRANS64 P0, [R5], R3", "@!P0 BRA `(.L_retry)")
    rows = (*RING, "@P1 EXIT", *FILL, *FILL, ".L_loop:", *test, *FILL, *NEXT)
    with pytest.warns(AssumptionWarning):
        kernel = imported(*rows, arch=90, launch="1,64", parameters="0x160 0:8:x 8:4:n")
    assert [each.hints for each in instructions(kernel) if each.hints and each.hints.waits] == [Hints(waits=(0,), at_most=1)]
