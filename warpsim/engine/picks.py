"""Which warp of a scheduler issues next, and when: the foremost of its lanes, by time and rank. docs/model.md, section 3."""

from warpsim.engine.bits import at
from warpsim.engine.constants import NEVER
from warpsim.engine.lanes import either, everywhere, filled, foremost, in_both, lane_of, number, plus, same, where
from warpsim.engine.schedulers import next_ranks
from warpsim.jit.decorators import inline


@inline
def pick(warps, wakes, ranks, first_warp, schedulers, no_more):
    """Returns a scheduler's next pick: its key, the key in each lane, the mask of its lane, that lane, and the step of its warp.

    If the key is `no_more` or later, there is no pick, and the lane and the step mean nothing.
    """
    keys = either(wakes, ranks)
    least = foremost(keys)
    key, picked = number(least), everywhere(least, keys)
    here = same(keys, picked)
    lane = lane_of(here)
    step = 0
    if key < no_more:
        step = warps[at(first_warp + lane * schedulers)].step
    return key, picked, here, lane, step


@inline
def pick_ahead(fixed, wakes, ranks, delays):
    """As `pick`, with the time of the key in each lane; and what follows from it once the pick has issued.

    That is the times of lanes, if nobody is busy, and the ranks. `fixed` is what stays the same: the order of the policy
    (`order_of`), and the further arguments of `pick`.
    """
    order, warps, first_warp, schedulers, no_more = fixed
    key, picked, here, lane, step = pick(warps, wakes, ranks, first_warp, schedulers, no_more)
    issued, after, ranks_after = after_pick(order, wakes, ranks, delays, picked, here)
    return key, issued, here, lane, step, after, ranks_after


@inline
def pick_known(fixed, wakes, ranks, delays, key):
    """As `pick_ahead`, of a pick of which the key is known, with the lane and the step."""
    picked = filled(key, wakes)
    here = same(either(wakes, ranks), picked)
    issued, after, ranks_after = after_pick(fixed[0], wakes, ranks, delays, picked, here)
    return issued, here, after, ranks_after


@inline
def after_pick(order, wakes, ranks, delays, picked, here):
    """Returns the time of a pick in each lane, and the times of lanes and the ranks once it has issued."""
    issued = in_both(picked, filled(NEVER, picked))
    return issued, where(here, plus(issued, delays), wakes), next_ranks(order, ranks, here, picked)
