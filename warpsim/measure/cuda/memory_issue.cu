// When a warp issues its n-th memory instruction: the clock is read before and after COUNT independent ones, which hit in
// L1 or go to shared memory. -DKIND=0 global loads, 1 shared memory loads, 2 global stores, 3 shared memory stores. The launch has one
// block; its first warps work, one on each scheduler. The first of four passes fills caches; the last is reported.
//
// out: u64[warps of the block][2]: the first and the second reading.
#include "common.cuh"

extern "C" __global__ void memory_issue(u64 out, u64 data) {
    __shared__ u32 words[4][1024];
    const u32 warp = warp_in_block();
    const u64 at = data + 4096 * warp + 4 * lane_id();
    for (int i = 0; i < 32; i++) {
        words[warp][32 * i + lane_id()] = 0;
        ((u32 *)at)[32 * i] = 0;
    }
    const u32 in_shared = shared_address(&words[warp][lane_id()]);
    u32 value[COUNT], kept = 0;
    u64 start = 0, end = 0;
#pragma unroll 1
    for (int pass = 0; pass < 4; pass++) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) value[i] = kept;
        meet(blockDim.x);
        start = cycles();
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
#if KIND == 0
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(value[i]) : "l"(at + 128 * i));
#elif KIND == 1
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value[i]) : "r"(in_shared + 128 * i));
#elif KIND == 2
            asm volatile("st.global.u32 [%0], %1;" ::"l"(at + 128 * i), "r"(value[i]) : "memory");
#else
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(in_shared + 128 * i), "r"(value[i]) : "memory");
#endif
        }
        end = cycles();
#pragma unroll
        for (int i = 0; i < COUNT; i++) kept += value[i];
    }
    u64 *row = (u64 *)out + 2 * warp;
    if (kept == 0xffffffffu) row[0] = kept;
    if (lane_id() == 0) {
        row[0] = start;
        row[1] = end;
    }
}
