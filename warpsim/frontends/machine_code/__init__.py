"""What a binary holds.

Read them in this order:

    cubin            reads ELF files of machine code
    nvdisasm         the vendor's disassembler, where it is installed
    symbols          names of functions
    structures       members of structures that kernels take
    sass             instructions, with their control fields
    sass_text        their texts: that of nvdisasm, and our own
    operands         operands, the registers that an instruction writes and reads, and the predicates it depends on
    variables_read   which variables in constant memory a kernel reads
    memory_instructions which memory an instruction accesses, and how much of it
    opcodes          operation classes, by params/opcodes; how much matrix instructions multiply
    opcode_costs     what single opcodes cost in addition to their class
    flow             basic blocks, loops and calls
    rare_operands    branches by which mathematical functions tell rare operands apart
"""
