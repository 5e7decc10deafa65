"""Launches that Nsight Compute profiled: read, replayed, and compared with what was measured.

report       reads a report with the vendor's reader, and the machine code inside
launch       one of its launches: metrics, counters of each instruction
report_file  the blocks of its file
sections     which functions a launch executed, and where their code stands
versions     which of several functions of one name it executed
encodings    opcodes and operands of encodings, without a disassembler
code         the instructions of a launch as a machine function
machine_code a kernel from these instructions alone, without counts
flows        how often each block, loop and branch was executed
guards       blocks whose warps leave at once
inputs       which counters are inputs of a replay
traffic      hits, the bytes that DRAM moved, and the sectors that L2 took in
updates      atomics that meet at few addresses
kernel       the kernel of a launch, with the costs that its counters state
chip         the chip of a launch, with its measured clocks
measured     what the profiler measured
roofline     the busiest resource of a launch, from the same counters
whatif       a launch with changes
advice       what limits a launch, and what changes would gain
replay       simulates a launch, and says what it finds in the terms of the profiler
api          what users call
errors       what can be wrong
"""
