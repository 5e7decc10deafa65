"""Kernels: the program that every warp of a grid executes, and the resources it needs on an SM.

`warpsim.kernels.steps` flattens the nested statements into a list of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from warpsim.hardware.fields import FROM_LIST, Between, Bytes, NamedModel
from warpsim.hardware.memo import kept_by_object
from warpsim.kernels.instruction import Instruction, Mbarrier, RegisterNames, raise_problems
from warpsim.kernels.statements import MAX_DEPTH, MAX_LOOP_DEPTH, MAX_STATEMENTS, Conditional, Loop, Statement, Statements
from warpsim.kernels.traversal import inner_statements, issued, walk
from warpsim.units import MAX_WARPS

Indices = Annotated[tuple[Annotated[int, Between(0, MAX_STATEMENTS)], ...], FROM_LIST]

MOST_MBARRIERS = 64
"""Largest number of mbarriers of a kernel."""

KERNEL_LABELS = ("name", "title", "source")
"""Fields of a kernel that are only for people; so are the comments of its instructions."""


class Kernel(NamedModel):
    """The program of a warp, and the resources it needs on an SM. An implicit "exit" ends every program.

    Attributes:
        name: short name.
        title: one-line description.
        source: where the kernel was published.
        registers_per_thread: registers allocated per thread, which limit the occupancy. The registers named in
            the program do not have to match.
        shared_bytes_per_block: bytes of shared memory allocated per thread block.
        block_warps: warps of a block, if the program was made for one size, as those of machine code are; it is the default of
            launches, and no part of the program's identity. None: any.
        inputs: registers that are ready at launch.
        mbarriers: those of a block that its instructions name.
        body: statements; only the last one can be an endless loop.
        entries: statements of `body` at which warps start, by index, the first one 0; empty: all start with the first one. The
            statement before an entry must be an "exit" (docs/model.md, section 2).
        entry_of_warp: which of the entries a launched warp starts at, by launch number modulo the length; given with `entries`.

    Raises:
        ValueError: a register is read that no earlier statement can have written and that is not an input; an
            endless loop is not the last statement; or an "exit" is not the last statement of a side of a
            conditional.
    """

    title: str = ""
    source: str = ""
    registers_per_thread: Annotated[int, Between(1, 255)] = 16
    shared_bytes_per_block: Bytes = 0
    block_warps: Annotated[int, Between(1, MAX_WARPS)] | None = None
    inputs: RegisterNames = ()
    body: Statements
    mbarriers: Annotated[tuple[Mbarrier, ...], FROM_LIST, Field(max_length=MOST_MBARRIERS)] = ()
    entries: Indices = ()
    entry_of_warp: Indices = ()

    @model_validator(mode="after")
    def _program_makes_sense(self) -> Kernel:
        raise_problems([*_entry_problems(self), *_depth_problems(self.body)])
        misplaced = _misplaced(self.body, "body", exits=frozenset(entry - 1 for entry in self.entries))
        unwritten = [problem for _, path in self.paths() for problem in _unwritten(path, "body", set(self.inputs))]
        raise_problems([*misplaced, *unwritten, *_mbarrier_problems(self)])
        return self

    def entry_of(self, launch_number: int) -> int:
        """Returns the index of the statement at which a launched warp starts."""
        return self.entries[self.entry_of_warp[launch_number % len(self.entry_of_warp)]] if self.entries else 0

    def paths(self) -> list[tuple[int, tuple[Statement, ...]]]:
        """Returns for each entry the index of its statement, and the statements from there to the next entry."""
        starts = self.entries or (0,)
        return [(start, self.body[start:end]) for start, end in zip(starts, (*starts[1:], None), strict=True)]

    def shares(self) -> list[float]:
        """Returns for each path the share of the launched warps that execute it."""
        if not self.entries:
            return [1.0]
        warps = Counter(self.entry_of_warp)
        return [warps[number] / len(self.entry_of_warp) for number in range(len(self.entries))]

    def most_frequent_path(self) -> Kernel:
        """Returns the kernel with the path that most warps execute as its only one."""
        if not self.entries:
            return self
        chosen = Counter(self.entry_of_warp).most_common(1)[0][0]
        body = self.paths()[chosen][1]
        if chosen < len(self.entries) - 1:
            body = body[:-1]
        return self.model_copy(update={"body": body, "entries": (), "entry_of_warp": ()})

    @property
    def ops(self) -> frozenset[str]:
        """The operation classes that the program can issue, including "branch" for conditionals and "exit"."""
        return _ops(self)

    @property
    def endless(self) -> bool:
        """Whether the program ends in an endless loop."""
        last = self.body[-1] if self.body else None
        return isinstance(last, Loop) and last.trips is None

    def identity(self) -> dict[str, Any]:
        """Returns the kernel in JSON types, without the labels that are only for people.

        The labels are `name`, `title`, `source` and the comments of instructions. Two kernels that differ in
        nothing else have equal identities, and the same seeds and digests.
        """
        return dict(_without_labels(self))


@kept_by_object
def _ops(kernel: Kernel) -> frozenset[str]:
    """Returns the operation classes that a program can issue."""
    return frozenset({"exit", *(instruction.op for instruction in issued(kernel.body))})


@kept_by_object
def has_contended_addresses(kernel: Kernel) -> bool:
    """Returns whether all warps of a program update a few addresses together."""
    instructions = (statement for _, statement in walk(kernel.body) if isinstance(statement, Instruction))
    return any(one.access is not None and one.access.contended_addresses is not None for one in instructions)


@kept_by_object
def names_warps(kernel: Kernel) -> bool:
    """Returns whether a program treats the warps of a block differently."""
    return any(isinstance(one, Conditional) and one.warps is not None for _, one in walk(kernel.body))


@kept_by_object
def _without_labels(kernel: Kernel) -> dict[str, Any]:
    """Returns a kernel in JSON types, without the labels that are only for people."""
    without = {*KERNEL_LABELS, "block_warps"} | (set() if kernel.entries else {"entries", "entry_of_warp"})
    parts: dict[str, Any] = _what_acts(kernel.model_dump(mode="json", exclude=without))
    return parts


def _what_acts(value: Any) -> Any:
    """Returns JSON values without the comments of instructions, and without optional keys that are not given, at any depth."""
    if isinstance(value, dict):
        of_accesses = ("contended_addresses", "l1_late_cycles", "l2_late_cycles", "l2_kept", "l2_coalesced")
        optional = ("reads", "hints", "arrives", "awaits", "reports", "mbarriers", *of_accesses)
        acting = {key: inner for key, inner in value.items() if key != "comment" and (key not in optional or inner)}
        costs = {key: cycles for key, cycles in (acting.pop("cost", None) or {}).items() if cycles is not None}
        return {key: _what_acts(inner) for key, inner in acting.items()} | ({"cost": costs} if costs else {})
    if isinstance(value, list):
        return [_what_acts(item) for item in value]
    return value


def barriers_not_reached_by_all(kernel: Kernel) -> list[str]:
    """Returns the paths of the barriers that some warps of a block may execute more often than others.

    Such a barrier is inside a conditional that divides the block, or inside a loop with a random number of trips.
    If a block has more than one warp, this is an error of the program (on hardware, a deadlock).
    """
    return list(_unreached(kernel))


@kept_by_object
def _unreached(kernel: Kernel) -> tuple[str, ...]:
    return tuple(_uneven_barriers(kernel.body, "body", False))


def _uneven_barriers(statements: tuple[Statement, ...], path: str, uneven: bool) -> Iterator[str]:
    for index, statement in enumerate(statements):
        here = f"{path}[{index}]"
        if isinstance(statement, Instruction) and statement.op == "barrier" and uneven:
            yield here
        divides = (isinstance(statement, Conditional) and statement.divides_block) or (
            isinstance(statement, Loop) and statement.trip_range[0] != statement.trip_range[1]
        )
        for name, inner in inner_statements(statement):
            yield from _uneven_barriers(inner, f"{here}.{name}", uneven or divides)


def _misplaced(
    statements: tuple[Statement, ...],
    path: str,
    *,
    exits: frozenset[int] | None = None,
    may_exit: bool = False,
    diverged: bool = False,
) -> Iterator[str]:
    """Yields errors in the positions of endless loops and of "exit".

    `exits`, of the kernel's own statements, holds the indices of those that end a path before the next entry.
    """
    for index, statement in enumerate(statements):
        here, last = f"{path}[{index}]", index == len(statements) - 1
        if isinstance(statement, Instruction):
            if statement.op == "exit" and not (may_exit and last) and index not in (exits or ()):
                yield f'{here}.op = "exit": must be the last statement of a side of a conditional that does not diverge'
        elif isinstance(statement, Loop):
            if statement.trips is None and not (exits is not None and last):
                yield f"{here}.trips = endless: must be the last statement of the kernel"
            yield from _misplaced(statement.body, f"{here}.body", diverged=diverged)
        else:
            below = diverged or statement.diverges
            for name, inner in inner_statements(statement):
                yield from _misplaced(inner, f"{here}.{name}", may_exit=not below, diverged=below)


def _entry_problems(kernel: Kernel) -> Iterator[str]:
    """Yields errors in the entries of a kernel."""
    entries, of_warp = kernel.entries, kernel.entry_of_warp
    if bool(entries) != bool(of_warp):
        yield "entries, entry_of_warp: must be given together, or neither"
    if not entries or not of_warp:
        return
    if len(entries) < 2 or entries[0] != 0 or list(entries) != sorted(set(entries)) or entries[-1] >= len(kernel.body):
        yield f"entries = [{entries[0]}, ...]: must be two or more, begin with 0, ascend, and name statements of the body"
    elif any(not ends_with_exit(kernel.body[:entry]) for entry in entries[1:]):
        yield 'entries: the statement before an entry must be an "exit"'
    if kernel.endless:
        yield "entries: must be left out where the program ends in an endless loop"
    if set(of_warp) != set(range(len(entries))):
        yield f"entry_of_warp = [{of_warp[0]}, ...]: must name each of the {len(entries)} entries, by numbers from 0"


def _mbarrier_problems(kernel: Kernel) -> Iterator[str]:
    """Yields errors for mbarriers that instructions name, but the kernel does not, and for those at which nobody arrives."""
    named = {"arrives": set[str](), "awaits": set[str](), "reports": set[str]()}
    known = [mbarrier.name for mbarrier in kernel.mbarriers]
    yield from (f"mbarriers: {name!r} is there twice" for name in sorted({name for name in known if known.count(name) > 1}))
    for path, one in walk(kernel.body):
        for role, names in named.items():
            if isinstance(one, Instruction) and (name := getattr(one, role)) is not None:
                names.add(name)
                if name not in known:
                    stated = ", ".join(known) or "none"
                    yield f"{path}.{role} = {name!r}: must be one of the kernel's mbarriers, which are {stated}"
    for name in sorted(named["awaits"] - named["arrives"]):
        yield f"mbarriers: {name!r} is awaited, but no instruction arrives at it"


def _depth_problems(body: tuple[Statement, ...]) -> Iterator[str]:
    """Yields errors for statements, and for loops that repeat, that are nested too deeply."""
    open_ends, deepest, most_loops = [(body, 0, 0)], 0, 0
    while open_ends:
        statements, depth, loops = open_ends.pop()
        deepest, most_loops = max(deepest, depth), max(most_loops, loops)
        for statement in statements:
            if not isinstance(statement, Instruction):
                repeats = isinstance(statement, Loop) and statement.trip_range[1] != 1
                open_ends += [(inner, depth + 1, loops + repeats) for _, inner in inner_statements(statement)]
    if deepest > MAX_DEPTH:
        yield f"body: statements are nested {deepest} levels deep: must be at most {MAX_DEPTH}"
    if most_loops > MAX_LOOP_DEPTH:
        yield f"body: loops that repeat are nested {most_loops} levels deep: must be at most {MAX_LOOP_DEPTH}"


def _unwritten(statements: tuple[Statement, ...], path: str, written: set[str]) -> Iterator[str]:
    """Yields errors for registers that are read before any statement can have written them; adds to `written`."""
    for index, statement in enumerate(statements):
        here = f"{path}[{index}]"
        if not isinstance(statement, Loop):
            for register in dict.fromkeys(statement.src):
                if register not in written:
                    ready = ", ".join(sorted(written)) or "none"
                    what = statement.op if isinstance(statement, Instruction) else "branch"
                    yield (
                        f"{here}.src = {register!r}: {what} reads a register that no earlier instruction"
                        f" writes and that is not in inputs; registers available here: {ready}"
                    )
        if isinstance(statement, Instruction):
            if statement.dst is not None:
                written.add(statement.dst)
        elif isinstance(statement, Loop):
            yield from _unwritten(statement.body, f"{here}.body", written)
        else:
            before = set(written)
            for name, inner in inner_statements(statement):
                side = set(written) if statement.diverges else set(before)
                yield from _unwritten(inner, f"{here}.{name}", side)
                if not ends_with_exit(inner):
                    written |= side


def ends_with_exit(statements: Sequence[Statement]) -> bool:
    """Returns whether statements end with the exit of the warp."""
    return bool(statements) and isinstance(statements[-1], Instruction) and statements[-1].op == "exit"
