"""The memory system that all SMs share: when a load returns. docs/model.md, section 5."""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.constants import (
    ASKED,
    BINS,
    BUCKET_CYCLES,
    BUS,
    COARSE_BINS,
    COARSE_WIDTH,
    COLLECTED,
    CROSSBAR,
    DRAM,
    FINE_BINS,
    LATEST,
    WINDOW_BUCKETS,
    MemoryModel,
)
from warpsim.engine.rng import advance, choose, mix, skip, uniform
from warpsim.jit.decorators import inline


@inline
def quantile(table, row, u):
    """The u-quantile of a row: linear within a bin of equal probability."""
    x = u * BINS
    i = np.int64(x)
    low = table[at(row), at(i)]
    return low + (x - i) * (table[at(row), at(i + 1)] - low)


@inline
def serve_at(state, stage, server, arrival, service):
    """Adds a request to the queue of a server; returns the time at which its service begins."""
    begins = max(state.servers[at(stage), at(server)], arrival)
    state.servers[at(stage), at(server)] = begins + service
    return begins


@inline
def pass_crossbar(state, arrival, word, detail):
    """Returns when the service of a request begins in stage 1; a random word chooses its server."""
    return serve_at(state, CROSSBAR, choose(word, detail.slices), arrival, detail.slice_cycles)


@inline
def pass_bus(chip, state, arrival, detail, is_write):
    """Returns when the data bus begins to serve a request."""
    clock = state.clock[0]
    share = clock.write_share
    cost = 1.0 + share * (chip.write_cost - 1.0) + 4.0 * share * (1.0 - share) * chip.turnaround
    if share != np.float64(is_write):  # a division takes long, and the next request waits for it
        clock.write_share = share + (np.float64(is_write) - share) / (LATEST * chip.crossbar_servers)
    return serve_at(state, BUS, 0, arrival, detail.bus_cycles * cost)


@inline
def bus_free_from(state):
    """Returns the cycle in which the time lies from which the data bus can serve another request."""
    return np.int64(state.servers[BUS, 0])


@inline
def collected(chip, state, server, service):
    """A server of stage 2 gets a store; returns for how many cycles it writes because of that: a whole burst, or none."""
    cycles = state.servers[COLLECTED, at(server)] + service
    full = cycles >= chip.write_burst
    state.servers[COLLECTED, at(server)] = 0.0 if full else cycles
    return cycles if full else 0.0


@inline
def finds_idle(chip, state, server, arrival):
    """Returns whether a request finds the channel of its server idle, which turns to loads then; it is the latest one there."""
    channel = np.uint32(server * chip.crossbar_servers) // np.uint32(chip.dram_servers)
    since = state.servers[ASKED, at(channel)] + chip.idle
    state.servers[ASKED, at(channel)] = arrival
    return arrival >= since


@inline
def pass_dram(chip, state, arrival, server, detail, is_write):
    """Returns when a request has passed stage 2 and the bus: a load with its delay by stores, a store that drains the bus."""
    service = collected(chip, state, server, detail.dram_cycles) if is_write else detail.dram_cycles
    begins = serve_at(state, DRAM, server, arrival, service)
    share = state.clock[0].write_share
    turn = pass_bus(chip, state, arrival, detail, is_write)
    delay = 0.0
    if chip.read_delay > 0.0 and not finds_idle(chip, state, server, arrival):
        delay = 4.0 * share * (1.0 - share) * chip.read_delay
    if not is_write:
        return max(begins, turn) + delay
    return turn if detail.drain >= 0.0 else max(begins, turn)


@inline
def roll_window(state, now):
    """Empties the buckets of the window that have passed since its last use; the number of the newest stands at its end."""
    bucket, last = now // BUCKET_CYCLES, np.int64(state.recent_bytes[WINDOW_BUCKETS])
    for passed in range(last + 1, min(bucket, last + WINDOW_BUCKETS) + 1):
        state.recent_bytes[passed % WINDOW_BUCKETS] = 0.0
    state.recent_bytes[WINDOW_BUCKETS] = np.float64(bucket)


@inline
def present_load(state, now):
    """Bytes per cycle requested in the sliding window that ends now."""
    total = 0.0
    for i in range(WINDOW_BUCKETS):
        total += state.recent_bytes[i]
    return total / (min(now, (WINDOW_BUCKETS - 1) * BUCKET_CYCLES + now % BUCKET_CYCLES) + 1)


