/* A stand-in for the driver's library: memory is the host's, and a launch writes down what it was asked for.
   Launches are logged as u64[16]: grid, block, shared bytes, number of parameters, then the parameters. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
static uint64_t launch[16];
static int launches;

R cuInit(unsigned f) { return getenv("NO_DEVICE") ? 100 : 0; }
R cuDriverGetVersion(int *v) { *v = 13010; return 0; }
R cuDeviceGetCount(int *n) { *n = 1; return 0; }
R cuDeviceGet(int *d, int i) { *d = i; return 0; }
R cuDeviceGetName(char *s, int n, int d) { strncpy(s, "Stand-in GPU", n); return 0; }
R cuDeviceTotalMem(size_t *n, int d) { *n = (size_t)80 << 30; return 0; }
R cuDeviceGetAttribute(int *v, int a, int d) {
    *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 132 : a == 13 ? 1980000 : 1000 + a;
    return 0;
}
R cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)1; return 0; }
R cuDevicePrimaryCtxRelease(int d) { return 0; }
R cuCtxSetCurrent(void *c) { return 0; }
R cuCtxSynchronize(void) { return 0; }
R cuEventCreate(void **e, unsigned f) { *e = malloc(4); return 0; }
R cuEventRecord(void *e, void *s) { *(int *)e = launches; return 0; }
R cuEventSynchronize(void *e) { return 0; }
R cuEventElapsedTime(float *ms, void *a, void *b) { *ms = *(int *)b - *(int *)a; return 0; }
R cuModuleLoadData(void **m, const void *image) { *m = (void *)image; return memcmp(image, "\177ELF", 4) ? 200 : 0; }
R cuModuleGetFunction(void **f, void *m, const char *name) { *f = strdup(name); return strcmp(name, "nothing") ? 0 : 500; }
R cuFuncSetAttribute(void *f, int a, int v) { return v > 232448 ? 1 : 0; }
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int block, size_t shared) { *n = 233472 / (shared + 1024); return 0; }
R cuMemAlloc(uint64_t *p, size_t n) { *p = (uint64_t)malloc(n); return *p ? 0 : 2; }
R cuMemFree(uint64_t p) { free((void *)p); return 0; }
R cuMemsetD8(uint64_t p, unsigned char v, size_t n) { memset((void *)p, v, n); return 0; }
R cuMemcpyHtoD(uint64_t to, const void *from, size_t n) { memcpy((void *)to, from, n); return 0; }
R cuMemcpyDtoH(void *to, uint64_t from, size_t n) { memcpy(to, (void *)from, n); return 0; }
R cuGetErrorString(R code, const char **text) { *text = code == 100 ? "no CUDA-capable device is detected" : "stand-in error"; return 0; }
R cuLaunchKernel(char *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **p, void **x) {
    int count = strcmp(f, "hold") == 0 ? 2 : 0;
    launch[0] = gx, launch[1] = bx, launch[2] = shared, launch[3] = count;
    for (int i = 0; i < count; i++) launch[4 + i] = *(uint64_t *)p[i];
    launches++;
    if (count) memcpy((void *)launch[4], launch, sizeof launch);
    return gy == 1 && gz == 1 && by == 1 && bz == 1 && x == 0 ? 0 : 1;
}
R cuGetProcAddress_v2(const char *name, void **f, int version, uint64_t flags, int *status) {
    static void *self;
    if (!self) self = dlopen(getenv("STAND_IN"), RTLD_NOW);
    *f = strcmp(name, "cuGetProcAddress") ? dlsym(self, name) : (void *)cuGetProcAddress_v2;
    if (status) *status = *f ? 0 : 1;
    return *f ? 0 : 500;
}
R cuGetProcAddress(const char *name, void **f, int version, uint64_t flags, int *status) { return cuGetProcAddress_v2(name, f, version, flags, status); }
