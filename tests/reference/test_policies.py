"""The policies of the reference machine, by hand (docs/model.md, section 3)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from tests.reference.test_simulator import ALU, BARRIER, FREE_LOAD, LOAD, program, run
from tests.support.cases import Case, small_gpu
from tests.support.strategies import cases, examples
from warpsim.kernels import Instruction, Loop
from warpsim.reference.policies import POLICIES
from warpsim.reference.simulator import simulate
from warpsim.simulation import policies

ADD = Instruction("alu", src=["r0"])  # waits for nothing
USE = Instruction("alu", src=["r2"])  # waits for FREE_LOAD


def slots(*body: Instruction | Loop, warps: int = 4, size: int = 2, gap: int = 1, **options: object) -> list[int]:
    """Returns the slots that issue one after another with fetch groups of a size, without the exits."""
    gpu = small_gpu(ops={"alu": {"gap_cycles": gap}})
    result = run(gpu, program(*body), blocks=warps, seats=warps, scheduler=f"two_level:{size}", **options)
    return [slot for _, _, slot, op in result.issues if op != "exit"]


def test_names_are_those_of_the_list() -> None:
    assert tuple(POLICIES) == tuple(policies.POLICIES)


def test_each_name_in_any_case_is_a_policy() -> None:
    for name in (*policies.POLICIES, *policies.GROUPED):
        assert policies.as_policy(name.upper()) == name
    assert policies.as_policy("two_level:8") == "two_level"
    for wrong in ("two_level:3", "two_level:", "two_level:128", "lrr:4", "two-level"):
        with pytest.raises(ValueError, match=rf"scheduler = '{wrong}': must be one of lrr, gto, .*two_level:64"):
            policies.as_policy(wrong)


class TestTwoLevel:
    """Two groups of two warps, where nothing else is said."""

    def test_the_group_in_front_has_priority_until_it_is_stalled_at_loads(self) -> None:
        """Each pair of warps takes turns up to its loads; then its results return before the other pair is through."""
        assert slots(ADD, ADD, FREE_LOAD, USE)[:12] == [0, 1] * 3 + [2, 3] * 3
        loads_at = 2 * 2, 2 * 2 + 1
        back = [load + 40 for load in loads_at]
        gpu = small_gpu()
        issues = run(gpu, program(ADD, ADD, FREE_LOAD, USE), blocks=4, seats=4, scheduler="two_level:2").issues
        assert [t for t, _, slot, _ in issues if slot in (0, 1)][6:8] == back

    def test_others_issue_where_the_group_in_front_cannot(self) -> None:
        """A warp issues in every third cycle: the third cycle is for the other group, whose warps take turns, too."""
        assert slots(*[ADD] * 4, gap=3)[:12] == [0, 1, 2, 0, 1, 3, 0, 1, 2, 0, 1, 3]

    def test_a_stall_that_is_not_for_a_load_keeps_the_front(self) -> None:
        """Both warps of the group wait for an add while the other group issues; then they go first again."""
        assert slots(ALU, ALU, *[ADD] * 3)[:8] == [0, 1, 2, 3, 0, 1, 0, 1]

    def test_a_barrier_keeps_the_front(self) -> None:
        found = run(small_gpu(), program(BARRIER, ADD, ADD), size=4, scheduler="two_level:2")
        assert [w for _, _, w, op in found.issues if op == "alu"] == [0, 1, 0, 1, 2, 3, 2, 3]

    def test_one_warp_that_is_not_stalled_keeps_the_front(self) -> None:
        """Slot 1 begins 3 cycles late and is not stalled until its load; its group comes back in front of the other one."""
        gpu = small_gpu(warp_launch_cycles=3)
        issues = run(gpu, program(FREE_LOAD, ADD, ADD, USE), size=4, scheduler="two_level:2").issues
        assert [slot for _, _, slot, _ in issues][:12] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]

    def test_a_group_whose_warps_have_left_is_passed(self) -> None:
        assert slots(ADD, ADD, warps=6) == [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5]

    def test_the_front_goes_round(self) -> None:
        """Groups of one warp: the front passes on at each load, and comes back to the first warp whose load has returned."""
        loop = Loop(body=[FREE_LOAD, ADD, USE], trips=2)
        order = slots(loop, warps=3, size=1)
        assert order[:6] == [0, 0, 1, 1, 2, 2]
        assert order[6:11] == [0, 0, 0, 1, 1]  # at 40 to 42, and at 42 or later the second

    def test_a_group_that_was_passed_waits_for_its_turn(self) -> None:
        """Group 0 stalls in cycle 22. Its loads are back at 40, but group 1 keeps the front until it stalls in cycle 44."""
        order = slots(FREE_LOAD, *[ADD] * 10, USE, ADD)
        assert order[:48] == [0, 1] * 11 + [2, 3] * 11 + [0, 1] * 2

    @examples(25)
    @given(cases(barriers="even"))
    def test_one_group_is_loose_round_robin(self, case: Case) -> None:
        runs = [
            simulate(case.gpu, case.kernel, case.launch, **(case.options | {"scheduler": name}))
            for name in ("two_level:64", "lrr")
        ]
        assert runs[0] == runs[1]
        assume(runs[0].issues)  # a window of one cycle may have none

    def test_a_load_into_a_register_that_is_written_next_counts(self) -> None:
        """The destination is named as well: the next instruction cannot overwrite r1 before the load returns."""
        overwrite = Instruction("alu", dst="r1", src=["r0"])
        assert slots(LOAD, overwrite)[:4] == [0, 1, 2, 3]
        assert slots(LOAD, ADD, overwrite)[:8] == [0, 1, 0, 1, 2, 3, 2, 3]
