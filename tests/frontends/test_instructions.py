"""Single instructions compute what they do on the GPU, from values of registers and constants."""

import numpy as np
import pytest

from warpsim.frontends.accesses import tally as accesses
from warpsim.frontends.execution import semantics
from warpsim.frontends.execution.state import State
from warpsim.frontends.machine_code import operands
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import NOTHING, UNKNOWN, array

MASK = 0xFFFFFFFF


def computed(text, constant=UNKNOWN, **values):
    """What an instruction computes from a constant, and registers with a value for each of 64 threads: results by name."""
    threads = np.arange(64)
    state = State(lambda *_: array(constant), {}, threads % 32 < values.pop("active", 32))
    state.values = {name: np.broadcast_to(np.asarray(value), (64,)) for name, value in values.items()}
    opcode, _, operands = text.partition(" ")
    effect = semantics.effect_of(MachineInstruction(0, opcode, operands))
    return {name: np.broadcast_to(value, (64,)).tolist() for name, value in effect(state)}


def test_one_thread_of_each_warp_is_elected():
    flags = computed("ELECT P2, URZ, PT")["P2"]
    assert [n for n, flag in enumerate(flags) if flag] == [0, 32]


@pytest.mark.parametrize(
    ("text", "flags", "active", "expected"),
    [
        ("VOTEU.ANY UP0, P0", [0] * 40 + [1] + [0] * 23, 32, (0, 1)),
        ("VOTEU.ALL UP0, P0", [1] * 40 + [0] + [1] * 23, 32, (1, 0)),
        ("VOTE.ALL P3, P0", [1] * 16 + [0] * 16 + [1] * 32, 16, (1, 1)),  # threads that are off do not vote
        ("VOTE.ANY P3, !P0", [1] * 32 + [0] * 32, 32, (0, 1)),
        ("VOTE.ANY P3, P0", [0] * 31 + [-1] + [1] + [-1] * 31, 32, (-1, 1)),  # one vote decides, whatever the others are
        ("VOTE.ALL P3, P0", [1] * 31 + [-1] + [0] + [-1] * 31, 32, (-1, 0)),
        ("VOTE.ANY R2, PT, P0", [1, 0] * 16 + [0] * 31 + [1], 32, (0x5555_5555, 0x8000_0000)),  # a bit for each thread
        ("VOTE.ANY R2, PT, !P0", [1] * 31 + [0] + [-1] * 32, 32, (0x8000_0000, -1)),
        ("VOTEU.ANY UR4, UPT, P0", [1] * 8 + [-1] * 24 + [0] * 32, 8, (0xFF, 0)),
    ],
)
def test_threads_vote(text, flags, active, expected):
    (votes,) = computed(text, P0=flags, active=active).values()
    assert (votes[0], votes[63]) == expected


def test_a_warp_reads_the_value_of_one_of_its_lanes():
    values = np.arange(64) * 10
    assert computed("SHFL.IDX PT, R6, R9, RZ, 0x1f", R9=values)["R6"] == [0] * 32 + [320] * 32
    assert computed("SHFL.IDX PT, R6, R9, R2, 0x1f", R9=values, R2=[5] * 64)["R6"] == [50] * 32 + [370] * 32
    assert computed("SHFL.IDX PT, R6, R9, R2, 0x1f", R9=values, R2=[20] * 64, active=8)["R6"][0] == UNKNOWN
    assert semantics.effect_of(MachineInstruction(0, "SHFL.BFLY", "PT, R6, R9, 0x1, 0x1f")) is None


def test_a_move_to_a_uniform_register_says_which_threads_are_left():
    assert computed("R2UR P2, UR8, R5", R5=[7] * 64) == {"P2": [0] * 64, "UR8": [7] * 64}
    assert computed("R2UR UR8, R5", R5=[7] * 64) == {"UR8": [7] * 64}


