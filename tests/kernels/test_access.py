"""Transactions and bank conflicts, against the examples of V 2.5 and 2.6, V 6.7, and Hong & Kim."""

import math

import pytest

from warpsim.hardware.gpu import Shared, load_gpu
from warpsim.kernels import Access, Instruction
from warpsim.kernels.access import bank_conflicts, conflict_ways, thread_addresses, transactions

GPUS = ("g80", "gt200", "fermi", "kepler", "maxwell")


def words(*indices):
    """An access of 4-byte words."""
    return Access(pattern="addresses", addresses=[4 * i for i in indices])


def counts(access, name):
    found = transactions(access, load_gpu(name))
    return found.transactions, found.extra, found.requests


@pytest.mark.parametrize(
    ("name", "count"), [("g80", 2), ("gt200", 2), ("fermi", 1), ("kepler", 4), ("maxwell", 4)]
)
def test_a_coalesced_access_is_one_line(name, count):
    """V 6.7: transactions of a coalesced access on the five chips."""
    found = transactions(Access(), load_gpu(name))
    assert (found.transactions, found.extra, found.requests) == (count, 0, 1)
    assert found.bytes_per_request == found.requested_bytes == 128


@pytest.mark.parametrize(
    ("name", "extra"), [("g80", 30), ("gt200", 30), ("fermi", 31), ("kepler", 28), ("maxwell", 28)]
)
def test_a_random_access_diverges_into_32(name, extra):
    """V 6.7: 32 transactions; the extra ones over a coalesced access."""
    gpu = load_gpu(name)
    found = transactions(Access(pattern="random"), gpu)
    assert (found.transactions, found.extra, found.requests) == (32, extra, 32)
    assert found.bytes_per_request == gpu.memory.divergent_transaction_bytes
    assert found.requested_bytes == 128


@pytest.mark.parametrize("name", GPUS)
def test_scattered_addresses_cost_the_same_as_a_random_pattern(name):
    gpu = load_gpu(name)
    scattered = words(*(1000 * (7 * i % 32) for i in range(32)))
    assert transactions(scattered, gpu) == transactions(Access(pattern="random"), gpu)


@pytest.mark.parametrize(("name", "extra"), [("fermi", 1), ("kepler", 4), ("maxwell", 4)])
def test_stride_2_takes_twice_the_lines(name, extra):
    found = transactions(Access(pattern="stride", stride=2), load_gpu(name))
    assert (found.extra, found.requests, found.bytes_per_request) == (extra, 2, 128)


@pytest.mark.parametrize("name", GPUS)
def test_wide_coalesced_accesses_are_several_lines(name):
    found = transactions(Access(bytes_per_thread=16), load_gpu(name))
    assert (found.extra, found.requests, found.bytes_per_request, found.requested_bytes) == (0, 4, 128, 512)


@pytest.mark.parametrize(
    ("access", "sectors"),
    [
        (Access(), 4),
        (Access(offset_bytes=4), 5 + 2),  # the first and the last sector in part
        (Access(pattern="stride", stride=8), 32 + 8),
        (Access(pattern="random"), 32 + 32),
        (Access(bytes_per_thread=16), 16),
    ],
)
def test_a_line_that_is_written_in_part_counts_as_one_more_sector(access, sectors):
    found = transactions(access, load_gpu("a100"))
    assert found.port_sectors * found.requests == pytest.approx(sectors)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_transactions_are_proportional_to_the_stride(stride):
    """V 2.5: two transactions for stride 2 and three for stride 3; at most one per thread."""
    assert counts(Access(pattern="stride", stride=stride), "fermi")[0] == stride
    assert counts(Access(pattern="stride", stride=stride), "kepler")[0] == 4 * stride
    assert counts(Access(pattern="stride", stride=100 * stride), "kepler")[0] == 32


