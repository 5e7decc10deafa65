"""What a run keeps of its course: `Trace`, and the room that it takes."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import SupportsIndex

from warpsim.drive import Keep, TraceLimitError

DEFAULT_MAX_BYTES = 1 << 28
_VALUE = 8  # bytes of a value in the Dataset
_VALUES = {"issues": 5, "warps": 6, "occupancy": 3}  # of a row: those of the dimensions `issue`, `warp`, `change`
_STATES = 9
_SHORTER = {
    "issues": "a shorter window",
    "warps": "fewer cycles or blocks",
    "occupancy": "a number of bins in place of True, fewer cycles or blocks",
    "bins": "fewer bins",
    "lines": "states=False",
}


@dataclass(frozen=True)
class Trace:
    """What `simulate` is to keep of a run, beyond its counts; docs/traces.md shows the variables.

    Attributes:
        occupancy: True: every change of an SM's number of resident warps; a number: the mean over so many bins of time, at most.
        warps: every warp's start, end and place.
        issues: (start, stop): every instruction issued from cycle `start` on and before `stop`, counted from launch.
        states: True: warp-cycles by program line and by scheduler; a number: the same, and over so many bins of time.
        max_bytes: what the trace of all replicates may take in the Dataset; while it is recorded, the engine holds no more
            than that again.

    Raises:
        TypeError: a value is of the wrong type.
        ValueError: a value is not allowed.
    """

    occupancy: bool | int = False
    warps: bool = False
    issues: tuple[int, int] | None = None
    states: bool | int = False
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        for name in ("occupancy", "states"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                _integer(name, value, 1, "True, False or ")
        if not isinstance(self.warps, bool):
            raise TypeError(f"trace.warps = {self.warps!r}: True or False")
        if self.issues is not None:
            if not isinstance(self.issues, tuple | list) or len(self.issues) != 2:
                raise TypeError(f"trace.issues = {self.issues!r}: (start, stop) in cycles, or None")
            start, stop = (_integer("issues", cycle, 0) for cycle in self.issues)
            if start >= stop:
                raise ValueError(f"trace.issues = {(start, stop)}: start before stop")
            object.__setattr__(self, "issues", (start, stop))
        _integer("max_bytes", self.max_bytes, 1)
        binned = [n for n in (self.occupancy, self.states) if not isinstance(n, bool)]
        if len(set(binned)) > 1:
            raise ValueError(f"trace.occupancy = {self.occupancy}, states = {self.states}: the same number of bins")

    @property
    def bins(self) -> int:
        """Bins of time; 0: none."""
        return max(0 if isinstance(n, bool) else n for n in (self.occupancy, self.states))

    def keep(
        self, *, replicates: int, sms: int, schedulers: int, issue_width: int, lines: int, residents: int, blocks: int | None,
        block_warps: int,
    ) -> Keep:  # fmt: skip
        """What each replicate keeps, its room chosen within `max_bytes`.

        Args:
            replicates: repetitions.
            sms: simulated SMs.
            schedulers: of an SM.
            issue_width: instructions that a scheduler issues in a cycle, at most.
            lines: steps of the program.
            residents: warps that the chip holds.
            blocks: of the grid; None: an endless supply.
            block_warps: warps of a block.

        Raises:
            TraceLimitError: the trace takes more than `max_bytes` for certain.
        """
        share = self.max_bytes // replicates // _VALUE
        needs: dict[str, int] = {}  # values, of what is known to come
        if self.states:
            needs["lines"] = lines * (2 * _STATES + 1) + schedulers * _STATES
        if self.bins:
            over_time = 0 if isinstance(self.states, bool) else _STATES + 2
            needs["bins"] = self.bins * (over_time + (0 if isinstance(self.occupancy, bool) else sms))
        rows: dict[str, int | None] = {}  # the most that there can be; None: not known
        if self.issues is not None:
            rows["issues"] = (self.issues[1] - self.issues[0]) * sms * schedulers * issue_width
        if self.warps:
            rows["warps"] = None if blocks is None else blocks * block_warps
        if self.occupancy is True:
            rows["occupancy"] = None if blocks is None else blocks * (1 + block_warps) + sms
        least = {"issues": 1, "warps": residents + 1, "occupancy": sms + 1}
        for name, most in rows.items():
            sure = least[name] if most is None or name == "issues" else most
            needs[name] = sure * _VALUES[name]
        if sum(needs.values()) > share:
            largest = max(needs, key=lambda name: needs[name])
            taken = ", ".join(f"{name} {values * _VALUE * replicates}" for name, values in needs.items())
            raise TraceLimitError(
                f"trace: at least {sum(needs.values()) * _VALUE * replicates} bytes ({taken}), more than "
                f"max_bytes = {self.max_bytes}: {_SHORTER[largest]}, fewer replicates, a slice of the chip (sms), "
                "or a larger max_bytes"
            )
        open_ended = [name for name, most in rows.items() if most is None or name == "issues"]
        spare = (share - sum(needs.values())) // max(1, len(open_ended))
        room = {name: most or 0 for name, most in rows.items()}
        for name in open_ended:
            fits = needs[name] // _VALUES[name] + spare // _VALUES[name]
            most = rows[name]
            room[name] = fits if most is None else min(fits, most)
        if blocks is None and self.warps:
            room["warps"] -= residents  # those that are still there at the end
        return Keep(
            issues=room.get("issues", 0),
            issue_window=self.issues or Keep.issue_window,
            lives=room.get("warps", 0),
            changes=room.get("occupancy", 0),
            bins=self.bins,
        )


def _integer(name: str, value: object, least: int, others: str = "") -> int:
    allowed = f"{others}an integer from {least}"
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"trace.{name} = {value!r}: {allowed}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"trace.{name} = {number}: {allowed}")
    return number
