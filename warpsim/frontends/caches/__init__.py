"""How often the accesses of a launch hit L1 and L2.

Read them in this order:

    timing           when a warp makes its accesses
    excerpt          what is known of those of a block that are not walked
    walk             a walk of accesses through the caches; compiled_walk: its compiled part
    until_enough     executions of a few blocks that end once enough is known
    recorder         the accesses of a few blocks
    neighbours       how far those of other blocks are moved
    reuse            those of some waves of blocks, and how often they hit
"""
