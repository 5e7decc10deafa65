"""Small plans for the tests of sweeps: one SM and a few hundred cycles, which take a few milliseconds per point."""

from __future__ import annotations

import os
import signal
from typing import Any

from warpsim.sweeps.plan import Plan

SHORT: dict[str, Any] = {"sms": 1, "warmup": 0, "cycles": 400}


def small_plan(**changes: Any) -> Plan:
    """Returns a plan of 24 points: two chips, two intensities, three occupancies (48 does not fit on g80), two policies."""
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
    """Prepares a process as a terminal does: it leads a process group, and SIGINT interrupts it even if the tests ignore it."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
