// Streams over vectors, one element per thread unless stated.

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

extern "C" __global__ void saxpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

// Absolute values, where an element is negative (V 3.10).
extern "C" __global__ void vabs(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0)
        x[i] = -x[i];
}

// Elements come from where an index says (V 3.10).
extern "C" __global__ void permute(const float *x, const int *index, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[index[i]];
}

// Rows of a table of 32 floats, a row for each warp, whose number comes from memory.
extern "C" __global__ void gather(const float *table, const int *index, float *y, int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row < rows)
        y[row * 32 + lane] = table[index[row] * 32 + lane];
}
