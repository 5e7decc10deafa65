"""The memory system that all SMs share: when a load returns. docs/model.md, section 5."""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.jit import inline
from warpsim.engine.rng import advance, choose, choose_low, mix, skip, uniform
from warpsim.engine.state import (
    BINS,
    BUCKET_CYCLES,
    COARSE_BINS,
    COARSE_WIDTH,
    FINE_BINS,
    WINDOW_BUCKETS,
    MemoryModel,
)

_FIXED, _MEASURED, _QUEUE = int(MemoryModel.FIXED), int(MemoryModel.MEASURED), int(MemoryModel.QUEUE)


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
def hits_l1(stream, detail):
    """Returns whether an access hits L1; `stream` is that of the warp before the access."""
    return detail.l1_hit > 0.0 and uniform(mix(skip(stream, 2))) < detail.l1_hit


@inline
def after_access(stream, detail):
    """Returns a warp's stream after an access."""
    return skip(stream, 1 + (detail.l2_hit > 0.0) + detail.requests)


@inline
def latency_in_l1(machine, detail):
    """Returns after how many cycles the data of an access that hits L1 is back."""
    chip = machine.chip[0]
    added = 0.0
    for request in range(detail.requests):
        added = max(added, delay_of(chip, detail, request))
    return whole((detail.drain if detail.drain >= 0.0 else chip.l1_latency) + added)


@inline
def delay_of(chip, detail, request):
    """Returns the delay of issuing one of the requests of an access, in cycles."""
    if detail.extra == 0 or detail.requests == 1:
        return 0.0
    return np.float64(request * detail.extra) / np.float64(detail.requests - 1) * chip.transaction_latency


@inline
def whole(latency):
    """Returns a latency in whole cycles."""
    return np.int64(np.floor(latency + 0.5))


@inline
def latency(machine, state, stream, now, detail):
    """Serves an access that issued at cycle `now` and does not hit L1; returns after how many cycles its data is back."""
    chip = machine.chip[0]
    model = chip.memory
    stream = advance(stream)
    u = uniform(mix(stream))
    in_l2 = False
    if detail.l2_hit > 0.0:
        stream = advance(stream)
        in_l2 = uniform(mix(stream)) < detail.l2_hit

    if in_l2:
        base = chip.l2_latency
    elif model == _QUEUE:
        base = quantile(machine.quantiles, 0, u)
    elif model == _FIXED:
        base = chip.latency
    elif model == _MEASURED:
        roll_window(state, now)
        base = measured_latency(machine, present_load(state, now), u)
        state.window[now // BUCKET_CYCLES % WINDOW_BUCKETS] += detail.requests * detail.request_bytes
    else:
        raise ValueError("unknown memory model")
    if detail.drain >= 0.0:
        base = detail.drain

    if not in_l2:
        state.tally[0].moved_bytes += detail.requests * detail.request_bytes
    added = 0.0
    for request in range(detail.requests):
        wait = 0.0
        if model == _QUEUE:
            stream = advance(stream)
            wait = two_stages(chip, state, now, mix(stream), detail.request_bytes, 1 if in_l2 else 2)
        if not in_l2:
            wait = max(wait, sustained(state, now, detail.request_bytes / chip.peak_rate))
        added = max(added, max(wait, delay_of(chip, detail, request)))
    return whole(base + added)


@inline
def count_latency(tally, latency):
    """Adds one load to the histogram of latencies: 1-cycle bins, then coarse ones, the last one open."""
    tally.latency_sum += latency
    index = latency
    if latency >= FINE_BINS:
        index = min(FINE_BINS + (latency - FINE_BINS) // COARSE_WIDTH, FINE_BINS + COARSE_BINS - 1)
    tally.histogram[at(index)] += 1
