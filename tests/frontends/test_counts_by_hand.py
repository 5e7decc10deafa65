"""Kernels of a few lines, whose executions and accesses are counted by hand."""

import warnings
from itertools import pairwise

import pytest

pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")

import warpsim as ws
from tests.support.listings import counts
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.machine_code.nvdisasm import find_nvdisasm
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels.access import conflict_ways
from warpsim.kernels.costs import access_transactions
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.traversal import expected_executions, walk

pytestmark = pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvidia-cuda-nvdisasm, of warpsim[cuda]")

ARCHS = ("sm_75", "sm_90", "sm_120")


def imported(body, arch, launch, args="", parameters="float *out, const float *in"):
    index = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    source = f'extern "C" __global__ void k({parameters})\n{{\n    {index}\n{body}\n}}\n'
    given = dict(each.split("=") for each in args.split(",") if each)
    numbers = {name: float(value) if "." in value else int(value) for name, value in given.items()}
    return ws.kernels.from_cuda(source, arch, launch=launch, args=numbers, caches="none")


@pytest.mark.parametrize("arch", ARCHS)
def test_warps_that_a_part_of_their_threads_leave_go_on(arch):
    """In every other block lane 0 of each warp stays; all other warps stay whole."""
    body = """
    if (blockIdx.x & 1) { if (threadIdx.x & 31) { aux[i] = 1; return; } } else out[i] = in[(1 << 20) + i];
    #pragma unroll 1
    for (int k = 0; k < 64; ++k) out[k * 8192 + i] = in[i + k * 8192];
    __syncthreads();
    out[i] = 3;"""
    found = counts(imported(body, arch, (64, 128), parameters="float *out, const float *in, float *aux"))
    assert found["store"] == pytest.approx(0.5 + 0.5 + 64 + 1)
    assert found["load"] == pytest.approx(0.5 + 64)


