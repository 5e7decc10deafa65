"""What several models share: operation counts, costs, the path of one warp, needed warps."""
