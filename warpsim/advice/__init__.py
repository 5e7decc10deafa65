"""Advice: what limits a kernel on a chip, and what changes would gain, predicted and simulated."""

from warpsim.advice.changes import Change, changes
from warpsim.advice.checks import AS_IT_IS, REPLICATES, advise, advise_point

__all__ = ["AS_IT_IS", "REPLICATES", "Change", "advise", "advise_point", "changes"]
