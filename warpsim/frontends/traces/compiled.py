"""Compiles a trace into what a kernel is made of: different paths of warps, and what their accesses look like.

A trace is read as a stream. What is kept does not grow with its length, except by different paths, four bytes an instruction. The
compiled form is stored in the user's cache folder, so that a trace is read once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from array import array
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.accesses.tally import Active, Tally
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.launch.geometry import Geometry
from warpsim.frontends.machine_code.memory_instructions import bytes_per_thread, is_update, space_of
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.traces.trace_file import MOST_PENDING, Access, Head, Traced, TraceReader, WarpTrace, opened
from warpsim.units import WARP_LANES

FORM = 5
"""Version of the compiled form."""

MOST_ROWS, MOST_ROWS_OF_WARP = 800_000, 512
"""Accesses that are kept for the walk through the caches: of all warps, and of one."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Accesses of warps to global memory, in the order of launch numbers and programs: lines of 128 bytes, and masks of sectors.

    Attributes:
        lines, masks: of all accesses, one after another.
        first: int64[accesses + 1]: where each access begins in `lines`.
        place: int64[accesses]: number of its instruction.
        warp_first: int64[warps + 1]: where the accesses of each warp begin, of all warps of the blocks from the first one on.
    """

    lines: Numbers
    masks: Numbers
    first: Numbers
    place: Numbers
    warp_first: Numbers


@dataclass(frozen=True)
class CompiledTrace:
    """A trace.

    Attributes:
        head: what it says of the launch.
        instructions: of the code, those that were executed.
        paths: the different paths of warps: numbers of instructions.
        path_of_warp: int64[traced warps], by launch number: which of the paths.
        blocks: blocks that were traced.
        tallies: instruction -> what its accesses look like.
        rows: for the walk through the caches.
    """

    head: Head
    instructions: tuple[Traced, ...]
    paths: tuple[NDArray[np.uint32], ...]
    path_of_warp: Numbers
    blocks: int
    tallies: dict[int, Tally]
    rows: Rows


def compiled_trace(path: Path) -> CompiledTrace:
    """Returns a trace in its compiled form, which is read from the cache folder where it has been stored before.

    Raises:
        FrontEndError: the trace cannot be read, or is damaged.
    """
    stored = _stored_at(path)
    found = _load(stored) if stored is not None else None
    if found is None:
        with opened(path) as file:
            found = compile_warps(TraceReader(path, file))
        if stored is not None:
            _store(stored, found)
    return found


def machine_instruction(one: Traced) -> MachineInstruction:
    """Returns a traced instruction in the form of disassembly; guards, addresses and constants are not known."""
    return MachineInstruction(one.pc, one.opcode, ", ".join((*one.results, *one.sources)), line=one.line)


def compile_warps(reader: TraceReader) -> CompiledTrace:
    """Reads a trace to its end."""
    compiler = _Compiler(reader)
    for warp in reader.warps():
        compiler.add(warp)
    return compiler.finish()


@dataclass
class _Pending:
    """Accesses that have not been counted yet, with the numbers of their warps."""

    accesses: list[Access] = field(default_factory=list)
    warps: list[int] = field(default_factory=list)


class _Compiler:
    """Gathers the warps of a trace."""

    def __init__(self, reader: TraceReader) -> None:
        self.reader, self.geometry = reader, reader.head.geometry
        self.numbers: dict[bytes, int] = {}
        self.path_of: dict[int, int] = {}
        self.tallies: dict[int, Tally] = {}
        self.pending = _Pending()
        self.spaces: list[str | None] = []
        self.widths: list[int] = []
        self.updates: list[bool] = []
        self.kept: list[tuple[Numbers, ...]] = []
        self.kept_rows = 0
        self.rows_of: dict[int, int] = {}
        reader.spill = self._take

    def add(self, warp: WarpTrace) -> None:
        """Adds a warp."""
        number = self._number(warp)
        if number in self.path_of:
            where = f"{self.reader.path}, line {self.reader.number}"
            raise FrontEndError(f"{where}: warp {warp.warp} of block {warp.block} is there twice")
        self.path_of[number] = self.numbers.setdefault(array("I", warp.path).tobytes(), len(self.numbers))
        self._take(warp)

    def _number(self, warp: WarpTrace) -> int:
        width, height, _ = self.geometry.grid
        x, y, z = warp.block
        return ((z * height + y) * width + x) * self.geometry.block_warps + warp.warp

    def _take(self, warp: WarpTrace) -> None:
        """Takes the accesses off a warp."""
        self.pending.accesses += warp.accesses
        self.pending.warps += [self._number(warp)] * len(warp.accesses)
        warp.accesses = []
        if len(self.pending.accesses) >= MOST_PENDING:
            self._count()

    def finish(self) -> CompiledTrace:
        """Returns the trace."""
        self._count()
        if not self.path_of:
            raise FrontEndError(f"{self.reader.path}: holds no warp")
        paths = tuple(np.frombuffer(path, np.uint32) for path in self.numbers)
        order = sorted(self.path_of)
        of_warp = np.array([self.path_of[number] for number in order], np.int64)
        rows = self._rows(order)
        blocks = len(order) // self.geometry.block_warps
        return CompiledTrace(self.reader.head, tuple(self.reader.instructions), paths, of_warp, blocks, self.tallies, rows)

    def _count(self) -> None:
        """Counts the pending accesses."""
        accesses, warps = self.pending.accesses, np.array(self.pending.warps, np.int64)
        self.pending = _Pending()
        if not accesses:
            return
        for one in self.reader.instructions[len(self.spaces) :]:
            machine = machine_instruction(one)
            self.spaces.append(space_of(machine))
            self.widths.append(bytes_per_thread(machine))
            self.updates.append(is_update(machine))
        places = np.array([one.instruction for one in accesses], np.int64)
        rows, active = _expanded(accesses)
        for place in np.unique(places).tolist():
            chosen = places == place
            ones = np.ones(int(chosen.sum()))
            tally = self.tallies.setdefault(place, Tally())
            tally.record(rows[chosen].ravel(), Active(active[chosen].ravel(), ones), atomic=self.updates[place])
        if self.kept_rows < MOST_ROWS:
            self._keep(rows, places, warps)

    def _keep(self, rows: Numbers, places: Numbers, warps: Numbers) -> None:
        """Keeps accesses to global memory for the walk."""
        from warpsim.frontends.caches.compiled_walk import compressed

        wanted = np.array([self.spaces[place] == "global" for place in places.tolist()])
        for k in np.flatnonzero(wanted).tolist():
            count = self.rows_of[int(warps[k])] = self.rows_of.get(int(warps[k]), 0) + 1
            wanted[k] = count <= MOST_ROWS_OF_WARP
        rows, places, warps = rows[wanted], places[wanted], warps[wanted]
        widths = np.array(self.widths, np.int64)[places] if len(places) else np.zeros(0, np.int64)
        lines, masks, counts = compressed(rows, widths)
        self.kept.append((lines, masks, counts, places, warps))
        self.kept_rows += len(places)

    def _rows(self, order: list[int]) -> Rows:
        """Returns the kept accesses in the order of launch numbers."""
        none = np.zeros(0, np.int64)
        lines, masks, counts, places, warps = (
            np.concatenate([one[k] for one in self.kept]) if self.kept else none for k in range(5)
        )
        if len(warps):  # the last warp may have been cut
            order = order[: order.index(int(warps.max())) + 1]
        begins = np.cumsum(counts) - counts
        sequence = np.argsort(warps, kind="stable")
        taken = np.concatenate([np.arange(begins[k], begins[k] + counts[k]) for k in sequence]) if len(sequence) else none
        ordered = warps[sequence]
        warp_first = np.append(np.searchsorted(ordered, order), len(ordered)) if len(ordered) else np.zeros(1, np.int64)
        return Rows(lines[taken], masks[taken], np.append(0, np.cumsum(counts[sequence])), places[sequence], warp_first)


def _expanded(accesses: Iterable[Access]) -> tuple[Numbers, NDArray[np.bool_]]:
    """Returns the addresses of accesses, int64[n, 32], negative where a thread is off; and which threads are active."""
    listed = list(accesses)
    masks = np.array([one.mask for one in listed], np.uint32)
    active = (masks[:, None] >> np.arange(WARP_LANES, dtype=np.uint32) & 1).astype(bool)
    first, stride = (np.array([getattr(one, name) for one in listed], np.int64) for name in ("first", "stride"))
    lane = np.arange(WARP_LANES) - active.argmax(axis=1)[:, None]
    rows = np.where(active, first[:, None] + stride[:, None] * lane, -1)
    explicit = np.array([one.addresses is not None for one in listed])
    if explicit.any():
        flat = np.array([address for one in listed if one.addresses is not None for address in one.addresses], np.int64)
        part = np.full((int(explicit.sum()), WARP_LANES), -1, np.int64)
        part[active[explicit]] = flat
        rows[explicit] = part
    return rows, active


# The compiled form on disk


def cache_folder() -> Path:
    """Returns the folder of compiled traces."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpsim" / "traces"


