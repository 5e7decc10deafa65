"""Self-checks, in plain Python: `verify` asserts that a state is consistent, `dump` prints an SM for a human.

Both take a state between two calls of `run`, where all windows have ended.
"""

import numpy as np
from numpy.typing import NDArray

from warpsim.engine.accounts import caused_accounts, line_accounts, scheduler_cycles
from warpsim.engine.bits import cause_of, end_of, reason_of
from warpsim.engine.constants import (
    FARTHEST,
    FOREVER,
    MOST_PHASES,
    NEVER,
    NOBODY,
    RANK_BITS,
    RANKS,
    UNKNOWN,
    Kind,
    Life,
    Policy,
    WarpState,
)
from warpsim.engine.machine import Machine
from warpsim.engine.state import State

_plain = [getattr(function, "py_func", function) for function in (end_of, cause_of, reason_of)]
_end_of, _cause_of, _reason_of = _plain


_LIVE = (Life.RUNNING, Life.AT_BARRIER, Life.AT_MBARRIER)


class InconsistentError(AssertionError):
    """The state of the engine contradicts itself, which is an error of the engine."""


def verify(machine: Machine, state: State, *, counted_from: int | None = None) -> None:
    """Asserts that times, sets, seats and heaps agree with each other, and that the identities of section 7 hold.

    Args:
        machine: what runs.
        state: its state.
        counted_from: the first cycle that is counted, once `end_counting` has been called; the sums are compared then.

    Raises:
        InconsistentError: with what is wrong.
    """
    for sm in state.sms:
        _verify_warps(machine, state, sm)
        _verify_seats(machine, state, sm)
        _verify_mbarriers(machine, state, sm)
        _verify_flights(machine, state, sm)
        _verify_fetch(machine, state, sm)
    _require(state.clock[0].outgoing == 0, "accesses are left over")
    _require(not state.in_cycle.any(), "accesses are still counted")
    _verify_waiting(state)
    _verify_counts(state)
    if counted_from is not None:
        _verify_sums(machine, state, counted_from)


def _require(condition: bool | np.bool_, what: str) -> None:
    if not condition:
        raise InconsistentError(what)


def _slots(machine: Machine, state: State, sm: np.record) -> list[tuple[int, np.record]]:
    """Returns the warps of an SM, with their slots."""
    chip = machine.chip[0]
    return [(slot, state.warps[sm.first_index + slot]) for slot in range(chip.seats * chip.block_warps)]


