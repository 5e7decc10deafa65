"""GPUs: chip files and their checks, latency distributions, occupancy, and chips with changed fields."""
