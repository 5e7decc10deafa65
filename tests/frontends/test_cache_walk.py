"""The compiled part of the walk through caches: how lines are spread over sets, and where its machine code is kept."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import config

from warpsim.frontends.caches.compiled_walk import hashed

HASHED = "import numpy as np; from warpsim.frontends.caches.compiled_walk import hashed; print(hashed(np.int64(5), np.int64(8)))"


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_damaged_machine_code_is_compiled_again(tmp_path: Path) -> None:
    """As the engine's is: a truncated file must not stop every import from then on."""

    def run() -> tuple[str, str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run([sys.executable, "-c", HASHED], capture_output=True, text=True, check=True, env=environment)
        return done.stdout, done.stderr

    expected = run()
    assert run() == expected
    kept = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
    assert len(kept) >= 2 and all(file.is_relative_to(tmp_path / "warpsim") for file in kept)
    for file in kept:
        os.truncate(file, 40)
    out, said = run()
    assert out == expected[0] and "is damaged; it is compiled again" in said
    assert run() == expected


@pytest.mark.parametrize(
    ("count", "distance", "in_a_row", "sets"),
    [
        (131072, 1, 1, 16384), (1400, 1, 1, 92), (2048, 64, 32, 8192), (512, 64, 2, 80), (512, 128, 2, 80), (1024, 96, 1, 80),
        (2048, 1024, 32, 8192), (1024, 1 << 22, 128, 20480), (3456, 1 << 22, 64, 20480),
    ],
)  # fmt: skip
def test_lines_are_spread_evenly_whatever_their_distance(count, distance, in_a_row, sets):
    """Rows of matrices, and regions of local memory: hardly any set of 16 ways gets more than these where fewer do on average."""
    lines = (np.arange(count)[:, None] * distance + np.arange(in_a_row) + (1 << 34)).ravel()
    taken = np.bincount([hashed(line, np.int64(sets)) for line in lines], minlength=sets)
    assert np.maximum(0, taken - 16).sum() <= 0.01 * len(lines)
