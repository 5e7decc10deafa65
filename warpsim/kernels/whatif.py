"""What-if studies: kernels with other resources or a changed program.

`changed_kernel` changes what a kernel needs of an SM. The other functions change the program: they add independent
instructions or a stage, or remove a cost. In a changed program all registers that the original writes become inputs, since the
instructions that wrote them may have been removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from warpsim.arguments import integer
from warpsim.hardware.memo import kept_by_object
from warpsim.kernels.instruction import MOST_PHASES, Cost, Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.kernels.traversal import expected_instructions, has_op, inner_statements, mapped, walk
from warpsim.units import MAX_WARPS

_RESOURCES = ("registers_per_thread", "shared_bytes_per_block")

_NOT_COPIED = ("barrier", "branch", "exit")

Edit = Callable[[Instruction], Iterable[Instruction]]
EditConditional = Callable[[Conditional], tuple[Statement, ...]]


def changed_kernel(kernel: Kernel, fields: Mapping[str, Any]) -> Kernel:
    """Returns the kernel with other resources.

    Args:
        kernel: a kernel; the changed one keeps its name.
        fields: `registers_per_thread` or `shared_bytes_per_block` -> value.

    Raises:
        ValueError: another field is given, or a value is not allowed.
    """
    if not fields:
        return kernel
    wrong = [name for name in fields if name not in _RESOURCES]
    if wrong:
        raise ValueError(f"kernel.{wrong[0]}: must be one of {', '.join(f'kernel.{name}' for name in _RESOURCES)}")
    try:
        return _with(kernel, **fields)
    except ValueError as error:
        changes = ", ".join(f"kernel.{name} = {value!r}" for name, value in fields.items())
        raise ValueError(f"{changes}: {error}") from None


def interleaved(kernel: Kernel, copies: int) -> Kernel:
    """Returns a kernel in which each warp does the work of several warps, instruction by instruction (unroll and jam).

    The copies use separate registers, so that ILP and MLP rise by the number of copies. Barriers, branches and the
    exit are not copied, and a branch waits for all copies. At mbarriers, the last copy arrives or waits for all. The
    registers per thread stay the same, so that the occupancy does not change.

    Raises:
        TypeError: `copies` is not an integer.
        ValueError: `copies` is below 1.
    """
    copies = integer("copies", copies)

    def named(registers: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{register}_{copy}" for copy in range(copies) for register in registers)

    def edit(instruction: Instruction) -> list[Instruction]:
        if instruction.op in _NOT_COPIED:
            return [instruction.model_copy(update={"src": named(instruction.src)})]
        return [
            instruction.model_copy(
                update={
                    "src": tuple(f"{register}_{copy}" for register in instruction.src),
                    "dst": f"{instruction.dst}_{copy}" if instruction.dst is not None else None,
                    **({} if copy == copies - 1 else {"arrives": None, "awaits": None, "reports": instruction.reports_to}),
                }
            )
            for copy in range(copies)
        ]

    def edit_conditional(conditional: Conditional) -> tuple[Statement, ...]:
        return (conditional.model_copy(update={"src": named(conditional.src)}),)

    return _with(kernel, **_program(kernel, edit, edit_conditional), inputs=named(all_registers(kernel)))


def without_conflicts(kernel: Kernel) -> Kernel:
    """Returns the kernel with conflict-free accesses to shared memory.

    Costs of an access's own that contain its conflict give way to those of its class.
    """

    def edit(instruction: Instruction) -> list[Instruction]:
        if instruction.op == "smem":
            return [instruction.model_copy(update={"ways": 1, "access": None, "cost": _without_passes(instruction.cost)})]
        return [instruction]

    return _with(kernel, **_program(kernel, edit), inputs=all_registers(kernel))


def _without_passes(cost: Cost | None) -> Cost | None:
    """Returns the costs without those that depend on the number of passes; None if there are no others."""
    if cost is None:
        return None
    left = cost.model_copy(update={"interval_cycles": None, "passes": None, "latency_cycles": None, "issue_slots": None})
    return left if left.given else None


def without(kernel: Kernel, *ops: str) -> Kernel:
    """Returns the kernel without the instructions of some operation classes.

    The branches of conditionals, the exit, and instructions that name mbarriers stay: other warps wait for them, and they for
    others. A conditional of which only one side remains keeps that side; if no side remains, it becomes its branch. A loop
    with an empty body is removed.

    Raises:
        ValueError: the kernel has no other instructions.
    """

    def edit(instruction: Instruction) -> list[Instruction]:
        return [] if instruction.op in ops and not instruction.names_mbarrier else [instruction]

    program = _program(kernel, edit)
    if not program["body"]:
        raise ValueError(f"ops = {', '.join(ops)}: {kernel.name} has no other instructions")
    return _with(kernel, **program, inputs=all_registers(kernel))


def converged(kernel: Kernel) -> Kernel:
    """Returns the kernel without divergence: each divergent conditional becomes a branch and its longer side.

    One that names mbarriers in its sides stays, since other warps wait for both of them.
    """

    def edit_conditional(conditional: Conditional) -> tuple[Statement, ...]:
        sides = (*conditional.then, *conditional.orelse)
        if not conditional.diverges or any(isinstance(one, Instruction) and one.names_mbarrier for _, one in walk(sides)):
            return (conditional,)
        longer = max(conditional.then, conditional.orelse, key=expected_instructions)
        return (conditional.branch, *longer)

    program = _program(kernel, lambda instruction: [instruction], edit_conditional)
    return _with(kernel, **program, inputs=all_registers(kernel))


def with_another_stage(kernel: Kernel) -> Kernel | None:
    """Returns a kernel with one buffer more for the warps that copy, in as much shared memory; None if no warp awaits any."""
    handed_back = _awaited_by_copies(kernel.body)
    if not handed_back or any(one.ahead == MOST_PHASES for one in kernel.mbarriers if one.name in handed_back):
        return None
    mbarriers = (one.model_copy(update={"ahead": one.ahead + (one.name in handed_back)}) for one in kernel.mbarriers)
    return kernel.model_copy(update={"mbarriers": tuple(mbarriers)})


def _awaited_by_copies(statements: tuple[Statement, ...]) -> set[str]:
    """Returns the mbarriers that are awaited in a list of statements, at any depth, which copies as well."""
    found = set[str]()
    if has_op(statements, "async_copy"):
        found |= {one.awaits for one in statements if isinstance(one, Instruction) and one.awaits is not None}
    return found.union(*(_awaited_by_copies(inner) for one in statements for _, inner in inner_statements(one)))


def with_instructions(kernel: Kernel, edit: Callable[[Instruction], Instruction]) -> Kernel:
    """Returns a kernel in which each instruction is replaced by what `edit` makes of it; registers and entries stay."""
    return kernel.model_copy(update={"body": mapped(kernel.body, edit)})


@kept_by_object
def ending_in_l2(kernel: Kernel) -> Kernel:
    """Returns the kernel of a launch that ends: what L2 still holds then of its stores (`Access.l2_kept`) counts as hits."""

    def edit(one: Instruction) -> Instruction:
        access = one.access
        if access is None or not access.l2_kept:
            return one
        hit = 1.0 - (1.0 - access.l2_hit) * (1.0 - access.l2_kept)
        return one.model_copy(update={"access": access.model_copy(update={"l2_hit": hit, "l2_kept": 0.0})})

    stays = any(isinstance(one, Instruction) and one.access is not None and one.access.l2_kept for _, one in walk(kernel.body))
    return with_instructions(kernel, edit) if stays else kernel


def _same_conditional(conditional: Conditional) -> tuple[Statement, ...]:
    return (conditional,)


def _program(kernel: Kernel, edit: Edit, edit_conditional: EditConditional = _same_conditional) -> dict[str, Any]:
    """Returns the fields `body` and `entries` of the kernel with all statements edited."""
    body: list[Statement] = []
    entries = []
    for _, path in kernel.paths():
        entries.append(len(body))
        body += _edited(path, edit, edit_conditional)
    return {"body": tuple(body), "entries": tuple(entries) if kernel.entries else ()}


def _edited(
    statements: tuple[Statement, ...],
    edit: Edit,
    edit_conditional: EditConditional,
) -> tuple[Statement, ...]:
    """Returns the statements with all instructions, and then all conditionals that are not empty, edited."""
    edited: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Instruction):
            edited += edit(statement)
        elif isinstance(statement, Loop):
            body = _edited(statement.body, edit, edit_conditional)
            edited += [statement.model_copy(update={"body": body})] if body else []
        else:
            then, orelse = (_edited(side, edit, edit_conditional) for side in (statement.then, statement.orelse))
            if then:
                edited += edit_conditional(statement.model_copy(update={"then": then, "orelse": orelse}))
            elif orelse:
                edited += edit_conditional(_negated(statement, orelse))
            else:
                edited.append(statement.branch)
    return tuple(edited)


def _negated(conditional: Conditional, orelse: tuple[Statement, ...]) -> Conditional:
    """Returns the conditional with the negated condition, `orelse` as its first side, and no second side."""
    update: dict[str, object] = {"then": orelse, "orelse": ()}
    if conditional.probability is not None:
        update["probability"] = 1 - conditional.probability
    if conditional.warps is not None:
        update["warps"] = tuple(warp for warp in range(MAX_WARPS) if warp not in conditional.warps)
    return conditional.model_copy(update=update)


def all_registers(kernel: Kernel) -> tuple[str, ...]:
    """Returns the inputs and all registers that the program writes."""
    written = (s.dst for _, s in walk(kernel.body) if isinstance(s, Instruction) and s.dst is not None)
    return tuple(dict.fromkeys([*kernel.inputs, *written]))


def _with(kernel: Kernel, **fields: Any) -> Kernel:
    """Returns the kernel with some fields replaced, validated again."""
    return Kernel(**{**{name: getattr(kernel, name) for name in Kernel.model_fields}, **fields})
