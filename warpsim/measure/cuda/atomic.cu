// Atomic additions in global memory, `trips` times 8 by each thread. -DSPREAD: 0 all threads to one word; 1 each warp to
// a word of its own, 128 bytes apart; 2 each thread to a word of its own; 3 as 2, but each warp works in a line that
// all blocks share. -DRETURNS=1 needs the old value before the next addition (a latency), 0 does not.
//
// out: u64[warps of the grid][4]: start and end in cycles, SM, a value that keeps the results alive.
#include "common.cuh"

extern "C" __global__ void atomic(u64 out, u64 counters, u64 trips) {
    u64 at = counters;
#if SPREAD == 1
    at += 128 * warp_in_grid();
#elif SPREAD == 2
    at += 4 * thread_in_grid();
#elif SPREAD == 3
    at += 4 * (u64)threadIdx.x;
#endif
    u32 value = threadIdx.x;
    meet(blockDim.x);
    const u64 start = cycles();
#pragma unroll 1
    for (u32 trip = 0; trip < (u32)trips; trip++) {
#pragma unroll
        for (int k = 0; k < 8; k++) {
#if RETURNS
            asm volatile("atom.global.add.u32 %0, [%1], %0;" : "+r"(value) : "l"(at) : "memory");
#else
            asm volatile("red.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
#endif
        }
    }
    u64 *row = (u64 *)out + 4 * warp_in_grid();
    if (value == 0xffffffffu) row[3] = value;
    const u64 end = cycles();
    if (lane_id() == 0) {
        row[0] = start;
        row[1] = end;
        row[2] = sm_id();
    }
}
