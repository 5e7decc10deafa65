"""What opcodes say: the family, and how much a matrix instruction multiplies."""

import pytest

import warpsim as ws
from tests.support.listings import function
from warpsim.frontends.errors import AssumptionWarning
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.machine_code.opcodes import matrix_work, opcodes
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.costs import costs_on
from warpsim.kernels.instruction import Cost, Instruction


def one(opcode):
    return MachineInstruction(0, opcode, "R0, R4, R8, R0")


@pytest.mark.parametrize(
    ("opcode", "work"),
    [
        ("HMMA.16816.F32", (16 * 8 * 16, "f16_f32")),
        ("HMMA.16816.F16", (16 * 8 * 16, "f16")),
        ("HMMA.16816.F32.BF16", (16 * 8 * 16, "f16_f32")),
        ("HMMA.1688.F32.TF32", (16 * 8 * 8, "tf32")),
        ("HMMA.1684.F32.TF32", (16 * 8 * 4, "tf32")),
        ("HMMA.SP.16832.F32", (16 * 8 * 16, "f16_f32")),
        ("HMMA.884.F32.F32.STEP0", (256, "f16_f32")),
        ("HMMA.884.F16.F16.STEP1", (512, "f16")),
        ("IMMA.8816.S8.S8", (8 * 8 * 16, "s8")),
        ("IMMA.16832.S8.S8", (16 * 8 * 32, "s8")),
        ("IMMA.16864.S4.S4", (16 * 8 * 64, "s4")),
        ("BMMA.168256.XOR.POPC", (16 * 8 * 256, "b1")),
        ("DMMA.884", (8 * 8 * 4, "f64")),
        ("DMMA.16x8x16", (16 * 8 * 16, "f64")),
        ("QMMA.16832.F32.E4M3.E4M3", (16 * 8 * 32, "f8_f32")),
        ("QMMA.16832.F16.E5M2.E5M2", (16 * 8 * 32, "f8")),
        ("OMMA.16864.F32.E2M1.E2M1", (16 * 8 * 64, "f4")),
        ("HGMMA.64x192x16.F32.BF16", (16 * 192 * 16, "f16_f32")),
        ("HGMMA.64x128x8.F32.TF32", (16 * 128 * 8, "tf32")),
        ("HGMMA.SP.64x128x32.F32", (16 * 128 * 16, "f16_f32")),
        ("QGMMA.64x256x32.F32.E4M3.E4M3", (16 * 256 * 32, "f8_f32")),
        ("IGMMA.64x64x32.S8.S8", (16 * 64 * 32, "s8")),
        ("HMMA.F32", None),
        ("UTCHMMA.64x64x16", None),
    ],
)
def test_a_matrix_instruction_says_how_much_it_multiplies(opcode, work):
    """Of a product of a warp group a warp computes a quarter; half of the operands of a sparse one are left out."""
    assert matrix_work(one(opcode)) == work


PEAKS = {  # dense, in TFLOP/s or TOP/s, by the data sheets; those of other operands follow from the same table
    "v100": {"f16_f32": 125},
    "t4": {"f16_f32": 65, "s8": 130, "s4": 260},
    "rtx2080ti": {"f16": 113.8, "f16_f32": 56.9, "s8": 227.7, "s4": 455.4},
    "a40": {"f16_f32": 149.7, "tf32": 74.8, "s8": 299.3},
    "a100": {"f16_f32": 312, "tf32": 156, "f64": 19.5, "s8": 624, "s4": 1248},
    "rtx4090": {"f16": 330.3, "f16_f32": 165.2, "tf32": 82.6, "f8_f32": 330.3, "f8": 660.6, "s8": 660.6},
    "l40": {"f16": 181, "f16_f32": 181, "tf32": 90.5, "s8": 362, "f8": 362, "f8_f32": 362, "s4": 724},
    "a10": {"f16_f32": 125, "tf32": 62.5, "s8": 250, "s4": 500},
    "rtx3090": {"f16": 142, "f16_f32": 71, "tf32": 35.6, "s8": 284, "s4": 568},
    "rtx3080": {"f16": 119, "f16_f32": 59.5, "tf32": 29.8, "s8": 238, "s4": 476},
    "l4": {"f16": 121, "f16_f32": 121, "tf32": 60, "s8": 242, "f8": 242, "f8_f32": 242},
    "l40s": {"f16_f32": 362, "tf32": 183, "s8": 733, "f8": 733, "s4": 733},
    "h100": {"f16_f32": 989, "tf32": 494.7, "f64": 66.9, "s8": 1979, "f8_f32": 1979},
    "b200": {"f64": 37},
    "rtx5090": {"f16_f32": 209.5, "tf32": 104.8, "f8_f32": 419, "s8": 838, "f4": 1676},
    "rtx_pro_6000": {"f4": 2000},
}


