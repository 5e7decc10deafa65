// What it brings along for kernels.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>
