"""Until when a warp waits for its next step, and what of that can be counted already. docs/model.md, sections 3 and 7.

A wait may be for loads that have not been served; the warp is *pending* then. Its warp-cycles are counted up to `warp.since`.
"""

import numpy as np

from warpsim.engine.attribution import count, count_at
from warpsim.engine.bits import at, bit, cause_of, end_of, reason_of, wait_until
from warpsim.engine.constants import Kind, WarpState
from warpsim.engine.hints import has_hints, is_final, wait_of_counters
from warpsim.engine.jit import inline
from warpsim.engine.registers import is_known, open_wait, room_for_load, wait_of, wait_of_registers

_LOAD, _LG_THROTTLE = int(Kind.LOAD), int(WarpState.LG_THROTTLE)


@inline
def count_wait(machine, state, s, warp, wait):
    """Counts the warp-cycles of a wait that have not been counted yet."""
    cycles = end_of(wait) - 1 - warp.since
    if cycles > 0:
        count(machine, state, s, np.int64(warp.step), cause_of(wait), reason_of(wait), cycles)
        warp.since += cycles


@inline
def count_open_wait(machine, state, s, index, warp, until):
    """Counts the warp-cycles of a pending warp up to cycle `until`, exclusive, in which more becomes known about its loads."""
    wait = open_wait(machine, state, index, warp)
    count_wait(machine, state, s, warp, wait if end_of(wait) <= until else clipped(wait, until))
    if warp.since < until - 1:
        count_wait(machine, state, s, warp, wait_until(until, np.int64(warp.step), _LG_THROTTLE))


@inline
def clipped(wait, until):
    """Returns a wait that ends at cycle `until`."""
    return wait_until(until, cause_of(wait), reason_of(wait))


@inline
def wait_for_step(machine, state, sm, s, slot, index, warp):
    """A warp waits for its next step, at least as `warp.wait` says: determines until when. Returns whether that is known."""
    step = np.int64(warp.step)
    wait = wait_of(machine, state, index, step, warp.wait)
    known = is_known(wait)
    if known and has_hints(machine.hints):
        known = is_final(machine.chip[0], machine.hints, state.counted, state.crowded, index, step, end_of(wait))
    if known:
        count_wait(machine, state, s, warp, wait)
        warp.wait = wait
        if machine.chip[0].loads_per_warp > 0 and machine.program[at(step)].kind == _LOAD:
            room = room_for_load(machine, state, index)
            if room > end_of(wait):
                state.otherwise[at(index)] = wait
                throttled = wait_until(room, step, _LG_THROTTLE)
                known = is_known(throttled)
                if known:
                    count_wait(machine, state, s, warp, throttled)
                    warp.wait = throttled
    if not known:
        sm.pending |= bit(slot)
    return known


@inline
def wait_for_resolved(
    chip, program, classes, operands, latency_to, hints, registers, counted, crowded, stalls, caused, first_count, sm, slot, warp
):  # fmt: skip
    """As `wait_for_step`, where the loads of a warp are not limited. `first_count`: where its scheduler's COUNTs begin."""
    index, step = sm.first_index + slot, np.int64(warp.step)
    wait = wait_of_registers(chip, program, classes, operands, latency_to, registers, index, step, warp.wait)
    if has_hints(hints):
        wait = wait_of_counters(chip, program, classes, hints, counted, crowded, index, step, wait)
    known = is_known(wait)
    if known and has_hints(hints):
        known = is_final(chip, hints, counted, crowded, index, step, end_of(wait))
    if not known:
        sm.pending |= bit(slot)
        return False
    cycles = end_of(wait) - 1 - warp.since
    if cycles > 0:
        count_at(stalls, caused, first_count + step, cause_of(wait), reason_of(wait), cycles)
    warp.wait = wait
    return True
