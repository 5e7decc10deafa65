"""Kernels: programs that warps execute, builders for the workloads of the papers, kernel files, and kernels from machine code."""

from typing import Any

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
from warpsim.kernels.instruction import Access, Cost, Hints, Instruction, Mbarrier
from warpsim.kernels.machine_code import FRONT_ENDS, front_end, machine_code
from warpsim.kernels.matrix_multiply import matrix_multiply
from warpsim.kernels.producer_consumer import producer_consumer
from warpsim.kernels.program import Kernel, barriers_not_reached_by_all
from warpsim.kernels.statements import Conditional, Loop

__all__ = [
    "Access",
    "Conditional",
    "Cost",
    "Hints",
    "Instruction",
    "Kernel",
    "KernelFileError",
    "Loop",
    "Mbarrier",
    "barriers_not_reached_by_all",
    "chain",
    "copy",
    "from_cubin",
    "from_cuda",
    "from_sass",
    "from_trace",
    "from_triton",
    "kernel_arguments",
    "launch_of",
    "list_kernels",
    "listing_3_1",
    "listing_3_2",
    "listing_3_3",
    "load_kernel",
    "machine_code",
    "matrix_multiply",
    "mix",
    "permute",
    "producer_consumer",
    "vabs",
    "vector_add",
    "worksheet_3_2",
]


def __getattr__(name: str) -> Any:
    if name in FRONT_ENDS:
        return front_end(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
