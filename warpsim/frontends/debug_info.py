"""What a cubin for debuggers says of types: entries of its section .debug_info (DWARF 2 to 4).

NVRTC writes DWARF 2 with `--device-debug`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from warpsim.frontends.cubin import section_data
from warpsim.frontends.errors import FrontEndError

Attributes = dict[int, int | str | bytes]
"""Number of an attribute -> its value; references are places in the section."""

_INTEGERS = {0x01: "Q", 0x05: "H", 0x06: "I", 0x07: "Q", 0x0B: "B", 0x0C: "B", 0x17: "I"}
_REFERENCES = {0x11: "B", 0x12: "H", 0x13: "I", 0x14: "Q"}
_BLOCKS = {0x03: "H", 0x04: "I", 0x0A: "B"}
"""Form of an attribute -> format of its value, of its distance from the beginning of its unit, or of its length in bytes."""

_STRING, _STRING_AT, _UNSIGNED, _SIGNED = 0x08, 0x0E, 0x0F, 0x0D
_BLOCK, _EXPRESSION, _PLACE, _REFERENCE, _PRESENT = 0x09, 0x18, 0x10, 0x15, 0x19
"""Other forms: a text, its place in .debug_str, numbers of any length; bytes with such a number before them, the place of an
entry, its distance from the beginning of its unit, and a flag that is set."""

_OLDEST, _NEWEST = 2, 4


@dataclass
class Entry:
    """An entry: its tag, its attributes, and the entries that belong to it."""

    tag: int
    attributes: Attributes
    children: list[Entry] = field(default_factory=list)


@dataclass
class _Reader:
    """Reads a section from a place on."""

    data: bytes
    place: int = 0

    def number(self, form: str) -> int:
        """Returns a number of a fixed size."""
        (value,) = struct.unpack_from(f"<{form}", self.data, self.place)
        self.place += struct.calcsize(f"<{form}")
        return int(value)

    def bytes(self, size: int) -> bytes:
        """Returns so many bytes."""
        if self.place + size > len(self.data):
            raise IndexError("a section ends too early")
        self.place += size
        return self.data[self.place - size : self.place]

    def unsigned(self) -> int:
        """Returns a number of as many bytes as it needs, seven bits in each (LEB128)."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        """Returns such a number with a sign."""
        before = self.place
        value, bits = self.unsigned(), 7 * (self.place - before)
        return value - (value >> (bits - 1) << bits)

    def text(self) -> str:
        """Returns a text that ends with a zero."""
        end = self.data.index(b"\0", self.place)
        begin, self.place = self.place, end + 1
        return self.data[begin:end].decode()


def debug_entries(cubin: bytes) -> dict[int, Entry]:
    """Returns place in .debug_info -> entry, of a cubin for debuggers; empty where it has no such section.

    Raises:
        FrontEndError: the section is damaged, or of another version.
    """
    info, abbreviations, strings = section_data(cubin, (".debug_info", ".debug_abbrev", ".debug_str"))
    found: dict[int, Entry] = {}
    reader = _Reader(info)
    try:
        while reader.place < len(info):
            begin = reader.place
            end = begin + 4 + reader.number("I")
            version, at, _ = reader.number("H"), reader.number("I"), reader.number("B")
            if not _OLDEST <= version <= _NEWEST:
                raise FrontEndError(f".debug_info: is of version {version} of DWARF; versions {_OLDEST} to {_NEWEST} are read")
            kinds = _abbreviations(_Reader(abbreviations, at))
            found |= _entries_of_unit(reader, begin, end, kinds, strings)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, ValueError) as error:
        raise error if isinstance(error, FrontEndError) else FrontEndError(f".debug_info: is damaged: {error}") from None
    return found


_Kinds = dict[int, tuple[int, bool, list[tuple[int, int]]]]
"""Number of a kind of entry -> tag, whether entries belong to it, and (attribute, form) of each value."""


def _abbreviations(reader: _Reader) -> _Kinds:
    """Returns the kinds of entries of a unit."""
    found: _Kinds = {}
    while number := reader.unsigned():
        tag, has_children = reader.unsigned(), bool(reader.number("B"))
        pairs = iter(lambda: (reader.unsigned(), reader.unsigned()), (0, 0))
        found[number] = (tag, has_children, list(pairs))
    return found


def _entries_of_unit(reader: _Reader, begin: int, end: int, kinds: _Kinds, strings: bytes) -> dict[int, Entry]:
    """Returns place -> entry, of the unit that begins at a place."""
    found: dict[int, Entry] = {}
    open_entries: list[Entry] = []
    while reader.place < end:
        place = reader.place
        if not (number := reader.unsigned()):
            if open_entries:
                open_entries.pop()
            continue
        tag, has_children, forms = kinds[number]
        entry = found[place] = Entry(tag, {name: _value(reader, form, begin, strings) for name, form in forms})
        if open_entries:
            open_entries[-1].children.append(entry)
        if has_children:
            open_entries.append(entry)
    return found


def _value(reader: _Reader, form: int, begin: int, strings: bytes) -> int | str | bytes:
    """Returns a value of a form, in the unit that begins at a place."""
    if form in _INTEGERS:
        return reader.number(_INTEGERS[form])
    if form in _REFERENCES:
        return begin + reader.number(_REFERENCES[form])
    if form in _BLOCKS:
        return reader.bytes(reader.number(_BLOCKS[form]))
    others: dict[int, Callable[[], int | str | bytes]] = {
        _STRING: reader.text,
        _SIGNED: reader.signed,
        _STRING_AT: lambda: _Reader(strings, reader.number("I")).text(),
        _UNSIGNED: reader.unsigned,
        _PLACE: lambda: reader.number("I"),
        _REFERENCE: lambda: begin + reader.unsigned(),
        _BLOCK: lambda: reader.bytes(reader.unsigned()),
        _EXPRESSION: lambda: reader.bytes(reader.unsigned()),
        _PRESENT: lambda: 1,
    }
    return others[form]()
