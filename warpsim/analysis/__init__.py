"""Simulation beside the analytical models: comparison, advice, models at the points of a result, calibration."""
