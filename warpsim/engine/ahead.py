"""A scheduler runs ahead with plain instructions. docs/model.md, section 3.

A *plain* step is followed by one that waits for it alone, for a time that is known before the run, and it uses nothing that
other schedulers could wait for; most arithmetic is plain. Every other step issues by `execute` and `complete` of issue.py, which
give the same result for plain ones, too, in several times the time.

All that decides which warp issues next stays in vectors: the lanes' times, their ranks, and how long the warp in a lane will wait
after its next issue. A turn of the loop is in the order that suits the processor, which works on some hundred instructions at a
time: the next pick comes before what else an issue changes, and it does not wait for numbers that are nearly always the same
(`speculated`). Long runs of steps issue at once (stretches.py). With options of the core, a scheduler runs ahead by
ahead_with_options.py.
"""

import numpy as np

from warpsim.engine.ahead_with_options import run_plain_with_options
from warpsim.engine.attribution import is_busy_after, issues_plain
from warpsim.engine.bits import at, end_of, known_wait_from, wait_until
from warpsim.engine.constants import RANK_BITS, RANKS
from warpsim.engine.lanes import filled, later, load, plus, store, where
from warpsim.engine.picks import pick, pick_ahead, pick_known
from warpsim.engine.places import count_place
from warpsim.engine.schedulers import order_of
from warpsim.engine.speculation import speculated
from warpsim.engine.stretches import LONG_RUN, TURNS_BETWEEN, issue_stretch
from warpsim.jit.decorators import apart, inline


@inline
def run_ahead(machine, state, sm, scheduler, s, no_more, end, may_run):
    """Has scheduler s issue plain steps before a time, if they may issue. Returns the key of its next pick: a time with a rank.

    If that is `no_more` or later, nothing issues before. Otherwise the pick is `scheduler.lane`, and its step is not plain. The
    window ends at cycle `end`.
    """
    first_warp, schedulers = sm.first_index + s, machine.chip[0].schedulers
    key, _, _, lane, step = pick(state.warps, load(scheduler.wakes), load(scheduler.ranks), first_warp, schedulers, no_more)
    scheduler.lane, scheduler.step = lane, step
    if key >= no_more or not (may_run and machine.program[at(step)].plain):
        return key
    if machine.chip[0].buffer == 0:
        return run_on(machine.reads, None, machine, state, sm, scheduler, s, key, no_more, end)
    return run_on(machine.reads, machine.addresses, machine, state, sm, scheduler, s, key, no_more, end)


@inline
def run_on(reads, addresses, machine, state, sm, scheduler, s, key, no_more, end):
    """Has scheduler s issue plain steps, with options of the core unless `reads` is None, and without fetch if `addresses` is."""
    if reads is None:
        return run_plain(machine, state, sm, scheduler, s, key, no_more)
    return run_plain_with_options(addresses, machine, state, sm, scheduler, s, key, no_more, end)


@apart
def run_plain(machine, state, sm, scheduler, s, key, no_more):
    """Has scheduler s issue its pick, a plain step with a key, and further ones until one is not plain, or not before a time.

    Returns the key of that pick. There are no options of the core: no unit can refuse a plain step, and the wait after each of
    them is known.
    """
    chip, program, warps, registers, counts = machine.chip[0], machine.program, state.warps, state.registers, state.counts
    interval, schedulers, per_warp, begin = chip.interval, chip.schedulers, chip.registers, sm.begin
    first_warp, first_count, free = sm.first_index + s, count_place(program, s, 0), scheduler.next_issue
    notes_busy, free_at_first, usual_delay = len(machine.refusing) > 0, free, 0
    wakes, ranks, delays = load(scheduler.wakes), load(scheduler.ranks), load(scheduler.delays)
    occupied = filled(interval << RANK_BITS, wakes)
    fixed = order_of(chip, load(scheduler.ages)), warps, first_warp, schedulers, no_more
    turns = 0  # issues one by one before it looks for a stretch
    lane, step = scheduler.lane, scheduler.step
    issued, here, after, ranks_after = pick_known(fixed, wakes, ranks, delays, key)
    while key < no_more:
        index = first_warp + lane * schedulers
        warp, ins = warps[at(index)], program[at(step)]
        if not ins.plain:
            scheduler.lane, scheduler.step = lane, step
            break
        turns -= 1
        if turns < 0 and ins.run >= LONG_RUN:
            turns = TURNS_BETWEEN
            store(scheduler.wakes, wakes)
            store(scheduler.ranks, ranks)
            store(scheduler.delays, delays)
            last = issue_stretch(machine, state, sm, scheduler, s, lane, key & ~RANKS, no_more)
            if last >= 0:
                wakes, ranks, delays = load(scheduler.wakes), load(scheduler.ranks), load(scheduler.delays)
                free, turns = begin + (last >> RANK_BITS) + 1, 0
                key, issued, here, lane, step, after, ranks_after = pick_ahead(fixed, wakes, ranks, delays)
                continue
        cycle, eligible, next_delay = begin + (key >> RANK_BITS), end_of(warp.wait), ins.next_delay
        if ins.known_dst >= 0:
            registers[at(index * per_warp + ins.known_dst)] = wait_until(cycle + ins.latency, step, 0)
        warp.step = ins.following
        warp.wait = known_wait_from(cycle, ins)
        free = cycle + interval
        wakes, ranks = later(after, plus(issued, occupied)), ranks_after
        scheduler.uses[at(lane)] = ins.next_uses
        usual_delay = speculated(np.int64(next_delay), usual_delay)  # most results of a program take equally long
        delays = where(here, filled(usual_delay, delays), delays)

        # The next pick does not wait for what else this issue changes.
        now, issued_step = key >> RANK_BITS, step
        key, issued, here, lane, step, after, ranks_after = pick_ahead(fixed, wakes, ranks, delays)
        issues_plain(counts[at(first_count + issued_step)], eligible, cycle)
        if notes_busy and interval > 1:
            is_busy_after(state.scratch[0], s, now, interval)
    if free > free_at_first:  # something has issued
        store(scheduler.wakes, wakes)
        store(scheduler.ranks, ranks)
        store(scheduler.delays, delays)
        scheduler.next_issue, scheduler.rank_0_issued = free, 1
    return key
