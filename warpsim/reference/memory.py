"""Random streams and memory system of the reference machine.

Numbers in parentheses are sections of docs/model.md.
"""

from __future__ import annotations

import math
from collections import Counter

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import load_distribution
from warpsim.kernels import Access
from warpsim.kernels.access import Transactions

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
BINS = 4096  # a copy of `engine.state.BINS`, with which the reference machine shares nothing; a test asserts equality
BUCKET_CYCLES = 512
WINDOW_BUCKETS = 8


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
    def of_scheduler(cls, seed: int, number: int) -> Stream:
        """Returns the stream of a scheduler; `number` is SM * schedulers + scheduler."""
        return cls(mix((seed - (number + 1) * GOLDEN) & MASK))

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

    def serve(self, server: int, arrival: float, request_bytes: float) -> float:
        """Adds a request to the queue of a server; returns its waiting time in cycles."""
        start = max(self.free[server], arrival)
        self.free[server] = start + request_bytes / self.server_bytes_per_cycle
        return start - arrival


class Memory:
    """The memory system of the chip, or of a slice of `sms` SMs (1, 5)."""

    def __init__(self, gpu: Gpu, model: str, sms: int) -> None:
        if model == "measured" and not gpu.memory.measured:
            raise ValueError(f"memory = 'measured': {gpu.name} has no measured distribution")
        self.model = model
        self.facts = gpu.memory
        self.clock_ghz = gpu.clock_ghz
        self.share = sms / gpu.sms
        queue = gpu.memory.queue
        self.sustained = Stage(1, self.rate(gpu.memory.bandwidth_gbs))
        self.crossbar = Stage(
            self.servers(queue.crossbar_servers, sms, gpu.sms), self.rate(queue.crossbar_gbs)
        )
        self.dram = Stage(self.servers(queue.dram_servers, sms, gpu.sms), self.rate(queue.dram_gbs))
        distribution = load_distribution(gpu.memory.distribution)
        self.unloaded = distribution.scaled(gpu.memory.queue_latency_cycles).quantile_table(0).tolist()
        self.loads_gbs = distribution.loads_gbs.tolist()
        measured = distribution.shifted(gpu.memory.measured_shift_cycles)
        self.rows = [measured.quantile_table(row).tolist() for row in range(len(self.loads_gbs))]
        self.buckets: Counter[int] = Counter()
        self.moved_bytes = 0.0  # DRAM traffic of the last access

    def rate(self, gbs: float) -> float:
        """Converts a rate of the chip in GB/s to bytes per cycle of the slice."""
        return units.gbs_to_bytes_per_cycle(gbs, self.clock_ghz) * self.share

    @staticmethod
    def servers(of_chip: int, sms: int, of_sms: int) -> int:
        """Returns the number of servers of the slice: rounded, half up, and at least one."""
        return max(1, math.floor(of_chip * sms / of_sms + 0.5))

    def access(self, t: int, access: Access, facts: Transactions, stream: Stream, op: str = "load") -> int:
        """Serves a load or a store that issues in cycle `t`; returns its latency in whole cycles."""
        u = stream.uniform()
        level = self.level(access, stream)
        draws = [stream.draw() for _ in range(facts.requests)]

        unloaded = self.unloaded_latency(t, u, level)
        if op == "store" and self.facts.store_drain_cycles is not None:
            unloaded = self.facts.store_drain_cycles
        waits = [self.wait(t, level, draw, facts.bytes_per_request) for draw in draws]
        delays = [0.0] * facts.requests
        if facts.requests > 1:
            step = facts.requests - 1
            delays = [
                j * facts.extra / step * self.facts.transaction_latency_cycles for j in range(facts.requests)
            ]
        latency = unloaded + max(max(w, e) for w, e in zip(waits, delays, strict=True))
        self.moved_bytes = facts.requests * facts.bytes_per_request if level == "memory" else 0.0
        self.buckets[t // BUCKET_CYCLES] += self.moved_bytes
        return math.floor(latency + 1 / 2)

    @staticmethod
    def level(access: Access, stream: Stream) -> str:
        """Returns the level that serves an access; makes one draw if the access has hit probabilities."""
        if access.l1_hit == 0 and access.l2_hit == 0:
            return "memory"
        u = stream.uniform()
        if u < access.l1_hit:
            return "l1"
        return "l2" if u < access.l1_hit + (1 - access.l1_hit) * access.l2_hit else "memory"

    def unloaded_latency(self, t: int, u: float, level: str) -> float:
        """Returns the unloaded latency B in cycles (5); `u` is a draw from [0, 1)."""
        if level == "l1":
            return self.facts.l1_latency_cycles
        if level == "l2":
            return self.facts.l2_latency_cycles
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
        load = units.bytes_per_cycle_to_gbs(in_window / length / self.share, self.clock_ghz)
        loads = self.loads_gbs
        if load <= loads[0]:
            return quantile(self.rows[0], u)
        if load >= loads[-1]:
            return quantile(self.rows[-1], u)
        high = next(i for i, row_load in enumerate(loads) if row_load > load)
        b_low, b_high = quantile(self.rows[high - 1], u), quantile(self.rows[high], u)
        return b_low + (load - loads[high - 1]) / (loads[high] - loads[high - 1]) * (b_high - b_low)

    def wait(self, t: int, level: str, draw: int, request_bytes: float) -> float:
        """Returns the waiting time of one request in its queues, which are first come, first served."""
        if level == "l1":
            return 0.0
        sustained = self.sustained.serve(0, t, request_bytes) if level == "memory" else 0.0
        if self.model != "queue":
            return sustained
        w1 = self.crossbar.serve((draw >> 32) * len(self.crossbar.free) >> 32, t, request_bytes)
        if level == "l2":
            return w1
        w2 = self.dram.serve((draw & 2**32 - 1) * len(self.dram.free) >> 32, t + w1, request_bytes)
        return max(w1 + w2, sustained)


def quantile(table: list[float], u: float) -> float:
    """Returns the u-quantile of a table of BINS + 1 values, interpolated linearly within a bin."""
    x = BINS * u
    i = math.floor(x)
    return table[i] + (x - i) * (table[i + 1] - table[i])
