// What `warpsim measure` does not measure: pairs of operations, L2 without DRAM, reads of L2 by several SMs, and what L1 keeps.
//
//     nvcc -arch=sm_90 -O3 -o rates rates.cu && ./rates > rates.csv
//     ncu --cache-control none --csv --metrics lrc__xbar2gpc_sectors_op_read.sum,lrc__lts2lrc_sectors_op_read.sum -k together ./rates
//
// The second command counts what L2 reads, and what SMs get of it, while single warps of n SMs each read the same line once at a
// random time in every period of t cycles (rows "together"). Reads go together within a window of w cycles where SMs get
// 1 + w (n / GPCs - 1) / (t - 1000) times as much as L2 reads. With -k twice and the metrics
// l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum and l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum it counts what hits
// L1 while blocks read some sets of data after each other, each one twice.

#include <cstdio>

typedef unsigned long long u64;
const int SMS = 132, STEPS = 2000, CHAINS = 8;

enum Pair { HI, WIDE, LO, HI_LO, LO_FFMA, LO_3FFMA, HI_FFMA, WIDE_FFMA, WIDE_3FFMA };
const char *names[] = {"IMAD.HI", "IMAD.WIDE", "IMAD", "IMAD.HI + IMAD", "IMAD + FFMA", "IMAD + 3 FFMA", "IMAD.HI + FFMA", "IMAD.WIDE + FFMA", "IMAD.WIDE + 3 FFMA"};

template <int PAIR>
__global__ void pairs(unsigned *sink, long long *cycles, unsigned factor)
{
    const bool hi = PAIR == HI || PAIR == HI_LO || PAIR == HI_FFMA, wide = PAIR == WIDE || PAIR == WIDE_FFMA || PAIR == WIDE_3FFMA;
    const bool lo = PAIR == LO || PAIR == HI_LO || PAIR == LO_FFMA || PAIR == LO_3FFMA;
    const int ffma = PAIR == LO_3FFMA || PAIR == WIDE_3FFMA ? 3 : PAIR == LO_FFMA || PAIR == HI_FFMA || PAIR == WIDE_FFMA;
    unsigned a[CHAINS], b[CHAINS], all = 0;
    u64 w[CHAINS];
    float f[CHAINS], real = factor * 1.1f;
    for (int i = 0; i < CHAINS; i++)
        a[i] = b[i] = w[i] = f[i] = threadIdx.x * 77 + i * 13 + factor;
    __syncthreads();
    long long begin = clock64();
#pragma unroll 1
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int i = 0; i < CHAINS; i++) {
            if (hi)
                asm volatile("mul.hi.u32 %0, %0, %1;" : "+r"(a[i]) : "r"(factor));
            if (wide)
                asm volatile("{.reg .u32 l, h; mov.b64 {l, h}, %0; mul.wide.u32 %0, l, h;}" : "+l"(w[i]));
            if (lo)
                asm volatile("mad.lo.u32 %0, %0, %1, %0;" : "+r"(b[i]) : "r"(factor));
            for (int k = 0; k < ffma; k++)
                asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(f[(i + 3 * k) % CHAINS]) : "f"(real));
        }
    long long spent = clock64() - begin;
    for (int i = 0; i < CHAINS; i++)
        all ^= a[i] ^ b[i] ^ (unsigned)w[i] ^ (unsigned)(w[i] >> 32) ^ __float_as_uint(f[i]);
    if (all == 0x1234567)
        sink[0] = all;
    if (threadIdx.x == 0 && blockIdx.x == 0)
        cycles[0] = spent;
}

template <class Word>
__global__ void stores(Word *x, size_t words, int passes)
{
    size_t share = words / gridDim.x, first = blockIdx.x * share;
    Word value = {};
    for (int pass = 0; pass < passes; pass++)
        for (size_t i = threadIdx.x; i < share; i += blockDim.x)
            x[first + i] = value;
}

// Every block reads the whole set, or a part of its own.
__global__ void loads(const uint4 *x, unsigned *sink, size_t words, int passes, bool own)
{
    size_t share = words / gridDim.x, first = blockIdx.x * share, count = own ? share : words;
    unsigned all = 0;
    for (int pass = 0; pass < passes; pass++)
        for (size_t i = threadIdx.x; i + 3 * blockDim.x < count; i += 4 * blockDim.x)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                size_t at = first + i + k * blockDim.x;
                uint4 value = __ldcg(x + (at < words ? at : at - words));
                all ^= value.x ^ value.y ^ value.z ^ value.w;
            }
    if (all == 0x1234567)
        sink[0] = all;
}

__device__ unsigned arrived[64];

