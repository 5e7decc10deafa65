"""Derived axes: occupancies in words, such as "multiples of schedulers up to the chip's limit", chip by chip."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warpsim.hardware.gpu import Gpu

NAMES = ("warps", "warps_per_scheduler", "block_warps")
"""Settings that may be derived."""

_WORDS = re.compile(
    r"(?:all|powers of 2|multiples of (?P<unit>schedulers|[1-9]\d*)) up to (?:the chip's limit|(?P<last>[1-9]\d*))"
)

ALLOWED = "'all', 'powers of 2', 'multiples of schedulers' or 'multiples of N', then 'up to the chip's limit' or 'up to N'"


def derived(name: str, words: str, gpu: Gpu) -> list[int]:
    """The values that the words mean on one chip, ascending.

    Raises:
        ValueError: they mean nothing, or not one value.
    """
    found = _WORDS.fullmatch(words)
    if not found:
        raise ValueError(f"{name} = {words!r}: must be {ALLOWED}")
    last = limit = _limit(name, gpu)
    if found["last"]:
        last = min(int(found["last"]), limit)
    if found["unit"]:
        step = gpu.sm.schedulers if found["unit"] == "schedulers" else int(found["unit"])
        values = list(range(step, last + 1, step))
    else:
        values = list(range(1, last + 1))
    if words.startswith("powers"):
        values = [value for value in values if value & (value - 1) == 0]
    return values


def derived_on(name: str, words: str, gpus: Iterable[Gpu]) -> list[int]:
    """The values that the words mean on any of the chips, ascending.

    Raises:
        ValueError: they mean nothing, or not one value.
    """
    values = sorted({value for gpu in gpus for value in derived(name, words, gpu)})
    if not values:
        raise ValueError(f"{name} = {words!r}: is not one value on these chips")
    return values


def _limit(name: str, gpu: Gpu) -> int:
    if name == "block_warps":
        return gpu.sm.max_block_warps
    return gpu.sm.max_warps // gpu.sm.schedulers if name == "warps_per_scheduler" else gpu.sm.max_warps
