// Barriers of a block, one after the other: `trips` times REPEATS barriers. The first of two passes is not reported.
//
// out: u64[warps of the grid][3]: start and end in cycles, SM.
#include "common.cuh"

extern "C" __global__ void barrier(u64 out, u64 trips) {
    u64 start = 0, end = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        meet(blockDim.x);
        start = cycles();
#pragma unroll 1
        for (u32 trip = 0; trip < (u32)trips; trip++) {
#pragma unroll
            for (int k = 0; k < REPEATS; k++) asm volatile("bar.sync 0;" ::: "memory");
        }
        end = cycles();
    }
    if (lane_id() == 0) {
        u64 *row = (u64 *)out + 3 * warp_in_grid();
        row[0] = start;
        row[1] = end;
        row[2] = sm_id();
    }
}
