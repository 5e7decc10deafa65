"""GPUPerf, the model of Sim, Dasgupta, Kim and Vuduc (PPoPP 2012)."""
