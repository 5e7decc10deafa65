"""Statements, of which a program consists: instructions, loops and conditionals, which may be nested.

They name registers and operation classes and know nothing of any chip. All models are frozen and strict:
unknown names are refused, and an integer is not a string. Lists are taken where a tuple is declared. Every
error is a ValueError; where several things are wrong in a kernel, each has its own line "key = value: what is
allowed".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    field_validator,
    model_validator,
)

__all__ = [
    "MEMORY_OPS",
    "OP_PATTERN",
    "WARP_SIZE",
    "Access",
    "Conditional",
    "Instruction",
    "Loop",
    "Record",
    "Registers",
    "Statement",
    "Statements",
    "checked",
    "parts",
    "walk",
]

WARP_SIZE = 32
"""Threads per warp."""

MEMORY_OPS = ("load", "store")
"""Operation classes that access global memory."""

_ACCESSING_OPS = (*MEMORY_OPS, "smem")
_WITHOUT_RESULT = ("store", "barrier", "branch", "exit")
_WITHOUT_OPERANDS = ("barrier", "exit")
_TRIPS = "an integer of at least 1, {0} with 1 <= low <= high, or {1}"


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _trips(value: Any) -> int | tuple[int, int] | None:
    ends = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    if value is not None and (not all(type(end) is int for end in ends) or not 1 <= ends[0] <= ends[1]):
        raise ValueError(_TRIPS.format("(low, high)", "None for endless"))
    return None if value is None else ends[0] if ends[0] == ends[1] else (ends[0], ends[1])


_FromList = BeforeValidator(_as_tuple)

OP_PATTERN = r"^[a-z][a-z0-9_]*$"
"""What the name of an operation class looks like."""

OpName = Annotated[str, Field(pattern=OP_PATTERN, examples=["a name of lower-case letters, digits and _"])]
_REGISTER = r"^[A-Za-z_][A-Za-z0-9_]*$"
Register = Annotated[str, Field(pattern=_REGISTER, examples=["a name of letters, digits and _"])]
Registers = Annotated[tuple[Register, ...], _FromList]
Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]

Trips = Annotated[
    int | tuple[int, int] | None,
    BeforeValidator(_trips),
    WithJsonSchema({"examples": [_TRIPS.format("[low, high]", '"endless"')]}),
]


class Record(BaseModel):
    """A strict, frozen model that refuses unknown keys."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


_Model = TypeVar("_Model", bound=Record)


def checked(model: _Model, problems: list[str]) -> _Model:
    """Return the model, for use in its validators.

    Raises:
        ValueError: there are problems; one line for each.
    """
    if problems:
        raise ValueError("\n".join(problems))
    return model


class Access(Record):
    """How the 32 threads of a warp access memory (V 2.5).

    Attributes:
        pattern: "coalesced": thread i accesses element i; "stride": element i * stride; "random": every
            thread an unrelated place (V 6.7); "broadcast": all threads the same element; "addresses": as
            given.
        bytes_per_thread: bytes that each thread accesses: 1, 2, 4, 8 or 16. One such unit is an element.
        stride: distance between neighbouring threads, in elements; other than 1 only with pattern "stride".
        addresses: 32 byte offsets, one per thread, each a multiple of `bytes_per_thread`; only with pattern
            "addresses".
        offset_bytes: added to every address, a multiple of `bytes_per_thread`; an offset of 0 is aligned to
            any transaction.
        l1_hit: probability that the access is served by the L1 cache.
        l2_hit: probability that an access that missed L1 is served by the L2 cache.
    """

    pattern: Literal["coalesced", "stride", "random", "broadcast", "addresses"] = "coalesced"
    bytes_per_thread: Literal[1, 2, 4, 8, 16] = 4
    stride: Annotated[int, Field(ge=1)] = 1
    addresses: Annotated[tuple[Annotated[int, Field(ge=0)], ...] | None, _FromList] = None
    offset_bytes: Annotated[int, Field(ge=0)] = 0
    l1_hit: Probability = 0.0
    l2_hit: Probability = 0.0

    @model_validator(mode="after")
    def _fields_agree(self) -> Access:
        problems = []
        if self.stride != 1 and self.pattern != "stride":
            problems.append(f'stride = {self.stride}: 1, unless pattern = "stride"')
        multiple = f"a multiple of bytes_per_thread, {self.bytes_per_thread}"
        if self.offset_bytes % self.bytes_per_thread:
            problems.append(f"offset_bytes = {self.offset_bytes}: {multiple}")
        if self.offset_bytes and self.pattern == "random":
            problems.append(f'offset_bytes = {self.offset_bytes}: 0 with pattern = "random"')
        if (self.addresses is not None) != (self.pattern == "addresses"):
            problems.append(f'addresses = {self.addresses}: given with pattern = "addresses", and only then')
        elif self.addresses is not None:
            if len(self.addresses) != WARP_SIZE:
                problems.append(f"addresses = {len(self.addresses)} numbers: {WARP_SIZE}, one per thread")
            odd = [address for address in self.addresses if address % self.bytes_per_thread]
            if odd:
                problems.append(f"addresses = {odd[0]}, among others: each {multiple}")
        return checked(self, problems)


