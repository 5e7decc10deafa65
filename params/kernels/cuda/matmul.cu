// Products of square matrices, c = a b, of n x n elements; n is a multiple of the tile.

// Each thread reads a row of a and a column of b from global memory.
extern "C" __global__ void matmul_naive(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// Tiles in shared memory, one output for each thread. CONFLICTS: the tile of b is stored by columns, so that threads of a row
// read from few banks.
template <int TILE, bool CONFLICTS>
__device__ void tiled(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
#pragma unroll 1
    for (int tile = 0; tile < n; tile += TILE) {
        as[y][x] = a[row * n + tile + x];
        if (CONFLICTS)
            bs[x][y] = b[(tile + y) * n + column];
        else
            bs[y][x] = b[(tile + y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += as[y][k] * (CONFLICTS ? bs[x][k] : bs[k][x]);
        __syncthreads();
    }
    c[row * n + column] = sum;
}

#define TILED(name, tile, conflicts) \
    extern "C" __global__ void name(const float *a, const float *b, float *c, int n) \
    { \
        tiled<tile, conflicts>(a, b, c, n); \
    }

TILED(matmul_8, 8, false)
TILED(matmul_8_conflicts, 8, true)
TILED(matmul_16, 16, false)
TILED(matmul_16_conflicts, 16, true)
TILED(matmul_32, 32, false)

// Several outputs in a column for each thread: fewer threads, and fewer reads of shared memory for each product.
template <int OUTPUTS>
__device__ void several(const float *a, const float *b, float *c, int n)
{
    const int TILE = 32;
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y * OUTPUTS;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum[OUTPUTS] = {};
#pragma unroll 1
    for (int tile = 0; tile < n; tile += TILE) {
#pragma unroll
        for (int k = 0; k < OUTPUTS; ++k) {
            as[y + k][x] = a[(row + k) * n + tile + x];
            bs[y + k][x] = b[(tile + y + k) * n + column];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
            float factor = bs[i][x];
#pragma unroll
            for (int k = 0; k < OUTPUTS; ++k)
                sum[k] += as[y + k][i] * factor;
        }
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < OUTPUTS; ++k)
        c[(row + k) * n + column] = sum[k];
}

#define SEVERAL(outputs) \
    extern "C" __global__ void matmul_outputs_##outputs(const float *a, const float *b, float *c, int n) \
    { \
        several<outputs>(a, b, c, n); \
    }

SEVERAL(2)
SEVERAL(4)
SEVERAL(8)
