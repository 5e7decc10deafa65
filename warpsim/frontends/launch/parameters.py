"""The parameters of a kernel: the words of constant bank 0 that the caller's arguments and the pointers fill."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from warpsim.frontends.brackets import end_of, without_templates
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.cubin import BITS, NUMBER, NUMBER_SIZES, POINTER, Parameter
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.symbols import plain_name

_POINTER_BYTES = 8
_INTEGER = re.compile(
    r"\s*(const\s+|std::)*(u?int(8|16|32|64)?_t|size_t|u?(char|short|int|long|longlong)[1-4]|(unsigned|signed|int|long|short|char)\b)"
    r"[\w\s]*$"
)
"""A declaration of an integer, or of a vector of integers, which is no pointer."""

_UNSIGNED = re.compile(r"\b(unsigned|size_t|uint(8|16|32|64)_t)\b")
_SIGNED = re.compile(r"\b(signed|short|int|long|int(8|16|32|64)_t)\b")
"""Words that say whether an integer is signed. A plain char does not, as that depends on the system."""

_FLOAT = re.compile(r"\s*(const\s+)*(float|double|__half|half)\b[\w\s]*$")
"""A declaration of a floating-point number."""

_MOST_ALIASES = 8
"""Names of types that stand for one another, one after the other, at most."""

_FORMATS = {2: "<e", 4: "<f", 8: "<d"}
"""Size of a floating-point number in bytes -> its format."""

ARRAYS_APART = 40
"""Pointers that are not given are taken to be 2^40 bytes apart, aligned to everything."""

_READ = re.compile(r"c\[0x0\]\s*\[(?:U?R\w+\+)?(0x[0-9a-f]+)\]")
"""An operand in the constant bank of the parameters."""

_MOST_NAMED = 40
"""Members of structures, or variables, that a message names, at most."""

_TO_DO = "let the kernel take such members as parameters of their own"
"""What a user can do where members of a structure cannot be given."""


def parameters_of(function: MachineFunction) -> tuple[int, tuple[Parameter, ...]]:
    """Returns where the parameters start in constant bank 0, and the parameters.

    Without a binary they are guessed from the code: two neighbouring words that are used as one value are a pointer.
    """
    base = function.parameter_base if function.parameter_base is not None else _base(function.arch)
    if function.parameters:
        return base, function.parameters
    words: set[int] = set()
    wide: set[int] = set()
    for one in function.code:
        for bank, text in re.findall(r"c\[(0x[0-9a-f]+)\]\s*\[(0x[0-9a-f]+)\]", one.operands):
            word = int(text, 16) - base
            if int(bank, 16) or word < 0:
                continue
            words.add(word)
            if ".64" in one.opcode or "WIDE" in one.opcode:
                words.add(word + 4)
                wide.add(word)
            elif ".X" in one.opcode or ".HI" in one.opcode:  # the upper half of a sum
                wide.add(word - 4)
    found, skip = [], -1
    for word in sorted(words):
        if word == skip:
            continue
        pointer = word in wide and word % _POINTER_BYTES == 0 and word + 4 in words
        found.append(Parameter(word, _POINTER_BYTES if pointer else 4))
        skip = word + 4 if pointer else -1
    return base, tuple(found)


def argument_bytes(function: MachineFunction, arguments: Mapping[str | int, float] | Sequence[float | None]) -> dict[int, int]:
    """Returns offset in constant bank 0 -> value of the bytes of the parameters that are known, and of the padding behind these.

    Args:
        function: whose parameters they are.
        arguments: values by name or number, or in order with None for those that are not given; of a structure, its members by
            name, such as "p.n". Pointers that are not given take addresses of their own; other parameters and members that are
            not given are unknown.

    Raises:
        FrontEndError: there is no such parameter, a value does not fit, or two are for the same bytes.
    """
    base, parameters = parameters_of(function)
    names = [one.name or str(number) for number, one in enumerate(parameters)]
    given = dict(arguments) if isinstance(arguments, Mapping) else {k: v for k, v in enumerate(arguments) if v is not None}
    found: dict[int, int] = {}
    members = {one.name: one for each in parameters for one in each.members}
    places = [one for each in parameters for one in each.members or (each,)]
    for number, one in enumerate(places):
        if is_pointer(one):
            _put(found, base + one.offset, address_of(number + 1))
    keys: dict[int, str | int] = {}  # byte -> the argument that gives it
    for key, value in given.items():
        part = members.get(str(key))
        if part is None:
            others = f"; members: {listed(members)}" if members else ""
            if function.variables:
                others += f"; variables in constant memory: {listed(plain_name(one.name) for one in function.variables)}"
            part = parameters[place_of(key, names, plain_name(function.name), others)]
        data = bytes_of(key, value, part)
        for offset in range(part.offset, part.offset + len(data)):
            if offset in keys:
                raise given_twice(key, value, keys[offset])
            keys[offset] = key
        _put(found, base + part.offset, data)
    declared = {base + one.offset + k for one in places for k in range(one.size)}
    for offset in list(found):
        padding = offset + 1
        while padding % 4 and padding not in declared:
            found[padding] = 0
            padding += 1
    return found


def place_of(key: object, names: Sequence[str], function: str, more: str = "") -> int:
    """Returns the place of a parameter that an argument names, or of which it gives the number, among those of a function.

    Raises:
        FrontEndError: there is none; the message lists those that there are, and ends with `more`.
    """
    number = names.index(str(key)) if str(key) in names else int(str(key)) if str(key).isdecimal() else -1
    if not 0 <= number < len(names):
        there = ", ".join(f"{n} {name}" if name != str(n) else name for n, name in enumerate(names)) or "none"
        raise FrontEndError(f"args[{key!r}]: {function} has no such parameter; parameters: {there}{more}")
    return number


def given_twice(key: object, value: object, other: object) -> FrontEndError:
    """Returns the error for an argument of a parameter that another one gives, too, by its name or number."""
    return FrontEndError(f"args[{key!r}] = {value!r}: args[{other!r}] gives this parameter, too")


def is_pointer(one: Parameter) -> bool:
    """Returns whether a parameter, or a variable, is a pointer, or of its size and of no known type."""
    return one.kind == POINTER if one.kind else one.size == _POINTER_BYTES and not one.integer


def listed(members: Iterable[str]) -> str:
    """Returns the names of members of structures, or of variables, for a message."""
    names = list(members)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def notes_of_structures(function: MachineFunction) -> tuple[str, ...]:
    """Returns, in words, of which structures the code reads bytes that no member is known to hold, or that a bit field holds."""
    base, parameters = parameters_of(function)
    read = {int(text, 16) - base for one in function.code for text in _READ.findall(one.operands)}
    notes = []
    for number, one in enumerate(parameters):
        known = {member.offset + k for member in one.members if member.kind != BITS for k in range(member.size)}
        unknown = sorted(read & set(range(one.offset, one.offset + one.size)) - known)
        if unknown and (one.members or one.size not in NUMBER_SIZES):
            what = f"parameter {one.name or number} is a structure of {one.size} bytes"
            fields = [member.name for member in one.members if member.offset <= unknown[0] < member.offset + member.size]
            why = f"and its bit fields {listed(fields)} cannot be given" if fields else "whose members are not known"
            how = _TO_DO if one.name else f"import the CUDA source, or {_TO_DO}"
            notes.append(f"{what}, {why}: what depends on them is taken as data; {how}")
    return tuple(notes)


def address_of(array: int) -> bytes:
    """Returns the address of an array of this number, to which a pointer points that is not given."""
    return (array << ARRAYS_APART).to_bytes(_POINTER_BYTES, "little")


def _put(found: dict[int, int], offset: int, data: bytes) -> None:
    found.update(enumerate(data, offset))


def bytes_of(key: str | int, value: object, parameter: Parameter) -> bytes:
    """Returns the bytes of a value that an argument gives a parameter, or a variable.

    Raises:
        FrontEndError: it does not fit.
    """
    size = parameter.size
    if parameter.kind == BITS:
        raise FrontEndError(f"args[{key!r}] = {value!r}: it is a bit field, which cannot be given; {_TO_DO}")
    if isinstance(value, bool) and size == 1 and (not parameter.integer or parameter.kind == NUMBER):  # a member may be a bool
        return bytes([value])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FrontEndError(f"args[{key!r}] = {value!r}: must be a number; only a bool, of one byte, is a truth value")
    if parameter.kind == NUMBER and not parameter.integer and size in _FORMATS:
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise FrontEndError(f"args[{key!r}] = {value}: must be a finite number")
    if isinstance(value, float) and parameter.integer:
        raise FrontEndError(f"args[{key!r}] = {value}: must be an integer, as the source declares it")
    if size not in NUMBER_SIZES:
        how = f"give its members: {listed(one.name for one in parameter.members)}" if parameter.members else _TO_DO
        raise FrontEndError(f"args[{key!r}] = {value}: it is a structure of {size} bytes, which cannot be given; {how}")
    if isinstance(value, float):
        if size == 1:
            raise FrontEndError(f"args[{key!r}] = {value}: must be an integer, since it has one byte")
        try:
            return struct.pack(_FORMATS[size], value)
        except OverflowError:
            raise FrontEndError(f"args[{key!r}] = {value}: must fit in {size} bytes") from None
    least = 0 if parameter.signed is False else -(2 ** (8 * size - 1))
    most = 2 ** (8 * size - 1 if parameter.signed else 8 * size) - 1
    if not least <= value <= most:
        why = "" if parameter.signed is None else f": from {least} to {most}, as the source declares it"
        raise FrontEndError(f"args[{key!r}] = {value}: must fit in {size} bytes{why}")
    return int(value % 2 ** (8 * size)).to_bytes(size, "little")


class Declared(NamedTuple):
    """What a source says of a parameter: its name, whether it is an integer, whether that is signed (None: not known), its kind.

    The kind is NUMBER of a floating-point number, and empty otherwise.
    """

    name: str
    integer: bool
    signed: bool | None
    kind: str = ""


def declared_in_source(source: str, function: str) -> tuple[Declared, ...]:
    """Returns what the CUDA source of a kernel says of its parameters; nothing where it is not found."""
    return tuple(_declared(_without_aliases(text, source)) for text in _declarations(source, function))


def types_in_source(source: str, function: str) -> tuple[str, ...]:
    """Returns the names of the types of a kernel's parameters that are no pointers, without namespaces."""
    found = (re.search(r"(\w+)\s+(?:const\s+)?\w+\s*$", part) for part in _declarations(source, function) if "*" not in part)
    return tuple(one[1] for one in found if one)