def _verify_warps(machine: Machine, state: State, sm: np.record) -> None:
    """Checks lanes against waits, sets of warps against their lives, and ranks against the policy."""
    chip, now = machine.chip[0], state.clock[0].cycle
    _require(sm.answered == 0, f"SM {sm.index}: warps have not been told about their requests")
    _require(sm.last_served == NOBODY, f"SM {sm.index}: accesses have been served, but not noted")
    requested = _under_way(state, (machine.program.kind == Kind.LOAD) | (machine.details.drain >= 0))
    leave = [int(_end_of(warp.wait)) - 1 for slot, warp in _slots(machine, state, sm) if int(sm.draining) >> slot & 1]
    _require(sm.next_leave == min(leave, default=FOREVER), f"SM {sm.index}: a warp leaves in another cycle than {sm.next_leave}")
    for slot, warp in _slots(machine, state, sm):
        name = f"SM {sm.index}, slot {slot}"
        scheduler = state.schedulers[sm.first_scheduler + slot % chip.schedulers]
        lane = slot // chip.schedulers
        far, draining, pending = (bool(int(slots) >> slot & 1) for slots in (sm.far, sm.draining, sm.pending))
        wake, accesses = int(scheduler.wakes[lane]), requested[sm.first_index + slot]
        _require(wake & RANKS == 0, f"{name}: a time with a rank in it")
        _require(warp.requested == accesses, f"{name}: counts {warp.requested} accesses not served, but has {accesses}")
        _require(not pending or accesses > 0, f"{name}: waits for accesses that have not been served, but has none")
        drains = warp.life == Life.DRAINING and not pending
        _require(draining == drains, f"{name}: draining = {draining}, but {Life(warp.life).name}")
        _require(not far or (wake == NEVER and warp.life == Life.RUNNING), f"{name}: far = {far}, but its lane says {wake}")
        if warp.life != Life.RUNNING or pending:
            _require(wake == NEVER, f"{name}: {Life(warp.life).name}, but its lane says {wake}")
            continue
        ins = machine.program[warp.step]
        _require(ins.kind < Kind.LOOP_BEGIN, f"{name}: its next step {warp.step} is not an instruction")
        _require(scheduler.uses[lane] == ins.uses, f"{name}: uses {scheduler.uses[lane]}, but its next step uses {ins.uses}")
        _require(scheduler.delays[lane] == ins.own_delay, f"{name}: a delay of {scheduler.delays[lane]}, but {ins.own_delay}")
        end = int(_end_of(warp.wait))
        _require(end < UNKNOWN, f"{name}: the end of its wait is not known")
        _require(end >= warp.start, f"{name}: its wait ends before its start")
        soonest = max(end, int(scheduler.next_issue)) - int(sm.begin)
        if far:
            _require(soonest > FARTHEST - (now - sm.begin), f"{name}: far, but it could issue after {soonest} cycles")
        else:
            time = wake >> RANK_BITS
            _require(time >= min(max(soonest, 0), FARTHEST), f"{name}: wakes at {time}, sooner than {soonest}")
            _require(end <= now or time == min(soonest, FARTHEST), f"{name}: wakes at {time}, not {soonest}")
    if chip.policy != Policy.RANDOM:
        for scheduler in state.schedulers[sm.first_scheduler : sm.first_scheduler + chip.schedulers]:
            _require(len(set(scheduler.ranks.tolist())) == len(scheduler.ranks), f"SM {sm.index}: warps of the same rank")
            _require(sorted(scheduler.ages.tolist()) == list(range(len(scheduler.ages))), f"SM {sm.index}: ages are no order")


