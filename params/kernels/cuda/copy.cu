// Copies of COUNT floats by each thread, all loads before all stores: parallelism within a thread in place of many threads.

template <int COUNT>
__device__ void copy(const float *__restrict__ x, float *__restrict__ y)
{
    int i = blockIdx.x * blockDim.x * COUNT + threadIdx.x;
    float value[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
        value[k] = x[i + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
        y[i + k * blockDim.x] = value[k];
}

#define COPY(count) \
    extern "C" __global__ void copy_##count(const float *__restrict__ x, float *__restrict__ y) \
    { \
        copy<count>(x, y); \
    }

COPY(1)
COPY(2)
COPY(3)
COPY(4)
COPY(5)
COPY(6)
COPY(7)
COPY(8)
COPY(9)
COPY(10)
COPY(11)
COPY(12)
COPY(13)
COPY(14)
