"""Reads cubins: ELF files with machine code, and what they say of each function.

The layout is that of ELF64; sections and attributes of NVIDIA's ABI are named as `cuobjdump -elf` prints them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from warpsim.frontends.errors import FrontEndError

_MACHINE_CUDA = 190
_NOBITS = 8
_FATBIN = b"\x50\xed\x55\xba"

_MAX_THREADS, _PARAM_CBANK, _KPARAM_INFO, _REGCOUNT, _CTA_PER_CLUSTER = 0x05, 0x0A, 0x17, 0x2F, 0x3D
_SIZED = 4
"""Format of an attribute whose value follows, after its size; the value of all others is in the header itself."""

NO_CLUSTER = (1, 1, 1)
"""Blocks of a cluster of a kernel that declares none."""

RESERVED_SHARED_BYTES = 1024
"""Bytes at the start of a block's shared memory that the system takes, from compute capability 9.0 on."""

_VARIABLES = ".nv.constant3"
"""Section of the variables in constant memory."""

_OBJECT = 1
"""Type of a symbol that is a variable."""

_REL_BYTES, _RELA_BYTES = 16, 24
_WORD_BYTES = 16
"""Bytes of a relocation without and with an addend, and of an instruction since Volta."""


NUMBER_SIZES = (1, 2, 4, 8)
"""Bytes of a number; parameters and variables of other sizes are structures, or arrays."""

NUMBER, POINTER, BITS = "number", "pointer", "bits"
"""Kinds of members of a structure."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: offset in bytes from the first one, and size in bytes.

    `name`, and whether it is an `integer`, are known where the source declares them. So is whether the integer is `signed`; None:
    it is no integer of the language, or not known. Its `kind` is NUMBER where it declares a floating-point number. The `members`
    of a structure are the numbers, pointers and bit fields in it, with their full names, such as `p.x`, and a `kind`: NUMBER,
    POINTER or BITS.
    """

    offset: int
    size: int
    name: str = ""
    integer: bool = False
    signed: bool | None = None
    kind: str = ""
    members: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class Variable(Parameter):
    """A variable in constant memory, with its offset in constant bank 3.

    `value` holds its bytes. It is empty where they are not known: where the host sets them, the file has zeros only.
    """

    value: bytes = b""


@dataclass(frozen=True)
class Function:
    """A kernel of a cubin.

    Attributes:
        name: symbol, mangled as in the file.
        code: machine code.
        registers: registers per thread; None where the file does not say.
        shared_bytes: bytes of static shared memory per block, without those that the system takes.
        parameters: in order of their offsets.
        parameter_base: offset of the first parameter in constant bank 0; None where the file does not say.
        constants: contents of constant bank 2, where compilers put constants of their own.
        most_threads: threads of a block at most, as launch bounds state it; None where the file does not say.
        cluster: blocks of a cluster in x, y and z, as the kernel declares them.
        links: address of an instruction -> function in another section that it names, such as the one that it calls.
        variables: of the file, in constant memory, in order of their offsets.
    """

    name: str
    code: bytes
    registers: int | None
    shared_bytes: int
    parameters: tuple[Parameter, ...]
    parameter_base: int | None
    constants: bytes = b""
    most_threads: int | None = None
    cluster: tuple[int, int, int] = NO_CLUSTER
    links: Mapping[int, str] = field(default_factory=dict)
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True)
class Cubin:
    """The kernels of a cubin by name, and the architecture as a number, such as 90."""

    arch: int
    functions: Mapping[str, Function]


@dataclass(frozen=True)
class _Section:
    name: str
    number: int
    kind: int
    info: int
    size: int
    data: bytes


class _Symbol(NamedTuple):
    name: str
    kind: int
    section: int
    offset: int
    size: int


class _OtherMachineError(Exception):
    """The file is for another machine."""


def read_cubin(data: bytes, name: str = "cubin") -> Cubin:
    """Reads a cubin.

    Args:
        data: the file.
        name: of the file, for messages.

    Raises:
        FrontEndError: it is no cubin, is truncated, or contradicts itself.
    """
    if data[:4] == _FATBIN:
        raise FrontEndError(f"{name}: is a fat binary; extract the machine code of one architecture with cuobjdump -xelf")
    if data[:4] != b"\x7fELF":
        raise FrontEndError(f"{name}: is not a cubin (an ELF file of machine code)")
    try:
        arch, sections, symbols = _read_elf(data)
        variables = _variables(sections, symbols)
        functions = {
            symbol: _function(symbol, section, sections, symbols, variables)
            for key, section in sections.items()
            if key.startswith(".text.") and (symbol := key.removeprefix(".text."))
        }
    except _OtherMachineError:
        raise FrontEndError(f"{name}: is a file of the host; extract the machine code with cuobjdump -xelf all {name}") from None
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
        why = "it ends too early" if "requires a buffer" in str(error) else error
        raise FrontEndError(f"{name}: is truncated or damaged: {why}") from None
    return Cubin(arch, functions)


