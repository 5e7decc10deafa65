"""The reference machine: docs/model.md in plain Python, cycle by cycle.

It is written from that page alone and shares no code with `warpsim/engine/`. It visits every SM and every scheduler in
every cycle, and a warp executes its kernel in the nested form. Numbers in parentheses are sections of docs/model.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Kernel
from warpsim.kernels.costs import Costs, costs_on, l2_cycles
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.iteration import iteration
from warpsim.kernels.traversal import walk
from warpsim.reference.blocks import Blocks, number_of_blocks
from warpsim.reference.echoes import Waits
from warpsim.reference.fetch import addresses
from warpsim.reference.mbarriers import Arrival
from warpsim.reference.memory import Flight, Memory
from warpsim.reference.result import Result
from warpsim.reference.sm import Scheduler, Sm, Unit
from warpsim.reference.warp import GAP, Read, Step, Warp, Write

# Pipe of an instruction -> state of a warp whose unit does not accept it (7).
THROTTLE = {
    "math": "math_pipe_throttle",
    "none": "math_pipe_throttle",
    "mio": "mio_throttle",
    "lg": "lg_throttle",
    "tex": "tex_throttle",
    "branch": "math_pipe_throttle",
    "imc": "mio_throttle",
    "membar": "lg_throttle",
    "sleep": "math_pipe_throttle",
}


@dataclass
class Turn:
    """One scheduler in one cycle: its warps, its pick, and the issues (3, 7)."""

    scheduler: Scheduler
    busy: bool
    warps: list[Warp]
    eligible: list[Warp]
    lines: dict[Warp, str]
    states: dict[Warp, str] = field(default_factory=dict)
    """States of the eligible warps."""
    picked: Warp | None = None
    first: Step | None = None
    """The instruction of the picked warp, after it has issued."""
    slots: int = 0


class Machine:
    """The chip, or a slice of it, during a run."""

    def __init__(
        self,
        gpu: Gpu,
        kernel: Kernel,
        launch: Launch,
        *,
        policy: str,
        memory: str,
        seed: int,
        sms: int,
        window: range,
    ) -> None:
        self.gpu = gpu
        self.kernel = kernel
        self.addresses = addresses(kernel)
        banks = gpu.core.register_banks if names_registers(kernel) else None
        self.sms = [Sm(m, gpu, launch.resident_blocks, seed, len(self.addresses), banks, policy) for m in range(sms)]
        self.window = window
        endless = number_of_blocks(launch, sms) is None and window.start > 0 and not kernel.mbarriers
        phases = iteration(gpu, kernel, memory) if endless else None
        self.blocks = Blocks(gpu, kernel, launch, seed, self.sms, phases, self.addresses)
        self.memory = Memory(
            gpu, memory, sms, seed, warps=launch.resident_warps,
            iteration=0 if phases is None else phases.cycles, ends=launch.finite,
            waits=Waits.of(kernel, drains=gpu.memory.store_drain_cycles is not None),
        )
        self.awaited: dict[Flight, tuple[Sm, Warp]] = {}  # accesses that have not been served, with the warps that wait for them
        self.known_costs: dict[str, Costs] = {}
        self.result = Result()

    # The run (3, 7)

    def run(self, max_cycles: int) -> Result:
        """Runs to the end of the window, or to the end of the grid if it is earlier: one cycle after the last retirement."""
        self.blocks.deal()
        t = 0
        while t < self.window.stop and not self.blocks.all_have_left(t):
            if t == max_cycles:
                raise RuntimeError(f"the run has not ended after {max_cycles} cycles")
            self.cycle(t)
            t += 1
        if t <= self.window.start:
            raise ValueError(f"warmup = {self.window.start}: must be below {t}, the cycle at which the grid ends")
        self.result.end = t
        n = self.gpu.sm.schedulers
        self.result.issues.sort(key=lambda issue: (issue[0], issue[1], issue[2] % n))
        launched = sorted(self.blocks.launched, key=lambda pair: pair[1].number)
        self.result.warps = [
            (warp.number, sm.index, warp.slot, warp.start, warp.retired if warp.retired in range(t) else -1)
            for sm, warp in launched
            if warp.retired is None or warp.retired >= self.window.start
        ]
        self.result.retired = [
            (warp.number, sm.index, warp.start, warp.retired)
            for sm, warp in launched
            if warp.retired is not None and warp.retired in self.window and warp.retired < t
        ]
        return self.result

    def cycle(self, t: int) -> None:
        self.blocks.assign_due(t)
        turns = {sm: self.turns(sm, t) for sm in self.sms}
        self.serve(t)
        if t in self.window:
            for sm in self.sms:
                self.account_sm(sm, turns[sm], t)

    def turns(self, sm: Sm, t: int) -> list[Turn]:
        """Has an SM start blocks and issue in cycle t (3)."""
        self.blocks.start_due(sm, t)
        turns = [self.turn(sm, scheduler, t) for scheduler in sm.schedulers]
        self.issue_picks(sm, turns, t)
        for scheduler in sm.schedulers:
            if scheduler.front_end is not None:
                scheduler.front_end.fetch(scheduler.last, self.warps_of(sm, scheduler, t), t)
        return turns

    def serve(self, t: int) -> None:
        """Serves the requests that arrive in cycle t, after all SMs have issued (5)."""
        self.memory.repeat(t)
        for flight in self.memory.serve(t + 1):
            self.note_latency(flight, t)
            if flight in self.awaited:
                sm, warp = self.awaited.pop(flight)
                if warp.exited:
                    self.blocks.retire(sm, warp)

    def account_sm(self, sm: Sm, turns: list[Turn], t: int) -> None:
        """Counts cycle t of an SM (7)."""
        for turn in turns:
            self.account(turn, t)
        resident = len(sm.warps(t))
        self.result.occupancy_cycles[resident] += 1
        if resident != sm.last_resident or t == self.window.start:
            self.result.occupancy_changes.append((t, sm.index, resident))
        sm.last_resident = resident

    # One cycle of one SM (3)

    def turn(self, sm: Sm, scheduler: Scheduler, t: int) -> Turn:
        """Returns the warps of one scheduler in cycle t with their states, and its pick."""
        warps = self.warps_of(sm, scheduler, t)
        eligible = [warp for warp in warps if warp.eligible(t, self.gpu)]
        turn = Turn(
            scheduler=scheduler,
            busy=t < max(scheduler.next_issue, scheduler.ports_free),
            warps=warps,
            eligible=eligible,
            lines={warp: warp.line(t) for warp in warps},
        )
        self.pick(sm, turn, t)
        return turn

    def warps_of(self, sm: Sm, scheduler: Scheduler, t: int) -> list[Warp]:
        """Returns the resident warps of one scheduler."""
        return [warp for warp in sm.warps(t) if warp.slot % self.gpu.sm.schedulers == scheduler.index]

    def pick(self, sm: Sm, turn: Turn, t: int) -> None:
        """Lets the scheduler pick one of its issuable warps, if it can issue."""
        refusals = {warp: self.refusal(sm, turn.scheduler, warp, t) for warp in turn.eligible}
        issuable = [] if turn.busy else [warp for warp in turn.eligible if refusals[warp] is None]
        held = t >= turn.scheduler.next_issue  # if the scheduler is busy, by the register ports
        for warp in turn.eligible:
            if turn.busy:
                turn.states[warp] = "dispatch_stall" if held else "not_selected"
            else:
                turn.states[warp] = refusals[warp] or "not_selected"
        turn.picked = turn.scheduler.policy.pick(issuable) if issuable else None

    def issue_picks(self, sm: Sm, turns: list[Turn], t: int) -> None:
        """Issues the picks of the schedulers of an SM, then the second instructions of pairs."""
        issued: list[Turn] = []
        waiting = [turn for turn in turns if turn.picked is not None]
        while waiting:
            turn = min(waiting, key=lambda turn: self.precedence(sm, turn))
            if self.refusal(sm, turn.scheduler, turn.picked, t) is None:
                turn.first = turn.picked.next
                turn.slots = self.issue_step(sm, turn.scheduler, turn.picked, t)
                turn.scheduler.last = turn.picked
                turn.scheduler.policy.issued(turn.picked, turn.warps, t)
                issued.append(turn)
            else:
                self.pick(sm, turn, t)
            waiting = [turn for turn in waiting if turn.picked is not None and turn.first is None]
        if self.gpu.issue.width == 2:
            pairs = [turn for turn in issued if self.may_pair(turn.picked, turn.first, t)]
            for turn in sorted(pairs, key=lambda turn: self.precedence(sm, turn)):
                if self.refusal(sm, turn.scheduler, turn.picked, t) is None:
                    turn.slots = max(turn.slots, self.issue_step(sm, turn.scheduler, turn.picked, t))
        for turn in issued:
            assert turn.picked is not None
            turn.states[turn.picked] = "selected"
            turn.scheduler.next_issue = t + self.gpu.issue.interval_cycles * turn.slots

    def precedence(self, sm: Sm, turn: Turn) -> tuple[int, int]:
        """Returns a sort key: picks issue in ascending order of it (3)."""
        assert turn.picked is not None
        return sm.precedence(turn.scheduler, self.gpu.unit_of(turn.picked.next.op))

    def may_pair(self, warp: Warp, first: Step, t: int) -> bool:
        """Returns whether the warp's next step is eligible in the cycle in which `first` has issued."""
        return (
            first.op not in ("branch", "barrier", "exit")
            and not first.instruction.names_mbarrier
            and not warp.next.instruction.names_mbarrier
            and not (first.access_kind == "load" and warp.next.access_kind == "load")
            and warp.stall(t)[0] <= t
            and warp.may_load(self.gpu, t)
        )

    def account(self, turn: Turn, t: int) -> None:
        """Counts cycle t of a scheduler and of its warps."""
        slot = "issued" if turn.first is not None else "busy" if turn.busy else "idle"
        self.result.scheduler_cycles[slot] += 1
        for warp in turn.warps:
            if warp in turn.eligible:
                state, cause = turn.states[warp], turn.lines[warp]
            else:
                state, cause = warp.stalled(t)
            self.result.warp_cycles[state] += 1
            self.result.line_cycles[turn.scheduler.index, turn.lines[warp], state] += 1
            self.result.caused_cycles[cause, state] += 1
            self.result.state_moments[t, state] += 1

    def refusal(self, sm: Sm, scheduler: Scheduler, warp: Warp, t: int) -> str | None:
        """Returns the state of an eligible warp that is not issuable; None if it is issuable."""
        step = warp.next
        if scheduler.front_end is not None and not warp.buffer.has_instruction(t):
            return "no_instruction"
        limits = {"load": self.gpu.memory.loads_per_sm, "store": self.gpu.memory.stores_per_sm}
        kind = step.access_kind
        limit = limits.get(kind)
        has_room = limit is None or sm.in_flight(kind, t) < limit
        if has_room and self.unit(sm, scheduler, step).accepts(scheduler.index, t):
            return None
        return THROTTLE[self.gpu.ops[step.op].pipe]

    def unit(self, sm: Sm, scheduler: Scheduler, step: Step) -> Unit:
        own = self.gpu.ops[step.op].scope == "scheduler"
        return sm.units[self.gpu.unit_of(step.op), scheduler.index if own else None]

    def issue_step(self, sm: Sm, scheduler: Scheduler, warp: Warp, t: int) -> int:
        """Issues one step in cycle t; returns the number of issue slots that it takes."""
        step, op = warp.next, self.gpu.ops[warp.next.op]
        self.result.issues.append((t, sm.index, warp.slot, step.op))
        warp.last_issued = step.place
        if t in self.window:
            self.result.instructions[step.op] += 1

        costs, unit = self.costs(step), self.gpu.unit_of(step.op)
        wait = self.unit(sm, scheduler, step).occupy(scheduler.index, t, costs)
        if t in self.window:
            self.result.unit_cycles[unit] += costs.unit_cycles
            self.result.data_cycles[unit] += costs.data_cycles
        sm.note_issue(scheduler, unit)
        if scheduler.ports is not None and self.gpu.uses_ports(step.op):
            scheduler.ports_free = max(scheduler.ports_free, scheduler.ports.issue(step.instruction, warp, t))
        access, load = costs.access, None
        if access is not None:
            flight = self.memory.access(
                t, step.instruction.access, access, warp.stream, step.access_kind,
                queued=wait, place=step.place, slot=(sm.index, warp.slot), start=warp.start,
            )
            sm.flights[step.access_kind].append(flight)
            if t in self.window:
                self.result.asked_bytes += access.requested_bytes
                if self.memory.model == "queue":
                    busy = l2_cycles(self.gpu, step.instruction, access)
                    self.result.l2_cycles[busy * (1 - step.instruction.access.l1_hit)] += 1
                self.result.moved_bytes += self.memory.moved_bytes
            if step.access_kind == "load":
                load = flight
                warp.loads.append(flight)
            if step.instruction.reports_to is not None:
                warp.reported[step.instruction.reports_to].append(flight)
            if step.access_kind == "load" or self.gpu.memory.store_drain_cycles is not None:
                warp.accesses.append(flight)
                if flight.unserved:
                    self.awaited[flight] = sm, warp
            if not flight.unserved:
                self.note_latency(flight, t)
        if step.instruction.dst is not None:
            warp.writes[step.instruction.dst] = Write(op, t + wait, costs, load, step.place)

        hints = step.instruction.hints
        if hints is not None and hints.write is not None:
            warp.counted[hints.write].append(Write(op, t + wait, costs, load, step.place))
        if hints is not None and hints.read is not None:
            warp.counted[hints.read].append(Read(op, t + wait + op.operand_cycles, step.place))
        gap = costs.gap_cycles
        if step.op == "exit":
            self.blocks.exit(sm, warp, t)
        else:
            warp.branch_taken = False
            warp.next = next(warp.program)  # this decides a conditional
            if warp.branch_taken:
                gap = costs.taken_gap_cycles
        if hints is not None and hints.yields:
            gap = max(gap, 2)
        if scheduler.front_end is not None:
            warp.buffer.issue(self.addresses[step.place], self.addresses[warp.next.place])
        warp.gap_end, warp.gap_state = max(warp.gap_end, t + gap), GAP[op.pipe]
        if step.op == "barrier":
            warp.barrier = warp.last_barrier = step.place
            self.blocks.arrive(sm, warp, t)
        if step.instruction.arrives is not None:
            latency = 0 if access is not None else wait + costs.latency_cycles
            name = step.instruction.arrives
            self.blocks.arrive_at_mbarrier(sm, warp, name, Arrival(t, t + max(1, latency), tuple(warp.reported[name])))
        if step.instruction.awaits is not None:
            warp.last_barrier = step.place
            self.blocks.await_mbarrier(sm, warp, step.instruction.awaits, t)
        return costs.issue_slots + costs.reissues

    def note_latency(self, flight: Flight, t: int) -> None:
        """Counts the latency of a load that is served in cycle t."""
        if flight.op == "load" and t in self.window:
            self.result.load_latencies.append(flight.latency)

    def costs(self, step: Step) -> Costs:
        """Returns the costs of an instruction, computed once for each place."""
        if step.place not in self.known_costs:
            self.known_costs[step.place] = costs_on(self.gpu, step.instruction)
        return self.known_costs[step.place]


