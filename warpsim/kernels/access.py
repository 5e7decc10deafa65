"""Counts the memory transactions and bank conflicts of a warp's access.

Sources: V 2.5 (coalescing), 2.6 (bank conflicts), 6.7 (counts per GPU); HK = Hong & Kim 2009,
Algorithm 1 (G80: all or nothing) and Algorithm 2 (GT200: transactions of 32, 64 or 128 bytes per half-warp).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warpsim.hardware.gpu import Gpu, Shared
from warpsim.kernels.instruction import Access, Instruction
from warpsim.units import LINE_BYTES, SECTOR_BYTES, WARP_LANES

_HALF_WARP = 16
_SMALLEST_TRANSACTION = 32
_WORD_BYTES = 4


@dataclass(frozen=True)
class Transactions:
    """The cost of one warp access in the memory system of one chip.

    Attributes:
        transactions: memory transactions.
        extra: transactions beyond those of a coalesced access of the same width; each adds to the latency (V
            Table 6.7).
        requests: requests that enter the memory queues: 128-byte lines, or single transactions of an access that
            does not coalesce.
        bytes_per_request: bytes moved, averaged over the requests.
        requested_bytes: bytes that the program requests: 32 times the bytes per thread.
        port_sectors: sectors that a slice of L2 takes in, on average over the requests, and one more for each request that is
            written in part. Only stores pass this port.
        updates: largest number of threads that update one address, one after another, times the chip's intervals that each
            of them takes; 0: the access is not atomic.
        contended_addresses: number of addresses that all warps update; 0: so many that they do not meet.
        l2_coalesced: share of the reads of L2 that another SM's read serves as well.
    """

    transactions: int
    extra: int
    requests: int
    bytes_per_request: float
    requested_bytes: int
    port_sectors: float = 0.0
    updates: float = 0
    contended_addresses: int = 0
    l2_coalesced: float = 0.0


@dataclass(frozen=True)
class _Group:
    """Transactions of a warp or half-warp, whose threads can coalesce."""

    coalesced: tuple[tuple[int, int], ...]
    """First byte and size of each transaction that does not diverge."""
    divergent: int
    """Number of divergent transactions."""


def transactions(access: Access, gpu: Gpu) -> Transactions:
    """Counts the transactions and queue requests of a global memory access.

    The rule `gpu.memory.coalescing` determines the transactions:

    - "warp": one for each block of `transaction_bytes` that the warp touches.
    - "half-warp": one for each 128-byte block that a half-warp touches (64 bytes for 2-byte, 32 for 1-byte
      elements), reduced to the touched half or quarter (HK Algorithm 2).
    - "half-warp-ordered": thread k of a half-warp must access element k of an aligned block; otherwise every
      thread has its own transaction (HK Algorithm 1).

    A thread that shares no line with other threads diverges: its transaction is a separate request that moves
    `divergent_transaction_bytes`. Under the rule "half-warp-ordered", all threads that do not coalesce diverge. The
    end of a misaligned run, in a line next to a shared one, does not diverge. All other requests are the lines
    touched, and move the bytes of their transactions. The cost of divergence was measured with random addresses (V
    6.7); we assume that a stride with one line per thread costs the same.
    """
    memory, width = gpu.memory, access.bytes_per_thread
    minimum = _coalesced_count(width, gpu)
    requested = WARP_LANES * width
    if access.pattern == "random":
        extra = max(0, WARP_LANES - minimum)
        ports = port_sectors(WARP_LANES, requested, WARP_LANES) / WARP_LANES
        return Transactions(WARP_LANES, extra, WARP_LANES, memory.divergent_transaction_bytes, requested, ports)
    addresses = thread_addresses(access)
    groups = _groups(addresses, width, gpu)
    count = _count(groups)
    coalesced = [transaction for group in groups for transaction in group.coalesced]
    divergent = sum(group.divergent for group in groups)
    requests = len({first // LINE_BYTES for first, _ in coalesced}) + divergent
    moved = sum(size for _, size in coalesced) + divergent * memory.divergent_transaction_bytes
    sectors = {address // SECTOR_BYTES for address in addresses}
    lines = {address // LINE_BYTES for address in addresses}
    ports = port_sectors(len(sectors), len(set(addresses)) * width, len(lines)) / requests
    return Transactions(count, max(0, count - minimum), requests, moved / requests, requested, ports)


def port_sectors(sectors: float, written: float, lines: float) -> float:
    """Returns how many sectors L2 takes in with a store, and one more for each line that is written in part.

    lts__xbar2lts_cycles_active of 15 kernels on six chips is the sum of these and of one for each load (public profiles of
    experiments/profiles); `initializeBiNodes` among them writes three sectors of a line in part.

    Args:
        sectors: of the store.
        written: bytes that its threads write.
        lines: over which the sectors are spread.
    """
    return sectors + min(lines, 2 * max(0.0, sectors - written / SECTOR_BYTES))


def thread_addresses(access: Access) -> tuple[int, ...]:
    """Returns the byte addresses of the 32 threads.

    Raises:
        ValueError: the pattern is "random", which has no fixed addresses.
    """
    if access.pattern == "random":
        raise ValueError('access.pattern = "random": must be another pattern, since random addresses are not fixed')
    if access.addresses is not None:
        return tuple(access.offset_bytes + address for address in access.addresses)
    step = {"coalesced": 1, "stride": access.stride, "broadcast": 0}[access.pattern] * access.bytes_per_thread
    return tuple(access.offset_bytes + thread * step for thread in range(WARP_LANES))


def updates_of_one_address(access: Access) -> int:
    """Returns the largest number of threads that have the same address; 1 for random addresses."""
    return 1 if access.pattern == "random" else max(Counter(thread_addresses(access)).values())


def bank_conflicts(addresses: Sequence[int], shared: Shared, bytes_per_thread: int = 4) -> int:
    """Returns the degree of the bank conflict of a shared memory access; 1 means no conflict (V 2.6).

    Successive 32-bit words are in successive banks. A bank delivers one row of `bank_bytes` at a time, to any
    number of threads, so the bank with the most different rows determines the degree. In the default mode of
    Kepler, a row of 64 bits contains two words that are `banks` words apart (CUDA C Programming Guide, compute
    capability 3.x, to which V refers). If a warp needs two passes (half-warps), the degree is the mean of both,
    rounded up.

    Args:
        addresses: one byte address per thread.
        shared: the chip's shared memory.
        bytes_per_thread: bytes that each thread accesses.
    """
    row_words = shared.banks * shared.bank_bytes // _WORD_BYTES
    degrees = []
    for first in range(0, len(addresses), shared.lanes_per_pass):
        words = {
            word
            for address in addresses[first : first + shared.lanes_per_pass]
            for word in range(address // _WORD_BYTES, (address + bytes_per_thread - 1) // _WORD_BYTES + 1)
        }
        rows = {(word % shared.banks, word // row_words) for word in words}
        degrees.append(max(Counter(bank for bank, _ in rows).values()))
    return -(-sum(degrees) // len(degrees))


def conflict_ways(instruction: Instruction, gpu: Gpu) -> int:
    """Returns the degree of an instruction's bank conflict, from the access of an "smem" if given, else from `ways`."""
    access = instruction.access
    if instruction.op != "smem" or access is None:
        return instruction.ways
    addresses, size = thread_addresses(access), access.bytes_per_thread
    return (ways_of_today if gpu.core.replays == "unit" else bank_conflicts)(addresses, gpu.shared, size)


