"""The loaded latency of an H100: a fit to three points of its curve, and the prediction of the others."""

from __future__ import annotations

import numpy as np
from _tables import comparison, read_rows
from streams import HERE

import warpsim as ws
from warpsim.analysis.measured_curve import SATURATED, MeasuredCurve, errors, fit_measured

FITTED = (3.0, 502.0, 1121.0, 1434.0)
"""Bandwidths in GB/s of the points to which the queue is fitted: the unloaded latency, and three more."""

LATENCY_CYCLES, SERVERS, DRAM_GBS = 714, 1920, 1746.0
"""The result of the fit, which `--full` repeats."""


CHANNELS = 64
"""Of four stacks of HBM2e, with 16 each."""


def chip() -> ws.Gpu:
    """Returns the H100 of the measurement: with HBM2e, as on the PCIe card, and the bandwidth that it sustained, an input."""
    gpu, hbm2e = ws.load_gpu("h100"), ws.load_gpu("h100_pcie").memory.writes
    assert gpu.memory.writes is not None and hbm2e is not None
    writes = gpu.memory.writes.model_copy(update={"idle_ns": hbm2e.idle_ns})
    queue = gpu.memory.queue.model_copy(update={"crossbar_servers": CHANNELS})
    rates = {"bandwidth_gbs": 1524.5, "pin_bandwidth_gbs": 1631.0}
    memory = gpu.memory.model_copy(update={**rates, "queue": queue, "writes": writes})
    return gpu.model_copy(update={"memory": memory})


def points(gpu: ws.Gpu) -> MeasuredCurve:
    """Returns the measured curve, without the very first point, at which the chase itself is the load."""
    rows = [(float(row["bandwidth_gbs"]), float(row["latency_ns"])) for row in read_rows(HERE / "mess_h100.csv")]
    bandwidth, latency = np.array(rows[1:]).T
    return MeasuredCurve(bandwidth, latency * gpu.clock_ghz)


def fitted_chip(fit_again: bool) -> ws.Gpu:
    """Returns the chip with the fitted queue; prints a new fit."""
    gpu = chip()
    if fit_again:
        measured = points(gpu)
        found = fit_measured(gpu, measured, only=np.flatnonzero(np.isin(measured.bandwidth_gbs, FITTED)).tolist())
        print(f"fit: latency {found.gpu.memory.latency_cycles} cycles, {found.gpu.memory.queue}", flush=True)
        return found.gpu
    queue = gpu.memory.queue.model_copy(update={"dram_servers": SERVERS, "dram_gbs": DRAM_GBS})
    memory = {"latency_cycles": LATENCY_CYCLES, "queue": queue}
    return gpu.model_copy(update={"memory": gpu.memory.model_copy(update=memory)})


def loaded_latency(*, fit_again: bool) -> list[dict[str, str]]:
    """Compares the latencies in ns at each bandwidth below saturation."""
    gpu = fitted_chip(fit_again)
    measured = points(gpu)
    assert measured.latency_cycles is not None
    simulated = np.array([np.exp(errors(gpu, measured, cycles=40_000, seed=seed)) for seed in range(3)]) * measured.latency_cycles
    rows = []
    for number, gbs in enumerate(measured.bandwidth_gbs):
        if gbs <= SATURATED * gpu.memory.bandwidth_gbs:
            what, kind = f"latency at {gbs:g} GB/s, ns", "fit" if gbs in FITTED else "prediction"
            published = float(measured.latency_cycles[number] / gpu.clock_ghz)
            found = simulated[:, number] / gpu.clock_ghz
            rows.append(comparison("Mess, 100 % reads", "h100 (HBM2e)", what, published, found, kind))
    return rows
