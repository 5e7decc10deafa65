"""The memory system of a chip, and the parameters of its models. V is Volkov, Understanding Latency Hiding on GPUs, 2016."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, model_validator

from warpsim.hardware.fields import Between, Count, Finite, MustBe, Name, NotNegative, Positive, StrictModel, is_number
from warpsim.units import SECTOR_BYTES, gbs_to_bytes_per_cycle


def _as_tuples(value: Any) -> Any:
    """Returns lists within lists, as files have them, as tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


Terms = Annotated[tuple[tuple[NotNegative, Positive], ...], BeforeValidator(_as_tuples)]


_Share = Annotated[float, Field(ge=0.1, le=2.0, allow_inf_nan=False), MustBe("a number from 0.1 to 2")]


class Queue(StrictModel):
    """Fitted parameters of the memory model `queue`: two stages in series, with rates of the whole chip.

    Attributes:
        latency_offset_cycles: mean latency of the idle system minus `Memory.latency_cycles`.
        crossbar_servers: servers of the first stage.
        crossbar_gbs: total rate of the first stage.
        dram_servers: servers of the second stage.
        dram_gbs: total rate of the second stage.
        fit_rms_percent: error of the fit; None: not fitted.
    """

    latency_offset_cycles: Finite
    crossbar_servers: Annotated[int, Between(1, 65536)]
    crossbar_gbs: Positive
    dram_servers: Annotated[int, Between(1, 65536)]
    dram_gbs: Positive
    fit_rms_percent: NotNegative | None = None


class Writes(StrictModel):
    """What stores among the loads cost the data bus of the memory (docs/model.md, section 5).

    Attributes:
        mixed_rate: sustained rate of as many stores as loads, over that of loads (`Memory.bandwidth_gbs`).
        write_rate: sustained rate of stores alone, over that of loads.
        write_burst_ns: time that the stores take that a server of DRAM collects, and writes together.
        read_delay_ns: wait of a load beside as many stores, beyond that of the queues, at a channel that is not idle.
        idle_ns: time after its latest request from which a channel of DRAM is idle: it has turned to loads.
    """

    mixed_rate: _Share
    write_rate: _Share
    write_burst_ns: NotNegative
    read_delay_ns: NotNegative
    idle_ns: NotNegative

    @model_validator(mode="after")
    def _turning_costs_time(self) -> Self:
        if self.turnaround < 0:
            most = 2 / (1 + 1 / self.write_rate)
            raise ValueError(f"mixed_rate = {self.mixed_rate:g}: must be at most {most:g}, the mean of loads and stores apart")
        return self

    @property
    def turnaround(self) -> float:
        """Returns by how much service is longer with as many stores as loads, in units of the service of a load."""
        return 1 / self.mixed_rate - (1 + 1 / self.write_rate) / 2


class Contention(StrictModel):
    """Mean memory latency a + b x / (c - x) in cycles at a throughput of x GB/s (V 6.4, Table 6.5).

    If V gives a better fit, `refined` holds its terms [b, c], and `refined_a_cycles` replaces a.
    """

    a_cycles: Positive
    b_cycles: NotNegative
    c_gbs: Positive
    refined_a_cycles: Positive | None = None
    refined: Terms | None = None

    def latency(self, bandwidth_gbs: ArrayLike, refined: bool = False) -> NDArray[np.float64]:
        """Returns the mean latency in cycles at throughputs of the chip in GB/s.

        If `refined`, V's fit with several terms is used for chips that have one. At and above the smallest c, the latency is
        infinite.
        """
        x = np.asarray(bandwidth_gbs, dtype=np.float64)
        base: float = self.a_cycles
        terms: tuple[tuple[float, float], ...] = ((self.b_cycles, self.c_gbs),)
        if refined and self.refined is not None and self.refined_a_cycles is not None:
            base, terms = self.refined_a_cycles, self.refined
        latency = np.full(x.shape, float(base))
        for b, c in terms:
            room = np.maximum(c - x, 0.0)
            latency += np.divide(b * x, room, out=np.full(x.shape, np.inf), where=room > 0)
        return latency


