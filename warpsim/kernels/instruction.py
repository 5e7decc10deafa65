"""One warp instruction: what it reads and writes, how it accesses memory, what it costs, and when it may issue.

An instruction names registers and operation classes and does not depend on a chip. All models are frozen and strict:
unknown names are rejected, and a string is not converted to an integer. A list is accepted for a tuple. Every
error is a ValueError; if several things are wrong in a kernel, each has its own line "key = value: what is
allowed".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from warpsim.hardware.fields import FROM_LIST, Between, Bytes, Count, Cycles, Interval, MustBe, Positive, StrictModel
from warpsim.hardware.operations import MatrixType
from warpsim.kernels.register_reads import RegisterReads
from warpsim.units import ACCESSING_OPS, ATOMIC_OPS, MAX_WARPS, MEMORY_OPS, WARP_LANES

OPS_WITHOUT_RESULT = ("store", "reduction", "barrier", "branch", "exit")
"""Operation classes that write no register."""

_WITHOUT_OPERANDS = ("barrier", "exit")
_COSTS_OF_UPDATES = ("updates", "update_intervals")
_COSTS_OF_ACCESSES = ("requests", "bytes_per_request", "port_sectors", "requested_bytes")

MAX_REQUESTS = 1024
"""Largest number of requests of one instruction."""

MAX_GAP_NS = 10_000
"""Longest time, in ns, from one instruction to the warp's next one."""

MAX_STRIDE, MAX_ADDRESS = 2**31, 2**48
"""Largest stride in elements, and largest byte address."""

MOST_PHASES = 32
"""Phases of an mbarrier that can be open at a time."""

OP_PATTERN = r"^[a-z][a-z0-9_]*$"
"""Regular expression for the name of an operation class."""

OpName = Annotated[str, Field(pattern=OP_PATTERN), MustBe("a name of lower-case letters, digits and _")]
RegisterName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), MustBe("a name of letters, digits and _")]
RegisterNames = Annotated[tuple[RegisterName, ...], FROM_LIST]
MbarrierName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), MustBe("a name of letters, digits and _")]
Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False), MustBe("a number from 0 to 1")]


def raise_problems(problems: list[str]) -> None:
    """Raises one ValueError with a line for each problem, if there are any."""
    if problems:
        raise ValueError("\n".join(problems))


