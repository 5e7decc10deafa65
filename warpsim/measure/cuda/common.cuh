#pragma once
// What all kernels share: clocks and identities. Every kernel parameter is 64 bits wide, a pointer or a count.
typedef unsigned int u32;
typedef unsigned long long u64;

// The cycle counter of the SM. The asm is volatile and clobbers memory, so that loads and stores stay on their side of it.
__device__ __forceinline__ u64 cycles() {
    u64 t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

// The cycles between two readings, at most 2^32 - 1. All 64 bits are needed, since readings of which only the low half
// matters may compile to S2UR, which takes long, in place of CS2R.
__device__ __forceinline__ u32 cycles_between(u64 before, u64 after) {
    const u64 all = after - before;
    return all < 0xffffffffull ? (u32)all : 0xffffffffu;
}

// The time of the whole device in ns; the counter advances in steps, of 32 ns to 1 us by chip.
__device__ __forceinline__ u64 nanoseconds() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

// Waits for `threads` threads of the block, a multiple of 32, before the clock is read. A barrier alone does not do: it lets a warp
// issue a few more instructions before it holds the warp (BAR.SYNC.DEFER_BLOCKING), so that the clock would be read when the
// warp comes to the barrier. A value from shared memory comes after the others did.
__device__ __forceinline__ void meet(u32 threads) {
    __shared__ volatile u32 zero;
    zero = 0;
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
    while (zero != 0) {}
}

__device__ __forceinline__ u32 sm_id() {
    u32 id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id)::"memory");
    return id;
}

__device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }
__device__ __forceinline__ u32 warp_in_block() { return threadIdx.x >> 5; }
__device__ __forceinline__ u64 warp_in_grid() { return (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); }
__device__ __forceinline__ u64 thread_in_grid() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

// The address of a variable in shared memory, as ld.shared takes it.
__device__ __forceinline__ u32 shared_address(const void *pointer) {
    u32 address;
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
    return address;
}
