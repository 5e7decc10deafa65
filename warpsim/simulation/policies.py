"""The names of the scheduling policies: the one list from which help texts, docstrings, completion and tests derive.

docs/model.md, section 3, says what each policy does; `warpsim.reference.policies` and `warpsim.engine.schedulers` do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from warpsim.arguments import choice

POLICIES = {
    "lrr": "loose round robin",
    "gto": "greedy, then oldest",
    "oldest": "oldest first",
    "random": "any, equally likely",
    "gty": "greedy, then youngest",
    "grr": "greedy, then round robin",
    "two_level": "round robin within and among fetch groups, of 8 warps; two_level:N for N, a power of two up to 64",
}
"""Scheduling policy -> what it prefers (docs/model.md, section 3)."""

REPLAYED = "grr"
"""The policy of `launch_time`, and of replays of profiled launches, if no other is asked for (docs/profiles.md)."""

FETCH_GROUP = 8
"""Warps of a fetch group of the policy `two_level`, if its name does not say another number."""

GROUP_SIZES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of warps that a fetch group can have."""

GROUPED = tuple(f"two_level:{size}" for size in GROUP_SIZES if size != FETCH_GROUP)
"""The policy `two_level` with groups of other sizes."""


def as_policy(name: object) -> str:
    """Returns the policy that is meant; upper and lower case are the same, and so are `two_level` and `two_level:8`.

    Raises:
        TypeError: the name is no text.
        ValueError: there is no such policy.
    """
    if isinstance(name, str) and name.lower() == f"two_level:{FETCH_GROUP}":
        return "two_level"
    return choice("scheduler", name, (*POLICIES, *GROUPED))


def group_of(policy: str) -> tuple[str, int]:
    """Returns the name of a policy without the size of its fetch groups, and that size."""
    name, _, size = policy.partition(":")
    return name, int(size) if size else FETCH_GROUP


Function = TypeVar("Function", bound=Callable[..., Any])


def lists_policies(function: Function) -> Function:
    """Has the docstring of a function list the policies in place of the word {policies}."""
    function.__doc__ = (function.__doc__ or "").replace("{policies}", described())
    return function


def described(default: str | None = None) -> str:
    """Returns a list of the policies for a help text, in which the default is marked."""
    return ", ".join(
        f"{name} ({what}{'; the default' if name == default else ''})" for name, what in POLICIES.items()
    )
