"""Tiled matrix multiplication: the instructions of a trip, with the classes of L and with the usual ones."""

import pytest

from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Instruction, Loop, load_kernel, matrix_multiply
from warpsim.kernels.access import transactions
from warpsim.simulation.api import simulate


@pytest.mark.parametrize("tile", [8, 16])
def test_a_trip(tile):
    loop, store = matrix_multiply(tile, width=64).body
    assert isinstance(loop, Loop) and loop.trips == 64 // tile
    ops = [s.op for s in loop.body if isinstance(s, Instruction)]
    inner = ["smem", "smem", "alu"] * tile
    assert ops == ["load", "load", "smem", "smem", "barrier", *inner, "barrier", "branch"]
    assert store.op == "store"


def test_a_warp_reads_rows_of_the_tile():
    loop, _ = matrix_multiply(8, width=64).body
    made = transactions(loop.body[0].access, load_gpu("kepler"))
    assert made.requests * made.bytes_per_request == 4 * 32  # four rows of eight floats
    assert matrix_multiply(16).shared_bytes_per_block == 2048


def test_the_operation_classes_of_table_3():
    kernel = matrix_multiply(16, ways=8, table_iii=True)
    assert {"matrix_a_16x16", "matrix_b_16x16", "smem", "smem_conflict"} <= kernel.ops
    assert "load" not in kernel.ops
    assert "smem_conflict" not in matrix_multiply(8, table_iii=True).ops


def test_only_the_inner_loop_has_conflicts():
    loop, _ = matrix_multiply(8, ways=8).body
    ways = [s.ways for s in loop.body if s.op == "smem"]
    assert ways == [1, 1] + [8] * 16


def test_it_can_be_simulated():
    kernel = load_kernel("matrix_multiply", width=32)
    ds = simulate(load_gpu("kepler"), kernel, warps=8, sms=1, warmup=0, cycles=3000)
    adds, reads = (float(ds.instructions.sel(op=op)[0]) for op in ("alu", "smem"))
    assert adds > 0
    assert reads == pytest.approx(2 * adds + adds / 8, rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tile": 12}, "tile = 12: must be one of 8, 16"),
        ({"width": 100}, "width = 100: must be a multiple of tile = 16"),
        ({"ways": 33}, "ways = 33"),
        ({"table_iii": 1}, "table_iii = 1: must be True or False"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        matrix_multiply(**arguments)
