"""Occupancies given in words, such as "multiples of schedulers up to the chip's limit", which each chip resolves for itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warpsim.hardware.gpu import Gpu

DERIVABLE = ("warps", "warps_per_scheduler", "block_warps")
"""Settings that may be given in words."""

_WORDS = re.compile(
    r"(?:all|powers of 2|multiples of (?P<unit>schedulers|[1-9]\d*)) up to (?:the chip's limit|(?P<last>[1-9]\d*))"
)

ALLOWED = "'all', 'powers of 2', 'multiples of schedulers' or 'multiples of N', then 'up to the chip's limit' or 'up to N'"


def derived_values(name: str, words: str, gpu: Gpu) -> list[int]:
    """Returns the values that the words select on one chip, in ascending order.

    Raises:
        ValueError: the words are not understood.
    """
    match = _WORDS.fullmatch(words)
    if not match:
        raise ValueError(f"{name} = {words!r}: must be {ALLOWED}")
    last = limit = _limit(name, gpu)
    if match["last"]:
        last = min(int(match["last"]), limit)
    if match["unit"]:
        step = gpu.sm.schedulers if match["unit"] == "schedulers" else int(match["unit"])
        values = list(range(step, last + 1, step))
    else:
        values = list(range(1, last + 1))
    if words.startswith("powers"):
        values = [value for value in values if value & (value - 1) == 0]
    return values


def derived_union(name: str, words: str, gpus: Iterable[Gpu]) -> list[int]:
    """Returns the values that the words select on at least one of the chips, in ascending order.

    Raises:
        ValueError: the words are not understood, or select no value.
    """
    values = sorted({value for gpu in gpus for value in derived_values(name, words, gpu)})
    if not values:
        raise ValueError(f"{name} = {words!r}: selects no value on these chips")
    return values


def _limit(name: str, gpu: Gpu) -> int:
    if name == "block_warps":
        return gpu.sm.max_block_warps
    return gpu.sm.max_warps // gpu.sm.schedulers if name == "warps_per_scheduler" else gpu.sm.max_warps
