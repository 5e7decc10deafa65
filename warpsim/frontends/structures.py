"""Members of structures that kernels take as parameters: their names and places, by what the compiler says to debuggers.

So the layout is the compiler's own, with templates, names of types, base classes, unions and types of CUDA such as `int4`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from warpsim.frontends.cubin import BITS, NUMBER, POINTER, Parameter
from warpsim.frontends.debug_info import Entry, debug_entries
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.sass import MachineFunction

_ARRAY, _ENUM, _PARAMETER, _MEMBER, _POINTER, _UNION, _BASE = 0x01, 0x04, 0x05, 0x0D, 0x0F, 0x17, 0x1C
_RANGE, _NUMBER, _FUNCTION = 0x21, 0x24, 0x2E
_STRUCTURES = (0x02, 0x13, _UNION)
_OTHER_NAMES = (0x16, 0x26, 0x35, 0x37)
"""Tags of entries: classes, structures and unions; and typedefs, const, volatile and restrict, which stand for another type."""

_NAME, _BYTES, _ABOVE, _BITS, _LAST, _COUNT, _LOCATION, _ENCODING, _TYPE = 0x03, 0x0B, 0x0C, 0x0D, 0x2F, 0x37, 0x38, 0x3E, 0x49
_SYMBOLS = (0x6E, 0x2007)
"""Attributes of entries; _ABOVE: bits of its storage above a bit field; the last two: names of a function in the machine code."""

_PLUS = 0x23
"""The operation of a location that adds a constant to the place of the structure."""

_FLOATING = 0x04
"""Encoding of floating-point numbers; those of others that have a size of 1 to 8 bytes are integers."""

_SIZES = (1, 2, 4, 8)
"""Bytes of a number."""

_BUILT_IN = re.compile(r"u?(?:char|short|int|long|longlong|float|double)[1-4]|dim3")
"""CUDA's own structures."""


def may_have_structures(function: MachineFunction, types: Iterable[str], sources: Iterable[str]) -> bool:
    """Returns whether a parameter of a kernel is a structure, by its size, or by the names of the types in its declaration."""
    if any(one.size not in _SIZES for one in function.parameters):
        return True
    texts = list(sources)
    return any(_BUILT_IN.fullmatch(name) or any(_defines(text, name) for text in texts) for name in set(types))


def _defines(source: str, name: str) -> bool:
    """Returns whether a source defines a structure of a name."""
    head = rf"\b(?:struct|class|union)\b[^;{{}}]*?\b{name}\s*(?:final\s*)?[:{{]"
    return re.search(rf"{head}|\}}\s*{name}\s*;", source) is not None


def with_members(function: MachineFunction, cubin: bytes) -> MachineFunction:
    """Returns a kernel whose parameters have the members that a cubin for debuggers of the same source names.

    Members are named as in the source, such as `p.x`, `p.box.low[2]`. Numbers of more than 8 bytes are left out.

    Raises:
        FrontEndError: what the cubin says to debuggers is damaged.
    """
    entries = debug_entries(cubin)
    symbols = ((entry, {entry.attributes.get(name) for name in _SYMBOLS}) for entry in entries.values() if entry.tag == _FUNCTION)
    declared = next((entry.children for entry, names in symbols if function.name in names), [])
    declared = [each for each in declared if each.tag == _PARAMETER]
    if len(declared) != len(function.parameters):
        return function
    pairs = zip(function.parameters, declared, strict=True)
    return replace(function, parameters=tuple(_with_its_members(one, each, entries) for one, each in pairs))


def _with_its_members(one: Parameter, declared: Entry, entries: Mapping[int, Entry]) -> Parameter:
    """Returns a parameter with its members, if it is a structure of the size that its declaration says."""
    kind = _type(declared, entries)
    if kind.tag not in _STRUCTURES or kind.attributes.get(_BYTES) != one.size:
        return one
    name = one.name or str(declared.attributes.get(_NAME, ""))
    try:
        return replace(one, name=name, members=tuple(_numbers(kind, one.offset, name, entries)))
    except FrontEndError:
        return replace(one, name=name)


