"""How the functions of lanes.py, words of cycle_sets.py, and a product of units.py are compiled.

Vectors of lanes, and sets of lanes, are Numba types, and each function has a rule. A rule takes the Numba types of the
arguments. It returns the signature of the function, and what writes its instructions.
"""

import platform

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, types
from numba.extending import models, register_model

from warpsim.engine.constants import MAX_SCHEDULERS, RANKS
from warpsim.jit.aliases import kind_of, known_as

_FEATURES = get_host_cpu_features() if platform.machine() in ("x86_64", "AMD64") else {}
_HAS_PHMINPOSUW = _FEATURES.get("sse4.1", False)  # one instruction finds the minimum of 8 lanes
_HAS_MASKS = _FEATURES.get("avx512bw", False)  # one bit a lane, in registers of their own

_I1, _I8, _I16, _I32, _I64 = map(ir.IntType, (1, 8, 16, 32, 64))


class _Vector(types.Type):
    """A Numba type that is a vector of `count` elements, which a subclass names."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"{type(self).__name__}({count})")


class Lanes(_Vector):
    """The Numba type of a vector of `count` lanes."""

    element = _I16


class Mask(_Vector):
    """The Numba type of a set of the lanes of a vector: in each lane all bits are 1, or none.

    LLVM keeps a truth value as a byte from one block to the next; it would widen it again wherever lanes are chosen by it.
    """

    element = _I1 if _HAS_MASKS else _I16


@register_model(Lanes)
@register_model(Mask)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        super().__init__(manager, vector, ir.VectorType(vector.element, vector.count))


def _chosen(builder, vector, numbers):
    """A vector of the lanes of another one that are given by number."""
    order = ir.Constant(ir.VectorType(_I32, len(numbers)), list(numbers))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), order)


def _filled(builder, value, count):
    narrow = builder.trunc(value, _I16) if value.type != _I16 else value
    one = builder.insert_element(ir.Constant(ir.VectorType(_I16, count), ir.Undefined), narrow, _I32(0))
    return _chosen(builder, one, [0] * count)


def _called(builder, name, result, *arguments):
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(result, [argument.type for argument in arguments]), name
    )
    return builder.call(function, arguments)


def _as_bits(builder, truths):
    """A vector of truth values as an integer with one bit for each."""
    return builder.bitcast(truths, ir.IntType(truths.type.count))


def _as_i64(builder, integer):
    width = integer.type.width
    return builder.zext(integer, _I64) if width < 64 else builder.trunc(integer, _I64) if width > 64 else integer


def _bytes(builder, vector):
    return builder.bitcast(vector, ir.VectorType(_I8, 2 * vector.type.count))


def _truths(builder, mask):
    """The truth values of a mask, for each lane or, where lanes are whole, for each of their bytes."""
    return mask if _HAS_MASKS else builder.icmp_signed("<", _bytes(builder, mask), _bytes(builder, ir.Constant(mask.type, None)))


def _selected(builder, mask, then, otherwise):
    if _HAS_MASKS:
        return builder.select(mask, then, otherwise)
    of_bytes = builder.select(_truths(builder, mask), _bytes(builder, then), _bytes(builder, otherwise))
    return builder.bitcast(of_bytes, then.type)


def _lane_numbers(count):
    return ir.Constant(ir.VectorType(_I16, count), list(range(count)))


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def _pointer(context, builder, array_type, array):
    data = _data(context, builder, array_type, array)
    return builder.bitcast(data, ir.VectorType(_I16, array_type.shape[-1]).as_pointer())


def load(array):
    """The rule of `load`."""

    def generate(context, builder, signature, arguments):
        value = builder.load(_pointer(context, builder, signature.args[0], arguments[0]))
        value.align = 2
        return known_as(kind_of(array), value)

    return Lanes(array.shape[-1])(array), generate


def store(array, vector):
    """The rule of `store`."""

    def generate(context, builder, signature, arguments):
        store = builder.store(arguments[1], _pointer(context, builder, signature.args[0], arguments[0]))
        store.align = 2
        known_as(kind_of(array), store)
        return context.get_dummy_value()

    return types.void(array, vector), generate


def _word(context, builder, array_type, cycles, place):
    data = builder.bitcast(_data(context, builder, array_type, cycles), _I16.as_pointer())
    return builder.bitcast(builder.gep(data, [place]), _I64.as_pointer())


def word_at(cycles, place):
    """The rule of `word_at`."""

    def generate(context, builder, signature, arguments):
        return known_as(kind_of(cycles), builder.load(_word(context, builder, signature.args[0], *arguments), align=2))

    return types.uint64(cycles, types.int64), generate


def enter_word(cycles, place, members):
    """The rule of `enter_word`."""

    def generate(context, builder, signature, arguments):
        array, place, members = arguments
        word, kind = _word(context, builder, signature.args[0], array, place), kind_of(cycles)
        before = known_as(kind, builder.load(word, align=2))
        known_as(kind, builder.store(builder.or_(before, members), word, align=2))
        return context.get_dummy_value()

    return types.void(cycles, types.int64, types.uint64), generate


def high_half(a, b):
    """The rule of `high_half`."""

    def generate(context, builder, signature, arguments):
        wide = [builder.zext(each, ir.IntType(128)) for each in arguments]
        return builder.trunc(builder.lshr(builder.mul(*wide), ir.Constant(ir.IntType(128), 64)), _I64)

    return types.uint64(types.uint64, types.uint64), generate


bitwise_or, bitwise_and, plus, minus = ir.IRBuilder.or_, ir.IRBuilder.and_, ir.IRBuilder.add, ir.IRBuilder.sub


def of_two(operation):
    """The rule of an operation on two vectors."""

    def rule(a, b):
        def generate(context, builder, signature, arguments):
            return operation(builder, *arguments)

        return a(a, b), generate

    return rule


def of_llvm(name):
    """An operation on two vectors for which LLVM has a function."""
    return lambda builder, a, b: _called(builder, f"llvm.{name}.v{a.type.count}i16", a.type, a, b)


def filled(number, vector):
    """The rule of `filled`."""

    def generate(context, builder, signature, arguments):
        return _filled(builder, arguments[0], vector.count)

    return vector(types.int64, vector), generate


def for_schedulers(number):
    """The rule of `for_schedulers`."""

    def generate(context, builder, signature, arguments):
        return _filled(builder, arguments[0], MAX_SCHEDULERS)

    return Lanes(MAX_SCHEDULERS)(types.int64), generate


def everywhere(least, vector):
    """The rule of `everywhere`."""

    def generate(context, builder, signature, arguments):
        return _chosen(builder, arguments[0], [0] * vector.count)

    return vector(least, vector), generate


def same(a, b):
    """The rule of `same`."""

    def generate(context, builder, signature, arguments):
        mask = builder.icmp_unsigned("==", *arguments)
        return mask if _HAS_MASKS else builder.sext(mask, arguments[0].type)

    return Mask(a.count)(a, b), generate


def where(mask, then, otherwise):
    """The rule of `where`."""

    def generate(context, builder, signature, arguments):
        return _selected(builder, *arguments)

    return then(mask, then, otherwise), generate


def foremost(vector):
    """The rule of `foremost`."""

    def generate(context, builder, signature, arguments):
        best = arguments[0]
        if not _HAS_PHMINPOSUW:
            return _filled(builder, _called(builder, f"llvm.vector.reduce.umin.v{vector.count}i16", _I16, best), 8)
        while best.type.count > 8:
            half = best.type.count // 2
            halves = [_chosen(builder, best, range(begin, begin + half)) for begin in (0, half)]
            best = of_llvm("umin")(builder, *halves)
        return _called(builder, "llvm.x86.sse41.phminposuw", best.type, best)

    return Lanes(8)(vector), generate


def largest_everywhere(vector):
    """The rule of `largest_everywhere`."""

    def generate(context, builder, signature, arguments):
        if not _HAS_PHMINPOSUW or vector.count != 8:
            largest = _called(builder, f"llvm.vector.reduce.umax.v{vector.count}i16", _I16, arguments[0])
            return _filled(builder, largest, vector.count)
        least = _called(builder, "llvm.x86.sse41.phminposuw", arguments[0].type, builder.not_(arguments[0]))
        return builder.not_(_chosen(builder, least, [0] * 8))

    return vector(vector), generate


def spread(number):
    """The rule of `spread`."""

    def generate(context, builder, signature, arguments):
        four = builder.bitcast(arguments[0], ir.VectorType(_I16, 4))
        order = ir.Constant(ir.VectorType(_I32, 8), [0, 1, 2, 3, 4, 4, 4, 4])
        return builder.shuffle_vector(four, ir.Constant(four.type, [0] * 4), order)

    return Lanes(8)(types.int64), generate


def sum_of_fours(vector):
    """The rule of `sum_of_fours`."""

    def generate(context, builder, signature, arguments):
        fours = builder.bitcast(arguments[0], ir.VectorType(_I64, vector.count // 4))
        return _called(builder, f"llvm.vector.reduce.add.v{vector.count // 4}i64", _I64, fours)

    return types.int64(vector), generate


def number(vector):
    """The rule of `number`."""

    def generate(context, builder, signature, arguments):
        return builder.zext(builder.extract_element(arguments[0], _I32(0)), _I64)

    return types.int64(vector), generate


def lane_of(mask):
    """The rule of `lane_of`."""

    def generate(context, builder, signature, arguments):
        truths = _truths(builder, arguments[0])
        first = _as_i64(builder, builder.cttz(_as_bits(builder, truths), _I1(1)))
        return builder.lshr(first, _I64(truths.type.count // mask.count - 1))  # it is a lane, or a byte of one

    return types.int64(mask), generate


def set_where(comparison):
    """The rule that compares each lane with a number, and returns a set of lanes."""

    def rule(vector, number):
        def generate(context, builder, signature, arguments):
            number = _filled(builder, arguments[1], vector.count)
            return _as_i64(builder, _as_bits(builder, builder.icmp_unsigned(comparison, arguments[0], number)))

        return types.uint64(vector, types.int64), generate

    return rule


def replaced(vector, lane, number):
    """The rule of `replaced`."""

    def generate(context, builder, signature, arguments):
        here = builder.icmp_unsigned("==", _lane_numbers(vector.count), _filled(builder, arguments[1], vector.count))
        return builder.select(here, _filled(builder, arguments[2], vector.count), arguments[0])

    return vector(vector, types.int64, types.int64), generate


def first_then_by_age(here, ages):
    """The rule of `first_then_by_age`."""

    def generate(context, builder, signature, arguments):
        here, ages = arguments
        zero = ir.Constant(ages.type, None)
        behind = _filled(builder, _I16(1), ages.type.count)
        if ages.type.count > RANKS:  # there is no rank behind the last age, but one is left where the first lane was
            age = _called(builder, f"llvm.vector.reduce.umax.v{ages.type.count}i16", _I16, _selected(builder, here, ages, zero))
            behind = builder.zext(builder.icmp_unsigned("<", ages, _filled(builder, age, ages.type.count)), ages.type)
        return _selected(builder, here, zero, builder.add(ages, behind))

    return ages(here, ages), generate