__global__ void together(const float *x, float *sink, unsigned lines, int period, int active, int which)
{
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sm >= active)
        return;
    if (threadIdx.x == 0) {
        atomicAdd(&arrived[which], 1);
        while (*(volatile unsigned *)&arrived[which] < active);
    }
    __syncwarp();
    long long begin = clock64() + 2000;
    float sum = 0;
    for (int n = 0; n < 3000; n++) {
        unsigned random = (sm * 65537u + n) * 0x9E3779B9u;
        random = (random ^ random >> 15) * 0x846CA68Bu;
        while (clock64() < begin + (long long)n * period + (random ^ random >> 16) % (period - 1000));
        sum += __ldcg(x + (size_t)((u64)n * 7919u % lines) * 32 + threadIdx.x);
        if (sum == 1.2345f)
            sink[0] = sum;
    }
}

__global__ void twice(const float *x, float *sink, int words, int sets)
{
    float sum = 0;
    for (int set = 0; set < sets; set++)
        for (int pass = 0; pass < 2; pass++) {
            for (int i = threadIdx.x; i < words; i += blockDim.x)
                sum += x[((size_t)blockIdx.x * sets + set) * words + i];
            __syncthreads();
        }
    if (sum == 12345.678f)
        sink[0] = sum;
}

template <class Run>
float least_ms(Run run)
{
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    float least = 1e9f, ms;
    for (int n = 0; n < 5; n++) {
        cudaEventRecord(begin), run(), cudaEventRecord(end), cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        least = ms < least ? ms : least;
    }
    return least;
}

char *x;
unsigned *y;

template <int PAIR>
void measure_pair()
{
    long long cycles;
    for (int n = 0; n < 2; n++)  // the first launch loads the code
        pairs<PAIR><<<SMS, 1024>>>(y, (long long *)y + 8, 3);
    cudaMemcpy(&cycles, (long long *)y + 8, 8, cudaMemcpyDeviceToHost);
    printf("cycles of a scheduler,%s,%.3f\n", names[PAIR], (double)cycles / STEPS / CHAINS / 8);
}

int main()
{
    cudaMalloc(&x, 1u << 31), cudaMalloc(&y, 1 << 20), cudaMemset(x, 0, 1u << 31);
    cudaFuncSetAttribute(together, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 << 10);
    printf("quantity,of,value\n");
    measure_pair<HI>(), measure_pair<WIDE>(), measure_pair<LO>(), measure_pair<HI_LO>(), measure_pair<LO_FFMA>();
    measure_pair<LO_3FFMA>(), measure_pair<HI_FFMA>(), measure_pair<WIDE_FFMA>(), measure_pair<WIDE_3FFMA>();
    for (int mib = 8; mib <= 40; mib += 8) {
        size_t bytes = (size_t)mib << 20;
        for (int threads = 256; threads <= 1024; threads *= 4)
            for (int blocks = 1; blocks <= 2; blocks++) {
                int grid = SMS * blocks;
                auto gbs = [&](auto run, double moved) { return moved / (least_ms([&] { run(2); }) - least_ms([&] { run(1); })) / 1e6; };
                printf("L2 GB/s,16-byte stores to %d MiB by %d x %d threads,%.0f\n", mib, blocks, threads,
                       gbs([&](int n) { stores<<<grid, threads>>>((uint4 *)x, bytes / 16, 40 * n); }, 40.0 * bytes));
                printf("L2 GB/s,loads of all of %d MiB by %d x %d threads,%.0f\n", mib, blocks, threads,
                       gbs([&](int n) { loads<<<grid, threads>>>((uint4 *)x, y, bytes / 16, n, false); }, 1.0 * grid * bytes));
                printf("L2 GB/s,loads of a part each of %d MiB by %d x %d threads,%.0f\n", mib, blocks, threads,
                       gbs([&](int n) { loads<<<grid, threads>>>((uint4 *)x, y, bytes / 16, 80 * n, true); }, 80.0 * bytes));
            }
    }
    int which = 0;
    for (unsigned lines : {1u << 16, 1u << 24})
        for (int active : {132, 66, 33})
            for (int period : {6000, 20000}) {
                together<<<SMS, 32, 160 << 10>>>((float *)x, (float *)y, lines, period, active, which++);
                printf("together,%d SMs and %u lines in %d cycles,\n", active, lines, period);
            }
    for (int shared : {-1, 100}) {  // percent of L1 that the driver is asked for, or its own choice: 32 and 228 of 256 KiB
        cudaFuncSetAttribute(twice, cudaFuncAttributePreferredSharedMemoryCarveout, shared);
        for (int kib : {8, 16, 32, 64, 96, 128, 160, 192})
            for (int blocks : {1, 4})
                for (int sets : {1, 2, 4, 8, 16})
                    if (shared < 0 || kib <= 64) {
                        twice<<<SMS * blocks, 256>>>((float *)x, (float *)y, kib * 256 / blocks, sets);
                        printf("twice,%d sets of %d KiB in %d blocks of an SM with %s,\n", sets, kib, blocks, shared < 0 ? "224 KiB of L1" : "28 KiB");
                    }
    }
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
