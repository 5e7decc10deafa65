"""Traces of launches, as NVBit writes them with the tracer of Accel-Sim: read line by line.

A list (`kernelslist.g`) names the traces of an application's launches in order. A trace (`kernel-1.traceg`, or packed by xz) has
a head of lines `-key = value`, and then for each thread block `#BEGIN_TB`, `thread block = x,y,z`, for each warp `warp = w`,
`insts = n` and n instructions, and `#END_TB`. An instruction is (util/tracer_nvbit of accel-sim-framework, versions 1 to 6)

    [line] PC mask number-of-results [results] opcode number-of-sources [sources] width [form addresses] [immediates] [values]

with PC and mask in hexadecimal. Addresses are listed for each active thread (form 0), or are the first one and a stride (form 1),
or the first one and the differences between active threads (form 2).
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.launch.geometry import Geometry, as_geometry
from warpsim.hardware.residency import MAX_BLOCKS
from warpsim.units import WARP_LANES

LIST_ALL, BASE_STRIDE, BASE_DELTA = 0, 1, 2
"""Forms of addresses."""

MOST_KEPT = 100_000
"""Lines without addresses that are remembered, so that each is read once."""

MOST_PENDING = 8192
"""Accesses of a warp that are kept with it."""

MOST_LINE, _SHORT_LINE = 2**16, 1024
"""Bytes of a line; one with 32 addresses has about 700. And of a line that is remembered."""

NEWEST_VERSION = 6
"""Version of the newest tracer whose traces have been read."""

_PLACED_BEFORE = 3
"""Version from which on an instruction does not name its block and warp itself."""


@dataclass(frozen=True)
class Head:
    """What a trace says of its launch.

    Attributes:
        name: symbol of the kernel.
        geometry: grid and block, without shared memory.
        shared_bytes: of a block, static and dynamic.
        registers: per thread.
        arch: compute capability times ten.
        version: of the tracer.
        lines: whether instructions begin with a line of the source.
    """

    name: str
    geometry: Geometry
    shared_bytes: int
    registers: int
    arch: int
    version: int
    lines: bool


@dataclass(frozen=True)
class Traced:
    """An instruction of the code, as a trace shows it.

    Attributes:
        pc: byte offset in the function.
        opcode: with its suffixes.
        results, sources: machine registers in order.
        line: of the source; None where the trace does not say.
    """

    pc: int
    opcode: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    line: int | None


@dataclass
class Access:
    """The addresses of one execution: those of the active threads in order, or the first one and a stride."""

    instruction: int
    mask: int
    first: int
    stride: int
    addresses: list[int] | None


@dataclass
class WarpTrace:
    """What one warp executed.

    Attributes:
        block: index of its block.
        warp: number in the block.
        path: numbers of its instructions, in order, whichever of its threads executed them.
        accesses: of its instructions with addresses, in order.
    """

    block: tuple[int, int, int]
    warp: int
    path: list[int] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)


def kernels_of(path: Path) -> list[Path]:
    """Returns the traces that a list names, in order; copies of memory are passed over. A trace stands for itself.

    Raises:
        FrontEndError: the list cannot be read or names no trace, or a trace that it names is not there.
    """
    if path.suffix != ".g":
        return [path]
    try:
        rows = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FrontEndError(f"{path}: cannot be read: {error}") from None
    found = []
    for number, row in enumerate(rows, 1):
        word = row.strip()
        if not word or word.startswith(("#", "Memcpy")):
            continue
        if not word.startswith("kernel") or "/" in word:
            raise FrontEndError(f"{path}, line {number}: {word[:60]!r} is neither a copy of memory nor the name of a trace")
        trace = path.parent / word
        found.append(trace if trace.exists() or not trace.with_name(f"{word}.xz").exists() else trace.with_name(f"{word}.xz"))
    if not found:
        raise FrontEndError(f"{path}: names no trace (lines such as kernel-1.traceg)")
    return found


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Opens a trace, which may be packed by xz."""
    try:
        file: IO[bytes] = lzma.open(path) if path.suffix == ".xz" else path.open("rb")
    except OSError as error:
        raise FrontEndError(f"{path}: cannot be read: {error.strerror or error}") from None
    with file:
        yield file


