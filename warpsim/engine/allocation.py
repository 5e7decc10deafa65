"""The making of a state: an idle machine at cycle 0, and one with more room."""

import math
from typing import Any

import numpy as np

from warpsim.engine.constants import (
    ASKED,
    CACHE_LINE,
    COLLECTED,
    ECHO_ROOM,
    FOREVER,
    LEAST_TRANSITIONS,
    LONGEST_WINDOW,
    MAX_SCHEDULERS,
    MOST_COUNTED,
    MOST_PARTS,
    MOST_PHASES,
    MOST_TRANSITIONS,
    NEAR_COUNTED,
    NEVER,
    NOBODY,
    STATES,
    TRANSITIONS,
    UNITS,
    WAITING_OF_SM,
    WINDOW_BUCKETS,
    WORDS_OF_THREAD,
    Array,
    Kind,
    Policy,
    Records,
)
from warpsim.engine.machine import Machine
from warpsim.engine.rng import GOLDEN, mix
from warpsim.engine.state import (
    ACCESS,
    ARRIVAL,
    CLOCK,
    COUNT,
    FETCHER,
    OUTGOING,
    PART,
    PHASE,
    POOL,
    SCRATCH,
    SEAT,
    SEQUENCE,
    SM,
    TALLY,
    TRANSITION,
    WARP,
    State,
    lanes_for,
    scheduler_record,
)

_mix = getattr(mix, "py_func", mix)  # on arrays


def records(count: int, dtype: np.dtype[Any]) -> Records:
    """Returns zeroed records that begin at a line of the cache."""
    room = np.zeros(count * dtype.itemsize + CACHE_LINE, np.uint8)
    return np.recarray(count, dtype, buf=room.data, offset=-room.ctypes.data % CACHE_LINE)


def allocate(machine: Machine, *, issues: int = 0, lives: int = 0, changes: int = 0, threads: int = 1) -> State:
    """An idle machine at cycle 0, with so many rows for issues, retired warps and changes of occupancy, for so many threads."""
    chip = machine.chip[0]
    sms, schedulers, steps = int(chip.sms), int(chip.schedulers), len(machine.program)
    slots, warps = int(chip.seats * chip.block_warps), sms << int(chip.slot_bits)
    queues = int((machine.classes.queue_row + 1).max(initial=0))
    lanes, mbarriers = lanes_for(slots, schedulers), int(chip.mbarriers)

    echoes = echoes_of(int(chip.seed), (int(chip.of_sms) - sms) * slots)
    pools, transitions = pools_of(machine) if len(echoes) else (records(0, POOL), records(0, TRANSITION))
    waiting = WAITING_OF_SM * int(chip.of_sms)
    outgoing_of_sm = 2 * schedulers * int(chip.window)  # in a window, at most: a scheduler issues at most two in a cycle
    most_outgoing = sms * outgoing_of_sm + ECHO_ROOM * len(echoes)

    state = State(
        clock=records(threads, CLOCK),
        calls=np.zeros(threads * WORDS_OF_THREAD, np.int64),
        sms=records(sms, SM),
        schedulers=records(sms * schedulers, scheduler_record(lanes)),
        seats=records(sms * int(chip.seats), SEAT),
        warps=records(warps, WARP),
        registers=np.zeros(warps * int(chip.registers), np.int64),
        fetchers=records(sms * schedulers * (chip.buffer > 0), FETCHER),
        lines=np.zeros((sms * schedulers * (chip.buffer > 0), int(chip.cache_lines), 2), np.int64),
        buffers=np.zeros((warps * (chip.buffer > 0), 3 + int(chip.buffer)), np.int64),
        writers=np.zeros(warps * int(chip.registers) * (machine.hints is not None and len(machine.hints) > 0), np.int64),
        counted=np.zeros((warps * int(chip.counters), 2 + 2 * NEAR_COUNTED), np.int64),
        crowded=np.zeros((warps * int(chip.counters), 2 * (MOST_COUNTED + 1 - NEAR_COUNTED)), np.int64),
        phases=records(sms * int(chip.seats) * mbarriers * MOST_PHASES, PHASE),
        lacking=np.zeros(sms * int(chip.seats) * (mbarriers > 0), np.int64),
        passed=np.zeros((warps * mbarriers, 2), np.int64),
        arrivals_in=np.zeros((warps * mbarriers, MOST_PHASES), np.int64),
        copies=np.zeros((warps * mbarriers, 2), np.int64),
        loops=np.zeros((warps, max(1, machine.loops)), np.int64),
        returns=np.zeros((warps, max(1, int(chip.loads_per_warp))), np.int64),
        latest=np.zeros(warps, np.int64),
        otherwise=np.zeros(warps, np.int64),
        queues=np.zeros((queues * sms * schedulers, 2 + int(machine.classes.queue.max(initial=0))), np.int64),
        flights=np.zeros((2 * sms, max(1, int(chip.per_sm.max()))), np.int64),
        first_seat=np.full(LONGEST_WINDOW, -1),
        outgoing=np.empty(most_outgoing, OUTGOING).view(np.recarray),
        in_cycle=np.zeros(LONGEST_WINDOW, np.int64),
        order=np.empty(most_outgoing, np.int64),
        tracks=records(warps if len(echoes) else 0, SEQUENCE),
        echoes=echoes,
        echo_due=np.full(len(echoes), FOREVER, np.int64),
        pools=pools,
        transitions=transitions,
        accesses=records(waiting, ACCESS),
        arrivals=records(waiting, ARRIVAL),
        far_arrivals=records(waiting, ARRIVAL),
        taken=records(waiting, ARRIVAL),
        due=records(waiting, ARRIVAL),
        in_part=np.zeros(MOST_PARTS, np.int32),
        free_accesses=np.arange(waiting, dtype=np.int32),
        servers=np.zeros((5, max(1, int(chip.crossbar_servers), int(chip.dram_servers))), np.float64),
        recent_bytes=np.zeros(WINDOW_BUCKETS + 1, np.float64),
        tally=records(threads, TALLY),
        counts=records(threads * schedulers * steps, COUNT),
        parts=records(threads * schedulers * steps, PART),
        stalls=np.zeros(threads * schedulers * steps * STATES, np.int64),
        caused=np.zeros(threads * steps * STATES, np.int64),
        scratch=records(threads, SCRATCH),
        trace=np.empty((issues, 4), np.int64),
        lives=np.empty((lives, 5), np.int64),
        changes=np.empty((changes, 3), np.int64),
    )
    edges = sms * np.arange(threads + 1) // threads
    state.clock["first_sm"], state.clock["last_sm"] = edges[:-1], edges[1:] - 1
    state.clock["first_outgoing"] = edges[:-1] * outgoing_of_sm
    _make_idle(machine, state)
    _deal(chip, state)
    return state


