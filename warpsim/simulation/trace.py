"""Requests for traces: which events a run records, and how much memory they may take."""

from __future__ import annotations

from dataclasses import dataclass

from warpsim.arguments import integer
from warpsim.results.schema import STATES
from warpsim.simulation.run import Capacity, TraceLimitError

DEFAULT_MAX_BYTES, _MOST_BYTES = 1 << 28, 1 << 40
_VALUE_BYTES = 8
_ROW_VALUES = {"issues": 5, "warps": 6, "occupancy": 3}  # variables of the dimensions `issue`, `warp`, `change`
_STATES = len(STATES)
_REMEDIES = {
    "issues": "a shorter window",
    "warps": "fewer cycles or blocks",
    "occupancy": "a number of bins instead of True, fewer cycles or blocks",
    "bins": "fewer bins",
    "lines": "states=False",
}


@dataclass(frozen=True)
class RunSize:
    """Numbers that limit how many events a run can have.

    Attributes:
        replicates: number of replicates.
        sms: simulated SMs.
        schedulers: schedulers of an SM.
        issue_width: instructions that a scheduler can issue in one cycle.
        lines: lines of the program.
        residents: warps that the simulated SMs hold.
        block_warps: warps of a block.
        blocks: blocks of the grid; None: an endless supply.
        cycles: cycles that are counted; None: not known before the run.
    """

    replicates: int
    sms: int
    schedulers: int
    issue_width: int
    lines: int
    residents: int
    block_warps: int
    blocks: int | None
    cycles: int | None = None


@dataclass(frozen=True)
class Trace:
    """The events that `simulate` records, in addition to its counts. docs/traces.md lists the variables.

    Attributes:
        occupancy: True: every change of an SM's number of resident warps. A number: the mean occupancy in at most this many
            bins of time.
        warps: start, end, SM, slot and block of every warp.
        issues: (start, stop): every instruction issued in the cycles from `start` to `stop` - 1, counted from launch.
        states: True: warp-cycles by program line and by scheduler. A number: also warp-cycles in at most this many bins of time.
        max_bytes: memory that the trace of all replicates may take in the Dataset. While it records, the engine uses at most
            the same amount again.

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
                integer(f"trace.{name}", value, 1, alternatives="True, False or ")
        if not isinstance(self.warps, bool):
            raise TypeError(f"trace.warps = {self.warps!r}: must be True or False")
        if self.issues is not None:
            if not isinstance(self.issues, tuple | list) or len(self.issues) != 2:
                raise TypeError(f"trace.issues = {self.issues!r}: must be (start, stop) in cycles, or None")
            start, stop = (integer("trace.issues", cycle, 0) for cycle in self.issues)
            if start >= stop:
                raise ValueError(f"trace.issues = {(start, stop)}: start must be below stop")
            object.__setattr__(self, "issues", (start, stop))
        integer("trace.max_bytes", self.max_bytes, 1, _MOST_BYTES)
        binned = [n for n in (self.occupancy, self.states) if not isinstance(n, bool)]
        if len(set(binned)) > 1:
            raise ValueError(f"trace.occupancy = {self.occupancy}, states = {self.states}: must be the same number of bins")

    @property
    def bins(self) -> int:
        """Number of bins of time; 0: none."""
        return max(0 if isinstance(n, bool) else n for n in (self.occupancy, self.states))

    def capacity(self, size: RunSize) -> Capacity:
        """Divides `max_bytes` among the replicates and the kinds of events.

        Returns:
            The events that each replicate records, with the capacity for each kind.

        Raises:
            TraceLimitError: the trace is certain to take more than `max_bytes`.
        """
        share = self.max_bytes // size.replicates // _VALUE_BYTES
        needs: dict[str, int] = {}  # number of values, where it is known
        if self.states:
            needs["lines"] = size.lines * (2 * _STATES + 1) + size.schedulers * _STATES
        if self.bins:
            over_time = 0 if isinstance(self.states, bool) else _STATES + 2
            bins = self.bins if size.cycles is None else min(self.bins, size.cycles)
            needs["bins"] = bins * (over_time + (0 if isinstance(self.occupancy, bool) else size.sms))
        rows: dict[str, int | None] = {}  # upper limits; None: not known
        if self.issues is not None:
            rows["issues"] = (self.issues[1] - self.issues[0]) * size.sms * size.schedulers * size.issue_width
        if self.warps:
            rows["warps"] = None if size.blocks is None else size.blocks * size.block_warps
        if self.occupancy is True:
            rows["occupancy"] = None if size.blocks is None else size.blocks * (1 + size.block_warps) + size.sms
        least = {"issues": 1, "warps": size.residents + 1, "occupancy": size.sms + 1}
        for name, most in rows.items():
            sure = least[name] if most is None or name == "issues" else most
            needs[name] = sure * _ROW_VALUES[name]
        if sum(needs.values()) > share:
            largest = max(needs, key=lambda name: needs[name])
            taken = ", ".join(f"{name} {values * _VALUE_BYTES * size.replicates}" for name, values in needs.items())
            least_bytes = sum(needs.values()) * _VALUE_BYTES * size.replicates
            raise TraceLimitError(
                f"trace.max_bytes = {self.max_bytes}: must be at least {least_bytes} ({taken}); "
                f"increase it, or request {_REMEDIES[largest]}, fewer replicates, or a slice of the chip (sms)"
            )
        open_ended = [name for name, most in rows.items() if most is None or name == "issues"]
        spare = (share - sum(needs.values())) // max(1, len(open_ended))
        limits = {name: most or 0 for name, most in rows.items()}
        for name in open_ended:
            fits = needs[name] // _ROW_VALUES[name] + spare // _ROW_VALUES[name]
            most = rows[name]
            limits[name] = fits if most is None else min(fits, most)
        if size.blocks is None and self.warps:
            limits["warps"] -= size.residents  # those that are still resident at the end
        return Capacity(
            issues=limits.get("issues", 0),
            issue_window=self.issues or Capacity.issue_window,
            lives=limits.get("warps", 0),
            changes=limits.get("occupancy", 0),
            bins=self.bins,
        )
