"""Random streams and memory system of the reference machine.

Numbers in parentheses are sections of docs/model.md.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import load_distribution
from warpsim.hardware.memory import Writes
from warpsim.kernels import Access
from warpsim.kernels.access import Transactions
from warpsim.reference.echoes import Echoes, Made, Waits

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
BINS = 4096  # a copy of `engine.constants.BINS`, with which the reference machine shares nothing; a test asserts equality
BUCKET_CYCLES = 512
WINDOW_BUCKETS = 8
LATEST = 64  # requests of the data bus, for each channel of DRAM, over which the share of stores is taken


def mix(z: int) -> int:
    """Returns SplitMix64's finalizer of a 64-bit number (6)."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


class Stream:
    """A random stream of 64-bit words, SplitMix64 (6)."""

    def __init__(self, state: int) -> None:
        self.state = state

    @classmethod
    def of_warp(cls, seed: int, launch_number: int) -> Stream:
        return cls(mix((seed + (launch_number + 1) * GOLDEN) & MASK))

    @classmethod
    def of_echo(cls, seed: int, number: int) -> Stream:
        return cls(mix((mix(seed) + number * GOLDEN) & MASK))

    @classmethod
    def of_scheduler(cls, seed: int, number: int) -> Stream:
        """Returns the stream of a scheduler; `number` is SM * schedulers + scheduler."""
        return cls(mix((seed - (number + 1) * GOLDEN) & MASK))

    @classmethod
    def of_window(cls, seed: int) -> Stream:
        """Returns the stream from which the start of the window of a replicate is drawn."""
        return cls.of_echo(seed, -1)

    def draw(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mix(self.state)

    def uniform(self) -> float:
        return (self.draw() >> 11) / 2**53


class Stage:
    """Parallel servers of one stage of the memory system.

    Attributes:
        free: time at which each server becomes free, in cycles.
        server_bytes_per_cycle: rate of one server.
    """

    def __init__(self, servers: int, bytes_per_cycle: float) -> None:
        self.free = [0.0] * servers
        self.server_bytes_per_cycle = bytes_per_cycle / servers

    def serve(self, server: int, arrival: float, request_bytes: float, cost: float = 1.0, *, least: float = 0.0) -> float:
        """Adds a request to the queue of a server; returns the time at which its service begins, in cycles.

        Args:
            server: number of the server.
            arrival: time at which the request arrives, in cycles.
            request_bytes: bytes of the request.
            cost: service time over that of the bytes.
            least: cycles that its service takes at least.
        """
        start = max(self.free[server], arrival)
        self.free[server] = start + max(request_bytes / self.server_bytes_per_cycle * cost, least)
        return start


class Bus:
    """The data bus, whose rate depends on the share of stores among its latest requests.

    Attributes:
        write_share: that share.
        read_delay: cycles by which a load waits longer, at the share that the latest request found.
    """

    def __init__(self, bytes_per_cycle: float, writes: Writes | None, clock_ghz: float, channels: int) -> None:
        self.latest = LATEST * channels
        self.server = Stage(1, bytes_per_cycle)
        self.write_cost, self.turnaround, self.longest_delay = 1.0, 0.0, 0.0
        if writes is not None:
            self.write_cost, self.turnaround = 1 / writes.write_rate, writes.turnaround
            self.longest_delay = writes.read_delay_ns * clock_ghz
        self.write_share = 0.0
        self.read_delay = 0.0

    def serve(self, arrival: float, request_bytes: float, is_write: bool) -> float:
        """Adds a request to the queue of the bus; returns the time at which its service begins, in cycles."""
        s = self.write_share
        self.read_delay = 4 * s * (1 - s) * self.longest_delay
        cost = 1 + s * (self.write_cost - 1) + 4 * s * (1 - s) * self.turnaround
        self.write_share = s + (is_write - s) / self.latest
        return self.server.serve(0, arrival, request_bytes, cost)


@dataclass(eq=False)
class Flight:
    """A load or a store under way.

    Attributes:
        issue: cycle of its issue.
        op: `load` or `store`; `echo` if an echo repeats it.
        is_write: whether it is a store, or the echo of one.
        place: place of its instruction in the kernel.
        queued: cycles for which it waits in the queue of its unit.
        late: cycles after its issue at which its requests arrive.
        unloaded: unloaded latency B in cycles.
        wait: largest of the delays and waits of its requests that are known, in cycles.
        unserved: requests that have not been served.
        served: cycle in which it is served, with the last of its requests.
        returns: cycle in which it returns; infinite while it is not known.
    """

    issue: int
    op: str = "load"
    is_write: bool = False
    place: str = ""
    queued: int = 0
    late: float = 0.0
    unloaded: float = 0.0
    wait: float = 0.0
    unserved: int = 0
    served: int = 0
    returns: float = math.inf

    @property
    def latency(self) -> int:
        """Returns its latency in whole cycles; it must have been served."""
        return int(self.returns) - self.issue

    def note_served(self, begins: float) -> None:
        """Records when the last service of one of its requests begins; with the last request, its return is known."""
        self.wait = max(self.wait, begins - self.issue - self.late)
        self.unserved -= 1
        if self.unserved == 0:
            self.returns = self.issue + self.queued + math.floor(self.unloaded + self.wait + 1 / 2)


class Memory:
    """The memory system of the chip, with the echoes of a slice of `sms` SMs (5).

    Args:
        gpu: the chip.
        model: memory model.
        sms: SMs of the slice; None: the whole chip.
        seed: of the replicate.
        warps: warp slots of an SM that are used.
        iteration: cycles over which the first accesses of echoes are spread.
        ends: whether the launch ends, so that L2 keeps what `Access.l2_kept` says.
        waits: for which earlier accesses a warp waits, with which echoes comply.
    """

    def __init__(
        self,
        gpu: Gpu,
        model: str,
        sms: int | None = None,
        seed: int = 0,
        *,
        warps: int = 1,
        iteration: int = 0,
        ends: bool = False,
        waits: Waits = Waits(),  # noqa: B008 (it is frozen)
    ) -> None:
        if model == "measured" and not gpu.memory.measured:
            raise ValueError(f"memory = 'measured': {gpu.name} has no measured distribution")
        self.model = model
        self.ends = ends
        self.facts = gpu.memory
        self.clock_ghz = gpu.clock_ghz
        queue = gpu.memory.queue
        self.bus = Bus(self.rate(gpu.memory.bandwidth_gbs), gpu.memory.writes, gpu.clock_ghz, queue.crossbar_servers)
        self.crossbar = Stage(queue.crossbar_servers, self.rate(queue.crossbar_gbs))
        self.dram = Stage(queue.dram_servers, self.rate(queue.dram_gbs))
        sms = gpu.sms if sms is None else sms
        slots = [(sm, slot) for sm in range(sms) for slot in range(warps)]
        streams = [Stream.of_echo(seed, number) for number in range((gpu.sms - sms) * warps)]
        self.echoes = Echoes(slots, streams, iteration, waits)
        distribution = load_distribution(gpu.memory.distribution)
        self.unloaded = distribution.scaled(gpu.memory.queue_latency_cycles).quantile_table(0).tolist()
        self.loads_gbs = distribution.loads_gbs.tolist()
        measured = distribution.shifted(gpu.memory.measured_shift_cycles)
        self.rows = [measured.quantile_table(row).tolist() for row in range(len(self.loads_gbs))]
        self.buckets: Counter[int] = Counter()
        self.moved_bytes = 0.0  # DRAM traffic of the last access
        self.write_burst, self.idle = 0.0, 0.0
        if gpu.memory.writes is not None:
            self.write_burst = gpu.memory.writes.write_burst_ns * gpu.clock_ghz
            self.idle = gpu.memory.writes.idle_ns * gpu.clock_ghz
        servers = queue.dram_servers
        self.collected = [self.write_burst * server / servers for server in range(servers)]  # cycles of stores, not yet written
        self.asked: dict[int, float] = {}  # channel of DRAM -> arrival of the latest request
        self.issued = 0  # requests that have passed stage 1
        self.waiting: list[tuple[float, int, int, float, Flight]] = []  # by arrival at stage 2, then by issue: server, bytes

    def rate(self, gbs: float) -> float:
        """Converts a rate of the chip in GB/s to bytes per cycle."""
        return units.gbs_to_bytes_per_cycle(gbs, self.clock_ghz)

    def access(
        self,
        t: int,
        access: Access,
        facts: Transactions,
        stream: Stream,
        op: str = "load",
        *,
        queued: int = 0,
        place: str = "",
        slot: tuple[int, int] | None = None,
        start: int = 0,
    ) -> Flight:
        """Accepts a load or a store that issues in cycle `t`, and then waits in the queue of its unit for `queued` cycles.

        `slot` is the SM and the warp slot that issue it, whose echoes follow it; its warp started in cycle `start`. Its return is
        known at once, or after `serve`.
        """
        u = stream.uniform()
        level = self.level(access, stream)
        late = {"l1": access.l1_late_cycles, "l2": access.l2_late_cycles, "memory": 0}[level]
        made = Made(place, level, facts, op == "store", late)
        flight = Flight(t, op, made.is_write, place, queued)
        self.send(flight, made, u, [stream.draw() for _ in range(facts.requests)])
        self.moved_bytes = self.bytes_of(made)
        if level != "l1" and slot is not None:
            self.echoes.note(slot, made, flight, start)
        return flight

    def repeat(self, t: int) -> None:
        """Has the echoes make the accesses that are due in cycle `t`, after those of the slice."""
        for echo, made in self.echoes.due(t):
            flight = Flight(t, "echo", made.is_write, made.place, late=1 / 2)
            u = echo.stream.uniform()
            self.send(flight, made, u, [echo.stream.draw() for _ in range(made.facts.requests)])
            echo.add(flight, made.place)
            self.echoes.choose(echo, t)

    def send(self, flight: Flight, made: Made, u: float, draws: list[int]) -> None:
        """Sends the requests of an access to their servers; `u` decides on its unloaded latency."""
        t, facts = flight.issue, made.facts
        flight.unloaded, flight.unserved, flight.served = self.unloaded_latency(t, u, made.level) + made.late, facts.requests, t
        if made.is_write and self.facts.store_drain_cycles is not None:
            flight.unloaded = self.facts.store_drain_cycles
        if facts.requests > 1:
            step = facts.requests - 1
            flight.wait = max(j * facts.extra / step * self.facts.transaction_latency_cycles for j in range(facts.requests))
        for draw in draws:
            self.request(flight, t + flight.late, made.level, draw, facts)
        self.buckets[t // BUCKET_CYCLES] += self.bytes_of(made)

    @staticmethod
    def bytes_of(made: Made) -> float:
        """Returns the bytes of an access that DRAM moves."""
        return made.facts.requests * made.facts.bytes_per_request if made.level == "memory" else 0.0

    def level(self, access: Access, stream: Stream) -> str:
        """Returns the level that serves an access; makes one draw if the access has hit probabilities."""
        l2_hit = access.l2_hit
        if self.ends and access.l2_kept and self.facts.l2_latency_cycles is not None:
            l2_hit = 1 - (1 - l2_hit) * (1 - access.l2_kept)
        if access.l1_hit == 0 and l2_hit == 0:
            return "memory"
        u = stream.uniform()
        if u < access.l1_hit:
            return "l1"
        return "l2" if u < access.l1_hit + (1 - access.l1_hit) * l2_hit else "memory"

    def unloaded_latency(self, t: int, u: float, level: str) -> float:
        """Returns the unloaded latency B in cycles (5); `u` is a draw from [0, 1)."""
        if level == "l1":
            return self.facts.l1_latency_cycles
        if level == "l2":
            far = self.facts.l2_far_latency_cycles
            return self.facts.l2_latency_cycles if far is None or u < 1 / 2 else far
        if self.model == "fixed":
            return self.facts.latency_cycles
        if self.model == "queue":
            return quantile(self.unloaded, u)
        return self.measured_latency(t, u)

    def measured_latency(self, t: int, u: float) -> float:
        """Returns B at the current load, interpolated between the two adjacent rows."""
        bucket = t // BUCKET_CYCLES
        in_window = sum(self.buckets[b] for b in range(bucket - WINDOW_BUCKETS + 1, bucket + 1))
        length = min(t, (WINDOW_BUCKETS - 1) * BUCKET_CYCLES + t % BUCKET_CYCLES) + 1
        load = units.bytes_per_cycle_to_gbs(in_window / length, self.clock_ghz)
        loads = self.loads_gbs
        if load <= loads[0]:
            return quantile(self.rows[0], u)
        if load >= loads[-1]:
            return quantile(self.rows[-1], u)
        high = next(i for i, row_load in enumerate(loads) if row_load > load)
        b_low, b_high = quantile(self.rows[high - 1], u), quantile(self.rows[high], u)
        return b_low + (load - loads[high - 1]) / (loads[high] - loads[high - 1]) * (b_high - b_low)

    def request(self, flight: Flight, t: float, level: str, draw: int, facts: Transactions) -> None:
        """Sends one request of an access to its servers at time `t`; what needs stage 2 waits for `serve` (5)."""
        request_bytes = facts.bytes_per_request
        if level == "l1" or (level == "l2" and self.model != "queue"):
            flight.note_served(t)
        elif self.model != "queue":
            flight.note_served(self.bus.serve(t, request_bytes, flight.is_write))
        else:
            slices = min(facts.contended_addresses or MASK, len(self.crossbar.free))
            least = facts.updates * (self.facts.atomic_interval_cycles or 0.0)
            if flight.is_write and self.facts.l2_store_gbs is not None:
                port = self.rate(self.facts.l2_store_gbs) / len(self.crossbar.free)
                sector = units.SECTOR_BYTES / min(port, self.crossbar.server_bytes_per_cycle)
                if facts.contended_addresses and self.facts.atomic_interval_cycles is not None:
                    sector = min(sector, self.facts.atomic_interval_cycles)
                least = max(least, facts.port_sectors * sector)
            read = request_bytes * (1.0 - facts.l2_coalesced)
            arrival = self.crossbar.serve((draw >> 32) * slices >> 32, t, read, least=least)
            if level == "l2":
                flight.note_served(arrival)
                return
            server = (draw & 2**32 - 1) * len(self.dram.free) >> 32
            flight.served = max(flight.served, math.floor(arrival))
            heapq.heappush(self.waiting, (arrival, self.issued, server, request_bytes, flight))
            self.issued += 1

    def write(self, server: int, arrival: float, request_bytes: float) -> float:
        """A server of stage 2 gets a store; returns when its service begins, which takes the time of a whole burst, or none."""
        self.collected[server] += request_bytes / self.dram.server_bytes_per_cycle
        burst = 0.0
        if self.collected[server] >= self.write_burst:
            burst, self.collected[server] = self.collected[server], 0.0
        return self.dram.serve(server, arrival, 0.0, least=burst)

    def finds_idle(self, server: int, arrival: float) -> bool:
        """Returns whether a request that arrives at a server of stage 2 finds its channel idle."""
        channel = server * len(self.crossbar.free) // len(self.dram.free)
        latest = self.asked.get(channel, -math.inf)
        self.asked[channel] = arrival
        return arrival >= latest + self.idle

    def serve(self, end: int) -> list[Flight]:
        """Serves all requests that arrive at stage 2 before cycle `end`; returns the accesses whose returns are known by that."""
        served = []
        while self.waiting and self.waiting[0][0] < end:
            arrival, _, server, request_bytes, flight = heapq.heappop(self.waiting)
            serve = self.write if flight.is_write else self.dram.serve
            begins = serve(server, arrival, request_bytes)
            turn = self.bus.serve(arrival, request_bytes, flight.is_write)
            is_idle = self.finds_idle(server, arrival)
            if flight.is_write and self.facts.store_drain_cycles is not None:
                flight.note_served(turn)
            else:
                flight.note_served(max(begins, turn) + (0 if flight.is_write or is_idle else self.bus.read_delay))
            if flight.unserved == 0:
                served.append(flight)
        return served


def quantile(table: list[float], u: float) -> float:
    """Returns the u-quantile of a table of BINS + 1 values, interpolated linearly within a bin."""
    x = BINS * u
    i = math.floor(x)
    return table[i] + (x - i) * (table[i + 1] - table[i])