_BODY = re.compile(r"\)\s*\{")
"""The beginning of a function's body, from the end of its parameters on."""


_BEFORE_NAME = r"(?:[^;{}()]|\((?:[^;{}()]|\([^;{}()]*\))*\))*?"
"""What stands between `__global__` and the name of a kernel, such as a macro with arguments for its launch bounds."""


def _declarations(source: str, function: str) -> list[str]:
    """Returns the declarations of a kernel's parameters: those of its definition, as a prototype may name none.

    They may be those of a macro, which makes the function's name of its arguments.
    """
    plain = _without_annotations(re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL))
    every = list(re.finditer(rf"__global__{_BEFORE_NAME}\b{re.escape(function)}\s*\(", plain))
    defined = (one for one in every if _BODY.match(plain, end_of(plain, one.end() - 1)))
    found = next(defined, every[0] if every else None)
    for macro in () if found else re.finditer(r"#define\s+(\w+)\(([^)]*)\)((?:[^\n]*\\\n)*[^\n]*)", plain):
        names = [word.strip() for word in macro[2].split(",")]
        declared = re.search(r"__global__[^;{}()]*?\b(\w+(?:\s*##\s*\w+)*)\s*\(", macro[3])
        if not declared:
            continue
        calls = re.findall(rf"\b{macro[1]}\(([^)]*)\)", plain)
        expanded: set[str] = set()
        for call in calls:
            values: dict[str, str] = dict(zip(names, [word.strip() for word in call.split(",")], strict=False))
            parts = re.split(r"\s*##\s*", declared[1])
            expanded.add("".join(values.get(part, part) for part in parts))
        if function in expanded:
            plain, found = macro[3], declared
            break
    if not found:
        return []
    inside = without_templates(plain[found.end() : end_of(plain, found.end() - 1)]).replace("\\\n", " ")
    return [part for part in inside.split(",") if part.strip()]


