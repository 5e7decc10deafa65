"""The modules of an experiment's folder, which import each other by their bare names."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from warpsim.cli.experiment import experiments_dir


def modules_of(experiment: str, *names: str) -> list[ModuleType]:
    """Imports modules of an experiment, which stay on no search path."""
    folder = str(Path(experiments_dir()) / experiment)
    sys.path.insert(0, folder)
    try:
        return [import_module(name) for name in names]
    finally:
        sys.path.remove(folder)
