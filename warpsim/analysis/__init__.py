"""Analysis beyond a single simulation: comparison with models, advice, models at the points of a result, calibration."""
