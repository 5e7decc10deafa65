"""Members of structures, as parameters of kernels and in constant memory: what the compiler says of them to debuggers.

So the layout is the compiler's own, with templates, names of types, base classes, unions and types of CUDA such as `int4`. It
stands in the section .debug_info of a cubin (DWARF 2 of NVRTC's `--device-debug`), which pyelftools reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from typing import Any

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.cubin import BITS, NUMBER, NUMBER_SIZES, POINTER, Parameter, Variable
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.symbols import plain_name
from warpsim.frontends.machine_code.variables_read import variables_read

Entry = Any
"""An entry of DWARF, `elftools.dwarf.die.DIE`: its tag, its attributes, and the entries that belong to it."""

_STRUCTURES = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")
_OTHER_NAMES = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")
"""Tags of entries that stand for another type."""

_SYMBOLS = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")
"""Attributes of a function that name it in the machine code."""

_PLUS = 0x23
"""The operation of a location that adds a constant to the place of the structure."""

_FLOATING = 0x04
"""Encoding of floating-point numbers; those of others that have a size of 1 to 8 bytes are integers."""

_MOST_NUMBERS = 512
"""Numbers in a variable, at most, that have names of their own."""

_BUILT_IN = re.compile(r"u?(?:char|short|int|long|longlong|float|double)[1-4]|dim3")
"""CUDA's own structures."""


def may_have_structures(function: MachineFunction, types: Iterable[str], sources: Iterable[str]) -> bool:
    """Returns whether a parameter of a kernel is a structure, by its size, or by the names of the types in its declaration."""
    if any(one.size not in NUMBER_SIZES for one in function.parameters):
        return True
    texts = list(sources)
    return any(_BUILT_IN.fullmatch(name) or any(_defines(text, name) for text in texts) for name in set(types))


def _defines(source: str, name: str) -> bool:
    """Returns whether a source defines a structure of a name."""
    head = rf"\b(?:struct|class|union)\b[^;{{}}]*?\b{name}\s*(?:final\s*)?[:{{]"
    return re.search(rf"{head}|\}}\s*{name}\s*;", source) is not None


def with_members(function: MachineFunction, cubin: bytes) -> MachineFunction:
    """Returns a kernel whose parameters have the members that a cubin for debuggers of the same source names.

    Members are named as in the source, such as `p.x`, `p.box.low[2]`. Numbers of more than 8 bytes are left out. Variables
    in constant memory that are structures or arrays are replaced by their members and elements.

    Raises:
        FrontEndError: what the cubin says to debuggers cannot be read.
    """
    try:
        entries = _entries(cubin)
        function = replace(function, variables=variables_read(function, _numbers_of_variables(function.variables, entries)))
        declared = _declared(entries, function.name)
        if len(declared) != len(function.parameters):
            return function
        pairs = zip(function.parameters, declared, strict=True)
        return replace(function, parameters=tuple(_with_its_members(one, each) for one, each in pairs))
    except FrontEndError:
        raise
    except Exception as error:  # of pyelftools, which raises many types
        raise FrontEndError(f".debug_info: cannot be read: {type(error).__name__}: {error}") from error


def _entries(cubin: bytes) -> list[Entry]:
    """Returns all entries of a cubin."""
    from elftools.elf.elffile import ELFFile

    units = ELFFile(BytesIO(cubin)).get_dwarf_info(relocate_dwarf_sections=False).iter_CUs()
    return [entry for unit in units for entry in unit.iter_DIEs()]


def _declared(entries: Iterable[Entry], name: str) -> list[Entry]:
    """Returns the entries of a kernel's parameters; none where it has no entry."""
    for entry in entries:
        if entry.tag == "DW_TAG_subprogram" and name in (_text(entry, symbol) for symbol in _SYMBOLS):
            return [each for each in entry.iter_children() if each.tag == "DW_TAG_formal_parameter"]
    return []


def _numbers_of_variables(variables: Iterable[Variable], entries: Iterable[Entry]) -> Iterator[Variable]:
    """Yields variables with their types as declared: of structures and arrays, the numbers and pointers in them."""
    declared = {_text(entry, symbol): entry for entry in entries if entry.tag == "DW_TAG_variable" for symbol in _SYMBOLS}
    for one in variables:
        kind = _type(declared[one.name]) if one.name in declared else None
        numbers = [] if kind is None or _size(kind) != one.size else list(_numbers(kind, one.offset, plain_name(one.name)))
        if not 0 < len(numbers) <= _MOST_NUMBERS:
            numbers = [one]
        for each in numbers:
            begin = each.offset - one.offset
            value = one.value[begin : begin + each.size]
            yield Variable(each.offset, each.size, each.name, each.integer, each.signed, each.kind, value=value)


