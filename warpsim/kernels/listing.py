"""The lines of a program as text, for people: one line for each step of `warpsim.kernels.linear`."""

from __future__ import annotations

from collections.abc import Iterator

from warpsim.kernels.linear import LinearProgram, Step

__all__ = ["listing"]


def listing(program: LinearProgram) -> list[str]:
    """One text for each step, indented by two spaces for each loop around it."""
    return list(_lines(program))


def _lines(program: LinearProgram) -> Iterator[str]:
    depth = 0
    for step in program.steps:
        depth -= step.kind == "loop_end"
        yield "  " * depth + _text(step, program.registers)
        depth += step.kind == "loop_begin"


def _text(step: Step, registers: tuple[str, ...]) -> str:
    if step.instruction is None:
        low, high = step.trips
        trips = "endless" if low < 0 else f"{low} times" if low == high else f"{low} to {high} times"
        return {"loop_begin": f"loop {trips}", "loop_end": "end of loop"}.get(step.kind, f"go on at {step.target}")
    parts = [step.instruction.op]
    if step.dst >= 0:
        parts.append(registers[step.dst])
    if step.src:
        parts.append("<- " + ", ".join(registers[source] for source in step.src))
    if step.kind == "branch":
        parts.append(f"else go on at {step.target}")
    return " ".join(parts)