@pytest.mark.parametrize(
    ("text", "x", "y", "expected"),
    [
        ("FMUL R3, R1, R2", 3.0, 0.1, np.float32(3.0) * np.float32(0.1)),
        ("FMUL.RZ R3, R1, R2", 3.0, np.float32(0.1), np.nextafter(np.float32(0.3), np.float32(0))),
        ("FMUL.RZ R3, -R1, R2", 3.0, np.float32(0.1), -np.nextafter(np.float32(0.3), np.float32(0))),
        ("FMUL R3, |R1|, 0.25", -2.0, 0.0, 0.5),
        ("FADD R3, R1, -R2", 3.0, 0.5, 2.5),
        ("FADD.RZ R3, R1, R2", 1.0, 0.49999997, 1.4999999),
        ("FFMA R3, R1, R2, -1", 3.0, 0.5, 0.5),
        ("FFMA R3, -R1, R2, 1", 1.0 + 2.0**-23, 1.0 - 2.0**-23, 2.0**-46),  # rounded once
        ("FMUL R3, R1, R2", -1.0, 0.0, -0.0),
        ("FSEL R3, R1, 1, PT", 4.0, 0.0, 4.0),
        ("FSEL R3, R1, 1, !PT", 4.0, 0.0, 1.0),
        ("FSEL R3, R1, +INF, !PT", 4.0, 0.0, np.inf),
        ("MUFU.RCP R3, R1", 4.0, 0.0, 0.25),
        ("MUFU.SQRT R3, R1", 9.0, 0.0, 3.0),
        ("MUFU.RSQ R3, R1", 16.0, 0.0, 0.25),
        ("FMNMX R3, R1, R2, PT", 4.0, -1.0, -1.0),
        ("FMNMX.FTZ R3, R1, -R2, !PT", 4.0, -5.0, 5.0),
        ("FMNMX R3, R1, 3, PT", float("nan"), 0.0, 3.0),
        ("FMNMX R3, R1, R2, !PT", 2.0, float("nan"), 2.0),
        ("FRND R3, R1", 2.5, 0.0, 2.0),
        ("FRND.FLOOR R3, R1", -2.5, 0.0, -3.0),
        ("FRND.CEIL R3, -R1", 2.5, 0.0, -2.0),
        ("FRND.TRUNC R3, R1", -2.75, 0.0, -2.0),
    ],
)
def test_numbers_of_single_precision(text, x, y, expected):
    bits = {name: int(np.float32(value).view(np.uint32)) for name, value in (("R1", x), ("R2", y))}
    (found,) = {value for each in computed(text, **bits).values() for value in each}
    assert np.uint32(found).view(np.float32) == np.float32(expected)


@pytest.mark.parametrize(
    ("operand", "x", "expected"),
    [("-c[0x0][0x16c]", 10.0, -10.0), ("|c[0x0][0x16c]|", -10.0, 10.0), ("-|c[0x0][0x16c]|", -10.0, -10.0)],
)
def test_constants_of_single_precision_have_signs(operand, x, expected):
    bits, result = (int(np.float32(value).view(np.uint32)) for value in (x, expected))
    assert computed(f"FADD R3, -RZ, {operand}", bits)["R3"][0] == result
    assert computed(f"FSEL R3, R1, {operand}, !PT", bits, R1=0)["R3"][0] == result
    assert semantics.effect_of(MachineInstruction(0, "FADD", f"R3, -RZ, {operand}.H1_H1")) is None


@pytest.mark.parametrize(
    ("operand", "expected"),
    [("-c[0x0][0x168]", -7), ("~c[0x0][0x168]", ~7), ("|c[0x0][0x168]|", None), ("c[0x0][0x168].B1", None)],
)
def test_integer_constants_have_signs(operand, expected):
    assert computed(f"MOV R3, {operand}", 7)["R3"][0] == (UNKNOWN if expected is None else expected & MASK)


def test_pairs_of_constants_have_signs():
    found = computed("MOV.64 R4, -c[0x0][0x168]", 7)
    assert found["R4"][0] | found["R5"][0] << 32 == -(7 << 32 | 7) % 2**64
    assert computed("MOV.64 R4, c[0x0][UR4+0x168]", 7, UR4=8) == {"R4": [7] * 64, "R5": [7] * 64}


