// Sums of a vector, a partial sum for each block, in seven steps of optimisation; blocks of 256 threads.

#define THREADS 256

// Interleaved addressing with a remainder: threads of each warp diverge.
extern "C" __global__ void reduce_0(const float *x, float *sums)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    s[t] = x[blockIdx.x * THREADS + t];
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step *= 2) {
        if (t % (2 * step) == 0)
            s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = s[0];
}

// Interleaved addressing with neighbouring threads: bank conflicts in place of divergence.
extern "C" __global__ void reduce_1(const float *x, float *sums)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    s[t] = x[blockIdx.x * THREADS + t];
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step *= 2) {
        unsigned at = 2 * step * t;
        if (at < THREADS)
            s[at] += s[at + step];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = s[0];
}

// Sequential addressing: no bank conflicts.
extern "C" __global__ void reduce_2(const float *x, float *sums)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    s[t] = x[blockIdx.x * THREADS + t];
    __syncthreads();
    for (unsigned step = THREADS / 2; step > 0; step /= 2) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = s[0];
}

// The first addition on the way from global memory.
extern "C" __global__ void reduce_3(const float *x, float *sums)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x, i = blockIdx.x * THREADS * 2 + t;
    s[t] = x[i] + x[i + THREADS];
    __syncthreads();
    for (unsigned step = THREADS / 2; step > 0; step /= 2) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = s[0];
}

__device__ void last_warp(volatile float *s, unsigned t)
{
#pragma unroll
    for (unsigned step = 32; step > 0; step /= 2) {
        float sum = s[t] + s[t + step];
        __syncwarp();
        s[t] = sum;
        __syncwarp();
    }
}

// The last warp without barriers.
extern "C" __global__ void reduce_4(const float *x, float *sums)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x, i = blockIdx.x * THREADS * 2 + t;
    s[t] = x[i] + x[i + THREADS];
    __syncthreads();
    for (unsigned step = THREADS / 2; step > 32; step /= 2) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    if (t < 32)
        last_warp(s, t);
    if (t == 0)
        sums[blockIdx.x] = s[0];
}

__device__ void unrolled(float *s, unsigned t)
{
    if (t < 128)
        s[t] += s[t + 128];
    __syncthreads();
    if (t < 64)
        s[t] += s[t + 64];
    __syncthreads();
    if (t < 32)
        last_warp(s, t);
}

// All steps unrolled.
extern "C" __global__ void reduce_5(const float *x, float *sums)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x, i = blockIdx.x * THREADS * 2 + t;
    s[t] = x[i] + x[i + THREADS];
    __syncthreads();
    unrolled(s, t);
    if (t == 0)
        sums[blockIdx.x] = s[0];
}

// Many elements for each thread.
extern "C" __global__ void reduce_6(const float *x, float *sums, unsigned n)
{
    __shared__ float s[THREADS];
    unsigned t = threadIdx.x;
    float sum = 0;
    for (unsigned i = blockIdx.x * THREADS * 2 + t; i < n; i += gridDim.x * THREADS * 2)
        sum += x[i] + x[i + THREADS];
    s[t] = sum;
    __syncthreads();
    unrolled(s, t);
    if (t == 0)
        sums[blockIdx.x] = s[0];
}
