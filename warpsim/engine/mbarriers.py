"""Mbarriers: warps of a block arrive in phases, for which others wait. docs/model.md, section 4.

A phase keeps how many arrivals it lacks, and how many copies it waits for that have not been served; once there are none of
either, it is known when it is complete, and the warps that it holds go on. Nothing here runs where no instruction names an
mbarrier (`has_mbarriers`). What others call returns at once if `mbarriers` is None, as in hints.py.
"""


from warpsim.engine.attribution import count_barrier
from warpsim.engine.bits import at, end_of, wait_until
from warpsim.engine.constants import MOST_PHASES, NO_PHASE, UNKNOWN, Life, WarpState
from warpsim.engine.places import seat_number, slot_of
from warpsim.engine.waiting import wait_for_next
from warpsim.jit.decorators import apart, inline, seldom

_ARRIVED, _AWAITED = 0, 1  # columns of `State.passed`
_UNSERVED, _BACK = 0, 1  # columns of `State.copies`


@inline
def has_mbarriers(mbarriers):
    """Returns whether instructions of the program name mbarriers."""
    if mbarriers is None:
        return False
    return len(mbarriers) > 0


@inline
def names_mbarrier(mbarriers, step):
    """Returns whether a step arrives at an mbarrier, or awaits one."""
    if mbarriers is None:
        return False
    return len(mbarriers) > 0 and (mbarriers[at(step)].arrives >= 0 or mbarriers[at(step)].awaits >= 0)


@inline
def awaits_mbarrier(mbarriers, step):
    """Returns whether a warp waits for a phase after a step."""
    if mbarriers is None:
        return False
    return len(mbarriers) > 0 and mbarriers[at(step)].awaits >= 0


@inline
def phase_of(chip, state, seat, mbarrier, number):
    """Returns the record in which a phase of a block stands, or another one a multiple of MOST_PHASES away from it."""
    return state.phases[at((seat * chip.mbarriers + mbarrier) * MOST_PHASES + number % MOST_PHASES)]


@seldom
def forget_phases(machine, state, seat, first_index):
    """A block starts in a seat: no warp has arrived anywhere. Its warps have the indices from `first_index` on."""
    chip = machine.chip[0]
    state.lacking[at(seat)] = 0
    for place in range(seat * chip.mbarriers * MOST_PHASES, (seat + 1) * chip.mbarriers * MOST_PHASES):
        state.phases[at(place)].number = NO_PHASE
    for place in range(first_index * chip.mbarriers, (first_index + chip.block_warps) * chip.mbarriers):
        state.passed[at(place), _ARRIVED] = state.passed[at(place), _AWAITED] = 0
        state.copies[at(place), _UNSERVED] = state.copies[at(place), _BACK] = 0


@apart
def note_copy(mbarriers, machine, state, index, step, returns):
    """A step of a warp issues; if it is a copy that reports to an mbarrier, notes when it is back, perhaps UNKNOWN."""
    if mbarriers is None:
        return
    mbarrier = mbarriers[at(step)].reports
    if mbarrier >= 0:
        place = at(index * machine.chip[0].mbarriers + mbarrier)
        if returns >= UNKNOWN:
            state.copies[place, _UNSERVED] += 1
        else:
            state.copies[place, _BACK] = max(state.copies[place, _BACK], returns)


@apart
def pass_mbarrier(mbarriers, machine, state, sm, slot, warp, step, gap, cycle, ready):
    """A step that names an mbarrier has issued at a cycle; its result is there at `ready`. False: a deadlock."""
    if mbarriers is None:
        return True
    if mbarriers[at(step)].awaits >= 0:
        return await_phase(mbarriers, machine, state, sm, slot, warp, step, gap, cycle)
    return arrive_in_phase(mbarriers, machine, state, sm, slot, step, cycle, ready)


@inline
def arrive_in_phase(mbarriers, machine, state, sm, slot, step, cycle, ready):
    """A warp arrives at an mbarrier. False: it is too many phases ahead of others, a deadlock."""
    chip, facts, index, seat = machine.chip[0], mbarriers[at(step)], sm.first_index + slot, seat_number(machine.chip[0], sm, slot)
    mbarrier = facts.arrives
    place = at(index * chip.mbarriers + mbarrier)
    number = state.passed[place, _ARRIVED]
    state.passed[place, _ARRIVED] += 1
    phase = phase_of(chip, state, seat, mbarrier, number)
    if phase.number != NO_PHASE and phase.number < number:
        if not end_is_known(phase) or phase.end > cycle:
            return stuck(chip, state, sm, slot, cycle)
        phase.number = NO_PHASE
    if phase.number == NO_PHASE:
        phase.number, phase.missing, phase.copies, phase.end, phase.known = number, facts.arrivals, 0, 0, 0
    if phase.missing == 0:
        return stuck(chip, state, sm, slot, cycle)
    phase.missing -= 1
    phase.copies += state.copies[place, _UNSERVED]
    arrives = max(ready if ready < UNKNOWN else 0, cycle + 1, state.copies[place, _BACK])
    phase.end, phase.known = max(phase.end, arrives), max(phase.known, cycle)
    state.arrivals_in[place, at(number % MOST_PHASES)] = cycle
    if phase.missing == 0:
        go_on_after(mbarriers, machine, state, sm, slot, mbarrier, phase, 1)
    return True


