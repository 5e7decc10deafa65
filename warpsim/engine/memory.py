"""The memory system that all SMs share: when a load returns. docs/model.md, section 5."""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.jit import inline
from warpsim.engine.rng import choose, choose_low, mix, skip, step, uniform
from warpsim.engine.state import BINS, BUCKET_CYCLES, COARSE_BINS, COARSE_WIDTH, FINE_BINS, WINDOW_BUCKETS, Kind, MemoryModel

_FIXED, _MEASURED, _QUEUE = int(MemoryModel.FIXED), int(MemoryModel.MEASURED), int(MemoryModel.QUEUE)
_LOAD = int(Kind.LOAD)
_MISS, _L2_HIT, _L1_HIT = 0, 1, 2


@inline
def quantile(table, row, u):
    """The u-quantile of a row: linear within a bin of equal probability."""
    x = u * BINS
    i = np.int64(x)
    low = table[at(row), at(i)]
    return low + (x - i) * (table[at(row), at(i + 1)] - low)


@inline
def sustained(state, now, service):
    """The wait for the one server of the sustained rate, which all models share, and its occupation."""
    start = max(state.servers[2, 0], np.float64(now))
    state.servers[2, 0] = start + service
    return start - now


@inline
def two_stages(chip, state, now, word, request_bytes, stages):
    """The wait in the crossbar and, with two stages, in a DRAM channel; servers are chosen by a random word."""
    server = at(choose(word, chip.crossbar_servers))
    start = max(state.servers[0, server], np.float64(now))
    wait = start - now
    state.servers[0, server] = start + request_bytes / chip.crossbar_rate
    if stages == 2:
        arrival = now + wait
        server = at(choose_low(word, chip.dram_servers))
        start = max(state.servers[1, server], arrival)
        wait = wait + (start - arrival)
        state.servers[1, server] = start + request_bytes / chip.dram_rate
    return wait


@inline
def roll_window(state, now):
    """Empties the buckets of the window that have passed since its last use; the number of the newest stands at its end."""
    bucket, last = now // BUCKET_CYCLES, np.int64(state.window[WINDOW_BUCKETS])
    for passed in range(last + 1, min(bucket, last + WINDOW_BUCKETS) + 1):
        state.window[passed % WINDOW_BUCKETS] = 0.0
    state.window[WINDOW_BUCKETS] = np.float64(bucket)


@inline
def present_load(state, now):
    """Bytes per cycle requested in the sliding window that ends now."""
    total = 0.0
    for i in range(WINDOW_BUCKETS):
        total += state.window[i]
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
def access(machine, state, warp, now, ins):
    """Sends one access of a warp to memory at cycle `now`; returns the cycle at which its data is back."""
    chip = machine.chip[0]
    model = chip.memory
    stream = step(warp.stream)
    u = uniform(mix(stream))
    level = _MISS
    if ins.l2_hit > 0.0:
        stream = step(stream)
        hit = uniform(mix(stream))
        if hit < ins.l1_hit:
            level = _L1_HIT
        elif hit < ins.l2_hit:
            level = _L2_HIT

    if level == _L1_HIT:
        base = chip.l1_latency
    elif level == _L2_HIT:
        base = chip.l2_latency
    elif model == _QUEUE:
        base = quantile(machine.quantiles, 0, u)
    elif model == _FIXED:
        base = chip.latency
    elif model == _MEASURED:
        roll_window(state, now)
        base = measured_latency(machine, present_load(state, now), u)
        state.window[now // BUCKET_CYCLES % WINDOW_BUCKETS] += ins.requests * ins.request_bytes
    else:
        raise ValueError("unknown memory model")

    if level == _MISS:
        state.tally[0].moved_bytes += ins.requests * ins.request_bytes
    added = 0.0
    for request in range(ins.requests):
        wait = 0.0
        if model == _QUEUE:
            stream = step(stream)
            if level != _L1_HIT:
                wait = two_stages(chip, state, now, mix(stream), ins.request_bytes, 2 if level == _MISS else 1)
        if level == _MISS:
            wait = max(wait, sustained(state, now, ins.request_bytes / chip.peak_rate))
        added = max(added, wait)
        if ins.extra > 0 and ins.requests > 1:
            delay = np.float64(request * ins.extra) / np.float64(ins.requests - 1) * chip.transaction_latency
            added = max(added, delay)
    if model != _QUEUE:
        stream = skip(stream, ins.requests)
    warp.stream = stream
    return now + np.int64(np.floor(base + added + 0.5))


@inline
def row_of(sm, kind):
    """The place in `State.flights` of the heap of an SM's loads, or of its stores."""
    return at(2 * sm.index + kind - _LOAD)


@inline
def soonest_landing(state, sm, kind):
    """When the first of an SM's loads, or of its stores, that are in flight returns."""
    return state.flights[row_of(sm, kind), 0]


@inline
def admits(machine, state, sm, kind, now):
    """Whether the SM's limit of loads, or of stores, in flight leaves room for one more."""
    limit = machine.chip[0].per_sm[at(kind - _LOAD)]
    if limit == 0:
        return True
    heap = state.flights[row_of(sm, kind)]
    while sm.in_flight[at(kind - _LOAD)] > 0 and heap[0] <= now:
        _pop(heap, sm.in_flight, at(kind - _LOAD))
    return sm.in_flight[at(kind - _LOAD)] < limit


@inline
def note_flight(machine, state, sm, kind, returns):
    """Counts a load, or a store, of an SM as in flight until it returns."""
    if machine.chip[0].per_sm[at(kind - _LOAD)] > 0:
        _push(state.flights[row_of(sm, kind)], sm.in_flight, at(kind - _LOAD), returns)


@inline
def _push(heap, sizes, which, value):
    i = sizes[which]
    sizes[which] += 1
    heap[i] = value
    while i > 0 and heap[(i - 1) // 2] > heap[i]:
        heap[(i - 1) // 2], heap[i] = heap[i], heap[(i - 1) // 2]
        i = (i - 1) // 2


@inline
def _pop(heap, sizes, which):
    sizes[which] -= 1
    n = sizes[which]
    heap[0] = heap[n]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[i] <= heap[child]:
            break
        heap[child], heap[i] = heap[i], heap[child]
        i = child


@inline
def count_latency(tally, latency):
    """Adds one load to the histogram of latencies: 1-cycle bins, then coarse ones, the last one open."""
    tally.latency_sum += latency
    index = latency
    if latency >= FINE_BINS:
        index = min(FINE_BINS + (latency - FINE_BINS) // COARSE_WIDTH, FINE_BINS + COARSE_BINS - 1)
    tally.histogram[at(index)] += 1
