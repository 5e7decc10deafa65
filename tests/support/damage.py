"""Texts with random damage, for readers that must end in documented errors whatever they are given."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

Change = Callable[[list[str], int, random.Random], None]
"""Changes a line, given all lines, its number, and what draws."""


def damaged(text: str, draw: random.Random, *, characters: str, separator: str, others: Sequence[Change] = ()) -> str:
    """Returns a text with one to six changes.

    Lines are removed, repeated or exchanged, characters replaced, words reordered; or what the reader's own changes do.

    Args:
        text: a valid text.
        draw: decides.
        characters: what stands in the place of others.
        separator: between the words of a line.
        others: further changes, each as probable as any of these.
    """
    rows = text.split("\n")
    changes: list[Change] = [_remove, _repeat, _exchange, _retype(characters), _reorder(separator), *others]
    for _ in range(draw.randint(1, 6)):
        draw.choice(changes)(rows, draw.randrange(len(rows)), draw)
        rows = rows or [""]
    return "\n".join(rows)


def _remove(rows: list[str], at: int, draw: random.Random) -> None:
    del rows[at : at + draw.randint(1, 5)]


def _repeat(rows: list[str], at: int, draw: random.Random) -> None:
    rows.insert(at, draw.choice(rows))


def _exchange(rows: list[str], at: int, draw: random.Random) -> None:
    other = draw.randrange(len(rows))
    rows[at], rows[other] = rows[other], rows[at]


def _retype(characters: str) -> Change:
    def change(rows: list[str], at: int, draw: random.Random) -> None:
        place = draw.randrange(len(rows[at]) + 1)
        rows[at] = rows[at][:place] + draw.choice(characters) + rows[at][place + draw.randint(0, 2) :]

    return change


def _reorder(separator: str) -> Change:
    def change(rows: list[str], at: int, draw: random.Random) -> None:
        words = rows[at].split(separator)
        draw.shuffle(words)
        rows[at] = separator.join(words)

    return change
