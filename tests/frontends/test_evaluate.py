"""What threads know when a kernel is evaluated: its parameters, who votes, and how much shared memory they reach."""

import warnings
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.executions import expected_ops
from tests.support.listings import counts, function, kernel
from warpsim.frontends.api import from_cuda
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.execution import integers, leaps
from warpsim.frontends.execution.evaluate import evaluate
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.execution.steps import Steps
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.statements import Loop
from warpsim.kernels.traversal import walk
from warpsim.simulation.endless import without_exits

VOTES = [
    "S2R R3, SR_TID.X", "ISETP.GE.AND P0, PT, R3, c[0x0][0x168], PT", "@P0 EXIT", "S2R R0, SR_LANEID", "VOTEU.ANY UR4, UPT, PT",
    "UFLO.U32 UR5, UR4", "ISETP.EQ.U32.AND P0, PT, R0, UR5, PT", "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]",
    "@P0 RED.E.ADD.STRONG.GPU [R2.64], R5", "EXIT",
]  # fmt: skip


@pytest.mark.parametrize(("n", "warps"), [(5, 1), (32, 1), (70, 3), (128, 4)])
def test_the_leader_of_the_threads_that_are_left_acts_for_them(n, warps):
    """One thread of each warp adds for all that have not left: the highest of those that vote."""
    found = to_kernel(function(*VOTES), as_geometry("1,128"), Choices(arguments={"n": n}), name="f")
    executed = expected_ops(without_exits(found.body), found.block_warps)
    assert sum(times for op, times in executed if op == "reduction") == warps / 4


def test_only_what_later_addresses_branches_or_guards_depend_on_matters():
    """A register holds an index, then data: only the first load matters, and of the sums only that of a loop's counter."""
    rows = (
        "MOV R2, c[0x0][0x160]", "MOV R3, c[0x0][0x164]", ".L_loop:", "LDG.E R4, [R2.64]", "IMAD.WIDE R6, R4, 0x4, R2",
        "LDG.E R4, [R6.64]", "IADD3 R6, R4, R4, RZ", "STG.E [R2.64], R6", "IADD3 R9, R9, 0x1, RZ",
        "ISETP.GE.AND P0, PT, R9, 0x10, PT", "@!P0 BRA `(.L_loop)", "EXIT",
    )  # fmt: skip
    flow = make_flow(function(*rows))
    steps = [step for block in range(len(flow.blocks)) for step in Steps(flow, {}).of_block(block)]
    assert [step.matters for step in steps if step.one.base == "LDG"] == [True, False]
    assert [step.effect is not None for step in steps if step.one.base == "IADD3"] == [False, True]


SMALL = "0x160 0:8:x 8:2:n:integer 10:2:m:integer 12:1:a:integer 13:1:b:integer"


@pytest.mark.parametrize(
    ("load", "given", "trips"),
    [
        ("ULDC.U16 UR4, c[0x0][0x168]", {"n": 5, "m": 9}, 5),
        ("ULDC.U16 UR4, c[0x0][0x16a]", {"n": 5, "m": 9}, 9),
        ("ULDC.U16 UR4, c[0x0][0x16a]", {"m": 9}, 9),
        ("ULDC.U8 UR4, c[0x0][0x16c]", {"a": 3, "b": 7}, 3),
        ("ULDC.U8 UR4, c[0x0][0x16d]", {"a": 3, "b": 7}, 7),
        ("ULDC.S8 UR4, c[0x0][0x16d]", {"b": 7}, 7),
    ],
)
def test_parameters_that_share_a_word_are_told_apart(load, given, trips):
    rows = (load, "MOV R0, RZ", ".L_loop:", "IADD3 R0, R0, 0x1, RZ", "ISETP.GE.AND P0, PT, R0, UR4, PT", "@!P0 BRA `(.L_loop)")
    found = to_kernel(function(*rows, "EXIT", parameters=SMALL), as_geometry("64,128"), Choices(arguments=given), name="f")
    assert [one.trips for _, one in walk(found.body) if isinstance(one, Loop)] == [trips]


