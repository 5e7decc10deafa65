"""Producer and consumer warps of a block: one copies tiles into shared memory, and the others work on them."""

from __future__ import annotations

from warpsim.kernels.arguments import Arguments
from warpsim.kernels.costs import BULK_INTERVAL
from warpsim.kernels.instruction import MAX_REQUESTS, MOST_PHASES, Access, Cost, Instruction, Mbarrier
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop
from warpsim.units import LINE_BYTES, MAX_WARPS

_REGISTERS = 64


def producer_consumer(
    stages: int = 4, *, tile_bytes: int = 8192, consumers: int = 4, alpha: int = 256, iterations: int = 64, l2_hit: float = 0.0
) -> Kernel:
    """Builds a producer that copies tiles of an array into a ring of buffers, and consumers that calculate with each tile.

    It is how kernels for Hopper and later overlap copies with matrix products (CUTLASS, warp-specialised kernels): an mbarrier
    `full` tells the consumers that a tile has come, and `empty` tells the producer that all of them are done with a buffer.

    Args:
        stages: buffers of a block, 1 to 32.
        tile_bytes: bytes of a tile, a multiple of 128 up to 131072; the block has `stages` of them in shared memory.
        consumers: warps that calculate, 1 to 63; one more copies.
        alpha: dependent adds of each consumer for a tile.
        iterations: tiles that a block processes.
        l2_hit: probability that L2 serves a copy.
    """
    check = Arguments()
    stages = check.integer("stages", stages, 1, MOST_PHASES)
    tile_bytes = check.integer("tile_bytes", tile_bytes, LINE_BYTES, LINE_BYTES * MAX_REQUESTS)
    if tile_bytes % LINE_BYTES:
        check.wrong("tile_bytes", tile_bytes, f"a multiple of {LINE_BYTES}")
    consumers = check.integer("consumers", consumers, 1, MAX_WARPS - 1)
    alpha = check.integer("alpha", alpha, 1, 100_000)
    iterations = check.integer("iterations", iterations, 1, 10**9)
    if not isinstance(l2_hit, int | float) or not 0.0 <= l2_hit <= 1.0:
        check.wrong("l2_hit", l2_hit, "a number from 0 to 1")
    check.done()
    moved = Cost(
        requests=tile_bytes // LINE_BYTES,
        bytes_per_request=LINE_BYTES,
        requested_bytes=tile_bytes,
        interval_cycles=BULK_INTERVAL,
    )
    copies = (
        Instruction("smem", awaits="empty", comment="is the buffer free?"),
        Instruction("async_copy", access=Access(l2_hit=l2_hit), cost=moved, arrives="full", comment="a bulk copy of the tile"),
    )
    add = Loop(body=(Instruction("alu", dst="sum", src=("sum",)),), trips=alpha)
    works = (
        Instruction("smem", awaits="full", comment="is the tile there?"),
        Instruction("smem", dst="a", comment="reads it"),
        Instruction("alu", dst="sum", src=("a", "sum")),
        add,
        Instruction("smem", arrives="empty", comment="done with the buffer"),
    )
    producer, consumer = Loop(body=copies, trips=iterations), Loop(body=works, trips=iterations)
    return Kernel(
        name="producer_consumer",
        title=f"{iterations} tiles of {tile_bytes} bytes through {stages} buffer{'s' if stages > 1 else ''} of a block",
        registers_per_thread=_REGISTERS,
        shared_bytes_per_block=stages * tile_bytes,
        block_warps=consumers + 1,
        inputs=("sum",),
        mbarriers=(Mbarrier(name="full", arrivals=1), Mbarrier(name="empty", arrivals=consumers, ahead=stages)),
        body=(Conditional(warps=(0,), then=(producer,), orelse=(consumer,)),),
    )
