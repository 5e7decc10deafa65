// ILP chains of one operation in each warp, timed with the cycle counter of the SM.
//
// A warp executes `trips` times a body of REPEATS steps in each of ILP independent chains. The difference between two
// kernels of different REPEATS is free of the loop's own cost. With SCHEDULERS=1 only every fourth warp works, so that all
// are on one scheduler (warp w belongs to scheduler w mod 4). The first of two passes fills the instruction cache
// and L1; the second is reported.
//
// data: u32[8], values below 16; then, from byte 256, 256 bytes of work space.
// out: u64[warps of the grid][4]: start and end in cycles of the warp's SM, the SM, a value that keeps the chains alive.
#include "common.cuh"
#include "operations.cuh"

#ifdef CONSTANT_TABLE
__constant__ u32 table[64];
#endif

extern "C" __global__ void chain(u64 out, u64 data, u64 trips, u64 seed) {
    if (SCHEDULERS == 1 && warp_in_block() % 4 != 0) return;
    const u32 *values = (const u32 *)data;
    const u32 b[4] = {values[0], values[1], values[2], values[3]}, c[4] = {values[4], values[5], values[6], values[7]};
    const float fb = (float)b[0], fc = (float)c[0];
    const double db = (double)b[0], dc = (double)c[0];
    u32 spare = 0, spare2 = 0, spare3 = 0, shared_word = 0;
#ifdef SHARED_POINTERS
    __shared__ __align__(16) u32 words[1024];
    for (u32 i = lane_id(); i < 1024; i += 32) words[i] = shared_address(&words[i]);
    shared_word = shared_address(&words[lane_id()]);
#endif
#ifdef GLOBAL_POINTERS
    ((u64 *)(data + 256))[lane_id()] = data + 256 + 8 * lane_id();
#endif
#ifdef GLOBAL_LOW_HALVES
    ((u32 *)(data + 256))[lane_id()] = (u32)(data + 256 + 4 * lane_id());
#endif
    TYPE x[ILP];
#pragma unroll
    for (int i = 0; i < ILP; i++) x[i] = FIRST;
    u64 start = 0, end = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        meet(SCHEDULERS == 1 ? blockDim.x / 4 : blockDim.x);
        start = cycles();
#pragma unroll 1
        for (u32 trip = 0; trip < (u32)trips; trip++) {
#pragma unroll
            for (int k = 0; k < REPEATS; k++) {
#pragma unroll
                for (int i = 0; i < ILP; i++) STEP(x[i], k);
            }
        }
        end = cycles();
    }
    u32 kept = spare + spare2 + spare3 + b[0] + c[0] + shared_word + (u32)(fb + fc) + (u32)(db + dc);
#pragma unroll
    for (int i = 0; i < ILP; i++) kept += *(u32 *)&x[i];
    u64 *row = (u64 *)out + 4 * warp_in_grid();
    if (lane_id() == 0) {
        row[0] = start;
        row[1] = end;
        row[2] = sm_id();
    }
    atomicAdd((u32 *)&row[3], kept);  // of all lanes, so that none is left out
}
