"""Finds the loops in what a warp executed: repetitions become loops, and repetitions of loops become loops around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_CANDIDATES = 4
"""Earlier places of an item from which on a repetition is looked for."""

_LONGEST = 4096
"""Items of a loop's body, at most."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A body that is repeated: items are numbers of instructions, or loops."""

    body: tuple[Item, ...]
    trips: int


Item = int | Repeated


def fold(path: Sequence[int], *, exact: bool = True) -> tuple[Item, ...]:
    """Returns what a warp executed, with repetitions as loops.

    Args:
        path: numbers of instructions.
        exact: whether the result stands for the same instructions in the same order. Otherwise loops with the same body count as
            the same, and have the mean number of trips.
    """
    found = _Folder(exact)
    for item in path:
        found.add(item)
    return tuple(found.item(number) for number in found.out)


def length(items: tuple[Item, ...]) -> int:
    """Returns the number of statements that folded items make, with the loops themselves."""
    return sum(1 if isinstance(item, int) else 1 + length(item.body) for item in items)


class _Folder:
    """Gives equal items equal numbers, so that they compare fast, and folds the end of the list whenever it repeats itself."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.numbers: dict[int | tuple[tuple[int, ...], int], int] = {}
        self.plain: dict[int, int] = {}  # number -> instruction
        self.bodies: dict[int, tuple[int, ...]] = {}  # number of a loop -> numbers of its body
        self.trips: dict[int, list[int]] = {}  # number of a loop -> sum of the trips, number of the times that it was entered
        self.ends: dict[int, set[int]] = {}  # number -> lengths of the bodies of loops that end with it
        self.out: list[int] = []
        self.places: dict[int, list[int]] = {}

    def add(self, item: int) -> None:
        """Adds an instruction."""
        if item not in self.numbers:
            self.plain[len(self.numbers)] = item
            self.numbers[item] = len(self.numbers)
        self._push(self.numbers[item])
        while self._continues_a_loop() or self._repeats():
            pass

    def item(self, number: int) -> Item:
        """Returns the item with a number."""
        if number in self.plain:
            return self.plain[number]
        trips, entries = self.trips[number]
        return Repeated(tuple(self.item(one) for one in self.bodies[number]), max(1, round(trips / entries)))

    def _push(self, number: int) -> None:
        self.places.setdefault(number, []).append(len(self.out))
        self.out.append(number)

    def _cut(self, length: int) -> None:
        for number in self.out[length:][::-1]:
            self.places[number].pop()
        del self.out[length:]

    def _loop(self, body: tuple[int, ...], trips: int) -> int:
        key = body, trips if self.exact else 0
        if key not in self.numbers:
            number = self.numbers[key] = len(self.numbers)
            self.bodies[number] = body
            self.trips[number] = [trips, 1] if self.exact else [0, 0]
            self.ends.setdefault(body[-1], set()).add(len(body))
        return self.numbers[key]

    def _continues_a_loop(self) -> bool:
        """Folds the end of the list if it is one more trip of the loop before it."""
        out, end = self.out, len(self.out)
        for period in self.ends.get(out[-1], ()):
            start = end - 1 - period
            if start < 0 or out[start] not in self.bodies:
                continue
            number, body = out[start], self.bodies[out[start]]
            if len(body) == period and out[start + 1 :] == list(body):
                if self.exact:
                    self._cut(start)
                    self._push(self._loop(body, self.trips[number][0] + 1))
                else:
                    self._cut(start + 1)
                    self.trips[number][0] += 1
                return True
        return False

    def _repeats(self) -> bool:
        """Folds the end of the list if it repeats what stands before it."""
        out, end = self.out, len(self.out)
        for place in self.places[out[-1]][-2 : -2 - MOST_CANDIDATES : -1]:
            period = end - 1 - place
            if period > _LONGEST or 2 * period > end or out[end - period :] != out[end - 2 * period : end - period]:
                continue
            body = tuple(out[end - period :])
            if not self.exact and period == 1 and body[0] in self.bodies:
                self._cut(end - 1)  # twice the same loop is one loop
                self.trips[body[0]][1] -= 1
                return True
            self._cut(end - 2 * period)
            number = self._loop(body, 2)
            self._push(number)
            if not self.exact:
                self.trips[number][0] += 2
                self.trips[number][1] += 1
            return True
        return False
