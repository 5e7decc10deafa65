"""One warp instruction issues. docs/model.md, section 3.

There are two ways to issue. A *plain* step is followed by one that waits for it alone, for a time that is known before the run,
and it uses nothing that others could wait for; most arithmetic is plain (`issue_plain`). Every other step is executed, and the
warp's next step is then compared with the registers that it names (`execute`, `complete`). Both ways give the same result. The
plain one needs a quarter of the time.
"""

import numpy as np

from warpsim.engine.attribution import is_busy, issues, waits
from warpsim.engine.bits import at, bit, end_of, known_wait_from, wait_until
from warpsim.engine.blocks import arrive, exit_warp
from warpsim.engine.control import falls_through, next_instruction
from warpsim.engine.exchange import access
from warpsim.engine.jit import inline
from warpsim.engine.lanes import RANKS, load, not_before, replaced, store, time_of
from warpsim.engine.registers import is_known, wait_of, write
from warpsim.engine.schedulers import end_greed, ranks_after
from warpsim.engine.state import MAX_WARPS, NEVER, RANK_BITS, Kind, WarpState
from warpsim.engine.timetable import alarm
from warpsim.engine.units import close_if_full, note_shared_issue, occupy

_LOAD, _STORE = int(Kind.LOAD), int(Kind.STORE)
_BARRIER, _BRANCH, _EXIT = int(Kind.BARRIER), int(Kind.BRANCH), int(Kind.EXIT)
_WAIT = int(WarpState.WAIT)


@inline
def issue_plain(machine, state, sm, s, scheduler, wakes, ranks, key, lane, index, warp, step, ins, cycle):
    """Issues a plain step of the warp in a lane. `wakes` and `ranks` are the scheduler's lanes, `key` that lane of both."""
    issues(machine, state, sm, s, index, warp, step, cycle)
    if ins.known_dst >= 0:
        write(machine, state, index, np.int64(ins.known_dst), cycle + ins.latency, step)
    warp.step = step + 1
    warp.wait = known_wait_from(cycle, ins)
    if ins.next_op != ins.op:
        store(scheduler.ops, replaced(load(scheduler.ops), lane, np.int64(ins.next_op)))
    occupy_scheduler(machine, state, sm, s, scheduler, cycle, ins.busy)
    now = key & ~RANKS
    woken = replaced(wakes, lane, now + (ins.delay << RANK_BITS))
    store(scheduler.wakes, not_before(woken, now + (ins.busy << RANK_BITS)))
    store(scheduler.ranks, ranks_after(machine.chip[0].policy, scheduler, ranks, lane, key & RANKS))


@inline
def occupy_scheduler(machine, state, sm, s, scheduler, cycle, busy):
    """A scheduler has issued at a cycle, and cannot issue again for `busy` cycles."""
    scheduler.next_issue = cycle + busy
    sm.position[at(s)] = cycle + busy
    if busy > 1:
        is_busy(machine, state, sm, s, cycle + 1, cycle + busy)


@inline
def execute(machine, state, sm, s, slot, warp, step, cycle):
    """Has a step of a warp take effect: at its unit, in memory, in its register; moves the warp on. Returns the step's gap."""
    index = sm.index * MAX_WARPS + slot
    ins = machine.program[at(step)]
    kind, op, gap = np.int64(ins.kind), np.int64(ins.op), np.int64(ins.gap)
    occupy(machine, state, sm, s, ins, cycle)
    note_shared_issue(machine, sm, s, op)
    following, ready = step + 1, cycle + ins.latency
    if kind == _LOAD or kind == _STORE:
        ready = access(machine, state, sm, index, warp, step, cycle)
        close_if_full(machine, state, sm, kind, cycle, cycle + 1)
    elif kind == _BRANCH:
        detail = machine.details[at(step)]
        if not falls_through(warp, detail, slot % machine.chip[0].block_warps):
            following, gap = detail.target, detail.taken_gap
    elif kind == _EXIT:
        following = step  # there is nothing after it
    write(machine, state, index, np.int64(ins.dst), ready, step)
    warp.step = next_instruction(machine, state, index, following)
    return gap


@inline
def may_pair(machine, state, sm, slot, warp, first, cycle):
    """Returns whether the next step of a warp is eligible in the cycle in which its step `first` has just issued."""
    kind, step = machine.program[at(first)].kind, np.int64(warp.step)
    if machine.chip[0].issue_width < 2 or kind > _STORE or (kind == _LOAD and machine.program[at(step)].kind == _LOAD):
        return False
    wait = wait_of(machine, state, sm.index * MAX_WARPS + slot, step, wait_until(cycle, first, _WAIT))
    return end_of(wait) <= cycle


@inline
def complete(machine, state, sm, s, scheduler, lane, slot, warp, step, gap, busy, paired, cycle, end):
    """A warp has issued all that it issues in a cycle, last a step: it waits for its next one. False: a deadlock.

    `gap` and `busy` are the larger ones of a pair; `end` is the end of the window.
    """
    chip = machine.chip[0]
    index = sm.index * MAX_WARPS + slot
    ins = machine.program[at(step)]
    kind = ins.kind
    occupy_scheduler(machine, state, sm, s, scheduler, cycle, busy)
    warp.since = cycle
    time = np.int64(NEVER)
    if kind != _EXIT and kind != _BARRIER:
        if ins.delay > 0 and not paired:
            warp.wait = known_wait_from(cycle, ins)
            time = alarm(sm, scheduler, slot, warp.wait)
        else:
            warp.wait = wait_until(cycle + gap, step, _WAIT)
            wait = wait_of(machine, state, index, np.int64(warp.step), warp.wait)
            if is_known(wait):
                waits(machine, state, s, np.int64(warp.step), cycle, wait)
                warp.wait = wait
                time = alarm(sm, scheduler, slot, wait)
            else:
                sm.pending |= bit(slot)
    rank = np.int64(scheduler.ranks[at(lane)])
    store(scheduler.ops, replaced(load(scheduler.ops), lane, np.int64(machine.program[at(warp.step)].op)))
    store(scheduler.wakes, not_before(replaced(load(scheduler.wakes), lane, time), time_of(sm, cycle + busy)))
    store(scheduler.ranks, ranks_after(chip.policy, scheduler, load(scheduler.ranks), lane, rank))
    if kind == _EXIT:
        end_greed(chip.policy, scheduler)
        return exit_warp(machine, state, sm, slot, warp, cycle, end)
    if kind == _BARRIER:
        return arrive(machine, state, sm, slot, warp, step, gap, cycle)
    return True
