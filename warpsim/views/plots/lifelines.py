"""Lifelines of warps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim.views.plots.selection import need, single_run
from warpsim.views.plots.style import DARK, LIGHT, finish, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def warp_lifelines(
    results: xr.Dataset,
    ax: Axes,
    *,
    replicate: int = 0,
    sm: int = 0,
    start: float | None = None,
    stop: float | None = None,
) -> Axes:
    """Life of each warp of an SM, a line in its slot, coloured by thread block (V Figures 3.3, 5.1).

    The blocks that follow each other in the same slots are dark and light in turn, so that they differ without colour, and a
    block has another colour than those beside it. A warp that is still there has a line to the end of the run.

    Args:
        results: a run with a trace of warps: `warp_start`, `warp_end`, `warp_sm`, `warp_slot`, `warp_block` over `warp`.
        ax: where to draw.
        replicate: which one.
        sm: which one.
        start: first cycle shown; left out, that of the first warp.
        stop: last cycle shown; left out, that of the last warp.

    Raises:
        ValueError: there is no such trace, replicate or SM, or `stop` is not after `start`.
    """
    need(results, "warp_start", "warp_end", "warp_sm", "warp_slot", "warp_block")
    run = single_run(results, replicate)
    warps = run[["warp_start", "warp_end", "warp_sm", "warp_slot", "warp_block"]].dropna("warp", subset=["warp_start"])
    numbers = sorted({int(n) for n in warps["warp_sm"].values})
    known = np.array([*warps["warp_start"].values, *warps["warp_end"].values, _last_cycle(results)]) + 1
    end = known[np.isfinite(known)].max(initial=0.0)
    if numbers and sm not in numbers:
        raise ValueError(f"sm = {sm}: must be one of {', '.join(map(str, numbers))}")
    warps = warps.isel(warp=np.flatnonzero(warps["warp_sm"].values == sm))
    begins, ends = warps["warp_start"].values, warps["warp_end"].fillna(end - 1).values + 1
    slots, blocks = warps["warp_slot"].values, warps["warp_block"].values.astype(int)
    first = float(begins.min(initial=np.inf)) if start is None else float(start)
    last = float(ends.max(initial=-np.inf)) if stop is None else float(stop)
    if len(blocks) and not first < last:
        raise ValueError(f"stop = {stop}: must be after start = {first:g}")
    shown = (begins < last) & (ends > first)
    if shown.any():
        _lines(ax, begins, ends, slots, blocks, shown)
        ax.set_xlim(first, last)
        ax.set_ylim(-0.5, slots[shown].max() + 0.5)
    else:
        say(ax, "no data")
    ax.set_xlabel("time (cycles)")
    ax.set_ylabel(f"warp slot of SM {sm}")
    return finish(ax, grid=False)


def _last_cycle(results: xr.Dataset) -> float:
    """The last cycle that is counted of a run without an end, by its provenance; 0 where there is none."""
    call = json.loads(results.attrs.get("provenance", "{}")).get("call", {})
    ends = call.get("launch", {}).get("blocks") is not None or call.get("launch", {}).get("persistent")
    return 0.0 if ends or "cycles" not in call else float(call["warmup"] + call["cycles"] - 1)


def _lines(
    ax: Axes,
    begins: NDArray[np.float64],
    ends: NDArray[np.float64],
    slots: NDArray[np.float64],
    blocks: NDArray[np.int64],
    shown: NDArray[np.bool_],
) -> None:
    """Draw the warps that are shown, as bars from begin to end."""
    from matplotlib.collections import PolyCollection

    colour = _colours(begins, ends, slots, blocks)
    corners = [
        [(begin, slot - 0.4), (end, slot - 0.4), (end, slot + 0.4), (begin, slot + 0.4)]
        for begin, end, slot in zip(begins[shown], ends[shown], slots[shown], strict=True)
    ]
    colours = [colour[block] for block in blocks[shown].tolist()]
    ax.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="white", linewidths=0.25))


def _colours(
    begins: NDArray[np.float64], ends: NDArray[np.float64], slots: NDArray[np.float64], blocks: NDArray[np.int64]
) -> dict[int, str]:
    """Block -> its colour: by its number, unless a block beside it has that colour."""
    lives: dict[int, tuple[float, float, float]] = {}
    for block, begin, end, slot in zip(blocks.tolist(), begins.tolist(), ends.tolist(), slots.tolist(), strict=True):
        first, last, lowest = lives.get(block, (begin, end, slot))
        lives[block] = (min(first, begin), max(last, end), min(lowest, slot))
    size = max(np.bincount(blocks - blocks.min()))  # warps of a block
    latest: dict[int, tuple[bool, str, float]] = {}  # seat -> whether its last block is dark, that block's colour and end
    colours = {}
    for block, (begin, end, slot) in sorted(lives.items(), key=lambda item: item[1]):
        seat = int(slot // size)
        dark = not latest[seat][0] if seat in latest else seat % 2 == 0
        beside = {latest[other][1] for other in (seat - 1, seat + 1) if other in latest and latest[other][2] > begin}
        shades = DARK if dark else LIGHT
        free = [shade for number in range(len(shades)) if (shade := shades[(block + number) % len(shades)]) not in beside]
        colours[block] = free[0]
        latest[seat] = (dark, free[0], end)
    return colours
