"""Instruction fetch: buffers of warps, and the L0 cache of each scheduler. docs/model.md, section 3.

A scheduler fetches one instruction at the end of each cycle. That depends on what it has issued before, and on nothing of the
other schedulers; so its fetches follow when it wants to issue again.
"""

import numpy as np

from warpsim.engine.bits import NONE, at, bit, end_of, first, rest
from warpsim.engine.constants import FOREVER, LINE_BITS, NOBODY, Kind, Policy
from warpsim.engine.lanes import lanes_at_most, load, time_of
from warpsim.engine.places import seat_number, slot_in
from warpsim.jit.decorators import inline, seldom

_ADDRESS, _OLDEST, _ENTRIES, _FIRST = 0, 1, 2, 3  # columns of `State.buffers`
_SINCE, _USE = 0, 1  # of `State.lines`


@inline
def begin_fetch(addresses, machine, state, sm, slot, step):
    """A warp starts at a step, with an empty buffer."""
    if addresses is None:
        return
    if machine.chip[0].buffer == 0:
        return
    chip, buffer = machine.chip[0], state.buffers[at(sm.first_index + slot)]
    buffer[at(_ADDRESS)], buffer[at(_OLDEST)], buffer[at(_ENTRIES)] = addresses[at(step)], 0, 0
    fetcher = fetcher_at(state, sm, chip.scheduler_of[at(slot)])
    lane = bit(chip.lane_of[at(slot)])
    fetcher.hungry, fetcher.starting = fetcher.hungry | lane, fetcher.starting | lane
    fetcher.full &= ~lane


@inline
def fetcher_at(state, sm, s):
    """Returns the record of the fetches of scheduler s of an SM."""
    return state.fetchers[at(sm.first_scheduler + s)]


@inline
def there_from(state, index):
    """Returns the cycle from which the next instruction of a warp can issue; FOREVER: it has not been fetched."""
    buffer = state.buffers[at(index)]
    return buffer[at(_FIRST + buffer[at(_OLDEST)])] if buffer[at(_ENTRIES)] > 0 else FOREVER


@inline
def fetched_from(addresses, state, index):
    """Returns the cycle from which the next instruction of a warp can issue; 0 where every instruction is there in time."""
    if addresses is None:
        return 0
    return there_from(state, index) if len(state.buffers) > 0 else 0


@inline
def retry_from(chip, there, cycle):
    """Returns the cycle before which an instruction that is not there at a cycle cannot issue."""
    return cycle + chip.stages if there == FOREVER else there


@inline
def take_instruction(addresses, machine, state, fetcher, index, lane, step, following, cycle):
    """The warp in a lane has issued a step, and another one follows, perhaps by a jump, which empties its buffer.

    The scheduler has made all fetches before the cycle of the issue.
    """
    chip, buffer, address = machine.chip[0], state.buffers[at(index)], np.int64(addresses[at(following)])
    fetcher.next = cycle
    end_full(addresses, machine, state, fetcher, index, lane, step)
    oldest = buffer[at(_OLDEST)] + 1
    buffer[at(_OLDEST)] = oldest if oldest < chip.buffer else 0
    buffer[at(_ENTRIES)] -= 1
    if address != addresses[at(step)] + 1:
        buffer[at(_ADDRESS)], buffer[at(_ENTRIES)] = address, 0
    if buffer[at(_ADDRESS)] < chip.program_end:
        fetcher.hungry |= bit(lane)
    fetcher.last = lane


@inline
def fetch_after(addresses, machine, state, sm, s, slot, step, following, cycle):
    """The warp in a slot of scheduler s has issued a step, which is `exit` if none follows."""
    if addresses is None:
        return
    chip = machine.chip[0]
    if chip.buffer == 0:
        return
    index, lane = sm.first_index + slot, chip.lane_of[at(slot)]
    fetcher, is_exit = fetcher_at(state, sm, s), machine.program[at(step)].kind == Kind.EXIT
    if chip.issue_width > 1 or is_exit:
        take_instruction(addresses, machine, state, fetcher, index, lane, step, following, cycle)
    else:
        take_and_fetch(addresses, machine, state, sm, s, fetcher, index, lane, step, following, cycle)
    if is_exit:
        fetcher.hungry &= ~bit(lane)
        fetcher.last = NOBODY


@inline
def awaits_instruction(addresses, machine, state, sm, s, scheduler, cycle, end):
    """Returns whether the pick of scheduler s has not been fetched at a cycle. The pick waits then until it may be."""
    if addresses is None:
        return False
    chip = machine.chip[0]
    if chip.buffer == 0:
        return False
    fetch_before(addresses, machine, state, sm, s, cycle)
    lanes = bit(scheduler.lane)
    if chip.policy == Policy.RANDOM:
        lanes = lanes_at_most(load(scheduler.wakes), time_of(sm, cycle))
    awaits = False
    while lanes != NONE:
        lane = first(lanes)
        lanes = rest(lanes)
        there = there_from(state, sm.first_index + slot_in(chip, s, lane))
        if there > cycle:
            scheduler.wakes[at(lane)] = time_of(sm, min(retry_from(chip, there, cycle), end))
            awaits = True
    return awaits


