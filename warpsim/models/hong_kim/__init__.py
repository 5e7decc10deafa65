"""The MWP-CWP model of Hong and Kim 2009 (`mwp_cwp`), with its equations and its algorithms that count transactions."""

from warpsim.models.hong_kim import mwp_cwp

__all__ = ["mwp_cwp"]
