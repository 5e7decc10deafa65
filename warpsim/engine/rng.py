"""Random streams: SplitMix64 (Steele, Lea & Flood 2014). A stream is its 64-bit state; who owns the state owns the stream."""

import numpy as np

from warpsim.jit.decorators import inline

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@inline
def mix(state):
    """SplitMix64's finalizer: the random word that belongs to a state."""
    z = (state ^ (state >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


@inline
def advance(stream):
    """The next state of a stream; its word is `mix` of it."""
    return stream + GOLDEN


@inline
def skip(stream, draws):
    """The state after so many draws that nobody looks at."""
    return stream + GOLDEN * np.uint64(draws)


@inline
def stream_of(seed, number):
    """The initial state of the stream of a warp, by its launch number; allocation.py has those of schedulers and echoes."""
    return mix(seed + GOLDEN * np.uint64(np.int64(number + 1)))


@inline
def uniform(word):
    """A float64 in [0, 1) from the top 53 bits."""
    return np.float64(word >> _11) * (1.0 / 9007199254740992.0)


@inline
def choose(word, count):
    """An integer in 0..count-1 from the top 32 bits."""
    return np.int64(((word >> _32) * np.uint64(count)) >> _32)


@inline
def choose_low(word, count):
    """An integer in 0..count-1 from the bottom 32 bits."""
    return np.int64(((word & _LOW) * np.uint64(count)) >> _32)