class Access(StrictModel):
    """How the 32 threads of a warp access memory (V 2.5).

    Attributes:
        pattern: "coalesced": thread i accesses element i; "stride": element i * stride; "random": every thread
            accesses an unrelated location (V 6.7); "broadcast": all threads access the same element;
            "addresses": the offsets in `addresses`.
        bytes_per_thread: bytes that each thread accesses, the size of an element: 1, 2, 4, 8 or 16.
        stride: distance between neighbouring threads, in elements. It is 1 unless the pattern is "stride".
        addresses: 32 byte offsets, one per thread, each a multiple of `bytes_per_thread`; given only with
            pattern "addresses".
        offset_bytes: added to every address, a multiple of `bytes_per_thread`. Address 0 is aligned to any
            transaction.
        l1_hit: probability that the L1 cache serves the access.
        l2_hit: probability that the L2 cache serves an access that missed L1.
        l1_late_cycles, l2_late_cycles: for how many cycles, on average, what L1 serves is still on its way there, and what L2
            serves, as an earlier access has asked for it. They add to the latency of a hit.
        l2_coalesced: share of the reads of L2 that are made once for several SMs, which ask for the same sectors at almost the
            same time, beyond the first read: chips with an L2 request coalescer (LRC).
        l2_kept: of a store, the share that L2 still holds at the end of the launch and DRAM never sees. It counts in launches
            with a number of blocks, on chips with a known latency of L2.
        contended_addresses: number of addresses that the accesses of all warps update; only for "atomic" and "reduction".
            None: so many that they do not meet.
    """

    pattern: Literal["coalesced", "stride", "random", "broadcast", "addresses"] = "coalesced"
    bytes_per_thread: Literal[1, 2, 4, 8, 16] = 4
    stride: Annotated[int, Between(1, MAX_STRIDE)] = 1
    addresses: Annotated[tuple[Annotated[int, Between(0, MAX_ADDRESS)], ...] | None, FROM_LIST] = None
    offset_bytes: Annotated[int, Between(0, MAX_ADDRESS)] = 0
    l1_hit: Probability = 0.0
    l2_hit: Probability = 0.0
    l1_late_cycles: Cycles = 0
    l2_late_cycles: Cycles = 0
    l2_coalesced: Probability = 0.0
    l2_kept: Probability = 0.0
    contended_addresses: Count | None = None

    @model_validator(mode="after")
    def _fields_agree(self) -> Access:
        problems = []
        if self.stride != 1 and self.pattern != "stride":
            problems.append(f'stride = {self.stride}: must be 1 unless pattern = "stride"')
        multiple = f"a multiple of bytes_per_thread = {self.bytes_per_thread}"
        if self.offset_bytes % self.bytes_per_thread:
            problems.append(f"offset_bytes = {self.offset_bytes}: must be {multiple}")
        if self.offset_bytes and self.pattern == "random":
            problems.append(f'offset_bytes = {self.offset_bytes}: must be 0 with pattern = "random"')
        if (self.addresses is not None) != (self.pattern == "addresses"):
            problems.append(f'addresses = {self.addresses}: must be given with pattern = "addresses", and only then')
        elif self.addresses is not None:
            if len(self.addresses) != WARP_LANES:
                problems.append(f"addresses = {len(self.addresses)} numbers: must be {WARP_LANES} numbers, one per thread")
            misaligned = [address for address in self.addresses if address % self.bytes_per_thread]
            if misaligned:
                problems.append(f"addresses = [{misaligned[0]}, ...]: each must be {multiple}")
        raise_problems(problems)
        return self


class Cost(StrictModel):
    """What a single instruction costs, where it differs from its operation class (docs/model.md, section 2).

    Each field replaces what the class, the bank conflict and the access give; None leaves it at that. An instruction with a
    cost of its own does not follow changes of the same field of its class.

    Attributes:
        interval_cycles: time for which the instruction occupies its unit, with all passes of a conflict: a number, or an
            exact fraction such as "3/2".
        passes: of an access, those in L1 or in shared memory: a number, or a fraction. Given together with `interval_cycles`,
            that is without them.
        multiply_adds: those of a matrix instruction, which occupies its unit for as long as the chip's rate for its `operands`
            says; given together with these, in place of `interval_cycles`.
        operands: type of its operands and sums, such as "f16_f32" (`hardware.operations.MatrixType`).
        latency_cycles: register dependency latency for every consumer; not for loads and stores.
        gap_cycles: minimum number of cycles to the next issue of the same warp, such as the stall count of the machine
            code; of a branch, whether it is taken or not.
        gap_ns: the same as a time, as that for which a warp sleeps; given in place of `gap_cycles`.
        issue_slots: issue slots that the instruction takes, with its reissues, each of the chip's `issue.interval_cycles`.
        requests: requests that a load or a store sends into the memory's queues; given together with `bytes_per_request`.
        bytes_per_request: bytes that each of them moves.
        port_sectors: of a store, sectors that L2 takes in for each of them, with one more if it is written in part; left out:
            `bytes_per_request` / 32.
        requested_bytes: bytes that the threads of a load or a store ask for, which count for the bandwidth.
        updates: threads of an "atomic" or a "reduction" that update one address, one after another.
        update_intervals: for how many of the chip's `atomic_interval_cycles` each of these keeps the address; left out: 1.
    """

    interval_cycles: Interval | None = None
    passes: Interval | None = None
    multiply_adds: Count | None = None
    operands: MatrixType | None = None
    latency_cycles: Cycles | None = None
    gap_cycles: Count | None = None
    gap_ns: Annotated[int, Between(1, MAX_GAP_NS)] | None = None
    issue_slots: Annotated[int, Between(1, 10_000)] | None = None
    requests: Annotated[int, Between(1, MAX_REQUESTS)] | None = None
    bytes_per_request: Positive | None = None
    port_sectors: Positive | None = None
    requested_bytes: Bytes | None = None
    updates: Annotated[int, Between(1, WARP_LANES)] | None = None
    update_intervals: Positive | None = None

    @model_validator(mode="after")
    def _fields_agree(self) -> Cost:
        if (self.requests is None) != (self.bytes_per_request is None):
            given = f"{self.requests}, {self.bytes_per_request}"
            raise ValueError(f"requests, bytes_per_request = {given}: must be given together, or neither")
        if (self.multiply_adds is None) != (self.operands is None):
            given = f"{self.multiply_adds}, {self.operands}"
            raise ValueError(f"multiply_adds, operands = {given}: must be given together, or neither")
        if self.gap_cycles is not None and self.gap_ns is not None:
            raise ValueError(f"gap_ns = {self.gap_ns}: must be left out with gap_cycles")
        if self.multiply_adds is not None and self.interval_cycles is not None:
            raise ValueError(f"interval_cycles = {self.interval_cycles}: must be left out with multiply_adds")
        return self

    @property
    def given(self) -> frozenset[str]:
        """The names of the fields that are not None."""
        return frozenset(name for name, value in vars(self).items() if value is not None)


