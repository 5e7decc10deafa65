"""What instructions wait for.

Read them in this order:

    dependences      which instructions an instruction waits for
    async_copies     copies into shared memory, and what waits for them
    handovers        barriers by which some warps of a block wait for others
    sequence         for what each instruction of a block waits, one after another
"""
