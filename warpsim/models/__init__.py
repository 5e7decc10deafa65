"""Analytical models of GPU throughput: one paper, one file; all have the same call and names of results."""

from warpsim.models import littles_law, volkov
from warpsim.models.common import NotCoveredError

__all__ = ["NotCoveredError", "littles_law", "volkov"]
