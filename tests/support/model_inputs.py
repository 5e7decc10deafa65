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


def _chains(*loaded: str) -> tuple[Instruction, ...]:
    """Returns an add in each of four chains, of which the first ones consume loaded values."""
    return tuple(Instruction("alu", dst=f"s{n}", src=(f"s{n}", *loaded[n : n + 1])) for n in range(4))


STENCIL = Kernel(
    name="stencil",
    inputs=("p", "s0", "s1", "s2", "s3"),
    body=(
        Loop(
            trips=None,
            body=(
                *(Instruction("load", dst=name, src=("p",)) for name in "abc"),
                *_chains("a", "b", "c"),
                *(add for _ in range(9) for add in _chains()),
                Instruction("smem", dst="t", src=("s0",)),
            ),
        ),
    ),
)
"""3 loads, 40 adds in four chains, and one access to shared memory per iteration."""
