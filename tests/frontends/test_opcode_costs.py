"""Costs of opcodes in addition to those of their classes, in imported kernels on the chips that they are for."""

import pytest

import warpsim as ws
from tests.support.listings import kernel, only
from warpsim.kernels.costs import costs_on
from warpsim.kernels.instruction import Instruction


def costs(row, arch, chip):
    return costs_on(ws.load_gpu(chip), only(kernel(f"--:-:-:-:4 {row}", "EXIT", arch=arch), Instruction)[0])


@pytest.mark.parametrize(("arch", "chip", "imad"), [(75, "t4", 2), (80, "a100", 2), (90, "h100", 2)])
def test_products_of_64_bits_take_two_passes(arch, chip, imad):
    assert costs("IMAD R4, R5, R6, RZ", arch, chip).unit_cycles == imad
    for opcode in ("IMAD.HI.U32", "IMAD.WIDE", "IMAD.WIDE.U32"):
        found = costs(f"{opcode} R4, R5, R6, RZ", arch, chip)
        assert (found.unit_cycles, found.issue_slots) == (2 * imad, 2 if "WIDE" in opcode and arch >= 80 else 1), opcode


def test_pairs_of_floats_take_two_passes():
    rows = ("FFMA R4, R6, R8, R4", "FFMA2 R4, R6.F32x2.HI_LO, R8, R4", "FADD2 R4, R6, R8", "FMUL2 R4, R6, R8")
    assert [costs(row, 100, "b200").unit_cycles for row in rows] == [1, 2, 2, 2]


def test_an_import_costs_what_a_replay_does_behind_jumps_and_meetings():
    rows = (
        "--:-:-:-:3 BSSY B0, `(.L_1)",
        "--:-:-:-:2 BRA `(.L_1)",
        ".L_1:",
        "--:-:-:-:2 BSYNC B0",
        "--:-:-:-:7 IADD3 R4, R4, R5, RZ",
        "EXIT",
    )
    assert [one.cost.gap_cycles for one in only(kernel(*rows), Instruction)] == [3, 5, 2 + 9, 7]


def test_multiply_adds_of_integers_and_floats_take_turns_on_hopper():
    """An H200 takes 3.0 cycles for one of each, 5.2 with three of floats, 6.9 with IMAD.WIDE (experiments/hardware/rates.csv)."""
    for rows, cycles in (
        (["IMAD R4, R4, R6, RZ", "FFMA R5, R5, R7, R7"], 3),
        (["IMAD R4, R4, R6, RZ", *3 * ["FFMA R5, R5, R7, R7"]], 5),
        (["IMAD.WIDE R4, R4, R6, RZ", *3 * ["FFMA R8, R8, R7, R7"]], 7),
    ):
        gpu = ws.load_gpu("h200")
        found = only(kernel(*(f"--:-:-:-:4 {row}" for row in rows), "EXIT", arch=90), Instruction)
        assert {gpu.ops[one.op].unit for one in found if one.op in ("alu", "imad")} == {"fma"}
        assert sum(costs_on(gpu, one).unit_cycles for one in found if one.op in ("alu", "imad")) == cycles
