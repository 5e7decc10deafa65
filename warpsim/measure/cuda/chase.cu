// The latency of single loads: one thread follows pointers, on one SM of choice.
//
// `ring` writes the pointers: node j, `stride` bytes from its neighbours, points to node (multiplier * j + increment) mod
// nodes. If the number of nodes is 2^k or 3 * 2^k, multiplier mod 12 = 1, and increment has no factor of 2 or 3, then that is
// one cycle through all nodes (Hull and Dobell 1962), in an order that no prefetcher follows.
//
// -DTHROUGH_L1 loads through L1, -DPAST_L1 from L2. -DEMPTY takes no load, which measures the cost of the timing itself.
#include "common.cuh"

#define SAMPLES 8192

extern "C" __global__ void ring(u64 buffer, u64 nodes, u64 stride, u64 multiplier, u64 increment) {
    const u64 all = (u64)gridDim.x * blockDim.x;
    for (u64 j = thread_in_grid(); j < nodes; j += all)
        *(u64 *)(buffer + j * stride) = buffer + ((multiplier * j + increment) % nodes) * stride;
}

__device__ __forceinline__ u64 load(u64 pointer) {
    u64 value = pointer;
#if defined(THROUGH_L1)
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(pointer) : "memory");
#elif defined(PAST_L1)
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(value) : "l"(pointer) : "memory");
#elif !defined(EMPTY)
#error "define one of THROUGH_L1, PAST_L1 and EMPTY"
#endif
    return value;
}

// Of the blocks that find themselves on SM `target`, the first one works. It
//   1. reads one word of each of `pages` pages of `page_bytes` from `touch` on, which fills the TLB (none if pages = 0),
//   2. follows `warm` pointers from `first` on, without timing,
//   3. follows `steps` pointers and times them as a whole,
//   4. follows `samples` (at most 8192) pointers and times each one: load, a store to shared memory that needs its value, clock.
// times: u64[6]: claimed by a block (0 before the launch), cycles of 3, the pointer after 4, the SM, ns of 3, sum of what 1 read.
// latencies: u32[samples], in cycles, with the cost of the timing (see EMPTY).
extern "C" __global__ void chase(u64 first, u64 touch, u64 pages, u64 page_bytes, u64 warm, u64 steps, u64 samples,
                                 u64 target, u64 times, u64 latencies) {
    __shared__ volatile u32 taken[SAMPLES];
    u64 *result = (u64 *)times;
    if (threadIdx.x != 0 || sm_id() != (u32)target) return;
    if (atomicExch(&result[0], 1ull) != 0) return;
    u64 seen = 0, pointer = first;
#pragma unroll 1
    for (u64 i = 0; i < pages; i++) seen += load(touch + i * page_bytes);
    pointer += seen == 1;  // never: no pointer sums to 1, but the loads must be over
#pragma unroll 1
    for (u64 i = 0; i < warm; i++) pointer = load(pointer);
    taken[0] = (u32)pointer;  // waits for the last load
    const u64 start_ns = nanoseconds();
    const u64 start = cycles();
#pragma unroll 1
    for (u32 i = 0; i < (u32)steps; i += 8) {
#pragma unroll
        for (int k = 0; k < 8; k++) pointer = load(pointer);
    }
    taken[0] = (u32)pointer;
    const u64 end = cycles();
    const u64 end_ns = nanoseconds();
#pragma unroll 1
    for (u32 i = 0; i < (u32)samples; i++) {
        const u64 before = cycles();
        pointer = load(pointer);
        taken[i] = (u32)pointer;
        const u64 after = cycles();
        taken[i] = cycles_between(before, after);
    }
#pragma unroll 1
    for (u32 i = 0; i < (u32)samples; i++) ((u32 *)latencies)[i] = taken[i];
    result[1] = end - start;
    result[2] = pointer;
    result[3] = sm_id();
    result[4] = end_ns - start_ns;
    result[5] = seen;
}
