"""Small plans for the tests of sweeps: one SM, a few hundred cycles, so that a point takes some milliseconds."""

from __future__ import annotations

from typing import Any

from warpsim.batch.plan import Plan

SHORT: dict[str, Any] = {"sms": 1, "warmup": 0, "cycles": 400}


def small_plan(**changes: Any) -> Plan:
    """Two chips, two intensities, three occupancies (48 warps do not fit on g80), two policies; 24 points, 2 replicates."""
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