def _make_idle(machine: Machine, state: State) -> None:
    """Says of all SMs, schedulers and servers that they have not done anything."""
    chip, clock = machine.chip[0], state.clock[0]
    servers = int(chip.dram_servers)
    state.servers[COLLECTED, :servers] = chip.write_burst * np.arange(servers) / servers  # so that they do not write all at once
    state.servers[ASKED] = -np.inf  # nothing has asked a channel
    clock.next_arrival, clock.next_echo, clock.pool_room = FOREVER, FOREVER, pool_room(machine)
    state.clock["stuck_cycle"] = FOREVER
    state.fetchers["last"], state.fetchers["lines_there"] = NOBODY, FOREVER
    of_sms, of_schedulers = np.asarray(state.sms), np.asarray(state.schedulers)
    of_sms["index"], of_sms["last_served"] = np.arange(len(of_sms)), NOBODY
    of_sms["constants"] = of_sms["next_leave"] = FOREVER
    of_sms["first_index"] = np.arange(len(of_sms)) << chip.slot_bits
    of_sms["first_scheduler"] = np.arange(len(of_sms)) * chip.schedulers
    of_sms["last_issue"] = np.tile(np.arange(MAX_SCHEDULERS) - MAX_SCHEDULERS, UNITS)
    of_schedulers["wakes"] = NEVER
    if chip.policy == Policy.RANDOM:  # all its ranks stay 0, and `draw_pick` chooses among equal times
        of_schedulers["stream"] = streams_of_schedulers(int(chip.seed), len(of_schedulers))
    else:
        of_schedulers["ages"] = of_schedulers["ranks"] = np.arange(of_schedulers["ages"].shape[1])