@inline
def fetch_before(addresses, machine, state, sm, s, cycle):
    """Has scheduler s fetch at the ends of all cycles before a cycle for which it has not done so."""
    if addresses is None:
        return
    if machine.chip[0].buffer == 0:
        return
    make_fetches(machine, state, sm, s, fetcher_at(state, sm, s), cycle)


@inline
def make_fetches(machine, state, sm, s, fetcher, cycle):
    """As `fetch_before`, where the chip has instruction fetch; the FETCHER of scheduler s is given."""
    if fetcher.hungry != NONE and fetcher.next < cycle:
        fetch_all(machine, state, sm, s, fetcher, cycle)


@inline
def take_and_fetch(addresses, machine, state, sm, s, fetcher, index, lane, step, following, cycle):
    """As `take_instruction`; scheduler s also fetches for that warp at once if it can. Nothing else issues in this cycle."""
    chip = machine.chip[0]
    if following == step + 1 and stays_full(fetcher, lane):
        if fetcher.hungry != NONE:  # another warp may have to wait for its turn
            fetcher.last, fetcher.next = lane, cycle + np.int64(addresses[at(step)] + chip.buffer < chip.program_end)
        return
    take_instruction(addresses, machine, state, fetcher, index, lane, step, following, cycle)
    buffer, since = state.buffers[at(index)], 0
    if buffer[at(_ADDRESS)] < chip.program_end:
        if fetcher.lines_there > cycle:
            since = line_of(machine, state, sm, s, fetcher, buffer[at(_ADDRESS)], cycle)
        if since <= cycle:
            fetch(chip, fetcher, buffer, lane, cycle, cycle + 1)
            fetcher.next = cycle + 1


@inline
def stays_full(fetcher, lane):
    """Returns whether the buffer of the warp in a lane *stays full*: it is full again with each instruction that the warp issues.

    The warp executes straight code from an L0 that holds the whole program, and its buffer has an entry for each stage. When it
    issues an instruction, one is fetched for it, as long as the program has more. In a cycle one is fetched, and one is issued,
    so that each is there in time. The buffer is not updated meanwhile.
    """
    return (fetcher.full & bit(lane)) != NONE


@inline
def begin_full(chip, buffer, fetcher, lane, now, eligible):
    """An instruction has been fetched at the end of a cycle for the warp in a lane, which is not eligible before another cycle.

    If that filled its buffer, this stays full, unless the warp waits for what has been fetched.
    """
    if buffer[at(_ENTRIES)] < chip.buffer or fetcher.lines_there > now or chip.stages > chip.buffer or chip.issue_width > 1:
        return
    if buffer[at(_FIRST + buffer[at(_OLDEST)])] <= eligible:
        fetcher.full |= bit(lane)
        for i in range(chip.buffer):
            buffer[at(_FIRST + i)] = 0


@inline
def end_full(addresses, machine, state, fetcher, index, lane, step):
    """The buffer of a warp that has issued a step does not stay full; it is updated again, from before that step on."""
    if stays_full(fetcher, lane):
        fetcher.full &= ~bit(lane)
        chip, buffer = machine.chip[0], state.buffers[at(index)]
        left = min(chip.buffer, chip.program_end - addresses[at(step)])
        buffer[at(_ENTRIES)], buffer[at(_ADDRESS)] = left, addresses[at(step)] + left


@seldom
def fetch_all(machine, state, sm, s, fetcher, cycle):
    """Makes the fetches of scheduler s of an SM before a cycle."""
    chip = machine.chip[0]
    if fetcher.starting == NONE and fetcher.lines_there <= fetcher.next:  # nothing but the buffers is in the way
        while fetcher.next < cycle and fetcher.hungry != NONE:
            lane = whose_turn(machine, state, sm, s, fetcher, fetcher.hungry)
            index = sm.first_index + slot_in(chip, s, lane)
            fetch(chip, fetcher, state.buffers[at(index)], lane, fetcher.next, end_of(state.warps[at(index)].wait))
            fetcher.next += 1
    while fetcher.next < cycle and fetcher.hungry != NONE:
        now, asked, wakes, fetched = fetcher.next, fetcher.hungry, np.int64(cycle), False
        lane = whose_turn(machine, state, sm, s, fetcher, asked)
        while True:
            asked &= ~bit(lane)
            index = sm.first_index + slot_in(chip, s, lane)
            buffer, warp, since = state.buffers[at(index)], state.warps[at(index)], 0
            if (fetcher.starting & bit(lane)) != NONE:
                since = warp.start
            if since <= now:
                fetcher.starting &= ~bit(lane)
                since = line_of(machine, state, sm, s, fetcher, buffer[at(_ADDRESS)], now)
                if since <= now:
                    fetch(chip, fetcher, buffer, lane, now, end_of(warp.wait))
                    fetched = True
                    break
            wakes = min(wakes, since)
            if asked == NONE:
                break
            lane = youngest(machine, state, sm, s, asked)
        fetcher.next = now + 1 if fetched else wakes
    fetcher.next = max(fetcher.next, cycle)


