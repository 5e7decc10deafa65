"""What is known of accesses beside their addresses: which warps make them, where atomics meet, how banks conflict."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import warpsim as ws
from tests.support.listings import function
from warpsim.frontends.accesses.contention import MOST_LINES, Contention
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.access import conflict_ways
from warpsim.kernels.costs import access_transactions, costs_on
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Conditional
from warpsim.kernels.traversal import expected_executions, walk

INDEX = ["S2R R0, SR_TID.X", "S2R R9, SR_CTAID.X", "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]"]


def kernel(*rows, launch="64,256", arch=80, **choices):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return to_kernel(function(*INDEX, *rows, "EXIT", arch=arch), as_geometry(launch), Choices(**choices), name="f")


def made(found, op):
    """Expected executions by a warp of the instructions of a class."""
    return sum(times for one, times in expected_executions(found.body, found.block_warps) if one.op == op)


def only(found, op):
    """The last instruction of a class; special registers are read by way of shared memory's queue."""
    return [one for _, one in walk(found.body) if isinstance(one, Instruction) and one.op == op][-1]


@pytest.mark.parametrize(
    ("test", "warps"), [("GE.AND P0, PT, R0, 0x20, PT", (0,)), ("LT.AND P0, PT, R0, 0xa0, PT", (5, 6, 7))]
)
def test_an_access_under_a_predicate_is_made_by_the_warps_for_which_it_holds(test, warps):
    found = kernel(f"ISETP.{test}", "--:-:0:-:1 @!P0 LDG.E R4, [R2.64]", "01:-:-:-:1 FADD R5, R4, R4")
    (condition,) = (one for _, one in walk(found.body) if isinstance(one, Conditional))
    assert condition.warps == warps and made(found, "load") == len(warps) / 8
    assert condition.then[0].dst in found.body[-1].src  # who makes it waits for it, and nobody else


@pytest.mark.parametrize(("shift", "passes"), [(0, 11), (2, 33), (3, 64)])
def test_all_warps_make_an_access_to_shared_memory_that_other_warps_make_in_each_trip(shift, passes):
    """Warps 0 to 3 make it in the first of seven trips, 0 and 1 in the second, and 0 in all others: 11 of 56.

    Where threads read every fourth word, whole warps make four passes, half a warp two, and fewer threads one; where they read
    every eighth one, 8, 4, 2 and 1.
    """
    loop = ["MOV R6, 0x80", ".L_loop:", "ISETP.GE.AND P0, PT, R0, R6, PT", f"SHF.L.U32 R5, R0, {shift:#x}, RZ"]
    trip = ["--:-:0:-:1 @!P0 LDS R4, [R5.X4]", "01:-:-:-:1 FADD R7, R4, R4", "SHF.R.U32.HI R6, RZ, 0x1, R6"]
    found = kernel(*loop, *trip, "ISETP.GT.AND P1, PT, R6, 0x1, PT", "@P1 BRA `(.L_loop)")
    assert not any(isinstance(one, Conditional) for _, one in walk(found.body))
    assert float(only(found, "smem").cost.passes) == pytest.approx(passes / 56, rel=0.003)
    own = kernel("ISETP.GE.AND P0, PT, R0, 0x40, PT", "@!P0 LDS R4, [R0.X4]")
    assert [one.warps for _, one in walk(own.body) if isinstance(one, Conditional)] == [(0, 1)]


def test_warps_of_which_one_makes_an_access_to_shared_memory_in_each_trip_all_make_it():
    """Warps 0 and 1 of four make it in the first of three trips, and warp 0 in the others: 4 of 6."""
    loop = ["MOV R6, 0x40", ".L_loop:", "ISETP.GE.AND P0, PT, R0, R6, PT", "@!P0 LDS R4, [R0.X4]", "SHF.R.U32.HI R6, RZ, 0x1, R6"]
    found = kernel(*loop, "ISETP.GT.AND P1, PT, R6, 0x8, PT", "@P1 BRA `(.L_loop)")
    (condition,) = (one for _, one in walk(found.body) if isinstance(one, Conditional))
    assert condition.warps == (0, 1) and float(condition.then[0].cost.passes) == pytest.approx(4 / 6)


def test_an_access_that_nearly_all_warps_make_stands_under_no_condition():
    found = kernel("ISETP.GE.AND P0, PT, R0, 0x3e0, PT", "@!P0 LDG.E R4, [R2.64]", launch="64,1024")
    assert made(found, "load") == 1.0


