"""Lanes: one number for each warp of a scheduler, all in one vector register, as a Numba type.

A lane holds 16 bits. A time is a cycle counted from the begin of the window, 0..1022, shifted left by RANK_BITS; NEVER stands
for a time that is not known or does not fit. A rank takes the lowest RANK_BITS bits. So the smallest of `either(times, ranks)`
says at once when the next warp can issue and which one that is.

Each function exists twice: as LLVM's generic vector instructions, which fit any processor, and in the words of numpy, which is
used with NUMBA_DISABLE_JIT=1 and says what the instructions do.
"""

import platform

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config, types
from numba.extending import intrinsic, models, register_model

from warpsim.engine.jit import inline
from warpsim.engine.state import LANE_BITS, MAX_SCHEDULERS, NEVER, RANK_BITS

RANKS = (1 << RANK_BITS) - 1  # a mask, and the largest rank
FARTHEST = (NEVER >> RANK_BITS) - 1  # the largest cycle that a time can say

# One instruction of x86 finds the minimum of 8 lanes.
_HAS_PHMINPOSUW = platform.machine() in ("x86_64", "AMD64") and get_host_cpu_features().get("sse4.1", False)

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)


class Lanes(types.Type):
    """The Numba type of a vector of `count` lanes."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"Lanes({count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, ir.VectorType(_I16, lanes.count))


class Mask(types.Type):
    """The Numba type of a set of the lanes of a vector, as a vector of truth values."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"Mask({count})")


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager, mask):
        super().__init__(manager, mask, ir.VectorType(ir.IntType(1), mask.count))


def _compiled_as(rule):
    """Replaces a plain function by an intrinsic, unless nothing is compiled.

    `rule` takes the Numba types of the arguments, and returns the signature and the code generator.
    """

    def replace(plain):
        if config.DISABLE_JIT:
            return plain

        # numba reads the names of the parameters
        names = ", ".join(plain.__code__.co_varnames[: plain.__code__.co_argcount])
        scope = {"rule": rule}
        exec(f"def {plain.__name__}(context, {names}): return rule({names})", scope)
        return intrinsic(scope[plain.__name__])

    return replace


def _filled(builder, value, count):
    vector = ir.VectorType(_I16, count)
    narrow = builder.trunc(value, _I16) if value.type != _I16 else value
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), narrow, _I32(0))
    return builder.shuffle_vector(
        one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_I32, count), [0] * count)
    )


def _called(builder, name, result, *arguments):
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(result, [argument.type for argument in arguments]), name
    )
    return builder.call(function, arguments)


def _as_set(builder, mask):
    """A mask with one bit a lane as an integer."""
    count = mask.type.count
    return builder.zext(builder.bitcast(mask, ir.IntType(count)), _I64) if count < 64 else builder.bitcast(mask, _I64)


def _lane_numbers(count):
    return ir.Constant(ir.VectorType(_I16, count), list(range(count)))


def _pointer(context, builder, array_type, array):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(data, ir.VectorType(_I16, array_type.shape[-1]).as_pointer())


def _load(array):
    def generate(context, builder, signature, arguments):
        value = builder.load(_pointer(context, builder, signature.args[0], arguments[0]))
        value.align = 2
        return value

    return Lanes(array.shape[-1])(array), generate


def _store(array, vector):
    def generate(context, builder, signature, arguments):
        store = builder.store(arguments[1], _pointer(context, builder, signature.args[0], arguments[0]))
        store.align = 2
        return context.get_dummy_value()

    return types.void(array, vector), generate


def _of_two(operation):
    """The rule of an operation on two vectors."""

    def rule(a, b):
        def generate(context, builder, signature, arguments):
            return operation(builder, *arguments)

        return a(a, b), generate

    return rule


def _with_number(operation):
    """The rule of an operation on a vector and one number for all lanes."""

    def rule(vector, number):
        def generate(context, builder, signature, arguments):
            return operation(builder, arguments[0], _filled(builder, arguments[1], vector.count))

        return vector(vector, types.int64), generate

    return rule


def _vector_call(name):
    return lambda builder, a, b: _called(builder, f"llvm.{name}.v{a.type.count}i16", a.type, a, b)


@_compiled_as(_load)
def load(lanes):
    """Returns a field of lanes as a vector."""
    return np.array(lanes)


@_compiled_as(_store)
def store(lanes, vector):
    """Writes a vector to a field of lanes."""
    lanes[:] = vector


@_compiled_as(_of_two(_vector_call("umax")))
def later(a, b):
    """Returns the larger one of each lane."""
    return np.maximum(a, b)


@_compiled_as(_of_two(lambda builder, a, b: builder.or_(a, b)))
def either(a, b):
    """Returns the bits of both, such as a time with a rank."""
    return a | b


@_compiled_as(_of_two(lambda builder, a, b: builder.add(a, b)))
def plus(a, b):
    """Returns the sum of each lane."""
    return a + b


@_compiled_as(_of_two(_vector_call("usub.sat")))
def beyond(a, b):
    """Returns by how much each lane of `a` is larger than that of `b`; 0 where it is not."""
    return a - np.minimum(a, b)


