"""Chips and kernels for the tests of the analytical models."""

from __future__ import annotations

from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.kernels import Conditional, Instruction, Kernel, Loop
from warpsim.models.parts.warp_path import warp_path

ADD = Instruction("alu", dst="r1", src=("r1",))
LOAD = Instruction("load", dst="r1", src=("r1",))
BARRIER = Instruction("barrier")


def changed(name: str, **values: object) -> Gpu:
    """Returns a chip with some values replaced; `__` in a keyword stands for the dot of a key."""
    data = load_gpu(name).to_dict()
    for key, value in values.items():
        *tables, last = key.split("__")
        table = data
        for part in tables:
            table = table[part]
        table[last] = value
    return Gpu.from_dict(data)


def single_issue_slots(name: str) -> Gpu:
    """Returns a chip whose instructions take one issue slot each, as V 4.1 assumes."""
    return changed(name, ops__load__issue_slots=1, ops__sfu__issue_slots=1, ops__smem__issue_slots=1)


def kernel(*body: Instruction | Loop | Conditional) -> Kernel:
    return Kernel(name="test", inputs=("r1", "r2", "r3"), body=body)


def at_exit(gpu: Gpu, program: Kernel, **arguments: object) -> float:
    """Returns the cycle at which the exit issues, after all loads have completed."""
    return warp_path(gpu, program, **arguments).cycles - gpu.block_launch_cycles
