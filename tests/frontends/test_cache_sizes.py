"""How large the caches are that a launch has, and whose caches stand for those that are not known."""

import re

import pytest

import warpsim as ws
from tests.support.listings import kernel
from warpsim.frontends.caches.walk import (
    caches_of,
    notes_of_caches,
)
from warpsim.frontends.errors import AssumptionWarning


class Resources:
    registers_per_thread, shared_bytes_per_block = 32, 0


def test_shared_memory_takes_its_part_of_the_data_cache():
    plain = caches_of(80, Resources(), 8)
    assert (plain.sms, plain.resident, plain.l1_bytes, plain.l2_bytes) == (108, 8, (192 - 32) * 1024, 40 * 2**20)

    class WithShared(Resources):
        shared_bytes_per_block = 11 * 1024

    assert caches_of(80, WithShared(), 8).l1_bytes == (192 - 100) * 1024  # 8 blocks of 12 KiB
    assert caches_of(70, Resources(), 8).l1_bytes == 128 * 1024
    assert caches_of(86, Resources(), 8, "a40").l2_bytes == 6 * 2**20
    assert caches_of(61, Resources(), 8) is None


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "kib", "set_aside"),
    [
        (75, 128, 32, 8, 64), (75, 1024, 32, 4, 32), (80, 1024, 32, 0, 8), (80, 256, 32, 0, 32), (80, 128, 210, 42, 100),
        (86, 256, 40, 0, 8), (86, 512, 40, 8, 32), (86, 256, 128, 8, 64), (86, 256, 255, 8, 16), (86, 1024, 32, 8, 16),
        (86, 256, 32, 16, 100), (89, 256, 40, 0, 16), (89, 128, 40, 0, 32), (89, 256, 128, 8, 64), (89, 256, 168, 16, 32),
        (90, 1024, 32, 0, 8), (90, 256, 64, 0, 32), (120, 256, 40, 4.125, 64), (120, 1024, 40, 4.125, 8),
    ],
)  # fmt: skip
def test_drivers_set_so_much_aside_for_shared_memory(arch, threads, registers, kib, set_aside):
    """As reports have it, apart from kernels of one launch alone."""

    class Given:
        registers_per_thread, shared_bytes_per_block = registers, round(kib * 1024)

    unified = {75: 96, 80: 192, 86: 128, 89: 128, 90: 256, 120: 128}[arch]
    assert caches_of(arch, Given(), threads // 32).l1_bytes == (unified - set_aside) * 1024


def test_a_named_chip_has_its_own_caches():
    """Also where the code is that of another architecture."""
    h100 = caches_of(80, Resources(), 8, "h100")
    assert (h100.l1_bytes, h100.l2_bytes, h100.halves) == ((256 - 32) * 1024, 50 * 2**20, 2)
    assert caches_of(90, Resources(), 8, "l40").l1_bytes == (128 - 16) * 1024
    assert caches_of(75, Resources(), 8, "rtx2080ti").l2_bytes == 5_767_168
    assert caches_of(61, Resources(), 8, "h100") == h100
    assert [*notes_of_caches(80, "h100"), *notes_of_caches(90), *notes_of_caches(80, "none")] == []


def chip(name, **other):
    return ws.load_gpu(name).model_copy(update={"name": "mine", **other})


@pytest.mark.parametrize(
    ("arch", "gpu", "l1_kib", "l2_of", "notes"),
    [
        (80, chip("h200"), 224, "h100", ["the L2 cache of mine is not known: that of h100, 50 MiB, stands for it"]),
        (90, chip("a40", architecture=None), 224, "h100", ["L1 cache of mine .* of sm_90 stands", "L2 .* of h100"]),
        (80, "titan_x", 184, "a100", ["L1 cache of titan_x .* of sm_80 stands", "L2 cache of titan_x .* of a100, 40 MiB"]),
        (80, chip("rtx5090", architecture="sm_100"), 224, "b200", ["the L2 cache of mine .*that of b200, 126.5 MiB"]),
        (80, chip("rtx5090", architecture="sm_103"), 224, "b200", ["L1 cache of mine .* of sm_100 stands", "L2 .* of b200"]),
    ],
)
def test_a_note_says_whose_caches_stand_for_those_that_are_not_known(arch, gpu, l1_kib, l2_of, notes):
    found = caches_of(arch, Resources(), 8, gpu)
    assert found.l1_bytes == l1_kib * 1024
    assert found.l2_bytes == caches_of(90, Resources(), 8, l2_of).l2_bytes
    said = list(notes_of_caches(arch, gpu))
    assert len(said) == len(notes) and all(re.search(*pair) for pair in zip(notes, said, strict=True))


def test_an_import_says_whose_caches_stand_for_others():
    with pytest.warns(AssumptionWarning, match="the L2 cache of mine is not known: that of a100, 40 MiB, stands for it"):
        kernel("EXIT", launch="1,32", caches=chip("a100"))
    with pytest.warns(AssumptionWarning, match="the caches of sm_61 are not known: no access hits"):
        kernel("EXIT", launch="1,32", arch=61)
