"""A machine function and a launch become a Kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from warpsim.frontends.caches.reuse import hits_of
from warpsim.frontends.caches.walk import OtherSize, caches_of, notes_of_caches
from warpsim.frontends.errors import FrontEndError, warn
from warpsim.frontends.execution.evaluate import as_stated, evaluate
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.launch.geometry import Geometry
from warpsim.frontends.launch.keys import Key
from warpsim.frontends.launch.parameters import argument_bytes, notes_of_structures
from warpsim.frontends.launch.tiles import Tile, tiles_of
from warpsim.frontends.launch.variables import initial_values, notes_of_variables, with_values
from warpsim.frontends.machine_code.flow import Place, make_flow
from warpsim.frontends.machine_code.sass import VOLTA, MachineFunction
from warpsim.frontends.machine_code.symbols import plain_name
from warpsim.frontends.program.emitter import Emitter
from warpsim.frontends.program.sampled import Sampled
from warpsim.frontends.program.structure import Structure
from warpsim.frontends.waits.dependences import has_control_fields, waits_of
from warpsim.frontends.waits.handovers import Handover, handovers, with_arrivals
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.instruction import Access, Instruction, Mbarrier
from warpsim.kernels.program import Kernel

_OLDEST = 50
_WITHOUT_ENCODINGS = (
    "the disassembly has no encodings, as nvdisasm -hex writes them: registers say what waits for what, and latencies of the "
    "chip stand for stall counts"
)


@dataclass(frozen=True)
class Choices:
    """What the caller states because the machine code cannot.

    Attributes:
        arguments: of the kernel, by name, by number, or in order; what is left out is unknown.
        trips: loop -> number of trips, where it depends on data.
        probabilities: branch, or access under a predicate -> probability that a warp does not jump, or makes the access, where
            that depends on data, or is to be another one than the launch says.
        patterns: access, by line or address -> its pattern, where its addresses depend on data; for shared memory the ways of its
            bank conflict, for constants how many of them a warp reads, for a copy by a tensor map its bytes or tile (tiles.py).
        caches: chip whose caches decide how often accesses hit; None: one of the architecture; "none": no access hits.
    """

    arguments: Mapping[Key, float] | tuple[float | None, ...] = ()
    trips: Mapping[Key, int] = field(default_factory=dict)
    probabilities: Mapping[Key, float] = field(default_factory=dict)
    patterns: Mapping[Key, str | int | Access] = field(default_factory=dict)
    caches: Gpu | str | OtherSize | None = None


@dataclass(frozen=True)
class Requirements:
    """What a kernel needs of an SM."""

    registers_per_thread: int
    shared_bytes_per_block: int


def to_kernel(function: MachineFunction, geometry: Geometry, choices: Choices, *, name: str, source: str = "") -> Kernel:
    """Returns the kernel of a machine function for a launch.

    Warns (AssumptionWarning) of everything that had to be assumed.

    Raises:
        FrontEndError: the architecture or the flow is not supported, the block is larger than the launch bounds allow, or the
            trips of a loop depend on what is not known.
    """
    if function.arch < _OLDEST:
        raise FrontEndError(f"{function.name}: sm_{function.arch} is not supported; architectures from sm_{_OLDEST} on are")
    _check_bounds(function, geometry)
    of_variables = initial_values(function, choices.arguments)
    function, others = with_values(function, choices.arguments)
    flow = make_flow(function)
    arguments, tiles = argument_bytes(function, others), tiles_of(choices.patterns)
    given = as_stated(Given(flow, geometry, arguments, choices.trips, choices.probabilities, tiles))
    evaluation = evaluate(given)
    waits = waits_of(flow)
    shared = function.shared_bytes + geometry.dynamic_shared
    resources = Requirements(min(255, max(1, function.registers)), shared)
    caches = caches_of(function.arch, resources, geometry.block_warps, choices.caches)
    of_caches: dict[str, None] = {}
    found = {} if caches is None else hits_of(given, evaluation, waits, caches, of_caches)
    begin_elsewhere = [place for place in evaluation.distances if evaluation.begins_elsewhere(place) is not None]
    if caches is not None and begin_elsewhere:
        made_up = hits_of(given, evaluation, waits, caches, of_caches, made_up=True)
        found = found | {place: made_up[place] for place in begin_elsewhere if place in made_up}
    size = "x".join(str(n) for n in geometry.block if n > 1) or "1"
    counted = (evaluation.counts, evaluation.entries, evaluation.weights, evaluation.warp_in_block)

    def made(handed_over: dict[Place, Handover], mbarriers: tuple[Mbarrier, ...]) -> tuple[Kernel, tuple[str, ...]]:
        """Returns the kernel with these mbarriers, and what was assumed."""
        patterns, sampled = _with_tiles(choices.patterns, tiles), Sampled(given, evaluation)
        emitter = Emitter(flow, waits, evaluation.accesses, patterns, found, sampled, handed_over)
        shape = Structure(flow, *counted, emitter.block, evaluation.stated)
        body = shape.body()
        kernel = Kernel(
            name=name,
            title=f"{name}, sm_{function.arch}, blocks of {size} threads",
            source=source or function.source,
            registers_per_thread=resources.registers_per_thread,
            shared_bytes_per_block=resources.shared_bytes_per_block,
            block_warps=geometry.block_warps,
            inputs=tuple(emitter.registers.values()),
            mbarriers=mbarriers,
            body=tuple(body or [Instruction("branch")]),
        )
        return kernel, (*evaluation.notes, *shape.notes, *emitter.notes())

    log = evaluation.copies.phases
    handed_over, mbarriers = handovers(log, {place: evaluation.is_for_all(place[0]) for place in log.tests})
    kernel, notes = made(handed_over, tuple(mbarriers))
    complete = with_arrivals(kernel, mbarriers)
    if complete is None:
        kernel, notes = made({}, ())
    of_caches |= dict.fromkeys(notes_of_caches(function.arch, choices.caches))
    of_code = () if function.arch < VOLTA or has_control_fields(flow) else (_WITHOUT_ENCODINGS,)
    unknown = (*notes_of_structures(function), *notes_of_variables(function)) if notes else ()
    warn(name, (*of_code, *of_variables, *notes, *unknown, *of_caches))
    return complete or kernel


def _check_bounds(function: MachineFunction, geometry: Geometry) -> None:
    """Checks that a block has as many threads at most as the launch bounds of its kernel state, or CUDA would not launch it."""
    size, most = math.prod(geometry.block), function.most_threads
    if most is not None and size > most:
        raise FrontEndError(
            f"launch: block of {size} threads: must be at most {most}, as the launch bounds of {plain_name(function.name)} state"
        )


def _with_tiles(patterns: Mapping[Key, str | int | Access], tiles: Mapping[str, Tile]) -> dict[Key, str | int | Access | Tile]:
    """Returns the patterns of accesses, with tiles in place of their texts."""
    return {key: tiles.get(str(key), pattern) for key, pattern in patterns.items()}
