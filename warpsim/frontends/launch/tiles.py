"""Tiles of arrays: what a tensor map says of the copies that name it, as the caller states it.

A tile is written `tile:SHAPE:BOX:BYTES[:NAME]`, such as `tile:8192x4096:64x128:2:A`. SHAPE has the elements of the array by
dimension, the innermost one first, BOX those of a copy, and BYTES is the size of an element: these are arguments of
cuTensorMapEncodeTiled of the CUDA driver API. A dimension that is not dense has the bytes between two of its elements behind it,
such as `64x4096/16384x128/128`. Copies with the same NAME are of one array; without one, each instruction copies from its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.launch.keys import Key
from warpsim.frontends.values import UNKNOWN, Values, signed
from warpsim.units import LINE_BYTES

_FORM = re.compile(r"tile:(\d+(?:x\d+(?:/\d+)?){0,4}):(\d+(?:x\d+){0,4}):(\d+)(?::(\w+))?")
_MOST_BYTES = 2**43
_FIRST_ARRAY, _APART, _FIRST_NAME = 2**54, 2**44, 2**17
"""Addresses of the arrays: behind all pointers, and apart from each other; and the number of the first one that has a name."""


@dataclass(frozen=True)
class Tile:
    """What each copy by a tensor map moves.

    Attributes:
        shape: elements of the array by dimension, the innermost one first.
        strides: bytes between two elements of each dimension.
        box: elements of a copy by dimension.
        array: number of the array; None: each instruction has its own.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    array: int | None

    @property
    def bytes(self) -> int:
        """Bytes of a copy."""
        return math.prod(self.box) * self.strides[0]

    @cached_property
    def lines(self) -> Values:
        """Where the lines of a copy begin, int64[lines], in bytes from its first element."""
        row = np.arange(0, self.box[0] * self.strides[0], LINE_BYTES)
        for count, stride in zip(self.box[1:], self.strides[1:], strict=True):
            row = (np.arange(count)[:, None] * stride + row).ravel()
        return row

    def first(self, corner: tuple[Values, ...], instruction: int) -> Values:
        """Returns the addresses at which copies of an instruction begin, by their coordinates; UNKNOWN where one is not known."""
        known = reduce(np.logical_and, [place >= 0 for place in corner])
        place = sum(signed(place) * stride for place, stride in zip(corner, self.strides, strict=True))
        number = instruction if self.array is None else _FIRST_NAME + self.array
        return np.where(known, _FIRST_ARRAY + _APART * number + place, UNKNOWN)


def tiles_of(patterns: Mapping[Key, object]) -> dict[str, Tile]:
    """Returns the tiles among the patterns of accesses, by line or address.

    Raises:
        FrontEndError: a tile is not of the form above, or its box does not fit into its array.
    """
    found: dict[str, Tile] = {}
    arrays: dict[str, int] = {}
    for key, text in patterns.items():
        if isinstance(text, str) and text.startswith("tile"):
            array = arrays.setdefault(text.split(":")[4], len(arrays)) if text.count(":") > 3 else None
            found[str(key)] = _tile(text, array, f"patterns[{str(key)!r}] = {text!r}")
    return found


def _tile(text: str, array: int | None, where: str) -> Tile:
    form = _FORM.fullmatch(text)
    if form is None:
        raise FrontEndError(f"{where}: must be tile:SHAPE:BOX:BYTES, perhaps with a NAME, such as tile:8192x4096:64x128:2:A")
    shape, strides, size = [], [int(form[3])], int(form[3])
    for dimension in form[1].split("x"):
        count, _, stride = dimension.partition("/")
        shape.append(int(count))
        strides[len(shape) - 1 :] = [int(stride) if stride else size]
        size = int(count) * strides[-1]
    box = tuple(map(int, form[2].split("x")))
    if len(box) != len(shape) or not all(0 < part <= count for part, count in zip(box, shape, strict=True)):
        raise FrontEndError(f"{where}: the box must have as many dimensions as the array, each from 1 up to the array's")
    if min(strides) < 1 or max(size, *(a * b for a, b in zip(shape, strides, strict=True))) > _MOST_BYTES:
        raise FrontEndError(f"{where}: the array must have 1 to {_MOST_BYTES} bytes")
    return Tile(tuple(shape), tuple(strides), box, array)
