"""Kernels made from kernels: what-if changes of a program.

Each returns a kernel that does the same work otherwise: with more independent instructions, or without some cost. All
registers that the original writes become inputs, since what wrote them may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from warpsim.kernels.program import Conditional, Instruction, Kernel, Loop, Statement, expected_ops, walk

__all__ = ["changed_kernel", "converged", "interleaved", "without", "without_conflicts"]

_KERNEL_FIELDS = ("registers_per_thread", "shared_bytes_per_block")

_SINGLE = ("barrier", "branch", "exit")

Edit = Callable[[Instruction], Iterable[Instruction]]


def interleaved(kernel: Kernel, copies: int) -> Kernel:
    """Return a kernel whose warps do the work of several warps, instruction by instruction, on registers of their own.

    That is unroll and jam: ILP and MLP rise by the number of copies. Barriers, branches and the exit stay single, and
    a branch waits for all copies. The registers per thread stay as they are, so that the occupancy does.

    Raises:
        ValueError: `copies` is below 1.
    """
    if copies < 1:
        raise ValueError(f"copies = {copies}: must be an integer from 1")

    def named(registers: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{register}_{copy}" for copy in range(copies) for register in registers)

    def edit(instruction: Instruction) -> list[Instruction]:
        if instruction.op in _SINGLE:
            return [instruction.model_copy(update={"src": named(instruction.src)})]
        return [
            instruction.model_copy(
                update={
                    "src": tuple(f"{register}_{copy}" for register in instruction.src),
                    "dst": f"{instruction.dst}_{copy}" if instruction.dst is not None else None,
                }
            )
            for copy in range(copies)
        ]

    def sides(conditional: Conditional) -> tuple[Statement, ...]:
        return (conditional.model_copy(update={"src": named(conditional.src)}),)

    body = _edited(kernel.body, edit, sides)
    return _kernel(kernel, body, named(_registers(kernel)))


def without_conflicts(kernel: Kernel) -> Kernel:
    """Return the kernel with accesses to shared memory that do not conflict."""

    def edit(instruction: Instruction) -> list[Instruction]:
        if instruction.op == "smem":
            return [instruction.model_copy(update={"ways": 1, "access": None})]
        return [instruction]

    return _kernel(kernel, _edited(kernel.body, edit), _registers(kernel))


def without(kernel: Kernel, *ops: str) -> Kernel:
    """Return the kernel without the instructions of some classes.

    The branches of conditionals and the exit stay. A conditional of which one side is left has that one; without any it
    becomes its branch, a loop without a body nothing.

    Raises:
        ValueError: nothing would be left of the kernel.
    """

    def edit(instruction: Instruction) -> list[Instruction]:
        return [] if instruction.op in ops else [instruction]

    body = _edited(kernel.body, edit)
    if not body:
        raise ValueError(f"ops = {', '.join(ops)}: {kernel.name} has nothing else")
    return _kernel(kernel, body, _registers(kernel))


def converged(kernel: Kernel) -> Kernel:
    """Return the kernel with threads that do not part: of a divergent conditional, the longer side and the branch."""

    def sides(conditional: Conditional) -> tuple[Statement, ...]:
        if not conditional.diverges:
            return (conditional,)
        longer = max(conditional.then, conditional.orelse, key=lambda side: sum(times for _, times in expected_ops(side)))
        return (Instruction("branch", src=conditional.src), *longer)

    return _kernel(kernel, _edited(kernel.body, lambda instruction: [instruction], sides), _registers(kernel))


def _edited(
    statements: tuple[Statement, ...],
    edit: Edit,
    sides: Callable[[Conditional], tuple[Statement, ...]] = lambda conditional: (conditional,),
) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Instruction):
            found += edit(statement)
        elif isinstance(statement, Loop):
            body = _edited(statement.body, edit, sides)
            found += [statement.model_copy(update={"body": body})] if body else []
        else:
            then, orelse = (_edited(side, edit, sides) for side in (statement.then, statement.orelse))
            if then:
                found += sides(statement.model_copy(update={"then": then, "orelse": orelse}))
            elif orelse:
                found += sides(_turned(statement, orelse))
            else:
                found.append(Instruction("branch", src=statement.src))
    return tuple(found)


def _turned(conditional: Conditional, orelse: tuple[Statement, ...]) -> Conditional:
    """Return the conditional with its second side as the first and only one."""
    update: dict[str, object] = {"then": orelse, "orelse": ()}
    if conditional.probability is not None:
        update["probability"] = 1 - conditional.probability
    if conditional.warps is not None:
        update["warps"] = tuple(warp for warp in range(64) if warp not in conditional.warps)
    return conditional.model_copy(update=update)


def _registers(kernel: Kernel) -> tuple[str, ...]:
    written = (s.dst for _, s in walk(kernel.body) if isinstance(s, Instruction) and s.dst is not None)
    return tuple(dict.fromkeys([*kernel.inputs, *written]))


def _kernel(kernel: Kernel, body: tuple[Statement, ...], inputs: tuple[str, ...]) -> Kernel:
    fields = {name: getattr(kernel, name) for name in type(kernel).model_fields}
    return Kernel(**{**fields, "body": body, "inputs": inputs})


def changed_kernel(kernel: Kernel, fields: Mapping[str, Any]) -> Kernel:
    """The kernel with other resources.

    Args:
        kernel: a kernel; the changed one keeps its name.
        fields: `registers_per_thread` or `shared_bytes_per_block` -> value.

    Raises:
        ValueError: another field, or a value that is not allowed.
    """
    if not fields:
        return kernel
    wrong = [name for name in fields if name not in _KERNEL_FIELDS]
    if wrong:
        raise ValueError(f"kernel.{wrong[0]}: must be one of {', '.join(f'kernel.{name}' for name in _KERNEL_FIELDS)}")
    values = {name: getattr(kernel, name) for name in type(kernel).model_fields}
    try:
        return type(kernel)(**{**values, **fields})
    except ValueError as error:
        what = ", ".join(f"kernel.{name} = {value!r}" for name, value in fields.items())
        raise ValueError(f"{what}: {error}") from None
