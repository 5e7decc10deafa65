"""V 3.10: permutation, absolute values and Black-Scholes, as far as the text around Figures 3.7 to 3.11 has numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _tables import comparison
from curves import Curve, largest, needed
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import warpsim as ws
from warpsim.analysis.calibration import whole_warps
from warpsim.kernels import Kernel
from warpsim.views.plots.style import COLOURS, MARKERS

HERE = Path(__file__).parent
CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")
PERMUTE = ("permute, trivial", "permute, random")
ABSOLUTE = ("vabs, positive", "vabs, negative")
PRICES = ("Black-Scholes", "Black-Scholes, fast")
CASES = {
    PERMUTE[0]: ws.kernels.permute(random=False),
    PERMUTE[1]: ws.kernels.permute(random=True),
    ABSOLUTE[0]: ws.kernels.vabs(negative=False),
    ABSOLUTE[1]: ws.kernels.vabs(negative=True),
}
LEVELS = (0.9, 0.95)
"""Shares of the largest throughput at which the needed occupancy is read here; V does not say how he placed his bars."""

CYCLES = 40_000
LONGER = 8  # windows of the random permutation, whose accesses are few

CLOSE_GBS = 190.0  # V 3.10: "close to the maximum", on Maxwell


@dataclass
class Examples:
    """Bandwidth in GB/s by warps per SM: of (chip, kernel of CASES), and of PRICES on Maxwell."""

    curves: dict[tuple[str, str], Curve]
    prices: dict[str, Curve]


def simulate(replicates: int) -> Examples:
    """Runs all kernels at all occupancies."""
    curves = {}
    for chip in CHIPS:
        gpu = ws.load_gpu(chip)
        for name, of in CASES.items():
            cycles = CYCLES * (LONGER if name == PERMUTE[1] else 1)
            curves[chip, name] = curve(gpu, of, whole_warps(gpu), replicates, cycles)
    maxwell = ws.load_gpu("maxwell")
    prices = {name: curve(maxwell, black_scholes(name), range(4, 65, 2), replicates) for name in PRICES}
    return Examples(curves, prices)


def curve(gpu: ws.Gpu, of: Kernel, occupancies: list[int] | range, replicates: int, cycles: int = CYCLES) -> Curve:
    """Returns the bandwidth in GB/s in the steady state."""
    settings = {"replicates": replicates, "warmup": 20_000, "cycles": cycles}
    return {warps: ws.simulate(gpu, of, warps=warps, **settings).bandwidth.values for warps in occupancies}


def black_scholes(name: str) -> Kernel:
    """Returns the kernel from its machine code for Maxwell, in blocks of 64 threads.

    The listing is that of the everyday kernel's source by NVRTC 12.9. No operand takes the slow path of a division or a root.
    """
    function = {PRICES[0]: "black_scholes", PRICES[1]: "black_scholes_fast"}[name]
    never = {"7": 0.0, "16": 0.0} if function == "black_scholes" else {}
    return ws.kernels.from_sass(
        HERE / "black_scholes.sm_52.sass", function, (16384, 64), probabilities={"36": 1.0, **never},
        patterns=dict.fromkeys(("38", "41", "42"), "coalesced"),
    )  # fmt: skip


def occupancy(gpu: ws.Gpu, of: Curve, gbs: float) -> float:
    """Returns the same in percent of the chip's largest occupancy."""
    return 100 * needed(of, gbs) / gpu.sm.max_warps


def rows(found: Examples) -> Iterator[dict[str, str]]:
    """Yields the numbers of the text beside the simulated ones."""
    curves, gpus = found.curves, {chip: ws.load_gpu(chip) for chip in CHIPS}
    for (case, low, high), level in itertools.product(((PERMUTE[0], 50, 100), (PERMUTE[1], 6, 15)), LEVELS):
        shares = {chip: occupancy(gpu, curves[chip, case], level * largest(curves[chip, case])) for chip, gpu in gpus.items()}
        for word, published, pick in (("least", low, min), ("most", high, max)):
            chip = pick(shares, key=shares.__getitem__)
            what = f"{case}: {word} occupancy of the five chips for {level:.0%} of the largest throughput, %"
            yield comparison("V Figures 3.7, 3.8", chip, what, published, shares[chip], "prediction")
    slower = {chip: largest(curves[chip, PERMUTE[0]]) / largest(curves[chip, PERMUTE[1]]) for chip in CHIPS}
    chip = min(slower, key=slower.__getitem__)
    what = "permute: trivial over random throughput, least of the five chips (“around 11 or larger”)"
    yield comparison("V 3.10", chip, what, 11, slower[chip], "prediction")
    for case, warps in ((ABSOLUTE[0], 60), (ABSOLUTE[1], 40)):
        found_warps = needed(curves["maxwell", case], CLOSE_GBS)
        yield comparison("V Figure 3.10", "maxwell", f"{case}: warps per SM for 190 GB/s", warps, found_warps, "prediction")
    what = f"{ABSOLUTE[1]}: largest bandwidth, GB/s"
    yield comparison("V 3.10", "maxwell", what, 200, largest(curves["maxwell", ABSOLUTE[1]]), "prediction")
    others = {chip: gpu for chip, gpu in gpus.items() if chip != "maxwell"}
    shares = {chip: occupancy(gpu, curves[chip, ABSOLUTE[1]], largest(curves[chip, ABSOLUTE[0]])) for chip, gpu in others.items()}
    for word, published, pick in (("least", 47, min), ("most", 63, max)):
        chip = pick(shares, key=shares.__getitem__)
        what = f"{ABSOLUTE[1]}: {word} occupancy of the other four for the largest bandwidth of {ABSOLUTE[0]}, %"
        yield comparison("V Figures 3.9, 3.10", chip, what, published, shares[chip], "prediction")
    for case, warps in ((PRICES[0], 44), (PRICES[1], 18)):
        what = f"{case}: warps per SM for 190 GB/s"
        yield comparison("V Figure 3.11", "maxwell", what, warps, needed(found.prices[case], CLOSE_GBS), "prediction")


def figure(found: Examples) -> Figure:
    """Draws the curves of V Figures 3.7 to 3.11: bandwidth against occupancy."""
    page = Figure(figsize=(11, 5), layout="constrained")
    axes = page.subplots(2, 3).flat
    for ax, chip in zip(axes, CHIPS, strict=False):
        for number, case in enumerate(CASES):
            _draw(ax, found.curves[chip, case], case, number)
        ax.set_title(chip)
    for number, case in enumerate(PRICES):
        _draw(axes[-1], found.prices[case], case, number)
    for warps, number in ((44, 0), (48, 0), (18, 1)):
        axes[-1].plot(warps, CLOSE_GBS, "x", color=COLOURS[number], markersize=9)
    for warps, number in ((60, 2), (40, 3)):
        axes[len(CHIPS) - 1].plot(warps, CLOSE_GBS, "x", color=COLOURS[number], markersize=9)
    axes[-1].set_title("Black-Scholes on maxwell")
    for ax in axes:
        ax.set(xlabel="warps per SM", ylabel="GB/s", xlim=(0, None), ylim=(0, None))
    axes[CHIPS.index("kepler")].legend(fontsize=6.5)
    axes[-1].legend(fontsize=6.5)
    return page


def _draw(ax: Axes, of: Curve, label: str, number: int) -> None:
    means = [float(values.mean()) for values in of.values()]
    ax.plot(list(of), means, marker=MARKERS[number], color=COLOURS[number], markersize=3, linewidth=1, label=label)
