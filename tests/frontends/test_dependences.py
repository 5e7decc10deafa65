"""Dependences follow the counters of the control fields, or the registers where there are none."""

import pytest

from tests.support.listings import function
from warpsim.frontends import listings
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.machine_code.operands import read, written
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.machine_code.sass_text import parse_listing
from warpsim.frontends.waits.dependences import has_control_fields, waits_of


def waits(*rows, **options):
    return {index: writers for (_, index), writers in waits_of(make_flow(function(*rows, **options))).items()}


def test_a_wait_mask_waits_for_all_that_hold_its_counters_once():
    assert waits(
        "--:-:0:-:1 LDG.E R2, [R4.64]",
        "--:-:0:-:1 LDG.E R3, [R6.64]",
        "--:-:1:-:1 LDS R8, [R9]",
        "01:-:-:-:4 FADD R2, R2, R3",
        "03:-:-:-:4 FADD R2, R2, R8",
        "EXIT",
    ) == {3: (0, 1), 4: (2,)}


def test_writers_reach_around_a_loop():
    assert waits(
        "--:-:0:-:1 LDG.E R2, [R4.64]",
        ".L_loop:",
        "01:-:-:-:4 FADD R8, R8, R2",
        "--:-:0:-:1 LDG.E R2, [R4.64]",
        "@P0 BRA `(.L_loop)",
        "EXIT",
    ) == {1: (0, 2)}


def test_a_partial_wait_leaves_the_youngest():
    """DEPBAR.LE SB0, 1 waits for all but the last writer of counter 0; the later wait mask for that one."""
    assert waits(
        "--:-:0:-:1 LDG.E R2, [R4.64]",
        "--:-:0:-:1 LDG.E R3, [R4.64]",
        "--:-:0:-:1 LDG.E R6, [R4.64]",
        "--:-:-:-:4 DEPBAR.LE SB0, 0x1",
        "01:-:-:-:4 FADD R8, R8, R6",
        "EXIT",
    ) == {3: (0, 1), 4: (2,)}


def test_copies_to_shared_memory_arrive_in_groups():
    assert waits(
        "LDGSTS.E [R5], [R2.64]",
        "LDGSTS.E [R7], [R8.64]",
        "--:-:0:-:1 LDGDEPBAR",
        "LDGSTS.E [R7+0x10], [R8.64+0x10]",
        "--:-:0:-:1 LDGDEPBAR",
        "DEPBAR.LE SB0, 0x1",
        "DEPBAR.LE SB0, 0x0",
        "EXIT",
    ) == {5: (0, 1), 6: (3,)}


def test_without_control_fields_registers_decide():
    text = (
        "LDG.E.64 R2, [R4.64]",
        "@P0 MOV R2, 0x1",
        "FADD R6, R2, R3",
        "IMAD.WIDE R8, R6, R7, R2",
        "STG.E.64 [R4.64], R8",
        "EXIT",
    )
    rows = [f"--:-:-:-:- {row}" for row in text]
    assert not has_control_fields(make_flow(function(*rows, arch=61)))
    assert waits(*rows, arch=61) == {1: (0,), 2: (0, 1), 3: (0, 1, 2), 4: (3,)}


