"""Microbenchmarks on the user's own GPU, and what a chip file takes from them.

    cuda/*.cu      the kernels, compiled by NVRTC when they are needed
    operations     the operations of chain.cu, and what their machine code must look like
    compiler       their machine code
    device         memory, launches and times, through the CUDA driver
    session        how thorough to be, and helpers of the benchmarks
    core, launch, memory   the benchmarks: each returns tables of raw numbers
    benchmarks     all of them in order, with provenance
    record         tables and provenance as a folder of text files
    head           the keys of its head, and what each may be
    derive         from a record to plain numbers, with units and how each was found
    core_values, memory_values   those of the core, and those of the memory; values: a number with its unit and origin
    plausibility   what looks wrong in them
    chipfile       from plain numbers to a chip file and a table of latencies

Only numpy is needed to read and to evaluate a record. To measure, `warpsim[cuda]` brings NVRTC and the driver's bindings.
"""
