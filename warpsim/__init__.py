"""warpsim: a Monte Carlo simulator of GPU warp schedulers."""

__version__ = "0.1.0"