OwnCost = Annotated[Cost | None, AfterValidator(lambda cost: cost if cost is not None and cost.given else None)]
"""Costs of an instruction's own; a `Cost` without any becomes None."""


COUNTERS, MOST_COUNTED = 6, 63
"""Dependence counters of a warp, and what one counts at most (Huerta et al. 2025)."""

_Counter = Annotated[int, Between(0, COUNTERS - 1)]


class Mbarrier(StrictModel):
    """A barrier in the shared memory of a block, by which some warps wait for others (docs/model.md, section 4).

    An array of such barriers that are used in turn, one for each stage of a pipeline, is one Mbarrier.

    Attributes:
        name: by which instructions name it.
        arrivals: those that complete a phase; a warp arrives once in each.
        ahead: phases that are complete at the start: as where the buffers that consumers hand back are free at first.
    """

    name: MbarrierName
    arrivals: Annotated[int, Between(1, MAX_WARPS)]
    ahead: Annotated[int, Between(0, MOST_PHASES)] = 0


class Hints(StrictModel):
    """When an instruction may issue, as machine code since Volta states it (docs/model.md, section 3).

    Attributes:
        waits: dependence counters that must be at most `at_most` when the instruction issues.
        at_most: that limit; 0: everything that they count is done.
        write: the counter that counts the instruction until its result can be used; None: none.
        read: the counter that counts it until its operands have been read; None: none.
        yields: whether its warp leaves the next cycle to others.
    """

    waits: Annotated[tuple[_Counter, ...], FROM_LIST] = ()
    at_most: Annotated[int, Between(0, MOST_COUNTED)] = 0
    write: _Counter | None = None
    read: _Counter | None = None
    yields: bool = False