def test_an_access_of_some_trips_has_the_share_of_these():
    loop = ["MOV R6, RZ", ".L_loop:", "LOP3.LUT R7, R6, 0x3, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R7, 0x2, PT"]
    trip = ["@!P0 LDG.E R4, [R2.64]", "IADD3 R6, R6, 0x1, RZ", "ISETP.GE.AND P1, PT, R6, 0x28, PT", "@!P1 BRA `(.L_loop)"]
    found = kernel(*loop, *trip)
    assert made(found, "load") == pytest.approx(10)


DOUBTFUL = ["LDG.E R6, [R2.64]", "ISETP.GE.AND P0, PT, R6, 0x1, PT", ".line 7", "@P0 STG.E [R2.64], R6"]


def test_an_access_that_depends_on_data_is_made_by_all_warps_and_said():
    with pytest.warns(AssumptionWarning, match=r"line 7 of f.cu: whether a thread makes the access STG.E depends on data"):
        found = to_kernel(function(*INDEX, *DOUBTFUL, "EXIT"), as_geometry("64,256"), Choices(), name="f")
    assert made(found, "store") == 1.0


@pytest.mark.parametrize("key", [7, "7", "0x60"])
def test_its_share_can_be_stated(key):
    assert made(kernel(*DOUBTFUL, probabilities={key: 0.3}), "store") == pytest.approx(0.3)


def test_the_share_of_an_access_under_a_known_predicate_can_be_stated():
    """By its address, and by its line where no predicate of that is unknown."""
    known = ["ISETP.GE.AND P1, PT, R9, 0x10, PT", ".line 7", "@!P1 STG.E [R2.64+0x40], R6"]
    assert made(kernel(*known, probabilities={"0x50": 0.3}), "store") == pytest.approx(0.3)
    with pytest.warns(AssumptionWarning, match="line 7 of f.cu: the predicate of the access follows from indices and arguments"):
        found = to_kernel(function(*INDEX, *known, "EXIT"), as_geometry("64,256"), Choices(probabilities={7: 0.3}), name="f")
    assert made(found, "store") == pytest.approx(0.3)
    both = [*DOUBTFUL[:2], known[0], *DOUBTFUL[2:], known[2]]
    assert made(kernel(*both, probabilities={7: 0.3}), "store") == pytest.approx(0.3 + 1 / 4)
    assert made(kernel(*both, probabilities={7: 0.3, "0x80": 0.5}), "store") == pytest.approx(0.3 + 0.5)


def test_a_key_that_names_neither_branch_nor_access_lists_both():
    with pytest.raises(FrontEndError, match=r"branches: none; accesses under a predicate: 7 or '0x60'"):
        kernel(*DOUBTFUL, probabilities={8: 0.3})


AFFINE = "IMAD.WIDE R2, R8, 0x4, R2"


@pytest.mark.parametrize(
    ("rows", "launch", "lines"),
    [
        (["RED.E.ADD.STRONG.GPU [R2.64], R5"], "4096,256", 1),
        (["LOP3.LUT R8, R0, 0x3f, RZ, 0xc0, !PT", AFFINE, "RED.E.ADD.STRONG.GPU [R2.64], R5"], "4096,256", 2),
        (["IMAD R8, R9, 0x100, R0", AFFINE, "RED.E.ADD.STRONG.GPU [R2.64], R5"], "4096,256", None),
        (["IMAD R8, R9, 0x8, RZ", AFFINE, "RED.E.ADD.STRONG.GPU [R2.64], R5"], "4096,256", None),
        (["IMAD R8, R9, 0x100, R0", AFFINE, "RED.E.ADD.STRONG.GPU [R2.64], R5"], "1,256", 8),
        (["IMAD R8, R0, 0x20, RZ", AFFINE, "RED.E.ADD.STRONG.GPU [R2.64], R5"], "4096,256", None),
    ],
    ids=["one", "sixty-four-words", "all", "one-of-each-block", "a-grid-of-one-block", "too-many"],
)
def test_atomics_meet_where_all_blocks_update_the_same_lines(rows, launch, lines):
    assert only(kernel(*rows, launch=launch), "reduction").access.contended_addresses == lines


