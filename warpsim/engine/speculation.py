"""Values that the processor guesses, so that what follows need not wait for them.

A processor does not wait for a comparison: it guesses how a branch goes, and works on. So a number that is nearly always the
same one is known at once to what comes after `speculated`, although it may be at the end of a long chain of loads. A wrong guess
costs some twenty cycles of the processor, and nothing else.
"""

from llvmlite import ir
from numba.core import cgutils, types

from warpsim.jit.decorators import compiled_as


def _speculating(value, guess):
    """Writes the branch, which LLVM must not take out: in it the guess passes an instruction of which LLVM knows nothing."""

    def generate(context, builder, signature, arguments):
        value, guess = arguments
        before = builder.block
        with cgutils.if_likely(builder, builder.icmp_signed("==", value, guess)):
            unknown = ir.InlineAsm(ir.FunctionType(value.type, [value.type]), "", "=r,0")
            same = builder.call(unknown, [guess], attrs=("readnone", "nounwind"))
            inside = builder.block
        result = builder.phi(value.type)
        result.add_incoming(value, before)
        result.add_incoming(same, inside)
        return result

    return types.int64(types.int64, types.int64), generate


@compiled_as(_speculating)
def speculated(value, guess):
    """Returns a number that is nearly always as guessed."""
    return value
