"""Hits of kernels: which blocks are walked, and for which others they stand."""

import warnings

import numpy as np
import pytest

import warpsim as ws
from tests.support.listings import kernel, only
from warpsim.frontends.caches import recorder, reuse
from warpsim.frontends.caches.recorder import Recorder
from warpsim.frontends.caches.reuse import _center, _neighbours
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.kernels.costs import access_transactions
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.traversal import walk


def load(name, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = ws.load_kernel(f"cuda/{name}", **arguments)
    return [s for _, s in walk(kernel.body) if getattr(s, "op", "") in ("load", "store")]


def test_vector_operations_and_copies_do_not_hit():
    for one in (*load("vector_add"), *load("copy", function="copy_2")):
        assert one.access.l2_kept == (one.op == "store")  # the launches are small
        assert one.access.l1_hit == one.access.l2_hit == 0 and one.cost.requests is None


def test_a_transposition_stores_the_words_of_a_sector_one_after_another():
    """A block of 32 x 8 threads stores columns of 8 words, the words of a sector, in each of four instructions."""
    stores = [one for one in load("transpose_naive") if one.op == "store"]
    assert {one.access.l2_hit for one in stores} == {7 / 8}


@pytest.mark.parametrize(("words", "sectors"), [(0, 4), (4, 5 + 2), (8, 4)])
def test_l2_takes_in_sectors_that_two_warps_store_from_both(words, sectors):
    """Behind 4 words, a warp writes the halves of two sectors: memory moves each of these once, but L2 takes in both halves."""
    copy = """
        S2R R0, SR_CTAID.X
        S2R R2, SR_TID.X
        IMAD R0, R0, 0x80, R2
        IMAD.MOV.U32 R3, RZ, RZ, 0x4
        IMAD.WIDE R4, R0, R3, c[0x0][0x160]
        STG.E [R4.64+{}], R2
        EXIT"""
    (store,) = [one for one in only(kernel(*copy.format(hex(4 * words)).split("\n")[1:]), Instruction) if one.op == "store"]
    found = access_transactions(ws.load_gpu("a100"), store)
    assert found.requests * found.port_sectors == pytest.approx(sectors)
    assert found.requests * found.bytes_per_request == pytest.approx(4 * 32, rel=0.01)


def test_a_stencil_finds_the_rows_of_its_block_in_l1():
    """A block has 8 rows: 7 of its 8 warps find the row above, or below, in L1; nearly all others find it in L2.

    Stores displace a few rows. The grid is a single wave of an H100. Of a second wave, the rows of its neighbours in the first
    one are no more in L2.
    """
    accesses = [one.access for one in load("stencil", caches="h100") if one.op == "load"]
    rows = [one for one in accesses if abs(one.l1_hit - 7 / 8) < 0.01]  # blocks at the edges find a little less
    assert len(rows) >= 8 and min(one.l2_hit for one in rows) > 0.95


def test_blocks_that_differ_by_where_instructions_begin_are_walked_on_all_sms():
    """Blocks of a row of tiles share its data: block n of 2048 loads row n / 64, and column n % 64, trip by trip.

    An A100 has 108 SMs; some hundred blocks run together. A row is loaded by 64 of them, and a column by two to eight.
    """
    tile = (
        "S2R R0, SR_CTAID.X", "SHF.R.U32.HI R6, RZ, 0x6, R0", "LOP3.LUT R7, R0, 0x3f, RZ, 0xc0, !PT", "S2R R1, SR_TID.X",
        "MOV R9, RZ", "LEA R10, R6, R1, 0xc", "LEA R11, R7, R1, 0xc", "IMAD.MOV.U32 R3, RZ, RZ, 0x4",
        "IADD3 R11, R11, 0x4000000, RZ", "IMAD.WIDE R12, R10, R3, c[0x0][0x160]", "IMAD.WIDE R14, R11, R3, c[0x0][0x160]",
    )  # fmt: skip
    loop = (
        ".L_loop:", "LDG.E R4, [R12.64]", "LDG.E R5, [R14.64]", "IADD3 R12, P1, R12, 0x200, RZ",
        "IADD3.X R13, RZ, R13, RZ, P1, !PT", "IADD3 R14, P1, R14, 0x200, RZ", "IADD3.X R15, RZ, R15, RZ, P1, !PT",
        "IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P0, PT, R9, 0x20, PT", "@!P0 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    found = kernel(*tile, *loop, launch="2048,128", caches="a100")
    row, column = (one.access.l2_hit for _, one in walk(found.body) if getattr(one, "op", "") == "load")
    assert row > 0.97 and 0.8 < column < 0.99


EDGES = {
    "rows of which the last block has fewer threads": (
        """
        __global__ void scale(float *x, const float *y)
        {
            int row = blockIdx.y, column = blockIdx.x * 128 + threadIdx.x;
            if (column < 300)
                x[(blockIdx.z * 64 + row) * 300 + column] = y[row % 5 * 300 + column];
        }""",
        ((3, 64, 16), 128),
    ),
    "planes with guards at all sides": (
        """
        __global__ void left_and_above(float *x, const float *y)
        {
            int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
            if (row >= 40 || column >= 40)
                return;
            float sum = 0;
            if (row > 0 && column > 0)
                sum = y[(blockIdx.z % 4 * 40 + row - 1) * 40 + column - 1];
            x[(blockIdx.z * 40 + row) * 40 + column] = sum;
        }""",
        ((3, 3, 128), (16, 16)),
    ),
}


@pytest.mark.parametrize("which", EDGES)
def test_blocks_at_the_edges_of_a_small_grid_stand_for_those_of_their_shape(compiler, which, monkeypatch):
    """The same is found as if all blocks were executed."""

    def hits_of_accesses():
        kernel = ws.kernels.from_cuda(source, "sm_80", launch=launch)
        return np.array([(one.access.l1_hit, one.access.l2_hit) for one in only(kernel, Instruction) if one.access])

    source, launch = EDGES[which]
    of_all = hits_of_accesses()  # as a small launch
    with monkeypatch.context() as patch:
        patch.setattr(reuse, "_SHARE_OF_SMALL_LAUNCHES", 0)
        patch.setattr(reuse, "_walked_as_recorded", None)
        assert hits_of_accesses() == pytest.approx(of_all, abs=0.01)
    monkeypatch.setattr(Recorder, "first_patterns", lambda recorder: None)
    assert hits_of_accesses() == pytest.approx(of_all, abs=0.01)
    assert of_all.max() > 0.85


def test_blocks_of_a_few_sms_are_as_far_apart_as_the_chip_has_sms(compiler, monkeypatch):
    """Blocks of one SM of an A100, which has 108, read the same rows of `y` here, and those of neighbouring SMs do not."""
    source = """
    __global__ void sums(float *x, const float *y, int trips)
    {
        const float *row = y + blockIdx.x % 108 * 4096 + threadIdx.x;
        float sum = 0;
        for (int i = 0; i < trips; i++)
            sum += row[i * 128];
        x[blockIdx.x * 128 + threadIdx.x] = sum;
    }"""
    for name, value in (("_SHARE_OF_SMALL_LAUNCHES", 0), ("FEW_THREADS", 16384)):
        monkeypatch.setattr(reuse, name, value)
    monkeypatch.setattr(recorder, "_MOST_ADDRESSES", 100_000)
    for name in ("moved_by_instruction", "moved_by_call"):
        monkeypatch.setattr(reuse, name, lambda *_: None)
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=(1728, 128), args={"trips": 32})
    assert min(one.access.l1_hit for one in only(kernel, Instruction) if one.op == "load") > 0.8


def test_the_first_trips_of_a_loop_do_not_stand_for_all_in_l1(compiler):
    """A window of 512 words slides over a vector: of its 16 lines, each warp finds all but one where another one has read them.

    The first trips find nothing; a warp loads a line in 32 trips, in which others are before it in all but some.
    """
    source = """
    __global__ void sums(const float *x, float *y, int window)
    {
        int i = blockIdx.x * 256 + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < window; k++)
            sum += x[i + k];
        y[i] = sum;
    }"""
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=(1728, 256), args={"window": 512})
    loads = [one.access for one in only(kernel, Instruction) if one.op == "load"]
    assert min(load.l1_hit for load in loads) > 0.85


