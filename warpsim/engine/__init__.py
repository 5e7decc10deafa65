"""The compiled machine of docs/model.md: numpy arrays in, counters out. It imports numpy and numba only."""
