"""GPUPerf, the model of Sim, Dasgupta, Kim and Vuduc 2012 (`gpuperf`), with its equations."""

from warpsim.models.sim_2012 import gpuperf

__all__ = ["gpuperf"]
