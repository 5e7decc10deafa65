// A histogram of bytes with 256 bins in shared memory; blocks of 256 threads, each reading words of four bytes.

extern "C" __global__ void histogram(const unsigned *x, unsigned *bins, int words)
{
    __shared__ unsigned counts[256];
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        unsigned word = x[i];
        atomicAdd(&counts[word & 255], 1);
        atomicAdd(&counts[word >> 8 & 255], 1);
        atomicAdd(&counts[word >> 16 & 255], 1);
        atomicAdd(&counts[word >> 24], 1);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
}
