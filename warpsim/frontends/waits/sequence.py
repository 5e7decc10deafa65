"""The instructions of a block one after another, and what each of them waits for: for imports, and for replays of profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from warpsim.kernels.instruction import Cost, Hints, Instruction


def in_order(
    indices: Iterable[int],
    *,
    waited: Callable[[int], tuple[str, ...]],
    hints: Callable[[int], Hints | None],
    make: Callable[[int, tuple[str, ...]], Instruction],
) -> Iterator[tuple[int, Instruction]]:
    """Yields the instructions of a kernel that stand for machine instructions in this order, each with its index.

    A barrier reads no register, and the registers of an instruction with hints do not matter, so what it waits for is left to
    the instruction after it. A copy or product that is counted has it waited for before.

    Args:
        indices: the machine instructions.
        waited: returns the registers for which one waits.
        hints: returns the hints of a copy or matrix product that is counted, or of a wait for such ones; otherwise None.
        make: returns the instruction that stands for one, which reads registers.
    """
    left: tuple[str, ...] = ()
    for index in indices:
        sources, given = tuple(dict.fromkeys(left + waited(index))), hints(index)
        if given is not None and given.write is not None and sources:
            yield index, Instruction("branch", src=sources, cost=Cost(gap_cycles=1), comment="waits for operands")
            sources = ()
        one = make(index, () if given else sources)
        left = sources if one.op == "barrier" or given else ()
        yield index, one if given is None else one.model_copy(update={"hints": given})
