"""The engine as plain Python, with NUMBA_DISABLE_JIT=1, gives the compiled numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.whole_run import whole_run
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch

CASES = [
    ("mix(4, iterations=3)", "lrr", "queue"),
    ("vector_add()", "gto", "measured"),
    ("permute(random=True)", "random", "queue"),
    ("listing_3_3()", "oldest", "fixed"),
]

SCRIPT = """
import sys, warnings
warnings.simplefilter("error")
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from tests.support.whole_run import whole_run
from numba.core import config
assert config.DISABLE_JIT
kernel, scheduler, memory = sys.argv[1:]
run = whole_run(load_gpu("kepler"), eval("kernels." + kernel), Launch(blocks=5, block_warps=2, resident_blocks=2),
                scheduler=scheduler, memory=memory, seed=11, sms=2)
print((run.issues, run.warp_cycles, run.retired, run.load_latencies, run.end))
"""


@pytest.mark.parametrize(("kernel", "scheduler", "memory"), CASES)
def test_plain_python_gives_the_compiled_numbers(kernel: str, scheduler: str, memory: str) -> None:
    run = whole_run(
        load_gpu("kepler"),
        eval("kernels." + kernel, {"kernels": kernels}),
        Launch(blocks=5, block_warps=2, resident_blocks=2),
        scheduler=scheduler,
        memory=memory,
        seed=11,
        sms=2,
    )
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kernel, scheduler, memory],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str((run.issues, run.warp_cycles, run.retired, run.load_latencies, run.end))
