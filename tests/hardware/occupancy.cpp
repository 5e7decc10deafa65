// Blocks that fit on an SM, by the vendor's calculator: a line of numbers in, a line with one number out.

#include <cstdio>

#include "cuda_occupancy.h"

int main()
{
    int major, minor, sm_threads, registers, shared_sm, shared_block, reserved, threads, thread_registers, shared;
    while (std::scanf(
               "%d %d %d %d %d %d %d %d %d %d", &major, &minor, &sm_threads, &registers, &shared_sm, &shared_block, &reserved,
               &threads, &thread_registers, &shared) == 10) {
        cudaOccDeviceProp chip;
        chip.computeMajor = major;
        chip.computeMinor = minor;
        chip.maxThreadsPerBlock = 1024;
        chip.maxThreadsPerMultiprocessor = sm_threads;
        chip.regsPerBlock = registers;
        chip.regsPerMultiprocessor = registers;
        chip.warpSize = 32;
        chip.sharedMemPerBlock = 48 * 1024;
        chip.sharedMemPerMultiprocessor = shared_sm;
        chip.numSms = 1;
        chip.sharedMemPerBlockOptin = shared_block;
        chip.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = thread_registers;
        kernel.sharedSizeBytes = 0;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = shared;
        kernel.numBlockBarriers = 1;
        cudaOccDeviceState state;
        state.cacheConfig = CACHE_PREFER_SHARED;
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult result;
        cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &chip, &kernel, &state, threads, shared);
        std::printf("%d\n", error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1 - error);
    }
}