@pytest.mark.parametrize("arch", (*ARCHS, "sm_100"))
@pytest.mark.filterwarnings("error")
def test_an_exit_with_a_guard_and_a_condition_is_taken_where_both_hold(arch):
    """The upper half of the warps of every other block leaves, by `@P0 EXIT P1`."""
    body = "    if ((blockIdx.x & 1) && threadIdx.x >= 64) return; out[i] = 1;"
    kernel = imported(body, arch, (16, 128), parameters="float *out")
    assert counts(kernel)["exit"] == pytest.approx(0.25)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("h", "low", "high", "stores"), [(1.0, 5200.0, 5260.0, 59), (0.5, 2600.0, 2620.0, 39), (1.0, 6000.0, 6002.0, 1)]
)
def test_a_window_of_floating_point_numbers_in_a_long_loop_is_not_passed_over(arch, h, low, high, stores):
    body = """
    #pragma unroll 1
    for (int k = 0; k < n; ++k) { float x = k * h; if (x > low && x < high) out[k * 8192 + i] = x; }"""
    parameters = "float *out, int n, float h, float low, float high"
    kernel = imported(body, arch, (64, 128), f"n=10000,h={h},low={low},high={high}", parameters)
    assert counts(kernel)["store"] == pytest.approx(stores)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("where", "tries"), [("threadIdx.x", 1), ("threadIdx.x / 8", 8), ("7", 32), ("threadIdx.x < 64 ? threadIdx.x : 64", 16.5)]
)
def test_a_sum_in_shared_memory_takes_a_try_for_each_thread_with_one_address(arch, where, tries):
    """The compiler makes it of compare-and-swap, again and again until the word is as it was read."""
    body = f"""
    __shared__ float s[128];
    for (int k = 0; k < 4; ++k) atomicAdd(&s[{where}], in[k * 8192 + i]);
    __syncthreads();
    out[i] = s[threadIdx.x];"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if tries == 16.5 else "error")
        kernel = imported(body, arch, (64, 128))
    swaps = [times for one, times in expected_executions(kernel.body, kernel.block_warps) if "ATOMS" in (one.comment or "")]
    assert sum(swaps) == pytest.approx(4 * tries)


def test_a_sum_in_shared_memory_at_an_address_that_is_data_asks_for_its_tries():
    body = "    __shared__ float s[128]; atomicAdd(&s[int(in[i])], 1.0f); __syncthreads(); out[i] = s[threadIdx.x];"
    with pytest.raises(FrontEndError, match=r"give trips=.*; it is an update by compare-and-swap, .* 1 if no two do$"):
        imported(body, "sm_90", (64, 128))


def test_a_loop_that_waits_for_the_grid_says_so():
    source = """#include <cooperative_groups.h>
    __global__ void k(float *x) { *x = 1; cooperative_groups::this_grid().sync(); x[threadIdx.x + 8] = 2; }"""
    with pytest.raises(FrontEndError, match=r"give trips=.*, as grid\.sync\(\) does: one trip where no warp has to wait$"):
        ws.kernels.from_cuda(source, "sm_90", launch=(64, 128), caches="none")


@pytest.mark.parametrize("arch", ARCHS)
def test_bytes_of_a_constant_are_permuted(arch):
    body = """
    unsigned trips = __byte_perm(n + (threadIdx.x >> 8), 0x0300, 0x7650);
    float sum = 0;
    #pragma unroll 1
    for (unsigned k = 0; k < trips; ++k) sum += in[k * 8192 + i];
    out[i] = sum;"""
    kernel = imported(body, arch, (64, 256), "n=16", "float *out, const float *in, unsigned n")
    assert counts(kernel)["load"] == 0x310


def test_two_numbers_of_trips_are_no_range():
    """Even warps have 4 trips and odd ones 100, with two loads in each: the mean stands for all, which is said."""
    body = """
    int w = threadIdx.x / 32, n = w & 1 ? 100 : 4;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) { sum += in[k * 1024 + i]; if (w & 1) sum += in[k * 1024 + i + (1 << 20)]; }
    out[i] = sum;"""
    with pytest.warns(AssumptionWarning, match="4 to 100 trips, by warp: 52 stand for all"):
        kernel = imported(body, "sm_90", (64, 256))
    assert counts(kernel)["load"] == pytest.approx(52 + 100, rel=0.35)


@pytest.mark.filterwarnings("ignore::warpsim.frontends.errors.AssumptionWarning")
def test_a_block_that_stands_for_all_others_may_differ_from_them():
    """Of blocks of 1,024 threads two are executed at first, the last one and one for all others; the trips are index^2."""
    body = """
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < blockIdx.x * blockIdx.x; ++k) {
        float x = in[k * 1024 + threadIdx.x];
        #pragma unroll
        for (int step = 0; step < 150; ++step) x = x * sum + step;
        sum += x;
    }
    out[i] = sum;"""
    assert counts(imported(body, "sm_90", (64, 1024)))["load"] == pytest.approx(63 * 127 / 6, rel=0.01)


def test_blocks_of_a_small_launch_have_an_sm_each():
    """The blocks differ in their trips, and each reads its data once: on 132 SMs none of 64 finds that of another in L1."""
    body = """
    float sum = 0;
    for (int row = 0; row <= blockIdx.x; ++row)
        for (int k = threadIdx.x; k < row; k += blockDim.x) sum += in[row * 1024 + k];
    out[i] = sum;"""
    index = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    source = f'extern "C" __global__ void k(float *out, const float *in) {{ {index} {body} }}'
    kernel = ws.kernels.from_cuda(source, "sm_90", launch=(64, 64))
    (load,) = (one for _, one in walk(kernel.body) if isinstance(one, Instruction) and one.op == "load")
    assert load.access.l1_hit == 0 and load.access.l2_hit > 0.9


@pytest.mark.filterwarnings("ignore::warpsim.frontends.errors.AssumptionWarning")
def test_a_loop_that_hardly_any_warp_repeats_is_passed_once():
    """Of 256 blocks one goes on, twice."""
    body = """
    int k = 0;
    while (true) {
        float a = in[i + k * 65536];
        out[i + k * 65536] = a * 2;
        __syncwarp();
        if (blockIdx.x != 0 || ++k >= 3) break;
        out[i + 1048576 + k * 65536] = in[i + 1048576] + in[i + 2097152];
    }"""
    found = counts(imported(body, "sm_80", (256, 256)))
    assert found["load"] == pytest.approx(1 + 6 / 256, abs=0.01)
    assert found["store"] == pytest.approx(1 + 4 / 256, abs=0.01)


@pytest.mark.filterwarnings("ignore::warpsim.frontends.errors.AssumptionWarning")
@pytest.mark.parametrize("arch", ["sm_100", "sm_120"])
def test_both_groups_of_registers_of_a_load_of_256_bits_depend_on_data(arch):
    body = """
    int a, b, c, d, e, f, g, h;
    asm("ld.global.v8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
        : "=r"(a), "=r"(b), "=r"(c), "=r"(d), "=r"(e), "=r"(f), "=r"(g), "=r"(h) : "l"(idx + 8 * i));
    out[i] = in[a] + in[b] + in[c] + in[d] + in[e] + in[f] + in[g] + in[h];"""
    kernel = imported(body, arch, (64, 128), parameters="int *out, const int *idx, const int *in")
    assert [one.access.pattern for one in kernel.body if one.op == "load"] == ["stride", *["coalesced"] * 8]


@pytest.mark.parametrize("chip", ["a100", "h100"])
def test_each_matrix_of_128_bytes_is_a_pass(chip):
    body = """
    __shared__ __align__(128) int s[2048];
    s[i] = i;
    __syncthreads();
    unsigned at = (unsigned)__cvta_generic_to_shared(s);
    int a, b, c, d, e, f, g;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(at + (i & 7) * 16));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(b), "=r"(c) : "r"(at + (i & 15) * 16));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(d), "=r"(e), "=r"(f), "=r"(g)
        : "r"(at + (i & 31) * 16));
    out[i] = a + b + c + d + e + f + g;"""
    gpu = load_gpu(chip)
    kernel = imported(body, gpu.architecture, (1, 32), parameters="int *out")
    loads = [one for one in kernel.body if one.op == "smem" and "LDSM" in one.comment]
    assert [conflict_ways(one, gpu) for one in loads] == [1, 2, 4]


@pytest.mark.parametrize("arch", ARCHS)
def test_numbers_with_a_sign_become_integers(arch):
    """Every fourth element, backwards."""
    body = "    out[i] = in[256 + (int)(-(float)(i & 31) * s) + (i >> 5) * 512];"
    kernel = imported(body, arch, (1, 256), "s=4.0", "float *out, const float *in, float s")
    (load,) = (one for one in kernel.body if one.op == "load")
    assert {one - other for one, other in pairwise(load.access.addresses)} == {16}


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_reductions_of_several_numbers_ask_for_all_of_them(arch):
    body = """
    atomicAdd(two + i, make_float2(1, 2));
    atomicAdd(four + i, make_float4(1, 2, 3, 4));"""
    kernel = imported(body, arch, (4, 128), parameters="float2 *two, float4 *four")
    assert [one.access.bytes_per_thread for one in kernel.body if one.op == "reduction"] == [8, 16]


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_a_wait_for_listed_counters_waits_for_all_that_they_count(arch):
    body = """
    float a = in[i], b = in[i + 1000];
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
    out[i] = a + b;"""
    kernel = imported(body, arch, (4, 128), parameters="float *out, const float *in, const void *map")
    loaded = {one.dst for one in kernel.body if one.op == "load"}
    (wait,) = (one for one in kernel.body if "DEPBAR" in one.comment and "{" in one.comment)
    assert loaded <= {*wait.src}


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_the_sum_of_an_address_and_a_negative_number_that_is_0_is_the_address(arch):
    """Addresses count from the start of the lowest line: no thread is 4 GiB away."""
    body = "    out[-(n & threadIdx.x)] = out[32];"
    kernel = imported(body, arch, (1, 32), "n=31", "int *out, long long n")
    (store,) = (one for one in kernel.body if one.op == "store")
    assert store.access.addresses == tuple(range(128, 0, -4))


@pytest.mark.parametrize("arch", (*ARCHS, "sm_100"))
@pytest.mark.filterwarnings("error")
def test_a_scaled_row_with_clamped_borders_has_known_addresses(arch):
    """Every second pixel of a row: a warp reads 32 floats of 64, which are 8 sectors of 2 lines, and writes 4 of one."""
    body = """
    float where = (i + 0.5f) * scale - 0.5f;
    int left = max(min((int)floorf(where), n - 1), 0);
    out[i] = in[left];"""
    kernel = imported(body, arch, (64, 128), "n=65536,scale=2.0", "float *out, const float *in, int n, float scale")
    load, store = (one for _, one in walk(kernel.body) if getattr(one, "op", "") in ("load", "store"))
    made = [access_transactions(load_gpu("a100"), one) for one in (load, store)]
    assert [(one.requests, one.requests * one.bytes_per_request) for one in made] == [(2, 256.0), (1, 128.0)]


def sectors_of(kernel, op="load"):
    """Sectors of each access of a kernel on an A100, whose requests are of 64 bytes at least."""
    made = [access_transactions(load_gpu("a100"), one) for _, one in walk(kernel.body) if getattr(one, "op", "") == op]
    return [one.requests * one.bytes_per_request / 32 for one in made]


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
@pytest.mark.filterwarnings("error")
def test_positions_in_a_loop_are_addresses_and_its_sums_do_not_hinder_it(arch):
    """Every eighth pixel of a row, in a loop over all rows; the sum is unknown, and the trips are still left out."""
    body = """
    float sum = 0;
    #pragma unroll 1
    for (int p = 0; p < n; ++p) { float x = (i % 320 + 0.5f) * 8.0f - 0.5f; sum += in[p * 2560 + (int)floorf(x)]; }
    out[i] = sum;"""
    kernel = imported(body, arch, (4, 320), "n=2000", "float *out, const float *in, int n")
    assert sectors_of(kernel) == [32.0] and counts(kernel)["load"] == pytest.approx(2000)


@pytest.mark.parametrize("arch", ARCHS)
def test_what_an_unknown_condition_guards_has_its_addresses(arch):
    body = """
    __shared__ float s[1024];
    s[threadIdx.x] = in[i];
    __syncthreads();
    int c = col[i];
    float sum = 0;
    if (c >= 0) sum = in[i * 8] + s[(threadIdx.x & 31) * 32];
    out[i] = sum;"""
    with pytest.warns(AssumptionWarning) as warned:
        kernel = imported(body, arch, (64, 1024), parameters="float *out, const float *in, const int *col")
    assert not any("the addresses of" in str(one.message) for one in warned)
    assert 32.0 in sectors_of(kernel)
    assert 32 in [conflict_ways(one, load_gpu("a100")) for _, one in walk(kernel.body) if getattr(one, "op", "") == "smem"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.filterwarnings("error")
def test_checks_that_trap_do_not_fail(arch):
    body = "int j = col[i]; if (j < 0 || j > 9) __trap(); out[i] = j;"
    kernel = imported(body, arch, (64, 128), parameters="float *out, const int *col")
    assert counts(kernel)["store"] == 1


@pytest.mark.parametrize("arch", ("sm_75", "sm_90", "sm_100"))
@pytest.mark.filterwarnings("error")
def test_variables_of_the_device_have_addresses(arch):
    source = """__device__ float table[4096]; __device__ unsigned long long counter;