@pytest.mark.parametrize(
    ("name", "expected"),
    [("g80", (32, 30, 32)), ("gt200", (3, 1, 2)), ("fermi", (2, 1, 2)), ("kepler", (5, 1, 2))],
)
def test_a_misaligned_access_takes_an_extra_transaction(name, expected):
    """V 2.5: one more transaction; on G80 the access does not coalesce."""
    assert counts(Access(offset_bytes=4), name) == expected


def test_gt200_reduces_transactions_to_the_touched_bytes():
    """V 2.5: transactions of different sizes. Half-warps at bytes 4 to 67 (128), and 68 to 131 (64 + 32)."""
    found = transactions(Access(offset_bytes=4), load_gpu("gt200"))
    assert found.bytes_per_request * found.requests == 128 + 64 + 32


def test_the_wrong_order_coalesces_on_all_but_g80():
    """V 2.5: (3,2,1,0) and (1,1,1,1)."""
    backwards = words(*reversed(range(32)))
    assert [counts(backwards, name)[0] for name in GPUS] == [32, 2, 1, 4, 4]
    assert [counts(Access(pattern="broadcast"), name)[0] for name in GPUS] == [32, 2, 1, 1, 1]
    assert all(counts(Access(pattern="broadcast"), name)[1] == 0 for name in GPUS[1:])


@pytest.mark.parametrize("stride", [*range(1, 17), *range(18, 34, 2)])
def test_gt200_counts_by_the_algorithm_of_hong_and_kim(stride):
    """HK Algorithm 2, per half-warp: ceil(increment * 16 * size / 128) transactions, at most one per thread.

    Odd strides above 16 start the second half-warp within a 128-byte block, which the algorithm does not see.
    """
    expected = 2 * min(16, math.ceil(stride * 16 * 4 / 128))
    assert counts(Access(pattern="stride", stride=stride), "gt200")[0] == expected


@pytest.mark.parametrize(
    ("access", "coalesced"),
    [
        (Access(bytes_per_thread=4), True),
        (Access(bytes_per_thread=8), True),
        (Access(bytes_per_thread=16), True),
        (Access(bytes_per_thread=2), False),
        (Access(bytes_per_thread=1), False),
        (Access(pattern="stride", stride=2), False),
        (Access(offset_bytes=64), True),
        (Access(offset_bytes=32), False),
    ],
)
def test_g80_coalesces_by_the_algorithm_of_hong_and_kim(access, coalesced):
    """HK Algorithm 1: element size, increment and alignment to 16 elements, all or nothing."""
    found = transactions(access, load_gpu("g80"))
    assert (found.transactions < 32) == coalesced
    if not coalesced:
        assert (found.requests, found.extra) == (32, 30)


def test_a_half_warp_may_coalesce_alone_on_g80():
    gpu = load_gpu("g80")
    found = transactions(words(*range(16), *reversed(range(32, 48))), gpu)
    assert (found.transactions, found.requests) == (17, 17)
    assert found.bytes_per_request == pytest.approx((64 + 16 * gpu.memory.divergent_transaction_bytes) / 17)


def test_one_shared_line_does_not_coalesce_the_others():
    gpu = load_gpu("kepler")
    found = transactions(words(0, *(1000 * i for i in range(31))), gpu)
    assert (found.transactions, found.requests) == (31, 31)
    assert found.bytes_per_request == pytest.approx((32 + 30 * gpu.memory.divergent_transaction_bytes) / 31)


def test_the_end_of_an_unaligned_run_does_not_diverge():
    found = transactions(Access(offset_bytes=4), load_gpu("kepler"))
    assert found.bytes_per_request * found.requests == 5 * 32


def test_a_random_pattern_has_no_addresses():
    with pytest.raises(ValueError, match='pattern = "random"'):
        thread_addresses(Access(pattern="random"))


