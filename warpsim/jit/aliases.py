"""What LLVM is told about loads and stores. Without it, any store could change what any load returns.

A record or an array of a tuple that is handed on (handles.py) has one of these types in place of numba's own. Nobody writes to
what is `_Constant...` during a call. What is `_Own...` overlaps with nothing of another kind: the kinds of memory are the fields
of records, each for itself, and the elements of arrays, by their type.
"""

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_builtin, lower_getattr_generic, lower_setattr_generic
from numba.extending import models, register_model
from numba.np.arrayobj import getitem_array_tuple, getitem_arraynd_intp, record_getattr, record_setattr, setitem_array


def never_changing(builder: Any, loaded: Any) -> Any:
    """Tells LLVM that what has been loaded never changes, so that no store and no call is a reason to load it again."""
    if isinstance(loaded, ir.LoadInstr):
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


class _ConstantRecord(types.Record):
    """The type of a constant record."""


class _ConstantArray(types.Array):
    """The type of a constant array."""


class _ConstantNested(types.NestedArray):
    """The type of a constant array in a record."""


class _OwnRecord(types.Record):
    """The type of a record that changes."""


class _OwnArray(types.Array):
    """The type of an array that changes."""


class _OwnNested(types.NestedArray):
    """The type of an array in a record that changes."""


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
    """Tells LLVM (by its metadata `tbaa`) that a load or a store overlaps with none of another kind; returns it."""
    if isinstance(access, (ir.LoadInstr, ir.StoreInstr)):
        module, zero = access.parent.function.module, ir.Constant(ir.IntType(64), 0)
        type_ = module.add_metadata([kind, module.add_metadata(["warpsim"]), zero])
        access.set_metadata("tbaa", module.add_metadata([type_, type_, zero]))
    return access


@lower_getattr_generic(_ConstantRecord)  # type: ignore[untyped-decorator]  # numba has no annotations
def _constant_field(context: Any, builder: Any, record: Any, pointer: Any, name: str) -> Any:
    return never_changing(builder, record_getattr(context, builder, record, pointer, name))


@lower_getattr_generic(_OwnRecord)  # type: ignore[untyped-decorator]  # as above
def _own_field(context: Any, builder: Any, record: Any, pointer: Any, name: str) -> Any:
    return known_as(f"{record}.{name}", record_getattr(context, builder, record, pointer, name))


@lower_setattr_generic(_OwnRecord)  # type: ignore[untyped-decorator]  # as above
def _set_own_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    record_setattr(context, builder, signature, arguments, name)
    known_as(f"{signature.args[0]}.{name}", builder.block.instructions[-1])


def _constant_element(lower: Any) -> Any:
    return lambda context, builder, signature, arguments: never_changing(builder, lower(context, builder, signature, arguments))


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


def known_type(type_: Any, *, constant: bool) -> Any:
    """Returns the type that a part of a tuple has in place of numba's own type."""
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
