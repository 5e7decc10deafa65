"""Sweeps: a plan spans points; points are grouped into tiles; tiles are simulated and written to a store."""
