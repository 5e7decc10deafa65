// Functions of the rows of a matrix, a block of 256 threads for each row.

__device__ float block_sum(float value)
{
    __shared__ float partial[8];
    for (int lane = 16; lane > 0; lane /= 2)
        value += __shfl_xor_sync(0xffffffff, value, lane);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < 8; ++warp)
        sum += partial[warp];
    return sum;
}

__device__ float block_max(float value)
{
    __shared__ float partial[8];
    for (int lane = 16; lane > 0; lane /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, lane));
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    float most = partial[0];
    for (int warp = 1; warp < 8; ++warp)
        most = fmaxf(most, partial[warp]);
    return most;
}

extern "C" __global__ void softmax(const float *__restrict__ x, float *__restrict__ y, int columns)
{
    const float *row = x + (size_t)blockIdx.x * columns;
    float most = -3.0e38f, sum = 0;
    for (int i = threadIdx.x; i < columns; i += 256)
        most = fmaxf(most, row[i]);
    most = block_max(most);
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += __expf(row[i] - most);
    float scale = 1.0f / block_sum(sum);
    for (int i = threadIdx.x; i < columns; i += 256)
        y[(size_t)blockIdx.x * columns + i] = __expf(row[i] - most) * scale;
}

extern "C" __global__ void layer_norm(
    const float *__restrict__ x, const float *__restrict__ gain, const float *__restrict__ bias, float *__restrict__ y, int columns)
{
    const float *row = x + (size_t)blockIdx.x * columns;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += row[i];
    float mean = block_sum(sum) / columns;
    for (int i = threadIdx.x; i < columns; i += 256)
        squares += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(block_sum(squares) / columns + 1.0e-5f);
    for (int i = threadIdx.x; i < columns; i += 256)
        y[(size_t)blockIdx.x * columns + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}
