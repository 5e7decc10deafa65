"""Several threads run one chip: each has a part of its SMs, and counters of its own.

Thread 0 leads. In each window it calls the others to run their SMs, and, once it has served the accesses, to note when these are
back. No number depends on the threads: an SM is run and noted by itself, and counters are sums of whole numbers.
"""

import platform

from numba.core import config, types, typing

from warpsim.engine.bits import at
from warpsim.engine.constants import WORDS_OF_THREAD
from warpsim.engine.state import State
from warpsim.jit.decorators import compiled_as, inline

_CALLED, _DONE = 0, WORDS_OF_THREAD // 2  # of `State.calls`: numbers of the latest call, and of the latest one that is done
_NO_MORE = -1  # in place of a number: there are no more calls
_PATIENCE = 1000  # looks at another thread's word before others may use the processor
_LEAST_SMS = 16  # of a thread: with fewer, threads may wait for each other for longer than they save
_OWN = ("clock", "tally", "counts", "parts", "stalls", "caused", "scratch", "calls")


def threads_for(sms: int, threads: int) -> int:
    """Returns how many of so many threads run a chip. Without compilation it is one, since Python runs one at a time."""
    return 1 if config.DISABLE_JIT else max(1, min(threads, sms // _LEAST_SMS))


def share(state: State, thread: int) -> State:
    """Returns the state as a thread sees it: the same arrays, but of clock, counters and scratch only its own part.

    The SMs in its clock are those that the thread has run, of thread 0 those of the latest call.
    """
    threads = len(state.clock)
    sizes = {name: len(getattr(state, name)) // threads for name in _OWN}
    return state._replace(**{name: getattr(state, name)[thread * n : (thread + 1) * n] for name, n in sizes.items()})


def prepare(state: State, threads: int) -> None:
    """Prepares a call of `run` by so many threads: all that the state has parts for, or one, which then runs all SMs."""
    state.calls[:] = 0
    state.clock[0].threads = threads
    state.clock[0].last_sm = (state.clock[1].first_sm if threads > 1 else len(state.sms)) - 1


def release(state: State) -> None:
    """Has all threads but thread 0 return from `run`."""
    state.calls[_CALLED::WORDS_OF_THREAD] = _NO_MORE


def give_up(part: State) -> None:
    """Has thread 0 no longer wait for a thread whose share is given, and which has failed."""
    part.calls[_DONE] = _NO_MORE


def _pointer(context, builder, array_type, array, place):
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [place])


def _observing(words, place):
    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_pointer(context, builder, signature.args[0], *arguments), "acquire", 8)

    return types.int64(words, types.int64), generate


def _publishing(words, place, number):
    def generate(context, builder, signature, arguments):
        words, place, number = arguments
        builder.store_atomic(number, _pointer(context, builder, signature.args[0], words, place), "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), generate


@compiled_as(_observing)
def _observed(words, place):
    """Returns a word of another thread; what that one wrote before can be read from then on."""
    return words[place]


@compiled_as(_publishing)
def _publish(words, place, number):
    """Writes a word for another thread, and before it all that was written so far."""
    words[place] = number


# Lets other threads use the processor
_give_way = types.ExternalFunction(
    "SwitchToThread" if platform.system() == "Windows" else "sched_yield", typing.signature(types.int32)
)


@inline
def _await(words, place, former):
    """Waits until another thread has written a word, which had a former number; returns the new one."""
    looks, found = 0, _observed(words, place)
    while found == former:
        looks += 1
        if looks > _PATIENCE:
            _give_way()
        found = _observed(words, place)
    return found


@inline
def call_others(state, task):
    """Thread 0 calls the others for a task, in the window of its clock."""
    clock, number = state.clock[0], state.calls[_CALLED] + 1
    state.calls[_CALLED] = number
    for thread in range(1, clock.threads):
        other = state.clock[at(thread)]
        other.begin, other.end, other.next_block, other.task = clock.begin, clock.end, clock.next_block, task
        _publish(state.calls, thread * WORDS_OF_THREAD + _CALLED, number)


@inline
def await_call(state):
    """Another thread waits until it is called. False: it is not called any more."""
    return _await(state.calls, _CALLED, state.calls[_DONE]) != _NO_MORE


@inline
def report(state):
    """Another thread has done what it was called for."""
    _publish(state.calls, _DONE, state.calls[_CALLED])


@inline
def gather(state):
    """Thread 0 waits for the others, and takes over the accesses that go out, in order of SM, and what else it has to know."""
    clock, number = state.clock[0], state.calls[_CALLED]
    for thread in range(1, clock.threads):
        _await(state.calls, thread * WORDS_OF_THREAD + _DONE, number - 1)
        other = state.clock[at(thread)]
        for place in range(other.first_outgoing, other.outgoing):
            state.outgoing[at(clock.outgoing)] = state.outgoing[at(place)]
            clock.outgoing += 1
        other.outgoing = other.first_outgoing
        clock.last_retire = max(clock.last_retire, other.last_retire)
        if other.stuck_cycle < clock.stuck_cycle:
            clock.stuck_cycle, clock.stuck_sm, clock.stuck_seat = other.stuck_cycle, other.stuck_sm, other.stuck_seat


@inline
def add_up(state):
    """Adds the counters of the other threads to those of thread 0."""
    threads, whole = len(state.clock), state.tally[0]
    for thread in range(1, threads):
        part = state.tally[at(thread)]
        whole.pair_busy, whole.held = whole.pair_busy + part.pair_busy, whole.held + part.held
        whole.retired, whole.lifetime_sum = whole.retired + part.retired, whole.lifetime_sum + part.lifetime_sum
        whole.latency_sum += part.latency_sum
        for latency in range(len(part.histogram)):
            whole.histogram[at(latency)] += part.histogram[at(latency)]
    places = len(state.counts) // threads
    for place in range(places, len(state.counts)):
        counted, part = state.counts[at(place % places)], state.parts[at(place % places)]
        also, of_it = state.counts[at(place)], state.parts[at(place)]
        counted.issued, counted.waited = counted.issued + also.issued, counted.waited + also.waited
        part.second_issues, part.throttled = part.second_issues + of_it.second_issues, part.throttled + of_it.throttled
        part.held, part.unfetched = part.held + of_it.held, part.unfetched + of_it.unfetched
    add_parts(state.stalls, threads)
    add_parts(state.caused, threads)


@inline
def add_parts(counters, threads):
    """Adds the parts of an array, one for each thread, to the first one."""
    size = len(counters) // threads
    for place in range(size, len(counters)):
        counters[at(place % size)] += counters[at(place)]