def _value(entry: Entry, name: str, otherwise: Any = None) -> Any:
    """Returns the value of an attribute, or another one where it is not there."""
    return entry.attributes[name].value if name in entry.attributes else otherwise


def _text(entry: Entry, name: str) -> str:
    return str(_value(entry, name, b"").decode())


def _with_its_members(one: Parameter, declared: Entry) -> Parameter:
    """Returns a parameter with its members, if it is a structure of the size that its declaration says."""
    kind = _type(declared)
    if kind.tag not in _STRUCTURES or _value(kind, "DW_AT_byte_size") != one.size:
        return one
    name = one.name or _text(declared, "DW_AT_name")
    try:
        return replace(one, name=name, members=tuple(_numbers(kind, one.offset, name)))
    except FrontEndError:
        return replace(one, name=name)


def _type(entry: Entry) -> Entry:
    """Returns the type of an entry, without the other names that it has."""
    kind = entry.get_DIE_from_attribute("DW_AT_type")
    return _type(kind) if kind.tag in _OTHER_NAMES else kind


def _numbers(kind: Entry, offset: int, name: str) -> Iterator[Parameter]:
    """Yields the numbers and pointers of a type that begins so many bytes behind the first parameter."""
    if kind.tag in _STRUCTURES:
        for member in kind.iter_children():
            yield from _numbers_of_member(member, offset, name)
    elif kind.tag == "DW_TAG_array_type":
        element = _type(kind)
        numbers = list(_numbers(element, 0, ""))
        for number, index in enumerate(_indices(kind)):
            at = offset + number * _size(element)
            yield from (replace(one, offset=at + one.offset, name=f"{name}{index}{one.name}") for one in numbers)
    elif (size := _size(kind)) in NUMBER_SIZES:
        of_numbers = kind.tag == "DW_TAG_base_type" and _value(kind, "DW_AT_encoding") != _FLOATING
        integer = kind.tag == "DW_TAG_enumeration_type" or of_numbers
        yield Parameter(offset, size, name, integer, kind=POINTER if kind.tag == "DW_TAG_pointer_type" else NUMBER)


def _numbers_of_member(member: Entry, offset: int, name: str) -> Iterator[Parameter]:
    """Yields those of a member or a base class of a structure; none of static members and tables of functions."""
    own, is_member = _text(member, "DW_AT_name"), member.tag == "DW_TAG_member"
    located = "DW_AT_data_member_location" in member.attributes
    if not (is_member or member.tag == "DW_TAG_inheritance") or not located or own.startswith(("__vptr", "_vptr")):
        return
    inner = f"{name}.{own}" if own and is_member else name
    if "DW_AT_bit_size" in member.attributes:
        first, size = _bytes_of_bits(member)
        yield Parameter(offset + _place(member) + first, size, inner, kind=BITS)
    else:
        yield from _numbers(_type(member), offset + _place(member), inner)


def _bytes_of_bits(member: Entry) -> tuple[int, int]:
    """Returns how many bytes behind the start of its storage a bit field begins, and to how many bytes it belongs."""
    storage, above, bits = (_value(member, f"DW_AT_{name}") for name in ("byte_size", "bit_offset", "bit_size"))
    if not isinstance(storage, int) or not isinstance(above, int) or not isinstance(bits, int):
        raise FrontEndError(".debug_info: a bit field has no place")
    first = 8 * storage - above - bits
    return first // 8, (first % 8 + bits + 7) // 8


def _place(member: Entry) -> int:
    """Returns how many bytes behind the beginning of its structure a member begins."""
    location = _value(member, "DW_AT_data_member_location")
    if isinstance(location, int):
        return location
    if location[:1] != [_PLUS]:
        raise FrontEndError(f".debug_info: {location!r} is no constant place of a member")
    return sum((byte & 127) << 7 * number for number, byte in enumerate(location[1:]))


def _indices(array: Entry) -> list[str]:
    """Returns the indices of an array's elements in their order, such as "[0]" or "[1][2]"."""
    found = [""]
    for one in array.iter_children():
        if one.tag == "DW_TAG_subrange_type":
            count = _value(one, "DW_AT_count", _value(one, "DW_AT_upper_bound", -1) + 1)
            found = [f"{before}[{n}]" for before in found for n in range(count)]
    return found


def _size(kind: Entry) -> int:
    """Returns the bytes of a type."""
    if kind.tag == "DW_TAG_pointer_type":
        return 8
    if kind.tag == "DW_TAG_array_type":
        return len(_indices(kind)) * _size(_type(kind))
    return int(_value(kind, "DW_AT_byte_size", 0))