def table_that_blocks_wrap_around_in(*before_the_loop):
    """The load of blocks that go through a table of 8 MiB in 16 trips, each from its own place on, and wrap around.

    Of the 2,048 parts of 4 KiB, block b loads number b + 128 k in trip k.
    """
    begin = (
        "S2R R0, SR_CTAID.X", "S2R R1, SR_TID.X", "LEA R10, R0, R1, 0x8", "MOV R9, RZ", "MOV R8, 0x10",
        "IMAD.MOV.U32 R3, RZ, RZ, 0x10",
    )  # fmt: skip
    loop = (
        ".L_loop:", "LOP3.LUT R11, R10, 0x7ffff, RZ, 0xc0, !PT", "IMAD.WIDE R12, R11, R3, c[0x0][0x160]",
        "LDG.E.128 R4, [R12.64]", "IADD3 R10, R10, 0x8000, RZ", "IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P0, PT, R9, R8, PT",
        "@!P0 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    found = kernel(*begin, *before_the_loop, *loop, launch="4096,256", caches="a100")
    (access,) = (one.access for one in only(found, Instruction) if one.op == "load")
    return access


@pytest.mark.parametrize("rows", [64, 60])
def test_blocks_beyond_the_end_of_the_data_are_left_out(compiler, rows):
    """All blocks share five rows of `y`, 7,680 bytes, which L2 brings in once, whether or not some blocks have no row of `x`."""
    source = """
    __global__ void scale(float *x, const float *y, int rows)
    {
        int row = blockIdx.y, column = blockIdx.x * 128 + threadIdx.x;
        if (row < rows)
            x[(blockIdx.z * rows + row) * 384 + column] = y[row % 5 * 384 + column];
    }"""
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=((3, 64, 16), 128), args={"rows": rows})
    load, store = (one.access for one in only(kernel, Instruction) if one.op in ("load", "store"))
    assert load.l2_hit > 0.95 and store.l2_hit == 0.0


