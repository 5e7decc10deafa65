// What host code names beside kernels.
#pragma once
#define CLOCKS_PER_SEC 1000000
