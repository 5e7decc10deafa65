"""`ds.warpsim`: what is commonly asked of a result, as methods on the Dataset.

The accessor is there once this module has been imported; `warpsim` does so with whatever makes or opens a
result.
"""

from __future__ import annotations

import xarray as xr

from warpsim.results import statistics


@xr.register_dataset_accessor("warpsim")
class WarpsimAccessor:
    """Verbs on a result of `simulate` or `sweep`."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def mean(self) -> xr.Dataset:
        """All variables, averaged over replicates, in their own units."""
        return self._dataset.map(statistics.mean, keep_attrs=True)

    def interval(self, name: str, level: float = statistics.LEVEL) -> xr.Dataset:
        """Mean of one variable and its confidence interval: `mean`, `low`, `high`, in its units.

        Raises:
            ValueError: there is no such variable, or it has no replicates, or `level` is not between 0 and 1.
        """
        return statistics.interval(self._variable(name), level)

    def paired_difference(
        self,
        name: str,
        dim: str = "scheduler",
        *,
        reference: object = None,
        relative: bool = False,
        level: float = statistics.LEVEL,
    ) -> xr.Dataset:
        """Differences of one variable along `dim` from `reference` (left out: the first).

        They are taken replicate by replicate. Returns `mean`, `low`, `high`, in the variable's units, or as
        a fraction of the reference where `relative`.

        Raises:
            ValueError: there is no such variable, dimension or reference.
        """
        return statistics.paired_difference(
            self._variable(name), dim, reference=reference, relative=relative, level=level
        )

    def needed_warps(self, fraction: float = 0.9, level: float = statistics.LEVEL) -> xr.Dataset:
        """Smallest occupancy, in warps per SM, that attains a fraction of a throughput limit (V 4.5).

        Returns `needed_warps`, NaN where no occupancy of the axis suffices, and its interval `low`, `high`.

        Raises:
            ValueError: `fraction` is not within 0 to 1, or the result has no axis of occupancies.
        """
        return statistics.needed_warps(self._dataset, fraction, level)

    def _variable(self, name: str) -> xr.DataArray:
        if name not in self._dataset.data_vars:
            raise ValueError(
                f"name = {name!r}: must be one of {', '.join(map(str, self._dataset.data_vars))}"
            )
        return self._dataset[name]