def _type(entry: Entry, entries: Mapping[int, Entry]) -> Entry:
    """Returns the type of an entry, without the other names that it has."""
    reference = entry.attributes.get(_TYPE)
    kind = entries.get(reference) if isinstance(reference, int) else None
    if kind is None:
        raise FrontEndError(f".debug_info: an entry has no type at {reference!r}")
    return _type(kind, entries) if kind.tag in _OTHER_NAMES else kind


def _numbers(kind: Entry, offset: int, name: str, entries: Mapping[int, Entry]) -> Iterator[Parameter]:
    """Yields the numbers and pointers of a type that begins so many bytes behind the first parameter."""
    if kind.tag in _STRUCTURES:
        for member in kind.children:
            yield from _numbers_of_member(member, offset, name, entries)
    elif kind.tag == _ARRAY:
        element = _type(kind, entries)
        numbers = list(_numbers(element, 0, "", entries))
        for number, index in enumerate(_indices(kind)):
            at = offset + number * _size(element, entries)
            yield from (replace(one, offset=at + one.offset, name=f"{name}{index}{one.name}") for one in numbers)
    elif (size := _size(kind, entries)) in _SIZES:
        integer = kind.tag == _ENUM or (kind.tag == _NUMBER and kind.attributes.get(_ENCODING) != _FLOATING)
        yield Parameter(offset, size, name, integer, kind=POINTER if kind.tag == _POINTER else NUMBER)


def _numbers_of_member(member: Entry, offset: int, name: str, entries: Mapping[int, Entry]) -> Iterator[Parameter]:
    """Yields those of a member or a base class of a structure; none of static members and tables of functions."""
    own = str(member.attributes.get(_NAME, ""))
    if member.tag not in (_MEMBER, _BASE) or _LOCATION not in member.attributes or own.startswith(("__vptr", "_vptr")):
        return
    inner = f"{name}.{own}" if own and member.tag == _MEMBER else name
    if _BITS in member.attributes:
        first, size = _bytes_of_bits(member)
        yield Parameter(offset + _place(member) + first, size, inner, kind=BITS)
    else:
        yield from _numbers(_type(member, entries), offset + _place(member), inner, entries)


def _bytes_of_bits(member: Entry) -> tuple[int, int]:
    """Returns how many bytes behind the begin of its storage a bit field begins, and to how many bytes it belongs."""
    storage, above, bits = (member.attributes.get(name) for name in (_BYTES, _ABOVE, _BITS))
    if not isinstance(storage, int) or not isinstance(above, int) or not isinstance(bits, int):
        raise FrontEndError(".debug_info: a bit field has no place")
    first = 8 * storage - above - bits
    return first // 8, (first % 8 + bits + 7) // 8


def _place(member: Entry) -> int:
    """Returns how many bytes behind the beginning of its structure a member begins."""
    location = member.attributes[_LOCATION]
    if isinstance(location, int):
        return location
    if not isinstance(location, bytes) or location[:1] != bytes([_PLUS]):
        raise FrontEndError(f".debug_info: {location!r} is no constant place of a member")
    return sum((byte & 127) << 7 * number for number, byte in enumerate(location[1:]))


def _indices(array: Entry) -> list[str]:
    """Returns the indices of an array's elements in their order, such as "[0]" or "[1][2]"."""
    found = [""]
    for one in array.children:
        if one.tag == _RANGE:
            last = one.attributes.get(_LAST, -1)
            count = one.attributes.get(_COUNT, last + 1 if isinstance(last, int) else 0)
            found = [f"{before}[{n}]" for before in found for n in range(count if isinstance(count, int) else 0)]
    return found


def _size(kind: Entry, entries: Mapping[int, Entry]) -> int:
    """Returns the bytes of a type."""
    if kind.tag == _POINTER:
        return 8
    if kind.tag == _ARRAY:
        return len(_indices(kind)) * _size(_type(kind, entries), entries)
    size = kind.attributes.get(_BYTES, 0)
    return size if isinstance(size, int) else 0
