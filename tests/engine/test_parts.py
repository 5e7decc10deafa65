"""Functions of the engine by themselves: sets, words, lanes, ranks, heaps, and the window of the present load."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config

from tests.support.strategies import examples
from warpsim.engine import bits, cycle_sets, flights, lanes, memory, speculation, tandem
from warpsim.engine import ports as ports_of
from warpsim.engine.constants import (
    BINS,
    BUCKET_CYCLES,
    FEW_CYCLES,
    FOREVER,
    LONGEST_WINDOW,
    MOST_PARTS,
    NEVER,
    UNKNOWN,
    WINDOW_BUCKETS,
)
from warpsim.engine.machine import CHIP, DETAIL
from warpsim.engine.state import ACCESS, ARRIVAL, CLOCK, SM, TALLY

SETS = st.integers(0, 2**64 - 1)


@examples(200)
@given(SETS)
def test_sets(members: int) -> None:
    listed = [i for i in range(64) if members >> i & 1]
    with np.errstate(over="ignore"):
        assert bits.size(np.uint64(members)) == len(listed)
        if listed:
            assert bits.first(np.uint64(members)) == listed[0]
            assert int(bits.rest(np.uint64(members))) == members - (1 << listed[0])


@pytest.mark.parametrize("member", [0, 31, 62, 63])
def test_sets_up_to_a_member(member: int) -> None:
    everybody = np.uint64(2 ** (member + 1) - 1)
    assert bits.size(everybody) == member + 1
    assert bits.size(np.uint64(2**member)) == 1 and bits.first(np.uint64(2**member)) == member


@pytest.mark.parametrize("count", [0, 1, 31, 63, 64])
def test_below(count: int) -> None:
    assert int(bits.below(count)) == 2**count - 1


@examples(100)
@given(st.integers(-(2**40), UNKNOWN), st.integers(0, 2**17 - 1), st.integers(0, 8))
def test_waits_as_words(cycle: int, cause: int, reason: int) -> None:
    wait = bits.wait_until(cycle, cause, reason)
    assert (bits.end_of(wait), bits.cause_of(wait), bits.reason_of(wait)) == (cycle, cause, reason)


class Field(NamedTuple):
    records: Any


def _record(count: int) -> Any:
    names = ("a", "b", "ages", *(f"out{i}" for i in range(14)))
    return np.zeros(1, np.dtype([*((name, "u2", count) for name in names), ("said", "i8", 5)])).view(np.recarray)


def _operate(field: Any, at: int, value: int) -> None:
    record = field.records[0]
    a, b = lanes.load(record.a), lanes.load(record.b)
    lanes.store(record.out0, lanes.later(a, b))
    lanes.store(record.out1, lanes.either(a, b))
    lanes.store(record.out2, lanes.later(a, lanes.filled(value, a)))
    lanes.store(record.out3, lanes.beyond(a, lanes.filled(value, a)))
    lanes.store(record.out4, lanes.minus(a, b))
    lanes.store(record.out5, lanes.replaced(a, at, value))
    ages = lanes.load(record.ages)
    lanes.store(record.out6, lanes.first_then_by_age(lanes.same(ages, lanes.filled(np.int64(record.ages[at]), ages)), ages))
    lanes.store(record.out7, lanes.in_both(a, b))
    lanes.store(record.out8, lanes.where(lanes.same(a, lanes.filled(value, a)), b, a))
    lanes.store(record.out9, lanes.plus(a, b))
    least = lanes.foremost(a)
    lanes.store(record.out10, lanes.everywhere(least, a))
    lanes.store(record.out11, lanes.filled(value, a))
    lanes.store(record.out12, lanes.beyond(a, b))
    lanes.store(record.out13, lanes.largest_everywhere(a))
    record.said[0] = lanes.number(least)
    record.said[1] = lanes.lane_of(lanes.same(a, lanes.everywhere(least, a)))
    record.said[2] = np.int64(lanes.lanes_equal(a, value))
    record.said[3] = np.int64(lanes.lanes_at_most(a, value))
    record.said[4] = lanes.number(lanes.largest_everywhere(a))


_operate_compiled = _operate if config.DISABLE_JIT else numba.njit(_operate)
VALUES = st.one_of(st.integers(0, 70), st.integers(0, 65534))


@pytest.mark.parametrize("count", [8, 16, 32, 64])
def test_lanes(count: int) -> None:
    @examples(60)
    @given(st.lists(VALUES, min_size=count, max_size=count), st.lists(VALUES, min_size=count, max_size=count), st.data())
    def check(first: list[int], second: list[int], data: Any) -> None:
        at, value = data.draw(st.integers(0, count - 1)), data.draw(st.one_of(st.sampled_from(first), VALUES))
        field = Field(_record(count))
        ages = data.draw(st.permutations(range(count)))
        field.records[0].a[:], field.records[0].b[:], field.records[0].ages[:] = first, second, ages
        _operate_compiled(field, at, value)
        expected = [
            [max(x, y) for x, y in zip(first, second, strict=True)],
            [x | y for x, y in zip(first, second, strict=True)],
            [max(x, value) for x in first],
            [max(x - value, 0) for x in first],
            [(x - y) % 65536 for x, y in zip(first, second, strict=True)],
            [value if i == at else x for i, x in enumerate(first)],
            [0 if i == at else age + 1 if count < 64 else age + (age < ages[at]) for i, age in enumerate(ages)],
            [x & y for x, y in zip(first, second, strict=True)],
            [y if x == value else x for x, y in zip(first, second, strict=True)],
            [(x + y) % 65536 for x, y in zip(first, second, strict=True)],
            [min(first)] * count,
            [value] * count,
            [max(x - y, 0) for x, y in zip(first, second, strict=True)],
            [max(first)] * count,
        ]
        assert [field.records[0][f"out{i}"].tolist() for i in range(14)] == expected
        said = [
            min(first),
            first.index(min(first)),
            sum(1 << i for i, x in enumerate(first) if x == value),
            sum(1 << i for i, x in enumerate(first) if x <= value),
            max(first),
        ]
        assert [n % 2**64 for n in field.records[0].said[: len(said)].tolist()] == said

    check()


def _spread(field: Any, number: int) -> None:
    lanes.store(field.records[0].a, lanes.spread(number))


_spread_compiled = _spread if config.DISABLE_JIT else numba.njit(_spread)


@pytest.mark.parametrize("number", [0, 1, 0x0004_0300_8001_FFFF, 2**63 - 1])
def test_numbers_as_lanes(number: int) -> None:
    field = Field(_record(8))
    _spread_compiled(field, number)
    assert field.records[0].a.tolist() == [number >> 16 * i & 0xFFFF for i in range(4)] + [0] * 4


class Ports(NamedTuple):
    records: Any


PORTS = np.dtype([("backlog", "u2", 8), ("port_last", "i8"), ("held_until", "i8")])


def _pass_ports(ports: Any, needs: int, cycle: int, begin: int) -> None:
    record = ports.records[0]
    free, has, held_until = ports_of.times_of_ports(record, begin)
    issued = lanes.filled((cycle - begin) << 6, has)
    more = lanes.beyond(lanes.spread(needs), lanes.filled(3 << 6, has))
    free, has, held_until = ports_of.times_after(free, has, held_until, lanes.spread(needs), more, issued)
    ports_of.keep_times_of_ports(record, begin, free, has, held_until)


_pass_ports_compiled = _pass_ports if config.DISABLE_JIT else numba.njit(_pass_ports)


def _pass_ports_in_numbers(record: Any, needs: list[int], cycle: int) -> None:
    """The rule of docs/model.md, in whole numbers."""
    before, pairs = int(record.port_last), list(zip((record.backlog >> 6).tolist(), [*needs, 0, 0, 0, 0], strict=True))
    asked = [old + new for old, new in pairs]
    has = max(max(cycle + 2, before + 1) + max(*needs, 3) - 3, before + max(asked) - 3)
    record.backlog = [max(old + before - has + new, min(new, 3)) << 6 for old, new in pairs]
    record.port_last, record.held_until = has, max(int(record.held_until), before)


@examples(200)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 4) | st.just(40), min_size=4, max_size=4), st.integers(1, 9)), min_size=1, max_size=12
    ),
    st.one_of(st.integers(0, 12), st.sampled_from([65535, 65536, 65537, 1 << 17])),
)
def test_register_ports_as_times_of_lanes(steps: list[tuple[list[int], int]], late: int) -> None:
    """The backlogs are those of the rule, but for what is over when the window begins."""
    ports = Ports(np.zeros(2, PORTS).view(np.recarray))
    cycle, begin = 1000, 1000
    for number, (needs, gap) in enumerate(steps):
        if number == 6:
            begin = cycle + late  # another window
            cycle = begin
        ahead, other = ports.records
        _pass_ports_compiled(ports, sum(reads << 16 * bank + 6 for bank, reads in enumerate(needs)), cycle, begin)
        _pass_ports_in_numbers(other, needs, cycle)
        assert ahead.port_last == other.port_last
        assert ahead.backlog.tolist() == other.backlog.tolist()
        assert max(ahead.held_until, cycle) == max(other.held_until, cycle)
        cycle = max(cycle + gap, int(other.held_until))


def _guess(values: Any, guesses: Any, out: Any) -> None:
    for i in range(len(values)):
        out[i] = speculation.speculated(values[i], guesses[i])


def test_a_wrong_guess_changes_nothing() -> None:
    values, guesses = np.array([0, 5, 5, -1, 2**62]), np.array([0, 5, 4, 1, 7])
    out = np.full(5, 99)
    (_guess if config.DISABLE_JIT else numba.njit(_guess))(values, guesses, out)
    assert out.tolist() == values.tolist()


def _enter(cycles: Any, begin: int, count: int) -> None:
    cycle_sets.enter_few_cycles(cycles[0], begin, count)


def _few(cycles: Any, begin: int, count: int) -> int:
    return cycle_sets.few_cycles(cycle_sets.word_near(cycles[0], begin), begin, count)


_enter_compiled, _few_compiled = (_enter, _few) if config.DISABLE_JIT else (numba.njit(_enter), numba.njit(_few))


@examples(200)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, FEW_CYCLES)), max_size=5),
    st.integers(0, 200),
    st.integers(0, FEW_CYCLES),
)
def test_a_few_cycles_of_a_set(entered: list[tuple[int, int]], begin: int, count: int) -> None:
    """They are entered and found wherever they lie in the words, and no others are."""
    cycles, members = np.zeros((1, 5), np.uint64), {cycle for first, n in entered for cycle in range(first, first + n)}
    for first, n in entered:
        _enter_compiled(cycles, first, n)
    assert {i for i in range(320) if int(cycles[0, i // 64]) >> i % 64 & 1} == members
    found = int(_few_compiled(cycles, begin, count))
    assert {begin + i for i in range(64) if found >> i & 1} == members & set(range(begin, begin + count))


def test_times_of_lanes() -> None:
    sm = np.zeros(1, SM).view(np.recarray)[0]
    sm.begin = 100
    for cycle, time in ((99, 0), (100, 0), (101, 1), (100 + lanes.FARTHEST, lanes.FARTHEST), (10**6, lanes.FARTHEST)):
        assert lanes.time_of(sm, cycle) >> 6 == time
    assert lanes.FARTHEST << 6 < NEVER < 1 << 16


@examples(100)
@given(st.lists(st.one_of(st.integers(0, 50), st.none()), max_size=40))
def test_heaps_of_return_times(steps: list[int | None]) -> None:
    """Pushes and pops in any order, against Python's heap."""
    heap, sizes, expected = np.zeros(41, np.int64), np.zeros(2, np.int64), []
    for step in steps:
        if step is not None:
            flights._push(heap, sizes, 1, step)
            heapq.heappush(expected, step)
        elif expected:
            heapq.heappop(expected)
            flights._pop(heap, sizes, 1)
        assert sizes.tolist() == [0, len(expected)]
        assert not expected or heap[0] == expected[0]
        assert sorted(heap[: len(expected)].tolist()) == sorted(expected)


