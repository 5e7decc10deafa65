"""How parts of the engine become machine code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba.core import config

from warpsim.engine import jit as compiling


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_parts_belong_to_their_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two entry points can have one name, so that the linker must not find those of another one."""
    monkeypatch.setattr(compiling, "CACHE_FOLDER", None)

    @compiling.apart
    def long_part(record):
        total = 0
        for value in record.values:
            total += value
        return total

    @compiling.jit
    def entry_point(records):
        return long_part(records[0])

    for lanes in (2, 3):
        records = np.zeros(1, [("values", "i8", lanes)]).view(np.recarray)
        records.values = 7
        assert entry_point(records) == 7 * lanes
    for compiled in entry_point.overloads.values():
        defined = [line for line in compiled.library.get_llvm_str().splitlines() if line.startswith("define")]
        parts = [line for line in defined if "long_part" in line]
        assert len(parts) == 1 and re.match(r"define internal ", parts[0])
        assert not any("linkonce" in line for line in defined)