@pytest.mark.parametrize("blocks", [1024, 4096])
def test_blocks_that_find_no_work_stand_for_no_others(compiler, blocks):
    """The first 391 blocks share a table of 4,003 words; the one in the middle of the grid makes no access."""
    source = """
    __global__ void gather(float *out, const float *table, int n)
    {
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        for (int k = 0; k < n - t; k += 40000)
            out[k + t] = table[(t * 7 + k) % 4003];
    }"""
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=(blocks, 256), args={"n": 100_000})
    loads = [one.access for one in only(kernel, Instruction) if one.op == "load"]
    assert loads and all(one.l2_hit > 0.9 for one in loads)


def test_parts_of_a_grid_with_work_of_their_own_are_walked_each(compiler):
    """Each part of 4,096 blocks reads a row of its own again and again."""
    source = """
    __global__ void parts(float *out, const float *x, const float *y, const float *z)
    {
        int t = threadIdx.x;
        float sum = 0;
        if (blockIdx.y == 0)
            sum = x[t];
        else if (blockIdx.y == 1)
            sum = y[t] * 2;
        else
            sum = z[t] - 1;
        out[(blockIdx.y * 4096 + blockIdx.x) * 256 + t] = sum;
    }"""
    kernel = ws.kernels.from_cuda(source, "sm_80", launch=((4096, 3), 256))
    loads = [one.access for one in only(kernel, Instruction) if one.op == "load"]
    assert len(loads) == 3 and all(one.l2_hit > 0.95 for one in loads)


def test_blocks_that_differ_by_where_each_call_begins_are_walked_on_all_sms():
    """Each part is loaded by 32 blocks on 108 SMs, and the table stays in L2."""
    access = table_that_blocks_wrap_around_in()
    assert access.l1_hit < 0.2 and access.l2_hit > 0.95


