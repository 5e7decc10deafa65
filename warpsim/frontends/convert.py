"""A machine function and a launch become a Kernel.

Each instruction keeps its own costs: the stall count is its gap, and a writer of a counter has a register of its own, which those
that wait for the counter read. Accesses are those of the sampled warps.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from warpsim.frontends.accesses import SECTOR_BYTES, Addresses, Tally, Width, bytes_per_thread, space_of
from warpsim.frontends.caches import Hits, caches_of
from warpsim.frontends.dependences import Waits, has_control_fields, waits_of
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.evaluate import Evaluator
from warpsim.frontends.evaluation import Given
from warpsim.frontends.flow import Flow, make_flow, place
from warpsim.frontends.geometry import Geometry
from warpsim.frontends.keys import Key
from warpsim.frontends.opcodes import opcodes
from warpsim.frontends.operands import register_slots
from warpsim.frontends.parameters import argument_bytes
from warpsim.frontends.reuse import Place, hits_of
from warpsim.frontends.sass import MachineFunction, MachineInstruction
from warpsim.frontends.structure import Structure
from warpsim.hardware import files as params
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import OPS_WITHOUT_RESULT, Access, Cost, Instruction, Statement
from warpsim.units import ATOMIC_OPS, MEMORY_OPS, WARP_LANES

_OLDEST = 50
_THROUGH_QUEUES = (*MEMORY_OPS, "smem")
"""Classes whose instructions do not pass the register ports when they issue."""

_SPREAD = 0.05
"""Relative difference of the mean number of sectors from that of the pattern, from which on an access states its own requests."""


@dataclass(frozen=True)
class Choices:
    """What the caller states because the machine code cannot.

    Attributes:
        arguments: of the kernel, by name, by number, or in order; what is left out is unknown.
        trips: loop -> number of trips, where it depends on data.
        probabilities: branch -> probability that a warp does not jump, where that depends on data.
        patterns: access, by line or address -> its pattern, where its addresses depend on data; for shared memory the ways of its
            bank conflict.
        caches: chip whose caches decide how often accesses hit; None: one of the architecture; "none": no access hits.
    """

    arguments: Mapping[Key, float] | tuple[float | None, ...] = ()
    trips: Mapping[Key, int] = field(default_factory=dict)
    probabilities: Mapping[Key, float] = field(default_factory=dict)
    patterns: Mapping[Key, str | int | Access] = field(default_factory=dict)
    caches: Gpu | str | None = None


@dataclass(frozen=True)
class Requirements:
    """What a kernel needs of an SM."""

    registers_per_thread: int
    shared_bytes_per_block: int


def to_kernel(function: MachineFunction, geometry: Geometry, choices: Choices, *, name: str, source: str = "") -> Kernel:
    """Returns the kernel of a machine function for a launch.

    Warns (AssumptionWarning) of everything that had to be assumed.

    Raises:
        FrontEndError: the architecture or the flow is not supported, or the trips of a loop depend on what is not known.
    """
    if function.arch < _OLDEST:
        raise FrontEndError(f"{function.name}: sm_{function.arch} is not supported; architectures from sm_{_OLDEST} on are")
    flow = make_flow(function)
    given = Given(flow, geometry, argument_bytes(function, choices.arguments), choices.trips, choices.probabilities)
    evaluation = Evaluator(given).run()
    waits = waits_of(flow)
    shared = function.shared_bytes + geometry.dynamic_shared
    resources = Requirements(min(255, max(1, function.registers)), shared)
    caches = None if choices.caches == "none" else caches_of(function.arch, resources, geometry.block_warps, choices.caches)
    emitter = Emitter(flow, waits, evaluation.accesses, choices.patterns, {} if caches is None else hits_of(given, caches))
    counted = (evaluation.counts, evaluation.entries, evaluation.weights, evaluation.warp_in_block)
    shape = Structure(flow, *counted, emitter.block, evaluation.stated)
    body = shape.body()
    warn(name, (*evaluation.notes, *shape.notes, *emitter.notes()))
    size = "x".join(str(n) for n in geometry.block if n > 1) or "1"
    return Kernel(
        name=name,
        title=f"{name}, sm_{function.arch}, blocks of {size} threads",
        source=source or function.source,
        registers_per_thread=resources.registers_per_thread,
        shared_bytes_per_block=resources.shared_bytes_per_block,
        block_warps=geometry.block_warps,
        inputs=tuple(emitter.registers.values()),
        body=tuple(body or [Instruction("branch")]),
    )


def warn(name: str, notes: tuple[str, ...]) -> None:
    """Warns of what had to be assumed."""
    for note in dict.fromkeys(notes):
        warnings.warn(f"{name}: {note}", AssumptionWarning, stacklevel=4)


@cache
def classes_of(arch: int) -> frozenset[str]:
    """Returns the operation classes of an architecture's chips; those that every chip has where it is not described."""
    folder = params.params_dir() / "architectures"
    known = {int(path.stem.removeprefix("sm_")): path for path in folder.glob("sm_*.toml")}
    nearest = max((number for number in known if number <= arch), default=None)
    if nearest is None:
        return frozenset(("alu", "sfu", "smem", "load", "store", "barrier", "branch", "exit"))
    return frozenset(params.read_toml(known[nearest]).get("ops", {}))