def _stored_at(path: Path) -> Path | None:
    """Returns where the compiled form of a trace is kept; None where there is no place, or no such trace."""
    try:
        facts = path.resolve().stat()
        root = cache_folder()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    key = f"{FORM} {path.resolve()} {facts.st_size} {facts.st_mtime_ns}"
    return root / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz"


def _store(stored: Path, trace: CompiledTrace) -> None:
    """Writes the compiled form; a full or read-only disk is no error."""
    head = asdict(trace.head)
    tallies = {}
    for place, one in trace.tallies.items():
        patterns = [(np.frombuffer(key, np.int64).tolist(), count) for key, count in one.patterns.items()]
        tallies[place] = one.warps, one.threads, one.unknown, one.sectors, one.lines, one.updates, patterns
    instructions = [asdict(instruction) for instruction in trace.instructions]
    words = {"head": head, "blocks": trace.blocks, "instructions": instructions, "tallies": tallies}
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=stored.parent, suffix=".npz", delete=False) as file:
        try:
            np.savez_compressed(
                file, words=np.frombuffer(json.dumps(words).encode(), np.uint8), path_of_warp=trace.path_of_warp,
                paths=np.concatenate([*trace.paths, np.zeros(0, np.uint32)]), lengths=np.array([len(one) for one in trace.paths]),
                **asdict(trace.rows),
            )  # fmt: skip
            file.close()
            os.replace(file.name, stored)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise


def _load(stored: Path) -> CompiledTrace | None:
    """Returns the compiled form; None where there is none, or it is damaged."""
    try:
        with np.load(stored, allow_pickle=False) as data:
            words = json.loads(bytes(data["words"]))
            head: dict[str, Any] = words["head"] | {"geometry": Geometry(**_with_tuples(words["head"]["geometry"]))}
            tallies = {int(place): _tally(*one) for place, one in words["tallies"].items()}
            instructions = tuple(Traced(**_with_tuples(one)) for one in words["instructions"])
            ends = np.cumsum(data["lengths"])
            paths = tuple(np.split(data["paths"], ends[:-1]))
            rows = Rows(*(data[name] for name in ("lines", "masks", "first", "place", "warp_first")))
            return CompiledTrace(Head(**head), instructions, paths, data["path_of_warp"], words["blocks"], tallies, rows)
    except Exception:  # whatever is wrong with the file, the trace itself is there
        return None


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _tally(
    warps: float,
    threads: float,
    unknown: float,
    sectors: float,
    lines: float,
    updates: float,
    patterns: list[tuple[list[int], float]],
) -> Tally:
    found = {np.array(row, np.int64).tobytes(): n for row, n in patterns}
    return Tally(warps, threads, unknown, sectors, lines, found, updates=updates)
