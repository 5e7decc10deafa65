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
from typing import Any

from warpsim.frontends.accesses import SECTOR_BYTES, Tally, bytes_per_thread, is_widest, space_of
from warpsim.frontends.caches import Hits, caches_of
from warpsim.frontends.dependences import Waits, has_control_fields, waits_of
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.evaluate import evaluate
from warpsim.frontends.evaluation import Evaluation, Given
from warpsim.frontends.flow import Flow, make_flow, place
from warpsim.frontends.geometry import Geometry
from warpsim.frontends.keys import Key, keys_of
from warpsim.frontends.opcodes import opcodes
from warpsim.frontends.operands import register_slots
from warpsim.frontends.parameters import argument_bytes
from warpsim.frontends.patterns import as_access, conflict_degree, matrix_rows, ways_of
from warpsim.frontends.reuse import Place, hits_of
from warpsim.frontends.sass import MachineFunction, MachineInstruction
from warpsim.frontends.structure import Structure, which_warps
from warpsim.hardware import files as params
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import OPS_WITHOUT_RESULT, Access, Conditional, Cost, Instruction, Statement
from warpsim.units import ATOMIC_OPS, MEMORY_OPS, WARP_LANES

_OLDEST = 50
_ACCESSES = (*MEMORY_OPS, "smem")
"""Classes of accesses. They do not pass the register ports when they issue."""

_SPREAD = 0.05
"""Relative difference that does not count: of the mean number of sectors from that of the pattern, from which on an access states
its own requests; of the executions of an access from those of its block, from which on it stands under a condition."""


