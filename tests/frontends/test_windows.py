"""Generic addresses: which memory an access through a pointer of any kind belongs to."""

import warnings

import pytest

import warpsim as ws
from tests.support.listings import function, only
from warpsim.frontends.errors import AssumptionWarning
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.access import conflict_ways
from warpsim.kernels.instruction import Instruction

ROWS_OF_8 = {
    80: ["S2R R0, SR_TID.X", "S2R R9, SR_CTAID.X", "MOV R5, 0x20", "IMAD.WIDE.U32 R2, R0, R5, c[0x0][0x18]"],
    90: ["S2R R0, SR_TID.X", "S2R R9, SR_CTAID.X", "MOV R5, 0x20", "S2UR UR6, SR_CgaCtaId", "UMOV UR4, 0x400",
         "ULEA UR4, UR6, UR4, 0x18", "S2UR UR5, SR_SWINHI", "IMAD.WIDE.U32 R2, R0, R5, UR4"],
}  # fmt: skip
"""The generic address of the thread's row of 8 words in shared memory, and the index of the block."""


def accesses(*rows, arch=80, launch="64,128", strict=True, **choices):
    """The instructions of a kernel that access memory through generic addresses."""
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "ignore")
        found = to_kernel(function(*rows, "EXIT", arch=arch), as_geometry(launch), Choices(**choices), name="f")
    generic = ("LD.", "ST.", "ATOM.", "RED.")
    return [one for one in only(found, Instruction) if one.comment.startswith(generic)]


def ways(one):
    return conflict_ways(one, ws.load_gpu("h100"))


@pytest.mark.parametrize("arch", [75, 80, 90])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("LD.E R4, [R2.64+0x4]", 8),
        ("ST.E [R2.64], R0", 8),
        ("LD.E.128 R4, [R2.64]", 8),
        ("ATOM.E.ADD.STRONG.GPU PT, R4, [R2.64], R5", 8),
    ],
)
def test_rows_in_shared_memory_conflict(row, expected, arch):
    """Thread t accesses word 8 t: 8 threads of a warp meet in each of 4 banks. Of 16 bytes, 8 threads go together: 2 ways, and 4
    times as long."""
    (one,) = accesses(*ROWS_OF_8[90 if arch == 90 else 80], row, arch=arch)
    assert one.op == "smem" and ways(one) == expected


def test_atomics_of_one_address_follow_one_another():
    (one,) = accesses("MOV R2, c[0x0][0x18]", "MOV R3, c[0x0][0x1c]", "ATOM.E.MIN.STRONG.GPU PT, R4, [R2.64], R5")
    assert one.op == "smem" and ways(one) == 32


@pytest.mark.parametrize(("arch", "at"), [(75, 0x20), (80, 0x20), (90, 0x20), (100, 0x2F8)])
def test_an_array_of_the_thread_lies_in_local_memory(arch, at):
    """All threads access the same word of their arrays, and these lie side by side: four sectors, which L1 holds."""
    stack = 0x37C if arch >= 100 else 0x28
    rows = [f"MOV R1, c[0x0][{stack:#x}]", "IADD3 R1, R1, -0x80, RZ", f"IADD3 R2, P1, R1, c[0x0][{at:#x}], RZ"]
    rows += [f"IADD3.X R3, RZ, c[0x0][{at + 4:#x}], RZ, P1, !PT", "ST.E [R2.64+0xc], R0"]
    _, one = accesses(*rows, "LD.E R4, [R2.64+0xc]", arch=arch)
    assert one.op == "load" and one.access.l1_hit == 1.0 and one.access.pattern == "coalesced"


OF_GLOBAL = ["MOV R6, c[0x0][0x160]", "MOV R7, c[0x0][0x164]"]


def test_a_pointer_to_global_memory_stays_one():
    (one,) = accesses(*OF_GLOBAL, "S2R R0, SR_TID.X", "IMAD.WIDE.U32 R6, R0, 0x20, R6", "LD.E R4, [R6.64]")
    assert one.op == "load" and (one.access.pattern, one.access.stride) == ("stride", 8)


