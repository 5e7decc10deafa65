"""What the user says of a launch.

Read them in this order:

    geometry         the grid, and the blocks that stand for it
    parameters       the kernel's parameters and their arguments
    variables        variables in constant memory
    keys             how a user names loops and branches
    tiles            what a copy by a tensor map moves
"""
