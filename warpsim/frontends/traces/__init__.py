"""Traces of launches, as NVBit writes them with the tracer of Accel-Sim.

Read them in this order:

    trace_file       reads them line by line
    compiled         their compact form, which is kept
    fold             repetitions as loops
    kernel           the kernel
"""
