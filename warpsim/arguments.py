"""Checks of arguments. Each error names the argument, its value and what is allowed."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import SupportsFloat, SupportsIndex


class InvalidPoint(ValueError):  # noqa: N818, a state of a point rather than an error of the program
    """The chip cannot hold the launch, such as its warps or registers, or lacks what the kernel or an option needs."""


class NoWholeBlocks(InvalidPoint):
    """The chip could hold as many warps, but no number of equal blocks has them."""


class DeadlockError(ValueError):
    """Warps of a block wait at different barriers, or at one that not all of them reach."""


def integer(name: str, value: object, least: int = 1, most: int | None = None, *, alternatives: str = "", of: str = "") -> int:
    """Checks an integer; numpy's integers are allowed, booleans are not.

    Args:
        name: the argument, for the message.
        value: what was given.
        least: the smallest allowed value.
        most: the largest allowed value; None: no limit.
        alternatives: other allowed values, for the message, such as "True, False or ".
        of: the chip whose limit `most` is; a value above it is an `InvalidPoint`.

    Raises:
        TypeError: the value is no integer.
        ValueError: the value is out of range.
    """
    allowed = f"{alternatives}an integer from {least}" + ("" if most is None else f" to {most}") + (f" on {of}" if of else "")
    if isinstance(value, bool) or not isinstance(value, int | SupportsIndex):  # int is checked first, as it is faster
        raise TypeError(f"{name} = {value!r}: must be {allowed}")
    try:
        number = operator.index(value)
    except TypeError:  # an array
        raise TypeError(f"{name} = {value!r}: must be {allowed}") from None
    if number < least or (most is not None and number > most):
        raise (InvalidPoint if of and number > least else ValueError)(f"{name} = {number}: must be {allowed}")
    return number


def choice(name: str, value: object, allowed: Collection[str]) -> str:
    """Returns the allowed word that is meant; upper and lower case are the same.

    Raises:
        TypeError: the value is no text.
        ValueError: the value is not among the allowed ones.
    """
    words = ", ".join(allowed)
    if not isinstance(value, str):
        raise TypeError(f"{name} = {value!r}: must be one of {words}")
    found = value if value in allowed else next((word for word in allowed if word.lower() == value.lower()), None)
    if found is None:
        raise ValueError(f"{name} = {value!r}: must be one of {words}{did_you_mean(value, allowed)}")
    return found


def check_fraction(fraction: object) -> None:
    """Checks a fraction of a throughput.

    Raises:
        TypeError: the fraction is no number.
        ValueError: the fraction is not above 0 and at most 1.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, SupportsFloat):
        raise TypeError(f"fraction = {fraction!r}: must be a number above 0 and at most 1")
    if not 0.0 < float(fraction) <= 1.0:
        raise ValueError(f"fraction = {fraction!r}: must be above 0 and at most 1")


def spans(numbers: Iterable[int], separator: str = ", ") -> str:
    """Writes ascending integers as spans, such as "1-16, 18, 20"."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return separator.join(str(low) if low == high else f"{low}-{high}" for low, high in found)


@contextmanager
def refusing_malformed(what: str, *, any_type: bool = False) -> Iterator[None]:
    """Turns what malformed data cause in code that reads them into a ValueError: entries that are missing or nested too deeply.

    Args:
        what: what is read, for the message.
        any_type: whether a TypeError means malformed data as well, as where no caller can give a wrong type.
    """
    try:
        yield
    except RecursionError:
        raise ValueError(f"{what}: is nested too deeply") from None
    except KeyError as error:
        raise ValueError(f"{what}: lacks {shortened(error)}; is it of another version?") from None
    except (AttributeError, IndexError, OverflowError, MemoryError, ZeroDivisionError, UnicodeError) as error:
        raise ValueError(f"{what}: has a wrong entry ({type(error).__name__}: {shortened(error)})") from None
    except TypeError as error:
        if not any_type:
            raise
        raise ValueError(f"{what}: has an entry of a wrong type ({shortened(error)})") from None


def shortened(value: object, most: int = 200) -> str:
    """Returns a value as text, cut to a number of characters."""
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Returns ", did you mean ...?" with what an unknown word may stand for; empty if no word is close.

    That is one that differs by a letter, or else those of which it is the first part, or else the closest one.
    """
    known = list(words)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.9)
    close = close or [one for one in known if word and one.startswith(f"{word}_")] or difflib.get_close_matches(word, known, n=1)
    return f", did you mean {' or '.join(map(repr, close[:3]))}?" if close else ""
