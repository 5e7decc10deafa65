"""The machine of docs/model.md in plain Python: read this first, and debug with it.

It has one object per part of the hardware, visits every SM and every warp in every cycle, and shares no code with
`warpsim.engine`, whose results it must reproduce exactly. It is slow: some 10,000 times slower than the engine.
"""