def _deal(chip: Any, state: State) -> None:
    """Deals the first blocks to the seats, and says when they start: to the SMs in turn, seat by seat."""
    seats, sms = np.asarray(state.seats), len(state.sms)
    seats["next_block"], seats["barrier"] = np.arange(len(seats)).reshape(-1, sms).T.ravel(), -1
    blocks = len(seats) if chip.blocks < 0 else min(len(seats), int(chip.blocks))
    starts, state.clock[0].launch_free = _starts_of_deal(chip, blocks)
    seats["next_start"] = np.append(starts, np.full(len(seats) - blocks, -1))[seats["next_block"]]
    to_start = np.where(seats["next_start"] < 0, FOREVER, seats["next_start"])
    np.asarray(state.sms)["next_start"] = to_start.reshape(sms, -1).min(axis=1)
    state.clock[0].next_block = blocks


def _starts_of_deal(chip: Any, blocks: int) -> tuple[Array, float]:
    """Returns the cycles in which the blocks of the deal start, and the time from which a further one can."""
    first, interval = int(chip.first_start), float(chip.launch_interval)
    if chip.iteration > 0 or interval == 0.0:
        return np.full(blocks, first), 0.0 if chip.iteration > 0 else float(first)
    starts, free = np.empty(blocks, np.int64), 0.0
    for number in range(blocks):
        starts[number] = max(first, math.ceil(free))
        free = max(free, first) + interval
    return starts, free


def enlarged(machine: Machine, state: State) -> State:
    """Returns a state with room for the accesses of the window that ended last; it shares the other arrays with `state`."""
    clock = state.clock[0]
    if clock.outgoing == len(state.outgoing):
        outgoing = _longer(state.outgoing, 2 * len(state.outgoing))
        state = state._replace(outgoing=outgoing, order=np.empty(len(outgoing), np.int64))
    asked = machine.details.requests[state.outgoing.step[: clock.outgoing]].sum()
    before = size = len(state.arrivals)
    while size < clock.near + clock.far + asked:
        size *= 2
    more = np.arange(before, size, dtype=np.int32)
    return state._replace(
        accesses=_longer(state.accesses, size),
        arrivals=_longer(state.arrivals, size),
        far_arrivals=_longer(state.far_arrivals, size),
        free_accesses=np.concatenate([state.free_accesses, more]),
        taken=records(size, ARRIVAL),
        due=records(size, ARRIVAL),
    )


def _longer(some: Records, size: int) -> Records:
    """Returns so many records, of which the first are given. Numpy copies records one by one, but bytes at once."""
    longer = records(size, some.dtype)
    longer.view(np.uint8)[: some.nbytes] = some.view(np.uint8)
    return longer


def echoes_of(seed: int, count: int) -> Records:
    """Returns the echoes that stand for the warps of SMs that a slice does not simulate (docs/model.md, sections 5 and 6)."""
    echoes = records(count, SEQUENCE)
    with np.errstate(over="ignore"):
        echoes["stream"] = _mix(_mix(np.uint64(seed)) + GOLDEN * np.arange(count, dtype=np.uint64))
    echoes["next_step"] = NOBODY
    return echoes


def pools_of(machine: Machine) -> tuple[Records, Records]:
    """Returns the empty pools of the transitions from each step, and room for them (docs/model.md, section 5)."""
    accesses, room = _accesses(machine), pool_room(machine)
    pools = records(len(machine.program), POOL)
    pools["begin"][accesses] = room * np.arange(len(accesses))
    return pools, np.zeros(room * len(accesses), TRANSITION).view(np.recarray)


def pool_room(machine: Machine) -> int:
    """Returns for how many transitions from a step there is room."""
    room = 1 << max(TRANSITIONS // max(len(_accesses(machine)), 1), 1).bit_length() - 1
    return min(max(room, LEAST_TRANSITIONS), MOST_TRANSITIONS)


def _accesses(machine: Machine) -> Array:
    """Returns the steps that are loads or stores."""
    kind = machine.program["kind"]
    return np.flatnonzero((kind == Kind.LOAD) | (kind == Kind.STORE))


def streams_of_schedulers(seed: int, count: int) -> Array:
    """Returns the streams of the schedulers of a chip, for the policy `random` (docs/model.md, section 6)."""
    with np.errstate(over="ignore"):
        streams: Array = _mix(np.uint64(seed) - GOLDEN * np.arange(1, count + 1, dtype=np.uint64))
    return streams