@pytest.mark.parametrize(
    ("text", "x", "flags"),
    [
        ("FSETP.GT.AND P0, P1, |R1|, 2.5, PT", -3.0, (1, 0)),
        ("FSETP.GEU.AND P0, P1, |R1|, 1.175494350822287508e-38, PT", 1.0, (1, 0)),
        ("FSETP.LT.AND P0, P1, R1, 1, PT", float("nan"), (0, 1)),
        ("FSETP.LTU.AND P0, P1, R1, 1, PT", float("nan"), (1, 0)),
        ("FSETP.EQ.OR P0, P1, R1, 2, PT", 1.0, (1, 1)),
        ("FSETP.NEU.AND P0, P1, R1, -QNAN , PT", 1.0, (1, 0)),
    ],
)
def test_numbers_are_compared(text, x, flags):
    found = computed(text, R1=int(np.float32(x).view(np.uint32)))
    assert (found["P0"][0], found["P1"][0]) == flags


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_infinite_are_compared_without_a_warning_and_have_no_distance():
    state = State(lambda *_: UNKNOWN, {}, np.ones(64, bool))
    state.values = {"R1": array(int(np.float32(np.inf).view(np.uint32)))}
    state.differences = []
    semantics.effect_of(MachineInstruction(0, "FSETP.NEU.AND", "P0, PT, |R1|, +INF , PT"))(state)
    assert [difference.tolist() for difference in state.differences] == [[0.0]]


@pytest.mark.parametrize(
    "text",
    [
        "FFMA R3, R1, R2",
        "FSETP.GT.AND P0, P1, R1, R2, R3",
        "FSEL R3, R1, R2, R4",
        "ISETP.GT.AND P0, PT, R1, R2, R3",
        "ISETP.GT.AND.EX P0, PT, R1, R2, PT, R3",
        "SEL R3, R1, R2, R4",
        "PLOP3.LUT P0, PT, P1, R2, PT, 0x80, 0x0",
    ],
)
def test_a_form_that_is_not_foreseen_computes_nothing_that_is_known(text):
    opcode, _, rest = text.partition(" ")
    assert semantics.effect_of(MachineInstruction(0, opcode, rest)) is None


@pytest.mark.parametrize(
    "text", ["IMAD.WIDE.U32 RZ, P0, R1, R2, R4", "MOV.64 RZ, R2", "LDC.64 RZ, c[0x0][0x160]", "SEL.64 RZ, R2, R4, PT"]
)
def test_a_pair_may_go_nowhere(text):
    assert "RZ" in computed(text, 7, R1=1, R2=2, R3=3, R4=4, R5=5)


def test_a_number_that_is_none_or_is_not_foreseen():
    assert np.isnan(np.uint32(computed("FSEL R3, R1, -QNAN , !PT", R1=0)["R3"][0]).view(np.float32))
    assert semantics.effect_of(MachineInstruction(0, "FSEL", "R3, R1, MANY, !PT")) is None


def test_halves_of_registers_become_numbers():
    assert computed("I2F.U16 R4, R3", R3=0x12345678)["R4"][0] == int(np.float32(0x5678).view(np.uint32))
    assert computed("I2F.S16 R4, R3", R3=0x1234FFFE)["R4"][0] == int(np.float32(-2).view(np.uint32))
    assert computed("I2F.S8 R4, R3", R3=0x123480)["R4"][0] == int(np.float32(-128).view(np.uint32))
    assert computed("I2F.U8 R4, R3.B2", R3=0x123480)["R4"][0] == UNKNOWN
    assert computed("I2FP.F32.U32.RZ R4, R3", R3=0xFFFFFFFF)["R4"][0] == int(np.float32(4294967040.0).view(np.uint32))
    assert computed("I2F.RP R4, R3", R3=0x1000001)["R4"][0] == int(np.float32(16777218.0).view(np.uint32))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("F2I.NTZ R4, R3", -2), ("F2I.FLOOR.NTZ R4, R3", -3), ("F2I.CEIL.NTZ R4, R3", -2), ("F2I.U32.FLOOR.NTZ R4, R3", 0)],
)
def test_numbers_become_integers(text, expected):
    assert computed(text, R3=int(np.float32(-2.5).view(np.uint32)))["R4"][0] == expected & MASK


def test_bytes_of_a_register_become_predicates():
    assert computed("R2P PR, R5.B1, 0x7", R5=0x00FF0500) == {"P0": [1] * 64, "P1": [0] * 64, "P2": [1] * 64}
    assert computed("R2P PR, R5, 0x3", R5=2) == {"P0": [0] * 64, "P1": [1] * 64}
    assert semantics.effect_of(MachineInstruction(0, "R2P", "PR, -R5, 0x3")) is None


