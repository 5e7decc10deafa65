"""From a record to plain numbers: latencies, intervals, bandwidths, curves, each with its unit and how it was found.

V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from warpsim.hardware.file_errors import format_value
from warpsim.measure import core_values, memory_values
from warpsim.measure.record import Record, RecordError, Table
from warpsim.measure.values import Value

MOST = 10**18
"""Largest number of a table; the clock counts to it in 15 years."""

COLUMNS = {
    "clocks": "label ns median_ghz least_ghz greatest_ghz",
    "chains": "op ways schedulers ilp repeats warps trips cycles",
    "barriers": "repeats warps trips cycles",
    "issue_order": "gap warps warp reading cycle",
    "memory_issue": "kind schedulers scheduler count cycles",
    "launches": "blocks block launches timer us",
    "turnover": "block resident held count q0 q0.05 q0.25 q0.5 q0.75 q0.95 q1",
    "warp_starts": "block resident warp delay",
    "levels": "first_level footprint stride warm steps sm cycles ns",
    "single_loads": "level footprint sm cycles count",
    "l2_halves": "sm pass cycles count",
    "loaded": "point reads writes pause gbs clock_ghz samples mean_cycles",
    "stream_chase": "point warps every steps step_cycles gbs gbs_elapsed clock_ghz",
    "stream_chase_samples": "point cycles count",
    "streams": "kernel elements block resident shared bytes median_ms least_ms",
    "atomics": "spread returns blocks warps additions cycles least_ms",
}
"""Columns of each table that is evaluated, in order."""

_WORDS = {"op", "label", "pass", "timer", "first_level", "level", "kind", "kernel", "spread"}
"""Columns of words; all others hold numbers."""


def derive(record: Record) -> dict[str, Value]:
    """Returns what a record says, by dotted names; a table that the record lacks leaves out what comes from it.

    The names are:

    * `clock_ghz`
    * `ops.NAME.latency_cycles`, `.interval_sm_cycles`, `.interval_scheduler_cycles`, `.scope`, for the operations of `operations`
    * `shared.conflict_latency_cycles`, `branch.loop_cycles`
    * `barrier.latency_cycles`, `barrier.warp_cycles`, `barrier.curve`
    * `issue.KIND.at_once`, `issue.KIND.interval_cycles` (memory instructions), `issue.order`
    * `launch.kernel_us`, `.latency_us`, `.interval_us`, `.block_cycles.THREADS`, `.turnover_cycles`, `.warp_delay_cycles`
    * `memory.l1_latency_cycles`, `.l2_latency_cycles`, `.l2_far_latency_cycles`, `.l2_far_share`, `.dram_latency_cycles`,
      `.footprints`, `.timing_cycles`
    * `memory.contention` (a, b, c of V 6.4), `.contention_curve`, `.quantiles` (V 6.6), `.loaded.R_W` (latency under a mix)
    * `memory.bandwidth_gbs.KERNEL`, `memory.occupancy.KERNEL`
    * `atomics.SPREAD.interval_cycles`, `atomics.latency_cycles`

    Raises:
        RecordError: a table is damaged.
    """
    tables = record.tables
    found: dict[str, Value] = {}
    for name, function in (
        ("clocks", core_values.clock),
        ("chains", core_values.chains),
        ("barriers", core_values.barriers),
        ("memory_issue", core_values.memory_issue),
        ("issue_order", core_values.issue_order),
        ("launches", core_values.launches),
        ("turnover", core_values.turnover),
        ("warp_starts", core_values.warp_starts),
        ("levels", memory_values.levels),
        ("single_loads", memory_values.single_loads),
        ("l2_halves", memory_values.l2_halves),
        ("stream_chase", memory_values.stream_chase),
        ("stream_chase_samples", memory_values.quantiles),
        ("loaded", memory_values.loaded),
        ("streams", memory_values.streams),
        ("atomics", core_values.atomics),
    ):
        if name in tables and tables[name].rows:
            try:
                _check_columns(name, tables[name])
                _check_numbers(tables[name])
                with np.errstate(all="ignore"):  # what comes of it is checked
                    values = function(record, found)
                _check_values(values)
            except ValueError as error:
                raise RecordError(f"table {name}: it cannot be evaluated: {error}") from error
            except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
                raise RecordError(f"table {name}: it cannot be evaluated: {error!r}") from error
            found |= values
    return found


def _check_columns(name: str, table: Table) -> None:
    """Refuses a table with other columns, or in another order.

    Raises:
        ValueError: with the columns.
    """
    if list(table.units) != COLUMNS[name].split():
        raise ValueError(f"columns = {' '.join(table.units)}: must be {COLUMNS[name]}")


def _check_numbers(table: Table) -> None:
    """Refuses words among numbers and the reverse, and numbers that no measurement gives; differences of times may be negative.

    Raises:
        ValueError: with the row and the column.
    """
    for place, column in enumerate(table.units):
        least = -MOST if column == "delay" or column.startswith("q") else 0
        for number, row in enumerate(table.rows, 1):
            value = row[place]
            is_right = column in _WORDS if isinstance(value, str) else column not in _WORDS and least <= value <= MOST
            if not is_right:
                allowed = "a word" if column in _WORDS else f"a number from {least:g} to {MOST:g}"
                raise ValueError(f"row {number}: {column} = {format_value(value)}: must be {allowed}")


def _check_values(values: Mapping[str, Value]) -> None:
    """Refuses values that are not finite, and rates that are not above zero.

    Raises:
        ValueError: with the name of the value.
    """
    for name, value in values.items():
        if isinstance(value.value, float) and not np.isfinite(value.value):
            raise ValueError(f"{name} = {value.value}: must be finite")
        if value.unit in ("GB/s", "GHz") and not value.value > 0:
            raise ValueError(f"{name} = {value.value:g} {value.unit}: must be above 0")


def lines(values: Mapping[str, Value]) -> Iterator[str]:
    """Yields the single numbers as lines of text: name, value, unit; curves are left out."""
    for name, value in values.items():
        if not isinstance(value.value, list):
            yield f"{name} = {value.value} {value.unit}".rstrip()