@inline
def whose_turn(machine, state, sm, s, fetcher, lanes):
    """Returns the lane for which a scheduler fetches first: that of the warp that it issued last, or of the youngest one."""
    if fetcher.last >= 0 and (lanes & bit(fetcher.last)) != NONE:
        return fetcher.last
    return first(lanes) if rest(lanes) == NONE else youngest(machine, state, sm, s, lanes)


@seldom
def youngest(machine, state, sm, s, lanes):
    """Returns the lane of the warp that was launched last, of a set of lanes that is not empty."""
    chip, latest, chosen = machine.chip[0], NOBODY, 0
    while lanes != NONE:
        slot = slot_in(chip, s, first(lanes))
        launched = state.seats[at(seat_number(chip, sm, slot))].block * chip.block_warps + chip.warp_of[at(slot)]
        if launched > latest:
            latest, chosen = launched, first(lanes)
        lanes = rest(lanes)
    return chosen


@inline
def fetch(chip, fetcher, buffer, lane, now, eligible):
    """Fetches an instruction at the end of a cycle for the warp in a lane, which is not eligible before another cycle."""
    place = buffer[at(_OLDEST)] + buffer[at(_ENTRIES)]
    buffer[at(_FIRST + (place if place < chip.buffer else place - chip.buffer))] = now + chip.stages
    buffer[at(_ENTRIES)] += 1
    buffer[at(_ADDRESS)] += 1
    if buffer[at(_ENTRIES)] == chip.buffer or buffer[at(_ADDRESS)] == chip.program_end:
        fetcher.hungry &= ~bit(lane)
        begin_full(chip, buffer, fetcher, lane, now, eligible)


@inline
def line_of(machine, state, sm, s, fetcher, address, now):
    """Returns from when on the line of an address is in L0; uses it if it is there, requests it if it is not on its way."""
    lines = state.lines[at(sm.first_scheduler + s)]
    line = address * machine.chip[0].line_share >> LINE_BITS
    if lines[at(line), at(_USE)] == 0:
        return request_line(machine, fetcher, lines, line, now)
    since = lines[at(line), at(_SINCE)]
    if since <= now:
        fetcher.uses += 1
        lines[at(line), at(_USE)] = fetcher.uses
    return since


@seldom
def request_line(machine, fetcher, lines, line, now):
    """Requests a line and those behind it, as far as there is room. Returns the cycle from which the line may be there."""
    chip, since = machine.chip[0], request_lines(machine, fetcher, lines, line, now)
    if chip.cache_lines <= chip.lines:
        fetcher.lines_there = all_lines_from(chip, lines)
    return since


@inline
def all_lines_from(chip, lines):
    """Returns the cycle from which all lines of the program are in an L0 that has room for all; FOREVER: it is not known."""
    since = 0
    for line in range(chip.cache_lines - chip.prefetch_lines):
        since = max(since, lines[at(line), at(_SINCE)] if lines[at(line), at(_USE)] > 0 else FOREVER)
    return since


@inline
def request_lines(machine, fetcher, lines, line, now):
    """Requests a line and those behind it as above."""
    chip = machine.chip[0]
    for ahead in range(chip.prefetch_lines + 1):
        if lines[at(line + ahead), at(_USE)] > 0:
            continue
        if fetcher.held == chip.lines and not replace_line(fetcher, lines, now):
            return now + 1 if ahead == 0 else now + chip.miss
        fetcher.uses += 1
        fetcher.held += 1
        lines[at(line + ahead), at(_USE)] = fetcher.uses
        lines[at(line + ahead), at(_SINCE)] = now + chip.miss + ahead * chip.prefetch_cycles
    return now + chip.miss


@seldom
def replace_line(fetcher, lines, now):
    """Drops the line that was used longest ago, of those that are in L0. False: all are on their way."""
    chosen, oldest = NOBODY, FOREVER
    for line in range(len(lines)):
        use = lines[at(line), at(_USE)]
        if 0 < use < oldest and lines[at(line), at(_SINCE)] <= now:
            chosen, oldest = line, use
    if chosen >= 0:
        lines[at(chosen), at(_USE)] = 0
        fetcher.held -= 1
    return chosen >= 0
