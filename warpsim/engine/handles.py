"""Tuples of arrays that compiled functions hand on as one pointer.

Numba's own tuples are hundreds of numbers to LLVM, which every call takes apart and every function puts together: two thirds of
all code. Their name lists all fields of all records, and stands in the name of every function that takes the tuple.
"""

import hashlib
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin, lower_getattr_generic, lower_setattr_generic
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import getitem_array_tuple, getitem_arraynd_intp, record_getattr, record_setattr, setitem_array

Record = TypeVar("Record", bound=type[tuple[Any, ...]])


class _Handle(types.NamedTuple):  # type: ignore[name-defined]  # numba has no annotations
    """The type of such a tuple, with a short name."""

    def __init__(self, fields: Any, named_tuple: type) -> None:
        super().__init__(fields, named_tuple)
        long = str(self).encode()
        self.name = f"{named_tuple.__name__}_{hashlib.blake2b(long, digest_size=8).hexdigest()}"


def _fields(handle: _Handle) -> Any:
    """Returns numba's own type of the tuple."""
    return types.NamedTuple(handle.types, handle.instance_class)  # type: ignore[attr-defined]  # as above


@register_model(_Handle)
class _HandleModel(models.PrimitiveModel):
    """A pointer to the tuple, which nobody writes to during a call."""

    def __init__(self, models: Any, handle: _Handle) -> None:
        super().__init__(models, handle, models.lookup(_fields(handle)).get_value_type().as_pointer())

    def from_argument(self, builder: Any, value: Any) -> Any:
        value.attributes.dereferenceable = 8 * _words(value.type.pointee)  # so that loads can go before a loop
        return value


def _words(of: Any) -> int:
    if isinstance(of, ir.ArrayType):
        return int(of.count) * _words(of.element)
    return sum(map(_words, of.elements)) if isinstance(of, ir.LiteralStructType) else 1


@unbox(_Handle)  # type: ignore[untyped-decorator]  # as above
def _point_to_tuple(handle: _Handle, tuple_: Any, c: Any) -> NativeValue:
    fields = c.unbox(_fields(handle), tuple_)
    return NativeValue(cgutils.alloca_once_value(c.builder, fields.value), is_error=fields.is_error, cleanup=fields.cleanup)


@lower_getattr_generic(_Handle)  # type: ignore[untyped-decorator]  # as above
def _field(_context: Any, builder: Any, handle: _Handle, pointer: Any, name: str) -> Any:
    return _loaded(builder, cgutils.gep_inbounds(builder, pointer, 0, handle.fields.index(name)))


def _loaded(builder: Any, pointer: Any) -> Any:
    """Loads a value number by number, each marked as one that never changes. LLVM drops those that are not used."""
    of = pointer.type.pointee
    if not isinstance(of, (ir.LiteralStructType, ir.ArrayType)):
        return _never_changing(builder, builder.load(pointer))
    whole = ir.Constant(of, ir.Undefined)
    for i in range(len(of.elements) if isinstance(of, ir.LiteralStructType) else of.count):
        whole = builder.insert_value(whole, _loaded(builder, cgutils.gep_inbounds(builder, pointer, 0, i)), i)
    return whole


def _never_changing(builder: Any, loaded: Any) -> Any:
    """Tells LLVM that what has been loaded never changes, so that no store and no call is a reason to load it again."""
    if isinstance(loaded, ir.LoadInstr):
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


# Of what is in the arrays, LLVM is told what it cannot know, since for LLVM any store could change what any load returns.


class _ConstantRecord(types.Record):
    """The type of a record that nobody writes to during a call."""


class _ConstantArray(types.Array):
    """The type of an array that nobody writes to during a call."""


class _ConstantNested(types.NestedArray):
    """The same of an array in a record."""


class _OwnRecord(types.Record):
    """The type of a record of which no field overlaps with anything else."""


class _OwnArray(types.Array):
    """The type of an array whose elements overlap with nothing of another type, and with no field of a record."""


class _OwnNested(types.NestedArray):
    """The same of an array in a record."""


for _record in (_ConstantRecord, _OwnRecord):
    register_model(_record)(models.RecordModel)
