"""What was measured: tables of raw numbers, with their provenance, as a folder of text files.

A record is a folder with `record.toml` (device, software, date, the kernels' digests) and one CSV for each table. It is text
so that it can be checked in, compared line by line, and read without this package; the tables are small (below 2 MB in all).
A CSV begins with lines of comments: what the table holds, the unit of each column, and the number of rows.
"""

from __future__ import annotations

import csv
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from warpsim.atomic_file import atomic_write
from warpsim.hardware.files import toml_value
from warpsim.measure.head import faults

FORMAT = 1
"""Version of the files' layout."""

_ROWS = "rows written"
"""Name of the comment that tells the number of rows; the tables of older records have none."""

Row = tuple[int | float | str, ...]
"""Values in the order of a table's columns."""


class RecordError(ValueError):
    """A folder is no record, or a file of it is damaged; the message names the file."""


@dataclass(frozen=True)
class Table:
    """Numbers and words by column.

    Attributes:
        about: what a row is, in one or two sentences.
        units: column -> its unit; "" for words and plain numbers. The order is that of the columns.
        rows: one tuple for each row, in the order of the columns.
    """

    about: str
    units: Mapping[str, str]
    rows: Sequence[Row]

    def column(self, name: str) -> NDArray[Any]:
        """Returns a column as an array of integers, floats or strings.

        Raises:
            KeyError: there is no such column.
        """
        place = list(self.units).index(name) if name in self.units else -1
        if place < 0:
            raise KeyError(f"column = {name!r}: one of {', '.join(self.units)}")
        return np.array([row[place] for row in self.rows])

    def where(self, **wanted: int | float | str) -> Self:
        """Returns the table of the rows whose columns have these values."""
        places = {list(self.units).index(name): value for name, value in wanted.items()}
        rows = [row for row in self.rows if all(row[place] == value for place, value in places.items())]
        return type(self)(self.about, self.units, rows)

    def values(self, name: str) -> list[Any]:
        """Returns the different values of a column, in ascending order."""
        return sorted({row[list(self.units).index(name)] for row in self.rows})


@dataclass
class Record:
    """Metadata and tables of one session of measurement.

    Attributes:
        metadata: nested dict of strings, numbers and lists: `device`, `software`, `run`, and `kernels` with the digest of
            each source.
        tables: by name.
    """

    metadata: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes the record; the folder is made, and files of the same names are replaced.

        All files are written before the first one is replaced, and the head is the last, so that an interruption leaves a record.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        head = {"format": FORMAT, "tables": sorted(self.tables), **self.metadata}
        with ExitStack() as stack:  # files get to their places in the reverse order
            path = stack.enter_context(atomic_write(place / "record.toml"))
            Path(path).write_text("\n".join(_toml(head)) + "\n", encoding="utf-8")
            for name, table in self.tables.items():
                path = stack.enter_context(atomic_write(place / f"{name}.csv"))
                with open(path, "w", encoding="utf-8", newline="") as file:
                    file.write(f"# {table.about}\n")
                    file.writelines(f"# {column}: {unit}\n" for column, unit in table.units.items() if unit)
                    file.write(f"# {_ROWS}: {len(table.rows)}\n")
                    writer = csv.writer(file, lineterminator="\n")
                    writer.writerow(table.units)
                    writer.writerows(table.rows)


def read_record(folder: str | os.PathLike[str]) -> Record:
    """Reads a record that `Record.write` wrote.

    Raises:
        RecordError: a file is missing or damaged.
    """
    place = Path(folder)
    path = place / "record.toml"
    try:
        head = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not TOML, numbers that Python does not read
        raise RecordError(f"{path}: not the head of a record: {error}") from error
    if head.pop("format", None) != FORMAT:
        raise RecordError(f"{path}: format: {FORMAT} is the only one known")
    names = head.pop("tables", None)
    if not isinstance(names, list) or not all(isinstance(name, str) and re.fullmatch(r"\w+", name) for name in names):
        raise RecordError(f"{path}: tables: the names of the tables are missing")
    if wrong := faults(path, head):
        raise RecordError("\n".join(wrong))
    return Record(head, {name: _read_table(place / f"{name}.csv") for name in names})


def _read_table(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = text.splitlines()
        body = list(csv.reader(line for line in lines if not line.startswith("#")))
    except (OSError, ValueError, csv.Error) as error:
        raise RecordError(f"{path}: not a table: {error}") from error
    comments = [line.removeprefix("# ") for line in lines if line.startswith("#")]
    if not comments or not body:
        raise RecordError(f"{path}: not a table: comments, a head and rows")
    if not text.endswith("\n"):
        raise RecordError(f"{path}: the last line is cut off")
    columns, *rows = body
    if len(set(columns)) < len(columns):
        raise RecordError(f"{path}: columns = {', '.join(columns)}: each must have a name of its own")
    counts = [comment.removeprefix(f"{_ROWS}: ") for comment in comments if comment.startswith(f"{_ROWS}: ")]
    if counts and counts[-1] != str(len(rows)):
        raise RecordError(f"{path}: rows = {len(rows)}: {counts[-1]} were written")
    units = dict.fromkeys(columns, "")
    for comment in comments[1:]:
        name, _, unit = comment.partition(": ")
        if name in units:
            units[name] = unit
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            raise RecordError(f"{path}: row {number} has {len(row)} values: {len(columns)}")
        if not all(math.isfinite(value) for value in map(_value, row) if isinstance(value, float)):
            raise RecordError(f"{path}: row {number} has a value that is not finite")
    return Table(comments[0], units, [tuple(map(_value, row)) for row in rows])


def _value(word: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _toml(data: Mapping[str, Any], place: str = "") -> list[str]:
    """Returns the lines of a nested dict of strings, numbers, booleans and lists of them; tables come last."""
    lines = [
        f"{_key(key)} = {toml_value(value)}" for key, value in data.items() if not isinstance(value, Mapping)
    ]
    for key, value in data.items():
        if isinstance(value, Mapping):
            name = f"{place}.{_key(key)}" if place else _key(key)
            lines += ["", f"[{name}]", *_toml(value, name)]
    return lines


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else toml_value(key)
