"""GPUs: chip files and their validation, latency distributions, occupancy, and what-if changes of a chip."""
