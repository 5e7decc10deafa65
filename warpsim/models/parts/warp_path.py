"""Schedule of one warp alone: when its instructions issue, and which resources they use (V 3.7, 3.8).

The instructions of a warp are scheduled by latencies alone, without throughput limits and, except at barriers, without other
warps. The end of the schedule is a lower bound on the latency of a warp: the longest path of V Figure 3.5. The uses of all
instructions fill the worksheet of V Table 3.4. V is Volkov 2016 (docs/bibliography.md).

Random choices are averaged where they occur: both sides of a conditional, and all trip counts of a loop, are scheduled, and
continue as one warp with their mean times. An issue time is a maximum of sums, hence convex in earlier times, so the mean can
only be too early: the bound remains a lower bound. It is exact where nothing overlaps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from warpsim.hardware.gpu import Gpu
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel, barriers_not_reached_by_all, names_warps
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.kernels.traversal import has_op, walk
from warpsim.models.parts.common import NotCoveredError
from warpsim.models.parts.costs import Cost, Use, cost, issue_uses

_EXIT = Instruction("exit")
_MAX_REPETITIONS = 2000
_NEGLIGIBLE = 1e-9  # share of the warps
_DECIMALS = 6  # of times in cycles that are compared to find a period


@dataclass(frozen=True)
class WarpPath:
    """Schedule of a warp alone.

    Attributes:
        per: "warp", or "repetition" of an endless loop in the steady state.
        cycles: latency bound; that of a warp includes the waits for the slowest warp of the block and for the launch of the
            next block (V 3.7).
        uses: expected number of each use.
    """

    per: str
    cycles: float
    uses: dict[Use, float]


def warp_path(
    gpu: Gpu,
    kernel: Kernel,
    *,
    block_warps: int | None = None,
    memory_latency: float | None = None,
    ilp_latencies: bool = True,
) -> WarpPath:
    """Schedules a warp alone (V 3.7).

    Args:
        gpu: the chip.
        kernel: any kernel.
        block_warps: warps of a thread block; only needed if the kernel treats the warps of a block differently.
        memory_latency: latency in cycles of a coalesced load that misses all caches; left out, the unloaded latency of the
            chip.
        ilp_latencies: whether successive issues of a warp keep the distance of the ILP latencies of V.

    Raises:
        ValueError: `block_warps` is missing or below 1, a barrier is not reached by all warps of the block,
            or the chip lacks an operation class or the latency of a cache that the kernel hits.
        NotCoveredError: some warps of a block leave an endless loop, or repeat it faster than others.
    """
    latency = float(gpu.memory.latency_cycles) if memory_latency is None else memory_latency
    return _Walk(gpu, latency, ilp_latencies, _warp_classes(kernel, block_warps)).path(kernel)


def _warp_classes(kernel: Kernel, block_warps: int | None) -> list[list[int]]:
    """Groups the warps of a block that take the same side of every conditional that names warps."""
    if block_warps is not None and block_warps < 1:
        raise ValueError(f"block_warps = {block_warps}: must be at least 1")
    uneven = barriers_not_reached_by_all(kernel)
    if uneven and block_warps != 1:
        raise ValueError(f"block_warps = {block_warps}: must be 1, since not all warps reach the barrier at {uneven[0]}")
    if not names_warps(kernel):
        return [[0]]
    if block_warps is None:
        raise ValueError(f"block_warps = None: must be a number, since {kernel.name} treats the warps of a block differently")
    named = [s.warps for _, s in walk(kernel.body) if isinstance(s, Conditional) and s.warps is not None]
    classes: dict[tuple[bool, ...], list[int]] = defaultdict(list)
    for warp in range(block_warps):
        classes[tuple(warp in warps for warps in named)].append(warp)
    return list(classes.values())


@dataclass
class _State:
    """Warps with the same schedule so far: their share of the block, and their times."""

    index: int  # index of their class
    weight: float  # share of the block's warps
    next: float = 0.0
    ready: dict[str, dict[str, float]] = field(default_factory=dict)  # register -> consumer's class -> time
    returns: tuple[float, ...] = (0.0,)  # return times of the latest loads, descending
    drained: float = 0.0  # time at which all stores have left the SM, if the chip has a store_drain
    open: tuple[float, Cost] | None = None  # the latest issue, if a second instruction may join it

    def part(self, share: float) -> _State:
        return replace(self, weight=self.weight * share, ready={r: dict(t) for r, t in self.ready.items()})

    def shift(self, cycles: float) -> None:
        self.next += cycles
        self.ready = {r: {c: t + cycles for c, t in times.items()} for r, times in self.ready.items()}
        self.returns = tuple(t + cycles for t in self.returns)
        self.drained += cycles
        self.open = (self.open[0] + cycles, self.open[1]) if self.open else None

    def seen_from(self, now: float) -> tuple[object, ...]:
        """Returns the state on which the future depends, with times relative to `now`."""
        past = self.open[0] if self.open else self.next

        def ahead(t: float) -> float:
            return round(max(t, past) - now, _DECIMALS)

        ready = tuple(sorted((r, c, ahead(t)) for r, times in self.ready.items() for c, t in times.items()))
        joinable = (ahead(self.open[0]), id(self.open[1])) if self.open else None
        returns = tuple(map(ahead, self.returns))
        return (self.index, self.weight, ahead(self.next), ready, returns, ahead(self.drained), joinable)


@dataclass(frozen=True)
class _Snapshot:
    trips: int
    time: float
    uses: dict[Use, float]


class _Walk:
    """Walks through a kernel with one state per class of warps, and adds up what they use."""

    def __init__(self, gpu: Gpu, memory_latency: float, gaps: bool, classes: list[list[int]]) -> None:
        self.gpu = gpu
        self.memory_latency = memory_latency
        self.gaps = gaps
        self.classes = classes
        self.shares = [len(warps) / sum(map(len, classes)) for warps in classes]
        self.costs: dict[int, Cost] = {}
        self.uses: dict[Use, float] = defaultdict(float)
        self.running = list(self.shares)
        self.ends = [0.0] * len(classes)
        self.last_exit = 0.0
        self.rates: list[WarpPath] = []

    def path(self, kernel: Kernel) -> WarpPath:
        loads = self.gpu.memory.loads_per_warp or 1
        states = [_State(i, share, returns=(0.0,) * loads) for i, share in enumerate(self.shares)]
        for state in self.run(kernel.body, states):
            self.exit(state)
        if not self.rates:
            cycles = max(self.ends) + max(self.gpu.block_launch_cycles, 1)
            return WarpPath("warp", cycles, self.counted(self.uses))
        cycles = self.rates[0].cycles
        if any(self.ends) or any(abs(rate.cycles - cycles) > 10**-_DECIMALS for rate in self.rates):
            raise NotCoveredError(f"{kernel.name}: some warps of a block leave its endless loop, or are faster in it")
        uses: dict[Use, float] = defaultdict(float)
        for rate in self.rates:
            for use, count in rate.uses.items():
                uses[use] += count
        return WarpPath("repetition", cycles, self.counted(uses))

    @staticmethod
    def counted(uses: dict[Use, float]) -> dict[Use, float]:
        """Returns the uses that occur; a single issue that became part of a pair leaves a zero."""
        return {use: count for use, count in uses.items() if count > _NEGLIGIBLE}

    def run(self, statements: tuple[Statement, ...], states: list[_State]) -> list[_State]:
        """Executes statements; returns the states of the warps that still run."""
        for statement in statements:
            if isinstance(statement, Loop):
                states = self.loop(statement, states)
            elif isinstance(statement, Conditional):
                states = self.conditional(statement, states)
            elif statement.op == "exit":
                for state in states:
                    self.exit(state)
                states = []
            elif statement.op == "barrier":
                self.barrier(statement, states)
            else:
                for state in states:
                    self.issue(state, self.cost(statement))
        return states

    def cost(self, instruction: Instruction) -> Cost:
        if id(instruction) not in self.costs:
            self.costs[id(instruction)] = cost(self.gpu, instruction, self.memory_latency)
        return self.costs[id(instruction)]

    def issue(self, state: _State, new: Cost, gap: int | None = None) -> float:
        """Issues an instruction as soon as its registers and the gap of the warp allow; returns the cycle."""
        gap = (new.gap if gap is None else gap) if self.gaps else 0
        waits_for = [state.ready[r] for r in new.reads if r in state.ready]
        soonest = max((times.get(new.op, times[""]) for times in waits_for), default=0.0)
        if new.op == "load" and self.gpu.memory.loads_per_warp is not None:
            soonest = max(soonest, state.returns[-1])
        first = state.open[1] if state.open and soonest <= state.open[0] else None
        if first and state.open and self.pairs(first, new):
            now = state.open[0]
            slots = max(first.slots, new.slots)
            reissues = max(first.slots + first.reissues, new.slots + new.reissues) - slots
            self.count(issue_uses(self.gpu, "single issue", first.slots, first.reissues), -state.weight)
            self.count(issue_uses(self.gpu, "dual issue", slots, reissues), state.weight)
            state.next, state.open = now + (max(first.gap, gap) if self.gaps else 0), None
        else:
            now = max(soonest, state.next)
            self.count(issue_uses(self.gpu, "single issue", new.slots, new.reissues), state.weight)
            state.next, state.open = now + gap, (now, new) if self.joinable(new) else None
        self.count(new.uses, state.weight)
        if new.dst is not None:
            state.ready[new.dst] = {consumer: now + cycles for consumer, cycles in new.latency.items()}
        if new.op == "load":
            latest = sorted((*state.returns, now + new.latency[""]), reverse=True)
            state.returns = tuple(latest[: len(state.returns)])
        if new.drain:
            state.drained = max(state.drained, now + new.drain)
        return now

    def joinable(self, first: Cost) -> bool:
        """Returns whether a second instruction may issue in the same cycle (docs/model.md, section 3)."""
        return self.gpu.issue.width > 1 and first.op not in ("branch", "barrier", "exit")

    @staticmethod
    def pairs(first: Cost, second: Cost) -> bool:
        """Returns whether two ready instructions issue together: not two loads (V 3.8), and no unit twice."""
        if first.op == second.op == "load":
            return False
        return first.unit != second.unit or first.twice_a_cycle

    def count(self, uses: list[tuple[Use, float]] | tuple[tuple[Use, float], ...], times: float) -> None:
        for use, number in uses:
            self.uses[use] += times * number

    def barrier(self, instruction: Instruction, states: list[_State]) -> None:
        """Holds all warps until the last one arrives or has ended (V 3.7, Listing 3.3)."""
        arrivals = [self.issue(state, self.cost(instruction)) for state in states]
        resume = max([*arrivals, self.last_exit]) + self.gpu.ops["barrier"].latency_cycles
        for state in states:
            state.next = max(state.next, resume)

    def exit(self, state: _State) -> None:
        """Ends warps, once their loads have returned and their stores have drained (docs/model.md, section 4)."""
        now = self.issue(state, self.cost(_EXIT))
        self.ends[state.index] += state.weight / self.shares[state.index] * max(now, state.returns[0], state.drained)
        self.running[state.index] -= state.weight
        if self.running[state.index] < _NEGLIGIBLE:
            self.last_exit = max(self.last_exit, now)

    def conditional(self, statement: Conditional, states: list[_State]) -> list[_State]:
        branch = cost(self.gpu, statement.branch, self.memory_latency)
        if statement.diverges:
            for state in states:
                self.issue(state, branch)
            return self.run(statement.orelse, self.run(statement.then, states))
        then: list[_State] = []
        orelse: list[_State] = []
        for state in states:
            falls_through = statement.falls_through(self.classes[state.index][0])
            for side, share, gap in ((then, falls_through, None), (orelse, 1 - falls_through, branch.taken_gap)):
                if share > 0:
                    side.append(state.part(share))
                    self.issue(side[-1], branch, gap)
        return _merged([*self.run(statement.then, then), *self.run(statement.orelse, orelse)])

    def loop(self, loop: Loop, states: list[_State]) -> list[_State]:
        """Executes a loop; without a barrier in it, each class of warps has its own period."""
        joined = has_op(loop.body, "barrier")
        execute = self.repeat_endlessly if loop.trips is None else self.repeat
        groups = [states] if joined else [[state] for state in states]
        return [state for group in groups for state in execute(loop, group)]

    def repeat(self, loop: Loop, states: list[_State]) -> list[_State]:
        """Executes a loop that ends, and skips whole periods once its times repeat."""
        low, high = loop.trip_range
        trips = 0
        seen: dict[object, _Snapshot] = {}
        while trips < low and states:
            states = self.run(loop.body, states)
            trips += 1
            before = seen.setdefault(_signature(states), self.snapshot(trips, states))
            if states and before.trips < trips:
                period = trips - before.trips
                periods = (low - trips) // period
                self.count(list(self.uses_since(before).items()), periods)
                for state, time in [(state, states[0].next - before.time) for state in states]:
                    state.shift(periods * time)
                trips += periods * period
                seen.clear()
        ended: list[_State] = []
        for remaining in range(high - low + 1, 1, -1):
            ended += [state.part(1 / remaining) for state in states]
            states = self.run(loop.body, [state.part(1 - 1 / remaining) for state in states])
        return _merged([*ended, *states])

    def repeat_endlessly(self, loop: Loop, states: list[_State]) -> list[_State]:
        """Records the steady rate of an endless loop, unless all warps leave it."""
        weight = sum(state.weight for state in states)
        seen: dict[object, _Snapshot] = {}
        half = None
        for trips in range(1, _MAX_REPETITIONS + 1):
            states = self.run(loop.body, states)
            left = sum(state.weight for state in states)
            if left < _NEGLIGIBLE * weight:
                return []
            before = seen.setdefault(_signature(states), self.snapshot(trips, states))
            if trips == _MAX_REPETITIONS // 2:
                half = (left, before)
            if half and half[0] == left and trips == _MAX_REPETITIONS:
                before = half[1]
            if before.trips < trips:
                period = trips - before.trips
                uses = {use: count / period for use, count in self.uses_since(before).items()}
                self.rates.append(WarpPath("repetition", (states[0].next - before.time) / period, uses))
                return []
        raise NotCoveredError(f"warps must leave an endless loop within {_MAX_REPETITIONS} repetitions, or never")

    def snapshot(self, trips: int, states: list[_State]) -> _Snapshot:
        return _Snapshot(trips, states[0].next if states else 0.0, dict(self.uses))

    def uses_since(self, before: _Snapshot) -> dict[Use, float]:
        return {use: count - before.uses.get(use, 0.0) for use, count in self.uses.items()}


def _signature(states: list[_State]) -> tuple[object, ...]:
    return tuple(state.seen_from(states[0].next) for state in states)


def _merged(states: list[_State]) -> list[_State]:
    """Returns one state for each class of warps."""
    by_class: dict[int, _State] = {}
    for state in states:
        other = by_class.get(state.index)
        by_class[state.index] = _mean(other, state) if other else state
    return list(by_class.values())


def _mean(a: _State, b: _State) -> _State:
    """Returns warps with the mean times of two groups; times before the next issue no longer matter."""
    weight = a.weight + b.weight
    share = a.weight / weight

    def mean(in_a: float, in_b: float) -> float:
        return share * max(in_a, a.next) + (1 - share) * max(in_b, b.next)

    ready: dict[str, dict[str, float]] = {}
    for register in a.ready.keys() | b.ready.keys():
        times_a = a.ready.get(register, {"": a.next})
        times_b = b.ready.get(register, {"": b.next})
        ready[register] = {
            consumer: mean(times_a.get(consumer, times_a[""]), times_b.get(consumer, times_b[""]))
            for consumer in times_a.keys() | times_b.keys()
        }
    returns = tuple(mean(t, u) for t, u in zip(a.returns, b.returns, strict=True))
    return _State(a.index, weight, mean(a.next, b.next), ready, returns, mean(a.drained, b.drained))