def test_two_integers_in_one_register_are_not_added_as_one():
    assert semantics.effect_of(MachineInstruction(0, "VIADD.16x2", "R5, R0, R8")) is None


def test_the_predicates_of_a_minimum_are_not_known():
    found = computed("VIMNMX.S32 R5, P1, PT, R0, R8, PT", R0=7, R8=9)
    assert (found["R5"][0], found["P1"][0]) == (7, UNKNOWN)
    assert operands.written(MachineInstruction(0, "VIMNMX.S32", "R5, P1, PT, R0, R8, PT")) == ("R5", "P1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VIMNMX.S16x2 R5, R0, R8, PT", 0x8000_FFFF),
        ("VIMNMX.S16x2 R5, R0, R8, !PT", 0x0003_0002),
        ("VIMNMX.U16x2 R5, R0, R8, PT", 0x0003_0002),
        ("VIMNMX.U16x2 R5, R0, R8, !PT", 0x8000_FFFF),
    ],
)
def test_the_smaller_and_the_larger_of_two_halves(text, expected):
    assert computed(text, R0=0x8000_0002, R8=0x0003_FFFF)["R5"] == [expected] * 64
    assert computed(text, R0=UNKNOWN, R8=1)["R5"] == [UNKNOWN] * 64


def test_half_of_a_register_that_holds_nothing_yet_does_not_matter():
    """Compilers keep numbers of 16 bits in the lower half, and leave the upper one of the first value as it is."""
    assert computed("PRMT R7, R3, 0x7610, R7", R3=0x55)["R7"][0] == 0x55
    assert computed("PRMT R7, R3, 0x7610, R7", R3=UNKNOWN, R7=0x550000)["R7"][0] == UNKNOWN


@pytest.mark.parametrize("move", ["MOV R7, R7", "IMAD.MOV.U32 R7, RZ, RZ, R7", "SEL R7, R7, R7, PT"])
def test_the_lower_half_of_a_register_is_known_by_itself(move):
    """The upper half of a register with a truth value, or a number of 16 bits, may be left over from data."""
    (half,) = {*computed("PRMT R7, R3, 0x7610, R7", R3=0x80F5, R7=UNKNOWN)["R7"]}
    assert half < 0  # as a whole it is not known
    (half,) = {*computed(move, R7=half)["R7"]}
    results = {
        "PRMT R9, R7, 0x7710, RZ": 0x80F5,
        "PRMT R9, R7, 0x9910, RZ": 0xFFFF80F5,
        "PRMT R9, R7, 0x8880, RZ": 0xFFFFFFF5,
        "PRMT R9, R7, 0x1054, R5": 0x80F50055,
        "LOP3.LUT R9, R7, 0xff, RZ, 0xc0, !PT": 0xF5,
        "LOP3.LUT R9, R7, 0xffff, R5, 0xe2, !PT": 0x443380F5,
    }
    for text, expected in results.items():
        assert {*computed(text, R7=half, R5=0x44330055)["R9"]} == {expected}, text
    for text in ("PRMT R9, R7, 0x7732, RZ", "LOP3.LUT R9, R7, 0x1ff00, RZ, 0xc0, !PT", "IADD3 R9, R7, 0x1, RZ"):
        assert max(computed(text, R7=half)["R9"]) < 0, text
    assert {*computed("LOP3.LUT P0, RZ, R7, 0xf, RZ, 0xc0, !PT", R7=half)["P0"]} == {1}


@pytest.mark.parametrize(
    ("sum_", "expected"),
    [
        ("VIADD R9, R7, 0x4", 3),
        ("IADD3 R9, R7, R5, RZ", 0x4F),
        ("IADD3 R9, R5, -R7, RZ", 0x51),
        ("IMAD.IADD R9, R7, 0x1, R5", 0x4F),
        ("IMAD.IADD R9, R5, 0x1, R7", 0x4F),
    ],
)
def test_the_lower_half_of_a_sum_is_known_where_those_of_its_terms_are(sum_, expected):
    """Pipelines of libcu++ count their stages in eight bits, in the lower half of a register."""
    (half,) = {*computed("PRMT R7, R3, 0x7610, R7", R3=0xFFFF, R7=UNKNOWN)["R7"]}
    (total,) = {*computed(sum_, R7=half, R5=0x3300_0050)["R9"]}
    assert total < 0  # as a whole it is not known
    assert {*computed("LOP3.LUT R9, R7, 0xffff, RZ, 0xc0, !PT", R7=total)["R9"]} == {expected}
    assert {*computed(sum_, R7=UNKNOWN, R5=0x3300_0050)["R9"]} == {UNKNOWN}