def test_a_parameter_that_is_not_given_stays_unknown_beside_one_that_is():
    rows = ("ULDC.U16 UR4, c[0x0][0x16a]", "MOV R0, RZ", ".L_loop:", "IADD3 R0, R0, 0x1, RZ", "ISETP.GE.AND P0, PT, R0, UR4, PT")
    code = function(*rows, "@!P0 BRA `(.L_loop)", "EXIT", parameters=SMALL)
    with pytest.raises(FrontEndError, match="depends on data, or on an argument that is not given"):
        to_kernel(code, as_geometry("64,128"), Choices(arguments={"n": 5}), name="f")


def test_the_trips_of_a_bound_in_local_memory_are_asked_for_with_a_hint():
    rows = ("LDL R4, [R1]", "MOV R0, RZ", ".L_loop:", "IADD3 R0, R0, 0x1, RZ", "ISETP.GE.AND P0, PT, R0, R4, PT")
    code = function(*rows, "@!P0 BRA `(.L_loop)", "EXIT", parameters=SMALL)
    with pytest.raises(FrontEndError, match=r"numbers in local memory count as data.* `const __grid_constant__`"):
        to_kernel(code, as_geometry("64,128"), Choices(), name="f")


@pytest.mark.parametrize(
    ("parameters", "given", "says"),
    [
        ("0x160 0:8:x 8:2:n:integer", {"n": 70000}, "must fit in 2 bytes"),
        ("0x160 0:8:x 8:1:n", {"n": 0.5}, "must be an integer, since it has one byte"),
        ("0x160 0:16:d", {"d": 100}, "it is a structure of 16 bytes, which cannot be given"),
    ],
)
def test_a_value_that_does_not_fit_its_parameter_is_refused(parameters, given, says):
    with pytest.raises(FrontEndError, match=says):
        to_kernel(function("EXIT", parameters=parameters), as_geometry("64,128"), Choices(arguments=given), name="f")


def test_an_integer_of_eight_bytes_is_no_pointer():
    """Without a value its loop is asked for."""
    rows = ("MOV R2, c[0x0][0x168]", "MOV R0, RZ", ".L_loop:", "IADD3 R0, R0, 0x1, RZ", "ISETP.GE.AND P0, PT, R0, R2, PT")
    code = function(*rows, "@!P0 BRA `(.L_loop)", "EXIT", parameters="0x160 0:8:x 8:8:n:integer")
    with pytest.raises(FrontEndError, match="depends on data, or on an argument that is not given"):
        to_kernel(code, as_geometry("64,128"), Choices(), name="f")


FILL = [
    "S2R R0, SR_TID.X", ".L_loop:", "SHF.L.U32 R2, R0, 0x2, RZ", "STS [R2], R3", "IADD3 R0, R0, 0x40, RZ",
    "ISETP.GE.AND P0, PT, R0, 0x800, PT", "@!P0 BRA `(.L_loop)", "EXIT",
]  # fmt: skip


