"""One session of measurement: the device, how thorough to be, and what is gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from warpsim.measure.device import Buffer, Device, Kernel

Counts = NDArray[np.uint64]


@dataclass(frozen=True)
class Effort:
    """How thorough the measurement is; beside the compilation, which takes most, `FULL` takes 15 seconds on an H100.

    Attributes:
        trips: how often a chain's body is repeated.
        repetitions: launches of which the fastest counts.
        every_ilp: whether saturation is measured at every ILP of an operation, or at 1 and the largest only.
        warps: warps per SM of the saturation curves, as far as the chip has room for them.
        footprints: bytes, for the latency of levels of the memory.
        sms_sampled: number of SMs from which single loads are timed.
        loads: fractions of the pins' bandwidth at which loaded latency is measured; above 1: as fast as it goes.
        mixes: pairs of reads and writes of each batch of the background traffic.
        stream_bytes: size of each array of the streams.
        chase_words: number of 4-byte words of the streaming pointer chase, a power of two.
    """

    trips: int
    repetitions: int
    every_ilp: bool
    warps: tuple[int, ...]
    footprints: tuple[int, ...]
    sms_sampled: int
    loads: tuple[float, ...]
    mixes: tuple[tuple[int, int], ...]
    stream_bytes: int
    chase_words: int
    stream_repetitions: int = 5


_LOADS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 2.0)

FULL = Effort(
    trips=64,
    repetitions=3,
    every_ilp=True,
    warps=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64),
    footprints=tuple(2**power for power in range(11, 33)) + tuple(3 * 2**power for power in range(14, 31)),
    sms_sampled=8,
    loads=_LOADS,
    mixes=((4, 0), (3, 1), (2, 2), (1, 3), (0, 4)),
    stream_bytes=2**30,
    chase_words=2**28,
)
QUICK = Effort(
    trips=16,
    repetitions=2,
    every_ilp=False,
    warps=(1, 2, 4, 8, 16, 32, 64),
    footprints=tuple(2**power for power in range(12, 31, 2)),
    sms_sampled=2,
    loads=(0.01, 0.2, 0.4, 0.6, 0.8, 0.9, 2.0),
    mixes=((4, 0), (2, 2)),
    stream_bytes=2**28,
    chase_words=2**27,
    stream_repetitions=3,
)


@dataclass
class Session:
    """The device, the effort, and which kernels were used so far.

    Attributes:
        device: that is measured.
        effort: how thorough to be.
        say: called with a line of progress.
        digests: source -> SHA-256 of source and headers.
    """

    device: Device
    effort: Effort
    say: Callable[[str], None] = lambda line: None
    digests: dict[str, str] = field(default_factory=dict)

    def kernel(self, source: str, function: str, defines: Mapping[str, int] | None = None) -> Kernel:
        """Returns a function of a source and notes the source's digest."""
        kernel = self.device.kernel(source, function, defines or {})
        self.digests[source] = kernel.binary.digest
        return kernel

    def rows(self, buffer: Buffer, count: int, width: int) -> Counts:
        """Returns uint64[count, width]: the first values of a buffer, row by row."""
        return self.device.read(buffer, np.uint64, count * width).reshape(count, width)

    def warps(self, most: int) -> list[int]:
        """Returns the numbers of warps of the effort that are at most `most`."""
        return [warps for warps in self.effort.warps if warps <= most]

    def shared_for(self, kernel: Kernel, block: int, resident: int) -> int:
        """Returns the bytes of dynamic shared memory with which an SM holds exactly `resident` blocks; -1 where none do.

        An SM that has room for fewer blocks for other reasons gives -1.
        """
        most = self.device.properties.shared_bytes_per_block
        low, high = 0, most
        while low < high:  # the least amount with which no more than `resident` blocks fit
            middle = (low + high) // 2
            if self.device.resident_blocks(kernel, block, middle) > resident:
                low = middle + 1
            else:
                high = middle
        return low if self.device.resident_blocks(kernel, block, low) == resident else -1


def elapsed_by_sm(rows: Counts, warps: int) -> Counts:
    """Returns the cycles from the first start to the last end on each SM that ran exactly `warps` warps.

    Args:
        rows: uint64[all warps, at least 3]: start, end, SM.
        warps: number of warps.
    """
    found = []
    for sm in np.unique(rows[:, 2]):
        here = rows[rows[:, 2] == sm]
        if len(here) == warps:
            found.append(here[:, 1].max() - here[:, 0].min())
    return np.array(found, dtype=np.uint64)


def histogram(samples: NDArray[np.uint32]) -> list[tuple[int, int]]:
    """Returns the different samples in ascending order, each with how often it occurs."""
    values, counts = np.unique(samples, return_counts=True)
    return [(int(value), int(count)) for value, count in zip(values, counts, strict=True)]
