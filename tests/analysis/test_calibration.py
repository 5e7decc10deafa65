"""Calibration recovers known parameters, and rejects targets that it cannot fit."""

from __future__ import annotations

import numpy as np
import pytest

from warpsim.analysis.calibration import Targets, closed_loop_latency, curve, errors, fit_queue, whole_warps, with_queue
from warpsim.hardware.gpu import load_gpu

KEPLER = load_gpu("kepler")
OCCUPANCIES = (8, 24, 40, 56)


def measured(gpu):
    """The chip's own simulated latency against bandwidth, as a curve that rises steeply at the sustained rate.

    There, the simulated bandwidth no longer rises with the occupancy, and noise would fold the curve back.
    """
    found = curve(gpu, range(4, 65, 4), cycles=20_000, seed=7)
    x = np.maximum.accumulate([0.0, *found["bandwidth"]])
    x += 1e-6 * np.arange(len(x))  # GB/s: strictly ascending, which interpolation needs
    y = [gpu.memory.queue_latency_cycles, *found["memory_latency"]]
    return lambda gbs: float(np.interp(gbs, x, y)) if gbs <= x[-1] else y[-1] * gbs / x[-1]


def test_recovers_known_parameters():
    known = KEPLER.memory.queue.model_copy(
        update={"latency_offset_cycles": 290.0 - KEPLER.memory.latency_cycles, "crossbar_gbs": 200.0, "dram_gbs": 200.0}
        | {"crossbar_servers": 24, "dram_servers": 24}
    )
    chip = with_queue(KEPLER, known)
    fit = fit_queue(chip, Targets(measured(chip), OCCUPANCIES), servers=(24,), cycles=20_000)
    assert fit.rms_percent < 1.0
    assert KEPLER.memory.latency_cycles + fit.queue.latency_offset_cycles == pytest.approx(290.0, rel=0.01)
    assert fit.queue.dram_gbs == pytest.approx(200.0, rel=0.02)


def test_closed_loop_is_littles_law():
    def latency(gbs: float) -> float:
        return float(KEPLER.memory.contention.latency(gbs))

    found = closed_loop_latency(KEPLER, latency, 64)
    gbs = 64 / found * 128 * KEPLER.sms * KEPLER.clock_ghz
    assert latency(gbs) == pytest.approx(found, rel=1e-9)


def test_parameters_of_the_files_meet_their_targets():
    """V Table 6.5, on random numbers that the fit has not seen: each chip's latencies within 3 % at every occupancy."""
    for name in ("g80", "gt200", "fermi", "kepler", "maxwell"):
        gpu = load_gpu(name)
        targets = Targets(lambda gbs, gpu=gpu: float(gpu.memory.contention.latency(gbs)), whole_warps(gpu)[::3])
        limit = 0.06 if gpu.memory.measured else 0.03  # Kepler's fit meets percentiles, too
        assert np.abs(errors(gpu, targets, seed=99)).max() < limit, name


@pytest.mark.parametrize(("occupancies", "servers", "named"), [((8, 16), (8,), "occupancies"), ((8, 16, 24), (), "servers")])
def test_too_few_targets_are_errors(occupancies, servers, named):
    with pytest.raises(ValueError, match=named):
        fit_queue(KEPLER, Targets(lambda gbs: 300.0 + gbs, occupancies), servers=servers)