def _without_annotations(text: str) -> str:
    """Returns a source without annotations that have arguments, such as `__launch_bounds__((X * Y) / 4, 1)`."""
    parts, place = [], 0
    for found in re.finditer(r"\b__\w+__\s*\(", text):
        if found.start() >= place:
            parts.append(text[place : found.start()])
            place = end_of(text, found.end() - 1) + 1
    return " ".join([*parts, text[place:]])


def _without_aliases(text: str, source: str) -> str:
    """Returns the declaration of a parameter with the type for which the name of its type stands in the source, if it does."""
    for _ in range(_MOST_ALIASES):
        named = re.match(r"(\s*(?:const\s+)?)(\w+)(\s.*)$", text, re.DOTALL)
        name = re.escape(named[2]) if named else ""
        alias = re.search(rf"\btypedef\s+([^;{{}}()]+?)\s*\b{name}\s*;|\busing\s+{name}\s*=\s*([^;]+);", source) if name else None
        if not named or not alias:
            break
        text = f"{named[1]}{alias[1] or alias[2]}{named[3]}"
    return text


def _declared(text: str) -> Declared:
    """Returns what the declaration of a parameter says."""
    name = re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", text)
    is_integer = _INTEGER.match(text) is not None
    signed = None if not is_integer else False if _UNSIGNED.search(text) else True if _SIGNED.search(text) else None
    return Declared(name[1] if name else "", is_integer, signed, NUMBER if _FLOAT.match(text) else "")


def _base(arch: int) -> int:
    if arch >= 100:
        return 0x380
    return 0x210 if arch >= 90 else 0x160 if arch >= 70 else 0x140
