// The mean of a point and its six neighbours in three dimensions; each thread goes up through all planes.

extern "C" __global__ void stencil(const float *__restrict__ x, float *__restrict__ y, int nx, int ny, int nz)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= nx - 1 || j >= ny - 1)
        return;
    int plane = nx * ny, at = j * nx + i;
    float below = x[at], here = x[at + plane];
    for (int k = 1; k < nz - 1; ++k) {
        at += plane;
        float above = x[at + plane];
        y[at] = (here + below + above + x[at - 1] + x[at + 1] + x[at - nx] + x[at + nx]) * (1.0f / 7.0f);
        below = here;
        here = above;
    }
}