@pytest.mark.parametrize(
    ("accesses", "degree"),
    [
        ((0, 1, 2, 3), 1),
        ((1, 2, 3, 4), 1),
        ((0, 2, 4, 6), 2),
        ((0, 3, 6, 9), 1),
        ((0, 4, 8, 12), 4),
        ((1, 1, 1, 1), 1),
        ((1, 1, 1, 2), 1),
        ((1, 3, 5, 8), 2),
    ],
)
def test_bank_conflicts_of_four_threads_and_banks(accesses, degree):
    """The examples of V 2.6 and Figure 2.2."""
    shared = Shared(banks=4, bank_bytes=4, lanes_per_pass=32)
    assert bank_conflicts([4 * word for word in accesses], shared) == degree


@pytest.mark.parametrize(
    ("name", "degrees"),
    [
        ("g80", {1: 1, 2: 2, 3: 1, 4: 4, 16: 16, 32: 16, 33: 1}),
        ("fermi", {1: 1, 2: 2, 3: 1, 4: 4, 16: 16, 32: 32, 33: 1}),
        ("kepler", {1: 1, 2: 1, 3: 1, 4: 2, 16: 8, 32: 16, 33: 1}),
        ("maxwell", {1: 1, 2: 2, 3: 1, 4: 4, 16: 16, 32: 32, 33: 1}),
    ],
)
def test_bank_conflicts_of_strides(name, degrees):
    """Kepler's 64-bit rows contain words i and i + 32, which halves the degree of 32-bit banks."""
    gpu = load_gpu(name)
    for stride, degree in degrees.items():
        load = Instruction("smem", dst="r1", access=Access(pattern="stride", stride=stride))
        assert conflict_ways(load, gpu) == degree, stride


def test_kepler_serves_64_bit_elements_at_full_rate():
    wide = Instruction("smem", dst="r1", access=Access(bytes_per_thread=8))
    assert conflict_ways(wide, load_gpu("kepler")) == 1
    assert conflict_ways(wide, load_gpu("maxwell")) == 2


def test_the_degree_is_the_mean_of_both_half_warps():
    """The first pass has no conflict and the second a 3-way conflict: 1 + 3 passes for two half-warps are 2 ways."""
    shared = Shared(banks=16, bank_bytes=4, lanes_per_pass=16)
    first, second = list(range(16)), [0, 16, 32, *range(3, 16)]
    assert bank_conflicts([4 * word for word in first + second], shared) == 2


def test_without_an_access_the_degree_is_ways():
    assert conflict_ways(Instruction("smem", dst="r1", ways=5), load_gpu("kepler")) == 5
    assert conflict_ways(Instruction("load", dst="r1"), load_gpu("kepler")) == 1


def addresses_of(thread):
    """An access of 16 bytes per thread at the address that a function gives."""
    return Access(pattern="addresses", bytes_per_thread=16, addresses=[thread(lane) for lane in range(32)])


@pytest.mark.parametrize(
    ("access", "ways"),
    [
        (Access(pattern="broadcast", bytes_per_thread=4), 1),
        (Access(pattern="broadcast", bytes_per_thread=8), 1),
        (Access(pattern="broadcast", bytes_per_thread=16), 2),
        (Access(bytes_per_thread=8), 2),
        (Access(bytes_per_thread=16), 4),
        (addresses_of(lambda lane: 64 * (lane % 16)), 16),  # LDS.128 of matmul_16_conflicts
        (addresses_of(lambda lane: 32 * (lane % 8)), 8),  # of matmul_8_conflicts
        (addresses_of(lambda lane: 32 * (lane // 8)), 2),  # of matmul_8
        (addresses_of(lambda lane: 64 * (lane // 16)), 2),  # of matmul_16
    ],
)
def test_wide_accesses_have_the_wavefronts_that_counters_of_hopper_have(access, ways):
    assert conflict_ways(Instruction("smem", dst="r", access=access), load_gpu("h100")) == ways


def test_older_chips_take_a_warp_as_a_whole():
    access = Access(pattern="broadcast", bytes_per_thread=16)
    assert conflict_ways(Instruction("smem", dst="r", access=access), load_gpu("maxwell")) == 1
