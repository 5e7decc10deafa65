"""The kill suite of the mutants, which `make verify` runs, names tests that exist."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine import kill_suite, test_edges, test_parts, test_state


@pytest.mark.parametrize(
    ("module", "names"),
    [(test_parts, kill_suite.PARTS), (test_edges, kill_suite.OF_EDGES), (test_state, kill_suite.OF_STATE)],
    ids=["parts", "edges", "state"],
)
def test_the_kill_suite_names_tests_that_exist(module: Any, names: dict[str, Any]) -> None:
    assert [name for name in names if not hasattr(module, name)] == []
