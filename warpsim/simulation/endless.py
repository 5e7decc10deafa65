"""Kernels that stand for a long one: with fewer trips of its outer loops, or endless with its mix.

What a kernel with fewer trips lacks is a repetition of what it has: two of them, of different length, tell the time of the whole.
Where the outer loops have too few trips for that, steady windows of an endless kernel are simulated.

A window of a kernel of a million instructions per warp sees its beginning only. In the endless kernel loops have fewer trips, and
what stands beside them is executed with the probability by which they were shortened. So each instruction keeps its share, up
to the branches of these conditions and the rounding of trips. All warps must reach a barrier: of what stands between barriers
beside the loops, some parts are executed each time, evenly spaced, and the others never.
"""

from __future__ import annotations

import math

from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel, names_warps
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.kernels.traversal import expected_instructions, has_op
from warpsim.kernels.whatif import all_registers

_FEWEST_TRIPS = 2

_FEWEST_KEPT = 3
"""Trips of a shortened outer loop at least: its first and its last repetition overlap with what surrounds it."""

_SMALL = 0.01
"""Share of the work of a kernel from which on a loop is shortened."""


def shortened(kernel: Kernel, factor: float) -> Kernel | None:
    """Returns a kernel of which the loops that stand in no other have `factor` of their trips.

    None: one of them, with a hundredth of the work or more, has too few trips for that.
    """
    body = _shortened(kernel.body, factor, _SMALL * expected_instructions(kernel.body))
    return None if body is None else kernel.model_copy(update={"body": body})


def _shortened(statements: tuple[Statement, ...], factor: float, least: float) -> tuple[Statement, ...] | None:
    """Returns statements with fewer trips of the loops with at least some work; None: too few."""
    found: list[Statement] = []
    for one in statements:
        if isinstance(one, Instruction) or expected_instructions((one,)) < least:
            found.append(one)
        elif isinstance(one, Loop):
            trips = round(one.mean_trips * factor)
            if trips < _FEWEST_KEPT:
                return None
            found.append(one.model_copy(update={"trips": trips}))
        else:
            then, orelse = (_shortened(side, factor, least) for side in (one.then, one.orelse))
            if then is None or orelse is None:
                return None
            found.append(one.model_copy(update={"then": then, "orelse": orelse}))
    return tuple(found)


def whole_bodies_from(kernel: Kernel) -> float:
    """Returns the factor from which on `endless` leaves out no part between barriers of a loop's body."""
    return max((_FEWEST_TRIPS / loop.mean_trips * _whole_from(loop.body) for loop in _loops(kernel.body)), default=0.0)


def _whole_from(body: tuple[Statement, ...]) -> float:
    """Returns the factor from which on no part between barriers of statements is left out."""
    if any(has_op((one,), "barrier") for one in body if not _loops((one,))):
        return 1.0
    return max((min(1.0, _FEWEST_TRIPS / loop.mean_trips) * _whole_from(loop.body) for loop in _loops(body)), default=0.0)


def _loops(statements: tuple[Statement, ...]) -> list[Loop]:
    """Returns the loops that stand in no other one of these statements."""
    found: list[Loop] = []
    for one in statements:
        if isinstance(one, Loop):
            found.append(one)
        elif isinstance(one, Conditional):
            found += _loops((*one.then, *one.orelse))
    return found


def endless(kernel: Kernel, factor: float) -> Kernel:
    """Returns a kernel that repeats the body of another one forever, each time with `factor` of its work.

    Where the warps of a block do different work, they wait for each other at its end: the next block begins when all are done.
    """
    body = _scaled(without_exits(kernel.body), min(1.0, factor))
    if names_warps(kernel):
        body = (*body, Instruction("barrier"))
    return kernel.model_copy(update={"body": (Loop(body=body, trips=None),), "inputs": all_registers(kernel)})


def without_exits(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Returns statements in which those that follow an early exit are the other side of its condition."""
    for index, one in enumerate(statements):
        if isinstance(one, Conditional) and _ends(one.then):
            then = one.then[:-1] or (Instruction("branch"),)
            orelse = without_exits((*one.orelse, *statements[index + 1 :]))
            return (*statements[:index], one.model_copy(update={"then": then, "orelse": orelse}))
    return tuple(one for one in statements if not (isinstance(one, Instruction) and one.op == "exit"))


def _ends(statements: tuple[Statement, ...]) -> bool:
    last = statements[-1]
    return isinstance(last, Instruction) and last.op == "exit"


def _some_of(statements: list[Statement], factor: float) -> list[Statement]:
    """Returns `factor` of statements: of their parts that end with a barrier some, evenly spaced, and by chance what follows.

    At least one of these parts is left.
    """
    if factor >= 1:
        return list(statements)
    edges = [0, *(index + 1 for index, one in enumerate(statements) if has_op((one,), "barrier"))]
    parts = len(edges) - 1
    kept = math.ceil(parts * factor)
    chosen = [number * parts // kept for number in range(kept)]
    found = [one for number in chosen for one in statements[edges[number] : edges[number + 1]]]
    rest = statements[edges[-1] :]
    return [*found, *([Conditional(then=tuple(rest), probability=factor)] if rest else [])]


def _scaled(statements: tuple[Statement, ...], factor: float) -> tuple[Statement, ...]:
    """Returns statements with `factor` of their work."""
    found: list[Statement] = []
    beside: list[Statement] = []

    def flush() -> None:
        found.extend(_some_of(beside, factor))
        beside.clear()

    for one in statements:
        if isinstance(one, Loop):
            flush()
            mean = one.mean_trips
            if mean * factor >= _FEWEST_TRIPS:
                found.append(one.model_copy(update={"trips": round(mean * factor)}) if factor < 1 else one)
            else:
                trips = max(1, min(_FEWEST_TRIPS, round(mean)))
                found.append(Loop(body=_scaled(one.body, min(1.0, factor * mean / trips)), trips=trips))
        elif isinstance(one, Conditional) and _loops((one,)):
            flush()
            sides = {"then": _scaled(one.then, factor), "orelse": _scaled(one.orelse, factor)}
            found.append(one.model_copy(update=sides))
        else:
            beside.append(one)
    flush()
    return tuple(found)