class Between(NamedTuple):
    clock: Any
    accesses: Any
    arrivals: Any
    far_arrivals: Any
    free_accesses: Any
    taken: Any
    due: Any
    in_part: Any


@examples(100)
@given(st.lists(st.tuples(st.floats(0, 5000) | st.floats(0, 1e6), st.integers(1, LONGEST_WINDOW)), max_size=60))
def test_requests_are_due_by_arrival_then_by_entry(steps: list[tuple[float, int]]) -> None:
    """Enters requests, of three two at one time, some time after the present cycle, and serves up to a later cycle each time."""
    room = 3 * len(steps) + 1
    state = Between(
        *(np.zeros(n, dtype).view(np.recarray) for n, dtype in ((1, CLOCK), (room, ACCESS), (room, ARRIVAL), (room, ARRIVAL))),
        np.arange(room, dtype=np.int32),
        *(np.zeros(room, ARRIVAL).view(np.recarray) for _ in range(2)),
        np.zeros(MOST_PARTS, np.int32),
    )
    state.clock.next_arrival = FOREVER
    now, waiting, entered = 0, [], 0
    for distance, cycles in steps:
        for later in (0.0, 0.3, 0.0):
            time = float(now + round(distance, 1 - int(distance) % 2)) + later
            place = tandem.open_access(state, np.int64(0), np.int64(0), np.int64(now), 0.0, 0.0, np.int64(1))
            tandem.send(state, place, time, np.int64(entered))
            heapq.heappush(waiting, (time, entered))
            entered += 1
        for arrival in state.due[: tandem.take_due(state, np.int64(now), np.int64(now + cycles))]:
            tandem.close_access(state, np.int64(arrival.access))
            assert (arrival.time, arrival.server) == heapq.heappop(waiting)
        now += cycles
        assert not waiting or waiting[0][0] >= now
        clock = state.clock[0]
        assert clock.near + clock.far == clock.accesses == len(waiting)
        assert (state.arrivals[: clock.near].time < clock.far_from).all()
        assert (state.far_arrivals[: clock.far].time >= clock.far_from).all()
        soonest = int(waiting[0][0]) if waiting else FOREVER
        assert clock.next_arrival == soonest or (clock.near == 0 and now <= clock.next_arrival < soonest < FOREVER)
        assert not state.in_part.any()


