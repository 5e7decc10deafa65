"""The driver's calls, with a small library in the driver's place."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")

from warpsim.measure.compiler import compile_source
from warpsim.measure.device import driver_version

HERE = Path(__file__).parent

SCRIPT = """
import os
import numpy as np
from warpsim.measure import device as module
from warpsim.measure.compiler import Binary
from warpsim.measure.device import CudaDevice, DeviceError

def compiled(source, defines, arch):  # NVRTC itself looks for a driver, and does not get on with the stand-in
    return Binary(source, defines, arch, open(os.environ["CUBIN"], "rb").read(), "0")

module.compile_source = compiled
device = CudaDevice()
p = device.properties
print(p.name, p.arch, p.sms, p.clock_ghz, p.cuda, p.memory_bytes)
hold = device.kernel("blocks.cu", "hold", {})
assert device.kernel("blocks.cu", "hold", {}).binary is hold.binary
out = device.allocate(1024)
assert not device.read(out, np.uint8, 1024).any()
device.launch(hold, 7, 96, out, 2**40 + 5, shared=100_000)
print(device.read(out, np.uint64, 6).tolist() == [7, 96, 100000, 2, out.address, 2**40 + 5])
print(device.milliseconds(hold, 1, 32, out, 1, launches=5), device.seconds(hold, 1, 32, out, 1) >= 0)
empty = device.kernel("blocks.cu", "empty", {})
device.launch(empty, 1, 32)
device.write(out, np.arange(4, dtype=np.uint64))
print(device.read(out, np.uint64, 4).tolist(), device.resident_blocks(hold, 32, 100_000))
for wrong in (lambda: device.kernel("blocks.cu", "nothing", {}), lambda: device.launch(empty, 1, 32, shared=10**6)):
    try:
        wrong()
    except DeviceError as error:
        print(error)
try:
    device.read(out, np.uint64, 129)
except ValueError as error:
    print(error)
device.free(out)
device.close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not shutil.which("gcc") or not sys.platform.startswith("linux"):
        pytest.skip("needs gcc on Linux, for a library in the driver's place")
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", path, HERE / "libcuda.c", "-ldl"], check=True)
    return path


def run(script, library=None, **more):
    environment = dict(os.environ, **more)
    if library:
        environment |= {"LD_LIBRARY_PATH": str(library.parent), "STAND_IN": str(library)}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120)


def test_the_drivers_functions_get_what_they_take(library):
    cubin = library.with_name("blocks.cubin")
    cubin.write_bytes(compile_source("blocks.cu", {}, "sm_90").cubin)
    done = run(SCRIPT, library, CUBIN=str(cubin))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Stand-in GPU sm_90 132 1.98 13.1 85899345920",
        "True",
        "5.0 True",
        "[0, 1, 2, 3] 2",
        "cuModuleGetFunction: stand-in error",
        "cuFuncSetAttribute: stand-in error",
        "1032 bytes: the buffer holds 1024",
    ]


def test_a_machine_without_a_device_is_told_so(library):
    done = run("from warpsim.measure.device import CudaDevice; CudaDevice()", library, NO_DEVICE="1")
    assert "MissingToolError" in done.stderr and "no CUDA-capable device is detected" in done.stderr


def test_a_device_that_is_not_there_is_refused(library):
    done = run("from warpsim.measure.device import CudaDevice; CudaDevice(3)", library)
    assert "device = 3: this machine has 1 CUDA devices, numbered from 0" in done.stderr


def test_the_drivers_version_is_read_from_the_system(tmp_path):
    path = tmp_path / "version"
    path.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC version: gcc 13.3.0\n"
    )
    assert driver_version(path) == "580.159.04"
    assert driver_version(tmp_path / "none") == ""
