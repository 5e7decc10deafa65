"""Statements of a program: instructions, loops and conditionals, which can be nested.

Loops and conditionals are frozen, strict models, with errors like those of an instruction (instruction.py).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from warpsim.hardware.fields import FROM_LIST, Between, StrictModel, from_list
from warpsim.kernels.instruction import (
    Hints,
    Instruction,
    OwnCost,
    Probability,
    RegisterNames,
    cost_problems,
    hint_problems,
    raise_problems,
)
from warpsim.units import MAX_WARPS

MAX_STATEMENTS = 2**17
"""Largest number of statements of one list: a program has no more lines."""

MAX_DEPTH, MAX_LOOP_DEPTH = 200, 16
"""Levels to which statements, and loops that repeat, can be nested. Each level of such loops doubles the walk that finds how long
instructions take a warp alone (docs/model.md, section 4)."""

MAX_TRIPS = 10**12
"""Largest number of trips of a loop; a range of trips is drawn exactly from a random number of 53 bits."""

ENDLESS = "endless"
"""The number of trips of an endless loop in a file, where TOML has no None."""


def _trips(value: Any) -> int | tuple[int, int] | None:
    """Checks a number of trips; a range of one number becomes that number."""
    if value is None or value == ENDLESS:
        return None
    low, high = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    if type(low) is not int or type(high) is not int or not 1 <= low <= high <= MAX_TRIPS:
        allowed = f'must be an integer from 1 to {MAX_TRIPS}, [low, high] with 1 <= low <= high, or "{ENDLESS}"'
        raise PydanticCustomError("trips", allowed)
    return low if low == high else (low, high)


Trips = Annotated[int | tuple[int, int] | None, BeforeValidator(_trips)]


class Loop(StrictModel):
    """Executes `body` several times.

    The loop itself takes no time; add a branch instruction to the body to model its overhead.

    Attributes:
        body: at least one statement.
        trips: number of times, 1 to 10^12; (low, high): drawn uniformly per warp and per entry, both ends
            included (stored as one number if both ends are equal); None or "endless": endless.
    """

    body: SomeStatements
    trips: Trips

    @property
    def trip_range(self) -> tuple[int, int]:
        """The smallest and the largest number of trips; (-1, -1) if endless."""
        if self.trips is None:
            return (-1, -1)
        return (self.trips, self.trips) if isinstance(self.trips, int) else self.trips

    @property
    def mean_trips(self) -> float:
        """The expected number of trips; 1 if endless."""
        return abs(sum(self.trip_range)) / 2


class Conditional(StrictModel):
    """Issues one "branch" instruction, and then executes `then`, `orelse`, or both.

    A warp that executes `then` falls through: the branch is not taken. Otherwise the branch is taken to `orelse`,
    or past the end if `orelse` is empty. Exactly one of `probability`, `warps` and `diverges` must be given.

    Attributes:
        then: at least one statement.
        orelse: statements, possibly none.
        probability: probability that a warp executes `then`. Each execution draws one random number, even if the
            probability is 0 or 1.
        warps: the warps of a block that execute `then`, numbered from 0 to 63.
        diverges: whether the threads of a warp diverge (V 2.3), so that both sides are executed in turn.
        src: registers that the branch reads.
        cost: costs of the branch that differ from those of its class.
        hints: when the branch may issue, in place of what its registers say; None: its registers decide.
    """

    then: SomeStatements
    orelse: Statements = ()
    probability: Probability | None = None
    warps: Annotated[tuple[Annotated[int, Between(0, MAX_WARPS - 1)], ...] | None, FROM_LIST] = None
    diverges: bool = False
    src: RegisterNames = ()
    cost: OwnCost = None
    hints: Hints | None = None

    @model_validator(mode="after")
    def _exactly_one_rule(self) -> Conditional:
        if (self.probability is not None) + (self.warps is not None) + self.diverges != 1:
            given = f"{self.probability}, {self.warps}, {self.diverges}"
            raise ValueError(f"probability, warps, diverges = {given}: exactly one of the three must be given")
        if self.warps is not None and (not self.warps or len(set(self.warps)) != len(self.warps)):
            raise ValueError(f"warps = {list(self.warps)}: must name at least one warp, and each only once")
        raise_problems([*hint_problems(self.hints, "branch"), *cost_problems(self.cost, "branch")])
        return self

    @property
    def branch(self) -> Instruction:
        """The branch instruction that the conditional issues."""
        return Instruction("branch", src=self.src, cost=self.cost, hints=self.hints)

    def sides(self, block_warps: int | None = None) -> tuple[float, float]:
        """Returns how often a warp is expected to execute `then` and `orelse`.

        If that depends on the warp of a block, as many warps of a block of this size count as execute each side, or one half if
        the size is not given.
        """
        if self.diverges:
            return 1.0, 1.0
        then = 0.5 if self.probability is None else self.probability
        if self.warps is not None and block_warps is not None:
            then = sum(warp < block_warps for warp in self.warps) / block_warps
        return then, 1.0 - then

    def falls_through(self, warp: int) -> float:
        """Returns the probability that a warp of a block executes `then`, of a conditional at which threads do not diverge."""
        return float(warp in (self.warps or ())) if self.probability is None else self.probability

    @property
    def divides_block(self) -> bool:
        """Whether warps of the same block can execute different sides."""
        return self.warps is not None or (self.probability is not None and 0.0 < self.probability < 1.0)


_STATEMENT_OF_KEY = {"op": "instruction", "then": "conditional", "body": "loop", "trips": "loop"}
_STATEMENT_OF_MODEL = {Instruction: "instruction", Loop: "loop", Conditional: "conditional"}


def _statement_tag(value: Any) -> str | None:
    if isinstance(value, dict):
        return next((tag for key, tag in _STATEMENT_OF_KEY.items() if key in value), None)
    return next((tag for model, tag in _STATEMENT_OF_MODEL.items() if isinstance(value, model)), None)


Statement = Annotated[
    Annotated[Instruction, Tag("instruction")]
    | Annotated[Loop, Tag("loop")]
    | Annotated[Conditional, Tag("conditional")],
    Discriminator(
        _statement_tag,
        custom_error_type="statement",
        custom_error_message="must be a table with op (an instruction), trips (a loop) or then (a conditional)",
    ),
]
Statements = Annotated[tuple[Statement, ...], from_list(MAX_STATEMENTS)]
SomeStatements = Annotated[Statements, Field(min_length=1)]


Loop.model_rebuild()
Conditional.model_rebuild()
