"""Builds the workloads of the papers as kernels.

V is Volkov 2016, and VT his talk of 2010. The comments of the instructions give the machine instructions. Registers
per thread are those named in the published code. For abstract code they are 8 (assumed), few enough that registers
do not limit the occupancy of any of the five chips. Wrong arguments raise a ValueError with one line for each:
"argument = value: what is allowed".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from warpsim.kernels.arguments import Arguments
from warpsim.kernels.instruction import OP_PATTERN, OPS_WITHOUT_RESULT, Access, Instruction
from warpsim.kernels.machine_code import machine_code
from warpsim.kernels.matrix_multiply import matrix_multiply
from warpsim.kernels.producer_consumer import producer_consumer
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop, Statement

MAX_ILP = 64
MAX_REGISTERS = 255

_FEW_REGISTERS = 8


def mix(
    alpha: float,
    other: str = "load",
    *,
    ways: int = 1,
    pattern: str = "coalesced",
    stride: int = 1,
    iterations: int | None = None,
) -> Kernel:
    """Builds evenly interleaved adds and instructions of one other class, back-to-back dependent (V 4.1, 4.7).

    Args:
        alpha: adds per other instruction; 0: no adds, inf: only adds. The kernel repeats a group of p adds and q
            others with p / q within 0.5 % of alpha, as few of the rarer kind as possible, and p + q <= 1024.
        other: "load", "sfu" or "smem".
        ways: degree of the bank conflicts; only for "smem".
        pattern: "coalesced", "stride", "random" or "broadcast"; only for "load".
        stride: stride in elements; only for pattern "stride".
        iterations: how often a warp executes the group; None: endless.
    """
    check = Arguments()
    adds, others = check.ratio("alpha", alpha)
    other = check.choice("other", other, ("load", "sfu", "smem"))
    ways = check.ways(ways, other)
    access = check.access(pattern, stride, other)
    iterations = check.iterations(iterations)
    check.done()
    add = _alu("FADD R1, R1, R2", "r1", "r1")
    rest = Instruction(other, dst="r1", src=("r1",), access=access, ways=ways)
    length = adds + others
    group = (add if (k + 1) * adds // length > k * adds // length else rest for k in range(length))
    return Kernel(
        name="mix" if other == "load" else f"mix_{other}",
        title=f"{adds} adds and {others} {other} instructions, back-to-back dependent",
        source="V 4.1" if other == "load" else "V 4.7",
        registers_per_thread=_FEW_REGISTERS,
        inputs=("r1",),
        body=(Loop(body=tuple(group), trips=iterations),),
    )


def chain(
    op: str,
    ilp: int = 1,
    *,
    ways: int = 1,
    pattern: str = "coalesced",
    stride: int = 1,
    iterations: int | None = None,
) -> Kernel:
    """Builds independent chains of dependent instructions of one class (V 6.1 to 6.3, 6.7, VT).

    Args:
        op: operation class that writes a register, such as "alu", "sfu", "smem" or "load".
        ilp: number of independent chains in each warp, 1 to 64.
        ways: degree of the bank conflicts; only for "smem" (V 6.2).
        pattern: "coalesced", "stride", "random" or "broadcast"; only for "load".
        stride: stride in elements; only for pattern "stride".
        iterations: number of instructions of each chain that a warp executes; None: endless.
    """
    check = Arguments()
    if not isinstance(op, str) or op in OPS_WITHOUT_RESULT or not re.match(OP_PATTERN, op):
        check.wrong("op", op, "an operation class that writes a register, such as alu, sfu, smem, load")
    op = str(op)
    ilp = check.integer("ilp", ilp, 1, MAX_ILP)
    ways = check.ways(ways, op)
    access = check.access(pattern, stride, op)
    iterations = check.iterations(iterations)
    check.done()
    registers = tuple(f"r{k}" for k in range(1, ilp + 1))
    links = tuple(Instruction(op, dst=r, src=(r,), access=access, ways=ways) for r in registers)
    return Kernel(
        name="add_chain" if op == "alu" else f"{op}_chain",
        title=f"{op} instructions, {ilp} independent chain{'s' if ilp > 1 else ''} per warp",
        source={"load": "V 6.3", "smem": "V 6.1, 6.2"}.get(op, "V 6.1"),
        registers_per_thread=max(_FEW_REGISTERS, ilp + 2),
        inputs=registers,
        body=(Loop(body=links, trips=iterations),),
    )


def vector_add() -> Kernel:
    """Builds a vector addition, c[i] = a[i] + b[i] (V 3.8, Listing 3.5)."""
    return Kernel(
        name="vector_add",
        title="c[i] = a[i] + b[i]",
        source="V 3.8, Listing 3.5",
        registers_per_thread=4,
        body=(
            *_thread_index(),
            _alu("ISCADD R3, R2, c[0x0][0x140], 0x2", "r3", "r2"),
            _alu("ISCADD R0, R2, c[0x0][0x144], 0x2", "r0", "r2"),
            Instruction("load", dst="r3", src=("r3",), comment="LD R3, [R3]"),
            Instruction("load", dst="r0", src=("r0",), comment="LD R0, [R0]"),
            _alu("ISCADD R2, R2, c[0x0][0x148], 0x2", "r2", "r2"),
            _alu("FADD R3, R3, R0", "r3", "r3", "r0"),
            Instruction("store", src=("r2", "r3"), comment="ST [R2], R3"),
        ),
    )


def permute(random: bool = False) -> Kernel:
    """Builds a permutation, a[i] = b[c[i]] (V 3.10, Listing 3.6; the machine code is assumed after Listing 3.5).

    Args:
        random: whether c contains random numbers, so that reads of b do not coalesce; otherwise c[i] = i.
    """
    check = Arguments()
    check.flag("random", random)
    check.done()
    gather = Access(pattern="random" if random else "coalesced")
    return Kernel(
        name="permute",
        title="a[i] = b[c[i]], c random" if random else "a[i] = b[c[i]], c[i] = i",
        source="V 3.10, Listing 3.6",
        registers_per_thread=4,
        body=(
            *_thread_index(),
            _alu("ISCADD R0, R2, c[0x0][0x148], 0x2", "r0", "r2"),
            Instruction("load", dst="r0", src=("r0",), comment="LD R0, [R0]"),
            _alu("ISCADD R2, R2, c[0x0][0x140], 0x2", "r2", "r2"),
            _alu("ISCADD R0, R0, c[0x0][0x144], 0x2", "r0", "r0"),
            Instruction("load", dst="r0", src=("r0",), access=gather, comment="LD R0, [R0]"),
            Instruction("store", src=("r2", "r0"), comment="ST [R2], R0"),
        ),
    )


def vabs(negative: bool = False) -> Kernel:
    """Builds absolute values, if (a[i] < 0) a[i] = -a[i] (V 3.10, Listing 3.7; the machine code is assumed after Listing 3.5).

    Args:
        negative: whether all elements are negative, so that all are written back; otherwise all are positive,
            and none is written back.
    """
    check = Arguments()
    check.flag("negative", negative)
    check.done()
    return Kernel(
        name="vabs",
        title=f"absolute values of a vector whose elements are all {'negative' if negative else 'positive'}",
        source="V 3.10, Listing 3.7",
        registers_per_thread=4,
        body=(
            *_thread_index(),
            _alu("ISCADD R2, R2, c[0x0][0x140], 0x2", "r2", "r2"),
            Instruction("load", dst="r0", src=("r2",), comment="LD R0, [R2]"),
            _alu("FSETP.LT P0, R0, RZ", "p0", "r0"),
            Conditional(
                src=("p0",),
                probability=1.0 if negative else 0.0,
                then=(
                    _alu("FADD R0, -R0, -RZ", "r0", "r0"),
                    Instruction("store", src=("r2", "r0"), comment="ST [R2], R0"),
                ),
            ),
        ),
    )


def copy(floats: int = 1, vector: int = 1) -> Kernel:
    """Builds a copy of several elements per thread, all loads before all stores (VT; the machine code is assumed).

    Args:
        floats: elements per thread, each copied by one load and one store.
        vector: 32-bit words per element: 1 (float), 2 (float2) or 4 (float4). floats * vector is at most 252.
    """
    check = Arguments()
    vector = check.number("vector", vector, (1, 2, 4))
    floats = check.integer("floats", floats, 1, (MAX_REGISTERS - 3) // vector)
    check.done()
    access = Access.model_validate({"bytes_per_thread": 4 * vector})
    data = [f"r{3 + k}" for k in range(floats)]
    return Kernel(
        name="copy",
        title=f"copy of {floats} float{vector if vector > 1 else ''} per thread",
        source="VT, copying several floats per thread",
        registers_per_thread=3 + floats * vector,
        body=(
            _alu("S2R R0, SR_CTAID.Y", "r0"),
            _alu("S2R R1, SR_CTAID.X", "r1"),
            _alu("S2R R2, SR_TID.X", "r2"),
            _alu("IMAD R0, R0, gridDim.x, R1", "r0", "r0", "r1"),
            _alu("IMAD R0, R0, elements of a block, R2", "r0", "r0", "r2"),
            _alu("ISCADD R1, R0, src", "r1", "r0"),
            *(Instruction("load", dst=r, src=("r1",), access=access, comment=f"LD {r}, [R1]") for r in data),
            _alu("ISCADD R2, R0, dst", "r2", "r0"),
            *(Instruction("store", src=("r2", r), access=access, comment=f"ST [R2], {r}") for r in data),
        ),
    )


def listing_3_1() -> Kernel:
    """Builds five dependent instructions, which show register dependency latencies (V Listing 3.1, Kepler)."""
    return Kernel(
        name="listing_3_1",
        title="register dependency latencies",
        source="V Listing 3.1",
        registers_per_thread=_FEW_REGISTERS,
        inputs=("r1", "r2", "r3"),
        body=(
            Instruction("load", dst="r1", src=("r1",), comment="LD R1, [R1]"),
            Instruction("smem", dst="r1", src=("r1",), comment="LDS R1, [R1]"),
            _alu("FADD R1, R1, R2", "r1", "r1", "r2"),
            Instruction("sfu", dst="r1", src=("r1",), comment="MUFU.RSQ R1, R1"),
            Instruction("store", src=("r3", "r1"), comment="ST [R3], R1"),
        ),
    )


def listing_3_2(kind: str) -> Kernel:
    """Builds seven independent instructions of one kind, which show ILP latencies (V Listing 3.2, Fermi).

    Args:
        kind: "adds", "stores" or "loads".
    """
    check = Arguments()
    kind = check.choice("kind", kind, ("adds", "stores", "loads"))
    check.done()
    registers = tuple(f"r{k}" for k in range(1, 8))
    lines: dict[str, Callable[[str], Instruction]] = {
        "adds": lambda r: _alu("FADD R, R, R", r, r),
        "stores": lambda r: Instruction("store", src=(r,), comment="ST [R], R"),
        "loads": lambda r: Instruction("load", dst=r, src=(r,), comment="LD R, [R]"),
    }
    return Kernel(
        name=f"listing_3_2_{kind}",
        title=f"ILP latencies of {kind}",
        source="V Listing 3.2",
        registers_per_thread=_FEW_REGISTERS,
        inputs=registers,
        body=tuple(lines[kind](r) for r in registers),
    )


def listing_3_3() -> Kernel:
    """Builds a barrier that the first warp of a block reaches later than the others (V Listing 3.3, Fermi)."""
    return Kernel(
        name="listing_3_3",
        title="latency of barrier synchronization",
        source="V Listing 3.3",
        registers_per_thread=_FEW_REGISTERS,
        inputs=("p0", "r1", "r2"),
        body=(
            Conditional(
                src=("p0",),
                warps=(0,),
                then=(
                    Instruction("load", dst="r1", src=("r1",), comment="LD R1, [R1]"),
                    _alu("FADD R1, R1, R2", "r1", "r1", "r2"),
                ),
            ),
            Instruction("barrier", comment="BAR.RED.POPC"),
            _alu("FADD R1, R1, R2", "r1", "r1", "r2"),
        ),
    )


def worksheet_3_2(iterations: int | None = None) -> Kernel:
    """Builds a loop over the instruction mix whose throughput bound V derives (V Tables 3.2, 3.4).

    Each of 5 groups has 20 adds between 2 loads (coalesced, stride 2), 4 shared memory accesses (2 of them with
    2-way conflicts) and an SFU instruction. Each instruction depends on the previous one, except the add after each
    SFU instruction, which can be dual-issued with it (V 3.6).

    Args:
        iterations: how often a warp executes the 135 instructions; None: endless.
    """
    check = Arguments()
    iterations = check.iterations(iterations)
    check.done()
    add = _alu("", "r1", "r1")
    load = Instruction("load", dst="r1", src=("r1",))
    far = Instruction("load", dst="r1", src=("r1",), access=Access(pattern="stride", stride=2))
    smem, conflict = (Instruction("smem", dst="r1", src=("r1",), ways=w) for w in (1, 2))
    root = Instruction("sfu", dst="r2", src=("r1",))
    group = (
        *(load, add, add, add),
        *(smem, add, add, add),
        *(conflict, add, add, add),
        *(root, add, _alu("", "r1", "r1", "r2"), add),
        *(far, add, add, add),
        *(smem, add, add, add),
        *(conflict, add, add),
    )
    return Kernel(
        name="worksheet_3_2",
        title="100 adds, 5 SFU, 20 shared memory and 10 global memory instructions",
        source="V Tables 3.2, 3.4",
        registers_per_thread=_FEW_REGISTERS,
        inputs=("r1",),
        body=(Loop(body=5 * group, trips=iterations),),
    )


BUILDERS: dict[str, Callable[..., Kernel]] = {
    "mix": mix,
    "chain": chain,
    "vector_add": vector_add,
    "permute": permute,
    "vabs": vabs,
    "copy": copy,
    "listing_3_1": listing_3_1,
    "listing_3_2": listing_3_2,
    "listing_3_3": listing_3_3,
    "worksheet_3_2": worksheet_3_2,
    "matrix_multiply": matrix_multiply,
    "producer_consumer": producer_consumer,
    "machine_code": machine_code,
}
"""Name -> builder, for the key `builder` of a kernel file."""


def _alu(comment: str, dst: str, *src: str) -> Instruction:
    return Instruction("alu", dst=dst, src=src, comment=comment)


def _thread_index() -> tuple[Statement, ...]:
    """Returns R2 = threadIdx.x + blockDim.x * blockIdx.x, after setting the stack pointer (V Listing 3.5)."""
    return (
        _alu("MOV R1, c[0x0][0x44]", "r1"),
        _alu("S2R R3, SR_TID.X", "r3"),
        _alu("S2R R0, SR_CTAID.X", "r0"),
        _alu("IMAD R2, R0, c[0x0][0x28], R3", "r2", "r0", "r3"),
    )
