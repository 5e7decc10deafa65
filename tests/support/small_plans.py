"""Small plans for the tests of sweeps: one SM and a few hundred cycles, some milliseconds a point."""

from __future__ import annotations

import os
import signal
from typing import Any

from warpsim.sweeps.plan import Plan

SHORT: dict[str, Any] = {"sms": 1, "warmup": 0, "cycles": 400}


def small_plan(**changes: Any) -> Plan:
    """Two chips, two intensities, three occupancies (48 do not fit on g80), two policies: 24 points."""
    settings = {
        "gpu": ["g80", "kepler"],
        "kernel": "mix",
        "alpha": [1, 8],
        "warps": [4, 8, 48],
        "scheduler": ["lrr", "gto"],
        "replicates": 2,
        **SHORT,
    }
    return Plan(**{**settings, **changes})


PLAN_TOML = """\
gpu = ["g80", "kepler"]
kernel = "mix"
alpha = [1, 8]
warps = [4, 8, 48]
scheduler = ["lrr", "gto"]
replicates = 2
sms = 1
warmup = 0
cycles = 400
"""
"""The plan of `small_plan()` as a file."""


def at_a_terminal() -> None:
    """For the start of a process: it leads a group of its own, and Ctrl-C interrupts it, even where the tests ignore it."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
