"""Verifies a store, restores its metadata and labels, and runs damaged tiles again from the plan that the store holds."""

from __future__ import annotations

import os
from collections.abc import Sequence

from warpsim.store.lease import writing_tiles
from warpsim.store.place import StoreError, place_of
from warpsim.store.status import FAILED, KEPT, TILES, forget
from warpsim.store.verify import Damage, damaged_files, damaged_tiles
from warpsim.store.writing import is_done
from warpsim.store.zarr_store import Store, open_store
from warpsim.sweeps.local import sweep
from warpsim.sweeps.opening import writable_store
from warpsim.sweeps.plan import LostKernelError, Plan
from warpsim.sweeps.progress import Report
from warpsim.sweeps.restore import restore


def verify(path: str | os.PathLike[str]) -> list[Damage]:
    """Returns the damaged files of a store: those that are missing, truncated or changed.

    If metadata or labels are damaged, which describe the tiles, only these are returned; `repair` then checks the tiles too.

    Raises:
        StoreError: there is no warpsim store at this path.
    """
    return damaged_files(place_of(path)) or damaged_tiles(open_store(path, read_only=True))


def repair(
    path: str | os.PathLike[str], damages: Sequence[Damage], *, workers: int = 1, progress: bool | Report = False
) -> None:
    """Restores the metadata and labels of a store, and runs its damaged tiles again.

    Args:
        path: the store.
        damages: what `verify` has found.
        workers: number of threads.
        progress: as in `sweep`.

    Raises:
        StoreError: this version of warpsim cannot reconstruct the plan of the store; no tile was changed. Or the store does not
            hold a kernel; its damaged tiles are pending, and a sweep with the plan that names the kernel's file runs them.
        SweepError: tiles failed.
    """
    if any(damage.tile is None for damage in damages):
        restore(path)
        damages = damaged_tiles(open_store(path, read_only=True))
    if not damages:
        return
    store = open_store(path)
    try:
        plan = Plan.from_provenance(store.attrs["provenance"])
    except LostKernelError as error:
        with writing_tiles(store.place):
            _forget(store, damages)
        what = "its damaged tiles are pending now, and `warpsim sweep` with that plan runs them again"
        raise StoreError(f"{store.path}: {error}; {what}") from None
    with writable_store(plan, path) as (plan, store):
        tiles = _forget(store, damages)
    sweep(plan, path, workers=workers, tiles=tiles, progress=progress)


def _forget(store: Store, damages: Sequence[Damage]) -> list[int]:
    """Removes damaged records of failures and of finished parts, and makes the other damaged tiles pending, which it returns."""
    tiles = []
    for damage in damages:
        kind = next((kind for kind in (FAILED, KEPT) if damage.file.startswith(f"{TILES}/{kind}/")), None)
        assert damage.tile is not None
        if kind is not None:
            store.log.remove(kind, damage.tile)
        if kind is None or (kind == KEPT and not is_done(store, damage.tile)):
            tiles.append(damage.tile)
    forget(store.log, tiles)
    return tiles
