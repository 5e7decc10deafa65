"""Why does the refined model overestimate more on real Kepler hardware than in the simulator? Rules out causes; runs a minute."""

from __future__ import annotations

import warpsim as ws
from warpsim.models import volkov

POINTS = ((64, 56), (128, 44), (181.019, 44))
"""Alpha and the occupancy at which the refined model differs most from the simulation."""

WINDOW = {"replicates": 3, "warmup": 10_000, "cycles": 30_000}


def main() -> None:
    """Prints estimate over simulation for several changes of the simulated machine."""
    kepler = ws.load_gpu("kepler")
    data = kepler.to_dict()
    data["ops"]["load"]["issue_slots"] = 8
    slow = ws.Gpu.from_dict(data)
    for policy in ("lrr", "gto", "oldest", "random"):
        show(policy, lambda alpha, n, policy=policy: endless(kepler, alpha, n, scheduler=policy))
    show("measured latencies (V Table 6.6)", lambda alpha, n: endless(kepler, alpha, n, memory="measured"))
    show("eight issue slots for a load", lambda alpha, n: endless(slow, alpha, n))
    for iterations in (20, 80):
        show(f"blocks replaced, {iterations} iterations", lambda alpha, n, i=iterations: replaced(kepler, alpha, n, i))


def show(name: str, run) -> None:
    """Prints one line with the quotients at all points."""
    print(f"{name:34}", *(f"alpha {alpha:g}, {n} warps: {run(alpha, n):.3f};" for alpha, n in POINTS), flush=True)


def endless(gpu: ws.Gpu, alpha: float, warps: int, **settings: str) -> float:
    """Returns estimate over simulation at a constant occupancy."""
    ds = ws.simulate(gpu, ws.kernels.mix(alpha), warps=warps, **WINDOW, **settings)
    return estimate(gpu, alpha, warps) / float(ds.throughput.sum("op").mean())


def replaced(gpu: ws.Gpu, alpha: float, warps: int, iterations: int) -> float:
    """Returns the same with warps that end and are replaced (V 5.9): six waves of blocks of four warps, from start to end."""
    resident = warps // 4
    launch = ws.Launch(blocks=6 * resident * gpu.sms, block_warps=4, resident_blocks=resident)
    ds = ws.simulate(gpu, ws.kernels.mix(alpha, iterations=iterations), launch=launch, replicates=2)
    print(f"  ({float(ds.cycles.mean()) / 6:,.0f} cycles a warp, {float(ds.occupancy.mean()):.1f} warps on average)")
    return estimate(gpu, alpha, warps) / float(ds.throughput.sum("op").mean())


def estimate(gpu: ws.Gpu, alpha: float, warps: int) -> float:
    """Returns the estimate of V 6.5 in operations per cycle and SM."""
    return float(volkov.mix_throughput(gpu, alpha, warps, refined=True).throughput.sum("op"))


if __name__ == "__main__":
    main()
