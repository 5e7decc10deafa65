"""The device that is measured: memory, launches and times, through the driver API of cuda-bindings.

`Device` is what the benchmarks need. The tests put a machine of their own in its place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from ctypes import c_uint64
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from warpsim.frontends.errors import MissingToolError
from warpsim.frontends.sources.nvrtc import EXTRA, nvrtc_version
from warpsim.measure.compiler import Binary, compile_source

LEAST_CAPABILITY = (7, 5)
"""The oldest compute capability for which NVRTC 13 compiles."""


class DeviceError(RuntimeError):
    """A call to the driver failed; the message names the call and the driver's reason."""


@dataclass(frozen=True)
class Buffer:
    """Memory of the device: its address and its size in bytes."""

    address: int
    nbytes: int


@dataclass(frozen=True)
class Kernel:
    """A function that can be launched: its name, the binary that it is from, and the device's own handle."""

    function: str
    binary: Binary
    handle: Any


@dataclass(frozen=True)
class Properties:
    """What the driver says of the device.

    Clocks are the highest that the driver names, in GHz; `memory_bus_bits` is the width of the memory's bus.
    `shared_bytes_reserved` is what every block takes in addition to its own shared memory.
    """

    name: str
    compute_capability: tuple[int, int]
    sms: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_block: int
    registers_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_reserved: int
    l2_bytes: int
    memory_bytes: int
    clock_ghz: float
    memory_clock_ghz: float
    memory_bus_bits: int
    driver: str
    cuda: str

    @property
    def arch(self) -> str:
        """The architecture as NVRTC names it, such as "sm_90"."""
        return "sm_{}{}".format(*self.compute_capability)

    @property
    def max_warps_per_sm(self) -> int:
        """Warps that can be resident in one SM."""
        return self.max_threads_per_sm // 32

    @property
    def pin_gbs(self) -> float:
        """Bandwidth of the memory's pins, two transfers a clock, in GB/s; 0 where the driver names no clock."""
        return 2 * self.memory_clock_ghz * self.memory_bus_bits / 8


class Device(Protocol):
    """What the benchmarks need of a device. All arguments of kernels are 64-bit integers or buffers."""

    @property
    def properties(self) -> Properties:
        """What is known of the device."""

    @property
    def software(self) -> Mapping[str, str]:
        """What compiled the kernels: name -> version."""

    def kernel(self, source: str, function: str, defines: Mapping[str, int]) -> Kernel:
        """Compiles a file of cuda/ (or takes it from the cache of this object) and returns one of its functions."""

    def allocate(self, nbytes: int) -> Buffer:
        """Returns new memory, filled with zeros."""

    def free(self, buffer: Buffer) -> None:
        """Returns memory to the device."""

    def clear(self, buffer: Buffer) -> None:
        """Fills memory with zeros."""

    def write(self, buffer: Buffer, values: NDArray[Any]) -> None:
        """Copies an array to the beginning of the device's memory."""

    def read(self, buffer: Buffer, dtype: DTypeLike, count: int) -> NDArray[Any]:
        """Waits for all launches and returns the first `count` elements of the device's memory."""

    def launch(self, kernel: Kernel, grid: int, block: int, *arguments: int | Buffer, shared: int = 0) -> None:
        """Launches `grid` blocks of `block` threads, with `shared` bytes of dynamic shared memory; does not wait."""

    def milliseconds(
        self, kernel: Kernel, grid: int, block: int, *arguments: int | Buffer, shared: int = 0, launches: int = 1
    ) -> float:
        """Returns the time of some launches, one after the other, by the device's events."""

    def seconds(self, kernel: Kernel, grid: int, block: int, *arguments: int | Buffer, launches: int = 1) -> float:
        """Returns the time of some launches by the host's clock, until the last one is over."""

    def resident_blocks(self, kernel: Kernel, block: int, shared: int) -> int:
        """Returns the number of blocks that an SM holds at a time."""