class Memory(StrictModel):
    """The memory system of the whole chip.

    Attributes:
        latency_cycles: unloaded latency of a coalesced load (V Table 6.2); the starting point of every memory model.
        pin_bandwidth_gbs: bandwidth of the memory's pins.
        bandwidth_gbs: sustained bandwidth.
        transaction_bytes: size of a transaction; a coalesced 32-bit access takes 128 / `transaction_bytes` of them.
        coalescing: rule by which the accesses of a warp are combined into transactions.
        transaction_latency_cycles: latency added by each transaction beyond those of a coalesced access.
        divergent_transaction_bytes: effective bytes moved by one transaction of an access that does not coalesce.
        loads_per_warp: maximum number of loads in flight of a warp; None: no limit.
        loads_per_sm: maximum number of loads in flight of an SM; None: no limit.
        stores_per_sm: maximum number of stores in flight of an SM; None: no limit.
        store_drain_cycles: unloaded latency of a store, after which its data has left the SM. With it, a warp stays resident
            until its stores have left; None: a warp does not wait for its stores.
        l1_latency_cycles: latency of a hit in L1; None: unknown.
        l2_latency_cycles: latency of a hit in L2, or in its near half; None: unknown.
        l2_far_latency_cycles: latency of a hit in the far half of L2; None: L2 has one latency.
        l2_store_gbs: rate at which L2 takes in stores: 32 bytes in a cycle of each slice. A line that is written in part takes
            one cycle more. None: stores pass as loads do.
        atomic_interval_cycles: cycles between two updates of one address by L2; None: the chip has no classes of atomics.
        distribution: latency quantiles, the name of a file in params/latency or a path.
        measured: whether these quantiles were measured on this chip.
        measured_latency_cycles: `latency_cycles` of the chip on which they were measured; None: the same. The memory model
            `measured` shifts all quantiles by the difference.
        queue: parameters of the memory model `queue`.
        writes: what stores among the loads cost; None: nothing.
        contention: mean latency as a function of the throughput.
    """

    latency_cycles: Count
    pin_bandwidth_gbs: Positive
    bandwidth_gbs: Positive
    transaction_bytes: Literal[32, 64, 128]
    coalescing: Literal["half-warp-ordered", "half-warp", "warp"]
    transaction_latency_cycles: NotNegative
    divergent_transaction_bytes: Positive
    loads_per_warp: Annotated[int, Between(1, 1024)] | None = None
    loads_per_sm: Annotated[int, Between(1, 65536)] | None = None
    stores_per_sm: Annotated[int, Between(1, 65536)] | None = None
    store_drain_cycles: Count | None = None
    l1_latency_cycles: Count | None = None
    l2_latency_cycles: Count | None = None
    l2_far_latency_cycles: Count | None = None
    l2_store_gbs: Positive | None = None
    atomic_interval_cycles: NotNegative | None = None
    distribution: Name
    measured: bool
    measured_latency_cycles: Count | None = None
    queue: Queue
    writes: Writes | None = None
    contention: Contention

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Fills in the latency at which quantiles were measured, and reads the queue's latency of files of warpsim 0.1."""
        if not isinstance(data, Mapping) or not is_number(data.get("latency_cycles")):
            return data
        data = dict(data)
        if data.get("measured") is True:
            data.setdefault("measured_latency_cycles", data["latency_cycles"])
        queue = data.get("queue")
        if isinstance(queue, Mapping) and is_number(queue.get("base_latency_cycles")) and "latency_offset_cycles" not in queue:
            base = queue["base_latency_cycles"]
            kept = {key: value for key, value in queue.items() if key != "base_latency_cycles"}
            data["queue"] = {"latency_offset_cycles": float(base - data["latency_cycles"]), **kept}
        return data

    @property
    def queue_latency_cycles(self) -> float:
        """Mean unloaded latency of the memory model `queue`, in cycles."""
        return self.latency_cycles + self.queue.latency_offset_cycles

    @property
    def stores_gbs(self) -> float:
        """Sustained bandwidth of stores alone, in GB/s."""
        return self.bandwidth_gbs * (self.writes.write_rate if self.writes else 1.0)

    def port_cycles(self, clock_ghz: float) -> float:
        """Returns the cycles of a chip in which a server of the queue's first stage takes in a sector of a store; 0: no limit."""
        if self.l2_store_gbs is None:
            return 0.0
        slower = min(self.l2_store_gbs, self.queue.crossbar_gbs)
        return SECTOR_BYTES * self.queue.crossbar_servers / gbs_to_bytes_per_cycle(slower, clock_ghz)

    @property
    def mean_l2_latency_cycles(self) -> float | None:
        """Mean latency of a hit in L2, in cycles; None: unknown."""
        near, far = self.l2_latency_cycles, self.l2_far_latency_cycles
        return near if near is None or far is None else (near + far) / 2

    @property
    def cycles_to_l2(self) -> int:
        """Latency of L2 in cycles; half of DRAM's where it is not known."""
        return self.l2_latency_cycles or self.latency_cycles // 2

    @property
    def measured_shift_cycles(self) -> int:
        """Shift that the memory model `measured` adds to the measured latencies, in cycles."""
        return self.latency_cycles - (self.measured_latency_cycles or self.latency_cycles)