class TraceReader:
    """Reads a trace: the head at once, then warp by warp.

    Attributes:
        head: of the trace.
        instructions: that have occurred so far; their numbers are those of paths and accesses.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.number = 0
        self.spill: Callable[[WarpTrace], None] | None = None  # takes the accesses of a warp off it where there are many
        self.instructions: list[Traced] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._known: dict[bytes, int] = {}
        self._fields: list[int] = []  # instruction -> number of fields before the width
        self.head = self._read_head()

    def _fail(self, what: str, line: int | None = None) -> NoReturn:
        raise FrontEndError(f"{self.path}, line {self.number if line is None else line}: {what}")

    def _lines(self) -> Iterator[bytes]:
        try:
            while row := self.file.readline(MOST_LINE + 1):
                self.number += 1
                if len(row) > MOST_LINE:
                    self._fail(f"a line of more than {MOST_LINE} bytes, which no trace has")
                yield row
        except (EOFError, lzma.LZMAError, OSError) as error:
            self._fail(f"the file is damaged or ends too early: {error}")

    def _read_head(self) -> Head:
        values: dict[str, str] = {}
        self._line_of: dict[str, int] = {}  # of each key of the head
        self._rows = self._lines()
        for row in self._rows:
            text = row.decode("utf-8", "replace").strip()
            if text.startswith("#"):
                break
            if not text:
                continue
            key, equals, value = text.removeprefix("-").partition(" = ")
            if not text.startswith("-") or not equals:
                self._fail(f"{text[:60]!r} is no line of a trace's head, such as -grid dim = (1,1,1)")
            values[key.strip()], self._line_of[key.strip()] = value.strip(), self.number
        grid, block = (self._triple(values, key) for key in ("grid dim", "block dim"))
        try:
            geometry = as_geometry((grid, block))
        except FrontEndError as error:
            self._fail(f"-grid dim = {grid}, -block dim = {block}: {error}")
        if geometry.blocks > MAX_BLOCKS:
            self._fail(f"-grid dim = {grid}: must be at most {MAX_BLOCKS} blocks")
        if "kernel name" not in values:
            self._fail("the head has no -kernel name")
        return Head(
            name=values["kernel name"],
            geometry=geometry,
            shared_bytes=self._integer(values, "shmem", 2**20),
            registers=self._integer(values, "nregs", 255),
            arch=self._integer(values, "binary version", 200),
            version=self._integer(values, "accelsim tracer version", 100, "3"),
            lines=values.get("enable lineinfo", "0") == "1",
        )

    def _triple(self, values: dict[str, str], key: str) -> tuple[int, int, int]:
        if (text := values.get(key)) is None:
            self._fail(f"the head has no -{key}")
        found = re.fullmatch(r"\((\d{1,10}),(\d{1,10}),(\d{1,10})\)", text)
        if not found or 0 in map(int, found.groups()):
            self._fail(f"-{key} = {text[:60]}: must be three numbers from 1, such as (1,1,1)", self._line_of[key])
        return int(found[1]), int(found[2]), int(found[3])

    def _integer(self, values: dict[str, str], key: str, most: int, default: str = "") -> int:
        text = values.get(key, default)
        if not text:
            self._fail(f"the head has no -{key}")
        if not text.isdecimal() or int(text) > most:
            self._fail(f"-{key} = {text[:20]}: must be a number up to {most}", self._line_of[key])
        return int(text)

    def warps(self) -> Iterator[WarpTrace]:
        """Yields the warps of all blocks.

        Raises:
            FrontEndError: a line is damaged, or the file ends within a block.
        """
        block: tuple[int, int, int] | None = None
        warp: WarpTrace | None = None
        inside, left = False, 0
        missing: list[int] = []  # warps of the block
        for row in self._rows:
            if left:
                assert warp is not None
                known = self._known.get(row)
                if known is None:
                    known = self._instruction(row, warp)
                warp.path.append(known)
                left -= 1
                if not left:
                    yield warp
                    warp = None
                continue
            text = row.strip()
            if not text:
                continue
            if text == b"#BEGIN_TB":
                if inside:
                    self._fail("#BEGIN_TB within a block")
                inside, block, missing = True, None, list(range(self.head.geometry.block_warps))
            elif text == b"#END_TB":
                if not inside or block is None:
                    self._fail("#END_TB without a block")
                if warp is not None:
                    self._fail(f"warp {warp.warp} of block {warp.block} has no line insts = N")
                if missing:
                    self._fail(f"block {block} ends without warp {missing[0]} of {self.head.geometry.block_warps}")
                inside = False
            elif inside and block is None and text.startswith(b"thread block = "):
                block = self._block(text)
            elif block is not None and inside and text.startswith(b"warp = "):
                warp = WarpTrace(block, self._count(text, self.head.geometry.block_warps - 1))
                missing = [number for number in missing if number != warp.warp]
            elif warp is not None and text.startswith(b"insts = "):
                left = self._count(text, 2**40)
                if not left:
                    yield warp
                    warp = None
            elif not (text.startswith(b"#") and not inside):
                self._fail(f"{text[:60].decode('utf-8', 'replace')!r} is not expected here")
        if inside or left:
            where = f"warp {warp.warp} of block {warp.block}" if warp is not None else f"block {block}"
            self._fail(f"the trace ends within {where}" + (f": {left} instructions are missing" if left else ""))

    def _block(self, text: bytes) -> tuple[int, int, int]:
        found = re.fullmatch(rb"thread block = (\d{1,9}),(\d{1,9}),(\d{1,9})", text)
        if not found:
            self._fail(f"{text[:60].decode('utf-8', 'replace')!r}: must be thread block = X,Y,Z")
        index = int(found[1]), int(found[2]), int(found[3])
        if any(at >= size for at, size in zip(index, self.head.geometry.grid, strict=True)):
            self._fail(f"thread block = {index}: is not in the grid {self.head.geometry.grid}")
        return index

    def _count(self, text: bytes, most: int) -> int:
        value = text.partition(b" = ")[2]
        if not value.isdigit() or len(value) > 12 or int(value) > most:
            self._fail(f"{text[:60].decode('utf-8', 'replace')!r}: must be a number up to {most}")
        return int(value)

    def _instruction(self, row: bytes, warp: WarpTrace) -> int:
        """Reads an instruction; adds its addresses to its warp, and returns its number."""
        try:
            return self._read_instruction(row, warp)
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            if isinstance(error, FrontEndError):
                raise
            torn = "" if row.endswith(b"\n") else ": the file ends within this line"
            self._fail(f"{row[:60].decode('utf-8', 'replace').strip()!r} is no instruction of a trace{torn}")

    def _read_instruction(self, row: bytes, warp: WarpTrace) -> int:
        words = row.split()
        at = (4 if self.head.version < _PLACED_BEFORE else 0) + self.head.lines
        pc, mask = int(words[at], 16), int(words[at + 1], 16)
        number = self._number(words, at, pc)
        width_at = self._fields[number]
        width = int(words[width_at])
        if not 0 <= mask < 2**WARP_LANES or pc < 0:
            raise ValueError("mask")
        if not width:
            if len(self._known) < MOST_KEPT and len(row) <= _SHORT_LINE:
                self._known[row] = number
            return number
        if not mask:
            return number
        form = int(words[width_at + 1])
        rest = words[width_at + 2 :]
        active = mask.bit_count()
        if form == BASE_STRIDE:
            access = Access(number, mask, int(rest[0], 16), int(rest[1]), None)
            if access.first + WARP_LANES * access.stride < 0:
                raise ValueError("addresses")
        elif form == LIST_ALL:
            if len(rest) < active:
                raise ValueError("addresses")
            access = Access(number, mask, 0, 0, [int(word, 16) for word in rest[:active]])
        elif form == BASE_DELTA:
            if len(rest) < active:
                raise ValueError("addresses")
            address = int(rest[0], 16)
            listed = [address]
            for word in rest[1:active]:
                address += int(word)
                listed.append(address)
            access = Access(number, mask, 0, 0, listed)
        else:
            raise ValueError("form")
        if not 0 <= access.first < 2**62 or abs(access.stride) > 2**40 or (access.addresses and not _fit(access.addresses)):
            raise ValueError("addresses")
        warp.accesses.append(access)
        if len(warp.accesses) >= MOST_PENDING and self.spill is not None:
            self.spill(warp)
        return number

    def _number(self, words: list[bytes], at: int, pc: int) -> int:
        """Returns the number of the instruction at the PC; a new one where there was none with this text."""
        results = int(words[at + 2])
        opcode_at = at + 3 + results
        opcode = words[opcode_at].decode("ascii")
        if (pc, opcode) in self._numbers:
            return self._numbers[pc, opcode]
        sources = int(words[opcode_at + 1])
        if results < 0 or sources < 0 or not re.fullmatch(r"[A-Z][A-Za-z0-9_.]*", opcode):
            raise ValueError("opcode")
        if any(one.pc == pc for one in self.instructions):
            self._fail(f"the instruction at {pc:#06x} is {opcode} here and another one before")
        names = [word.decode("ascii") for word in (*words[at + 3 : opcode_at], *words[opcode_at + 2 : opcode_at + 2 + sources])]
        if not all(re.fullmatch(r"U?R\d{1,3}", name) for name in names):
            raise ValueError("registers")
        number = len(self.instructions)
        line = int(words[at - 1]) if self.head.lines else None
        self.instructions.append(Traced(pc, opcode, tuple(names[:results]), tuple(names[results:]), line))
        self._fields.append(opcode_at + 2 + sources)
        self._numbers[pc, opcode] = number
        return number


def _fit(addresses: list[int]) -> bool:
    return all(0 <= address < 2**62 for address in addresses)
