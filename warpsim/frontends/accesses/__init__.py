"""What the accesses of an instruction look like.

Read them in this order:

    tally            sectors and lines, and the patterns that repeat
    patterns         an access as a pattern of a kernel, and its bank conflicts
    contention       where atomics meet
    store_runs       stores of a warp that L1 joins
"""
