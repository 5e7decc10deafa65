"""Parts that several models share, such as instruction counts, costs, and the schedule of a warp alone."""
