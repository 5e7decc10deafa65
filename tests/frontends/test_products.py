"""Matrix products of warp groups: what their warps wait for, and that they go on meanwhile."""

from itertools import pairwise

import pytest

import warpsim as ws
from tests.frontends.test_async_copies import HEAD, NEXT, imported, instructions
from warpsim.kernels import Cost, Hints, Kernel, Loop
from warpsim.kernels.instruction import Instruction

PRODUCT = "HGMMA.64x64x16.F32 R24, gdesc[UR4], R24"


@pytest.mark.parametrize(("groups", "products"), [(1, 1), (1, 3), (2, 2)])
def test_a_wait_leaves_the_products_of_the_latest_groups_under_way(groups, products):
    group = (*[PRODUCT] * (products - 1), f"{PRODUCT}, gsb0")
    waits = (f"WARPGROUP.DEPBAR.LE gsb0, {groups:#x}", *NEXT[:-1], "WARPGROUP.DEPBAR.LE gsb0, 0x0", "FADD R40, R24, R24", "EXIT")
    kernel = imported(*HEAD, *group * (groups - 1), ".L_loop:", *group, *waits, arch=90, parameters="0x160 0:8:x 8:4:n")
    found = instructions(kernel, "wgmma")
    assert len(found) == groups * products
    assert {one.hints for one in found} == {Hints(write=1)}
    assert [one.hints for one in instructions(kernel) if one.hints and one.hints.waits] == [
        Hints(waits=(1,), at_most=groups * products)
    ]
    (last,) = [one for one in instructions(kernel) if "gsb0, 0x0" in one.comment]
    assert set(last.src) == {one.dst for one in found}


def test_waits_for_all_products_need_no_counter():
    rows = (*HEAD, ".L_loop:", f"{PRODUCT}, gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x0", *NEXT)
    kernel = imported(*rows, arch=90, parameters="0x160 0:8:x 8:4:n")
    assert all(one.hints is None for one in instructions(kernel))


def test_a_warp_goes_on_while_its_products_are_made():
    """Four products take 512 cycles of the unit, and so does what the warp has to do beside them."""
    cost = Cost(multiply_adds=16 * 256 * 16, operands="f16_f32")
    products = [Instruction("wgmma", dst=f"d{number}", cost=cost) for number in range(4)]
    rest = [Instruction("alu", dst="a", src=("a",))] * 120
    cycles = []
    for trips in (20, 40):
        kernel = Kernel(name="both", body=[Loop(body=[*products, *rest], trips=trips)], inputs=("a",))
        launch = ws.Launch(blocks=1, block_warps=1)
        cycles.append(float(ws.simulate("h100", kernel, launch=launch, memory="fixed", replicates=1)["cycles"][0]))
    ((few, many),) = pairwise(cycles)
    assert (many - few) / 20 == pytest.approx(4 * 128, rel=0.01)
