"""Verifies the tiles of a store, and runs damaged tiles again from the plan that the store holds."""

from __future__ import annotations

import os
from collections.abc import Sequence

from warpsim.store.status import forget
from warpsim.store.verify import Damage, damaged_tiles
from warpsim.store.zarr_store import open_store
from warpsim.sweeps.local import prepare_store, sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.progress import Report


def verify(path: str | os.PathLike[str]) -> list[Damage]:
    """Returns the damaged tiles of a store: those recorded as done with a chunk that is missing, truncated or changed.

    Raises:
        StoreError: there is no warpsim store at this path.
    """
    return damaged_tiles(open_store(path, read_only=True))


def repair(
    path: str | os.PathLike[str], damages: Sequence[Damage], *, workers: int = 1, progress: bool | Report = False
) -> None:
    """Runs the damaged tiles of a store again.

    Raises:
        StoreError: this version of warpsim cannot reconstruct the plan of the store; the store was not changed.
        SweepError: tiles failed.
    """
    plan = Plan.from_provenance(open_store(path).attrs["provenance"])
    plan, store = prepare_store(plan, path)
    tiles = [damage.tile for damage in damages]
    forget(store.log, tiles)
    sweep(plan, path, workers=workers, tiles=tiles, progress=progress)
