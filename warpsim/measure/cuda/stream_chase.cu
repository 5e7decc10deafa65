// Latency against throughput (V 6.4) and latencies of single loads (V 6.6): every warp follows pointers, its 32 lanes
// through 32 neighbouring words, so that each load is one coalesced access of 128 bytes and depends on the one before.
//
// `steps_of` writes the pointers: word i holds i + jump, modulo `words` (a power of two), so that the warps together walk
// through the memory in order when jump is the number of threads.
#include "common.cuh"

#define SAMPLES 1024

extern "C" __global__ void steps_of(u64 buffer, u64 words, u64 jump) {
    const u64 all = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread_in_grid(); i < words; i += all) ((u32 *)buffer)[i] = (u32)((i + jump) & (words - 1));
}

// In each block whose number is a multiple of `every`, warp 0 times one load out of 8 (none if `every` is 0).
// times: u64[warps of the grid][6]: start and end in cycles, SM, start and end in ns, a value that keeps the loads alive.
// latencies: u32[blocks / every, rounded up][1024], where steps / 8 values of a row are written.
extern "C" __global__ void stream_chase(u64 buffer, u64 steps, u64 every, u64 times, u64 latencies) {
    __shared__ volatile u32 taken[SAMPLES];
    const u32 *words = (const u32 *)buffer;
    u32 at = (u32)thread_in_grid();
    const u64 start_ns = nanoseconds();
    const u64 start = cycles();
    if (every != 0 && blockIdx.x % (u32)every == 0 && warp_in_block() == 0) {
#pragma unroll 1
        for (u32 i = 0; i < (u32)steps; i += 8) {
            taken[(i >> 3) & (SAMPLES - 1)] = at;  // waits for the load before
            const u64 before = cycles();
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(words + at) : "memory");
            taken[(i >> 3) & (SAMPLES - 1)] = at;
            const u64 after = cycles();
            if (lane_id() == 0) taken[(i >> 3) & (SAMPLES - 1)] = cycles_between(before, after);
#pragma unroll
            for (int k = 0; k < 7; k++) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(words + at) : "memory");
        }
        const u32 taken_count = (u32)steps / 8 < SAMPLES ? (u32)steps / 8 : SAMPLES;
        u32 *row = (u32 *)latencies + (u64)(blockIdx.x / (u32)every) * SAMPLES;
        __syncwarp();
        for (u32 i = lane_id(); i < taken_count; i += 32) row[i] = taken[i];
    } else {
#pragma unroll 1
        for (u32 i = 0; i < (u32)steps; i += 8) {
#pragma unroll
            for (int k = 0; k < 8; k++) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(words + at) : "memory");
        }
    }
    u64 *row = (u64 *)times + 6 * warp_in_grid();
    if (at == 0xffffffffu) row[5] = at;  // never, but the last load must be over
    const u64 end = cycles();
    if (lane_id() == 0) {
        row[0] = start;
        row[1] = end;
        row[2] = sm_id();
        row[3] = start_ns;
        row[4] = nanoseconds();
    }
}
