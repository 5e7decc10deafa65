"""The accessor `ds.warpsim`: common statistics of a result, as methods of the Dataset.

Importing this module registers the accessor. All functions of `warpsim` that create or open a result import it.
"""

from __future__ import annotations

import xarray as xr

from warpsim.results import statistics
from warpsim.units import NEEDED_FRACTION


@xr.register_dataset_accessor("warpsim")
class WarpsimAccessor:
    """Statistics of a result of `simulate` or `sweep`."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def mean(self) -> xr.Dataset:
        """Returns the mean of all variables over replicates, in their units."""
        return self._dataset.map(statistics.mean, keep_attrs=True)

    def interval(self, name: str, level: float = statistics.LEVEL) -> xr.Dataset:
        """Returns the mean of one variable and its confidence interval: `mean`, `low`, `high`, in its units.

        Raises:
            ValueError: the variable does not exist or has no replicates, or `level` is not between 0 and 1.
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
        """Returns the paired differences of one variable along `dim` from `reference` (default: the first value).

        The differences are computed within each replicate. `mean`, `low` and `high` are in the units of the variable,
        or fractions of the reference if `relative`.

        Raises:
            ValueError: the variable, dimension or reference does not exist.
        """
        return statistics.paired_difference(
            self._variable(name), dim, reference=reference, relative=relative, level=level
        )

    def needed_warps(self, fraction: float = NEEDED_FRACTION, level: float = statistics.LEVEL) -> xr.Dataset:
        """Returns the smallest occupancy, in warps per SM, that attains a fraction of a throughput limit (V 4.5).

        The Dataset contains `needed_warps`, NaN if no occupancy of the axis suffices, and its interval `low`, `high`.

        Raises:
            ValueError: `fraction` is not above 0 and at most 1, or the result has no occupancy dimension.
        """
        return statistics.needed_warps(self._dataset, fraction, level)

    def _variable(self, name: str) -> xr.DataArray:
        if name not in self._dataset.data_vars:
            raise ValueError(
                f"name = {name!r}: must be one of {', '.join(map(str, self._dataset.data_vars))}"
            )
        return self._dataset[name]