def test_results_and_sources_of_instructions():
    def effects(text):
        opcode, _, operands = text.partition(" ")
        one = MachineInstruction(0, opcode, operands)
        return set(written(one)), set(read(one))

    assert effects("LDG.E.128 R4, desc[UR8][R2.64+0x10]") == ({"R4", "R5", "R6", "R7"}, {"R2", "R3"})
    assert effects("IADD3 R6, P0, R0, c[0x0][0x160], RZ") == ({"R6", "P0"}, {"R0"})
    assert effects("IADD3.X R7, R3, c[0x0][0x164], RZ, P0, !PT") == ({"R7"}, {"R3", "P0"})
    assert effects("LEA.HI.X R3, R6, c[0x0][0x164], R7, 0x2, P0") == ({"R3"}, {"R6", "R7", "P0"})
    assert effects("ISETP.GE.AND P0, PT, R3, UR4, P1") == ({"P0"}, {"R3", "UR4", "P1"})
    assert effects("IMAD.WIDE.U32 R2, R9, 0x4, R2") == ({"R2", "R3"}, {"R9", "R2", "R3"})
    assert effects("HMMA.16816.F32 R4, R8, R12, R4") >= ({"R4", "R5", "R6", "R7"}, {"R8", "R12"})
    assert effects("STG.E.64 [R2.64], R4") == (set(), {"R2", "R3", "R4", "R5"})
    assert effects("LOP3.LUT P0, RZ, R0, 0x1, RZ, 0xc0, !PT") == ({"P0"}, {"R0"})
    assert effects("SHFL.BFLY PT, R5, R4, 0x10, 0x1f") == ({"R5"}, {"R4"})
    assert effects("DFMA R2, R4, R6, R8")[0] == {"R2", "R3"}
    assert effects("LDGSTS.E [R5], [R2.64]") == (set(), {"R5", "R2", "R3"})


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90"])
def test_compiled_code_waits_for_every_result_that_it_reads(arch):
    """Of each instruction that holds a counter: on every path, its consumers come after a wait for it."""
    checked = 0
    for path in sorted(listings.folder().glob(f"*.{arch}.sass")):
        for one in parse_listing(path.read_text(encoding="utf-8")):
            flow = make_flow(one)
            waits, code = waits_of(flow), flow.function.code
            entry, todo = {0: {}}, [0]
            while todo:
                block = todo.pop()
                pending = dict(entry[block])
                for index in flow.blocks[block].code:
                    waited = set(waits.get((block, index), ()))
                    pending = {name: writers - waited for name, writers in pending.items()}
                    late = {name: writers for name, writers in pending.items() if writers and name in read(code[index])}
                    assert not late, f"{path.name}, {one.name}: {code[index].text} reads {late}"
                    holds = code[index].control.write is not None
                    for name in written(code[index]):
                        pending[name] = frozenset([index]) if holds else frozenset()
                    checked += holds
                for target in flow.blocks[block].successors:
                    known = entry.get(target)
                    joined = {
                        n: pending.get(n, frozenset()) | (known or {}).get(n, frozenset()) for n in {*pending, *(known or {})}
                    }
                    if joined != known:
                        entry[target] = joined
                        todo.append(target)
    assert checked > 500


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("HMMA.16816.F32 R8, R4, R2, RZ", 4), ("HMMA.16816.F16 R8, R4, R2, RZ", 2),
        ("QMMA.16832.F16.E4M3.E4M3 R8, R4, R2, RZ", 2),
        ("QMMA.16832.F32.E4M3.E4M3 R8, R4, R2, RZ", 4), ("IMMA.8816.S8.S8 R8, R4.ROW, R2.COL, RZ", 2),
        ("IMMA.16832.S8.S8 R8, R4.ROW, R2.COL, RZ", 4), ("BMMA.88128.XOR.POPC R8, R4.ROW, R2.COL, RZ", 2),
        ("BMMA.168256.XOR.POPC R8, R4.ROW, R2.COL, RZ", 4), ("DMMA.884 R8, R4, R2, RZ", 4), ("DMMA.16x8x16 R8, R4, R2, RZ", 8),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR4], RZ, !UPT", 32), ("HGMMA.64x64x16.F16 R24, gdesc[UR4], RZ, !UPT", 16),
        ("QGMMA.64x64x32.F16.E4M3.E4M3 R24, gdesc[UR4], RZ, !UPT", 16), ("IGMMA.64x64x32.S8.S8 R24, gdesc[UR4], RZ, !UPT", 32),
    ],
)  # fmt: skip
def test_a_matrix_instruction_writes_its_share_of_the_result(text, count):
    """A warp of 32 threads has rows x columns of single or half precision, or four warps of a group have 64 x columns."""
    opcode, _, operands = text.partition(" ")
    found = written(MachineInstruction(0, opcode, operands))
    first = int(operands.partition(",")[0].removeprefix("R"))
    assert found == tuple(f"R{first + k}" for k in range(count))