@pytest.mark.parametrize(("name", "operands"), [(name, kind) for name, kinds in PEAKS.items() for kind in kinds])
def test_matrix_instructions_attain_the_peaks_of_the_data_sheets(name, operands):
    """Within the difference of the clock of the chip's file and that of its data sheet."""
    gpu = ws.load_gpu(name)
    op = "wgmma" if "wgmma" in gpu.ops and operands in gpu.ops["wgmma"].rates else "tensor"
    cost = costs_on(gpu, Instruction(op, dst="d", cost=Cost(multiply_adds=2048, operands=operands)))
    peak = 2 * 2048 / float(cost.unit_cycles) * gpu.sm.schedulers * gpu.sms * gpu.clock_ghz / 1000
    assert peak == pytest.approx(PEAKS[name][operands], rel=0.13)


CODE = ("HMMA.16816.F32 R0, R4, R8, R0", "HMMA.1688.F32.TF32 R0, R4, R8, R0", "EXIT")


def test_the_chip_that_is_simulated_decides_how_long_they_take():
    kernel = to_kernel(function(*CODE), as_geometry("64,128"), Choices(), name="f")
    spent = {
        name: [costs_on(ws.load_gpu(name), each).unit_cycles for each in kernel.body if each.op == "tensor"]
        for name in ("a100", "a40", "rtx4090", "h100")
    }
    assert spent == {"a100": [8, 8], "a40": [16, 16], "rtx4090": [32, 32], "h100": [6, 6]}


def test_a_chip_without_such_matrix_instructions_says_so():
    kernel = to_kernel(function(*CODE), as_geometry("64,128"), Choices(), name="f")
    with pytest.raises(ValueError, match="'tf32': t4 has no such matrix instructions, class tensor; it has f16, f16_f32, s8"):
        ws.simulate("t4", kernel, sms=1, cycles=1000)


def test_shapes_that_are_not_known_are_warned_of():
    with pytest.warns(AssumptionWarning, match=r"the shape of 2 matrix instructions HMMA.F32 is not known"):
        to_kernel(function(*["HMMA.F32 R0, R4, R8, R0"] * 2, "EXIT"), as_geometry("64,128"), Choices(), name="f")


def test_a_result_is_not_there_before_the_unit_has_computed_it():
    h100 = ws.load_gpu("h100")
    wide = Instruction("wgmma", dst="d", cost=Cost(multiply_adds=16 * 256 * 16, operands="f16_f32"))
    assert (costs_on(h100, wide).unit_cycles, costs_on(h100, wide).latency_cycles) == (128, 128)
    assert costs_on(h100, Instruction("wgmma", dst="d")).latency_cycles == h100.ops["wgmma"].latency_cycles


def test_a_warp_multiplies_at_two_thirds_of_the_rate_of_a_warp_group():
    h100 = ws.load_gpu("h100")
    for operands, rate in h100.ops["wgmma"].rates.items():
        assert h100.ops["tensor"].rates[operands] == rate * 2 / 3


