// cuBLAS is called by the host; its header includes these two, whose types kernels use.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>
