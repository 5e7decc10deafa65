"""Sweeps: a plan becomes tiles, tiles become results."""