@pytest.mark.parametrize(("matrices", "reached"), [("", 128), (".2", 256), (".4", 512)])
def test_threads_that_name_no_row_of_a_matrix_reach_no_shared_memory(matrices, reached):
    """Thread t has the address 16 t, and the rows of each matrix are named by eight threads."""
    rows = ("S2R R0, SR_TID.X", "SHF.L.U32 R2, R0, 0x4, RZ", f"LDSM.16.M88{matrices} R4, [R2]", "EXIT")
    for shared, warned in ((reached, False), (reached - 4, True)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            to_kernel(function(*rows, shared=shared), as_geometry("1,32"), Choices(), name="f")
        assert any(f"reach byte {reached} of" in str(one.message) for one in found) == warned


@pytest.mark.parametrize(("shared", "warned"), [(8192, False), (8188, True)])
def test_trips_that_are_taken_back_reach_no_shared_memory(shared, warned):
    """2048 words are filled, 64 at a time; a leap over too many trips would go beyond them."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        to_kernel(function(*FILL, shared=shared), as_geometry("1,64"), Choices(), name="f")
    beyond = [str(one.message) for one in found if "accesses reach byte" in str(one.message)]
    assert len(beyond) == warned and all("reach byte 8192 of" in message for message in beyond)


def nested(inner_limit, n):
    """Returns a loop of n trips, whose register R0 counts from 0 on, around one whose R3 counts from 1 up to R4."""
    return [
        "MOV R0, RZ", ".L_outer:", *inner_limit, "MOV R3, RZ", ".L_inner:", "MUFU.RCP R9, R9", "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P0, PT, R3, R4, PT", "@!P0 BRA `(.L_inner)", "IADD3 R0, R0, 0x1, RZ",
        f"ISETP.GE.AND P1, PT, R0, {n:#x}, PT", "@!P1 BRA `(.L_outer)", "EXIT",
    ]  # fmt: skip


@pytest.mark.parametrize(("n", "searched"), [(5, 10_000), (20, 10_000), (100, 10_000), (1000, 10_000), (5, 0), (304, 0)])
@pytest.mark.parametrize(
    ("limit", "trips"),
    [
        (["IADD3 R4, R0, 0x1, RZ"], lambda j, n: j + 1),
        (["IADD3 R4, -R0, {n}, RZ"], lambda j, n: n - j),
        (["IMAD R4, R0, 0x3, RZ"], lambda j, n: max(1, 3 * j)),
        (["LOP3.LUT R4, R0, 0x4, RZ, 0xc0, !PT"], lambda j, n: max(1, j & 4)),
        (["SHF.R.U32.HI R4, RZ, 0x5, R0"], lambda j, n: max(1, j >> 5)),
    ],
    ids=["grows", "shrinks", "grows by 3", "alternates", "grows at times"],
)
def test_trips_of_a_loop_that_follow_those_of_the_loop_around_it(limit, trips, n, searched, monkeypatch):
    """With calculated numbers of trips that are left out from the start on, too."""
    monkeypatch.setattr(leaps, "_SEARCHED_STEPS", searched)
    rows = nested([text.format(n=hex(n)) for text in limit], n)
    kernel = to_kernel(function(*rows), as_geometry("2,64"), Choices(), name="f")
    wanted = sum(trips(j, n) for j in range(n))
    found = sum(times for op, times in expected_ops(kernel.body) if op == "sfu")
    assert found == pytest.approx(wanted, abs=n / 2 if wanted > 10 * n else 1e-6)  # long loops are round


SWITCH = """
__global__ void select(float *x, int mode)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    switch (MODE) {
    case 0: v = __expf(v); break;
    case 1: v = rsqrtf(v) * v + 1; break;
    case 2: v = atomicAdd(x, v); break;
    case 3: v = x[i + 4096] * v; break;
    case 4: x[i + 8192] = v; break;
    case 5: v = __sinf(v) + __cosf(v); break;
    default: v = 0;
    }
    x[i] = v;
}
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize(("mode", "op", "times"), [(0, "sfu", 1), (2, "atomic", 1), (3, "load", 2), (4, "store", 2)])
def test_a_jump_through_a_table_goes_where_an_argument_says(compiler, arch, mode, op, times):
    found = from_cuda(SWITCH.replace("MODE", "mode"), arch=arch, launch=(8, 128), args={"mode": mode})
    assert dict(expected_ops(found.body)).keys() >= {op} and sum(n for one, n in expected_ops(found.body) if one == op) == times


