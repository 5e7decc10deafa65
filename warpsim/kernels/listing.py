"""Formats a flat program as text, with one line for each step.

Costs that an instruction has of its own follow in brackets, as in `alu r1 <- r2 [interval 3/2, gap 4]`, behind the mbarrier that
it names, as in `smem arrives empty`. Behind `#` follows its comment, which is the source line and the machine instruction in an
imported kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsim.kernels.instruction import Cost
from warpsim.kernels.steps import FlatProgram, Step


def listing(program: FlatProgram) -> list[str]:
    """Returns one line for each step, indented by two spaces for each enclosing loop."""
    return list(_lines(program))


def _lines(program: FlatProgram) -> Iterator[str]:
    depth = 0
    for step in program.steps:
        depth -= step.kind == "loop_end"
        yield "  " * depth + _text(step, program.registers)
        depth += step.kind == "loop_begin"


def _text(step: Step, registers: tuple[str, ...]) -> str:
    if step.instruction is None:
        low, high = step.trips
        trips = "endless" if low < 0 else f"{low} times" if low == high else f"{low} to {high} times"
        return {"loop_begin": f"loop {trips}", "loop_end": "end of loop"}.get(step.kind, f"go to {step.target}")
    words = [step.instruction.op]
    if step.dst >= 0:
        words.append(registers[step.dst])
    if step.src:
        words.append("<- " + ", ".join(registers[source] for source in step.src))
    if step.kind == "branch":
        words.append(f"else go to {step.target}")
    named = {role: getattr(step.instruction, role) for role in ("arrives", "awaits", "reports")}
    words += [f"{role} {name}" for role, name in named.items() if name is not None]
    if step.instruction.cost is not None:
        words.append(f"[{cost_text(step.instruction.cost)}]")
    if step.instruction.comment:
        words.append(f"# {step.instruction.comment}")
    return " ".join(words)


def cost_text(cost: Cost) -> str:
    """Returns the costs that are given, without their units."""
    given = ((name, getattr(cost, name)) for name in type(cost).model_fields if name in cost.given)
    return ", ".join(f"{name.removesuffix('_cycles').replace('_', ' ')} {value}" for name, value in given)
