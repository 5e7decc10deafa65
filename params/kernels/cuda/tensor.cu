// A product of half-precision matrices on tensor units, c = a b with b stored by columns; blocks of four warps, 64 x 32 outputs
// of a block, 16 x 32 of a warp. The matrices come by way of shared memory, in steps of 16 columns of a.

#define STEP 16
#define PITCH 24  // halves in a row of a tile: a multiple of 8 that spreads the rows over all banks

__device__ unsigned shared_address(const void *pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ void load_4(unsigned (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

extern "C" __global__ void matmul_tensor(const uint4 *a, const uint4 *b, float *c, int n)
{
    __shared__ unsigned short as[64][PITCH], bs[32][PITCH];
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    int row = blockIdx.y * 64, column = blockIdx.x * 32;
    float sums[4][4] = {};
#pragma unroll 1
    for (int k = 0; k < n; k += STEP) {
        *reinterpret_cast<uint4 *>(&as[t / 2][t % 2 * 8]) = a[((row + t / 2) * n + k) / 8 + t % 2];
        if (t < 64)
            *reinterpret_cast<uint4 *>(&bs[t / 2][t % 2 * 8]) = b[((column + t / 2) * n + k) / 8 + t % 2];
        __syncthreads();
        unsigned x[4];
        load_4(x, &as[warp * 16 + lane % 16][lane / 16 * 8]);
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            unsigned y[4];
            load_4(y, &bs[pair * 16 + lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]);
            multiply(sums[2 * pair], x, y[0], y[1]);
            multiply(sums[2 * pair + 1], x, y[2], y[3]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        float *out = c + (row + warp * 16 + lane / 4) * n + column + part * 8 + lane % 4 * 2;
        out[0] = sums[part][0];
        out[1] = sums[part][1];
        out[8 * n] = sums[part][2];
        out[8 * n + 1] = sums[part][3];
    }
}
