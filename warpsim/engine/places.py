"""The places of warp slots: `index`, of a slot among those of the chip, and its parts, an SM and a slot of it.

Each SM has as many places as it has slots, rounded up to a power of 2.
"""

from warpsim.engine.jit import inline


@inline
def first_index(chip, sm):
    """Returns the index of slot 0 of an SM, of which the number is given; its record has it, too."""
    return sm << chip.slot_bits


@inline
def sm_of(chip, index):
    """Returns the number of the SM that has a warp slot."""
    return index >> chip.slot_bits


@inline
def slot_of(chip, index):
    """Returns the number of a warp slot at its SM."""
    return index - first_index(chip, sm_of(chip, index))