def ways_of_today(addresses: Sequence[int], shared: Shared, bytes_per_thread: int = 4) -> int:
    """Returns the ways of a shared memory access on chips since Volta.

    8 bytes per thread come half a warp at a time, and 16 bytes a quarter. If all neighbours, or all threads two apart, read the
    same, twice as many threads come together. Each group has the ways of `bank_conflicts`. Counters of Ada and Hopper have it
    so for five patterns (experiments/hardware). Threads that are off, whose addresses are negative, read the same as any other,
    and a group of such threads has no ways.
    """
    threads = min(len(addresses), WARP_LANES * _WORD_BYTES // max(_WORD_BYTES, bytes_per_thread))
    if threads < len(addresses) and any(_agree(addresses, apart) for apart in (1, 2)):
        threads *= 2
    groups = [
        [address for address in addresses[first : first + threads] if address >= 0] for first in range(0, len(addresses), threads)
    ]
    return sum(bank_conflicts(group, shared, bytes_per_thread) for group in groups if group)


def _agree(addresses: Sequence[int], apart: int) -> bool:
    """Returns whether each thread reads the same as the one whose number differs by a bit, or one of the two is off."""
    pairs = ((address, addresses[thread ^ apart]) for thread, address in enumerate(addresses))
    return all(first == second or min(first, second) < 0 for first, second in pairs)


def _coalesced_count(width: int, gpu: Gpu) -> int:
    """Returns the transactions of a coalesced access; on G80, which coalesces 4 bytes or more, of at least 4 bytes."""
    if gpu.memory.coalescing == "half-warp-ordered":
        width = max(width, 4)
    return _count(_groups([thread * width for thread in range(WARP_LANES)], width, gpu))


def _count(groups: list[_Group]) -> int:
    return sum(len(group.coalesced) + group.divergent for group in groups)


def _groups(addresses: Sequence[int], width: int, gpu: Gpu) -> list[_Group]:
    if gpu.memory.coalescing == "warp":
        return [_blocks_touched(addresses, gpu.memory.transaction_bytes)]
    rule = _half_warp if gpu.memory.coalescing == "half-warp" else _half_warp_ordered
    return [rule(addresses[i : i + _HALF_WARP], width) for i in range(0, len(addresses), _HALF_WARP)]


def _blocks_touched(addresses: Sequence[int], size: int) -> _Group:
    return _group([(block * size, size) for block in sorted({a // size for a in addresses})], addresses)


def _half_warp(addresses: Sequence[int], width: int) -> _Group:
    size = {1: 32, 2: 64}.get(width, 128)
    blocks = []
    for block in sorted({address // size for address in addresses}):
        touched = [address for address in addresses if address // size == block]
        first, length = block * size, size
        while length > _SMALLEST_TRANSACTION:
            halves = {(address - first) // (length // 2) for address in touched}
            if len(halves) == 2:
                break
            length //= 2
            first += length * halves.pop()
        blocks.append((first, length))
    return _group(blocks, addresses)


def _half_warp_ordered(addresses: Sequence[int], width: int) -> _Group:
    start, span = addresses[0], len(addresses) * width
    in_order = all(address == start + thread * width for thread, address in enumerate(addresses))
    if width < 4 or not in_order or start % span:
        return _Group((), len(addresses))
    size = min(span, LINE_BYTES)
    return _Group(tuple((first, size) for first in range(start, start + span, size)), 0)


def _group(blocks: list[tuple[int, int]], addresses: Sequence[int]) -> _Group:
    """Separates the divergent transactions from the others."""
    threads = Counter(address // LINE_BYTES for address in addresses)
    lonely = {line for line in threads if max(threads[line + step] for step in (-1, 0, 1)) == 1}
    coalesced = tuple(block for block in blocks if block[0] // LINE_BYTES not in lonely)
    return _Group(coalesced, len(blocks) - len(coalesced))
