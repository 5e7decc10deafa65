// Transposition of a square matrix in three steps; blocks of 32 x 8 threads, tiles of 32 x 32.

#define TILE 32
#define ROWS 8

// Reads rows, writes columns: the stores do not coalesce.
extern "C" __global__ void transpose_naive(const float *x, float *y, int n)
{
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int k = 0; k < TILE; k += ROWS)
        y[column * n + row + k] = x[(row + k) * n + column];
}

template <int WIDTH>
__device__ void through_shared(const float *x, float *y, int n)
{
    __shared__ float tile[TILE][WIDTH];
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int k = 0; k < TILE; k += ROWS)
        tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * n + column];
    __syncthreads();
    column = blockIdx.y * TILE + threadIdx.x, row = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
    for (int k = 0; k < TILE; k += ROWS)
        y[(row + k) * n + column] = tile[threadIdx.x][threadIdx.y + k];
}

// Through a tile in shared memory: all accesses coalesce, but 32 threads read from one bank.
extern "C" __global__ void transpose_shared(const float *x, float *y, int n)
{
    through_shared<TILE>(x, y, n);
}

// With a padded tile: no bank conflicts.
extern "C" __global__ void transpose_padded(const float *x, float *y, int n)
{
    through_shared<TILE + 1>(x, y, n);
}
