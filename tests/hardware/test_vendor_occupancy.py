"""Residency equals that of the vendor's calculator, cuda_occupancy.h (wheel nvidia-cuda-runtime), on random configurations."""

import random
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import occupancy

CHIPS = {
    "kepler": (3, 0), "maxwell": (5, 2), "titan_x": (6, 1), "v100": (7, 0), "t4": (7, 5), "a100": (8, 0), "a40": (8, 6),
    "l40": (8, 9), "h100": (9, 0), "b200": (10, 0), "rtx5090": (12, 0),
}  # fmt: skip
"""A chip for each compute capability that both the calculator and the chip files know."""


@dataclass(frozen=True)
class Needs:
    registers_per_thread: int
    shared_bytes_per_block: int


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    wheels = find_spec("nvidia")
    folders = [Path(folder) for folder in (wheels.submodule_search_locations or ())] if wheels else []
    headers = [path.parent for folder in folders for path in folder.glob("*/include/cuda_occupancy.h")]
    if not headers or shutil.which("g++") is None:
        pytest.skip("needs g++ and the wheel nvidia-cuda-runtime, of warpsim[cuda]")
    program = tmp_path_factory.mktemp("occupancy") / "occupancy"
    source = Path(__file__).with_name("occupancy.cpp")
    subprocess.run(["g++", "-O1", f"-I{headers[0]}", str(source), "-o", str(program)], check=True)
    return program


def check(calculator, name, count):
    gpu = load_gpu(name)
    sm, (major, minor) = gpu.sm, CHIPS[name]
    draw = random.Random(name)
    fixed = f"{major} {minor} {32 * sm.max_warps} {sm.registers} {sm.shared_bytes} {sm.max_shared_bytes_per_block}"
    cases = []
    for _ in range(count):
        shared = draw.choice((0, draw.randint(0, 4096), draw.randint(0, sm.max_shared_bytes_per_block)))
        cases.append((draw.randint(1, sm.max_block_warps), draw.randint(1, sm.max_registers_per_thread), shared))
    lines = "".join(f"{fixed} {sm.shared_overhead_bytes} {32 * warps} {regs} {shared}\n" for warps, regs, shared in cases)
    done = subprocess.run([str(calculator)], input=lines, capture_output=True, text=True, check=True)
    expected = [int(row) for row in done.stdout.splitlines()]
    found = [occupancy(gpu, Needs(regs, shared), warps).blocks for warps, regs, shared in cases]
    wrong = [(case, f, e) for case, f, e in zip(cases, found, expected, strict=True) if f != e]
    assert not wrong, f"{len(wrong)} of {count}; first (warps, registers, shared), here, there: {wrong[:5]}"


@pytest.mark.parametrize("name", CHIPS)
def test_residency_is_that_of_the_vendor(calculator, name):
    check(calculator, name, 2000)


@pytest.mark.verify
@pytest.mark.parametrize("name", CHIPS)
def test_residency_is_that_of_the_vendor_at_length(calculator, name):
    check(calculator, name, 100_000)