def _verify_fetch(machine: Machine, state: State, sm: np.record) -> None:
    """Checks that the buffers which stay full belong to warps that run, and are full of instructions that are there."""
    chip = machine.chip[0]
    if chip.buffer == 0:
        return
    for slot, warp in _slots(machine, state, sm):
        fetcher = state.fetchers[sm.index * chip.schedulers + slot % chip.schedulers]
        lane = int(slot // chip.schedulers)
        full, hungry = (int(lanes) >> lane & 1 for lanes in (fetcher.full, fetcher.hungry))
        if full:
            _, _, entries, *there_from = state.buffers[sm.first_index + slot].tolist()
            name = f"SM {sm.index}, slot {slot}: its buffer stays full, but"
            _require(warp.life in _LIVE, f"{name} the warp is {Life(warp.life).name}")
            _require(not hungry, f"{name} there is room in it")
            _require(entries == chip.buffer, f"{name} it has {entries} instructions")
            _require(not any(there_from), f"{name} its instructions are there from {there_from}")


def _verify_seats(machine: Machine, state: State, sm: np.record) -> None:
    """Checks the counts of seats against their warps, and the resident warps of the SM."""
    chip, now = machine.chip[0], state.clock[0].cycle
    lives = np.array([warp.life for _, warp in _slots(machine, state, sm)]).reshape(chip.seats, chip.block_warps)
    resident = np.count_nonzero(lives != Life.EMPTY)
    if now > 0:
        _require(sm.resident == resident, f"SM {sm.index}: counts {sm.resident} residents, but has {resident}")
    starts = state.seats.next_start[sm.index * chip.seats : (sm.index + 1) * chip.seats]
    soonest = min(starts[starts >= 0], default=FOREVER)
    _require(sm.next_start <= soonest, f"SM {sm.index}: no block starts before {sm.next_start}, but one at {soonest}")
    for number, of_seat in enumerate(lives):
        seat, name = state.seats[sm.index * chip.seats + number], f"SM {sm.index}, seat {number}"
        live = np.count_nonzero(np.isin(of_seat, _LIVE))
        waiting = np.count_nonzero(of_seat == Life.AT_BARRIER)
        _require(seat.live == live, f"{name}: counts {seat.live} live warps, but has {live}")
        _require(seat.waiting == waiting, f"{name}: counts {seat.waiting} warps at a barrier, but has {waiting}")
        slots = range(number * chip.block_warps, (number + 1) * chip.block_warps)
        unknown = sum(int(sm.pending) >> slot & 1 for slot in slots if lives[number][slot - slots[0]] == Life.DRAINING)
        _require(seat.unresolved == unknown, f"{name}: counts {seat.unresolved} warps that retire it is not known when")
        _require(waiting == 0 or waiting < live, f"{name}: all warps wait at a barrier")
        _require((seat.barrier != -1) == (waiting > 0), f"{name}: barrier {seat.barrier}, but {waiting} warps wait")
        if now > 0 and seat.next_start >= 0:
            _require(live == 0 and seat.next_start > seat.retire, f"{name}: the next block starts at {seat.next_start}")


def _verify_mbarriers(machine: Machine, state: State, sm: np.record) -> None:
    """Checks that mbarriers hold warps for phases that are not complete, and the counts of warps whose phases lack arrivals."""
    chip = machine.chip[0]
    if chip.mbarriers == 0:
        return
    phases = state.phases.reshape(-1, chip.mbarriers, MOST_PHASES)
    lacking = np.zeros(chip.seats, np.int64)
    for slot, warp in _slots(machine, state, sm):
        index, seat = sm.first_index + slot, slot // chip.block_warps
        if warp.life == Life.AT_MBARRIER:
            facts = machine.mbarriers[warp.barrier]
            number = state.passed[index * chip.mbarriers + facts.awaits, 1] - 1 - facts.ahead
            phase = phases[sm.index * chip.seats + seat, facts.awaits, number % MOST_PHASES]
            begun = phase.number == number
            name = f"SM {sm.index}, slot {slot}: held for phase {number}"
            _require(begun or phase.number < number, f"{name}, which has been complete for long")
            _require(not begun or phase.missing + phase.copies > 0, f"{name}, which is complete")
            lacking[seat] += not begun or phase.missing > 0
    counted = state.lacking[sm.index * chip.seats : (sm.index + 1) * chip.seats]
    what = f"SM {sm.index}: counts {counted} warps held for phases without all arrivals, not {lacking}"
    _require((counted == lacking).all(), what)


def _verify_flights(machine: Machine, state: State, sm: np.record) -> None:
    """Checks that the heaps of return times are heaps, within their limits."""
    for which, (limit, kind) in enumerate(zip(machine.chip[0].per_sm, (Kind.LOAD, Kind.STORE), strict=True)):
        sent = _under_way(state, machine.program.kind == kind).reshape(len(state.sms), -1)[sm.index].sum()
        heap, held = state.flights[2 * sm.index + which], int(sm.in_flight[which])
        _require(sm.unserved[which] == sent, f"SM {sm.index}: counts {sm.unserved[which]} accesses not served, but has {sent}")
        _require(limit == 0 or held + sent <= limit, f"SM {sm.index}: {held + sent} accesses in flight, more than {limit}")
        _require(all(heap[(i - 1) // 2] <= heap[i] for i in range(1, held)), f"SM {sm.index}: a heap out of order")


def _open_accesses(state: State) -> NDArray[np.int64]:
    """Returns the places of the accesses between the stages of memory."""
    clock = state.clock[0]
    return np.setdiff1d(np.arange(len(state.accesses)), state.free_accesses[clock.accesses :])


def _under_way(state: State, steps: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns for each warp slot of the chip the number of accesses by some steps that are between the stages of memory."""
    accesses = state.accesses[_open_accesses(state)]
    warps = accesses["warp"]
    return np.bincount(warps[steps[accesses["step"]] & (warps >= 0)], minlength=len(state.warps))


def _verify_waiting(state: State) -> None:
    """Checks the requests between the stages of memory: none of them should have been served."""
    clock = state.clock[0]
    near, far = state.arrivals[: clock.near], state.far_arrivals[: clock.far]
    _require((near["time"] < clock.far_from).all() and (far["time"] >= clock.far_from).all(), "near requests and others differ")
    waiting = np.concatenate([near, far])
    _require((waiting["time"] >= clock.cycle).all(), "a request between the stages should have been served")
    first = int(waiting["time"].min(initial=FOREVER))
    is_known = clock.next_arrival == first or (clock.next_arrival < first < FOREVER and len(near) == 0)
    _require(is_known, f"the next request arrives in cycle {first}, not {clock.next_arrival}")
    _require(not state.in_part.any(), "a window has left counts of requests")
    places = _open_accesses(state)
    unserved = np.bincount(waiting["access"], minlength=len(state.accesses))
    _require(np.flatnonzero(unserved).tolist() == places.tolist(), "accesses and requests between the stages differ")
    _require((unserved[places] == state.accesses.unserved[places]).all(), "accesses miscount their requests")


def _verify_counts(state: State) -> None:
    """No counter is negative, and parts do not exceed the whole."""
    parts, counts = state.parts, state.counts
    for part, whole in (("second_issues", "issued"), ("throttled", "waited"), ("held", "waited"), ("unfetched", "waited")):
        _require((parts[part] >= 0).all() and (parts[part] <= counts[whole]).all(), f"{part} exceed {whole}")


def _verify_sums(machine: Machine, state: State, counted_from: int) -> None:
    """The identities of docs/model.md, section 7."""
    chip, tally, cycles = machine.chip[0], state.tally[0], int(state.clock[0].cycle) - counted_from
    lines, caused = line_accounts(machine, state), caused_accounts(machine, state)
    _require((lines >= 0).all() and (caused >= 0).all(), "negative warp-cycles")
    _require((lines.sum(axis=(0, 1)) == caused.sum(axis=0)).all(), "warp-cycles by line and by cause differ")
    levels = np.arange(len(tally.occupancy))
    _require(lines.sum() == levels @ tally.occupancy, "warp-cycles do not add up to the integral of occupancy")
    _require(lines.sum() == state.sms.warp_cycles.sum(), "warp-cycles do not add up to those of the SMs")
    _require(tally.occupancy.sum() == chip.sms * cycles, "SM-cycles do not add up")
    issue_cycles, busy = scheduler_cycles(machine, state)
    _require(0 <= busy <= chip.sms * chip.schedulers * cycles - issue_cycles, f"{busy} busy scheduler-cycles")


def dump(machine: Machine, state: State, sm: int = 0) -> str:
    """Returns an SM as text: its schedulers, and each warp with its next step and what it waits for."""
    chip, record = machine.chip[0], state.sms[sm]
    text = [f"SM {sm} at cycle {state.clock[0].cycle}: {record.resident} resident warps, in flight {record.in_flight.tolist()}"]
    for s in range(chip.schedulers):
        scheduler = state.schedulers[sm * chip.schedulers + s]
        text.append(f"scheduler {s}: issues from cycle {scheduler.next_issue} on")
        for slot, warp in _slots(machine, state, record):
            if slot % chip.schedulers != s or warp.life == Life.EMPTY:
                continue
            seat, rank = state.seats[sm * chip.seats + slot // chip.block_warps], scheduler.ranks[slot // chip.schedulers]
            what = f"  slot {slot:2}: block {seat.block}, {Life(warp.life).name.lower()}, step {warp.step}, rank {rank}"
            until, reason = _end_of(warp.wait), WarpState(_reason_of(warp.wait)).name.lower()
            if int(record.pending) >> slot & 1:
                text.append(f"{what}, until {warp.requested} accesses have been served")
            else:
                text.append(f"{what}, until {until} because of step {_cause_of(warp.wait)} ({reason})")
    return "\n".join(text)