for _array in (_ConstantArray, _OwnArray):
    register_model(_array)(models.ArrayModel)
for _nested in (_ConstantNested, _OwnNested):
    register_model(_nested)(models.NestedArrayModel)


def kind_of(array: Any) -> str:
    """Returns the name of the kind of memory that the elements of an array are, for `known_as`."""
    return str(array.dtype)


def known_as(kind: str, access: Any) -> Any:
    """Tells LLVM that a load or a store overlaps with none of another kind; returns it."""
    if isinstance(access, (ir.LoadInstr, ir.StoreInstr)):
        module, zero = access.parent.function.module, ir.Constant(ir.IntType(64), 0)
        type_ = module.add_metadata([kind, module.add_metadata(["warpsim"]), zero])
        access.set_metadata("tbaa", module.add_metadata([type_, type_, zero]))
    return access


@lower_getattr_generic(_ConstantRecord)  # type: ignore[untyped-decorator]  # as above
def _constant_field(context: Any, builder: Any, record: Any, pointer: Any, name: str) -> Any:
    return _never_changing(builder, record_getattr(context, builder, record, pointer, name))


@lower_getattr_generic(_OwnRecord)  # type: ignore[untyped-decorator]  # as above
def _own_field(context: Any, builder: Any, record: Any, pointer: Any, name: str) -> Any:
    return known_as(f"{record}.{name}", record_getattr(context, builder, record, pointer, name))


@lower_setattr_generic(_OwnRecord)  # type: ignore[untyped-decorator]  # as above
def _set_own_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    record_setattr(context, builder, signature, arguments, name)
    known_as(f"{signature.args[0]}.{name}", builder.block.instructions[-1])


def _constant_element(lower: Any) -> Any:
    return lambda context, builder, signature, arguments: _never_changing(builder, lower(context, builder, signature, arguments))


def _own_element(lower: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return known_as(kind_of(signature.args[0]), lower(context, builder, signature, arguments))

    return generate


def _set_own_element(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    setitem_array(context, builder, signature, arguments)
    if builder.block.instructions:  # else it has set many, in a loop
        known_as(kind_of(signature.args[0]), builder.block.instructions[-1])
    return context.get_dummy_value()


_INDICES = {types.Integer: getitem_arraynd_intp, types.BaseTuple: getitem_array_tuple}  # type: ignore[attr-defined]  # as above
for _index, _lower in _INDICES.items():
    for _constant in (_ConstantArray, _ConstantNested):
        lower_builtin(operator.getitem, _constant, _index)(_constant_element(_lower))
    for _own in (_OwnArray, _OwnNested):
        lower_builtin(operator.getitem, _own, _index)(_own_element(_lower))
        lower_builtin(operator.setitem, _own, _index, types.Any)(_set_own_element)


def _type_of(value: Any, context: Any, constant: bool) -> Any:
    """Returns the type of a part of a tuple."""
    type_: Any = typeof_impl(value, context)
    if not isinstance(type_, types.Array):
        return type_
    if not isinstance(type_.dtype, types.Record):
        array: Any = _ConstantArray if constant else _OwnArray
        return array(type_.dtype, type_.ndim, type_.layout, not type_.mutable, f"{array.__name__}({type_})", type_.aligned)
    fields: list[Any] = []
    for name, field in type_.dtype.fields.items():
        facts, of = field._asdict(), field.type
        if isinstance(of, types.NestedArray):
            facts["type"] = (_ConstantNested if constant else _OwnNested)(of.dtype, of.shape)
        fields.append((name, facts))
    record = _ConstantRecord if constant else _OwnRecord
    return type_.copy(dtype=record(fields, type_.dtype.size, type_.dtype.aligned))


def handed_on_as_pointer(*, constant: bool) -> Callable[[Record], Record]:
    """Has compiled functions hand on a tuple of arrays as one pointer. `constant`: they write to no record in these arrays."""

    def register(named_tuple: Record) -> Record:
        @typeof_impl.register(named_tuple)  # type: ignore[untyped-decorator]  # as above
        def type_of(value: Any, context: Any) -> types.Type:
            return _Handle([_type_of(each, context, constant) for each in value], named_tuple)

        return named_tuple

    return register
