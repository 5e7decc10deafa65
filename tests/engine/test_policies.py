"""Every policy of the list is compared with the reference, such that a wrong one would be noticed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.directed_cases import kernel, one
from tests.engine.test_against_reference import assert_same
from tests.support.cases import POLICIES, Case, small_gpu
from warpsim import kernels as k
from warpsim.hardware.residency import Launch
from warpsim.reference import policies as reference
from warpsim.reference.memory import Stream
from warpsim.reference.warp import Warp
from warpsim.simulation.encode import _POLICIES
from warpsim.simulation.policies import POLICIES as NAMED

BODY = (
    one("load", 2, access=k.Access(l1_hit=0.5)),
    one("alu", 1),
    one("alu", 1),
    one("sfu", 3),
    one("alu", 2),
    k.Conditional(then=[one("load", 3), one("alu", 0)], orelse=[one("smem", 0, ways=2)], probability=0.5),
)
PROGRAM = kernel(k.Loop(body=BODY, trips=(2, 5)))
CASE = Case(
    small_gpu(sm={"max_warps": 24, "max_blocks": 24}, ops={"alu": {"interval_cycles": 2}}, issue={"width": 2}),
    PROGRAM,
    Launch(blocks=40, block_warps=2, resident_blocks=10),
    {"memory": "queue", "seed": 7, "warmup": 0, "cycles": 800},
)


def under(policy: str) -> Case:
    return replace(CASE, options=CASE.options | {"scheduler": policy})


def test_the_engine_has_every_policy_of_the_list() -> None:
    assert tuple(_POLICIES) == tuple(NAMED)


@pytest.mark.parametrize("policy", POLICIES)
def test_engine_and_reference_agree(policy: str) -> None:
    assert_same(under(policy))


class LastInSlotOrder(reference.Policy):
    """Prefers the last slot."""

    def pick(self, warps: list[Warp]) -> Warp:
        return warps[-1]


def seldom_wrong(right: type[reference.Policy]) -> type[reference.Policy]:
    """Returns a policy that is wrong at every fiftieth pick only."""

    class Wrong(right):  # type: ignore[misc, valid-type]
        picks = 0

        def pick(self, warps: list[Warp]) -> Warp:
            self.picks += 1
            picked = super().pick(warps)
            return next(warp for warp in warps if warp is not picked) if self.picks % 50 == 0 and len(warps) > 1 else picked

    return Wrong


def forgetful(right: type[reference.Policy]) -> type[reference.Policy]:
    """Returns a policy that forgets its state at every tenth issue."""

    class Wrong(right):  # type: ignore[misc, valid-type]
        issues = 0

        def issued(self, warp: Warp, warps: list[Warp], t: int) -> None:
            super().issued(warp, warps, t)
            Wrong.issues += 1
            if Wrong.issues % 10 == 0:
                self.__init__(self.schedulers, self.stream)  # type: ignore[misc]

    return Wrong


WRONG: dict[str, Any] = {"seldom wrong": seldom_wrong, "last slot": lambda right: LastInSlotOrder, "forgetful": forgetful}
STATELESS = ("oldest", "random")  # what they need, the warps and the stream have


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("policy", NAMED)
def test_a_wrong_policy_of_the_reference_is_noticed(policy: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "forgetful" and policy in STATELESS:
        how = "seldom wrong"
    monkeypatch.setitem(reference.POLICIES, policy, WRONG[how](reference.POLICIES[policy]))
    with pytest.raises(AssertionError):
        assert_same(under(policy))


@pytest.mark.parametrize("policy", NAMED)
def test_no_policy_passes_for_another(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each pair, the engine runs one and the reference the other."""
    for other in NAMED:
        if other != policy:
            monkeypatch.setitem(reference.POLICIES, policy, reference.POLICIES[other])
            with pytest.raises(AssertionError):
                assert_same(under(policy))
            monkeypatch.undo()


class NeverStalled(reference.TwoLevel):
    """Takes all warps for active."""

    def issued(self, warp: Warp, warps: list[Warp], t: int) -> None:
        living = {self.group(other) for other in warps if not other.exited}
        while self.front not in living | {self.group(warp)}:
            self.front = (self.front + 1) % 8
        self.latest[self.group(warp)] = warp.slot


class AlwaysStalled(reference.TwoLevel):
    """Gives the front to whichever group issues."""

    def issued(self, warp: Warp, warps: list[Warp], t: int) -> None:
        self.front = self.group(warp)
        self.latest[self.front] = warp.slot


class BackToTheFirst(reference.TwoLevel):
    """Begins each group from its first slot."""

    def issued(self, warp: Warp, warps: list[Warp], t: int) -> None:
        before = self.front
        super().issued(warp, warps, t)
        if self.front != before:
            self.latest.clear()


@pytest.mark.parametrize("wrong", [NeverStalled, AlwaysStalled, BackToTheFirst])
def test_a_two_level_policy_with_another_state_is_noticed(wrong: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference.POLICIES, "two_level", wrong)
    with pytest.raises(AssertionError):
        assert_same(under("two_level"))


def test_policies_see_their_own_stream() -> None:
    policy = reference.make_policy("two_level:4", 2, Stream.of_scheduler(1, 0))
    assert isinstance(policy, reference.TwoLevel) and (policy.size, policy.schedulers) == (4, 2)
