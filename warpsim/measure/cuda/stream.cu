// Memory streams: -DKIND=0 writes, 1 reads, 2 copies, 3 triad a = b + s c. Each thread handles ELEMENTS of 8 bytes
// (double), `all` threads apart. Dynamic shared memory, which is not used, limits the resident blocks.
//
// `n` is the number of elements of each array, ELEMENTS times the number of threads of the grid.
#include "common.cuh"

extern "C" __global__ void stream(u64 a, u64 b, u64 c, u64 scale) {
    const u64 all = (u64)gridDim.x * blockDim.x;
    double *to = (double *)a + thread_in_grid();
    const double *from = (const double *)b + thread_in_grid();
    const double *second = (const double *)c + thread_in_grid();
    double value[ELEMENTS], other[ELEMENTS];
#pragma unroll
    for (int i = 0; i < ELEMENTS; i++) {
        value[i] = (double)scale;
        other[i] = 0;
        if (KIND >= 1) value[i] = from[i * all];
        if (KIND == 3) other[i] = second[i * all];
    }
#pragma unroll
    for (int i = 0; i < ELEMENTS; i++) {
        if (KIND == 3) value[i] += other[i] * (double)scale;
        if (KIND != 1 || value[i] == 0.5) to[i * all] = value[i];  // the arrays hold zeros: a read writes nothing
    }
}
