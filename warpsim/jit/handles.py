"""Tuples of arrays that compiled functions hand on as one pointer.

Numba's own tuples are hundreds of numbers to LLVM, which every call takes apart and every function puts together: two thirds of
all code. Their name lists all fields of all records, and stands in the name of every function that takes the tuple.
"""

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

from warpsim.jit.aliases import known_type, never_changing

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
        return never_changing(builder, builder.load(pointer))
    whole = ir.Constant(of, ir.Undefined)
    for i in range(len(of.elements) if isinstance(of, ir.LiteralStructType) else of.count):
        whole = builder.insert_value(whole, _loaded(builder, cgutils.gep_inbounds(builder, pointer, 0, i)), i)
    return whole


def handed_on_as_pointer(*, constant: bool) -> Callable[[Record], Record]:
    """Has compiled functions hand on a tuple of arrays as one pointer. `constant`: they write to none of these arrays."""

    def register(named_tuple: Record) -> Record:
        @typeof_impl.register(named_tuple)  # type: ignore[untyped-decorator]  # as above
        def type_of(value: Any, context: Any) -> types.Type:
            return _Handle([known_type(typeof_impl(each, context), constant=constant) for each in value], named_tuple)

        return named_tuple

    return register
