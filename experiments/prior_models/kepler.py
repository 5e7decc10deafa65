"""Why does the refined model overestimate more on real Kepler hardware than in the simulator? Runs for minutes."""

from __future__ import annotations

from functools import partial

import warpsim as ws
from warpsim.models import volkov
from warpsim.simulation.policies import POLICIES

POINTS = ((32, 64), (64, 56), (128, 44), (181.019, 44))
"""Alpha, and the occupancy at which the refined model differs most from the simulation."""

WINDOW = {"replicates": 3, "warmup": 10_000, "cycles": 30_000}

SHARE = 0.3
"""Share of the work of V's finite grids; see `volkov.measured_grid`."""


def main() -> None:
    """Prints estimate over simulation for several changes of the simulated machine."""
    kepler = ws.load_gpu("kepler")
    for policy in POLICIES:
        show(policy, partial(endless, kepler, scheduler=policy))
    show("measured latencies (V Table 6.6)", partial(endless, kepler, memory="measured"))
    show("finite grid of whole waves", partial(finite, kepler, whole_waves=True))
    show("finite grid, last wave incomplete", partial(finite, kepler, whole_waves=False))
    for slots in (4, 8, 12):
        data = kepler.to_dict()
        data["ops"]["load"]["issue_slots"] = slots
        changed = ws.Gpu.from_dict(data)
        show(f"{slots} issue slots for a load", partial(endless, changed))
        show("the same, finite grid of whole waves", partial(finite, changed, whole_waves=True))


def show(name: str, run) -> None:
    """Prints one line with the quotients at all points."""
    print(f"{name:38}", *(f"alpha {alpha:g}, {n} warps: {run(alpha, n):.3f};" for alpha, n in POINTS), flush=True)


def endless(gpu: ws.Gpu, alpha: float, warps: int, **settings: str) -> float:
    """Returns estimate over simulation at a constant occupancy."""
    ds = ws.simulate(gpu, ws.kernels.mix(alpha), warps=warps, **WINDOW, **settings)
    return estimate(gpu, alpha, warps) / float(ds.throughput.sum("op").mean())


def finite(gpu: ws.Gpu, alpha: float, warps: int, *, whole_waves: bool) -> float:
    """Returns the same with V's finite grid (V 5.9, 5.10), its work divided by its total time."""
    grid = volkov.measured_grid(gpu, ws.kernels.mix(alpha), warps=warps, whole_waves=whole_waves, share=SHARE)
    ds = ws.simulate(gpu, grid.kernel, launch=grid.launch, replicates=2)
    return estimate(gpu, alpha, warps) / float(ds.throughput.sum("op").mean())


def estimate(gpu: ws.Gpu, alpha: float, warps: int) -> float:
    """Returns the estimate of V 6.5 in operations per cycle and SM, in which a load takes one issue slot."""
    return float(volkov.mix_throughput(gpu, alpha, warps, refined=True).throughput.sum("op"))


if __name__ == "__main__":
    main()