class Instruction(StrictModel):
    """One warp instruction: `Instruction("alu", dst="r1", src=["r1", "r2"])`.

    Attributes:
        op: operation class: "alu", "sfu", "smem", "load", "store", "barrier", "branch", "exit", or another
            class of the chip's file.
        dst: register written, or None; "store", "reduction", "barrier", "branch" and "exit" write none.
        src: registers read.
        access: how memory is accessed; only for the classes of global memory, "load", "store", "texture", "atomic", "reduction"
            and "async_copy" (default: coalesced, 4 bytes per thread), and for "smem".
        ways: degree of the bank conflict of an "smem" instruction (V 2.6), from 1 to 32. It must be 1 if
            `access` is given, which then determines the conflict.
        cost: costs of this instruction that differ from those of its class; None: those of its class.
        reads: machine registers in the operand slots of the machine instruction, such as ("R2", "R4.reuse", "", "R24:32"), 32
            registers from R24 on: the register file's banks and ports depend on them, dependences do not.
        hints: when it may issue, in place of what its registers say; None: its registers decide.
        arrives: the mbarrier of the block at which the warp arrives with this instruction (docs/model.md, section 4).
        awaits: the mbarrier for whose next phase the warp waits after this instruction.
        reports: the mbarrier at which later arrivals of the warp wait for this "async_copy"; left out if it arrives itself.
        comment: free text, such as the corresponding machine instruction.
    """

    op: OpName
    dst: RegisterName | None = None
    src: RegisterNames = ()
    access: Annotated[Access | None, Field(validate_default=True)] = None
    ways: Annotated[int, Between(1, WARP_LANES)] = 1
    cost: OwnCost = None
    reads: RegisterReads = ()
    hints: Hints | None = None
    arrives: MbarrierName | None = None
    awaits: MbarrierName | None = None
    reports: MbarrierName | None = None
    comment: str = ""

    def __init__(self, *op: str, **fields: Any) -> None:
        """Accepts `op` as the only positional argument."""
        if len(op) > 1 or (op and "op" in fields):
            raise TypeError("Instruction takes one positional argument, op; all others are keyword arguments")
        super().__init__(**({"op": op[0]} if op else {}), **fields)

    @property
    def names_mbarrier(self) -> bool:
        """Whether the warp arrives at an mbarrier with it, or awaits one."""
        return self.arrives is not None or self.awaits is not None

    @property
    def reports_to(self) -> str | None:
        """The mbarrier at which arrivals of the warp wait for it; None: it is no such copy."""
        return self.reports or (self.arrives if self.op == "async_copy" else None)

    @field_validator("access")
    @classmethod
    def _coalesced_by_default(cls, access: Access | None, info: Any) -> Access | None:
        return Access() if access is None and info.data.get("op") in MEMORY_OPS else access

    @model_validator(mode="after")
    def _fields_agree(self) -> Instruction:
        problems = []
        if self.dst is not None and self.op in OPS_WITHOUT_RESULT:
            problems.append(f"dst = {self.dst!r}: must be left out, since {self.op} writes no register")
        if self.src and self.op in _WITHOUT_OPERANDS:
            problems.append(f"src = {list(self.src)}: must be left out, since {self.op} reads no register")
        if self.access is not None and self.op not in ACCESSING_OPS:
            allowed = ", ".join(ACCESSING_OPS)
            problems.append(f"access = {self.access.pattern!r}: must be left out for {self.op}; only {allowed} access memory")
        if self.op == "smem" and self.access is not None:
            if self.access.pattern == "random":
                problems.append('access.pattern = "random": must be another pattern for smem; or give ways instead of access')
            if self.access.l1_hit or self.access.l2_hit:
                hits = f"{self.access.l1_hit}, {self.access.l2_hit}"
                problems.append(f"access.l1_hit, access.l2_hit = {hits}: must be 0 for smem")
            if self.ways != 1:
                problems.append(f"ways = {self.ways}: must be 1 if access is given, which determines the conflict")
        if self.access is not None:
            problems += _problems_of_caches(self.access, self.op)
            problems += _problems_of_atomics(self.access, self.op)
        if self.ways != 1 and self.op != "smem":
            problems.append(f"ways = {self.ways}: must be 1 for {self.op}: only smem has bank conflicts")
        problems += hint_problems(self.hints, self.op)
        problems += _problems_of_mbarriers(self)
        problems += cost_problems(self.cost, self.op)
        raise_problems(problems)
        return self