class Emitter:
    """Makes the instructions of blocks."""

    def __init__(
        self,
        flow: Flow,
        waits: Waits,
        accesses: Mapping[Place, Tally],
        patterns: Mapping[Key, str | int | Access],
        hits: Mapping[Place, Hits],
    ) -> None:
        self.flow, self.function, self.waits, self.accesses = flow, flow.function, waits, accesses
        self.table, self.available = opcodes(self.function.arch), classes_of(self.function.arch)
        self.patterns = {str(key): value for key, value in patterns.items()}
        self.hits = hits
        self.by_counters = has_control_fields(flow)
        waited = {writer for writers in waits.values() for writer in writers}
        self.registers = {index: f"v{index}" for index in sorted(waited)}
        self.unlisted: Counter[tuple[str, str]] = Counter()
        self.unnamed: dict[str, None] = {}
        self.used: set[str] = set()
        self.unwritten: set[str] = set()

    def notes(self) -> list[str]:
        """Returns what was assumed of opcodes and addresses."""
        found = [
            f"{count} instructions {opcode} are not in the table of opcodes: taken as {family}"
            for (opcode, family), count in sorted(self.unlisted.items())
        ]
        unused = [key for key in self.patterns if key not in self.used]
        return [*found, *self.unnamed, *(f"patterns[{key!r}]: no access with unknown addresses is there" for key in unused)]

    def block(self, number: int) -> list[Statement]:
        """Returns the instructions of a block.

        A barrier reads no register, so what it waits for is left to the instruction after it.
        """
        found: list[Statement] = []
        left: tuple[str, ...] = ()
        for index in self.flow.blocks[number].code:
            if self._counts(number, index):
                sources = left + self.waited((number, index))
                one = self.instruction(number, index, tuple(dict.fromkeys(sources)))
                left = sources if one.op == "barrier" else ()
                found.append(one)
        return found

    def waited(self, place: Place) -> tuple[str, ...]:
        """Returns the registers for which an instruction waits."""
        return tuple(f"v{writer}" for writer in self.waits.get(place, ()))

    def _counts(self, number: int, index: int) -> bool:
        """Whether an instruction is one of the program: an exit that ends it is implied, and padding is never issued."""
        one = self.function.code[index]
        return not (one.base == "EXIT" and not one.guard)

    def instruction(self, number: int, index: int, sources: tuple[str, ...]) -> Instruction:
        """Returns an instruction of a block, with the registers that it waits for."""
        one = self.function.code[index]
        family, listed = self.table.family(one)
        if not listed:
            self.unlisted[one.base, family] += 1
        op = self.table.operation(family, self.available)
        tally = self.accesses.get((number, index))
        idle = op in (*MEMORY_OPS, "smem") and tally is not None and tally.warps == 0
        if idle or (space_of(one) and tally is None):
            op = self.table.operation(
                "integer", self.available
            )  # predicated off for all threads: it issues, and accesses nothing
        fields: dict[str, Any] = {"src": () if op == "barrier" else sources, "comment": self._comment(one)}
        cost: dict[str, Any] = {}
        if index in self.registers and op not in OPS_WITHOUT_RESULT:
            fields["dst"] = self.registers[index]
        if self.by_counters and one.control is not None and family != "branch":
            cost["gap_cycles"] = max(1, one.control.stall)
        if (interval := self.table.interval(one)) is not None:
            cost["interval_cycles"] = interval
        if self.by_counters and op not in _THROUGH_QUEUES:
            fields["reads"] = register_slots(one)
        if op in (*MEMORY_OPS, "smem") and space_of(one) is not None:
            self._access(one, op, tally, self.hits.get((number, index)), fields, cost)
        return Instruction(op, **fields, cost=Cost(**cost) if cost else None)

    def _comment(self, one: MachineInstruction) -> str:
        where = "" if one.line is None else f"{self.function.source or 'line'}:{one.line} "
        return where + one.text.partition("(*")[0].strip()

    def _access(
        self,
        one: MachineInstruction,
        op: str,
        tally: Tally | None,
        hit: Hits | None,
        fields: dict[str, Any],
        cost: dict[str, Any],
    ) -> None:
        width = bytes_per_thread(one)
        if space_of(one) == "local":  # addresses of threads are interleaved, and stay in L1 while it has room
            fields["access"] = Access(bytes_per_thread=width, l1_hit=1.0)
            return
        addresses = None if tally is None or 2 * tally.unknown > tally.warps else tally.pattern()
        if addresses is None:
            named = self._named(one, op)
            if isinstance(named, int):
                fields["ways"] = named
            else:
                fields["access"] = named or Access(bytes_per_thread=width)
            return
        if one.base in ("LDSM", "STSM"):
            addresses = _matrix_rows(one, addresses)
        access = as_access(tuple(addresses.tolist()), width)
        if hit is not None and op != "smem":
            access = access.model_copy(update={"l1_hit": round(hit.l1, 4), "l2_hit": round(hit.l2, 4)})
        fields["access"] = access
        if tally is not None and op != "smem" and (known := tally.warps - tally.unknown) > 0:
            sectors, lines = tally.sectors / known, tally.lines / known
            if hit is not None and 0.0 < hit.sectors < sectors:
                sectors = hit.sectors
            if op in ATOMIC_OPS and tally.updates > 0:
                cost["updates"] = max(1, round(tally.updates / known))
            of_pattern = len({address // SECTOR_BYTES for address in addresses.tolist()})
            if abs(sectors - of_pattern) > _SPREAD * of_pattern:
                cost["requests"] = max(1, round(lines))
                cost["bytes_per_request"] = round(sectors * SECTOR_BYTES / cost["requests"], 3)

    def _named(self, one: MachineInstruction, op: str) -> Access | int | None:
        """Returns the pattern or the bank conflict that the caller states for an access with unknown addresses; None: nothing."""
        for key in (str(one.line), f"{one.address:#x}"):
            if key not in self.patterns:
                continue
            self.used.add(key)
            named = self.patterns[key]
            if isinstance(named, Access):
                return named
            if op == "smem" and type(named) is int and 1 <= named <= WARP_LANES:
                return named
            if named in ("coalesced", "broadcast") or (named == "random" and op != "smem"):
                return Access.model_validate({"pattern": named, "bytes_per_thread": bytes_per_thread(one)})
            allowed = '"coalesced", "broadcast" or ' + ("a conflict of 1 to 32 ways" if op == "smem" else '"random"')
            raise FrontEndError(f"patterns[{key!r}] = {named!r}: must be {allowed}, or an Access")
        where = place(self.function, self.function.code.index(one))
        self.unnamed[f"{where}: the addresses of {one.opcode} depend on data: taken as coalesced; give patterns"] = None
        return None


def _matrix_rows(one: MachineInstruction, addresses: Addresses) -> Addresses:
    """Returns the addresses of the threads that name rows of a matrix load: 8 for each matrix."""
    suffix = one.opcode.rpartition(".")[2]
    count = 8 * (int(suffix) if suffix in ("2", "4") else 1)
    return addresses[np.arange(32) % count]


@lru_cache(maxsize=4096)
def as_access(addresses: tuple[int, ...], width: Width) -> Access:
    """Returns an access pattern: that of `Access` with a name, where one fits, or the addresses themselves.

    Args:
        addresses: of the 32 threads, in bytes from the start of a line on.
        width: bytes of each thread.
    """
    aligned = [address // width * width for address in addresses]
    steps = {second - first for first, second in pairwise(aligned)}
    fields: dict[str, Any] = {"bytes_per_thread": width, "offset_bytes": aligned[0]}
    step = steps.pop() if len(steps) == 1 else -1
    if step == 0:
        return Access(pattern="broadcast", **fields)
    if step == width:
        return Access(pattern="coalesced", **fields)
    if step > 0 and step % width == 0:
        return Access(pattern="stride", stride=step // width, **fields)
    return Access(pattern="addresses", bytes_per_thread=width, addresses=tuple(aligned))