@pytest.mark.parametrize("few", [False, True])
def test_blocks_whose_threads_are_apart_by_their_index_are_walked_on_as_many_sms_as_can_be(few, monkeypatch):
    """All blocks share the table; of those of a few SMs, each is the first to load most of its parts."""
    if few:
        monkeypatch.setattr(recorder, "_MOST_ADDRESSES", 16384 * 16)
    assert (table_that_blocks_wrap_around_in("IMAD R10, R0, R1, R10").l2_hit < 0.9) == few


def test_a_launch_of_which_some_blocks_have_much_more_to_do_than_those_around_the_middle():
    """The first 512 of 4,096 blocks execute 600 instructions more before the store, which are too many for all blocks."""
    index = "--:-:0:-:1 S2R R0, SR_CTAID.X", "--:-:0:-:1 S2R R1, SR_TID.X", "01:-:-:Y:5 IMAD R0, R0, 0x100, R1"
    guard = "--:-:-:Y:d ISETP.GE.AND P0, PT, R0, c[0x0][0x168], PT", "--:-:-:Y:5 @P0 BRA `(.L_1)"
    store = ".L_1:", "MOV R3, 0x4", "IMAD.WIDE R2, R0, R3, c[0x0][0x160]", "STG.E [R2.64], R6", "--:-:-:-:5 EXIT"
    long = ["FADD R6, R6, R6"] * 600
    found = kernel(*index, *guard, *long, *store, launch="4096,256", arguments={"n": 131072}, caches="a100")
    (access,) = (one.access for one in only(found, Instruction) if one.op == "store")
    assert access.l1_hit == access.l2_hit == 0


@pytest.mark.parametrize("each_instruction", [False, True])
def test_a_walk_that_comes_to_no_access_finds_no_hits(each_instruction, monkeypatch):
    """Blocks whose addresses are not affine are executed together, each up to fewer instructions: here 20 of four blocks,
    and five of those of an SM. They may be more as long as accesses are missing.
    """
    for name in ("_MOST_WORK",) if each_instruction else ("_MOST_WORK", "_MOST_WORK_FOR_EACH"):
        monkeypatch.setattr(recorder, name, 5 * 128 * 20)
    square = "--:-:0:-:1 S2R R0, SR_CTAID.X", "--:-:0:-:1 S2R R5, SR_TID.X", "01:-:-:Y:5 IMAD R0, R0, R5, RZ"
    address = "IMAD.MOV.U32 R3, RZ, RZ, 0x4", "--:-:-:Y:5 IMAD.WIDE R2, R0, R3, c[0x0][0x160]"
    loads = "--:-:0:-:4 LDG.E R4, [R2.64]", "01:-:0:-:4 LDG.E R4, [R2.64]", "01:-:-:-:5 EXIT"
    found = kernel(*square, *address, *loads, launch="4096,128", caches="a100")
    first, again = (one.access for one in only(found, Instruction) if one.op == "load")
    assert first.l2_hit < 0.2 and again.l2_hit == each_instruction


def test_caches_can_be_those_of_a_chip_or_none():
    assert all(one.access.l1_hit == one.access.l2_hit == 0 for one in load("transpose_naive", caches="none"))
    found = {caches: load("matmul_naive", caches=caches)[0].access.l2_hit for caches in ("a100", "none")}
    assert found["a100"] > found["none"] == 0
    with pytest.raises(ValueError, match="h1000"):
        load("vector_add", caches="h1000")


@pytest.mark.parametrize("size", [4, 5, 7, 8, 9, 100])
def test_blocks_that_stand_for_the_others_are_no_ones_at_an_edge(size):
    """Guards leave out threads of blocks at the edges, whose masks would look as if addresses were not affine."""
    geometry = as_geometry(((size, size, size), 128))
    met = _neighbours(geometry, _center(geometry))
    assert len(set(met)) == len(met) >= 5
    assert size < 7 or max(block[0] for block in met) - min(block[0] for block in met) > size / 3
    assert all(0 < coordinate < size - 1 for block in met for coordinate in block)
