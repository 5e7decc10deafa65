"""The integer part of a kernel, executed for some blocks: which way branches go, how often loops run, what addresses are.

Read them in this order:

    integers         what integer instructions compute; floats: those of single precision that divide integers
    predicates       comparisons and votes
    semantics        which instruction computes what; effects: how operands are taken apart
    state            values of registers at the start of a kernel
    windows          which memory a generic address is of; local_memory: where that of a thread lies
    bases            addresses of which data says where they begin
    rewrites         how often shared memory has been stored
    steps            what an execution does with each instruction
    stated           comparisons that stated trips make needless
    trips            how a loop advances from trip to trip; leaps: trips that are left out
    decisions        which way warps go at branches whose conditions are not known
    evaluation       what an execution is given, and what it counts
    access_counter   counts accesses
    evaluator        executes; evaluate: for how many blocks
"""
