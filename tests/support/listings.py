"""Short listings of machine code for tests, written line by line, and the kernels from them."""

from collections import Counter

from tests.support.executions import expected_ops
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.machine_code.sass_text import parse_listing
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.traversal import walk


def function(*rows, arch=80, parameters="0x160 0:8:x 8:4:n", shared=16384):
    """A machine function; each row is an instruction, with control fields "wait:read:write:yield:stall" where they matter."""
    lines = []
    for row in rows:
        plain = row.strip()
        has_control = plain.count(":") >= 4 and plain[2:3] == ":"
        lines.append(plain if plain.endswith(":") or plain.startswith(".") or has_control else f"--:-:-:-:1 {plain}")
    head = f".target sm_{arch}\n.function f\n.registers 16\n.shared {shared}\n.parameters {parameters}\n.source f.cu\n"
    return parse_listing(head + "\n".join(lines) + "\n")[0]


def kernel(*rows, launch="64,128", arch=80, **choices):
    """The kernel from the rows of a function, for a launch."""
    return to_kernel(function(*rows, arch=arch), as_geometry(launch), Choices(**choices), name="f")


def counts(found):
    """Expected executions of a kernel by a warp, by operation class."""
    total = Counter()
    for op, times in expected_ops(found.body):
        total[op] += times
    return {op: round(times, 9) for op, times in total.items()}


def only(found, kind):
    """The statements of one kind of a kernel, in program order."""
    return [statement for _, statement in walk(found.body) if isinstance(statement, kind)]


SCALE = """\
.target sm_80
.function _Z5scalePffi
.registers 10
.parameters 0x160 0:8:x 8:4:a 12:4:n
.source scale.cu
.line 3
--:-:0:-:1 S2R R0, SR_CTAID.X
--:-:0:-:2 S2R R3, SR_TID.X
01:-:-:Y:5 IMAD R0, R0, c[0x0][0x0], R3
.line 4
--:-:-:Y:d ISETP.GE.AND P0, PT, R0, c[0x0][0x16c], PT
--:-:-:-:5 @P0 EXIT
.line 5
--:-:-:Y:5 IMAD.MOV.U32 R3, RZ, RZ, 0x4
--:-:-:Y:5 IMAD.WIDE R2, R0, R3, c[0x0][0x160]
--:-:0:-:4 LDG.E R4, [R2.64]
01:-:-:Y:5 FMUL R5, R4, c[0x0][0x168]
--:-:-:-:1 STG.E [R2.64], R5
--:-:-:-:5 EXIT
"""


def unrolled(times: int = 2600) -> str:
    """Returns addresses, loads and arithmetic in turn, as unrolled code has them: four instructions each time."""
    rows = SCALE.splitlines()
    return "\n".join([*rows[:11], ".line 5", *times * rows[12:17], *rows[17:]])
