"""Machine code as text, in two forms.

`nvdisasm -c -hex -gi` prints instructions with their encodings and source lines. `write_listing` writes the same in a form that
is short enough to keep beside a source, with the control fields in the notation of maxas (S. Gray): wait mask, read counter,
write counter, yield, stall count.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.cubin import BITS, NO_CLUSTER, NUMBER, POINTER, Parameter, Variable
from warpsim.frontends.machine_code.sass import VOLTA, Control, MachineFunction, MachineInstruction, decode_control

_MOST = 10**9
"""Largest number in the directives of a listing, such as bytes of shared memory."""

_MOST_PARAMETERS = 2**16
"""Bytes of a constant bank, in which parameters are, or variables."""

_INSTRUCTION = re.compile(
    r"\s*/\*(?P<address>[0-9a-f]{4,16})\*/\s+(?:\{\s+)?"  # a brace: the first of two instructions that Maxwell issues together
    r"(?P<guard>@!?U?P[T0-9]+\s+)?(?P<opcode>[A-Z][A-Za-z0-9_.]*)\s*(?P<rest>[^;]*?)\s*(?:;|\}\s*$)"
    r"\s*(?:/\*\s*0x(?P<word>[0-9a-f]{16})\s*\*/)?"
)
_WORD = re.compile(r"\s*/\*\s*0x([0-9a-f]{16})\s*\*/\s*$")
_LINE = re.compile(r"\s*//## File \"(?P<file>[^\"]*)\", line (?P<line>\d+)(?P<inlined> inlined at)?")
_LABEL = re.compile(r"\s*\.?([\w.$@]+):\s*$")
_NO_REGISTER = re.compile(r"(?<![\w.$@(])U?R(?:[3-9]\d\d|2[6-9]\d|25[6-9]|\d{4,})\b")
"""A register above 255; names in brackets, such as those of jump targets, are none."""
_OF_CUOBJDUMP = re.compile(r"\s*Function : \S")
_REGISTERS = re.compile(r".*SHI_REGISTERS=(\d+)")


class _Lines:
    """The line of the source to which the next instruction belongs.

    Each place is followed by that of the call into which it was inlined, and so on, up to the kernel, whose file is the source.
    What is inlined from other files belongs to the line of the source that calls it.
    """

    def __init__(self) -> None:
        self.line: int | None = None
        self._file = ""
        self._places: list[tuple[str, int]] = []

    @property
    def source(self) -> str:
        """Name of the source."""
        return self._file.rpartition("/")[2]

    def read(self, file: str, line: int, *, inlined: bool) -> None:
        """Reads a place, and whether that of the call follows."""
        self._places.append((file, line))
        if inlined:
            return
        self._file = self._file or file
        self.line = next((n for name, n in self._places if name == self._file), self.line)
        self._places.clear()


def parse_disassembly(text: str) -> list[MachineFunction]:
    """Returns the functions in the output of `nvdisasm -c`, with or without `-hex` and `-gi`, or `-g`.

    Raises:
        FrontEndError: the text names no architecture, or holds no function, or is that of cuobjdump, or the brackets of operands
            do not match, or an instruction, an encoding or a register is missing; then the message has the number of the line.
    """
    target = re.search(r"^\s*\.target\s+sm_(\d+)", text, re.MULTILINE) or re.search(r"\bEF_CUDA_SM(\d+)", text)
    functions: list[MachineFunction] = []
    code: list[MachineInstruction] = []
    labels: list[str] = []
    lines = _Lines()
    rows: list[int] = []
    """Lines of the text in which the instructions stand."""
    is_volta = target is not None and int(target[1]) >= VOLTA
    registers, name = 0, ""

    def end() -> None:
        if name and code:
            _check_encodings(code, rows)
            functions.append(MachineFunction(name, 0, tuple(code), registers or _highest_register(code), source=lines.source))
        code.clear()
        rows.clear()
        labels.clear()

    for number, row in enumerate(text.splitlines(), 1):
        if found := _INSTRUCTION.match(row):
            if not name:
                name = "kernel"
            address = int(found["address"], 16)
            _check_address(address, code, number, is_volta=is_volta)
            rows.append(number)
            code.append(
                MachineInstruction(
                    address, found["opcode"], _operands(found["rest"].strip(), number),
                    (found["guard"] or "").strip(), tuple(labels), lines.line,
                )
            )  # fmt: skip
            labels.clear()
        elif (word := _WORD.match(row)) and code and code[-1].control is None and is_volta:
            code[-1] = replace(code[-1], control=decode_control(int(word[1], 16)))
        elif row.startswith(".text."):
            end()
            name, lines = row.removeprefix(".text.").rstrip().rstrip(":"), _Lines()
        elif found := _LINE.match(row):
            lines.read(found["file"], int(found["line"]), inlined=found["inlined"] is not None)
        elif found := _LABEL.match(row):
            labels.append(row.strip().rstrip(":"))
        elif row.lstrip().startswith(".section") and ".text." in row:
            end()
            name, registers = "", 0
        elif (found := _REGISTERS.match(row)) and not code:
            registers = int(found[1])
        elif _OF_CUOBJDUMP.match(row):
            instead = "read the cubin itself, which cuobjdump -xelf all extracts, or the output of nvdisasm -c -hex -gi"
            raise FrontEndError(f"line {number}: {row.strip()!r}: cuobjdump wrote this, without labels: {instead}")
    end()
    if target is None:
        raise FrontEndError("the disassembly names no architecture (a line `.target sm_90`)")
    if not functions:
        raise FrontEndError("the disassembly holds no function (a line `.text.NAME:` and instructions)")
    return [replace(one, arch=int(target[1])) for one in functions]


def _check_address(address: int, code: Sequence[MachineInstruction], row: int, *, is_volta: bool) -> None:
    """Checks that an instruction follows those before it; the row is its line. Before Volta, every fourth word is none."""
    first, steps = ((0,), (16,)) if is_volta else ((0, 8), (8, 16))
    allowed = [code[-1].address + step for step in steps] if code else first
    if address not in allowed:
        expected = " or ".join(f"{one:#06x}" for one in allowed)
        raise FrontEndError(f"line {row}: address {address:#06x}, not {expected}: an instruction before it is missing or damaged")


def _check_encodings(code: Sequence[MachineInstruction], rows: Sequence[int]) -> None:
    """Checks that all instructions of a function have control fields, or none; the rows are their lines."""
    without = [row for one, row in zip(code, rows, strict=True) if one.control is None]
    if 0 < len(without) < len(code):
        raise FrontEndError(f"line {without[0]}: the instruction has no encoding of two words, as others have")


_INTEGER, _OTHERS = ":integer", f":(?:{NUMBER}|{BITS})"
"""What a listing adds to an integer, to a floating-point number where the source says so, and to a bit field."""


def write_listing(function: MachineFunction) -> str:
    """Returns a function in the short form that `parse_listing` reads; padding after the end is left out."""
    rows = [f".target sm_{function.arch}", f".function {function.name}", f".registers {function.registers}"]
    if function.shared_bytes:
        rows.append(f".shared {function.shared_bytes}")
    if function.most_threads is not None:
        rows.append(f".most_threads {function.most_threads}")
    if function.cluster != NO_CLUSTER:
        rows.append(f".cluster {' '.join(map(str, function.cluster))}")
    if function.parameter_base is not None:
        words = (_parameter_text(one) for each in function.parameters for one in (each, *each.members))
        rows.append(" ".join((f".parameters {function.parameter_base:#x}", *words)))
    if function.constants:
        rows.append(f".constants {function.constants.hex()}")
    if function.variables:
        rows.append(" ".join((".variables", *map(_variable_text, function.variables))))
    if function.source:
        rows.append(f".source {function.source}")
    line = None
    for one in without_padding(function.code):
        rows += [f"{label}:" for label in one.labels]
        if one.line != line and one.line is not None:
            line = one.line
            rows.append(f".line {line}")
        rows.append(f"{_control_text(one.control)} {one.text}")
    return "\n".join(rows) + "\n"


def _parameter_text(one: Parameter) -> str:
    kind = _INTEGER if one.integer else f":{one.kind}" if one.kind not in ("", POINTER) else ""
    return f"{one.offset}:{one.size}:{one.name}{kind}"


def _variable_text(one: Variable) -> str:
    return _parameter_text(one) + (f"={one.value.hex()}" if one.value else "")


def without_padding(code: Iterable[MachineInstruction]) -> list[MachineInstruction]:
    """Returns the instructions without the branch to itself and the NOPs that fill up the end."""
    kept = list(code)
    while kept and kept[-1].base == "NOP":
        kept.pop()
    if kept and kept[-1].base == "BRA" and not kept[-1].guard and any(label in kept[-1].operands for label in kept[-1].labels):
        kept.pop()
    return kept


def _control_text(control: Control | None) -> str:
    if control is None:
        return "--:-:-:-:-"
    wait = f"{control.wait:02x}" if control.wait else "--"
    read = "-" if control.read is None else str(control.read)
    write = "-" if control.write is None else str(control.write)
    return f"{wait}:{read}:{write}:{'Y' if control.yields else '-'}:{control.stall:x}"


_LISTED = re.compile(
    r"(?P<wait>[0-3][0-9a-f]|--):(?P<read>[0-5-]):(?P<write>[0-5-]):(?P<yields>[Y-]):(?P<stall>[0-9a-f-])"
    r" (?:(?P<guard>@!?U?P[T0-9]+) )?(?P<opcode>[A-Z][A-Za-z0-9_.]*)(?: (?P<rest>.*))?$"
)


_DIRECTIVE = re.compile(
    r"\.(target|function|registers|shared|most_threads|cluster|parameters|constants|variables|source|line) (.+)$"
)


def parse_listing(text: str) -> list[MachineFunction]:
    """Returns the functions of a text that `write_listing` wrote; several may follow each other.

    Raises:
        FrontEndError: a line is none of those that it writes; the message has its number.
    """
    functions: list[MachineFunction] = []
    code: list[MachineInstruction] = []
    labels: list[str] = []
    head: dict[str, str] = {}
    line: int | None = None

    def end() -> None:
        if "function" in head:
            functions.append(_listed_function(head, code))
            code.clear()

    for number, row in enumerate(text.splitlines(), 1):
        if not row.strip() or row.startswith("#"):
            continue
        if found := _LISTED.match(row):
            bits = found["stall"] != "-"
            control = None
            if bits:
                control = Control(
                    stall=int(found["stall"], 16),
                    yields=found["yields"] == "Y",
                    write=None if found["write"] == "-" else int(found["write"]),
                    read=None if found["read"] == "-" else int(found["read"]),
                    wait=0 if found["wait"] == "--" else int(found["wait"], 16),
                )
            code.append(
                MachineInstruction(
                    16 * len(code), found["opcode"], _operands(found["rest"] or "", number), found["guard"] or "",
                    tuple(labels), line, control,
                )
            )  # fmt: skip
            labels.clear()
        elif row.endswith(":") and " " not in row:
            labels.append(row[:-1])
        elif word := _DIRECTIVE.match(row):
            key, value = word[1], word[2].strip()
            if key == "target":
                end()
                head, line = {}, None
            if key == "line":
                line = _number(value, number)
            else:
                head[key] = value
        else:
            raise FrontEndError(f"line {number}: {row[:60]!r} is neither an instruction nor a label nor a directive")
    end()
    if not functions:
        raise FrontEndError("the listing holds no function (lines `.target sm_90` and `.function NAME`)")
    return functions


def parse_text(text: str) -> list[MachineFunction]:
    """Returns the functions of a text in either form.

    Raises:
        FrontEndError: it is neither.
    """
    is_listing = re.search(r"^\.function ", text, re.MULTILINE)
    return parse_listing(text) if is_listing else parse_disassembly(text)


def _listed_function(head: dict[str, str], code: list[MachineInstruction]) -> MachineFunction:
    target = re.fullmatch(r"sm_(\d+)a?", head.get("target", ""))
    if not target:
        raise FrontEndError(f".target {head.get('target', '')}: must be an architecture, such as sm_90")
    base, *words = head.get("parameters", "").split() or [""]
    parameters: list[Parameter] = []
    for word in words:
        found = re.fullmatch(rf"(\d+):(\d+):(\w*)([.\[][\w.\[\]]*)?({_INTEGER}|{_OTHERS})?", word)
        if not found or (found[4] and not parameters):
            allowed = f"offset:size:name, or offset:size:name{_INTEGER}; members such as p.x follow their structure p"
            raise FrontEndError(f".parameters: {word!r} must be {allowed}")
        offset, size, is_integer = int(found[1]), int(found[2]), found[5] == _INTEGER
        if offset + size > _MOST_PARAMETERS:
            raise FrontEndError(f".parameters: {word!r}: parameters have {_MOST_PARAMETERS} bytes at most")
        if found[4]:
            kind = NUMBER if is_integer else (found[5] or POINTER).removeprefix(":")
            member = Parameter(offset, size, found[3] + found[4], is_integer, kind=kind)
            parameters[-1] = replace(parameters[-1], members=(*parameters[-1].members, member))
        else:
            kind = "" if is_integer else (found[5] or "").removeprefix(":")
            parameters.append(Parameter(offset, size, found[3], is_integer, kind=kind))
    return MachineFunction(
        name=head["function"],
        arch=int(target[1]),
        code=tuple(code),
        registers=_number(head.get("registers", "0")) or _highest_register(code),
        shared_bytes=_number(head.get("shared", "0")),
        parameters=tuple(parameters),
        parameter_base=_number(base) if base else None,
        source=head.get("source", ""),
        most_threads=_number(head["most_threads"]) if "most_threads" in head else None,
        cluster=_cluster(head["cluster"]) if "cluster" in head else NO_CLUSTER,
        constants=_hex("constants", head.get("constants", "")),
        variables=tuple(map(_variable, head.get("variables", "").split())),
    )


def _cluster(text: str) -> tuple[int, int, int]:
    """Returns the blocks of a cluster in x, y and z, as a listing states them."""
    sizes = text.split()
    if len(sizes) != len(NO_CLUSTER):
        raise FrontEndError(f".cluster {text[:60]!r}: must be three numbers, of blocks in x, y and z")
    x, y, z = map(_number, sizes)
    if min(x, y, z) < 1:
        raise FrontEndError(f".cluster {text[:60]!r}: must be numbers of blocks, at least 1")
    return x, y, z


def _variable(word: str) -> Variable:
    """Returns the variable in constant memory that a word of a listing describes."""
    found = re.fullmatch(rf"(\d+):(\d+):([\w$.\[\]]+)({_INTEGER}|{_OTHERS})?(?:=(\w+))?", word)
    if not found:
        raise FrontEndError(f".variables: {word!r} must be offset:size:name, offset:size:name{_INTEGER}, or either with =value")
    offset, size, value = int(found[1]), int(found[2]), _hex("variables", found[5] or "")
    if offset + size > _MOST_PARAMETERS or len(value) not in (0, size):
        raise FrontEndError(f".variables: {word[:60]!r}: they have {_MOST_PARAMETERS} bytes at most, and a value of their size")
    is_integer = found[4] == _INTEGER
    kind = NUMBER if is_integer else (found[4] or "").removeprefix(":")
    return Variable(offset, size, found[3], is_integer, kind=kind, value=value)


def _operands(text: str, row: int) -> str:
    """Returns the operands of the instruction in a line of this number, of which brackets and registers are checked."""
    brackets = re.sub(r"[^\[\]]", "", text)
    if brackets.replace("[]", ""):
        raise FrontEndError(f"line {row}: {text[:60]!r}: its brackets do not match")
    if found := _NO_REGISTER.search(text):
        raise FrontEndError(f"line {row}: {text[:60]!r}: there is no register {found[0][:20]}")
    return text


def _number(text: str, row: int | None = None) -> int:
    with contextlib.suppress(ValueError):
        if 0 <= (number := int(text, 0)) <= _MOST:
            return number
    where = "" if row is None else f"line {row}: "
    raise FrontEndError(f"{where}{text!r}: must be a number from 0 to {_MOST}")


def _hex(directive: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise FrontEndError(f".{directive} {text[:20]}: must be hexadecimal") from None


def _highest_register(code: Iterable[MachineInstruction]) -> int:
    """Returns one more than the highest register that the text names, at least 16."""
    highest = max((int(n) for one in code for n in re.findall(r"\bR(\d+)\b", one.operands)), default=0)
    return min(255, max(16, highest + 1))
