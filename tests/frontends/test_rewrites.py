"""Numbers in shared memory, such as those of rows to gather: each store brings others, and without one they stay."""

import warnings

import numpy as np
import pytest

import warpsim as ws
from tests.support.listings import kernel, only
from warpsim.frontends.errors import AssumptionWarning
from warpsim.frontends.execution.rewrites import Rewrites
from warpsim.frontends.execution.state import State
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.execution.windows import UPPER_WORDS
from warpsim.frontends.machine_code.operands import Address, Register
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.kernels.instruction import Instruction

SOURCE = """
#include <cuda_pipeline.h>

__device__ __forceinline__ void some_arrive() { asm volatile("bar.arrive 1, 256;" ::: "memory"); }
__device__ __forceinline__ void some_wait() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
__device__ __forceinline__ void some_free() { asm volatile("bar.arrive 2, 256;" ::: "memory"); }
__device__ __forceinline__ void some_await_free() { asm volatile("bar.sync 2, 256;" ::: "memory"); }

__global__ void f(const int *idx, const float *x, float *y, int trips)
{
    __shared__ int tile[2][SIZE], table[256], tail;
    __shared__ float other[256];
    int tid = threadIdx.x;
    float sum = 0;
    const int *mine = idx + (size_t)blockIdx.x * 1024 * trips + tid;
    table[tid] = mine[0];
    if (tid == 0) tail = 0;
    __syncthreads();
    BODY
    y[blockIdx.x * 256 + tid] = sum;
}
"""

WARPS, TRIPS, READS = 8, 6, 16
ONCE, AGAIN = 1 - 1 / WARPS, 1 - 1 / (WARPS * TRIPS)
"""What hits L1 if each of the warps of a block reads a number once, and if each reads it in every trip."""

READ = f"for (int j = 0; j < {READS}; ++j) sum += x[{{}}];"
LOOP = "for (int t = 0; t < trips; ++t) {{ {} __syncthreads(); {} __syncthreads(); }}"


def mean_hit_of_gathers(body, size=256, arch="sm_80", trips=TRIPS):
    """The share of hits in L1 of loads of one word for all threads of a warp; the compiler may make several of each."""
    options = [f"-DSIZE={size}", f"-DBODY={body}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        found = ws.kernels.from_cuda(SOURCE, arch=arch, launch=(108, 256), args={"trips": trips}, options=options)
    loads = [one for one in only(found, Instruction) if one.op == "load" and one.access.pattern == "broadcast"]
    assert len(loads) % READS == 0
    return np.mean([one.access.l1_hit for one in loads])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "fill",
    [
        "tile[0][tid] = mine[t * 1024];",
        "if (tid < 32) tile[0][tid] = mine[t * 1024];",
        "if (mine[t * 1024 + 256] > 0) tile[0][tid] = mine[t * 1024];",
        "tile[0][tid & 31] = table[tid ^ t];",
        "tile[0][atomicAdd(&tail, 1) & 255] = mine[t * 1024];",
        "atomicMax(&tile[0][tid], mine[t * 1024]);",
        "__pipeline_memcpy_async(&tile[0][tid], mine + t * 1024, 4); __pipeline_commit(); __pipeline_wait_prior(0);",
    ],
    ids=["all", "one_warp", "data_decides", "copied", "queue", "atomic", "async_copy"],
)
def test_what_is_stored_in_each_trip_names_other_data(compiler, arch, fill):
    found = mean_hit_of_gathers(LOOP.format(fill, READ.format("tile[0][j]")), arch=arch)
    assert found == pytest.approx(ONCE, abs=0.01)


def test_what_is_stored_once_names_the_same_data_in_each_trip(compiler):
    """Also where another array of the block is stored in each trip."""
    fill = "other[tid] = y[t * 1024 + tid]; sum += other[tid ^ 1];"
    found = mean_hit_of_gathers(LOOP.format(fill, READ.format("table[j]")))
    assert found == pytest.approx(AGAIN, abs=0.01)


@pytest.mark.parametrize("size", [256, 1024, 2048])
def test_two_buffers_name_other_data_in_each_trip(compiler, size):
    """Wherever the second one is."""
    fill = "tile[t & 1][tid] = mine[t * 1024];"
    read = READ.format("tile[t & 1][j]")
    found = mean_hit_of_gathers(f"for (int t = 0; t < trips; ++t) {{ {fill} __syncthreads(); {read} }}", size)
    assert found == pytest.approx(ONCE, abs=0.01)


@pytest.mark.parametrize("trips", [TRIPS, 400])
def test_a_number_that_is_stored_every_other_trip_serves_two(compiler, trips):
    fill = "if (t % 2 == 0) tile[0][tid] = mine[t * 1024];"
    found = mean_hit_of_gathers(LOOP.format(fill, READ.format("tile[0][j]")), trips=trips)
    assert found == pytest.approx(1 - 1 / (2 * WARPS), abs=0.01)


def test_what_other_warps_store_is_new_behind_each_wait_for_them(compiler):
    """Four warps fill a buffer, and four read it. All trips of the first ones are executed before those of the others."""
    fill = "for (int t = 0; t < trips; ++t) { some_await_free(); tile[0][tid] = mine[t * 1024]; some_arrive(); }"
    read = f"some_free(); for (int t = 0; t < trips; ++t) {{ some_wait(); {READ.format('tile[0][j]')} some_free(); }}"
    found = mean_hit_of_gathers(f"if (tid < 128) {{ {fill} }} else {{ {read} }}")
    assert found == pytest.approx(1 - 2 / WARPS, abs=0.01)


