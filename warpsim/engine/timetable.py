"""When the warps of an SM can issue: lanes for the cycles of the window and a little beyond, sets of warps for the rest."""


from warpsim.engine.bits import NONE, at, bit, end_of, first, rest
from warpsim.engine.constants import FARTHEST, NEVER, RANK_BITS
from warpsim.engine.lanes import beyond, filled, foremost, later, load, number, same, store, time_of, where
from warpsim.engine.places import scheduler_at
from warpsim.jit.decorators import inline


@inline
def alarm(sm, scheduler, slot, wait):
    """Returns the time of the lane of a warp whose wait is known."""
    cycle = max(end_of(wait), scheduler.next_issue)
    if cycle - sm.begin <= FARTHEST:
        return time_of(sm, cycle)
    sm.far |= bit(slot)
    return NEVER


@inline
def set_alarm(machine, state, sm, slot, wait):
    """Has a warp take part in the picks of its scheduler once its wait is over."""
    chip = machine.chip[0]
    scheduler = scheduler_at(state, sm, chip.scheduler_of[at(slot)])
    scheduler.wakes[at(chip.lane_of[at(slot)])] = alarm(sm, scheduler, slot, wait)
    sm.next_event = min(sm.next_event, end_of(wait))


@inline
def move_on(machine, state, sm, begin):
    """Has the lanes of an SM count from cycle `begin` on."""
    chip = machine.chip[0]
    distance = min(begin - sm.begin, FARTHEST + 1) << RANK_BITS
    sm.begin = begin
    for s in range(chip.schedulers):
        scheduler = scheduler_at(state, sm, s)
        wakes = load(scheduler.wakes)
        moved = later(beyond(wakes, filled(distance, wakes)), filled(time_of(sm, scheduler.next_issue), wakes))
        store(scheduler.wakes, where(same(wakes, filled(NEVER, wakes)), wakes, moved))
    far = sm.far
    sm.far = NONE
    while far != NONE:
        slot = first(far)
        far = rest(far)
        set_alarm(machine, state, sm, slot, state.warps[at(sm.first_index + slot)].wait)


@inline
def next_event(machine, state, sm):
    """Returns the cycle before which nothing happens on an SM until its requests are served."""
    chip = machine.chip[0]
    event = min(sm.next_start, sm.next_leave)
    for s in range(chip.schedulers):
        scheduler = scheduler_at(state, sm, s)
        soonest = number(foremost(load(scheduler.wakes)))
        if soonest < NEVER:  # a lane cannot say that its scheduler is busy for longer than it reaches
            event = min(event, max(sm.begin + (soonest >> RANK_BITS), scheduler.next_issue))
    far = sm.far
    while far != NONE:
        slot = first(far)
        far = rest(far)
        scheduler = scheduler_at(state, sm, chip.scheduler_of[at(slot)])
        event = min(event, max(end_of(state.warps[at(sm.first_index + slot)].wait), scheduler.next_issue))
    return event
