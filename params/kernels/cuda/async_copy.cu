// A matrix product whose tiles are copied into shared memory without registers while the tile before is used (compute capability
// 8.0 and later; loads and stores before); blocks of 16 x 16 threads, n a multiple of 16.

#define TILE 16

__device__ void copy_word(float *to, const float *from)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from));
#else
    *to = *from;
#endif
}

__device__ void commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

template <int LEFT>
__device__ void wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
#endif
    __syncthreads();
}

extern "C" __global__ void matmul_async(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[2][TILE][TILE], bs[2][TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    const float *from_a = a + (blockIdx.y * TILE + y) * n + x, *from_b = b + y * n + blockIdx.x * TILE + x;
    copy_word(&as[0][y][x], from_a);
    copy_word(&bs[0][y][x], from_b);
    commit();
    float sum = 0;
#pragma unroll 1
    for (int tile = 0, now = 0; tile < n; tile += TILE, now ^= 1) {
        if (tile + TILE < n) {
            copy_word(&as[now ^ 1][y][x], from_a + tile + TILE);
            copy_word(&bs[now ^ 1][y][x], from_b + (tile + TILE) * n);
        }
        commit();
        wait<1>();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += as[now][y][k] * bs[now][k][x];
        __syncthreads();
    }
    c[(blockIdx.y * TILE + y) * n + blockIdx.x * TILE + x] = sum;
}
