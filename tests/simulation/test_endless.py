"""Endless kernels that stand for a long one."""

import pytest

from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop
from warpsim.kernels.traversal import walk
from warpsim.simulation.endless import endless, whole_bodies_from
from warpsim.simulation.launches import launch_time

BARRIER = Instruction("barrier")


def part(number):
    """Work, then a barrier."""
    return Instruction("alu", dst=f"r{number}", src=(f"r{number - 1}",) if number else ()), BARRIER


def kernel(parts, tail=()):
    loop = Loop(body=(Instruction("alu"),), trips=1000)
    return Kernel(name="k", title="k", source="s", body=(loop, *(one for n in range(parts) for one in part(n)), *tail))


def numbers(found):
    return [one.dst for _, one in walk(found.body) if isinstance(one, Instruction) and one.dst]


@pytest.mark.parametrize(
    ("factor", "kept"), [(1.0, list(range(10))), (0.5, [0, 2, 4, 6, 8]), (0.21, [0, 3, 6]), (0.1, [0]), (0.01, [0])]
)
def test_of_parts_that_end_with_barriers_some_are_kept(factor, kept):
    """They are evenly spaced, and whole: all warps of a block execute them. Registers that others wrote are inputs."""
    found = endless(kernel(10), factor)
    assert numbers(found) == [f"r{number}" for number in kept]
    assert sum(one == BARRIER for _, one in walk(found.body)) == len(kept)
    assert set(found.inputs) == {f"r{number}" for number in range(10)} or factor == 1.0
    Kernel.model_validate(found.model_dump())


@pytest.mark.parametrize(("trips", "inner", "factor"), [(256, 3, 2 / 256), (4, 3, 0.5), (1, 3, 2.0)])
def test_from_which_factor_on_bodies_of_loops_are_whole(trips, inner, factor):
    """The body of the outer loop has barriers beside an inner loop, which has some, too."""
    body = (*part(0), Loop(body=(Instruction("alu"), *part(1)), trips=inner), *part(2))
    program = Kernel(name="k", title="k", source="s", body=(*part(3), Loop(body=body, trips=trips)), inputs=("r2",))
    assert whole_bodies_from(program) == pytest.approx(factor)
    if factor <= 1:
        (loop,) = (one for one in endless(program, factor).body[0].body if isinstance(one, Loop))
        assert loop.trips == 2 and loop.body == body


def test_only_barriers_in_loops_need_whole_bodies():
    assert whole_bodies_from(kernel(4)) == 0.0
    inner = Loop(body=(Instruction("alu"), *part(0)), trips=8)
    (outer,) = (Loop(body=(Instruction("alu"), Conditional(then=(inner,), probability=0.5)), trips=16),)
    program = Kernel(name="k", title="k", source="s", body=(outer,))
    assert whole_bodies_from(program) == pytest.approx(2 / 16 * 2 / 8)


@pytest.mark.parametrize(("first", "others"), [(24, 3), (3, 24)])
def test_windows_of_warps_with_different_work_take_as_long_as_the_launch(first, others):
    """The work is that of the warps of a block, and a block makes room for the next one when all of them have ended."""
    step = Instruction("alu", dst="r1", src=("r1",))
    sides = Conditional(
        warps=(0,), then=(Loop(body=(step,) * 8, trips=first),), orelse=(Loop(body=(step,) * 8, trips=others),)
    )
    uneven = Kernel(name="k", inputs=("r1",), block_warps=8, body=(sides,))
    assert endless(uneven, 1.0).body[0].body[-1] == BARRIER
    whole, window = (
        launch_time("kepler", uneven, blocks=1000, budget=budget, replicates=2) for budget in (10_000_000, 400)
    )
    assert (whole.sampling, "windows" in window.sampling) == ("", True)
    assert window.microseconds.mean == pytest.approx(whole.microseconds.mean, rel=0.2)


def test_what_follows_the_last_barrier_keeps_its_share():
    tail = Instruction("sfu")
    (around,) = endless(kernel(4, (tail,)), 0.25).body
    assert around.body[-1] == Conditional(then=(tail,), probability=0.25)
