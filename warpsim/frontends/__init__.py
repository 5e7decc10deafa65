"""Kernels from machine code: cubins, disassembly, CUDA sources.

    nvrtc, nvdisasm  the vendor's compiler and disassembler, where they are installed
    cubin            reads ELF files of machine code
    sass             instructions as text, with their control fields
    errors           what can be wrong

Nothing here knows the engine: the result is a Kernel.
"""
