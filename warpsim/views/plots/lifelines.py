"""Lifelines of the warps of an SM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim.views.plots.selection import require_variables, select_replicate
from warpsim.views.plots.style import DARK, LIGHT, add_grid_and_legend, centre_text

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
    """Draws the lifetime of each warp of an SM as a bar in its warp slot, coloured by thread block (V Figures 3.3, 5.1).

    Successive blocks in the same slots alternate between dark and light colours, and adjacent blocks differ in colour. The bar
    of a warp that has not ended reaches to the end of the run.

    Args:
        results: a run with a trace of warps: `warp_start`, `warp_end`, `warp_sm`, `warp_slot`, `warp_block` over `warp`.
        ax: where to draw.
        replicate: index of the replicate.
        sm: number of the SM.
        start: first cycle shown; None: the start of the first warp.
        stop: last cycle shown; None: the end of the last warp.

    Raises:
        ValueError: there is no such trace, replicate or SM, or `stop` is not after `start`, or infinite.
    """
    from matplotlib.ticker import MaxNLocator

    require_variables(results, "warp_start", "warp_end", "warp_sm", "warp_slot", "warp_block")
    for name, cycle in (("start", start), ("stop", stop)):
        if cycle is not None and not np.isfinite(cycle):
            raise ValueError(f"{name} = {cycle}: must be a finite number of cycles")
    run = select_replicate(results, replicate)
    warps = run[["warp_start", "warp_end", "warp_sm", "warp_slot", "warp_block"]].dropna("warp", subset=["warp_start"])
    numbers = sorted({int(n) for n in warps["warp_sm"].values})
    last_cycles = np.array([*warps["warp_start"].values, *warps["warp_end"].values, _last_counted_cycle(run)]) + 1
    end = last_cycles[np.isfinite(last_cycles)].max(initial=0.0)
    if numbers and sm not in numbers:
        raise ValueError(f"sm = {sm}: must be one of {', '.join(map(str, numbers))}")
    warps = warps.isel(warp=np.flatnonzero(warps["warp_sm"].values == sm))
    begins, ends = warps["warp_start"].values, warps["warp_end"].fillna(end - 1).values + 1
    slots, blocks = warps["warp_slot"].values, warps["warp_block"].values.astype(int)
    first = float(begins.min(initial=np.inf)) if start is None else float(start)
    last = float(ends.max(initial=-np.inf)) if stop is None else float(stop)
    if len(blocks) and not first < last:
        if stop is None:
            raise ValueError(f"start = {start}: must be before the last cycle, {last - 1:g}")
        raise ValueError(f"stop = {stop}: must be after start = {first:g}")
    shown = (begins < last) & (ends > first)
    if shown.any():
        _draw_bars(ax, begins, ends, slots, blocks, shown)
        ax.set_xlim(first, last)
        ax.set_ylim(-0.5, slots[shown].max() + 0.5)
        ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1, steps=[1, 2, 2.5, 5, 10]))
    else:
        centre_text(ax, "no data")
    ax.set_xlabel("time (cycles)")
    ax.set_ylabel(f"warp slot of SM {sm}")
    return add_grid_and_legend(ax, grid=False)


def _last_counted_cycle(run: xr.Dataset) -> float:
    """Returns the last counted cycle of a replicate of fixed length; 0 if the length is not fixed or unknown."""
    try:
        call = json.loads(run.attrs.get("provenance", "{}")).get("call", {})
        ends = call.get("launch", {}).get("blocks") is not None or call.get("launch", {}).get("persistent")
        if ends or "cycles" not in call:
            return 0.0
        warmup = float(run["warmup_cycles"]) if "warmup_cycles" in run else call["warmup"]
        return float(warmup + call["cycles"] - 1)
    except (ValueError, TypeError, KeyError, AttributeError):  # a damaged record
        return 0.0


def _draw_bars(
    ax: Axes,
    begins: NDArray[np.float64],
    ends: NDArray[np.float64],
    slots: NDArray[np.float64],
    blocks: NDArray[np.int64],
    shown: NDArray[np.bool_],
) -> None:
    """Draws the shown warps as bars from begin to end."""
    from matplotlib.collections import PolyCollection

    colour = _block_colours(begins, ends, slots, blocks)
    corners = [
        [(begin, slot - 0.4), (end, slot - 0.4), (end, slot + 0.4), (begin, slot + 0.4)]
        for begin, end, slot in zip(begins[shown], ends[shown], slots[shown], strict=True)
    ]
    colours = [colour[block] for block in blocks[shown].tolist()]
    ax.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="white", linewidths=0.25))


def _block_colours(
    begins: NDArray[np.float64], ends: NDArray[np.float64], slots: NDArray[np.float64], blocks: NDArray[np.int64]
) -> dict[int, str]:
    """Returns a colour per block: chosen by its number, unless an adjacent block has that colour."""
    blocks_seen: dict[int, tuple[float, float, float]] = {}  # block -> start, end, lowest slot
    for block, begin, end, slot in zip(blocks.tolist(), begins.tolist(), ends.tolist(), slots.tolist(), strict=True):
        first, last, lowest = blocks_seen.get(block, (begin, end, slot))
        blocks_seen[block] = (min(first, begin), max(last, end), min(lowest, slot))
    size = max(np.bincount(blocks - blocks.min()))  # warps per block
    latest: dict[int, tuple[bool, str, float]] = {}  # block slot -> whether its last block is dark, its colour, its end
    colours = {}
    for block, (begin, end, slot) in sorted(blocks_seen.items(), key=lambda item: item[1]):
        block_slot = int(slot // size)
        dark = not latest[block_slot][0] if block_slot in latest else block_slot % 2 == 0
        neighbours = (latest[other] for other in (block_slot - 1, block_slot + 1) if other in latest)
        taken = {shade for _, shade, last in neighbours if last > begin}
        shades = DARK if dark else LIGHT
        free = [shade for number in range(len(shades)) if (shade := shades[(block + number) % len(shades)]) not in taken]
        colours[block] = free[0]
        latest[block_slot] = (dark, free[0], end)
    return colours
