"""What integer instructions compute of numbers that are known, and of those that are not."""

import numpy as np
import pytest

from warpsim.frontends.execution import integers
from warpsim.frontends.values import MASK, NOTHING, UNKNOWN, array

NUMBERS = np.array([0, 1, 0xF0F0_A5A5, 0x8000_0000, MASK], np.int64)


@pytest.mark.parametrize("table", range(256))
def test_bitwise_functions_do_bit_by_bit_what_their_tables_say(table):
    a, b, c = (each.ravel() for each in np.meshgrid(NUMBERS, NUMBERS, NUMBERS))
    wanted = np.zeros_like(a)
    for bit in range(32):
        row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        wanted |= (table >> row & 1) << bit
    assert np.broadcast_to(integers.logic(a, b, c, table), a.shape).tolist() == wanted.tolist()


@pytest.mark.parametrize("table", range(256))
def test_bitwise_functions_are_known_where_an_unknown_input_does_not_matter(table):
    one = 0x1234_5678
    ways = {integers.logic(array(one), array(other), array(MASK), table)[0] for other in (0, MASK, 0xFFFF)}
    assert integers.logic(array(one), NOTHING, array(MASK), table)[0] == (ways.pop() if len(ways) == 1 else UNKNOWN)


def test_a_sum_carries_as_often_as_it_exceeds_32_bits():
    total, once, twice = integers.add(array(MASK), np.array([MASK, 0, 2]), array(2), array(1), carries=2)
    assert (total.tolist(), once.tolist(), twice.tolist()) == ([1, 2, 4], [1, 1, 1], [1, 0, 0])
    assert integers.add(array(1), np.array([4, UNKNOWN]))[0].tolist() == [5, UNKNOWN]


def test_the_array_of_a_number_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        array(7)[0] = 8
    assert array(7) is array(7)
