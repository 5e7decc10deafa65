"""Where in their programs the warps of the deal are at cycle 0 of an endless run. docs/model.md, section 4, Phases."""

import numpy as np

from warpsim.engine.bits import at, wait_until
from warpsim.engine.constants import Kind, WarpState
from warpsim.engine.control import entry_of, follow, next_instruction
from warpsim.engine.rng import advance, mix, stream_of, uniform
from warpsim.jit.decorators import inline, jit


@jit
def spread(machine, state):
    """Puts the warps of all blocks of the deal into the middle of their programs: their streams, loops, steps and waits."""
    chip = machine.chip[0]
    for number in range(len(state.seats)):
        seat = state.seats[at(number)]
        first_slot = number % chip.seats * chip.block_warps
        spread_block(machine, state, seat.next_block, state.sms[at(number // chip.seats)].first_index + first_slot)


@inline
def spread_block(machine, state, block, first_index):
    """Spreads the warps of one block, of which the first has a place among all warp slots of the chip."""
    chip = machine.chip[0]
    phase, barriers = 0.0, 0
    for warp_in_block in range(chip.block_warps):
        index = first_index + warp_in_block
        warp = state.warps[at(index)]
        number = block * chip.block_warps + warp_in_block
        warp.stream = advance(stream_of(chip.seed, number))
        if warp_in_block == 0 or not chip.by_block:
            phase = uniform(mix(warp.stream))
        position = chip.before_iteration + np.int64(phase * chip.iteration)
        follows = chip.barriers and warp_in_block > 0
        entry = entry_of(machine, number)
        met = pass_alone(machine, state, index, warp, warp_in_block, entry, position, follows, barriers)
        barriers = barriers if follows else met


@inline
def pass_alone(machine, state, index, warp, warp_in_block, entry, position, follows, barriers):
    """Has a warp pass what it executes alone in `position` cycles, and just so many barriers if it follows; returns how many."""
    step = next_instruction(machine, state, index, entry)
    last, passed, met = step, 0, 0
    while machine.program[at(step)].kind != Kind.EXIT:
        is_barrier = machine.program[at(step)].kind == Kind.BARRIER
        may_stop = passed >= position or (follows and is_barrier)
        if may_stop and (met >= barriers or not follows):
            break
        detail = machine.details[at(step)]
        all_of_it = passed + detail.straight_alone < position
        last = detail.straight_end if all_of_it else step
        passed += detail.straight_alone if all_of_it else detail.alone
        met += is_barrier
        step, _ = follow(machine, state, index, warp_in_block, last)
    warp.step = step
    warp.wait = wait_until(max(passed - position, 0), last, WarpState.WAIT)
    return met
