"""The machine registers that an instruction reads, on which the ports of the register file depend (docs/model.md, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from warpsim.hardware.fields import FROM_LIST, MustBe

OPERAND_SLOTS = 4
"""Largest number of operand slots of a machine instruction."""

MOST_READ = 160
"""Registers that an instruction reads, at most. The largest product of a warp group reads 132. With so many in one bank, the
times of ports stay within what a lane of the engine can say."""

_WHAT = f'a machine register such as "R12" or "R12.reuse", 2 to {MOST_READ} registers such as "R24:32", 32 from R24 on, or ""'


class RegisterRead(NamedTuple):
    """What an operand slot reads.

    Attributes:
        first: number of its first register.
        registers: their number.
        reuse: whether the reuse cache is to hold the register.
    """

    first: int
    registers: int
    reuse: bool


def register_reads(reads: tuple[str, ...]) -> Iterator[tuple[int, RegisterRead]]:
    """Yields what the reads of an instruction name, each with its operand slot."""
    for slot, text in enumerate(reads):
        if text:
            name, _, registers = text.removesuffix(".reuse").partition(":")
            yield slot, RegisterRead(int(name[1:]), int(registers or 1), text.endswith(".reuse"))


def _few_enough(reads: tuple[str, ...]) -> tuple[str, ...]:
    total = sum(read.registers for _, read in register_reads(reads))
    if total > MOST_READ:
        raise ValueError(f"must be at most {MOST_READ} registers altogether, not {total}")
    return reads


RegisterReads = Annotated[
    tuple[
        Annotated[str, Field(pattern=r"^(R\d{1,3}(\.reuse|:([2-9]|[1-9]\d|1[0-5]\d|160))?)?$"), MustBe(_WHAT)],
        ...,
    ],
    FROM_LIST,
    Field(max_length=OPERAND_SLOTS),
    AfterValidator(_few_enough),
    MustBe(f'at most {OPERAND_SLOTS} machine registers such as "R12", or ""'),
]
"""The reads of an instruction, one for each operand slot."""
