// The latency of single loads while other SMs load the memory to a chosen rate, with a chosen mix of reads and writes.
//
// Block 0 is the probe: one thread follows pointers (see chase.cu) and times every load. All other blocks make traffic:
// each warp moves READS + WRITES lines of 512 bytes at a time, then waits until `pause` cycles have passed since the
// last time, and stops `duration` cycles after its start. The first wait is shorter by a part that differs from warp to
// warp. The launch has one block per SM, so that the probe has its SM for itself. Nobody waits for anybody: all ends by
// the clock.
//
// traffic: `bytes` (a power of two) are read, and as many behind them are written.
// counts: u64[warps of the grid][5]: batches, cycles and ns that they took, SM, a value that keeps the loads alive.
// latencies: u32[8192]; probe: u64[3]: samples taken, the pointer after the last, a value that keeps the TLB's loads alive.
#include "common.cuh"

#define SAMPLES 8192

__device__ __forceinline__ u64 follow(u64 pointer) {
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(pointer)::"memory");
    return pointer;
}

struct __align__(16) Four { u32 x, y, z, w; };

extern "C" __global__ void loaded(u64 traffic, u64 bytes, u64 pause, u64 duration, u64 first, u64 touch, u64 pages, u64 page_bytes,
                                  u64 settle, u64 counts, u64 latencies, u64 probe) {
    __shared__ volatile u32 taken[SAMPLES];
    const u64 start_ns = nanoseconds();
    const u64 start = cycles();
    if (blockIdx.x == 0) {
        if (threadIdx.x != 0) return;
        u64 seen = 0, pointer = first;
#pragma unroll 1
        for (u64 i = 0; i < pages; i++) seen += follow(touch + i * page_bytes);
        pointer += seen == 1;
#pragma unroll 1
        while (cycles() - start < settle) pointer = follow(pointer);
        taken[0] = (u32)pointer;  // waits for the last load
        u32 n = 0;
#pragma unroll 1
        for (; n < SAMPLES && cycles() - start < duration; n++) {
            const u64 before = cycles();
            pointer = follow(pointer);
            taken[n] = (u32)pointer;
            const u64 after = cycles();
            taken[n] = cycles_between(before, after);
        }
#pragma unroll 1
        for (u32 i = 0; i < n; i++) ((u32 *)latencies)[i] = taken[i];
        ((u64 *)probe)[0] = n;
        ((u64 *)probe)[1] = pointer;
        ((u64 *)probe)[2] = seen;
        return;
    }
    const u64 warps = (u64)(gridDim.x - 1) * (blockDim.x >> 5);
    const u64 warp = warp_in_grid() - (blockDim.x >> 5);
    u64 batches = 0, now = start;
    u64 begun = start - (warp * 0x9E3779B97F4A7C15ull >> 33) % (pause + 1);  // or all warps would act in phase
    u32 kept = 0;
    while (now - start < duration) {
        const u64 line = (batches * warps + warp) * (READS > WRITES ? READS : WRITES);
        Four value[READS + 1];
#pragma unroll
        for (int r = 0; r < READS; r++) {
            const u64 at = traffic + (((line + r) * 512) & (bytes - 1)) + 16 * lane_id();
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(value[r].x), "=r"(value[r].y), "=r"(value[r].z), "=r"(value[r].w) : "l"(at));
        }
#pragma unroll
        for (int w = 0; w < WRITES; w++) {
            const u64 at = traffic + bytes + (((line + w) * 512) & (bytes - 1)) + 16 * lane_id();
            asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"((u32)batches) : "memory");
        }
#pragma unroll
        for (int r = 0; r < READS; r++) kept += value[r].x ^ value[r].y ^ value[r].z ^ value[r].w;  // all, or the load would shrink
        batches++;
        do now = cycles(); while (now - begun < pause);
        begun = now;
    }
    u64 *row = (u64 *)counts + 5 * warp_in_grid();
    if (lane_id() == 0) {
        row[0] = batches;
        row[1] = now - start;
        row[2] = nanoseconds() - start_ns;
        row[3] = sm_id();
    }
    if (kept == 1) row[4] = kept;
}