extern "C" __global__ void k(float *out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = table[threadIdx.x * 8];
    if (threadIdx.x == 0) atomicAdd(&counter, 1ull);
}"""
    kernel = ws.kernels.from_cuda(source, arch, launch=(64, 128), caches="none")
    assert sectors_of(kernel) == [32.0]
    (update,) = [one for _, one in walk(kernel.body) if getattr(one, "op", "") == "reduction"]
    assert update.access.contended_addresses == 1


@pytest.mark.parametrize(("n", "share"), [(724, 46 * 362 / 2**15), (924, 58 * 462 / 2**15)])
def test_a_grid_that_is_larger_than_what_is_worked_on(n, share):
    """Of 64 x 64 blocks of 16 x 16 threads, two rows a warp, those leave that are beyond n - 1 columns and n rows."""
    body = """
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n - 1 || y >= n) return;
    out[y * 1024 + x] = i;"""
    found = counts(imported(body, "sm_90", ((64, 64), (16, 16)), f"n={n}", "float *out, int n"))
    assert found["store"] == pytest.approx(share, rel=0.03)


@pytest.mark.parametrize("arch", ("sm_80", "sm_90", "sm_120"))
def test_what_a_barrier_has_found_of_all_threads_is_not_known(arch):
    """The predicate that says it held another condition before, by which half of the warps went."""
    body = """
    if (__any_sync(0xFFFFFFFF, i % 64 == 5)) out[i + 8192] = 1;
    if (__syncthreads_or(threadIdx.x == 1000)) out[i * 2] = 1;
    out[i] = 2;"""
    with pytest.warns(AssumptionWarning, match="the access STG.E depends on data"):
        found = counts(imported(body, arch, (64, 128)))
    assert found["store"] == pytest.approx(0.5 + 1 + 1)


@pytest.mark.parametrize("arch", ("sm_90", "sm_100", "sm_120"))
@pytest.mark.filterwarnings("error")
def test_blocks_of_a_kernel_that_declares_no_clusters_meet_at_barriers_of_their_own(arch):
    """The compiler asks whether there are clusters, and else makes a barrier of the block of each one of the cluster."""
    source = """
