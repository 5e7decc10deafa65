"""Kernels from machine code: cubins, disassembly, CUDA sources, Triton functions.

    cuda_source      a CUDA source to machine code
    cuda_headers     headers where NVRTC does not find them
    host_code        what a source holds for the host, which is left out
    brackets         brackets in C++ text
    nvrtc, nvdisasm  the vendor's compiler and disassembler, where they are installed
    cubin            reads ELF files of machine code
    sass             instructions as text, with their control fields
    operands         operands, and the registers that an instruction writes and reads
    flow             basic blocks, loops and calls
    dependences      which instructions an instruction waits for
    opcodes          operation classes, by params/opcodes
    geometry         the launch, and the blocks that stand for its grid
    parameters       the kernel's parameters and their arguments
    steps            what an execution does with each instruction
    contention       where atomics meet
    integers         what integer instructions compute
    semantics        which instruction computes what
    state            values of registers at the start of a kernel
    trips            how a loop advances from trip to trip
    evaluate         executes the integer part: trips, branches, addresses
    keys             how a user names loops and branches
    accesses         sectors, lines and patterns of an access
    patterns         an access as a pattern of a kernel, and its bank conflicts
    structure        statements from how often each block was executed
    convert          all of it together: a Kernel
    listings         the listings of params/kernels/cuda
    api              what users call
    errors           what can be wrong

Nothing here knows the engine.
"""
