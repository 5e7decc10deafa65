"""Kernels: programs that warps execute, builders for the workloads of the papers, and kernel files."""

from warpsim.kernels.builders import (
    chain,
    copy,
    listing_3_1,
    listing_3_2,
    listing_3_3,
    mix,
    permute,
    vabs,
    vector_add,
    worksheet_3_2,
)
from warpsim.kernels.files import KernelFileError, kernel_arguments, list_kernels, load_kernel
from warpsim.kernels.matrix_multiply import matrix_multiply
from warpsim.kernels.program import Access, Conditional, Cost, Instruction, Kernel, Loop, barriers_not_reached_by_all

__all__ = [
    "Access",
    "Conditional",
    "Cost",
    "Instruction",
    "Kernel",
    "KernelFileError",
    "Loop",
    "barriers_not_reached_by_all",
    "chain",
    "copy",
    "kernel_arguments",
    "list_kernels",
    "listing_3_1",
    "listing_3_2",
    "listing_3_3",
    "load_kernel",
    "matrix_multiply",
    "mix",
    "permute",
    "vabs",
    "vector_add",
    "worksheet_3_2",
]