def names_registers(kernel: Kernel) -> bool:
    """Returns whether an instruction of a kernel names the machine registers that it reads."""
    return any(any(statement.reads) for _, statement in walk(kernel.body) if isinstance(statement, Instruction))


def simulate(
    gpu: Gpu,
    kernel: Kernel,
    launch: Launch,
    *,
    scheduler: str = "lrr",
    memory: str = "queue",
    seed: int,
    warmup: int = 0,
    cycles: int | None,
    sms: int | None = None,
    max_cycles: int = 1_000_000,
) -> Result:
    """Simulates one replicate.

    Args:
        gpu: the chip.
        kernel: the program of every warp.
        launch: the launch, with a number in every field except `blocks` (None: an endless supply).
        scheduler: scheduling policy, one of `policies.POLICIES`; `two_level` may be followed by a colon and a size.
        memory: memory model.
        seed: 64-bit seed of the replicate.
        warmup: cycles before counting starts.
        cycles: cycles to count; None: to the end of the grid. A grid that ends earlier ends the run.
        sms: number of SMs of the slice; None: the whole chip.
        max_cycles: maximum length of the run.

    Raises:
        DeadlockError: live warps of a block wait at different barriers.
        ValueError: the grid ends within `warmup`.
        RuntimeError: the run has not ended after `max_cycles` cycles.
    """
    stop = max_cycles + 1 if cycles is None else warmup + cycles
    machine = Machine(
        gpu,
        kernel,
        launch,
        policy=scheduler,
        memory=memory,
        seed=seed,
        sms=gpu.sms if sms is None else sms,
        window=range(warmup, stop),
    )
    return machine.run(max_cycles)
