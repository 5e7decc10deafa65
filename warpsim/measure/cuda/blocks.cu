// What it costs to start blocks.
#include "common.cuh"

// A kernel that does nothing: its launches, and grids of many blocks of it, are timed from outside (V 3.7).
extern "C" __global__ void empty() {}

// Each warp of each block stays `hold` cycles. Dynamic shared memory, which is not used, limits the resident blocks.
// out: u64[warps of the grid][4]: start and end in cycles of the SM, the SM, start in ns.
extern "C" __global__ void hold(u64 out, u64 cycles_held) {
    const u64 start = cycles();
    const u64 start_ns = nanoseconds();
    u64 *row = (u64 *)out + 4 * warp_in_grid();
    if (lane_id() == 0) {
        row[0] = start;
        row[2] = sm_id();
        row[3] = start_ns;
    }
    u64 end;
    do end = cycles(); while (end - start < cycles_held);
    if (lane_id() == 0) row[1] = end;  // the only work between the last reading and the exit
}
