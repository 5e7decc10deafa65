"""A scheduler runs ahead with plain instructions on a chip with options of today's cores. docs/model.md, section 3.

Beside what `run_plain` of ahead.py does, a plain step can be *limited*: its unit, which belongs to the scheduler, can refuse it.
And it can be *resolved*: the wait after it has to be found from registers, or it is a branch. The register ports hold the
scheduler, and instructions have to be fetched.
"""

import numpy as np

from warpsim.engine.attribution import is_busy_after, issues_plain, own_unit_refuses, plain_after_waiting
from warpsim.engine.bits import NONE, at, bit, end_of, known_wait_from, unit_in, wait_until
from warpsim.engine.constants import LIMITED, MAX_SCHEDULERS, NEVER, RANK_BITS, RESOLVED
from warpsim.engine.control import follow
from warpsim.engine.cycle_sets import enter_next_cycles
from warpsim.engine.fetch import fetcher_at, make_fetches, retry_from, stays_full, take_and_fetch, there_from
from warpsim.engine.lanes import beyond, blocked, everywhere, filled, later, load, number, plus, replaced, same, store, where
from warpsim.engine.picks import pick_ahead, pick_known
from warpsim.engine.places import count_place, slot_in
from warpsim.engine.ports import keep_times_of_ports, needs_of, times_after, times_of_ports
from warpsim.engine.schedulers import order_of
from warpsim.engine.speculation import speculated
from warpsim.engine.timetable import alarm
from warpsim.engine.units import cycle_of
from warpsim.engine.waiting import wait_for_step
from warpsim.jit.decorators import apart