@pytest.mark.parametrize("test", ["ISETP.EQ.AND P0, PT, R9, RZ, PT", "ISETP.EQ.AND P0, PT, R0, RZ, PT"], ids=["block", "thread"])
def test_different_memories_are_global_memory_with_unknown_addresses(test):
    """Block 0 of 4, or thread 0 of each block and so the first of its 4 warps, is in global memory."""
    rows = [*ROWS_OF_8[80], *OF_GLOBAL, test, "SEL R2, R6, R2, P0", "SEL R3, R7, R3, P0", "LD.E R4, [R2.64]"]
    with pytest.warns(AssumptionWarning) as found:
        to_kernel(function(*rows, "EXIT"), as_geometry("4,128"), Choices(), name="f")
    said = [str(each.message) for each in found]
    assert any("LD.E accesses shared memory of its own in 75.00% of its executions" in each for each in said)
    assert any("the addresses of LD.E depend on data: taken as coalesced" in each for each in said)
    (one,) = accesses(*rows, launch="4,128", strict=False)
    assert one.op == "load" and one.access.pattern == "coalesced"


def test_shared_memory_of_another_block_is_none_of_the_own():
    other = [*ROWS_OF_8[90], "IADD3 R2, R2, 0x1000000, RZ", "LD.E R4, [R2.64]"]
    with pytest.raises(AssumptionWarning, match=r"the addresses of LD\.E depend on data"):
        accesses(*other, arch=90)


def test_accesses_beyond_what_a_block_has_are_said():
    """Thread 127 reads the word at byte 127 * 32 + 16384."""
    with pytest.raises(AssumptionWarning, match="reach byte 20452 of shared memory, and a block has 16384"):
        accesses(*ROWS_OF_8[80], "LD.E R4, [R2.64+0x4000]")


def test_trips_that_are_left_out_count():
    loop = ["MOV R8, RZ", ".L_loop:", "LD.E R4, [R2.64]", "IADD3 R2, P1, R2, 0x4, RZ", "IADD3.X R3, RZ, R3, RZ, P1, !PT"]
    end = ["IADD3 R8, R8, 0x1, RZ", "ISETP.GE.AND P0, PT, R8, 0x3e8, PT", "@!P0 BRA `(.L_loop)"]
    (one,) = accesses(*ROWS_OF_8[80], *loop, *end)
    assert one.op == "smem" and ways(one) == 8


UPDATE = [
    "ATOM.E.ADD.F32.FTZ.RN.STRONG.GPU P0, RZ, [R2.64], R5", "@P0 BRA `(.L_end)", "QSPC.E.S P1, RZ, [R2]", "@!P1 BRA `(.L_none)",
    "LOP3.LUT R10, R2, 0xffffff, RZ, 0xc0, !PT", ".L_again:", "LDS R14, [R10]", "ATOMS.CAST.SPIN R15, [R10], R14, R15",
    "ISETP.EQ.U32.AND P0, PT, R15, 0x1, PT", "@!P0 BRA `(.L_again)", "BRA `(.L_end)", ".L_none:", "LD.E R4, [R2.64]", ".L_end:",
]  # fmt: skip
"""What the compiler makes of atomicAdd of a float through a generic pointer."""


def test_a_sum_of_floating_point_numbers_is_made_where_its_address_says():
    (one,) = accesses(*OF_GLOBAL, "MOV R2, R6", "MOV R3, R7", *UPDATE, strict=False)
    assert one.op == "atomic"
    for trips in ({}, {".L_again": 1}):  # no two threads have one address
        first, *others = accesses(*ROWS_OF_8[80], *UPDATE, strict=False, trips=trips)
        assert first.op == "smem" and not others


SOURCE = """
__device__ __noinline__ float total(const float *p, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i) s += p[i * 8];
    return s;
}
__global__ void sums(const float *x, float *y, int n)
{
    __shared__ float t[2048];
    float own[32];
    for (int i = 0; i < 8; ++i) t[i * 256 + threadIdx.x] = x[i * 256 + threadIdx.x];
    for (int i = 0; i < 32; ++i) own[i] = x[i * 256 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = total(n == 4 ? own : t + threadIdx.x * 8, n);
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_function_takes_pointers_to_both(compiler, arch):
    for n, op in ((4, "load"), (1, "smem")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = ws.kernels.from_cuda(SOURCE, arch=arch, launch=(64, 128), args={"n": n})
        read = [one for one in only(found, Instruction) if " LD.E" in one.comment]
        assert read and {one.op for one in read} == {op}
        assert {ways(one) for one in read} == {8} if op == "smem" else {one.access.l1_hit for one in read} == {1.0}
