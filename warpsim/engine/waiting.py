"""Until when a warp waits for its next step, and what of that can be counted already. docs/model.md, sections 3 and 7.

A wait may be for loads that have not been served; the warp is *pending* then. Its warp-cycles are counted up to `warp.since`.
"""


from warpsim.engine.attribution import waits
from warpsim.engine.bits import at, bit, cause_of, end_of, reason_of, wait_until
from warpsim.engine.constants import Kind, WarpState
from warpsim.engine.hints import has_hints, is_final
from warpsim.engine.registers import is_known, open_wait, room_for_load, wait_of
from warpsim.engine.timetable import set_alarm
from warpsim.jit.decorators import apart, inline


@inline
def count_wait(machine, state, s, warp, wait):
    """Counts the warp-cycles of a wait that have not been counted yet."""
    cycles = end_of(wait) - 1 - warp.since
    if cycles > 0:
        waits(machine, state, s, warp.step, cause_of(wait), reason_of(wait), cycles)
        warp.since += cycles


@inline
def count_open_wait(machine, state, s, index, warp, until):
    """Counts the warp-cycles of a pending warp up to cycle `until`, exclusive, in which more becomes known about its loads."""
    wait = open_wait(machine, state, index, warp)
    if end_of(wait) > until:
        wait = wait_until(until, cause_of(wait), reason_of(wait))
    count_wait(machine, state, s, warp, wait)
    if warp.since < until - 1:
        count_wait(machine, state, s, warp, wait_until(until, warp.step, WarpState.LG_THROTTLE))


@apart
def wait_for_step(machine, state, sm, s, slot, index, warp):
    """A warp waits for its next step, at least as `warp.wait` says: determines until when. Returns whether that is known."""
    step = warp.step
    wait = wait_of(machine, state, index, step, warp.wait)
    known = is_known(wait)
    if known and has_hints(machine.hints):
        known = is_final(machine.hints, machine, state, index, step, end_of(wait))
    if known:
        count_wait(machine, state, s, warp, wait)
        warp.wait = wait
        if machine.chip[0].loads_per_warp > 0 and machine.program[at(step)].kind == Kind.LOAD:
            room = room_for_load(machine, state, index)
            if room > end_of(wait):
                state.otherwise[at(index)] = wait
                throttled = wait_until(room, step, WarpState.LG_THROTTLE)
                known = is_known(throttled)
                if known:
                    count_wait(machine, state, s, warp, throttled)
                    warp.wait = throttled
    if not known:
        sm.pending |= bit(slot)
    return known


@inline
def wait_for_next(machine, state, sm, slot, index, warp):
    """As `wait_for_step`, of a warp that does not issue now; it takes part in the picks of its scheduler once it is eligible."""
    if wait_for_step(machine, state, sm, machine.chip[0].scheduler_of[at(slot)], slot, index, warp):
        set_alarm(machine, state, sm, slot, warp.wait)