#include <cooperative_groups.h>
__global__ void k(float *out, const float *in)
{
    __shared__ float s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 8; ++k) {
        s[threadIdx.x] = in[k * 8192 + i];
        cooperative_groups::this_cluster().sync();
        out[k * 8192 + i] = s[threadIdx.x ^ 1];
        cooperative_groups::this_cluster().sync();
    }
}
"""
    found = counts(ws.kernels.from_cuda(source, arch, launch=(64, 128), caches="none"))
    assert (found["barrier"], found["store"]) == (16, 8)
    assert "membar" not in found


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.filterwarnings("error")
def test_votes_on_known_conditions_are_known(arch):
    """Half of the warps have a thread with the first condition; of each warp, 11 threads of 32 are written side by side."""
    body = """
    if (__any_sync(0xFFFFFFFF, i % 64 == 5)) out[i + 8192] = 1;
    unsigned mask = __ballot_sync(0xFFFFFFFF, threadIdx.x % 32 % 3 == 0);
    for (int k = 0; k < __popc(mask); ++k) out[i + (k + 2) * 8192] = 2;
    if (mask >> threadIdx.x % 32 & 1) out[i / 32 * 32 + __popc(mask & (1 << threadIdx.x % 32) - 1)] = 3;"""
    kernel = imported(body, arch, (64, 128), parameters="float *out")
    assert counts(kernel)["store"] == pytest.approx(0.5 + 11 + 1)