@pytest.mark.filterwarnings("error")
def test_a_jump_through_a_table_of_those_threads_that_come_to_it():
    """The upper half of each warp leaves before, and what it holds is no index: the lower half stores at one target of two."""
    rows = (
        "MOV R6, c[0x0][0x160]",
        "MOV R7, c[0x0][0x164]",
        "S2R R0, SR_TID.X",
        "LOP3.LUT P0, RZ, R0, 0x10, RZ, 0xc0, !PT",
        "@P0 EXIT",
        "LOP3.LUT R0, R0, 0x1, RZ, 0xc0, !PT",
        "IMAD.SHL.U32 R0, R0, 0x4, RZ",
        "LDC R2, c[0x2][R0]",
        "SHF.R.S32.HI R3, RZ, 0x1f, R2",
        'BRX R2 -0xa0 (*"BRANCH_TARGETS .L_first,.L_second"*)',
        ".L_first:",
        "STG.E [R6.64], R0",
        ".L_second:",
        "EXIT",
    )
    one = replace(function(*rows, arch=90), constants=(0xA0).to_bytes(4, "little") + (0xB0).to_bytes(4, "little"))
    found = to_kernel(one, as_geometry("8,1024"), Choices(), name="f")
    assert counts(found)["store"] == 1


def test_a_jump_through_a_table_of_each_thread(compiler):
    """Four warps of a block take a target each."""
    found = from_cuda(SWITCH.replace("MODE", "threadIdx.x / 32 + 2"), arch="sm_90", launch=(8, 128))
    counted = Counter()
    for op, times in expected_ops(found.body):
        counted[op] += times
    assert counted["atomic"] == pytest.approx(0.25) and counted["load"] == pytest.approx(1.25)
    assert counted["store"] == pytest.approx(1.25) and counted["sfu"] == pytest.approx(0.5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("trips", "stores"), [(100, 1), (101, 0)])
def test_a_truth_value_is_known_beside_half_a_register_of_data(trips, stores):
    """It changes in each trip of a loop, and the upper half of its register is left over from a load."""
    rows = (
        "MOV R4, c[0x0][0x160]", "MOV R5, c[0x0][0x164]", "LDG.E R2, [R4.64]", "PRMT R2, RZ, 0x7610, R2", "MOV R0, RZ",
        ".L_loop:", "LOP3.LUT R2, R2, 0x1, RZ, 0x3c, !PT", "IADD3 R0, R0, 0x1, RZ", f"ISETP.GE.AND P0, PT, R0, {trips:#x}, PT",
        "@!P0 BRA `(.L_loop)", "PRMT R6, R2, 0x9910, RZ", "ISETP.NE.AND P1, PT, R6, RZ, PT", "@P1 EXIT",
        "STG.E [R4.64], R0", "EXIT",
    )  # fmt: skip
    assert counts(kernel(*rows)).get("store", 0) == stores


def test_what_follows_from_one_number_for_all_threads_is_computed_once(monkeypatch):
    """In a loop that is followed trip by trip, since bits of its counter give an address."""
    computed = Counter()
    logic = integers.logic

    def counted(a, b, c, table):
        computed[table] += 1
        return logic(a, b, c, table)

    monkeypatch.setattr(integers, "logic", counted)
    rows = [
        "S2R R0, SR_TID.X", "MOV R1, 0x3", ".L_loop:", "LOP3.LUT R2, R1, 0x5, RZ, 0x3c, !PT", "IADD3 R0, R0, 0x1, RZ",
        "LOP3.LUT R3, R0, 0x3, RZ, 0xc0, !PT", "IADD3 R4, R3, R2, RZ", "LDS R5, [R4.X4]", "ISETP.GE.AND P0, PT, R0, 0x3e8, PT",
        "@!P0 BRA `(.L_loop)", "EXIT",
    ]  # fmt: skip
    evaluate(Given(make_flow(function(*rows)), as_geometry("1,32")))
    assert computed[0x3C] == 1
    assert computed[0xC0] > 10
