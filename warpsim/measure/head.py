"""The keys of a record's head that a chip file needs, and what each may be.

A part of the session gives a part of a record, so that every key may be missing: who needs one says so. Other keys are free.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from warpsim.hardware.fields import Between, Bytes, Count, MustBe, NotNegative
from warpsim.hardware.file_errors import lines, problems

_Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$"), MustBe("text of one line")]
_Threads = Annotated[int, Between(32, 10**6)]
_Size = Annotated[int, Between(0, 10**15)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Device(_Part):
    name: _Line | None = None
    compute_capability: Annotated[str, Field(pattern=r"^[1-9]\d?\.\d$"), MustBe('text such as "9.0"')] | None = None
    sms: Count | None = None
    max_threads_per_sm: _Threads | None = None
    max_blocks_per_sm: Count | None = None
    max_threads_per_block: _Threads | None = None
    registers_per_sm: Count | None = None
    shared_bytes_per_sm: Bytes | None = None
    shared_bytes_per_block: Bytes | None = None
    shared_bytes_reserved: Bytes | None = None
    l2_bytes: _Size | None = None
    memory_clock_ghz: NotNegative | None = None
    memory_bus_bits: Annotated[int, Between(0, 10**6)] | None = None
    driver: _Line | None = None


class _Run(_Part):
    begun: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d"), MustBe("a date such as 2026-11-26")] | None = None


class _Head(_Part):
    device: _Device = _Device()
    run: _Run = _Run()


def faults(path: str | os.PathLike[str], head: Mapping[str, Any]) -> list[str]:
    """Returns a line `path: key = value: what is allowed` for each key of a head that is wrong."""
    try:
        _Head.model_validate(head)
    except ValidationError as error:
        return [f"{path}: {line}" for line in lines(problems(_Head, error))]
    return []
