"""Lanes: one number for each warp of a scheduler, all in one vector register.

A lane holds 16 bits. A time is a cycle counted from the start of the window, 0..1022, shifted left by RANK_BITS; NEVER stands
for a time that is not known or does not fit. A rank takes the lowest RANK_BITS bits. So the smallest of `either(times, ranks)`
says at once when the next warp can issue and which one that is.

Each function exists twice: as LLVM's generic vector instructions (lane_rules.py), which fit any processor, and in the words of
numpy, which is used with NUMBA_DISABLE_JIT=1 and says what the instructions do.
"""

import numpy as np

from warpsim.engine import lane_rules as rule
from warpsim.engine.constants import FARTHEST, LANE_BITS, MAX_SCHEDULERS, RANK_BITS, RANKS
from warpsim.jit.decorators import compiled_as, inline


@compiled_as(rule.load)
def load(lanes):
    """Returns a field of lanes as a vector."""
    return np.array(lanes)


@compiled_as(rule.store)
def store(lanes, vector):
    """Writes a vector to a field of lanes."""
    lanes[:] = vector


@compiled_as(rule.of_two(rule.of_llvm("umax")))
def later(a, b):
    """Returns the larger one of each lane."""
    return np.maximum(a, b)


@compiled_as(rule.of_two(rule.bitwise_or))
def either(a, b):
    """Returns the bits of both, such as a time with a rank."""
    return a | b


@compiled_as(rule.of_two(rule.bitwise_and))
def in_both(a, b):
    """Returns the bits that both have."""
    return a & b


@compiled_as(rule.of_two(rule.plus))
def plus(a, b):
    """Returns the sum of each lane."""
    return a + b


@compiled_as(rule.of_two(rule.minus))
def minus(a, b):
    """Returns the difference of each lane, which may begin again from the largest number."""
    return a - b


@compiled_as(rule.of_two(rule.of_llvm("usub.sat")))
def beyond(a, b):
    """Returns by how much each lane of `a` is larger than that of `b`; 0 where it is not."""
    return a - np.minimum(a, b)


@compiled_as(rule.filled)
def filled(number, vector):
    """Returns a vector like another one with a number in each lane."""
    return np.full(len(vector), number & 0xFFFF, np.uint16)


@compiled_as(rule.for_schedulers)
def for_schedulers(number):
    """Returns a vector with a number for each scheduler of an SM."""
    return np.full(MAX_SCHEDULERS, number, np.uint16)


@compiled_as(rule.everywhere)
def everywhere(least, vector):
    """Returns a vector like another one with the first lane of `least` in each lane."""
    return np.full(len(vector), least[0])


@compiled_as(rule.same)
def same(a, b):
    """Returns the mask of the lanes in which two vectors are equal."""
    return a == b


@compiled_as(rule.where)
def where(mask, then, otherwise):
    """Returns `then` in the lanes of a mask, and `otherwise` in the others."""
    return np.where(mask, then, otherwise)


@compiled_as(rule.foremost)
def foremost(vector):
    """Returns the smallest lane as the first lane of a vector.

    LLVM computes the minimum twice if it is needed both as a number and in each lane of a vector; so it stays a vector.
    """
    return np.array([vector.min()])


@compiled_as(rule.largest_everywhere)
def largest_everywhere(vector):
    """Returns the largest lane of a vector, in each lane."""
    return np.full(len(vector), vector.max())


@compiled_as(rule.spread)
def spread(number):
    """Returns a vector of 8 lanes: the 4 of a number, the lowest one first, and 4 that are 0."""
    return np.array([number >> LANE_BITS * i & 0xFFFF for i in range(4)] + [0] * 4, np.uint16)


@compiled_as(rule.sum_of_fours)
def sum_of_fours(vector):
    """Returns the sum of all groups of 4 lanes as a number of 4 lanes; none of these sums exceeds a lane."""
    return np.int64(vector.view(np.int64).sum())


@compiled_as(rule.number)
def number(vector):
    """Returns the first lane of a vector as a number."""
    return np.int64(vector[0])


@compiled_as(rule.lane_of)
def lane_of(mask):
    """Returns the first lane of a mask, which has one."""
    return np.int64(np.flatnonzero(mask)[0])


@compiled_as(rule.set_where("=="))
def lanes_equal(vector, number):
    """Returns the set of the lanes that are equal to a number."""
    return np.uint64(sum(1 << i for i, lane in enumerate(vector.tolist()) if lane == number))


@compiled_as(rule.set_where("<="))
def lanes_at_most(vector, number):
    """Returns the set of the lanes that are not larger than a number."""
    return np.uint64(sum(1 << i for i, lane in enumerate(vector.tolist()) if lane <= number))


@compiled_as(rule.replaced)
def replaced(vector, lane, number):
    """Returns the vector with one lane replaced."""
    vector = vector.copy()
    vector[lane] = number
    return vector


@compiled_as(rule.first_then_by_age)
def first_then_by_age(here, ages):
    """Returns ranks: first the one lane of a mask, then the others by age."""
    behind = np.uint16(1) if len(ages) <= RANKS else (ages < ages[here]).astype(np.uint16)
    return np.where(here, np.uint16(0), ages + behind)


@inline
def using(uses, part, used):
    """Returns the mask of the lanes whose next step uses a unit, or an access; `part` is UNIT_PART or ACCESS_PART."""
    return same(in_both(uses, filled(part, uses)), filled(used, uses))


@inline
def blocked(wakes, mask, time):
    """Returns the times of lanes, but of those of a mask at least `time`."""
    return where(mask, later(wakes, filled(time, wakes)), wakes)


@inline
def time_of(sm, cycle):
    """Returns a cycle as a time of a lane, no later than the farthest that a lane can say."""
    return min(max(cycle - sm.begin, 0), FARTHEST) << RANK_BITS
