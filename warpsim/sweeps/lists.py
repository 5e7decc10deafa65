"""Lists of tiles as text, such as 0-9,12."""

from __future__ import annotations

from collections.abc import Iterable


def tiles_text(tiles: Iterable[int]) -> str:
    """Tiles as text: numbers and ranges, ascending."""
    ranges: list[list[int]] = []
    for tile in sorted(tiles):
        if ranges and tile == ranges[-1][1] + 1:
            ranges[-1][1] = tile
        else:
            ranges.append([tile, tile])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def tiles_of(text: str, number: int | None = None) -> list[int]:
    """The tiles that a text names.

    Args:
        text: numbers and ranges.
        number: how many tiles there are, where that is known.

    Raises:
        ValueError: the text is no such list, or there is no such tile.
    """
    tiles: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise ValueError(f"tiles {text.strip()[:60]}: must be numbers and ranges, such as 0-9,12")
        if number is not None and int(last) >= number:
            raise ValueError(f"tiles {part}: must be from 0 to {number - 1}")
        tiles += range(int(first), int(last) + 1)
    return tiles
