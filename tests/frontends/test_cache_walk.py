"""The compiled part of the walk through caches: where its machine code is kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import config

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
