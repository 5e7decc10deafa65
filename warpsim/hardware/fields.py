"""Field types of the models that describe parameter files, each with its own error message.

A type that is annotated with `MustBe` or `Between` rejects a value with one message that states everything that
is allowed, such as "must be an integer from 1 to 64".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    ValidationError,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from warpsim.hardware.file_errors import lines, problems


class StrictModel(BaseModel):
    """A frozen model that rejects unknown keys and converts no types: 1.0 is not an integer.

    The constructor takes numbers of other libraries, such as NumPy's, for those of Python. It states its errors as files do: a
    ValueError with a line `key = value: what is allowed` for each.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**{name: one if isinstance(one, Fraction) else plain_number(one) for name, one in data.items()})
        except ValidationError as error:
            raise ValueError("\n".join(lines(problems(type(self), error)))) from None
        except UnicodeEncodeError as error:
            raise ValueError(f"{type(self).__name__} = {error.object!r:.60}: must be text that is valid Unicode") from None

    # Tables inside a table are validated without this constructor, so that errors keep their whole location.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


@dataclass(frozen=True)
class MustBe:
    """Replaces all errors of the annotated type by the message "must be `allowed`"."""

    allowed: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Wraps the schema of the annotated type."""
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="not_allowed", custom_error_message=f"must be {self.allowed}"
        )


@dataclass(frozen=True)
class Between:
    """Restricts an integer to `least` to `most`; without `most` there is no upper limit."""

    least: int
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns the schema of an integer within the limits."""
        end = "" if self.most is None else f" to {self.most}"
        return core_schema.custom_error_schema(
            core_schema.int_schema(ge=self.least, le=self.most),
            custom_error_type="not_allowed",
            custom_error_message=f"must be an integer from {self.least}{end}",
        )


MAX_ITEMS = 2**24
"""Largest number of items of a list, where nothing says less."""


def from_list(most: int = MAX_ITEMS) -> BeforeValidator:
    """Accepts a list, as TOML and JSON have it, for a tuple, and refuses more items than `most` before it looks at them."""

    def convert(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        if len(value) > most:
            what = {"most": most, "count": len(value)}
            raise PydanticCustomError("too_many", "must have at most {most} items, not {count}", what)
        return tuple(value)

    return BeforeValidator(convert)


FROM_LIST = from_list()

# Upper limits leave room for 64-bit integers and exact float64 in runs of 10**12 cycles (tests/simulation/test_overflow.py).
Count = Annotated[int, Between(1, 10**6)]
Cycles = Annotated[int, Between(0, 10**6)]
Bytes = Annotated[int, Between(0, 10**9)]
Positive = Annotated[float, Field(ge=1e-3, le=1e9, allow_inf_nan=False), MustBe("a number from 0.001 to 1e9")]
Finite = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False), MustBe("a number from -1e6 to 1e6")]
NotNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False), MustBe("a number from 0 to 1e6")]
Name = Annotated[str, Field(min_length=1), MustBe("text that is not empty")]

MAX_INTERVAL, MAX_DENOMINATOR = 10**6, 1000
"""Limits of the interval of an operation class, in cycles, and of its denominator."""

_ROUNDING = Fraction(1, 10**9)
"""Relative rounding error up to which a decimal number is read as a fraction, such as 1.3333333333 as 4/3."""


def _fraction(value: object) -> Fraction:
    """Converts an interval to an exact fraction; a float becomes the nearest fraction with a small denominator."""
    if isinstance(value, str) and not re.fullmatch(r"\d+(\.\d+)?|\d+/[1-9]\d*", value):
        raise ValueError("not a fraction")
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        raise ValueError("not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not finite")
    exact = Fraction(value)
    small = exact.limit_denominator(MAX_DENOMINATOR)
    if not 0 < small <= MAX_INTERVAL or abs(exact - small) > _ROUNDING * small:
        raise ValueError("not a fraction with a small denominator")
    return small


Interval = Annotated[
    Fraction,
    PlainValidator(_fraction),
    PlainSerializer(str, return_type=str, when_used="json"),
    MustBe(f'a number above 0 and up to {MAX_INTERVAL}, or an exact fraction such as "2/3" (denominators to {MAX_DENOMINATOR})'),
]


def plain_number(value: Any) -> Any:
    """Returns a number of another library, such as NumPy's, as one of Python's; everything else stays as it is."""
    if isinstance(value, int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def is_number(value: object) -> bool:
    """Returns whether a value of a file is a number; the truth values of TOML are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class NamedModel(StrictModel):
    """A strict model with a name, by which messages show it; `print` shows all of it."""

    name: Name

    def __repr__(self) -> str:
        """Returns the class and the name: messages print what was given, and all of a chip has pages."""
        return f"{type(self).__name__}({self.name!r})"