@_compiled_as(_with_number(_vector_call("umax")))
def not_before(vector, time):
    """Returns the lanes, but at least `time`."""
    return np.maximum(vector, np.uint16(time))


@_compiled_as(_with_number(_vector_call("usub.sat")))
def earlier_by(vector, time):
    """Returns the lanes less `time`, but at least 0."""
    return vector - np.minimum(vector, np.uint16(time))


def _masked(mask):
    """The rule of a vector of which some bits remain in each lane."""

    def rule(vector):
        def generate(context, builder, signature, arguments):
            return builder.and_(arguments[0], _filled(builder, _I16(mask), vector.count))

        return vector(vector), generate

    return rule


@_compiled_as(_masked(NEVER))
def time_part(keys):
    """Returns the times of keys, without their ranks."""
    return keys & np.uint16(NEVER)


def _shifted(shift):
    """The rule of a vector with all lanes shifted by RANK_BITS."""

    def rule(vector):
        def generate(context, builder, signature, arguments):
            return shift(builder, arguments[0], _filled(builder, _I16(RANK_BITS), vector.count))

        return vector(vector), generate

    return rule


@_compiled_as(_shifted(lambda builder, vector, by: builder.shl(vector, by)))
def as_times(cycles):
    """Returns cycles of the window as times."""
    return cycles << RANK_BITS


@_compiled_as(_shifted(lambda builder, vector, by: builder.lshr(vector, by)))
def as_cycles(times):
    """Returns times as cycles of the window."""
    return times >> RANK_BITS


def _after(ranks, rank, back):
    def generate(context, builder, signature, arguments):
        ranks, rank, back = arguments
        return builder.and_(builder.sub(builder.sub(ranks, rank), back), _filled(builder, _I16(RANKS), ranks.type.count))

    return ranks(ranks, rank, back), generate


@_compiled_as(_after)
def ranks_after(ranks, rank, back):
    """Returns the ranks of the circular order that begins with a rank, or with the next one if `back` is 1."""
    return (ranks - rank - back) & np.uint16(RANKS)


def _filled_like(number, vector):
    def generate(context, builder, signature, arguments):
        return _filled(builder, arguments[0], vector.count)

    return vector(types.int64, vector), generate


@_compiled_as(_filled_like)
def filled(number, vector):
    """Returns a vector like another one with a number in each lane."""
    return np.full(len(vector), number & 0xFFFF, np.uint16)


def _for_schedulers(number):
    def generate(context, builder, signature, arguments):
        return _filled(builder, arguments[0], MAX_SCHEDULERS)

    return Lanes(MAX_SCHEDULERS)(types.int64), generate


@_compiled_as(_for_schedulers)
def for_schedulers(number):
    """Returns a vector with a number for each scheduler of an SM."""
    return np.full(MAX_SCHEDULERS, number, np.uint16)


def _everywhere(least, vector):
    def generate(context, builder, signature, arguments):
        undefined = ir.Constant(arguments[0].type, ir.Undefined)
        return builder.shuffle_vector(
            arguments[0], undefined, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
        )

    return vector(least, vector), generate


@_compiled_as(_everywhere)
def everywhere(least, vector):
    """Returns a vector like another one with the first lane of `least` in each lane."""
    return np.full(len(vector), least[0])


def _same(a, b):
    def generate(context, builder, signature, arguments):
        return builder.icmp_unsigned("==", *arguments)

    return Mask(a.count)(a, b), generate


@_compiled_as(_same)
def same(a, b):
    """Returns the mask of the lanes in which two vectors are equal."""
    return a == b


def _where(mask, then, otherwise):
    def generate(context, builder, signature, arguments):
        return builder.select(*arguments)

    return then(mask, then, otherwise), generate


@_compiled_as(_where)
def where(mask, then, otherwise):
    """Returns `then` in the lanes of a mask, and `otherwise` in the others."""
    return np.where(mask, then, otherwise)


def _foremost(vector):
    def generate(context, builder, signature, arguments):
        best, undefined = arguments[0], ir.Undefined
        if not _HAS_PHMINPOSUW:
            best = _filled(builder, _called(builder, f"llvm.vector.reduce.umin.v{vector.count}i16", _I16, best), 8)
            return best
        while best.type.count > 8:
            half = best.type.count // 2
            halves = [
                builder.shuffle_vector(
                    best,
                    ir.Constant(best.type, undefined),
                    ir.Constant(ir.VectorType(_I32, half), list(range(begin, begin + half))),
                )
                for begin in (0, half)
            ]
            best = _vector_call("umin")(builder, *halves)
        return _called(builder, "llvm.x86.sse41.phminposuw", best.type, best)

    return Lanes(8)(vector), generate


@_compiled_as(_foremost)
def foremost(vector):
    """Returns the smallest lane as the first lane of a vector.

    LLVM computes the minimum twice if it is needed both as a number and in each lane of a vector; so it stays a vector.
    """
    return np.array([vector.min()])


