"""A scheduler runs ahead with plain instructions that have to be fetched. docs/model.md, section 3.

They issue one at a time here, and the vectors of lanes go through memory between them: a fetch takes more time than that.
"""

import numpy as np

from warpsim.engine.attribution import free_cycles, held_cycles, issues_plain, mark_busy, mark_refused, refused_cycles
from warpsim.engine.bits import NONE, at, end_of, known_wait_from, wait_until
from warpsim.engine.fetch import fetch_all, fetch_for_last, retry_from, take_instruction, there_from
from warpsim.engine.jit import apart
from warpsim.engine.lanes import either, filled, foremost, lane_of, load, not_before, number, replaced, store, where_equal
from warpsim.engine.ports import busy_with_ports, pass_ports
from warpsim.engine.schedulers import greedy_age, next_ranks
from warpsim.engine.state import LONGEST_WINDOW, MAX_SCHEDULERS, MAX_WARPS, RANK_BITS


@apart
def run_fetched(
    chip, program, reads, addresses, warps, seats, registers, buffers, fetchers, lines, counts, scratch, tally, sm, scheduler, s,
    no_more,
):  # fmt: skip
    """Has scheduler s issue plain steps as `ahead.run_plain` does. Returns the key of its next pick.

    The arguments from `program` to `tally` are those of the machine and the state.
    """
    schedulers, per_warp, begin, tick = chip.schedulers, chip.registers, sm.begin, chip.tick
    first_warp, first_count, sm_index = sm.index * MAX_WARPS + s, s * len(program), sm.index
    place = sm_index * schedulers + s
    fetcher = fetchers[at(place)]
    while True:
        wakes, ranks = load(scheduler.wakes), load(scheduler.ranks)
        keys = either(wakes, ranks)
        least = foremost(keys)
        key = number(least)
        if key >= no_more:
            return key
        lane = lane_of(keys, least)
        index = first_warp + lane * schedulers
        warp = warps[at(index)]
        step = np.int64(warp.step)
        ins = program[at(step)]
        if not ins.plain:
            scheduler.lane = lane
            return key
        cycle = begin + (key >> RANK_BITS)
        unit, opens = at(np.int64(ins.unit) * MAX_SCHEDULERS + s), cycle
        if ins.limited and sm.free[unit] // tick > cycle:
            free = min((sm.free[unit] // tick - begin) << RANK_BITS, no_more)
            store(scheduler.wakes, where_equal(load(scheduler.ops), np.int64(ins.op), not_before(wakes, free), wakes))
            continue
        if fetcher.next < cycle:
            fetch_for_last(chip, buffers, fetcher, lines, place, first_warp)
            if fetcher.hungry == NONE:
                fetcher.next = cycle
            if fetcher.next < cycle:
                fetch_all(chip, warps, seats, buffers, fetchers, lines, sm_index, s, cycle)
        there = there_from(buffers, index)
        if there > cycle:
            scheduler.wakes[at(lane)] = min((retry_from(chip, there, cycle) - begin) << RANK_BITS, no_more)
            continue
        counted, eligible = counts[at(first_count + step)], max(end_of(warp.wait), begin)
        if scratch.some_held and eligible < cycle:
            counted.held += held_cycles(scratch, s, eligible - begin, cycle - begin)
        if eligible < there:
            counted.unfetched += free_cycles(scratch, s, eligible - begin, there - begin)
            eligible = there
        take_instruction(chip, addresses, buffers, fetcher, index, lane, step, np.int64(ins.following))
        if ins.limited:
            if scratch.gates != NONE and eligible < cycle:
                gates = np.int64(ins.unit), np.int64(ins.unit)
                counted.throttled += refused_cycles(scratch, s, gates, eligible - begin, cycle - begin)
            sm.free[unit] = max(sm.free[unit], cycle * tick) + ins.unit_ticks
            opens = sm.free[unit] // tick
            if opens > cycle + 1:
                mark_refused(scratch, s, np.int64(ins.unit), cycle + 1 - begin, min(opens - begin, LONGEST_WINDOW))
        issues_plain(counted, warp, cycle)
        pass_ports(reads, chip, scheduler, ins, lane * schedulers + s, step, cycle)
        busy = busy_with_ports(reads, chip, scratch, tally, sm, s, scheduler, cycle, chip.interval)
        if busy > 1:
            mark_busy(scratch, s, cycle + 1 - begin, min(cycle + busy - begin, LONGEST_WINDOW))
        if ins.known_dst >= 0:
            registers[at(index * per_warp + ins.known_dst)] = wait_until(cycle + ins.latency, step, 0)
        warp.step = ins.following
        warp.wait = known_wait_from(cycle, ins)
        scheduler.next_issue = cycle + busy
        now, free = key >> RANK_BITS << RANK_BITS, (cycle + busy - begin) << RANK_BITS
        wakes = not_before(replaced(wakes, lane, now + scheduler.delays[at(lane)]), free)
        scheduler.delays[at(lane)], scheduler.ops[at(lane)] = ins.next_delay, ins.next_op
        if opens > cycle + busy:
            free = min((opens - begin) << RANK_BITS, no_more)
            wakes = where_equal(load(scheduler.ops), np.int64(ins.op), not_before(wakes, free), wakes)
        store(scheduler.wakes, wakes)
        rank = filled(np.int64(scheduler.ranks[at(lane)]), ranks)
        store(scheduler.ranks, next_ranks(chip.policy, load(scheduler.ages), ranks, greedy_age(scheduler), rank)[0])
        scheduler.greedy = 1
