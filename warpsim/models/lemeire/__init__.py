"""The pipeline model of Lemeire et al. (`pipeline`), with its chips, its dependence graph and its events."""

from warpsim.models.lemeire import pipeline

__all__ = ["pipeline"]