COUNT = ["MOV R10, RZ", ".L_loop:"]
NEXT = ["IADD3 R10, R10, 0x1, RZ", "ISETP.GE.AND P0, PT, R10, 0x6, PT", "@!P0 BRA `(.L_loop)", "EXIT"]
GATHER = ["IMAD.WIDE R2, R8, 0x4, RZ", "IADD3 R2, P1, R2, c[0x0][0x160], RZ", "IADD3.X R3, R3, c[0x0][0x164], RZ, P1, !PT"]


def last_load(*rows, **choices):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        return [one for one in only(kernel(*rows, **choices), Instruction) if one.op == "load"][-1]


def test_what_copies_bring_is_new_behind_each_wait_for_their_barrier():
    wait = [".L_wait:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [R11], R12", "@!P2 BRA `(.L_wait)"]
    rows = ["MOV R11, RZ", "MOV R12, RZ", *COUNT, *wait, "LDS R8, [RZ+0x400]", *GATHER, "LDG.E R4, [R2.64]", *NEXT]
    assert last_load(*rows, arch=90).access.l1_hit == pytest.approx(0.75, abs=0.01)  # the first of four warps


def test_words_that_are_loaded_together_are_numbers_of_their_own():
    """As four loads of a word each; none of them loads what another one does."""
    apart = [row.replace("R8", f"R{8 + k}") for k in range(4) for row in (*GATHER, f"LDG.E R{20 + k}, [R2.64]")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        made = kernel("LDS.128 R8, [RZ]", *apart, "EXIT", launch="1024,32")
    loads = [one.access for one in only(made, Instruction) if one.op == "load"]
    assert [(one.pattern, one.l1_hit, one.l2_hit) for one in loads] == [("broadcast", 0.0, 0.0)] * 4


def test_pointers_in_shared_memory_begin_lines():
    rows = ["S2R R0, SR_TID.X", "LDS.64 R8, [RZ]", "LEA R2, P1, R0, R8, 0x2", "LEA.HI.X R3, R0, R9, RZ, 0x2, P1"]
    one = last_load(*rows, "LDG.E R4, [R2.64]", "EXIT", launch="1024,32")
    assert (one.access.pattern, one.access.offset_bytes, one.access.l1_hit) == ("coalesced", 0, 0.0)


def counted(opcode, where, *, blocks=1, active=None):
    """How often words 0 to 7 of each block have been stored, and one whose place is not known, after a store by a warp each."""
    state = State(lambda *_: np.array([-1]), {}, np.ones(32 * blocks, bool) if active is None else active)
    state.values["R1"] = np.asarray(where)
    rewrites = Rewrites(blocks, 1, 32)
    step = Step(0, MachineInstruction(0, opcode, ""), None, (), None, (Address(((Register("R1"), 1),), 0),))
    rewrites.follow(step, state, [])
    return [rewrites.times(np.full(blocks, place)).tolist() for place in (*range(0, 32, 4), -1)]


def test_stores_count_once_in_the_words_that_they_write():
    lanes = np.arange(32)
    assert counted("STS", lanes % 4 * 4) == [[1]] * 4 + [[0]] * 4 + [[1]]
    assert counted("STS.64", lanes * 0 + 8) == [[0]] * 2 + [[1]] * 2 + [[0]] * 4 + [[1]]
    assert counted("STS.U8", lanes % 4) == [[1]] + [[0]] * 7 + [[1]]
    assert counted("STSM.16.M88", lanes // 8 * 16) == [[1]] * 4 + [[0]] * 4 + [[1]]  # eight threads name rows
    assert counted("STS", np.where(lanes < 31, 0, -1)) == [[2]] + [[1]] * 7 + [[2]]  # one thread may store in any word
    assert counted("STG.E", lanes) == counted("LDS", lanes) == [[0]] * 9


def test_blocks_store_in_their_own_memory():
    active = np.arange(64) < 32
    assert counted("STS", np.arange(64) * 0, blocks=2, active=active) == [[1, 0]] + [[0, 0]] * 7 + [[1, 0]]
    assert counted("STS", np.arange(64) * 0 - 1, blocks=2, active=active) == [[1, 0]] * 9


def test_generic_addresses_tell_whether_a_store_is_to_shared_memory():
    """One of another block of the cluster counts, as that block does the same; an unknown one does not."""
    state = State(lambda *_: np.array([-1]), {}, np.ones(32, bool))
    step = Step(0, MachineInstruction(0, "ST.E", ""), None, (), None, (Address(((Register("R1", suffix=".64"), 1),), 0),))
    for low, high, expected in [(4, UPPER_WORDS["shared"], 1), (4 + (1 << 24), UPPER_WORDS["shared"], 1), (4, 7, 0), (-1, -1, 0)]:
        state.values |= {"R1": np.full(32, low), "R2": np.full(32, high)}
        rewrites = Rewrites(1, 1, 32)
        rewrites.follow(step, state, [])
        assert rewrites.times(np.array([4])) == expected


def test_constants_are_the_same_in_all_blocks():
    rows = ["S2R R9, SR_CTAID.X", "LOP3.LUT R9, R9, 0x0, RZ, 0xc0, !PT", "LDC R8, c[0x3][R9]", *GATHER, "LDG.E R4, [R2.64]"]
    assert last_load(*rows, "EXIT", launch="2048,32").access.l1_hit > 0.9
