"""Ctrl-C ends a long simulation within a second, and the slices in which the engine runs change no result."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.small_plans import at_a_terminal
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import load_kernel
from warpsim.simulation import run
from warpsim.simulation.api import simulate_point, trace_point
from warpsim.simulation.point import make_point
from warpsim.simulation.trace import Trace

ROOT = Path(__file__).resolve().parents[2]

LONG = """
import sys
import warpsim as ws

case = dict(gpu="kepler", kernel="mix", alpha=8, replicates=4, threads=int(sys.argv[1]))
ws.simulate(**case, warmup=0, cycles=100)
print("compiled", flush=True)
try:
    ws.simulate(**case, cycles=10**11)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(3)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_run(threads):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LONG, str(threads)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=at_a_terminal)
    try:
        assert process.stdout.readline() == "compiled\n"
        time.sleep(1.5)
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        seconds = time.perf_counter() - start
        assert process.wait(10) == 3
    finally:
        process.kill()
    assert seconds < 1.0


GPU = load_gpu("kepler")
KERNEL = load_kernel("mix", alpha=4)
POINTS = {
    "endless": {"warps": 16, "warmup": 300, "cycles": 4000},
    "finite": {"launch": Launch(blocks=20, block_warps=4)},
}


@pytest.mark.parametrize("kind", POINTS)
def test_slices_change_nothing(kind, monkeypatch):
    kernel = KERNEL if kind == "endless" else load_kernel("mix", alpha=4, iterations=20)
    point = make_point(GPU, kernel, sms=3, **POINTS[kind])
    trace = Trace(issues=(500, 900), states=8) if kind == "endless" else Trace(warps=True)
    whole, (traced, _) = simulate_point(point), trace_point(point, trace)
    monkeypatch.setattr(run, "_SLICE_SECONDS", 0.0)  # every slice has half the cycles of the one before
    monkeypatch.setattr(run, "_FIRST_SLICE", 777)
    calls = []
    sliced_runs = [simulate_point(point, pause=lambda: calls.append(1)), trace_point(point, trace)[0]]
    for sliced, expected in zip(sliced_runs, (whole, traced), strict=True):
        assert sliced.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(sliced[name], values, err_msg=name)
    assert len(calls) > 500


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pause_can_end_the_simulation(threads):
    class EnoughError(Exception):
        pass

    calls, before = [], threading.active_count()

    def pause():
        calls.append(1)
        if len(calls) > 10:
            raise EnoughError

    point = make_point(GPU, KERNEL, sms=1, cycles=10**11, replicates=6)
    with pytest.raises(EnoughError):
        simulate_point(point, threads, pause=pause)
    assert threading.active_count() == before
