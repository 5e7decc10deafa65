"""Kernels from machine code: cubins, disassembly, CUDA sources, Triton functions, traces.

    api              what users call
    cuda_source      a CUDA source to machine code
    cuda_headers     headers where NVRTC does not find them
    host_code        what a source holds for the host, which is left out; instances: templates of kernels that it names
    symbols          names of functions in machine code
    brackets         brackets in C++ text
    nvrtc, nvdisasm  the vendor's compiler and disassembler, where they are installed
    triton_functions a Triton function to machine code
    cubin            reads ELF files of machine code
    sass             instructions as text, with their control fields
    operands         operands, the registers that an instruction writes and reads, and the predicates it depends on
    flow             basic blocks, loops and calls
    dependences      which instructions an instruction waits for
    async_copies     copies into shared memory, and what waits for them
    opcodes          operation classes, by params/opcodes; how much matrix instructions multiply
    opcode_costs     what single opcodes cost in addition to their class
    geometry         the launch, and the blocks that stand for its grid
    parameters       the kernel's parameters and their arguments; structures: members of those
    integers         what integer instructions compute; floats: those of single precision that divide integers
    semantics        which instruction computes what; predicates: comparisons and votes; effects: how operands are taken apart
    steps            what an execution does with each instruction; stated: comparisons that stated trips make needless
    state            values of registers at the start of a kernel; windows: which memory a generic address is of
    bases            addresses of which data says where they begin; rewrites: how often shared memory has been stored
    trips            how a loop advances from trip to trip; leaps: trips that are left out
    evaluate         executes the integer part: trips, branches, addresses; evaluation: what it is given, and what it counts
    decisions        which way warps go at branches whose conditions are not known
    contention       where atomics meet
    keys             how a user names loops and branches
    accesses         sectors, lines and patterns of an access; local_memory: where that of a thread lies
    patterns         an access as a pattern of a kernel, and its bank conflicts
    tiles            what a copy by a tensor map moves
    reuse            the accesses of some waves of blocks; recorder: those of a few blocks; timing: when they are made
    until_enough     executions that end early; neighbours: how far the accesses of other blocks are moved
    caches           how often they hit; cache_walk: its compiled part; excerpt: what is not walked
    emitter          machine instructions as instructions of a kernel; sequence: for what each of a block waits
    sampled          which warps make an access; handovers: barriers by which some warps wait for others
    store_runs       stores of a warp that L1 joins
    structure        statements from how often each block was executed
    convert          all of it together: a Kernel
    trace_file       reads traces of NVBit; traces: their compiled form; traced_kernel: the kernel; fold: repetitions as loops
    listings         the listings of params/kernels/cuda
    errors           what can be wrong

Nothing here knows what the engine simulates; cache_walk is compiled, and its machine code kept, as the engine's is.
"""
