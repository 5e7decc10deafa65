"""Addresses of which data says where they begin: a number from memory that a warp has in common, plus what each thread adds."""

import warnings

import pytest

import warpsim as ws
from tests.support.listings import function, only
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.access import conflict_ways
from warpsim.kernels.costs import access_transactions
from warpsim.kernels.instruction import Access, Instruction

PARAMETERS = "0x160 0:8:list 8:8:table 16:4:width:integer"

ROW = ["S2R R0, SR_TID.X", "S2R R9, SR_CTAID.X", "MOV R5, 0x4", "IMAD.WIDE R6, R9, R5, c[0x0][0x160]", "LDG.E R8, [R6.64]"]
"""R8 is the row that the list names for a block, a number of 32 bits."""

BEGIN = "where the accesses {} of a warp begin depends on data: each number in memory is taken to name data of its own"
OF_LOADS = BEGIN.format("LDG.E")


def kernel(*rows, launch="64,128", arch=80, **choices):
    made = function(*rows, "EXIT", arch=arch, parameters=PARAMETERS)
    return to_kernel(made, as_geometry(launch), Choices(**choices), name="f")


def last(*rows, said=OF_LOADS, times=1, **choices):
    """The last instruction that accesses memory; `said` is in all warnings, so many; "" means that there are none."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", AssumptionWarning)
        made = kernel(*rows, **choices)
    assert len(found) == bool(said) * times and all(said in str(each.message) for each in found)
    return [one for one in only(made, Instruction) if one.access is not None or one.op in ("smem", "atomic")][-1]


def of_row(column, width=1024):
    """The address in a row of `width` words of the table, at a column that is in R12."""
    address = ["IMAD R3, R8, c[0x0][0x170], R12", "IMAD.WIDE R2, R3, R5, c[0x0][0x168]"]
    return {"rows": [*ROW, *column, *address], "arguments": {"width": width}}


def shape(one):
    return (one.access.pattern, one.access.stride, one.access.l1_hit, one.access.l2_hit)


@pytest.mark.parametrize(("shift", "expected"), [(0, "coalesced"), (3, "stride")])
def test_distances_within_a_warp_are_known(shift, expected):
    """Rows of 4096 bytes begin lines, so that 32 words lie in one line, and every 8th word in 32 sectors of 8 lines."""
    given = of_row([f"SHF.L.U32 R12, R0, {shift:#x}, RZ"])
    one = last(*given["rows"], "LDG.E R4, [R2.64+0x4]", arguments=given["arguments"])
    if expected == "stride":
        assert shape(one) == ("stride", 8, 0.0, 0.0) and one.access.offset_bytes == 4
        assert access_transactions(ws.load_gpu("a100"), one).requests == 8
    else:  # one word further on, the last thread is in another line: a fifth sector
        assert shape(one)[0] == "coalesced" and one.access.offset_bytes == 4


def test_rows_begin_where_their_length_lets_them():
    """Rows of 400 bytes begin at 0, 16, 32 or 48 bytes in a pair of sectors, and memory moves pairs: 2 of them, or else 3; 7 of 8
    take two lines."""
    given = of_row(["LOP3.LUT R12, R0, 0x1f, RZ, 0xc0, !PT"], width=100)
    one = last(*given["rows"], "LDG.E R4, [R2.64]", arguments=given["arguments"], launch="4096,32")
    assert one.cost.requests == 2
    assert one.cost.requests * one.cost.bytes_per_request == pytest.approx((2 + 3 + 3 + 3) / 4 * 64, rel=0.01)


def test_stores_and_atomics_begin_there_too():
    given = of_row(["SHF.L.U32 R12, R0, 0x3, RZ"])
    stored = last(*given["rows"], "STG.E [R2.64], R0", arguments=given["arguments"], said=BEGIN.format("STG.E"))
    assert stored.op == "store" and shape(stored)[:2] == ("stride", 8)
    added = last(*given["rows"], "RED.E.ADD.STRONG.GPU [R2.64], R0", arguments=given["arguments"], said="of a warp begin depends")
    assert added.op == "reduction" and shape(added)[:2] == ("stride", 8) and added.access.contended_addresses is None


def test_a_list_may_name_a_place_in_another_list():
    again = ["IMAD.WIDE R6, R8, R5, c[0x0][0x160]", "LDG.E R8, [R6.64]"]
    row = ["IMAD R3, R8, 0x400, R0", "IMAD.WIDE R2, R3, R5, c[0x0][0x168]"]
    assert shape(last(*ROW, *again, *row, "LDG.E R4, [R2.64]", times=2))[0] == "coalesced"


NEXT_OF_LIST = {
    "index": ["IMAD.WIDE R6, R8, R5, c[0x0][0x160]", "LDG.E R8, [R6.64]"],
    "index of a structure": ["IMAD R3, R8, 0x3, RZ", "IMAD.WIDE R6, R3, R5, c[0x0][0x160]", "LDG.E R8, [R6.64+0x4]"],
    "pointer": ["LDG.E.64 R6, [R6.64]"],
    "pointer behind another one": ["LDG.E.64 R6, [R6.64+0x8]"],
}


@pytest.mark.parametrize("rows", NEXT_OF_LIST.values(), ids=NEXT_OF_LIST.keys())
def test_elements_of_a_list_that_name_the_next_one_are_all_others(rows):
    begin = ["MOV R5, 0x4", "MOV R8, RZ", "MOV R10, RZ", "MOV R6, c[0x0][0x160]", "MOV R7, c[0x0][0x164]", ".L_loop:"]
    end = ["IADD3 R10, R10, 0x1, RZ", "ISETP.GE.AND P0, PT, R10, 0x3e8, PT", "@!P0 BRA `(.L_loop)"]
    one = last(*begin, *rows, *end, launch="1,32", said="of a warp begin depends on data")
    assert (one.access.l1_hit, one.access.l2_hit) == pytest.approx((0.0, 0.0), abs=0.01)


def test_pointers_from_memory_begin_lines():
    rows = ["S2R R0, SR_TID.X", "S2R R9, SR_CTAID.X", "IMAD.WIDE R6, R9, 0x8, RZ", "IADD3 R6, P0, R6, c[0x0][0x160], RZ"]
    rows += ["IADD3.X R7, R7, c[0x0][0x164], RZ, P0, !PT", "LDG.E.64 R8, [R6.64]", "LEA R2, P1, R0, R8, 0x2"]
    one = last(*rows, "LEA.HI.X R3, R0, R9, RZ, 0x2, P1", "LDG.E R4, [R2.64]")
    assert shape(one)[0] == "coalesced" and one.access.offset_bytes == 0
    assert access_transactions(ws.load_gpu("a100"), one).requests == 1


@pytest.mark.parametrize(
    "rows",
    [
        ["IMAD R3, R8, R0, RZ"],  # the distance of the threads is what memory holds
        ["IADD3 R3, R8, R0, RZ", "SHF.R.U32.HI R3, RZ, 0x2, R3"],  # which four threads have one word depends on the row
        ["IADD3 R3, R8, R0, RZ", "LOP3.LUT R3, R3, 0x3f, RZ, 0xc0, !PT"],  # it may wrap within the warp
        ["IMNMX R3, R8, R0, PT"],
        ["ISETP.LT.AND P0, PT, R0, R8, PT", "SEL R3, R0, RZ, P0"],
        ["IADD3 R3, R8, R0, RZ", "IMAD R3, R3, R8, RZ"],
        ["SHF.L.U32 R3, R0, R8, RZ"],
        ["ATOMG.E.ADD.STRONG.GPU PT, R3, [R6.64], R5"],  # each thread gets another number
    ],
)
def test_other_addresses_stay_unknown(rows):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", AssumptionWarning)
        kernel(*ROW, *rows, "IMAD.WIDE R2, R3, R5, c[0x0][0x168]", "LDG.E R4, [R2.64]")
    assert ["the addresses of LDG.E depend on data: taken as coalesced" in str(each.message) for each in found] == [True]


@pytest.mark.parametrize(
    "rows",
    [
        ["IMNMX R8, R8, 0x64, PT", "IMNMX R8, R8, RZ, !PT"],
        ["VIADDMNMX R8, R8, 0x1, R5, PT"],
        ["VIMNMX3 R8, R8, R5, 0x64, PT"],
        ["ISETP.GE.AND P0, PT, R8, 0x64, PT", "SEL R8, R8, RZ, !P0"],
        ["ISETP.GE.AND P0, PT, R8, 0x64, PT", "@P0 MOV R8, RZ"],
        ["ISETP.GE.AND P0, PT, R8, 0x64, PT", "MOV R10, RZ", "@!P0 MOV R10, R8", "MOV R8, R10"],
    ],
)
def test_a_number_is_taken_to_be_within_the_bounds_in_which_it_is_held(rows):
    """All numbers but two or so are beyond 100; what stands in their place would be one row for all blocks."""
    row = of_row([*rows, "MOV R12, R0"])
    one = last(*row["rows"], "LDG.E R4, [R2.64]", arguments=row["arguments"], launch="4096,128")
    assert shape(one) == ("coalesced", 1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        (["ISETP.GE.U32.AND P0, PT, R8, 0x10, PT", "@P0 IADD3 R8, R8, -0x10, RZ"], 0.0),  # another row, as in a division
        (["ISETP.NE.AND P0, PT, R9, R9, PT", "SEL R8, R8, RZ, P0"], 1.0),  # a condition that is known: no block has its row
    ],
)
def test_conditions_on_numbers_that_are_made_up_choose_as_others_do(rows, share):
    row = of_row([*rows, "MOV R12, R0"])
    said = OF_LOADS if share == 0.0 else ""
    one = last(*row["rows"], "LDG.E R4, [R2.64]", arguments=row["arguments"], launch="4096,128", said=said)
    assert one.access.pattern == "coalesced" and one.access.l2_hit == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("choice", ["SEL R8, R8, RZ, P0", "@P0 MOV R8, RZ"])
@pytest.mark.parametrize(
    "rows",
    [
        ["ISETP.LT.AND P0, PT, R0, R8, PT"],
        ["IMAD.WIDE R10, R0, R5, c[0x0][0x168]", "LDG.E R10, [R10.64]", "ISETP.GE.AND P0, PT, R10, RZ, PT"],
    ],
)
def test_conditions_that_differ_within_a_warp_choose_nothing(choice, rows):
    row = of_row([*rows, choice, "MOV R12, R0"])
    said = "the addresses of LDG.E depend on data: taken as coalesced"
    last(*row["rows"], "LDG.E R4, [R2.64]", arguments=row["arguments"], said=said)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("number", ["int", "long long"])
def test_a_slot_of_a_page_is_a_row_of_the_page(compiler, number, arch):
    """Threads store 16 elements apart, in a page of a cache, at the place in it that a list of slots says."""
    source = f"""
    extern "C" __global__ void put(const {number} *slots, float *pages, int size)
    {{
        {number} slot = slots[blockIdx.x], page = slot / size, place = slot % size;
        pages[page * 128 * size + threadIdx.x * size + place] = 1;
    }}"""
    with pytest.warns(AssumptionWarning, match="begin depends on data"):
        made = ws.kernels.from_cuda(source, arch, launch=(1024, 128), args={"size": 16})
    (store,) = [one for one in only(made, Instruction) if one.op == "store"]
    assert (store.access.pattern, store.access.stride) == ("stride", 16)


def test_what_threads_load_from_different_addresses_stays_unknown():
    own = ["IMAD.WIDE R6, R0, R5, c[0x0][0x160]", "LDG.E R8, [R6.64]", "IMAD.WIDE R2, R8, R5, c[0x0][0x168]"]
    last(*ROW[:3], *own, "LDG.E R4, [R2.64]", said="the addresses of LDG.E depend on data: taken as coalesced")


def test_branches_and_trips_see_no_made_up_numbers():
    with pytest.raises(FrontEndError, match="its number of trips depends on data"):
        kernel(*ROW, ".L_loop:", "IADD3 R8, R8, -0x1, RZ", "ISETP.GT.AND P0, PT, R8, RZ, PT", "@P0 BRA `(.L_loop)")
    with pytest.warns(AssumptionWarning, match="whether a thread makes the access LDG.E depends on data"):
        kernel(*ROW, "ISETP.GT.AND P0, PT, R8, RZ, PT", "@P0 LDG.E R4, [R6.64+0x4]")


def test_a_stated_pattern_comes_first():
    given = of_row(["SHF.L.U32 R12, R0, 0x3, RZ"])
    stated = {"0x80": Access(pattern="coalesced", l2_hit=0.5)}
    one = last(*given["rows"], "LDG.E R4, [R2.64]", arguments=given["arguments"], patterns=stated, said="")
    assert shape(one)[::3] == ("coalesced", 0.5)


@pytest.mark.parametrize(("shift", "ways"), [(0x2, 1), (0x5, 8)])
def test_bank_conflicts_do_not_depend_on_where_accesses_begin(shift, ways):
    rows = [*ROW, f"SHF.L.U32 R12, R0, {shift:#x}, RZ", "LEA R3, R8, R12, 0x2"]
    one = last(*rows, "LDS R4, [R3]", said="")
    assert one.op == "smem" and conflict_ways(one, ws.load_gpu("a100")) == ways


LOOP = [*ROW, "IMAD R3, R8, 0x400, R0", "IMAD.WIDE R2, R3, R5, c[0x0][0x168]", "MOV R10, RZ", ".L_loop:", "LDG.E R4, [R2.64]"]
NEXT = [
    "IADD3.X R3, R3, RZ, RZ, P1, !PT", "IADD3 R10, R10, 0x1, RZ", "ISETP.GE.AND P0, PT, R10, 0x3e8, PT", "@!P0 BRA `(.L_loop)",
]  # fmt: skip


def test_pointers_may_advance_in_a_loop_by_what_all_threads_have():
    one = last(*LOOP, "IADD3 R2, P1, R2, 0x80, RZ", *NEXT)
    assert shape(one)[0] == "coalesced" and one.access.offset_bytes == 0


def test_pointers_that_move_apart_are_not_followed_where_trips_are_left_out():
    last(*LOOP, "IADD3 R2, P1, R2, R0, RZ", *NEXT, said="the addresses of LDG.E depend on data: taken as coalesced")


@pytest.mark.parametrize("arch", [80, 90])
def test_rows_hit_as_those_of_a_list_that_names_each_once(arch):
    """Of eight loads of every eighth word, the first brings what L1 mostly holds for the others: as where block b takes row b."""
    row = ["SHF.L.U32 R12, R0, 0x3, RZ", "IMAD R3, R8, 0x400, R12", "IMAD.WIDE R2, R3, R5, c[0x0][0x168]"]
    loads = [f"LDG.E R{20 + k}, [R2.64+{4 * k:#x}]" for k in range(8)]
    with pytest.warns(AssumptionWarning, match=OF_LOADS):
        listed = kernel(*ROW, "MOV R13, R9", *row, *loads, launch="8192,128", arch=arch)
    own = kernel(*ROW, "MOV R8, R9", *row, *loads, launch="8192,128", arch=arch)
    of_listed, of_own = ([one.access for one in only(made, Instruction) if one.op == "load"][1:] for made in (listed, own))
    assert of_listed[0].l1_hit == 0.0 and all(each.l1_hit > 0.8 for each in of_listed[1:])
    for one, other in zip(of_listed, of_own, strict=True):
        assert (one.l1_hit, one.l2_hit) == pytest.approx((other.l1_hit, other.l2_hit), abs=0.02)


def test_rows_of_shared_numbers_are_other_ones_in_each_block():
    """All threads of a block read one row, whose number is in its shared memory: each of four warps a quarter, once."""
    rows = ["S2R R0, SR_TID.X", "LDS R8, [RZ]", "IMAD R3, R8, 0x80, R0", "MOV R5, 0x4", "IMAD.WIDE R2, R3, R5, c[0x0][0x168]"]
    one = last(*rows, "LDG.E R4, [R2.64]", launch="8192,128")
    assert shape(one) == ("coalesced", 1, 0.0, 0.0)


SOURCE = """
__global__ void gather(const int *list, const float *table, float *out, int width)
{
    int row = list[blockIdx.x], c = threadIdx.x * 8;
    for (int i = 0; i < 2; ++i)
        out[blockIdx.x * width + c + i] = table[row * width + c + i];
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_gather_of_rows_loads_as_it_stores(compiler, arch):
    with pytest.warns(AssumptionWarning, match="where the accesses LDG.E of a warp begin depends on data"):
        found = ws.kernels.from_cuda(SOURCE, arch=arch, launch=(8192, 128), args={"width": 1024})
    moved = [one for one in only(found, Instruction) if one.access is not None][1:]
    assert [one.op for one in moved] == ["load", "store"] * 2
    assert {(one.access.pattern, one.access.stride) for one in moved} == {("stride", 8)}


ELEMENTS = [*ROW, "IADD3 R3, R8, R0, RZ", "IMAD.WIDE R2, R3, R5, c[0x0][0x168]", "LDG.E R4, [R2.64]"]
"""An element of the table for each thread, from that on which the list names for the block."""


def test_data_that_begins_at_the_number_itself_does_not_overlap():
    assert shape(last(*ELEMENTS, launch="4096,32"))[2:] == (0.0, 0.0)


def test_a_pattern_of_a_line_is_that_of_the_accesses_of_which_nothing_is_known():
    """The element names another one, as in a product with a sparse matrix; both loads are of one line, and the first at 0x70."""
    rows = [*ELEMENTS, "IMAD.WIDE R6, R4, R5, c[0x0][0x168]", "LDG.E R7, [R6.64]"]

    def patterns(**stated):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            made = kernel(".line 5", *rows, launch="4096,32", patterns={"5": "random"} | stated)
        return [one.access.pattern for one in only(made, Instruction) if one.op == "load"][1:]

    assert patterns() == ["coalesced", "random"]
    assert patterns(**{"0x70": "broadcast"}) == ["broadcast", "random"]
    assert patterns(**{"0x90": "broadcast"}) == ["coalesced", "broadcast"]
