"""Kernels from machine code: cubins, disassembly, CUDA sources, Triton functions, traces.

    errors           what can be wrong
    brackets         brackets in C++ text
    values           values of registers
    machine_code     what a binary holds: instructions, their operands and classes, the control flow
    waits            what an instruction waits for
    launch           the grid, the arguments, and the loops and branches that a user names
    accesses         what the accesses of an instruction look like: sectors, patterns, bank conflicts
    execution        the integer part of a kernel, executed: trips, branches, addresses
    caches           how often accesses hit L1 and L2
    program          all of it together: a Kernel
    traces           traces of NVBit, as kernels
    sources          a CUDA source, or a Triton function, to machine code
    api              what users call
    listings         the listings of params/kernels/cuda

Each of them imports only what stands above it. Nothing here knows what the engine simulates.
"""
