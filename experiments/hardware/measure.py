"""Times the launches of launches.toml on this machine's GPU, by the number of blocks that an SM holds.

    python experiments/hardware/measure.py OUT.csv [NAME]

A launch follows another kernel that reads 256 MiB, so that L2 holds nothing of its data and nothing that must be written back.
Dynamic shared memory, which no kernel uses, limits the resident blocks. With NAME, the launches whose name contains it run
once each and are not timed, for a profiler. It needs a GPU and the extra warpsim[cuda]: NVRTC compiles the kernels for the
device, as it compiled the listings of params/kernels/cuda.
"""

from __future__ import annotations

import csv
import re
import sys
import tomllib
from collections.abc import Iterator
from ctypes import c_float, c_uint64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

from warpsim.frontends.sources.nvrtc import compile_cuda, nvrtc_version

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "params" / "kernels" / "cuda"
MOST_SHARED = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
STATIC = 16384
"""Bytes of shared memory that are left for what a kernel itself takes."""

ATTRIBUTES = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
BYTES = 2**28
"""Of each array."""

RESIDENT = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Blocks per SM that are timed, beside as many as fit."""

TIMES = 7

SPOILER = """
extern "C" __global__ void spoil(const uint4 *x, uint4 *y)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i].x == 0x7fc12345) y[0] = x[i];
}
"""

CONTENTS: dict[str, Any] = {
    "normal": lambda rng, args: rng.standard_normal(2**20, dtype=np.float32),
    "positive": lambda rng, args: rng.random(2**20, dtype=np.float32) + 0.5,
    "signs": lambda rng, args: rng.standard_normal(2**20, dtype=np.float32),
    "halves": lambda rng, args: rng.standard_normal(2**20, dtype=np.float32).astype(np.float16),
    "bytes": lambda rng, args: rng.integers(0, 2**32, 2**20, dtype=np.uint32),
    "permutation": lambda rng, args: rng.permutation(args["n"]).astype(np.int32),
    "rows": lambda rng, args: rng.integers(0, args["rows"], args["rows"]).astype(np.int32),
}
"""Contents of an array by name, which repeat to its end; an array that the launch changes, `signs`, is copied before each run."""

OF_ARGUMENTS = ("permutation", "rows")
"""Contents that depend on the arguments."""


class Launch:
    """A kernel with its launch, ready to run.

    Args:
        binary: machine code.
        function: name of the kernel.
        grid: such as "64x64".
        block: likewise.
        arguments: addresses, integers and floats, in order.
    """

    def __init__(self, binary: bytes, function: str, grid: int | str, block: int | str, arguments: list[int | float]) -> None:
        """Loads the kernel."""
        self._module = call("cuModuleLoadData", binary)
        self.handle = call("cuModuleGetFunction", self._module, function.encode())
        self.grid, self.block = extent(grid), extent(block)
        types = tuple(c_float if isinstance(one, float) else c_uint64 for one in arguments)
        self._arguments = tuple(arguments), types  # of a 32-bit integer, the driver takes the lower half

    def run(self, shared: int = 0) -> None:
        """Launches the kernel; does not wait."""
        call("cuFuncSetAttribute", self.handle, MOST_SHARED, shared)
        call("cuLaunchKernel", self.handle, *self.grid, *self.block, shared, 0, self._arguments, 0)

    def resident(self, shared: int) -> int:
        """Returns the number of blocks that an SM holds at a time."""
        call("cuFuncSetAttribute", self.handle, MOST_SHARED, shared)
        x, y, z = self.block
        return int(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.handle, x * y * z, shared))

    def shared_for(self, resident: int, most: int) -> int | None:
        """Returns the least dynamic shared memory with which an SM holds `resident` blocks; None where there is none."""
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.resident(middle) > resident else (low, middle)
        return low if self.resident(low) == resident else None


def call(name: str, *arguments: Any) -> Any:
    """Calls the driver; returns its result, if there is one."""
    code, *results = getattr(driver, name)(*arguments)
    if int(code):
        raise RuntimeError(f"{name}: {code}")
    return results[0] if results else None


def extent(text: int | str) -> tuple[int, int, int]:
    """Returns the three sizes of a grid or a block such as "64x64"."""
    x, y, z = [*(int(part) for part in str(text).split("x")), 1, 1][:3]
    return x, y, z


def array(values: np.ndarray | None) -> int:
    """Returns the address of new memory of the device with these contents; of zeros where they are None."""
    address = int(call("cuMemAlloc", BYTES))
    call("cuMemsetD8", address, 0, BYTES)
    if values is not None:
        all_values = np.tile(values, max(1, BYTES // values.nbytes))
        call("cuMemcpyHtoD", address, all_values.ctypes.data, all_values.nbytes)
    return address


def parameters(source: str, function: str) -> list[tuple[str, str]]:
    """Returns type and name of each parameter of a kernel; a kernel that a macro makes has those of the macro."""
    stem = re.sub(r"_\d+$", "", function)
    declared = {name: text for name, text in re.findall(r"__global__ void (\w+(?:##count)?|name)\(([^)]*)\)", source)}
    text = declared.get(function) or declared.get(f"{stem}_##count") or declared["name"]
    return [(kind, name) for kind, name in re.findall(r"([\w\s*]+?[\s*])(\w+)\s*(?:,|$)", re.sub(r"[\\\n]", " ", text))]


def launches(arch: str) -> Iterator[tuple[str, Launch, list[tuple[int, int]]]]:
    """Yields name, launch, and the arrays that must be copied (from, to) before each run."""
    arrays: dict[str, int] = {}
    compiled: dict[Path, bytes] = {}
    for entry in tomllib.loads((HERE / "launches.toml").read_text(encoding="utf-8"))["launch"]:
        file = KERNELS / f"{entry['kernel']}.toml"
        given = {**tomllib.loads(file.read_text(encoding="utf-8"))["arguments"], **entry}
        path = KERNELS / f"{given['listing']}.cu"
        source = path.read_text(encoding="utf-8")
        args: dict[str, int] = given.get("args", {})
        arguments: list[int | float] = []
        again: list[tuple[int, int]] = []
        for kind, name in parameters(source, given["function"]):
            if "*" not in kind:
                arguments.append(args[name] if name in args else 0.5)
                continue
            contents = entry.get("data", {}).get(name, "normal")
            key = f"{name}: {contents} {sorted(args.items()) if contents in OF_ARGUMENTS else ''}"
            if key not in arrays:
                arrays[key] = array(CONTENTS[contents](np.random.default_rng(len(arrays)), args))
            arguments.append(arrays[key])
            if contents == "signs":
                again.append((arrays[key], arrays.setdefault(f"changed {key}", array(None))))
                arguments[-1] = again[-1][1]
        if path not in compiled:
            compiled[path] = compile_cuda(source, path.name, arch)
        yield entry["name"], Launch(compiled[path], given["function"], given["grid"], given["block"], arguments), again


def main(out: str, only: str | None = None) -> None:
    """Times all launches, or runs some once."""
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", device))
    attribute = driver.CUdevice_attribute
    numbers = {name: getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}") for name in ATTRIBUTES}
    of = {name: int(call("cuDeviceGetAttribute", number, device)) for name, number in numbers.items()}
    arch = "sm_{COMPUTE_CAPABILITY_MAJOR}{COMPUTE_CAPABILITY_MINOR}".format(**of)
    spoil = Launch(compile_cuda(SPOILER, "spoil.cu", arch), "spoil", BYTES // 4096, 256, [array(None), array(None)])
    begin, end = call("cuEventCreate", 0), call("cuEventCreate", 0)
    with open(out, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        title = call("cuDeviceGetName", 128, device).split(b"\0")[0].decode()
        file.write(f"# {title}, NVRTC {nvrtc_version()}, {datetime.now(UTC):%Y-%m-%d}: experiments/hardware/measure.py\n")
        writer.writerow(["name", "resident", "shared", "median_us", "least_us", "greatest_us"])
        for name, launch, again in launches(arch):
            if only is not None:
                if only in name:
                    for source, target in again:
                        call("cuMemcpyDtoD", target, source, BYTES)
                    launch.run()
                    call("cuCtxSynchronize")
                continue
            most = launch.resident(0)
            for resident in sorted({*(count for count in RESIDENT if count < most), most}):
                limit = of["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"] - STATIC
                shared = 0 if resident == most else launch.shared_for(resident, limit)
                if shared is None:
                    continue
                times = []
                for _ in range(TIMES):
                    for source, target in again:
                        call("cuMemcpyDtoD", target, source, BYTES)
                    spoil.run()
                    call("cuEventRecord", begin, 0)
                    launch.run(shared)
                    call("cuEventRecord", end, 0)
                    call("cuEventSynchronize", end)
                    times.append(1e3 * call("cuEventElapsedTime", begin, end))
                row = (round(time, 3) for time in (float(np.median(times[1:])), min(times[1:]), max(times[1:])))
                writer.writerow([name, resident, shared, *row])


if __name__ == "__main__":
    main(*sys.argv[1:])
