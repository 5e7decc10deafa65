"""Opens the store of a plan for writing: creates it, mends it, or extends it, under the leases of `store.lease`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from warpsim.store.create import create_store
from warpsim.store.extend import extend_store
from warpsim.store.inventory import ROOT
from warpsim.store.lease import BusyError, changing_layout, writing_tiles
from warpsim.store.leftovers import remove_leftovers
from warpsim.store.place import StoreError, place_of
from warpsim.store.status import INVENTORY
from warpsim.store.zarr_store import Store, open_store
from warpsim.sweeps.array_jobs import refuse_queued
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.restore import restore
from warpsim.sweeps.resume import fit_to_store


def prepare_store(plan: Plan, path: str | os.PathLike[str], *, extend: bool = False) -> tuple[Plan, Store]:
    """Opens the store of a plan, creates it, or extends it, as `writable_store`; holds no lease afterwards."""
    with writable_store(plan, path, extend=extend) as (fitted, store):
        return fitted, replace(store, lease=None)


@contextmanager
def writable_store(plan: Plan, path: str | os.PathLike[str], *, extend: bool = False) -> Iterator[tuple[Plan, Store]]:
    """Opens the store of a plan, or creates it, and holds a lease for writing tiles until the end.

    Damaged metadata and labels are restored, and what killed processes have left is removed.

    Args:
        plan: the sweep.
        path: its store.
        extend: if the store holds a part of the plan, add the rest.

    Yields:
        The plan with the tiles and the order of values of the store, and the store.

    Raises:
        StoreError: `path` is not a store, holds another plan, or holds a part of this plan and `extend` is False; the message
            shows the difference, and nothing was changed.
        BusyError: the store would have to be extended while another process writes to it, or another process changes its layout.
        LeaseLostError: another process has taken this one for dead while it extended the store.
        ValueError: it would have to be extended while tasks of Slurm wait or run for it.
        SlurmError: it would have to be extended, and Slurm does not answer.
    """
    place = place_of(path)
    remove_leftovers(place)
    restore(path)
    create_store(path, plan.layout())
    while True:
        layout = place.read([INVENTORY, ROOT])
        store = open_store(path)
        fitted, added = fit_to_store(plan, store)
        if not added:
            with writing_tiles(place) as lease:
                if place.read([INVENTORY, ROOT]) == layout:  # nobody can change it from now on
                    yield fitted, replace(store, lease=lease)
                    return
        elif not extend:
            what = "; ".join(added)
            raise StoreError(f"{store.path}: holds a part of this plan: {what}; extend=True (--extend) adds the rest")
        else:
            refuse_queued(path)
            try:
                with changing_layout(place) as require_lease:
                    if place.read([INVENTORY, ROOT]) == layout:
                        extend_store(store, fitted.layout(), require_lease)
            except BusyError:
                if place.read([INVENTORY, ROOT]) == layout:  # otherwise another process has extended it, perhaps by the same plan
                    raise
        restore(path)  # who changed the layout may have been killed before all files had changed
