"""Instructions of machine code, with the control fields of their 128-bit encodings (Volta and later)."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpsim.frontends.machine_code.cubin import NO_CLUSTER, Parameter, Variable

VOLTA = 70
"""The first architecture whose instructions carry control fields in 128-bit encodings."""

NO_COUNTER = 7


@dataclass(frozen=True, slots=True)
class Control:
    """What an instruction tells the issue logic (Huerta et al. 2025; bits 105 to 125 of the encoding).

    Attributes:
        stall: cycles until the warp may issue its next instruction, 0 to 15.
        yields: whether another warp should issue in the next cycle.
        write: dependence counter, 0 to 5, that holds until the result is written; None: none.
        read: dependence counter that holds until the operands are read; None: none.
        wait: mask of the counters that must be zero before the issue.
        reuse: mask of the operand slots that stay in the reuse cache; of a listing 0, since its operands say it.
    """

    stall: int
    yields: bool = False
    write: int | None = None
    read: int | None = None
    wait: int = 0
    reuse: int = 0


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One instruction of machine code.

    Attributes:
        address: in bytes from the function's start.
        opcode: with its suffixes, such as "LDG.E.64".
        operands: as text.
        guard: predicate, such as "@!P0"; empty where there is none.
        labels: names of its place.
        line: line of the source; None where it is not known.
        control: None before Volta, and where the text has no encodings.
        base: the opcode without suffixes.
    """

    address: int
    opcode: str
    operands: str
    guard: str = ""
    labels: tuple[str, ...] = ()
    line: int | None = None
    control: Control | None = None
    base: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", self.opcode.partition(".")[0])

    @property
    def text(self) -> str:
        """Guard, opcode and operands."""
        return " ".join(part for part in (self.guard, self.opcode, self.operands) if part)


@dataclass(frozen=True)
class MachineFunction:
    """The machine code of a kernel, and what its binary says of it.

    Attributes:
        name: symbol.
        arch: compute capability times ten, such as 90.
        code: instructions in order of address.
        registers: registers per thread.
        shared_bytes: bytes of static shared memory per block.
        parameters: of the kernel; empty where they are not known.
        parameter_base: offset of the first one in constant bank 0.
        source: name of the source, where it is known.
        constants: contents of constant bank 2, where compilers put constants of their own.
        most_threads: threads of a block at most, as launch bounds state it; None where that is not known, as of disassembly.
        cluster: blocks of a cluster in x, y and z, as the kernel declares them; of disassembly one.
        variables: in constant memory, those that the code reads.
    """

    name: str
    arch: int
    code: tuple[MachineInstruction, ...]
    registers: int
    shared_bytes: int = 0
    parameters: tuple[Parameter, ...] = ()
    parameter_base: int | None = None
    source: str = ""
    constants: bytes = b""
    most_threads: int | None = None
    cluster: tuple[int, int, int] = NO_CLUSTER
    variables: tuple[Variable, ...] = ()


def decode_control(high: int) -> Control:
    """Returns the control fields of an encoding, of which `high` is the upper 64-bit word."""
    bits = high >> 41
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(
        stall=bits & 15,
        yields=not bits >> 4 & 1,  # the bit is inverted
        write=None if write == NO_COUNTER else write,
        read=None if read == NO_COUNTER else read,
        wait=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )
