"""Tiled matrix multiplication, which Lemeire et al. (L) took from the CUDA SDK (L Listing 1, IV.C)."""

from __future__ import annotations

from warpsim.kernels.arguments import Arguments
from warpsim.kernels.instruction import Access, Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Loop
from warpsim.units import WARP_LANES

_FLOAT = 4
_MAX_WIDTH = 2**15


def matrix_multiply(tile: int = 16, *, width: int = 1024, ways: int = 1, table_iii: bool = False) -> Kernel:
    """Multiplies square matrices of floats, tile by tile through shared memory: C = A B (L Listing 1).

    As in L (IV.C), the kernel is the loop over tiles and the store of the result. Each trip of the loop has a load of A
    and one of B, both stored to shared memory; a barrier; `tile` multiply-adds, each of which depends on two elements
    read from shared memory and on the previous sum; a barrier; and the overhead of the loop. The inner loop is
    unrolled, the outer loop is not.

    Args:
        tile: side of a tile and of a thread block, 8 or 16; a block is tile * tile / 32 warps, and the grid
            (width / tile)**2 blocks.
        width: side of the matrices, a multiple of `tile`.
        ways: degree of the bank conflicts of the reads in the inner loop.
        table_iii: whether to use the operation classes of L Table III, for the chips of params/pipelines: separate
            classes for the loads of A and B (matrix_a_8x8, ...), and smem_conflict for reads with conflicts, whose
            degree L does not give. Otherwise the kernel has the usual classes with access patterns, without cache
            hits, for any chip.
    """
    check = Arguments()
    tile = check.number("tile", tile, (8, 16))
    width = check.integer("width", width, tile, _MAX_WIDTH)
    if width % tile:
        check.wrong("width", width, f"a multiple of tile = {tile}")
    ways = check.ways(ways, "smem")
    check.flag("table_iii", table_iii)
    check.done()

    rows = Access(pattern="addresses", addresses=_tile_rows(tile, width))
    loads = [
        Instruction(f"matrix_{name}_{tile}x{tile}", dst=f"x{name}", src=("index",), comment=text)
        if table_iii
        else Instruction("load", dst=f"x{name}", src=("index",), access=rows, comment=text)
        for name, text in (("a", "A[aIdx]"), ("b", "B[bIdx]"))
    ]
    stores = [Instruction("smem", src=(f"x{name}",), comment=f"S{name.upper()}[ly][lx] =") for name in "ab"]
    inner = []
    for k in range(tile):
        for name, text in (("a", f"SA[ly][{k}]"), ("b", f"SB[{k}][lx]")):
            if table_iii and ways > 1:
                inner.append(Instruction("smem_conflict", dst=f"s{name}", src=("local",), comment=text))
            else:
                inner.append(Instruction("smem", dst=f"s{name}", src=("local",), ways=ways, comment=text))
        inner.append(Instruction("alu", dst="sum", src=("sa", "sb", "sum"), comment=f"sum += SA[ly][{k}] * SB[{k}][lx]"))
    barrier = Instruction("barrier", comment="barrier(CLK_LOCAL_MEM_FENCE)")
    loop = Instruction("branch", src=("index",), comment="aIdx += aDelta, bIdx += bDelta; aIdx < aEnd")
    result = Instruction("store", src=("sum",), access=rows, comment="C[y * WB + x] = sum")
    return Kernel(
        name="matrix_multiply",
        title=f"C = A B for {width} x {width} floats in tiles of {tile} x {tile}",
        source="L Listing 1, IV.C",
        shared_bytes_per_block=2 * tile * tile * _FLOAT,
        inputs=("index", "local", "sum"),
        body=(Loop(body=(*loads, *stores, barrier, *inner, barrier, loop), trips=width // tile), result),
    )


def _tile_rows(tile: int, width: int) -> tuple[int, ...]:
    """Returns the byte offsets of a warp's threads: rows of `tile` elements, which are `width` elements apart."""
    return tuple((thread // tile * width + thread % tile) * _FLOAT for thread in range(WARP_LANES))
