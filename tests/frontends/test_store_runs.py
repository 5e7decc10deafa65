"""Stores of a warp that L1 joins: neighbouring words of each thread, stored one right behind another."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.listings import function
from warpsim.frontends.accesses.store_runs import StoreRun, store_runs
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.traversal import walk

INDEX = ["S2R R0, SR_TID.X", "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]", "IMAD.WIDE R2, R0, 0x10, R2"]
WORDS = [f"STG.E [R2.64+{4 * word:#x}], R{8 + word}" for word in range(4)]


def stores(*rows: str) -> list[Instruction]:
    kernel = to_kernel(function(*INDEX, *rows, "EXIT", arch=80), as_geometry("64,256"), Choices(caches="none"), name="f")
    return [one for _, one in walk(kernel.body) if isinstance(one, Instruction) and one.op == "store"]


def moved(one: Instruction) -> tuple[float, float]:
    """Bytes that a store moves, and sectors that L2 takes in for it."""
    assert one.cost is not None
    assert one.cost.requests is not None and one.cost.bytes_per_request is not None and one.cost.port_sectors is not None
    return one.cost.requests * one.cost.bytes_per_request, one.cost.requests * one.cost.port_sectors


def test_the_first_store_moves_what_all_write_and_each_makes_its_passes() -> None:
    first, *others = stores(*WORDS)
    assert moved(first) == (512, 16)  # four whole lines
    assert all(sum(moved(one)) < 0.01 for one in others)
    assert [one.cost.passes for one in (first, *others) if one.cost is not None] == [4] * 4


def test_a_line_that_all_stores_together_write_in_part_takes_the_port_once_more() -> None:
    first, second = stores(*WORDS[:2])
    assert moved(first) == (512, 20) and sum(moved(second)) < 0.01


def test_the_first_store_moves_less_where_some_warps_have_fewer_threads() -> None:
    """Seven warps write 16 sectors each, and the last one, with four threads, 2."""
    first, *others = stores("ISETP.LT.AND P0, PT, R0, 0xe4, PT", *(f"@P0 {row}" for row in WORDS))
    assert moved(first) == pytest.approx((14.25 * 32, 14.25), rel=1e-3)
    assert all(sum(moved(one)) < 0.01 for one in others)


@pytest.mark.parametrize(
    "between",
    [
        ["LDG.E R8, [R2.64]"],  # a load
        ["IADD3 R2, R2, 0x4, RZ"],  # another address
        ["BAR.SYNC.DEFER_BLOCKING 0x0"],  # after which all warps store at the same time
        ["FADD R8, R8, R8"] * 8,  # too far away
    ],
)
def test_what_keeps_stores_apart(between: list[str]) -> None:
    assert not any(one.cost and one.cost.bytes_per_request == 0.001 for one in stores(WORDS[0], *between, WORDS[1]))


def test_stores_of_other_lines_and_of_many_lines_are_not_joined() -> None:
    apart = StoreRun({0: 0, 1: 128})
    assert apart.costs(0, 4 * np.arange(32), 4, 1.0) == {}
    assert StoreRun({0: 0, 1: 4}).costs(0, 128 * np.arange(32), 4, 1.0) == {}


def test_a_run_is_of_one_predicate_and_one_address() -> None:
    code = function(*INDEX, WORDS[0], f"@P0 {WORDS[1]}", "STG.E [R4.64], R8", "STG.E [R4.64+0x4], R9", "EXIT").code
    runs = store_runs(code, range(len(code)))
    assert list(runs) == [len(INDEX) + 2, len(INDEX) + 3]