def test_products_of_warp_groups_have_a_class_of_their_own_where_the_chip_has_it():
    assert opcodes().operation(opcodes().family(one("HGMMA.64x128x16.F32"))[0], ("tensor", "wgmma")) == "wgmma"
    assert opcodes().operation(opcodes().family(one("HGMMA.64x128x16.F32"))[0], ("tensor",)) == "tensor"
    assert opcodes().operation(opcodes().family(one("HMMA.16816.F32"))[0], ("tensor", "wgmma")) == "tensor"


def test_families_of_opcodes_with_suffixes():
    named = ("UBLKCP.S.G", "UBLKCP.G.S", "UTMALDG.2D", "SYNCS.EXCH.64", "LDTM.x16", "XYZ")
    assert {opcode: opcodes().family(one(opcode)) for opcode in named} == {
        "UBLKCP.S.G": ("copy", True),
        "UBLKCP.G.S": ("store", True),
        "UTMALDG.2D": ("copy", True),
        "SYNCS.EXCH.64": ("shared", True),
        "LDTM.x16": ("exchange", True),
        "XYZ": ("integer", False),
    }


@pytest.mark.parametrize(
    ("opcode", "name", "unit"),
    [
        ("F2F.F64.F32", "rtx4090", "fp64"),
        ("F2I.S64.F64.TRUNC", "t4", "fp64"),
        ("F2F.F64.F32", "a100", "sfu"),
        ("F2F.F16.F32", "t4", "sfu"),
        ("DADD", "t4", "fp64"),
        ("LDC", "h100", "adu"),
        ("BAR.SYNC", "v100", "adu"),
        ("R2UR", "a40", "lsu"),
    ],
)
def test_the_unit_of_an_opcode(opcode, name, unit):
    """A Turing's counters have conversions of double precision at its FP64 unit, an H100's at that of special functions."""
    gpu = ws.load_gpu(name)
    assert gpu.unit_of(opcodes().operation(opcodes().family(one(opcode))[0], frozenset(gpu.ops))) == unit


def test_fences_for_the_chip_take_time_and_those_of_a_block_an_issue_slot():
    rows = ("--:-:-:-:6 MEMBAR.SC.GPU", "--:-:-:-:6 MEMBAR.ALL.CTA", "IADD3 R1, R1, 0x1, RZ", "EXIT")
    kernel = to_kernel(function(*rows), as_geometry("64,128"), Choices(), name="f")
    a100 = ws.load_gpu("a100")
    fence, of_block = kernel.body[:2]
    assert (fence.op, costs_on(a100, fence).gap_cycles) == ("membar", a100.ops["membar"].gap_cycles)
    assert (of_block.op, costs_on(a100, of_block).gap_cycles) == ("branch", 6)
    found = ws.simulate(a100, kernel, launch=ws.Launch(blocks=1, block_warps=1), memory="fixed")
    assert float(found.warp_cycles.sel(state="membar").mean()) == a100.ops["membar"].gap_cycles - 1


def test_textures_and_sleep_have_classes_of_their_own():
    rows = ("TEX.LL RZ, R4, R2, R6, 0x0, 2D, 0x1", "NANOSLEEP 0x64", "NANOSLEEP R4", "NANOSLEEP 0xf4240", "EXIT")
    with pytest.warns(AssumptionWarning) as notes:
        kernel = to_kernel(function(*rows), as_geometry("64,128"), Choices(), name="f")
    texture, *sleeps = kernel.body[:4]
    assert texture.op == "texture" and texture.access is not None
    assert [(one.op, one.cost.gap_ns) for one in sleeps] == [("sleep", 100), ("sleep", 100), ("sleep", 10_000)]
    said = " ".join(str(note.message) for note in notes)
    assert "how long NANOSLEEP sleeps depends on data: taken as 100 ns" in said
    assert "the addresses of TEX.LL depend on data" in said
    found = ws.simulate("a100", kernel, launch=ws.Launch(blocks=1, block_warps=1), memory="fixed")
    assert float(found.warp_cycles.sel(state="sleeping").mean()) > 10_000