@pytest.mark.parametrize("cycles", [1, 7, LONGEST_WINDOW])
@pytest.mark.parametrize("requests", [1, 2, 511, MOST_PARTS, 2 * MOST_PARTS])
def test_the_parts_of_a_window_are_about_as_many_as_the_requests(cycles: int, requests: int) -> None:
    parts = tandem.parts_of_cycle(np.int64(cycles), np.int64(requests)) * cycles
    assert min(requests, MOST_PARTS // 2) <= parts <= MOST_PARTS
    assert parts < 2 * requests or parts == cycles


class Loaded(NamedTuple):
    recent_bytes: Any


@pytest.mark.parametrize("pause", range(1, 2 * WINDOW_BUCKETS + 2))
def test_the_present_load_after_a_pause(pause: int) -> None:
    """Bytes in every bucket, then a pause of some buckets: the window holds what is at most 7 buckets old."""
    state = Loaded(np.zeros(WINDOW_BUCKETS + 1))
    held = dict.fromkeys(range(20), 0.0)
    for bucket in range(20):
        memory.roll_window(state, np.int64(bucket * BUCKET_CYCLES))
        state.recent_bytes[bucket % WINDOW_BUCKETS] += 100.0 + bucket
        held[bucket] = 100.0 + bucket
    now = (19 + pause) * BUCKET_CYCLES + 5
    memory.roll_window(state, np.int64(now))
    expected = sum(n for bucket, n in held.items() if bucket > 19 + pause - WINDOW_BUCKETS)
    assert memory.present_load(state, np.int64(now)) == pytest.approx(expected / (7 * BUCKET_CYCLES + 6))
    assert state.recent_bytes[WINDOW_BUCKETS] == 19 + pause


def test_extra_transactions_delay_an_access() -> None:
    """Request j of n is delayed by j * extra / (n - 1) transaction latencies (docs/model.md, section 5), the last one longest."""
    chip = np.zeros(1, CHIP).view(np.recarray)[0]
    detail = np.zeros(1, DETAIL).view(np.recarray)[0]
    chip.transaction_latency = 2.5
    for requests, extra in ((1, 0), (1, 3), (4, 0), (4, 1), (4, 3), (5, 8)):
        detail.requests, detail.extra = requests, extra
        delays = [request * extra / (requests - 1) * 2.5 for request in range(requests)] if requests > 1 else [0.0]
        assert memory.longest_delay(chip, detail) == max(delays)


class Measured(NamedTuple):
    loads: Any
    quantiles: Any


def test_measured_latency_lies_between_the_two_rows_around_the_load() -> None:
    """At the rows themselves, between each pair of them, and beyond both ends."""
    loads = np.array([0.0, 1.0, 3.0, 4.5, 8.0])
    rows = np.sort(np.random.default_rng(1).uniform(200, 900, (5, BINS + 1)), axis=1)
    machine = Measured(loads, rows)
    for load in (-1.0, 0.0, 0.2, 1.0, 2.0, 3.0, 3.1, 4.4, 4.5, 7.9, 8.0, 9.0):
        for u in (0.0, 0.25 / BINS, 0.5, 0.9999, 1.0 - 2.0**-53):
            at_rows = [np.interp(u * BINS, np.arange(BINS + 1), row) for row in rows]
            assert memory.measured_latency(machine, load, u) == pytest.approx(np.interp(load, loads, at_rows), rel=1e-12)


def test_bins_of_latencies() -> None:
    """1 cycle below 4096, 64 cycles from there on, the last one open (docs/model.md, section 7)."""
    tally = np.zeros(1, TALLY).view(np.recarray)[0]
    for latency, place in ((0, 0), (4095, 4095), (4096, 4096), (4159, 4096), (4160, 4097), (266176, 8191), (10**7, 8191)):
        tally.histogram[:] = 0
        memory.count_latency(tally, np.int64(latency))
        assert np.flatnonzero(tally.histogram).tolist() == [place]
