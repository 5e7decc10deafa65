// The order in which a scheduler issues its warps: each warp reads the clock 32 times, with GAP independent additions
// between. The launch has one block; warp w works where w mod 4 = 0, so that all of them share a scheduler.
//
// out: u64[warps of the block][32], the readings of the second pass in cycles.
#include "common.cuh"

extern "C" __global__ void issue_order(u64 out, u64 seed) {
    if (warp_in_block() % 4 != 0) return;
    u64 taken[32];
    float x[4] = {(float)seed + threadIdx.x, (float)seed * 2, (float)seed * 3, (float)seed * 4};
    const float b = (float)seed + threadIdx.y;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        meet((blockDim.x + 127) / 128 * 32);
#pragma unroll
        for (int i = 0; i < 32; i++) {
            taken[i] = cycles();
#pragma unroll
            for (int k = 0; k < GAP; k++) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x[k & 3]) : "f"(b));
        }
    }
    if (lane_id() == 0) {
#pragma unroll
        for (int i = 0; i < 32; i++) ((u64 *)out)[32 * warp_in_block() + i] = taken[i];
    }
    if (x[0] + x[1] + x[2] + x[3] == 0.5f) ((u64 *)out)[0] = 0;
}
