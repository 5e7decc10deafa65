// The SM's clock: cycles against nanoseconds, over at least `duration` ns; one block of one warp on each SM.
//
// out: u64[blocks][5]: cycles and ns at the start, cycles and ns at the end, the SM.
#include "common.cuh"

extern "C" __global__ void sm_clock(u64 out, u64 duration) {
    float work = 1.0f;
    u64 first_ns = nanoseconds(), edge = first_ns;
    while (edge == first_ns) edge = nanoseconds();  // begin at a step of the device's timer
    const u64 first = cycles();
    u64 now = edge, last = edge;
    while (now - edge < duration || now == last) {  // and end at one
        last = now;
        for (int i = 0; i < 64; i++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(work));
        now = nanoseconds();
        while (now - edge >= duration && now == last) now = nanoseconds();
    }
    const u64 end = cycles();
    if (lane_id() == 0) {
        u64 *row = (u64 *)out + 5 * warp_in_grid();
        row[0] = first;
        row[1] = edge;
        row[2] = end;
        row[3] = now + (work == 0.5f);
        row[4] = sm_id();
    }
}