def test_bits_that_data_does_not_decide_are_known():
    assert {*computed("LOP3.LUT R9, R7, 0xff, R5, 0x80, !PT", R7=UNKNOWN, R5=0xF00)["R9"]} == {0}
    assert {*computed("LOP3.LUT R9, R7, R5, RZ, 0xfc, !PT", R7=UNKNOWN, R5=MASK)["R9"]} == {MASK}


def test_sectors_and_lines_are_counted():
    tally = accesses.Tally()
    lanes = np.arange(64) * 4
    active = np.ones(64, bool)
    active[40:] = False
    tally.record(lanes, accesses.Active(active, np.array([1.0, 3.0])))
    assert (tally.warps, tally.sectors, tally.lines) == (4.0, 4 + 3 * 1, 4.0)
    tally.record(np.where(lanes < 64, -1, lanes), accesses.Active(np.ones(64, bool), np.array([1.0, 3.0])))
    assert tally.unknown == 1.0


@pytest.mark.parametrize("summands", [(2**40 + 0x100, -4, -8), (2**40 + 0x100, 4, 8), (-1, -1, -1), (2**32 - 1,) * 3, (0, 0, 0)])
def test_three_words_of_64_bits_are_added_with_all_that_is_carried_over(summands):
    state = State(lambda *_: NOTHING, {}, np.ones(1, bool))
    for number, value in zip((2, 4, 6), summands, strict=True):
        state.values |= {f"R{number}": array(value & MASK), f"R{number + 1}": array(value >> 32 & MASK)}
    for opcode, text in (("IADD3", "R8, P0, P1, R2, R4, R6"), ("IADD3.X", "R9, R3, R5, R7, P0, P1")):
        state.values |= dict(semantics.effect_of(MachineInstruction(0, opcode, text))(state))
    assert int(state.values["R8"][0]) | int(state.values["R9"][0]) << 32 == sum(summands) % 2**64


@pytest.mark.parametrize(("mask", "results"), [("0x1", ("R45",)), ("0x3", ("R45", "R46")), ("0xf", ("R10", "R11", "R45", "R46"))])
def test_a_fetch_of_a_texture_writes_what_its_mask_names(mask, results):
    text = f"{'R10' if mask == '0xf' else 'RZ'}, R45, R48, 0x0, 0x58, 2D, {mask}"
    assert sorted(operands.written(MachineInstruction(0, "TEX.SCR.LL", text))) == sorted(results)


@pytest.mark.parametrize(
    ("opcode", "results"),
    [
        ("SULD.D.BA.1D.U8.TRAP", ("R8",)), ("SULD.D.BA.1D.TRAP", ("R8",)), ("SULD.D.BA.1D.64.TRAP", ("R8", "R9")),
        ("SULD.D.BA.2D.128.STRONG.SM.TRAP", ("R8", "R9", "R10", "R11")),
    ],
)  # fmt: skip
def test_a_load_from_a_surface_returns_as_many_words_as_it_says(opcode, results):
    assert operands.written(MachineInstruction(0, opcode, "R8, [R0], UR4, 0x0")) == results


@pytest.mark.parametrize(("opcode", "results"), [("FRND.F64.FLOOR", ("R6", "R7")), ("FRND.FLOOR", ("R6",))])
def test_rounding_writes_a_pair_in_double_precision(opcode, results):
    assert operands.written(MachineInstruction(0, opcode, "R6, R4")) == results


@pytest.mark.parametrize(
    ("opcode", "text", "found"),
    [
        ("SEL.64", "R6, R4, R8, !P0", ("R4", "R5", "R8", "R9", "P0")),
        ("USEL.64", "UR4, UR4, UR10, !UP0", ("UR4", "UR5", "UR10", "UR11", "UP0")),
        ("ISETP.LT.S64.OR", "P0, PT, R2, R4, P1", ("R2", "R3", "R4", "R5", "P1")),
    ],
)
def test_a_predicate_of_an_instruction_on_pairs_is_one(opcode, text, found):
    assert operands.read(MachineInstruction(0, opcode, text)) == found
