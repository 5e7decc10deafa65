"""Algorithms 1 and 2 of Hong and Kim against the transactions of the chips."""

from __future__ import annotations

import pytest

from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access
from warpsim.kernels.access import transactions
from warpsim.models.hong_kim import mwp_cwp


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("stride", "offset"), [(1, 0), (1, 16), (1, 32), (1, 5), (2, 0), (3, 0)])
def test_algorithm_1_is_the_rule_of_g80(width, stride, offset):
    access = Access(pattern="stride", stride=stride, bytes_per_thread=width, offset_bytes=offset * width)
    made = transactions(access, load_gpu("g80"))
    starts = [offset + 16 * stride * half for half in range(2)]
    assert mwp_cwp.coalesces(stride, starts, width) == (made.transactions < 32)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("stride", [1, 2, 4, 8])
def test_algorithm_2_counts_as_gt200_does(width, stride):
    made = transactions(Access(pattern="stride", stride=stride, bytes_per_thread=width), load_gpu("gt200"))
    found = mwp_cwp.half_warp_transactions(stride, [0, 16 * stride], width)
    assert made.transactions == 2 * min(found.number, 16)
    assert found.bytes == {1: 32, 2: 64}.get(width, 128)


def test_algorithm_2_by_hand():
    # A misaligned half-warp takes one transaction more; 64 floats apart, the formula exceeds 16 threads.
    assert mwp_cwp.half_warp_transactions(1, [0, 16], 4) == (128, 1)
    assert mwp_cwp.half_warp_transactions(1, [3, 19], 4) == (128, 2)
    assert mwp_cwp.half_warp_transactions(0, [0, 0], 4) == (128, 0)
    assert mwp_cwp.half_warp_transactions(64, [0, 1024], 4) == (128, 32)


def test_wrong_indices():
    with pytest.raises(ValueError, match="bytes_per_thread = 3: must be 1, 2, 4, 8 or 16"):
        mwp_cwp.coalesces(1, [0], 3)
    with pytest.raises(ValueError, match="starts = \\(\\): must have at least one index"):
        mwp_cwp.half_warp_transactions(1, [], 4)
    with pytest.raises(ValueError, match="increment = -1: must be at least 0"):
        mwp_cwp.half_warp_transactions(-1, [0], 4)