def _problems_of_caches(access: Access, op: str) -> Iterator[str]:
    """Yields errors for what an access states of the caches and an instruction of class `op` cannot have."""
    if access.l2_kept and op != "store":
        yield f"access.l2_kept = {access.l2_kept}: must be 0 for {op}; only stores stay in L2"
    if op in ("smem", "store", *ATOMIC_OPS) and access.l2_coalesced:
        yield f"access.l2_coalesced = {access.l2_coalesced}: must be 0 for {op}; only loads read L2 for several SMs at once"
    if op in ("smem", "store") and (access.l1_late_cycles or access.l2_late_cycles):
        late = f"{access.l1_late_cycles}, {access.l2_late_cycles}"
        yield f"access.l1_late_cycles, access.l2_late_cycles = {late}: must be 0 for {op}, which waits for no data of the caches"


def _problems_of_atomics(access: Access, op: str) -> Iterator[str]:
    """Yields errors for an access that an instruction of class `op` cannot have, because it is an atomic, or is not."""
    if access.contended_addresses is not None and op not in ATOMIC_OPS:
        allowed = ", ".join(ATOMIC_OPS)
        yield f"access.contended_addresses = {access.contended_addresses}: must be left out for {op}; only {allowed} have it"
    if access.l1_hit and op in ATOMIC_OPS:
        yield f"access.l1_hit = {access.l1_hit}: must be 0 for {op}, which L2 performs"


def _problems_of_mbarriers(one: Instruction) -> Iterator[str]:
    """Yields errors for mbarriers that an instruction of its class cannot name."""
    if one.arrives is not None and (one.op in OPS_WITHOUT_RESULT or (one.op in MEMORY_OPS and one.op != "async_copy")):
        yield f"arrives = {one.arrives!r}: must be left out for {one.op}; an async_copy arrives, or a class without an access"
    if one.awaits is not None and one.op in (*MEMORY_OPS, *OPS_WITHOUT_RESULT):
        yield f"awaits = {one.awaits!r}: must be left out for {one.op}; a class without an access of its own tests an mbarrier"
    if one.reports is not None and (one.op != "async_copy" or one.arrives is not None):
        yield f"reports = {one.reports!r}: must be left out but for an async_copy that does not arrive itself"
    if one.awaits is not None and one.arrives is not None:
        yield f"arrives, awaits = {one.arrives!r}, {one.awaits!r}: must not be given together"


def hint_problems(hints: Hints | None, op: str) -> list[str]:
    """Returns errors for hints that an instruction of class `op` cannot have."""
    if hints is None or hints.write is None or op not in OPS_WITHOUT_RESULT:
        return []
    return [f"hints.write = {hints.write}: must be left out, since {op} has no result"]


def cost_problems(cost: Cost | None, op: str) -> Iterator[str]:
    """Yields errors for costs that an instruction of class `op` cannot have."""
    given = frozenset[str]() if cost is None else cost.given
    for name in sorted(given):
        value = getattr(cost, name)
        if name == "latency_cycles" and op in MEMORY_OPS:
            yield f"cost.{name} = {value}: must be left out for {op}, since the memory system determines the latency"
        elif name == "latency_cycles" and op in OPS_WITHOUT_RESULT:
            yield f"cost.{name} = {value}: must be left out, since {op} writes no register"
        elif name in _COSTS_OF_ACCESSES and op not in MEMORY_OPS:
            yield f"cost.{name} = {value}: must be left out for {op}; only {', '.join(MEMORY_OPS)} have it"
        elif name == "passes" and op not in ACCESSING_OPS:
            yield f"cost.{name} = {value}: must be left out for {op}; only {', '.join(ACCESSING_OPS)} have it"
        elif name in _COSTS_OF_UPDATES and op not in ATOMIC_OPS:
            yield f"cost.{name} = {value}: must be left out for {op}; only {', '.join(ATOMIC_OPS)} have it"
