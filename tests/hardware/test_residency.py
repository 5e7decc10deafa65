"""Residency: the numbers of V, the rules of the occupancy calculator, and the checks of launches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch, default_block_warps, occupancy, resolve_launch

CHIPS = {"g80": 24, "gt200": 32, "fermi": 48, "kepler": 64, "maxwell": 64}  # V Table 2.8: warps per SM


@dataclass(frozen=True)
class Needs:
    """The resources of a kernel."""

    registers_per_thread: int = 8
    shared_bytes_per_block: int = 0
    block_warps: int | None = None


def test_one_byte_costs_two_blocks_on_kepler() -> None:
    """V 5.7: 16 blocks of 3072 bytes, but 14 of 3073, which are rounded up to 3328."""
    kepler = load_gpu("kepler")
    assert occupancy(kepler, Needs(shared_bytes_per_block=3072), 1).blocks == 16
    found = occupancy(kepler, Needs(shared_bytes_per_block=3073), 1)
    assert (found.blocks, found.limiter) == (14, "shared memory")


@pytest.mark.parametrize("name", ["g80", "gt200"])
def test_no_kernel_has_seven_blocks_on_early_chips(name: str) -> None:
    """V 5.7: shared memory cannot limit G80 and GT200 to 7 blocks, since each block loses 16 bytes."""
    gpu = load_gpu(name)
    blocks = [occupancy(gpu, Needs(shared_bytes_per_block=n), 1).blocks for n in range(16385)]
    assert sorted(set(blocks)) == [0, 1, 2, 3, 4, 5, 6, 8]
    assert blocks[2048 - 16] == 8 and blocks[2048 - 15] == 6
    assert blocks[16384 - 16] == 1 and blocks[16384 - 15] == 0


def test_no_kernel_is_limited_to_one_block_on_maxwell() -> None:
    """V 5.7: 48 KB per block at most, of 96 KB."""
    gpu = load_gpu("maxwell")
    assert occupancy(gpu, Needs(shared_bytes_per_block=49152), 1).blocks == 2
    assert occupancy(gpu, Needs(shared_bytes_per_block=49153), 1).blocks == 0


@pytest.mark.parametrize(
    ("name", "registers", "warps"),
    [
        ("fermi", 20, 48),
        ("fermi", 21, 40),
        ("fermi", 63, 16),
        ("gt200", 16, 32),
        ("gt200", 17, 24),
        ("gt200", 128, 4),
    ],
)
def test_registers_of_large_blocks(name: str, registers: int, warps: int) -> None:
    """VT: 20 registers at full occupancy and 63 at a third on Fermi; 16 and, at an eighth, 128 on GT200."""
    gpu = load_gpu(name)
    assert occupancy(gpu, Needs(registers), 8 if registers < 63 else 4).warps == warps


def test_registers_are_rounded_up_per_warp_or_per_block() -> None:
    """By the occupancy calculator.

    G80: 3 warps count as 4, and 4 x 32 x 9 = 1152 registers come to 1280 of 8192. Kepler: 33 x 32 = 1056 come
    to 1280 for each warp, so that each of 4 sub-partitions of 16384 holds 12 warps: 12 blocks of 4, or 16 of 3.
    Fermi: 1056 come to 1088, and each of 2 sub-partitions of 16384 holds 15 warps.
    """
    assert occupancy(load_gpu("g80"), Needs(9), 3).limits["registers"] == 6
    assert occupancy(load_gpu("kepler"), Needs(33), 4).limits["registers"] == 12
    assert occupancy(load_gpu("kepler"), Needs(33), 3).limits["registers"] == 16
    assert occupancy(load_gpu("fermi"), Needs(33), 1).limits["registers"] == 30
    assert occupancy(load_gpu("maxwell"), Needs(255), 5).limits["registers"] == 1  # 5 warps of 8192 fit, and so would 8
    assert occupancy(load_gpu("maxwell"), Needs(255), 9).limits["registers"] == 0  # 12 would not


def test_limits_and_limiter() -> None:
    found = occupancy(load_gpu("fermi"), Needs(20, 8192), 6)
    assert found.limits == {"warps": 8, "blocks": 8, "registers": 8, "shared memory": 6}
    assert (found.blocks, found.warps, found.limiter) == (6, 36, "shared memory")
    assert occupancy(load_gpu("fermi"), Needs(20), 6).limiter == "warps"  # the first on a tie
    assert occupancy(load_gpu("kepler"), Needs(64), 1).limits["registers"] == 0  # 63 per thread


@pytest.mark.parametrize("name", CHIPS)
def test_default_block_is_the_smallest_that_fits(name: str) -> None:
    gpu = load_gpu(name)
    for warps in range(1, CHIPS[name] + 1):
        sizes = [
            size
            for size in range(1, gpu.sm.max_block_warps + 1)
            if warps % size == 0 and warps // size <= gpu.sm.max_blocks
        ]
        if sizes:
            assert default_block_warps(gpu, warps) == sizes[0]
        else:
            with pytest.raises(ValueError, match=rf"warps = {warps}: no block size"):
                default_block_warps(gpu, warps)


@pytest.mark.parametrize("name", CHIPS)
def test_every_whole_number_of_warps_per_scheduler_has_a_block(name: str) -> None:
    """Except for primes above 16 on G80 and GT200, which hold at most 8 blocks of at most 16 warps."""
    gpu = load_gpu(name)
    primes = {"g80": [17, 19, 23], "gt200": [17, 19, 23, 29, 31]}.get(name, [])
    for warps in range(gpu.sm.schedulers, CHIPS[name] + 1, gpu.sm.schedulers):
        if warps in primes:
            with pytest.raises(ValueError, match="no block size"):
                resolve_launch(gpu, Needs(), warps=warps)
        else:
            launch = resolve_launch(gpu, Needs(), warps=warps)
            assert launch.resident_blocks is not None
            assert launch.block_warps * launch.resident_blocks == warps


def test_the_message_lists_the_possible_occupancies() -> None:
    says = (
        "which holds at most 16 blocks of at most 32 warps; allowed: 1-36, 38-40, 42, 44-46, 48-52, 54-58, 60, 62-64"
    )
    with pytest.raises(ValueError, match=re.escape(says)):
        default_block_warps(load_gpu("kepler"), 61)


def test_the_default_is_as_many_as_fit() -> None:
    assert resolve_launch(load_gpu("kepler"), Needs()) == Launch(block_warps=4, resident_blocks=16)
    assert resolve_launch(load_gpu("kepler"), Needs(63)) == Launch(block_warps=4, resident_blocks=8)
    assert resolve_launch(load_gpu("kepler"), Needs(), block_warps=5) == Launch(
        block_warps=5, resident_blocks=12
    )
    launch = Launch(blocks=100, block_warps=8)
    assert resolve_launch(load_gpu("kepler"), Needs(), launch=launch) == Launch(
        blocks=100, block_warps=8, resident_blocks=8
    )


def test_launch_and_warps_together() -> None:
    kepler = load_gpu("kepler")
    one_wave = Launch(block_warps=8, persistent=True)
    expected = Launch(block_warps=8, resident_blocks=4, persistent=True)
    assert resolve_launch(kepler, Needs(), warps=32, launch=one_wave) == expected
    assert resolve_launch(kepler, Needs(), warps=32, block_warps=8, launch=expected) == expected
    assert resolve_launch(kepler, Needs(), launch=expected) == expected


ONE = Launch(block_warps=4, resident_blocks=2)


@pytest.mark.parametrize(
    ("needs", "arguments", "error", "says"),
    [
        (Needs(), {"warps": 25}, ValueError, "warps = 25: must be an integer from 1 to 24"),
        (Needs(), {"warps": 0}, ValueError, "warps = 0: must be an integer from 1 to 24"),
        (Needs(), {"warps": 8.0}, TypeError, "warps = 8.0: must be an integer from 1 to 24"),
        (Needs(), {"warps": True}, TypeError, "warps = True: must be an integer from 1 to 24"),
        (Needs(), {"block_warps": 17}, ValueError, "block_warps = 17: must be an integer from 1 to 16"),
        (Needs(), {"warps": 10, "block_warps": 4}, ValueError, "warps = 10: must be a multiple of block_warps = 4"),
        (Needs(16), {"warps": 24}, ValueError, "warps = 24: must be at most 12 on g80"),
        (Needs(8, 4096), {"warps": 24}, ValueError, "warps = 24: must be at most 9 on g80"),
        (Needs(16), {"warps": 24}, ValueError, "with block_warps = 3, limited by registers"),
        (Needs(8, 4096), {"warps": 24}, ValueError, "with block_warps = 3, limited by shared memory"),
        (Needs(200), {}, ValueError, "kernel: no block fits on g80"),
        (Needs(200), {}, ValueError, "200 registers per thread (at most 128, 8192 per SM)"),
        (Needs(), {"launch": {"block_warps": 4}}, TypeError, "launch = {'block_warps': 4}: must be a Launch or None"),
        (
            Needs(),
            {"launch": Launch(block_warps=17)},
            ValueError,
            "launch.block_warps = 17: must be an integer from 1 to 16",
        ),
        (
            Needs(),
            {"launch": Launch(block_warps=4, resident_blocks=7)},
            ValueError,
            "launch.resident_blocks = 7: must be at most 6",
        ),
        (Needs(), {"launch": ONE, "block_warps": 2}, ValueError, "block_warps = 2: must be 4, as in launch"),
        (Needs(), {"launch": ONE, "warps": 4}, ValueError, "warps = 4: must be 8, as in launch"),
        (
            Needs(),
            {"launch": Launch(block_warps=4, persistent=True, blocks=9)},
            ValueError,
            "launch.blocks = 9: must be left out",
        ),
    ],
)
def test_impossible_launches_are_rejected(needs: Needs, arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        resolve_launch(load_gpu("g80"), needs, **arguments)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "block_warps is missing: must be an integer from 1"),
        ({"block_warps": 0}, "block_warps = 0: must be an integer from 1"),
        ({"block_warps": 4, "block": 3}, "block = 3: unknown key, did you mean 'blocks'?; allowed here: blocks, block_warps"),
        ({"block_warps": 4.0}, "block_warps = 4.0: must be an integer from 1"),
    ],
)
def test_launch_is_strict(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Launch(**fields)


def test_resident_warps_are_those_of_full_blocks() -> None:
    assert Launch(block_warps=4, resident_blocks=3).resident_warps == 12
    with pytest.raises(ValueError, match=r"launch\.resident_blocks: must be given"):
        _ = Launch(block_warps=4).resident_warps