@apart
def run_plain_with_options(addresses, machine, state, sm, scheduler, s, key, no_more, end):
    """Has scheduler s issue its pick, a plain step with a key, and further ones until one is not plain, or not before a time.

    Returns the key of that pick. The window ends at cycle `end`. `addresses` is None where instructions need not be fetched.
    """
    chip, program, reads, scratch = machine.chip[0], machine.program, machine.reads, state.scratch[0]
    warps, registers, counts = state.warps, state.registers, state.counts
    interval, schedulers, per_warp, begin = chip.interval, chip.schedulers, chip.registers, sm.begin
    first_warp, first_count, free = sm.first_index + s, count_place(program, s, 0), scheduler.next_issue
    notes_busy, tick, has_ports = len(machine.refusing) > 0 or chip.buffer > 0, chip.tick, chip.banks > 0
    wakes, ranks = load(scheduler.wakes), load(scheduler.ranks)
    delays, uses = load(scheduler.delays), load(scheduler.uses)
    occupied, free_at_first = filled(interval << RANK_BITS, wakes), free
    fixed = order_of(chip, load(scheduler.ages)), warps, first_warp, schedulers, no_more
    if addresses is not None:
        fetcher = fetcher_at(state, sm, s)
    ports_free, has_ports_at, held_until = times_of_ports(scheduler, begin)
    held_from, held_sum = scheduler.held_from, 0
    # After the latest issue after which its unit refused: for how many cycles, and `uses` of the steps it refuses
    closed, closed_to, gates = 0, 0, NONE
    lane, step = scheduler.lane, scheduler.step
    issued, here, after, ranks_after = pick_known(fixed, wakes, ranks, delays, key)
    while key < no_more:
        index = first_warp + lane * schedulers
        warp, ins = warps[at(index)], program[at(step)]
        if not ins.plain:
            scheduler.lane, scheduler.step = lane, step
            break
        cycle = begin + (key >> RANK_BITS)
        eligible, following = end_of(warp.wait), ins.following
        next_uses, next_delay, plain = np.int64(ins.next_uses), np.int64(ins.next_delay), ins.plain
        gap, there = 0, eligible  # `there`: from when on the instruction can issue
        if addresses is not None:
            make_fetches(machine, state, sm, s, fetcher, cycle)
            if not stays_full(fetcher, lane):
                there = there_from(state, index)
            if there > cycle:
                wakes = replaced(wakes, lane, (min(retry_from(chip, there, cycle), end) - begin) << RANK_BITS)
                key, issued, here, lane, step, after, ranks_after = pick_ahead(fixed, wakes, ranks, delays)
                continue
        refused = 0  # cycles after this one in which its unit refuses
        if plain & LIMITED:
            unit = at(unit_in(ins.uses) * MAX_SCHEDULERS + s)
            taken = sm.free[unit]
            opens = cycle_of(taken, chip)
            if opens > cycle:
                wakes = blocked(wakes, same(uses, filled(np.int64(ins.uses), uses)), (min(opens, end) - begin) << RANK_BITS)
                key, issued, here, lane, step, after, ranks_after = pick_ahead(fixed, wakes, ranks, delays)
                continue
            taken = max(taken, cycle * tick) + ins.unit_ticks
            sm.free[unit] = taken
            refused = max(cycle_of(taken, chip) - cycle - 1, 0)
        if plain & RESOLVED:
            warp_in_block = chip.warp_of[at(slot_in(chip, s, lane))]
            following, gap = follow(machine, state, index, warp_in_block, step)
            next_uses, next_delay = np.int64(program[at(following)].uses), np.int64(program[at(following)].own_delay)
        if ins.known_dst >= 0:
            registers[at(index * per_warp + ins.known_dst)] = wait_until(cycle + ins.latency, step, 0)
        warp.step = following
        warp.wait = known_wait_from(cycle, ins)
        free = cycle + interval

        next_issue = plus(issued, occupied)
        if has_ports:
            held_from = free
            if ins.ports:
                needs = needs_of(reads, scheduler, ins, slot_in(chip, s, lane), step)
                ports_free, has_ports_at, held_until = times_after(ports_free, has_ports_at, held_until, needs, None, issued)
            held = number(beyond(held_until, everywhere(next_issue, held_until)))
            next_issue, held = later(next_issue, everywhere(held_until, next_issue)), held >> RANK_BITS
            if held > 0:
                enter_next_cycles(scratch.held[at(s)], free - begin, held)
                free, held_sum = free + held, held_sum + held
        wakes, ranks = later(after, next_issue), ranks_after
        uses = where(here, filled(next_uses, uses), uses)
        if refused > 0:
            closed, closed_to = speculated(min(refused + 1, end - cycle), closed), speculated(np.int64(ins.uses), closed_to)
            until = plus(issued, filled(closed << RANK_BITS, issued))
            # The unit has no accesses, so that `uses` says no more than which unit it is
            wakes = where(same(uses, filled(closed_to, uses)), later(wakes, until), wakes)
        if plain & RESOLVED:
            scheduler.next_issue, warp.since = free, cycle
            warp.wait, slot = wait_until(cycle + gap, step, machine.classes[at(ins.op)].after), slot_in(chip, s, lane)
            known = wait_for_step(machine, state, sm, s, slot, index, warp)
            wakes = replaced(wakes, lane, alarm(sm, scheduler, slot, warp.wait) if known else NEVER)
        delays = where(here, filled(next_delay, delays), delays)

        # The next pick does not wait for what else this issue changes.
        now, issued_step, issued_lane = key >> RANK_BITS, step, lane
        key, issued, here, lane, step, after, ranks_after = pick_ahead(fixed, wakes, ranks, delays)
        issues_plain(counts[at(first_count + issued_step)], eligible, cycle)
        if notes_busy and interval > 1:
            is_busy_after(scratch, s, now, interval)
        if addresses is not None:
            take_and_fetch(addresses, machine, state, sm, s, fetcher, index, issued_lane, issued_step, following, cycle)
        waited_from = max(eligible - begin, 0)
        there = max(there - begin, waited_from)
        plain_after_waiting(scratch, state.parts[at(first_count + issued_step)], s, ins, has_ports, waited_from, there, now)
        if refused > 0:
            gates |= bit(unit_in(ins.uses))
            own_unit_refuses(scratch, s, unit_in(ins.uses), now + 1, refused)
    if free > free_at_first:  # something has issued
        store(scheduler.wakes, wakes)
        store(scheduler.ranks, ranks)
        store(scheduler.delays, delays)
        store(scheduler.uses, uses)
        scratch.gates |= gates
        if has_ports:
            keep_times_of_ports(scheduler, begin, ports_free, has_ports_at, held_until)
            scheduler.held_from = held_from
            if held_sum > 0:
                state.tally[0].held, scratch.some_held = state.tally[0].held + held_sum, 1
        scheduler.next_issue, scheduler.rank_0_issued = free, 1
    return key
