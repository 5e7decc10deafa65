"""Places of warps, schedulers and counts in the arrays of a chip.

The `index` of a warp slot is its place among those of the chip: each SM has as many places as it has slots, rounded up to a power
of 2. The slots of an SM go to its schedulers in turn, and a lane of each scheduler stands for one of them.
"""

from warpsim.engine.bits import at
from warpsim.jit.decorators import inline


@inline
def sm_of(chip, index):
    """Returns the number of the SM that has a warp slot."""
    return index >> chip.slot_bits


@inline
def slot_of(chip, index):
    """Returns the number of a warp slot at its SM."""
    return index & ((1 << chip.slot_bits) - 1)


@inline
def slot_in(chip, s, lane):
    """Returns the warp slot of an SM for which a lane of scheduler s stands; `chip.scheduler_of` and `lane_of` lead back."""
    return lane * chip.schedulers + s


@inline
def warp_in(chip, state, sm, s, lane):
    """Returns the warp in a lane of scheduler s of an SM."""
    return state.warps[at(sm.first_index + slot_in(chip, s, lane))]


@inline
def seat_number(chip, sm, slot):
    """Returns the number of the seat to which a warp slot of an SM belongs, among those of the chip."""
    return sm.index * chip.seats + chip.seat_of[at(slot)]


@inline
def scheduler_at(state, sm, s):
    """Returns the record of scheduler s of an SM."""
    return state.schedulers[at(sm.first_scheduler + s)]


@inline
def count_place(program, s, step):
    """Returns the place of the counts of a step at scheduler s, in arrays by scheduler and step."""
    return s * len(program) + step