class Instruction(Record):
    """One warp instruction: `Instruction("alu", dst="r1", src=["r1", "r2"])`.

    Attributes:
        op: operation class: "alu", "sfu", "smem", "load", "store", "barrier", "branch", "exit", or another
            that a chip's file adds.
        dst: register written, or None; "store", "barrier", "branch" and "exit" write none.
        src: registers read.
        access: how memory is accessed; only for "load", "store" (left out: coalesced, 4 bytes per thread) and
            "smem".
        ways: degree of the bank conflict of an "smem" instruction (V 2.6), 1 to 32; left at 1 where `access`
            is given, which says it instead.
        comment: free text, such as the machine instruction meant.
    """

    op: OpName
    dst: Register | None = None
    src: Registers = ()
    access: Annotated[Access | None, Field(validate_default=True)] = None
    ways: Annotated[int, Field(ge=1, le=WARP_SIZE)] = 1
    comment: str = ""

    def __init__(self, *op: str, **fields: Any) -> None:
        """Take `op` as the one positional argument."""
        if len(op) > 1 or (op and "op" in fields):
            raise TypeError("Instruction takes one positional argument, op; all others are named")
        super().__init__(**({"op": op[0]} if op else {}), **fields)

    @field_validator("access")
    @classmethod
    def _coalesced_by_default(cls, access: Access | None, info: Any) -> Access | None:
        return Access() if access is None and info.data.get("op") in MEMORY_OPS else access

    @model_validator(mode="after")
    def _fields_agree(self) -> Instruction:
        problems = []
        if self.dst is not None and self.op in _WITHOUT_RESULT:
            problems.append(f"dst = {self.dst!r}: left out, since {self.op} writes no register")
        if self.src and self.op in _WITHOUT_OPERANDS:
            problems.append(f"src = {list(self.src)}: left out, since {self.op} reads no register")
        if self.access is not None and self.op not in _ACCESSING_OPS:
            allowed = ", ".join(_ACCESSING_OPS)
            problems.append(f"access = {self.access.pattern!r}: only for {allowed}, not for {self.op}")
        if self.op == "smem" and self.access is not None:
            if self.access.pattern == "random":
                problems.append('access.pattern = "random": any other for smem, or ways')
            if self.access.l1_hit or self.access.l2_hit:
                hits = f"{self.access.l1_hit}, {self.access.l2_hit}"
                problems.append(f"access.l1_hit, access.l2_hit = {hits}: 0 for smem")
            if self.ways != 1:
                problems.append(f"ways = {self.ways}: 1 where access is given, which says the conflict")
        if self.ways != 1 and self.op != "smem":
            problems.append(f"ways = {self.ways}: 1 for {self.op}; only smem has bank conflicts")
        return checked(self, problems)


class Loop(Record):
    """Executes `body` several times.

    The loop itself costs nothing: write a branch instruction into the body if it should.

    Attributes:
        body: at least one statement.
        trips: number of times, at least 1; (low, high): drawn uniformly per warp and per entry, both ends
            included (and kept as one number where the two are the same); None: endless.
    """

    body: SomeStatements
    trips: Trips

    @property
    def trip_range(self) -> tuple[int, int]:
        """The least and the greatest number of trips; (-1, -1) if endless."""
        if self.trips is None:
            return (-1, -1)
        return (self.trips, self.trips) if isinstance(self.trips, int) else self.trips


