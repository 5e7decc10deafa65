"""A machine function and a launch become a Kernel.

Read them in this order:

    structure        statements from how often each block was executed
    conditions       which warps execute a side of a conditional, and barriers under one
    trips            trips of loops that warps repeat unequally often
    sampled          which warps make an access
    access_fields    what an instruction accesses, and what that costs
    emitter          machine instructions as instructions of a kernel
    convert          all of it together
"""