@dataclass(frozen=True)
class Choices:
    """What the caller states because the machine code cannot.

    Attributes:
        arguments: of the kernel, by name, by number, or in order; what is left out is unknown.
        trips: loop -> number of trips, where it depends on data.
        probabilities: branch, or access under a predicate -> probability that a warp does not jump, or makes the access, where
            that depends on data.
        patterns: access, by line or address -> its pattern, where its addresses depend on data; for shared memory the ways of its
            bank conflict, for constants how many of them a warp reads.
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
    evaluation = evaluate(given)
    waits = waits_of(flow)
    shared = function.shared_bytes + geometry.dynamic_shared
    resources = Requirements(min(255, max(1, function.registers)), shared)
    caches = None if choices.caches == "none" else caches_of(function.arch, resources, geometry.block_warps, choices.caches)
    found = {} if caches is None else hits_of(given, caches)
    emitter = Emitter(flow, waits, evaluation.accesses, choices.patterns, found, Sampled(given, evaluation))
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


class Sampled:
    """What the sampled warps tell of an access beside its addresses: which warps make it, and where atomics of all warps meet."""

    def __init__(self, given: Given, evaluation: Evaluation) -> None:
        self.flow, self.evaluation = given.flow, evaluation
        _, self.stated = given.probabilities_by_place
        self.notes: dict[str, None] = {}

    def condition(self, number: int, index: int) -> dict[str, Any] | None:
        """Returns the rule of a conditional for an access of a block; None: all warps make it, but for a few."""
        found, here = self.evaluation, self.evaluation.counts[number]
        tally, made = found.accesses[number, index], found.made[number, index]
        if tally.doubtful:
            if index in self.stated:
                return {"probability": self.stated[index]}
            where, opcode = place(self.flow.function, index), self.flow.function.code[index].opcode
            how = "all warps are taken to make it; state their share with probabilities"
            self.notes[f"{where}: whether a thread makes the access {opcode} depends on data: {how}"] = None
        if tally.warps > (1 - _SPREAD) * float((here * found.weights).sum()):
            return None
        return which_warps(made, here, found.weights, found.warp_in_block)

    def contended(self, tally: Tally) -> int | None:
        """Returns the number of addresses that all warps update; None: they do not meet. Those of a sector count as one."""
        return tally.contention.sectors(self.evaluation.block_warps, whole_grid=self.evaluation.whole_grid)


class Emitter:
    """Makes the instructions of blocks.

    Args:
        flow: whose blocks they are.
        waits: instruction -> instructions for which it waits.
        accesses: what the accesses look like.
        patterns: what the caller states of them.
        hits: how often they hit.
        sampled: which warps make them; None: all that issue them.
    """

    def __init__(
        self,
        flow: Flow,
        waits: Waits,
        accesses: Mapping[Place, Tally],
        patterns: Mapping[Key, str | int | Access],
        hits: Mapping[Place, Hits],
        sampled: Sampled | None = None,
    ) -> None:
        self.flow, self.function, self.waits, self.accesses = flow, flow.function, waits, accesses
        self.table, self.available = opcodes(self.function.arch), classes_of(self.function.arch)
        self.patterns = {str(key): value for key, value in patterns.items()}
        self.hits, self.sampled = hits, sampled
        self.by_counters = has_control_fields(flow)
        waited = {writer for writers in waits.values() for writer in writers}
        self.registers = {index: f"v{index}" for index in sorted(waited)}
        self.unlisted: Counter[tuple[str, str]] = Counter()
        self.unnamed: dict[str, None] = {}
        self.used: set[str] = set()

    def notes(self) -> list[str]:
        """Returns what was assumed of opcodes and addresses."""
        found = [
            f"{count} instructions {opcode} are not in the table of opcodes: taken as {family}"
            for (opcode, family), count in sorted(self.unlisted.items())
        ]
        unused = [key for key in self.patterns if key not in self.used]
        found += [*self.unnamed, *(() if self.sampled is None else self.sampled.notes)]
        return found + [f"patterns[{key!r}]: no access with unknown addresses is there" for key in unused]

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
                found.append(self._if_made(number, index, one))
        return found

    def _if_made(self, number: int, index: int, one: Instruction) -> Statement:
        """Returns an instruction, under a condition if it is an access that only some of the warps make."""
        if self.sampled is None or one.op not in _ACCESSES or (number, index) not in self.accesses:
            return one
        rule = self.sampled.condition(number, index)
        return one if rule is None else Conditional(then=(one,), src=one.src, cost=Cost(gap_cycles=1), **rule)

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
        idle = op in _ACCESSES and tally is not None and tally.warps == 0
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
        if self.by_counters and op not in _ACCESSES:
            fields["reads"] = register_slots(one)
        if op in _ACCESSES and space_of(one) is not None:
            self._access(one, op, tally, self.hits.get((number, index)), fields, cost)
        return Instruction(op, **fields, cost=_cost(tuple(cost.items())))

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
        if is_widest(one) and op != "smem":
            cost["requested_bytes"] = WARP_LANES * SECTOR_BYTES
        if space_of(one) == "local":  # addresses of threads are interleaved, and stay in L1 while it has room
            fields["access"] = Access(bytes_per_thread=width, l1_hit=1.0)
            return
        addresses = None if tally is None or 2 * tally.unknown > tally.warps else tally.pattern()
        is_constant = space_of(one) == "constant"
        if addresses is None:
            named = self._named(one, op)
            if isinstance(named, int):
                fields["ways"] = named
            elif not is_constant:
                fields["access"] = named or Access(bytes_per_thread=width)
            return
        if one.base in ("LDSM", "STSM"):
            addresses = matrix_rows(one, addresses)
        elif tally is not None and op == "smem":
            ways = round(ways_of(one, tally))
            if is_constant or ways != conflict_degree(addresses, width):
                fields["ways"] = ways
                return
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
            if op in ATOMIC_OPS and self.sampled is not None:
                fields["access"] = access.model_copy(update={"contended_addresses": self.sampled.contended(tally)})
            of_pattern = len({address // SECTOR_BYTES for address in addresses.tolist()})
            if abs(sectors - of_pattern) > _SPREAD * of_pattern:
                cost["requests"] = max(1, round(lines))
                cost["bytes_per_request"] = round(sectors * SECTOR_BYTES / cost["requests"], 3)

    def _named(self, one: MachineInstruction, op: str) -> Access | int | None:
        """Returns the pattern or the ways that the caller states for an access with unknown addresses; None: nothing."""
        is_constant = space_of(one) == "constant"
        for key in map(str, keys_of(one)):
            if key not in self.patterns:
                continue
            self.used.add(key)
            named = self.patterns[key]
            if op == "smem" and type(named) is int and 1 <= named <= WARP_LANES:
                return named
            if is_constant:
                raise FrontEndError(f"patterns[{key!r}] = {named!r}: must be how many constants a warp reads, 1 to 32")
            if isinstance(named, Access):
                return named
            if named in ("coalesced", "broadcast") or (named == "random" and op != "smem"):
                return Access.model_validate({"pattern": named, "bytes_per_thread": bytes_per_thread(one)})
            allowed = '"coalesced", "broadcast" or ' + ("a conflict of 1 to 32 ways" if op == "smem" else '"random"')
            raise FrontEndError(f"patterns[{key!r}] = {named!r}: must be {allowed}, or an Access")
        where = place(self.function, self.function.code.index(one))
        assumed = "one for all threads" if is_constant else "coalesced"
        self.unnamed[f"{where}: the addresses of {one.opcode} depend on data: taken as {assumed}; give patterns"] = None
        return None


@lru_cache(maxsize=4096)
def _cost(fields: tuple[tuple[str, Any], ...]) -> Cost | None:
    return Cost(**dict(fields)) if fields else None
