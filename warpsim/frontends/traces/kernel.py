"""A compiled trace becomes a Kernel: a path for each different sequence of instructions, with loops where it repeats itself.

Where the binary is known, the instructions have its control fields. Otherwise the registers decide what waits for what, and how
long follows from the latencies of the chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.caches.until_enough import kind_of
from warpsim.frontends.caches.walk import Hits, ListedAccesses, caches_of, hits, notes_of_caches
from warpsim.frontends.errors import FrontEndError, warn
from warpsim.frontends.machine_code.flow import Block, Flow, make_flow
from warpsim.frontends.machine_code.operands import registers_of, written_count
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.program.convert import Requirements
from warpsim.frontends.program.emitter import Emitter
from warpsim.frontends.traces.compiled import CompiledTrace, machine_instruction
from warpsim.frontends.traces.fold import Item, Repeated, fold, length
from warpsim.frontends.traces.trace_file import NEWEST_VERSION
from warpsim.frontends.waits.dependences import Waits, waits_of
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Loop, Statement

MOST_STATEMENTS, MOST_FOLDED, MOST_PATHS = 20_000, 2_000_000, 256
"""Limits of what is kept: statements of the kernel, instructions that are folded into loops, different paths."""

Path = NDArray[np.uint32]


def traced_kernel(trace: CompiledTrace, binary: MachineFunction | None, caches: Gpu | str | None, *, name: str) -> Kernel:
    """Returns the kernel of a trace.

    Args:
        trace: compiled.
        binary: the function that was traced, for its control fields; None: registers decide.
        caches: as in `from_cuda`.
        name: of the kernel.

    Warns:
        AssumptionWarning: some paths stand for others, or blocks were not traced; an opcode or the version is not known.

    Raises:
        FrontEndError: trace and binary differ.
    """
    head, geometry = trace.head, trace.head.geometry
    resources = Requirements(max(1, head.registers), head.shared_bytes)
    kept, path_of_warp, notes = _kept(trace)
    if head.version > NEWEST_VERSION:
        notes.append(f"a trace of version {head.version} is read as one of version {NEWEST_VERSION}, the newest that is known")
    function, number_of, waits = _joined(trace, binary) if binary is not None else _alone(trace, kept)
    flow = Flow(function, (Block(range(len(function.code)), None, (), False),), ())
    places = {number: (0, index) for number, index in number_of.items()}
    tallies = {places[number]: tally for number, tally in trace.tallies.items()}
    found = _hits(trace, resources, caches)
    notes += notes_of_caches(head.arch, caches)
    emitter = Emitter(flow, waits, tallies, {}, {places[number]: hit for number, hit in found.items()})
    writer = _Writer(emitter, number_of)
    paths = [writer.path(items) for items in kept]
    order = sorted(range(len(paths)), key=lambda number: len(paths[number]))  # the last one must not be empty
    body: list[Statement] = []
    entries = []
    for number in order:
        entries.append(len(body))
        body += [*paths[number], *([Instruction("exit")] if number != order[-1] else [])]
    entry_of = np.argsort(order)[path_of_warp]
    warn(name, (*notes, *emitter.notes()))
    several = len(order) > 1
    size = "x".join(str(n) for n in geometry.block if n > 1) or "1"
    return Kernel(
        name=name,
        title=f"{name}, a trace for sm_{head.arch}, blocks of {size} threads",
        source=function.source,
        registers_per_thread=resources.registers_per_thread,
        shared_bytes_per_block=resources.shared_bytes_per_block,
        block_warps=geometry.block_warps,
        inputs=tuple(emitter.registers.values()),
        body=tuple(body or [Instruction("branch")]),
        entries=tuple(entries) if several else (),
        entry_of_warp=tuple(entry_of.tolist()) if several else (),
    )


class _Writer:
    """Writes folded paths as statements; equal instructions and loops are the same objects."""

    def __init__(self, emitter: Emitter, number_of: Mapping[int, int]) -> None:
        self.emitter, self.number_of = emitter, number_of
        self.known: dict[tuple[int, tuple[str, ...]], Instruction] = {}
        self.left: tuple[str, ...] = ()  # what a barrier waits for, which reads no register

    def path(self, items: tuple[Item, ...]) -> list[Statement]:
        """Returns the statements of a path, without its last exit."""
        self.left = ()
        return [self._statement(item) for item in items]

    def _statement(self, item: Item) -> Statement:
        if isinstance(item, Repeated):
            body = tuple(self._statement(one) for one in item.body)
            return Loop(body=body, trips=item.trips)
        index = self.number_of[item]
        waited = self.emitter.waited((0, index))
        sources = tuple(dict.fromkeys(self.left + waited))
        if (index, sources) not in self.known:
            self.known[index, sources] = self.emitter.instruction(0, index, sources)
        one = self.known[index, sources]
        self.left = sources if one.op == "barrier" else ()
        return one


def _kept(trace: CompiledTrace) -> tuple[list[tuple[Item, ...]], NDArray[np.int64], list[str]]:
    """Returns the paths that stand for all, folded; for each warp which of them it takes; and what had to be assumed."""
    exits = {number for number, one in enumerate(trace.instructions) if one.opcode.partition(".")[0] == "EXIT"}
    warps = Counter(trace.path_of_warp.tolist())
    order = _in_order(trace, warps)
    kept: dict[int, tuple[Item, ...]] = {}
    notes, statements, folded = [], 0, 0
    for number in order:
        path = trace.paths[number]
        if kept and (len(kept) >= MOST_PATHS or folded + len(path) > MOST_FOLDED):
            break
        plain = path[:MOST_FOLDED].tolist()
        if plain and plain[-1] in exits:
            plain.pop()
        items = fold(plain)
        if length(items) > MOST_STATEMENTS and not kept:
            notes.append("the path of most warps does not fit: loops with the same body have the mean number of trips")
            items = fold(plain, exact=False)
            if length(items) > MOST_STATEMENTS:
                notes.append(f"and its first {MOST_STATEMENTS} statements stand for it")
                items = _first(items, MOST_STATEMENTS)
        if kept and statements + length(items) > MOST_STATEMENTS:
            break
        kept[number] = items
        statements += length(items)
        folded += len(plain)
    if trace.blocks < trace.head.geometry.blocks:
        notes.append(f"{trace.blocks} of {trace.head.geometry.blocks} blocks were traced: they stand for all")
    names = list(kept)
    lengths = np.array([len(trace.paths[number]) for number in names])
    nearest = [
        names.index(n) if n in kept else int(np.abs(lengths - len(path)).argmin()) for n, path in enumerate(trace.paths)
    ]
    chosen = np.array(nearest, np.int64)[trace.path_of_warp]
    if len(kept) < len(order):
        share = sum(warps[number] for number in kept) / len(trace.path_of_warp)
        executed = np.array([len(path) for path in trace.paths])[trace.path_of_warp].sum()
        notes.append(
            f"{len(kept)} of {len(order)} different paths are kept, which {share:.1%} of the warps take; the others take the "
            f"kept path of the nearest length: {lengths[chosen].sum() / executed:.1%} of the instructions are executed"
        )
    taken = sorted(set(chosen.tolist()))
    renumbered = np.searchsorted(taken, chosen)
    size = trace.head.geometry.block_warps
    if (renumbered.reshape(-1, size) == renumbered[:size]).all():
        renumbered = renumbered[:size]
    return [kept[names[number]] for number in taken], renumbered, notes


def _in_order(trace: CompiledTrace, warps: Mapping[int, int]) -> list[int]:
    """Returns the paths as they are kept: the most frequent first; equally frequent ones take turns in length."""
    groups: dict[int, list[int]] = {}
    for number in sorted(warps, key=lambda number: (len(trace.paths[number]), number)):
        groups.setdefault(warps[number], []).append(number)
    return [groups[frequency][k] for frequency in sorted(groups, reverse=True) for k in _spread(len(groups[frequency]))]


def _spread(count: int) -> list[int]:
    """Returns 0 to `count` - 1 in an order of which each first part is spread evenly: by their bits from the lowest one on."""
    bits = (count - 1).bit_length()
    reverse = (int(f"{k:0{bits}b}"[::-1], 2) for k in range(1 << bits)) if bits else iter([0])
    return [k for k in reverse if k < count]


def _first(items: tuple[Item, ...], most: int) -> tuple[Item, ...]:
    """Returns the first items that make so many statements at most."""
    taken: list[Item] = []
    for item in items:
        most -= length((item,))
        if most < 0:
            break
        taken.append(item)
    return tuple(taken)


def _joined(trace: CompiledTrace, binary: MachineFunction) -> tuple[MachineFunction, dict[int, int], Waits]:
    """Returns the binary, traced instruction -> index in its code, and what each instruction waits for."""
    index_of = {one.address: index for index, one in enumerate(binary.code)}
    numbers = {}
    for number, one in enumerate(trace.instructions):
        index = index_of.get(one.pc)
        there = binary.code[index].opcode if index is not None else "nothing"
        if index is None or there.partition(".")[0] != one.opcode.partition(".")[0]:
            raise FrontEndError(
                f"{binary.name}: trace and binary differ: at {one.pc:#06x} the trace has {one.opcode}, the binary {there}"
            )
        numbers[number] = index
    merged: dict[int, set[int]] = {}
    for (_, index), writers in waits_of(make_flow(binary)).items():
        merged.setdefault(index, set()).update(writers)
    return binary, numbers, {(0, index): tuple(sorted(writers)) for index, writers in merged.items()}


def _alone(trace: CompiledTrace, paths: list[tuple[Item, ...]]) -> tuple[MachineFunction, dict[int, int], Waits]:
    """Returns the code as the trace shows it, with what each instruction waits for: the last writers of its registers."""
    code = [machine_instruction(one) for one in trace.instructions]
    inside = {item for path in paths for item in _numbers(path)}
    code = [replace(one, guard="@P0") if one.base == "EXIT" and n in inside else one for n, one in enumerate(code)]
    results = []
    for one, traced in zip(code, trace.instructions, strict=True):
        results.append([name for first in traced.results for name in registers_of(first, written_count(one.opcode))])
    waits: dict[int, set[int]] = {}
    for path in paths:
        last: dict[str, int] = {}
        _follow(path, last, waits, trace, results)
    function = MachineFunction(trace.head.name, trace.head.arch, tuple(code), trace.head.registers)
    return function, {n: n for n in range(len(code))}, {(0, n): tuple(sorted(writers)) for n, writers in waits.items()}


def _numbers(items: tuple[Item, ...]) -> set[int]:
    return {n for item in items for n in ((item,) if isinstance(item, int) else _numbers(item.body))}


def _follow(
    items: tuple[Item, ...], last: dict[str, int], waits: dict[int, set[int]], trace: CompiledTrace, results: list[list[str]]
) -> None:
    """Goes through a path, loops twice, and adds the last writers of the registers that each instruction names."""
    for item in items:
        if isinstance(item, Repeated):
            for _ in range(min(item.trips, 2)):
                _follow(item.body, last, waits, trace, results)
            continue
        for name in (*trace.instructions[item].sources, *results[item]):
            if name in last:
                waits.setdefault(item, set()).add(last[name])
        last.update(dict.fromkeys(results[item], item))


def _hits(trace: CompiledTrace, resources: Requirements, caches: Gpu | str | None) -> Mapping[int, Hits]:
    """Returns instruction -> how often its accesses hit."""
    rows, size = trace.rows, trace.head.geometry.block_warps
    sizes = caches_of(trace.head.arch, resources, size, caches)
    kept = (len(rows.warp_first) - 1) // size
    if sizes is None or not kept:
        return {}
    wave = sizes.sms * sizes.resident
    sms = sizes.sms if kept >= min(wave, trace.blocks) else max(1, kept // sizes.resident)
    kinds = np.array([kind_of(machine_instruction(one)) for one in trace.instructions], np.int64)
    listed = ListedAccesses(rows.lines, rows.masks, rows.first, rows.place, kinds[rows.place], rows.warp_first, size)
    return hits(listed, sizes, sms, trace.head.geometry.blocks)