@inline
def measured_latency(machine, load, u):
    """A draw from the two measured distributions around a load, interpolated."""
    rows = len(machine.loads)
    if load <= machine.loads[0]:
        return quantile(machine.quantiles, 0, u)
    if load >= machine.loads[rows - 1]:
        return quantile(machine.quantiles, rows - 1, u)
    row = 0
    while machine.loads[row + 1] < load:
        row += 1
    fraction = (load - machine.loads[row]) / (machine.loads[row + 1] - machine.loads[row])
    low = quantile(machine.quantiles, row, u)
    return low + fraction * (quantile(machine.quantiles, row + 1, u) - low)


@inline
def hits_l1(stream, detail):
    """Returns whether an access hits L1; `stream` is that of the warp before the access."""
    return detail.l1_hit > 0.0 and uniform(mix(skip(stream, 2))) < detail.l1_hit


@inline
def after_access(stream, detail):
    """Returns a warp's stream after an access."""
    return skip(before_requests(stream, detail), detail.requests)


@inline
def latency_in_l1(machine, detail):
    """Returns after how many cycles the data of an access that hits L1 is back."""
    chip = machine.chip[0]
    return whole((detail.drain if detail.drain >= 0.0 else chip.l1_latency + detail.l1_late) + longest_delay(chip, detail))


@inline
def whole(latency):
    """Returns a latency in whole cycles."""
    return np.int64(np.floor(latency + 0.5))


@inline
def longest_delay(chip, detail):
    """Returns the delay of issuing the last request of an access, in cycles; no other one has a longer one."""
    return np.float64(detail.extra) * chip.transaction_latency if detail.requests > 1 else 0.0


@inline
def hits_l2(stream, detail):
    """Returns whether an access that does not hit L1 hits L2; `stream` is that of the warp before the access."""
    return detail.l2_hit > 0.0 and uniform(mix(skip(stream, 2))) < detail.l2_hit


@inline
def before_requests(stream, detail):
    """Returns a warp's stream before the draws for the requests of an access."""
    return skip(stream, 1 + (detail.l2_hit > 0.0))


@inline
def unloaded(machine, state, stream, now, detail, in_l2):
    """Returns the unloaded latency of an access that issues at cycle `now`; counts it for the present load."""
    base = unloaded_load(machine, state, stream, now, detail, in_l2)
    return detail.drain if detail.drain >= 0.0 else base


@inline
def unloaded_load(machine, state, stream, now, detail, in_l2):
    """Returns the unloaded latency of an access as if it were a load; counts it for the present load."""
    chip, model = machine.chip[0], machine.chip[0].memory
    u = uniform(mix(advance(stream)))
    if in_l2:
        return (chip.l2_latency if u < 0.5 else chip.l2_far_latency) + detail.l2_late
    if model == MemoryModel.QUEUE:
        return quantile(machine.quantiles, 0, u)
    if model == MemoryModel.FIXED:
        return chip.latency
    roll_window(state, now)
    base = measured_latency(machine, present_load(state, now), u)
    state.recent_bytes[now // BUCKET_CYCLES % WINDOW_BUCKETS] += detail.requests * detail.request_bytes
    return base


@inline
def wait_before_dram(machine, state, stream, time, detail, in_l2, is_write):
    """Returns the longest wait, or delay, of the requests of an access that does not pass stage 2, and arrives at a time."""
    chip = machine.chip[0]
    wait = longest_delay(chip, detail)
    for _ in range(detail.requests):
        begins = time
        if not in_l2:
            begins = pass_bus(chip, state, time, detail, is_write)
        elif chip.memory == MemoryModel.QUEUE:
            stream = advance(stream)
            begins = pass_crossbar(state, time, mix(stream), detail)
        wait = max(wait, begins - time)
    return wait


@inline
def count_latency(tally, latency):
    """Adds one load to the histogram of latencies: 1-cycle bins, then coarse ones, the last one open."""
    tally.latency_sum += latency
    index = latency
    if latency >= FINE_BINS:
        index = min(FINE_BINS + (latency - FINE_BINS) // COARSE_WIDTH, FINE_BINS + COARSE_BINS - 1)
    tally.histogram[at(index)] += 1
