"""The reference machine: docs/model.md in plain Python, for reading and for debugging.

It has one object per part of the hardware and visits every SM and every warp in every cycle. It shares no code with
`warpsim.engine`, and its results must be exactly those of the engine. It is about 10,000 times slower than the engine.
"""
