"""The benchmarks, which `make test` does not run, can still be imported."""

import subprocess
import sys
from pathlib import Path


def test_benchmarks_can_be_collected() -> None:
    command = [sys.executable, "-m", "pytest", "benchmarks", "-m", "bench", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    assert "test_imported_kernels[copy]" in found.stdout