@pytest.mark.parametrize(
    ("trips", "step", "lines"), [(0x400, "0x0", 1), (0x400, "0x80", None), (0x40, "0x80", 64), (0x48, "0x10", 9)]
)
def test_atomics_of_a_loop_meet_unless_they_move_far(trips, step, lines):
    loop = [".L_loop:", "RED.E.ADD.STRONG.GPU [R2.64], R5", f"IADD3 R2, R2, {step}, RZ", "IADD3 R6, R6, 0x1, RZ"]
    found = kernel("MOV R6, RZ", *loop, f"ISETP.GE.AND P1, PT, R6, {trips:#x}, PT", "@!P1 BRA `(.L_loop)")
    assert only(found, "reduction").access.contended_addresses == lines
    assert made(found, "reduction") == trips


@pytest.mark.parametrize(
    ("opcode", "intervals"),
    [("RED.E.ADD.STRONG.GPU", None), ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU", 3.4), ("RED.E.ADD.F16x2.RN.STRONG.GPU", 3.4)],
)
def test_sums_of_floats_keep_their_address_for_longer(opcode, intervals):
    one = only(kernel(f"{opcode} [R2.64], R5"), "reduction")
    assert one.cost.update_intervals == intervals
    gpu = ws.load_gpu("a100")
    assert access_transactions(gpu, one).updates == 32 * (intervals or 1)


def test_contended_atomics_take_their_time():
    """Each of 32,768 warps adds to one address, which L2 does one after another; nothing but the address differs."""
    launch, rows = "4096,256", ["LOP3.LUT R7, R0, 0x1f, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R7, RZ, PT"]
    one = kernel(*rows, "@!P0 RED.E.ADD.STRONG.GPU [R2.64], R5", launch=launch)
    own = kernel("IMAD R8, R9, 0x100, R0", AFFINE, *rows, "@!P0 RED.E.ADD.STRONG.GPU [R2.64], R5", launch=launch)
    gpu = ws.load_gpu("a100")
    cycles = [float(ws.simulate(gpu, each, launch=ws.Launch(blocks=4096, block_warps=8)).cycles[0]) for each in (one, own)]
    assert cycles[0] > 32768 * gpu.memory.atomic_interval_cycles > 2 * cycles[1]


def test_lines_that_are_not_known_may_be_any():
    contention = Contention()
    contention.record(*_threads([0] * 31 + [-1]))
    assert contention.lines(1, whole_grid=True) is None
    contention = Contention()
    for first in range(0, MOST_LINES + 32, 32):
        contention.record(*_threads(range(first, first + 32)))
    assert contention.warps is None and contention.lines(1, whole_grid=True) is None


def _threads(lines):
    return np.array(list(lines), np.int64), np.ones(32, bool)


def ways(found):
    return conflict_ways(only(found, "smem"), ws.load_gpu("a100"))


def test_conflicts_that_differ_by_warp_count_with_their_mean():
    """Warp w reads every (1 + w)th word: 1, 2, 1, 4, 1, 2, 1 and 8 ways."""
    rows = ["SHF.R.U32.HI R7, RZ, 0x5, R0", "IADD3 R7, R7, 0x1, RZ", "LOP3.LUT R8, R0, 0x1f, RZ, 0xc0, !PT"]
    found = kernel(*rows, "IMAD R8, R8, R7, RZ", "SHF.L.U32 R8, R8, 0x2, RZ", "LDS R4, [R8]")
    mean = Fraction(1 + 2 + 1 + 4 + 1 + 2 + 1 + 8, 8)
    assert ways(found) == round(mean) and only(found, "smem").cost.passes == mean


@pytest.mark.parametrize(
    ("test", "index", "load", "expected"),
    [
        ("LT.AND P0, PT, R5, 0x8, PT", "IMAD R8, R5, 0x10, RZ", "LDS.128 R12, [R8]", 1),
        ("LT.AND P0, PT, R5, 0x8, PT", "IMAD R8, R5, 0x20, RZ", "LDS.128 R12, [R8]", 2),
        ("LT.AND P0, PT, R5, 0x9, PT", "IMAD R8, R5, 0x10, RZ", "LDS.128 R12, [R8]", 2),
        ("EQ.AND P0, PT, R5, RZ, PT", "IMAD R8, R5, 0x10, RZ", "LDS.128 R12, [R8]", 1),
        ("LT.AND P0, PT, R5, 0x8, PT", "IMAD R8, R5, 0x8, RZ", "LDS.64 R12, [R8]", 1),
        ("LT.AND P0, PT, R5, 0x10, PT", "IMAD R8, R5, 0x8, RZ", "LDS.64 R12, [R8]", 1),
        ("NE.AND P0, PT, R6, RZ, PT", "IMAD R8, R5, 0x100, RZ", "LDS.64 R12, [R8]", 16),  # odd threads, all in one group
        ("NE.AND P0, PT, R6, RZ, PT", "LOP3.LUT R8, R7, 0x7ff, RZ, 0xc0, !PT", "LDS.64 R12, [R8]", 4),
    ],
)
def test_threads_that_are_off_make_no_passes(test, index, load, expected):
    """Those of 16 bytes come by eights, those of 8 bytes by sixteens, or twice as many where neighbours do not differ."""
    lane, odd = "LOP3.LUT R5, R0, 0x1f, RZ, 0xc0, !PT", "LOP3.LUT R6, R0, 0x1, RZ, 0xc0, !PT"
    assert ways(kernel(lane, odd, "IMAD R7, R5, 0x100, 0x70", f"ISETP.{test}", index, f"@P0 {load}")) == expected


def test_warps_whose_threads_are_off_differ_in_their_passes():
    """Of 256 threads, 8 and all others take turns by warp: the mean is that of 1 and 4 ways."""
    rows = ["LOP3.LUT R5, R0, 0x1f, RZ, 0xc0, !PT", "LOP3.LUT R6, R0, 0x20, RZ, 0xc0, !PT", "IMAD R8, R0, 0x10, RZ"]
    tests = ["ISETP.LT.AND P0, PT, R5, 0x8, PT", "ISETP.NE.OR P0, PT, R6, RZ, P0"]
    assert ways(kernel(*rows, *tests, "@P0 LDS.128 R12, [R8]")) == round((1 + 4) / 2)


@pytest.mark.parametrize(("opcode", "expected"), [("ATOMS.ADD", 32), ("ATOMS.POPC.INC.32", 1), ("LDS", 1)])
def test_threads_that_update_one_word_of_shared_memory_follow_one_another(opcode, expected):
    """But where they only count, or read."""
    assert ways(kernel(f"{opcode} R4, [0x40]" if opcode == "LDS" else f"{opcode} RZ, [RZ+0x40], R5")) == expected


@pytest.mark.parametrize(
    ("index", "expected"), [("0x1f", 32), ("0x3", 4), ("0x20", 1)], ids=["own", "one of four", "alike in a warp"]
)
def test_constants_of_different_addresses_follow_one_another(index, expected):
    """Each takes the unit of constants 2 cycles; chips of Pascal read them as shared memory, in as many ways."""
    rows = [f"LOP3.LUT R7, R0, {index}, RZ, 0xc0, !PT", "SHF.L.U32 R8, R7, 0x2, RZ", "--:-:0:-:1 LDC R4, c[0x3][R8+0x40]"]
    costs = costs_on(ws.load_gpu("a100"), only(kernel(*rows, "01:-:-:-:1 FADD R5, R4, R4"), "constant"))
    assert (costs.unit_cycles, costs.latency_cycles, costs.data_cycles) == (2 * expected, 29 + 2 * (expected - 1), 0)
    rows[2] = "LDC R4, c[0x3][R8+0x40]"
    assert ways(kernel(*rows, "FADD R5, R4, R4", arch=61, caches="none")) == expected


def test_constants_whose_addresses_depend_on_data_are_asked_for():
    rows = ["LDG.E R6, [R2.64]", ".line 7", "LDC R4, c[0x3][R6]"]
    with pytest.warns(AssumptionWarning, match="line 7 of .*: the addresses of LDC depend on data: taken as one for all threads"):
        found = to_kernel(function(*INDEX, *rows, "EXIT", arch=80), as_geometry("64,256"), Choices(), name="f")
    a100 = ws.load_gpu("a100")
    assert costs_on(a100, only(found, "constant")).unit_cycles == 2
    assert costs_on(a100, only(kernel(*rows, patterns={7: 5}, caches="none"), "constant")).unit_cycles == 2 * 5
    with pytest.raises(FrontEndError, match=r"patterns\['7'\] = 'random': must be how many constants a warp reads, 1 to 32"):
        kernel(*rows, patterns={7: "random"})


def test_threads_may_access_different_arrays_far_apart():
    """A variable of the device, whose addresses are in constant bank 4, and a parameter."""
    rows = ["LOP3.LUT R7, R0, 0x1, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R7, RZ, PT"]
    sums = ["IMAD.WIDE R2, R0, 0x4, c[0x0][0x160]", "@P0 IMAD.WIDE R2, R0, 0x4, c[0x4][0x8]"]
    addresses = only(kernel(*rows, *sums, "LDG.E R4, [R2.64]"), "load").access.addresses
    assert addresses[::2] == tuple(range(0, 128, 8)) and len({address // 128 for address in addresses}) == 2


@pytest.mark.parametrize(
    ("scale", "begin", "load", "passes"),
    [
        ("0x4", 4, "LDG.E", "3/2"),  # two lines without a common bank pass together in half of the cases
        ("0x8", 0, "LDG.E", None),  # two lines with the same banks
        ("0x80", 0, "LDG.E", None),
        ("0x30", 0, "LDG.E", "33/4"),  # twelve lines, of which none shares a bank with the next one
        ("0x8", 8, "LDG.E.64", None),  # half a warp each has two lines, and all have three
        ("0x10", 0, "LDG.E.128", None),
        ("0x30", 0, "LDG.E.128", 9),
        ("0x30", 0, "STG.E", "33/4"),
    ],
)
def test_lines_without_a_common_bank_pass_l1_together(scale, begin, load, passes):
    row = f"{load} [R2.64], R4" if load == "STG.E" else f"{load} R4, [R2.64]"
    sums = [f"IMAD.WIDE R2, R0, {scale}, R2", f"IADD3 R2, P0, R2, {begin:#x}, RZ", "IADD3.X R3, RZ, R3, RZ, P0, !PT"]
    one = only(kernel(*sums, row, caches="none"), "store" if load == "STG.E" else "load")
    assert one.cost.passes == (None if passes is None else Fraction(passes))


def test_an_access_of_256_bits_asks_for_a_sector_of_each_thread():
    rows = ["IMAD.WIDE R2, R0, 0x20, R2", "LDG.E.ENL2.256 R4, R12, [R2.64]"]
    one = only(kernel(*rows, arch=100, caches="none"), "load")
    assert one.cost.requested_bytes == 1024 and one.access.stride * one.access.bytes_per_thread == 32


@pytest.mark.parametrize(
    "launch",
    ["1024,256", "4096,1024", "32x32,16x16", "100x50x20,8x8x4", "3,64", "1000000,32", "977,256", "1x1x4000,32", "2x3x5,512"],
)
def test_sampled_blocks_stand_for_all(launch):
    geometry = as_geometry(launch)
    sample = geometry.sample()
    assert sum(weight for _, weight in sample) == geometry.blocks and all(weight >= 1 for _, weight in sample)
    few = sum(x != y or geometry.grid[1] == 1 for (x, y, _), _ in sample)  # without those of the diagonal
    assert len({block for block, _ in sample}) == len(sample) and few <= max(1, 2048 // (32 * geometry.block_warps))
    assert all(0 <= at < size for block, _ in sample for at, size in zip(block, geometry.grid, strict=True))
    last = tuple(size - 1 for size in geometry.grid)
    assert math.prod(geometry.grid) == 1 or last in {block for block, _ in sample}


@pytest.mark.parametrize("launch", ["32x12x8,256", "16x12x4,128", "1024x48,128", "32x16x4,256", "4096,256", "7x5,32", "33,1024"])
@pytest.mark.parametrize("most", [2048, 16384])
def test_sampled_blocks_have_the_mean_index_of_all(launch, most):
    """What grows with the index of the block, as the tiles of causal attention do, has the right mean."""
    geometry = as_geometry(launch)
    sample = geometry.sample(most)
    for axis, size in enumerate(geometry.grid):
        mean = sum(weight * block[axis] for block, weight in sample) / geometry.blocks
        assert mean == pytest.approx((size - 1) / 2, abs=0.5)


@pytest.mark.parametrize("launch", ["128x128,256", "32x32,256", "64x64,512", "300x200,128", "2x1000,256", "64x64x4,512"])
@pytest.mark.parametrize("most", [2048, 16384])
def test_sampled_blocks_of_the_diagonal_are_as_many_as_all(launch, most):
    geometry = as_geometry(launch)
    sample = geometry.sample(most)
    width, height, depth = geometry.grid
    assert sum(weight for (x, y, _), weight in sample if x == y) == min(width, height) * depth
    assert sum(weight for _, weight in sample) == geometry.blocks


def test_no_block_of_three_dimensions_stands_for_most_of_the_grid():
    """Of 16 blocks in each dimension, the 14 between the edges have places enough for what depends on bits of the index."""
    geometry = as_geometry("16x16x16,512")
    sample = geometry.sample(16384)
    assert sum(weight for _, weight in sample) == geometry.blocks
    assert sum(weight for (x, y, _), weight in sample if x == y) == 16 * 16
    largest = [block for block, weight in sample if weight > geometry.blocks / 10]
    assert len(largest) == 5 and all(len({block[axis] for block in largest}) >= 4 for axis in range(3))
    assert max(weight for _, weight in sample) < geometry.blocks / 6


def test_trips_of_loops_over_a_grid_are_those_of_all_threads_on_average():
    """A million elements by 262,144 threads: 3.81 trips."""
    rows = ["IMAD R8, R9, 0x100, R0", ".L_loop:", "LDG.E R4, [R2.64]", "IADD3 R8, R8, 0x40000, RZ"]
    found = kernel(*rows, "ISETP.GE.AND P0, PT, R8, 0xf4240, PT", "@!P0 BRA `(.L_loop)", launch="1024,256")
    assert made(found, "load") == pytest.approx(1e6 / 2**18, rel=0.01)


@pytest.mark.parametrize("period", [2, 4])
def test_a_branch_that_depends_periodically_on_the_block_is_taken_about_as_often(period):
    rows = [f"LOP3.LUT R7, R9, {period - 1:#x}, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R7, RZ, PT", "@P0 BRA `(.L_end)"]
    found = kernel(*rows, "LDG.E R4, [R2.64]", ".L_end:", "NOP", launch="1024,64")
    assert made(found, "load") == pytest.approx(1 / period, abs=0.1)


def test_trips_that_differ_much_by_warp_are_said_to_be_the_mean():
    """Warp w makes 1 + w * w trips; evenly spread trips are drawn, and nothing is said."""
    rows = ["SHF.R.U32.HI R7, RZ, 0x5, R0", "MOV R6, RZ", "IMAD R8, R7, R7, RZ"]
    loop = [".L_loop:", ".line 9", "LDG.E R4, [R2.64]", "IADD3 R6, R6, 0x1, RZ"]
    loop += ["ISETP.GT.AND P0, PT, R6, R8, PT", "@!P0 BRA `(.L_loop)"]
    with pytest.warns(AssumptionWarning, match=r"the loop at line 9 of f.cu: 1 to 50 trips, by warp: 18.5 stand for all"):
        found = to_kernel(function(*INDEX, *rows, *loop, "EXIT"), as_geometry("64,256"), Choices(), name="f")
    assert made(found, "load") == pytest.approx(18.5, rel=0.03)
    even = kernel(*rows[:2], "MOV R8, R7", *loop)
    assert made(even, "load") == pytest.approx(4.5)


def test_a_window_of_a_predicate_in_the_middle_of_a_long_loop_is_not_passed_over():
    """|j - 500| < 3 for five of a thousand trips; a register holds the distance, which falls and rises."""
    rows = ["MOV R6, RZ", ".L_loop:", "IADD3 R7, R6, -0x1f4, RZ", "IABS R8, R7", "ISETP.GE.AND P0, PT, R8, 0x3, PT"]
    rows += ["@!P0 STG.E [R2.64], R5", "LDG.E R8, [R2.64]", "IADD3 R6, R6, 0x1, RZ", "ISETP.GE.AND P1, PT, R6, 0x3e8, PT"]
    found = kernel(*rows, "@!P1 BRA `(.L_loop)")
    assert made(found, "store") == pytest.approx(5) and made(found, "load") == 1000


@pytest.mark.parametrize(
    ("launch", "rows", "share"),
    [
        ("2048,512", ["LOP3.LUT R7, R9, 0x1, RZ, 0xc0, !PT", "ISETP.NE.AND P0, PT, R7, RZ, PT"], 1 / 2),
        ("64,1024", ["ISETP.GE.AND P0, PT, R9, 0x10, PT"], 16 / 64),
        ("64,1024", ["ISETP.NE.AND P0, PT, R9, RZ, PT"], 1 / 64),
        ("64x64,256", ["S2R R10, SR_CTAID.Y", "ISETP.NE.AND P0, PT, R10, RZ, PT"], 1 / 64),
        ("64x64,256", ["S2R R10, SR_CTAID.Y", "ISETP.GE.AND P0, PT, R10, 0x10, PT"], 16 / 64),
    ],
)
def test_blocks_of_a_kind_that_the_first_ones_do_not_show_are_found(launch, rows, share):
    found = kernel(*rows, "@!P0 STG.E [R2.64], R5", launch=launch, caches="none")
    assert made(found, "store") == pytest.approx(share, rel=0.35)


def test_a_loop_with_a_barrier_makes_whole_trips_and_that_is_said():
    """Half of the blocks make two trips, and half one."""
    rows = ["LOP3.LUT R7, R9, 0x1, RZ, 0xc0, !PT", "MOV R6, RZ", ".L_loop:", ".line 8", "LDG.E R4, [R2.64]"]
    rows += ["BAR.SYNC.DEFER_BLOCKING 0x0", "IADD3 R6, R6, 0x1, RZ", "ISETP.GT.AND P0, PT, R6, R7, PT", "@!P0 BRA `(.L_loop)"]
    with pytest.warns(AssumptionWarning, match=r"the loop at line 8 of f.cu: 1 to 2 trips, by warp: 2 stand for all"):
        found = to_kernel(function(*INDEX, *rows, "EXIT"), as_geometry("64,256"), Choices(), name="f")
    assert made(found, "load") == 2


def test_a_guard_that_is_known_where_warps_come_is_not_called_doubtful():
    rows = ["ISETP.GE.AND P1, PT, R0, 0x20, PT", "@P1 BRA `(.L_end)", "ISETP.EQ.AND P0, PT, R0, RZ, PT", "@P0 STG.E [R2.64], R5"]
    found = kernel(*rows, ".L_end:", "NOP")
    assert made(found, "store") == pytest.approx(1 / 8)


@pytest.mark.parametrize(("limit", "threads"), [("0x8", 8 / 8), ("0x28", 40 / 8), ("0x100", None)])
def test_threads_that_are_off_ask_for_nothing(limit, threads):
    """Of 256 threads, those below a limit load 4 bytes each; warps without any make no access."""
    found = kernel(f"ISETP.LT.AND P0, PT, R0, {limit}, PT", "IMAD.WIDE R2, R0, 0x4, R2", "@P0 LDG.E R4, [R2.64]")
    load = only(found, "load")
    if threads is None:
        assert load.cost is None or load.cost.requested_bytes is None
    else:
        made_by = math.ceil(threads * 8 / 32)
        assert load.cost.requested_bytes == round(4 * threads * 8 / made_by)
    moved = access_transactions(ws.load_gpu("a100"), load)
    assert made(found, "load") * moved.requested_bytes == pytest.approx(4 * min(256, int(limit, 16)) / 8, rel=0.01)


@pytest.mark.parametrize(
    ("index", "lines", "moved"),
    [("MOV R4, 0x8", 1, 128), ("IMAD.SHL.U32 R4, R0, 0x4, RZ", 32, 64), ("IMAD R4, R0, 0x8, RZ", 32, 64)],
)
def test_local_memory_of_the_threads_of_a_warp_lies_side_by_side(index, lines, moved):
    """One index for all threads is one line; an index of its own for each thread is a line for each."""
    found = kernel(index, "LDL R5, [R4]", caches="none")
    load = only(found, "load")
    assert load.access.l1_hit == 1.0
    found = access_transactions(ws.load_gpu("a100"), load)
    assert (found.requests, found.bytes_per_request) == (lines, moved)


AT_RANDOM = ("LDG.E R4, [R2.64]", "IMAD.SHL.U32 R4, R4, 0x10, RZ")


@pytest.mark.parametrize(("load", "ways"), [("LDS R5, [R4]", 4), ("LDS.U8 R5, [R4]", 4), ("LDS.64 R6, [R4]", 6)])
def test_random_places_of_shared_memory_conflict_as_the_mean_of_many(load, ways):
    """The fullest of 32 banks gets 3.53 of 32 words, and the fullest of 16 pairs of banks 3.08 of 16 double words, twice."""
    rows = ["IMAD.WIDE R2, R0, 0x4, R2", *AT_RANDOM, load, "EXIT"]
    found = to_kernel(function(*INDEX, *rows), as_geometry("64,256"), Choices(patterns={"0x70": "random"}), name="f")
    assert only(found, "smem").ways == ways


@pytest.mark.parametrize(
    ("row", "hits", "contended", "intervals"),
    [
        ("LDG.E R6, [R4.64]", (1.0, 1.0), None, None),
        ("STG.E [R4.64], R6", (0.0, 1.0), None, None),
        ("RED.E.ADD.STRONG.GPU [R4.64], R6", (0.0, 1.0), 1, None),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R4.64], R6", (0.0, 1.0), 1, 3.4),
    ],
)
def test_one_address_of_all_threads_of_the_grid_can_be_stated(row, hits, contended, intervals):
    rows = ["IMAD.WIDE R2, R0, 0x4, R2", "LDG.E.64 R4, [R2.64]", "IMAD.SHL.U32 R4, R4, 0x10, RZ", row, "EXIT"]
    address = f"{16 * (len(INDEX) + 3):#x}"
    found = to_kernel(function(*INDEX, *rows), as_geometry("64,256"), Choices(patterns={address: "one"}, caches="none"), name="f")
    one = [each for each, _ in expected_executions(found.body, 8) if each.access is not None][-1]
    access = one.access
    assert (access.pattern, access.l1_hit, access.l2_hit, access.contended_addresses) == ("broadcast", *hits, contended)
    assert (one.cost.update_intervals if one.cost else None) == intervals


def test_a_pattern_that_names_no_access_is_told_which_ones_there_are():
    rows = ["IMAD.WIDE R2, R0, 0x4, R2", *AT_RANDOM, "LDS R5, [R4]", "EXIT"]
    with pytest.warns(AssumptionWarning, match="patterns.'9'.: no access with unknown addresses is there; such are at 0x70$"):
        to_kernel(function(*INDEX, *rows), as_geometry("64,256"), Choices(patterns={9: "random", "0x70": 2}), name="f")
    with pytest.warns(AssumptionWarning, match="no access with unknown addresses is there, and none in the kernel$"):
        to_kernel(function(*INDEX, AFFINE, "EXIT"), as_geometry("64,256"), Choices(patterns={9: "random"}), name="f")


def test_local_memory_at_an_unknown_index_is_warned_of():
    rows = ("IMAD.WIDE R2, R0, 0x4, R2", "LDG.E R4, [R2.64]", "LDL R5, [R4]")
    with pytest.warns(AssumptionWarning, match="the addresses of LDL depend on data: taken as coalesced"):
        found = to_kernel(function(*INDEX, *rows, "EXIT"), as_geometry("64,256"), Choices(), name="f")
    assert only(found, "load").access.l1_hit == 1.0


def test_an_index_from_memory_that_the_threads_of_a_warp_have_in_common_is_one_line():
    load = only(kernel("LDG.E R4, [R2.64]", "LDL R5, [R4]", caches="none"), "load")
    assert load.access.l1_hit == 1.0 and access_transactions(ws.load_gpu("a100"), load).requests == 1


@pytest.mark.parametrize("row", ["TEX.LL RZ, R7, R6, R4, UR4, 0x0, 2D, 0x1", "SULD.D.BA.2D.32 R6, [R4], UR4"])
def test_coordinates_of_textures_are_no_addresses(row):
    rows = [*INDEX, "MOV R4, RZ", row, "EXIT"]
    with pytest.warns(AssumptionWarning, match="depend on data: taken as coalesced"):
        to_kernel(function(*rows), as_geometry("64,256"), Choices(), name="f")
    stated = to_kernel(function(*rows), as_geometry("64,256"), Choices(patterns={"0x50": "random"}), name="f")
    assert only(stated, "texture").access.pattern == "random"


def test_fences_move_nothing():
    found = kernel("MEMBAR.SC.GPU", "ERRBAR", "CCTL.IVALL")
    assert {one.op for _, one in walk(found.body)} <= {"smem", "branch", "int", "alu", "imad", "membar"}


SPILL = '(*"SpillRefill"*)'
SPILLED = (
    "MOV R1, c[0x0][0x28]", "IADD3 R1, R1, -0x10, RZ", AFFINE, f"STL.64 [R1+0x8], R2 {SPILL}", "MOV R2, RZ", "MOV R3, RZ",
)  # fmt: skip


def test_an_address_that_was_spilled_to_the_stack_is_known():
    stored = only(kernel("IMAD R8, R9, 0x100, R0", *SPILLED, f"LDL.64 R2, [R1+0x8] {SPILL}", "STG.E [R2.64], R0"), "store")
    assert access_transactions(ws.load_gpu("a100"), stored).requests == 1
    assert stored.access is None or stored.access.pattern == "coalesced"


@pytest.mark.parametrize(
    "row", ["LDL.64 R2, [R1+0x8]", f"LDL.64 R2, [R1+0x10] {SPILL}", f"IADD3 R1, R1, -0x8, RZ\nLDL.64 R2, [R1+0x8] {SPILL}"]
)
def test_other_values_on_the_stack_are_not(row):
    with pytest.raises(AssumptionWarning, match="the addresses of STG"):
        kernel("IMAD R8, R9, 0x100, R0", *SPILLED, *row.split("\n"), "STG.E [R2.64], R0")