@inline
def await_phase(mbarriers, machine, state, sm, slot, warp, step, gap, cycle):
    """A warp waits for a phase of an mbarrier, and then for its next step. False: all warps of its block are held, a deadlock."""
    chip, facts, index, seat = machine.chip[0], mbarriers[at(step)], sm.first_index + slot, seat_number(machine.chip[0], sm, slot)
    mbarrier = facts.awaits
    place = at(index * chip.mbarriers + mbarrier)
    number = state.passed[place, _AWAITED] - facts.ahead
    state.passed[place, _AWAITED] += 1
    warp.wait = wait_until(cycle + gap, step, machine.classes[at(machine.program[at(step)].op)].after)
    end, lacks = 0, False
    if number >= 0:
        phase = phase_of(chip, state, seat, mbarrier, number)
        if phase.number < number or (phase.number == number and not end_is_known(phase)):
            end, lacks = UNKNOWN, phase.number < number or phase.missing > 0
        elif phase.number == number:
            end = phase.end
    if end < UNKNOWN:
        wait_after(machine, state, sm, slot, warp, step, end)
        return True
    warp.life, warp.since, warp.barrier = Life.AT_MBARRIER, cycle, step
    if lacks:
        state.lacking[at(seat)] += 1
        if all_are_held(machine, state, sm, slot):
            return stuck(chip, state, sm, slot, cycle)
    return True


@inline
def end_is_known(phase):
    """Returns whether it is known when a phase is complete."""
    return phase.missing == 0 and phase.copies == 0


@inline
def wait_after(machine, state, sm, slot, warp, step, end):
    """Has a warp wait for its next step; the phase for which it waited after another step is complete at cycle `end`."""
    if end > end_of(warp.wait):
        warp.wait = wait_until(end, step, WarpState.BARRIER)
    wait_for_next(machine, state, sm, slot, sm.first_index + slot, warp)


@apart
def go_on_after(mbarriers, machine, state, sm, slot, mbarrier, phase, is_last_arrival):
    """A phase lacks no arrivals, or no copies: has the warps of a slot's block that it holds go on, if it is known until when."""
    chip, seat = machine.chip[0], seat_number(machine.chip[0], sm, slot)
    first_slot = slot - chip.warp_of[at(slot)]
    for held in range(first_slot, first_slot + chip.block_warps):
        warp = state.warps[at(sm.first_index + held)]
        if warp.life != Life.AT_MBARRIER or mbarriers[at(warp.barrier)].awaits != mbarrier:
            continue
        before = state.passed[at((sm.first_index + held) * chip.mbarriers + mbarrier), _AWAITED] - 1
        if before - mbarriers[at(warp.barrier)].ahead != phase.number:
            continue
        state.lacking[at(seat)] -= is_last_arrival
        if end_is_known(phase):
            warp.life = Life.RUNNING
            count_barrier(machine, state, chip.scheduler_of[at(held)], warp, max(phase.known, warp.since))
            wait_after(machine, state, sm, held, warp, warp.barrier, phase.end)


@apart
def copy_is_back(mbarriers, machine, state, sm, index, step, cycle, served, returns):
    """It is known when an access of a warp is back that issued at `cycle` and is served in cycle `served`.

    If it reports to an mbarrier, the phases wait for it in which the warp has arrived since. None of them can have been replaced,
    since they are not complete.
    """
    if mbarriers is None:
        return
    mbarrier = mbarriers[at(step)].reports
    if mbarrier < 0:
        return
    chip, slot = machine.chip[0], slot_of(machine.chip[0], index)
    seat, place = seat_number(chip, sm, slot), at(index * chip.mbarriers + mbarrier)
    state.copies[place, _UNSERVED] -= 1
    state.copies[place, _BACK] = max(state.copies[place, _BACK], returns)
    number = state.passed[place, _ARRIVED] - 1
    while number >= 0 and state.arrivals_in[place, at(number % MOST_PHASES)] >= cycle:
        phase = phase_of(chip, state, seat, mbarrier, number)
        phase.copies -= 1
        phase.end, phase.known = max(phase.end, returns), max(phase.known, served)
        if end_is_known(phase):
            go_on_after(mbarriers, machine, state, sm, slot, mbarrier, phase, 0)
        number -= 1


@inline
def all_are_held(machine, state, sm, slot):
    """Returns whether all live warps of a slot's block are held, at least one for a phase that lacks arrivals."""
    seat = seat_number(machine.chip[0], sm, slot)
    lacking = state.lacking[at(seat)]
    return lacking > 0 and state.seats[at(seat)].waiting + lacking == state.seats[at(seat)].live


@inline
def stuck(chip, state, sm, slot, cycle):
    """Notes a deadlock of a slot's block; returns False."""
    clock = state.clock[0]
    clock.stuck_sm, clock.stuck_seat, clock.stuck_cycle = sm.index, chip.seat_of[at(slot)], cycle
    return False