class Conditional(Record):
    """Executes `then` or `orelse`, or both. It issues one "branch" instruction first.

    A warp that executes `then` falls through (the branch is not taken); otherwise the branch is taken to
    `orelse`, or past the end where that is empty. Exactly one of `probability`, `warps` and `diverges` is
    given.

    Attributes:
        then: at least one statement.
        orelse: statements, possibly none.
        probability: that a warp executes `then`; one random number is drawn at each execution, whatever the
            probability.
        warps: the warps of a block, counted from 0 and at most 63, that execute `then`.
        diverges: the threads of the warp part (V 2.3): both sides are executed, one after the other.
        src: registers that the branch reads.
    """

    then: SomeStatements
    orelse: Statements = ()
    probability: Probability | None = None
    warps: Annotated[tuple[Annotated[int, Field(ge=0, le=63)], ...] | None, _FromList] = None
    diverges: bool = False
    src: Registers = ()

    @model_validator(mode="after")
    def _exactly_one_rule(self) -> Conditional:
        if (self.probability is not None) + (self.warps is not None) + self.diverges != 1:
            given = f"{self.probability}, {self.warps}, {self.diverges}"
            raise ValueError(f"probability, warps, diverges = {given}: exactly one of the three")
        if self.warps is not None and (not self.warps or len(set(self.warps)) != len(self.warps)):
            raise ValueError(f"warps = {list(self.warps)}: at least one warp, each once")
        return self

    @property
    def divides_block(self) -> bool:
        """Whether some warps of a block may execute one side and others the other."""
        return self.warps is not None or (self.probability is not None and 0.0 < self.probability < 1.0)


def _statement_kind(value: Any) -> str | None:
    if isinstance(value, dict):
        keys = {"op": "instruction", "then": "conditional", "body": "loop", "trips": "loop"}
        return next((kind for key, kind in keys.items() if key in value), "instruction")
    kinds = {Instruction: "instruction", Loop: "loop", Conditional: "conditional"}
    return next((kind for model, kind in kinds.items() if isinstance(value, model)), None)


Statement = Annotated[
    Annotated[Instruction, Tag("instruction")]
    | Annotated[Loop, Tag("loop")]
    | Annotated[Conditional, Tag("conditional")],
    Discriminator(_statement_kind),
]
Statements = Annotated[tuple[Statement, ...], _FromList, Field(examples=["a list of statements"])]
SomeStatements = Annotated[Statements, Field(min_length=1, examples=["a list of at least one statement"])]


def expected_ops(statements: Iterable[Statement]) -> Iterator[tuple[str, float]]:
    """Operation classes with how often a warp executes each, over chance; of an endless loop, in one repetition.

    A conditional is a "branch"; where the warps of a block choose, half of them take each side.
    """
    for statement in statements:
        if isinstance(statement, Instruction):
            yield statement.op, 1.0
        elif isinstance(statement, Loop):
            times = abs(sum(statement.trip_range)) / 2
            yield from ((op, times * count) for op, count in expected_ops(statement.body))
        else:
            yield "branch", 1.0
            then = 0.5 if statement.probability is None else statement.probability
            both = statement.diverges
            for side, times in ((statement.then, 1.0 if both else then), (statement.orelse, 1.0 if both else 1.0 - then)):
                yield from ((op, times * count) for op, count in expected_ops(side))


def walk(statements: tuple[Statement, ...], path: str = "body") -> Iterator[tuple[str, Statement]]:
    """Every statement in program order, outer before inner, with its path, such as "body[3].then[0]"."""
    for index, statement in enumerate(statements):
        here = f"{path}[{index}]"
        yield here, statement
        for name, inner in parts(statement):
            yield from walk(inner, f"{here}.{name}")


def parts(statement: Statement) -> tuple[tuple[str, tuple[Statement, ...]], ...]:
    """The statements inside a statement, by the name of the field that holds them."""
    if isinstance(statement, Loop):
        return (("body", statement.body),)
    if isinstance(statement, Conditional):
        return (("then", statement.then), ("orelse", statement.orelse))
    return ()


Loop.model_rebuild()
Conditional.model_rebuild()