def _read_elf(data: bytes) -> tuple[int, dict[str, _Section], list[_Symbol]]:
    """Returns the architecture, the sections by name, and the symbols by number."""
    if data[4] != 2 or data[5] != 1:
        raise struct.error("not a 64-bit little-endian file")
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine != _MACHINE_CUDA:
        raise _OtherMachineError
    (flags,) = struct.unpack_from("<I", data, 48)
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names_at = struct.unpack_from("<HHH", data, 58)
    if size < 64:
        raise struct.error(f"section headers of {size} bytes")
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * k) for k in range(count)]
    raw = [_data(data, header) for header in headers]
    names = raw[names_at]
    sections = {
        (name := _text(names, header[0])): _Section(name, k, header[1], header[7], header[5], raw[k])
        for k, header in enumerate(headers)
    }
    symbols: list[_Symbol] = []
    if ".symtab" in sections and ".strtab" in sections:
        table_data, strings = sections[".symtab"].data, sections[".strtab"].data
        for at in range(0, len(table_data) - 23, 24):
            start, kind, _, section, offset, length = struct.unpack_from("<IBBHQQ", table_data, at)
            symbols.append(_Symbol(_text(strings, start), kind & 15, section, offset, length))
    arch = flags & 0xFF if data[8] < 8 else (flags >> 8) & 0xFF  # ABI version 8 moved it
    return arch, sections, symbols


def _data(data: bytes, header: tuple[int, ...]) -> bytes:
    kind, start, size = header[1], header[4], header[5]
    if kind == _NOBITS or size == 0:
        return b""
    if start + size > len(data):
        raise struct.error(f"a section ends at byte {start + size}, the file at {len(data)}")
    return data[start : start + size]


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode() if b"\0" in strings[start:] else ""


def _variables(sections: Mapping[str, _Section], symbols: Sequence[_Symbol]) -> tuple[Variable, ...]:
    """Returns the variables in constant memory. Values are known that are not 0, and hold no address, which a relocation sets."""
    section = sections.get(_VARIABLES)
    if section is None:
        return ()
    relocated = {place for place, _ in _relocations(_VARIABLES, sections)}
    found = []
    for one in symbols:
        if one.kind == _OBJECT and one.section == section.number and one.size > 0 and one.offset + one.size <= len(section.data):
            value = section.data[one.offset : one.offset + one.size]
            is_known = any(value) and relocated.isdisjoint(range(one.offset, one.offset + one.size))
            found.append(Variable(one.offset, one.size, one.name, value=value if is_known else b""))
    return tuple(sorted(found, key=lambda variable: variable.offset))


def _function(
    name: str, section: _Section, sections: Mapping[str, _Section], symbols: Sequence[_Symbol], variables: tuple[Variable, ...]
) -> Function:
    registers = section.info >> 24 or None
    common = sections.get(".nv.info")
    for attribute, value in _attributes(common.data if common else b""):
        if attribute == _REGCOUNT:
            symbol, count = struct.unpack_from("<II", value)
            if symbol < len(symbols) and symbols[symbol].name == name:
                registers = count
    own = sections.get(f".nv.info.{name}")
    parameters, base, most_threads, cluster = [], None, None, NO_CLUSTER
    for attribute, value in _attributes(own.data if own else b""):
        if attribute == _PARAM_CBANK:
            _, base, _ = struct.unpack_from("<IHH", value)
        elif attribute == _KPARAM_INFO:
            _, _, offset, flags = struct.unpack_from("<IHHI", value)
            parameters.append(Parameter(offset, flags >> 18))
        elif attribute == _MAX_THREADS:
            most_threads = math.prod(struct.unpack_from("<III", value))
        elif attribute == _CTA_PER_CLUSTER:
            cluster = struct.unpack_from("<III", value)
    shared = sections.get(f".nv.shared.{name}")
    reserved = RESERVED_SHARED_BYTES if ".nv.shared.reserved.0" in sections else 0
    return Function(
        name=name,
        code=section.data,
        registers=registers,
        shared_bytes=max(0, shared.size - reserved) if shared else 0,
        parameters=tuple(sorted(parameters, key=lambda one: one.offset)),
        parameter_base=base,
        constants=bank.data if (bank := sections.get(f".nv.constant2.{name}")) else b"",
        most_threads=most_threads,
        cluster=cluster,
        links=_links(name, sections, symbols),
        variables=variables,
    )


def _links(name: str, sections: Mapping[str, _Section], symbols: Sequence[_Symbol]) -> dict[int, str]:
    """Returns address of an instruction -> function in another section, from the relocations of a function."""
    found = {}
    for place, number in _relocations(f".text.{name}", sections):
        other = symbols[number].name if number < len(symbols) else ""
        if other != name and f".text.{other}" in sections:
            found[place // _WORD_BYTES * _WORD_BYTES] = other
    return found


def _relocations(name: str, sections: Mapping[str, _Section]) -> Iterator[tuple[int, int]]:
    """Yields the places in a section where an address is to be written, and the number of the symbol of which it is that."""
    for kind, size in ((".rel", _REL_BYTES), (".rela", _RELA_BYTES)):
        data = section.data if (section := sections.get(f"{kind}{name}")) else b""
        for at in range(0, len(data) - size + 1, size):
            place, info = struct.unpack_from("<QQ", data, at)
            yield place, info >> 32


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the attributes of a section .nv.info: number and value."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            yield attribute, data[at : at + size]
            at += size
        else:
            yield attribute, struct.pack("<H", size)
