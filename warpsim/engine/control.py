"""Conditionals, loops and jumps: to which step of its program a warp comes next. docs/model.md, section 2."""

import numpy as np

from warpsim.engine.bits import NONE, at, bit
from warpsim.engine.constants import Kind
from warpsim.engine.rng import advance, mix, uniform
from warpsim.jit.decorators import inline


@inline
def entry_of(machine, number):
    """Returns the step at which a launched warp starts; it may be one that only steers."""
    return np.int64(machine.entries[at(number % len(machine.entries))])


@inline
def falls_through(warp, detail, warp_in_block):
    """Returns whether a warp executes the first body of a conditional; draws where chance decides."""
    if detail.by_index:
        return (detail.takers & bit(warp_in_block)) != NONE
    if not detail.draws:
        return True
    warp.stream = advance(warp.stream)
    return uniform(mix(warp.stream)) < detail.probability


@inline
def next_instruction(machine, state, index, step):
    """Returns the first instruction at or after a step: follows loops and jumps, which cost nothing."""
    program, loops = machine.program, state.loops
    while program[at(step)].kind >= Kind.LOOP_BEGIN:
        kind, detail = program[at(step)].kind, machine.details[at(step)]
        if kind == Kind.LOOP_END:
            left = loops[at(index), at(detail.loop)] - 1
            loops[at(index), at(detail.loop)] = max(left, -1)
            step = step + 1 if left == 0 else detail.target
        elif kind == Kind.LOOP_BEGIN:
            trips = detail.low
            if detail.draws:
                warp = state.warps[at(index)]
                warp.stream = advance(warp.stream)
                trips += np.int64(uniform(mix(warp.stream)) * (detail.high - detail.low + 1))
            loops[at(index), at(detail.loop)] = trips
            step = step + 1
        else:
            step = detail.target
    return step


@inline
def follow(machine, state, index, warp_in_block, step):
    """A warp has issued a step that is not `exit`: returns the step to which it comes next, and the gap of this one."""
    following, gap = step + 1, np.int64(machine.program[at(step)].gap)
    if machine.program[at(step)].kind == Kind.BRANCH:
        detail = machine.details[at(step)]
        if not falls_through(state.warps[at(index)], detail, warp_in_block):
            following, gap = detail.target, detail.taken_gap
    return next_instruction(machine, state, index, following), gap