def _largest_everywhere(vector):
    def generate(context, builder, signature, arguments):
        if not _HAS_PHMINPOSUW or vector.count != 8:
            largest = _called(builder, f"llvm.vector.reduce.umax.v{vector.count}i16", _I16, arguments[0])
            return _filled(builder, largest, vector.count)
        least = _called(builder, "llvm.x86.sse41.phminposuw", arguments[0].type, builder.not_(arguments[0]))
        undefined = ir.Constant(least.type, ir.Undefined)
        return builder.not_(builder.shuffle_vector(least, undefined, ir.Constant(ir.VectorType(_I32, 8), [0] * 8)))

    return vector(vector), generate


@_compiled_as(_largest_everywhere)
def largest_everywhere(vector):
    """Returns the largest lane of a vector, in each lane."""
    return np.full(len(vector), vector.max())


def _spread(number):
    def generate(context, builder, signature, arguments):
        four = builder.bitcast(arguments[0], ir.VectorType(_I16, 4))
        order = ir.Constant(ir.VectorType(_I32, 8), [0, 1, 2, 3, 4, 4, 4, 4])
        return builder.shuffle_vector(four, ir.Constant(four.type, [0] * 4), order)

    return Lanes(8)(types.int64), generate


@_compiled_as(_spread)
def spread(number):
    """Returns a vector of 8 lanes: the 4 of a number, the lowest one first, and 4 that are 0."""
    return np.array([number >> LANE_BITS * i & 0xFFFF for i in range(4)] + [0] * 4, np.uint16)


def _number(vector):
    def generate(context, builder, signature, arguments):
        return builder.zext(builder.extract_element(arguments[0], _I32(0)), _I64)

    return types.int64(vector), generate


@_compiled_as(_number)
def number(vector):
    """Returns the first lane of a vector as a number."""
    return np.int64(vector[0])


def _lane_of(mask):
    def generate(context, builder, signature, arguments):
        return builder.cttz(_as_set(builder, arguments[0]), ir.Constant(ir.IntType(1), 1))

    return types.int64(mask), generate


@_compiled_as(_lane_of)
def lane_of(mask):
    """Returns the first lane of a mask, which has one."""
    return np.int64(np.flatnonzero(mask)[0])


def _set_where(comparison):
    """The rule that compares each lane with a number, and returns a set of lanes."""

    def rule(vector, number):
        def generate(context, builder, signature, arguments):
            number = _filled(builder, arguments[1], vector.count)
            return _as_set(builder, builder.icmp_unsigned(comparison, arguments[0], number))

        return types.uint64(vector, types.int64), generate

    return rule


@_compiled_as(_set_where("=="))
def lanes_equal(vector, number):
    """Returns the set of the lanes that are equal to a number."""
    return np.uint64(sum(1 << i for i, lane in enumerate(vector.tolist()) if lane == number))


@_compiled_as(_set_where("<="))
def lanes_at_most(vector, number):
    """Returns the set of the lanes that are not larger than a number."""
    return np.uint64(sum(1 << i for i, lane in enumerate(vector.tolist()) if lane <= number))


def _replaced(vector, lane, number):
    def generate(context, builder, signature, arguments):
        here = builder.icmp_unsigned("==", _lane_numbers(vector.count), _filled(builder, arguments[1], vector.count))
        return builder.select(here, _filled(builder, arguments[2], vector.count), arguments[0])

    return vector(vector, types.int64, types.int64), generate


@_compiled_as(_replaced)
def replaced(vector, lane, number):
    """Returns the vector with one lane replaced."""
    vector = vector.copy()
    vector[lane] = number
    return vector


def _where_equal(vector, number, then, otherwise):
    def generate(context, builder, signature, arguments):
        here = builder.icmp_unsigned("==", arguments[0], _filled(builder, arguments[1], vector.count))
        return builder.select(here, arguments[2], arguments[3])

    return vector(vector, types.int64, vector, vector), generate


@_compiled_as(_where_equal)
def where_equal(vector, number, then, otherwise):
    """Returns `then` in the lanes in which `vector` is a number, and `otherwise` in the others."""
    return np.where(vector == number, then, otherwise)


def _first_then_by_age(here, ages):
    def generate(context, builder, signature, arguments):
        here, ages = arguments
        zero = ir.Constant(ages.type, None)
        behind = _filled(builder, _I16(1), ages.type.count)
        if ages.type.count > RANKS:  # there is no rank behind the last age, but one is left where the first lane was
            age = _called(builder, f"llvm.vector.reduce.umax.v{ages.type.count}i16", _I16, builder.select(here, ages, zero))
            behind = builder.zext(builder.icmp_unsigned("<", ages, _filled(builder, age, ages.type.count)), ages.type)
        return builder.select(here, zero, builder.add(ages, behind))

    return ages(here, ages), generate


@_compiled_as(_first_then_by_age)
def first_then_by_age(here, ages):
    """Returns ranks: first the one lane of a mask, then the others by age."""
    behind = np.uint16(1) if len(ages) <= RANKS else (ages < ages[here]).astype(np.uint16)
    return np.where(here, np.uint16(0), ages + behind)


@inline
def time_of(sm, cycle):
    """Returns a cycle as a time of a lane, no later than the farthest that a lane can say."""
    return min(max(cycle - sm.begin, 0), FARTHEST) << RANK_BITS