class CudaDevice:
    """A GPU of this machine.

    Args:
        ordinal: number of the device.

    Raises:
        MissingToolError: cuda-bindings, the driver or the device is not there.
    """

    def __init__(self, ordinal: int = 0) -> None:
        """Opens the device."""
        self._driver = _driver()
        self._call("cuInit", 0)
        count = self._call("cuDeviceGetCount")
        if not 0 <= ordinal < count:
            raise MissingToolError(f"device = {ordinal}: this machine has {count} CUDA devices, numbered from 0")
        self._device = self._call("cuDeviceGet", ordinal)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", self._context)
        self.properties = self._properties()
        """What the driver says of the device."""
        if self.properties.compute_capability < LEAST_CAPABILITY:
            found = "{}.{}".format(*self.properties.compute_capability)
            raise MissingToolError(f"{self.properties.name} has compute capability {found}: 7.5 or later is needed, for NVRTC")
        self._modules: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[Binary, Any]] = {}
        self._begin, self._end = self._call("cuEventCreate", 0), self._call("cuEventCreate", 0)
        self.software = {"nvrtc": nvrtc_version()}
        """What compiled the kernels: name -> version."""

    def kernel(self, source: str, function: str, defines: Mapping[str, int]) -> Kernel:
        """Compiles a file of cuda/ (or takes it from the cache of this object) and returns one of its functions."""
        key = source, tuple(sorted(defines.items()))
        if key not in self._modules:
            binary = compile_source(source, defines, self.properties.arch)
            self._modules[key] = binary, self._call("cuModuleLoadData", binary.cubin)
        binary, module = self._modules[key]
        return Kernel(function, binary, self._call("cuModuleGetFunction", module, function.encode()))

    def allocate(self, nbytes: int) -> Buffer:
        """Returns new memory, filled with zeros."""
        buffer = Buffer(int(self._call("cuMemAlloc", nbytes)), nbytes)
        self.clear(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Returns memory to the device."""
        self._call("cuMemFree", buffer.address)

    def clear(self, buffer: Buffer) -> None:
        """Fills memory with zeros."""
        self._call("cuMemsetD8", buffer.address, 0, buffer.nbytes)

    def write(self, buffer: Buffer, values: NDArray[Any]) -> None:
        """Copies an array to the beginning of the device's memory."""
        data = np.ascontiguousarray(values)
        _check_size(buffer, data.nbytes)
        self._call("cuMemcpyHtoD", buffer.address, data.ctypes.data, data.nbytes)

    def read(self, buffer: Buffer, dtype: DTypeLike, count: int) -> NDArray[Any]:
        """Waits for all launches and returns the first `count` elements of the device's memory."""
        data = np.empty(count, dtype=dtype)
        _check_size(buffer, data.nbytes)
        self._call("cuCtxSynchronize")
        self._call("cuMemcpyDtoH", data.ctypes.data, buffer.address, data.nbytes)
        return data

    def launch(self, kernel: Kernel, grid: int, block: int, *arguments: int | Buffer, shared: int = 0) -> None:
        """Launches `grid` blocks of `block` threads, with `shared` bytes of dynamic shared memory; does not wait."""
        self._allow(kernel, shared)
        self._call("cuLaunchKernel", kernel.handle, grid, 1, 1, block, 1, 1, shared, 0, _packed(arguments), 0)

    def milliseconds(
        self, kernel: Kernel, grid: int, block: int, *arguments: int | Buffer, shared: int = 0, launches: int = 1
    ) -> float:
        """Returns the time of some launches, one after the other, by the device's events."""
        self._allow(kernel, shared)
        packed = _packed(arguments)
        self._call("cuCtxSynchronize")
        self._call("cuEventRecord", self._begin, 0)
        for _ in range(launches):
            self._call("cuLaunchKernel", kernel.handle, grid, 1, 1, block, 1, 1, shared, 0, packed, 0)
        self._call("cuEventRecord", self._end, 0)
        self._call("cuEventSynchronize", self._end)
        return float(self._call("cuEventElapsedTime", self._begin, self._end))

    def seconds(self, kernel: Kernel, grid: int, block: int, *arguments: int | Buffer, launches: int = 1) -> float:
        """Returns the time of some launches by the host's clock, until the last one is over."""
        packed = _packed(arguments)
        self._call("cuCtxSynchronize")
        begin = time.perf_counter()
        for _ in range(launches):
            self._call("cuLaunchKernel", kernel.handle, grid, 1, 1, block, 1, 1, 0, 0, packed, 0)
        self._call("cuCtxSynchronize")
        return time.perf_counter() - begin

    def resident_blocks(self, kernel: Kernel, block: int, shared: int) -> int:
        """Returns the number of blocks that an SM holds at a time."""
        self._allow(kernel, shared)
        return int(self._call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel.handle, block, shared))

    def close(self) -> None:
        """Releases the device."""
        self._call("cuDevicePrimaryCtxRelease", self._device)

    def _allow(self, kernel: Kernel, shared: int) -> None:
        if shared > 48 * 1024:
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", kernel.handle, attribute, shared)

    def _properties(self) -> Properties:
        names = self._driver.CUdevice_attribute

        def value(name: str) -> int:
            return int(self._call("cuDeviceGetAttribute", getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}"), self._device))

        cuda = int(self._call("cuDriverGetVersion"))
        name = self._call("cuDeviceGetName", 128, self._device)
        return Properties(
            name=name.split(b"\0")[0].decode(),
            compute_capability=(value("COMPUTE_CAPABILITY_MAJOR"), value("COMPUTE_CAPABILITY_MINOR")),
            sms=value("MULTIPROCESSOR_COUNT"),
            max_threads_per_sm=value("MAX_THREADS_PER_MULTIPROCESSOR"),
            max_blocks_per_sm=value("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            max_threads_per_block=value("MAX_THREADS_PER_BLOCK"),
            registers_per_sm=value("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_bytes_per_sm=value("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            shared_bytes_per_block=value("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            shared_bytes_reserved=value("RESERVED_SHARED_MEMORY_PER_BLOCK"),
            l2_bytes=value("L2_CACHE_SIZE"),
            memory_bytes=int(self._call("cuDeviceTotalMem", self._device)),
            clock_ghz=value("CLOCK_RATE") / 1e6,
            memory_clock_ghz=value("MEMORY_CLOCK_RATE") / 1e6,
            memory_bus_bits=value("GLOBAL_MEMORY_BUS_WIDTH"),
            driver=driver_version(),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        )

    def _call(self, name: str, *arguments: object) -> Any:
        """Calls the driver; returns its result, if there is one."""
        code, *results = getattr(self._driver, name)(*arguments)
        if int(code):
            _, text = self._driver.cuGetErrorString(code)
            reason = text.decode() if text else str(code)
            kind = MissingToolError if name in ("cuInit", "cuDeviceGetCount") else DeviceError
            raise kind(f"{name}: {reason}")
        return results[0] if results else None


def driver_version(path: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Returns the version of the installed driver, such as "580.159.04"; empty where the system does not tell."""
    try:
        found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", path.read_text())
    except OSError:
        return ""
    return found.group() if found else ""


def _packed(arguments: tuple[int | Buffer, ...]) -> tuple[tuple[int, ...], tuple[type, ...]]:
    """Returns the values and the types of a kernel's parameters, as cuLaunchKernel takes them."""
    values = tuple(one.address if isinstance(one, Buffer) else int(one) for one in arguments)
    return values, (c_uint64,) * len(values)


def _check_size(buffer: Buffer, nbytes: int) -> None:
    if nbytes > buffer.nbytes:
        raise ValueError(f"{nbytes} bytes: the buffer holds {buffer.nbytes}")


def _driver() -> ModuleType:
    try:
        driver = import_module("cuda.bindings.driver")
    except ImportError as error:
        raise MissingToolError(f"the driver API for Python cannot be loaded: {error}; install it with {EXTRA}") from None
    try:
        driver.cuInit(0)
    except Exception as error:  # the loader's own type, which is not public
        needs = "to measure takes an NVIDIA GPU and its driver; --from-record evaluates a record without them"
        raise MissingToolError(f"no NVIDIA driver can be loaded on this machine ({error}); {needs}") from None
    return driver
