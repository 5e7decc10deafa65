"""What a kernel's machine code computes between its two readings of the clock.

The text comes from nvdisasm (PyPI: nvidia-cuda-nvdisasm). Registers are known by their first number, so that a pair
that is written as R4 and read as R4 is one value; this is enough to follow the chains of this package.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_LINE = re.compile(r"\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<guard>@!?U?P\d+\s+)?(?P<opcode>[A-Z0-9_.]+)\s*(?P<rest>[^;]*);")
_REGISTER = re.compile(r"\bU?R\d+\b")
_WITHOUT_RESULT = ("ST", "RED", "BRA", "EXIT", "BAR", "ISETP", "FSETP", "NOP", "BSYNC", "BSSY", "WARPSYNC", "NANOSLEEP")


class DisassemblerError(RuntimeError):
    """nvdisasm is not installed, or does not read the binary."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: its address in bytes, opcode with suffixes, operands as text, and the label it follows, if any."""

    address: int
    opcode: str
    operands: str
    label: str | None = None

    @property
    def writes(self) -> str | None:
        """The first register of the result; None where there is no result in a register."""
        if self.opcode.startswith(_WITHOUT_RESULT):
            return None
        found = _REGISTER.match(self._values)
        return found.group() if found else None

    @property
    def _values(self) -> str:
        """The operands without the predicates that come before the result."""
        return re.sub(r"^\s*(U?PT?\d*,\s*)*", "", self.operands)

    @property
    def reads(self) -> tuple[str, ...]:
        """The first registers of the operands that are read."""
        return tuple(_REGISTER.findall(self._values if self.writes is None else self._values[len(self.writes) :]))


def find_nvdisasm() -> Path | None:
    """Return the path of nvdisasm: of the wheel nvidia-cuda-nvdisasm, or else on PATH; None where there is none."""
    wheels = find_spec("nvidia")  # a namespace that several wheels share
    for folder in wheels.submodule_search_locations or () if wheels else ():
        for path in sorted(Path(folder).glob("*/bin/nvdisasm")):
            return path
    found = shutil.which("nvdisasm")
    return Path(found) if found else None


def disassemble(cubin: bytes) -> dict[str, list[Instruction]]:
    """Return the instructions of each kernel of a binary by the kernel's name.

    Raises:
        DisassemblerError: nvdisasm is missing, or refuses the binary.
    """
    tool = find_nvdisasm()
    if tool is None:
        raise DisassemblerError("nvdisasm is missing: pip install nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([str(tool), "-c", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DisassemblerError(f"nvdisasm: {done.stderr.strip() or done.stdout.strip()}")
    return parse(done.stdout)


def parse(text: str) -> dict[str, list[Instruction]]:
    """Return the instructions in the output of `nvdisasm -c` by the name of their kernel."""
    kernels: dict[str, list[Instruction]] = {}
    label: str | None = None
    name = ""
    for line in text.splitlines():
        if line.startswith(".text."):
            name = line.removeprefix(".text.").rstrip(":")
            kernels[name] = []
        elif line.startswith(".L_"):
            label = line.strip().rstrip(":")
        elif name and (found := _LINE.match(line)):
            kernels[name].append(Instruction(int(found["address"], 16), found["opcode"], found["rest"], label))
            label = None
    return kernels


def clock_reads(code: list[Instruction]) -> list[int]:
    """Return the indices of the instructions that read the cycle counter of the SM."""
    return [i for i, one in enumerate(code) if re.search(r"\bSR_CLOCK(LO)?\b", one.operands)]


def timed_loop(code: list[Instruction]) -> list[Instruction]:
    """Return the body of the longest loop between the first two readings of the clock, its branch included.

    Raises:
        ValueError: there are not two readings, or no loop between them.
    """
    reads = clock_reads(code)
    if len(reads) < 2:
        raise ValueError(f"{len(reads)} readings of the clock: at least 2")
    part = code[reads[0] + 1 : reads[1]]
    labels = {one.label: i for i, one in enumerate(part) if one.label}
    loops = []
    for i, one in enumerate(part):
        target = re.search(r"\.L_\w+", one.operands) if one.opcode.startswith("BRA") else None
        if target and labels.get(target.group(), len(part)) <= i:
            loops.append((labels[target.group()], i))
    if not loops:
        raise ValueError("no loop between the first two readings of the clock")
    first, last = max(loops, key=lambda loop: loop[1] - loop[0])
    return part[first : last + 1]


def longest_path(body: list[Instruction], step: str) -> list[str]:
    """Return the opcodes along the dependence path that holds the most instructions of a step.

    Args:
        body: instructions in order.
        step: regular expression; the opcodes that count (matched from their beginning).
    """
    paths: dict[str, list[str]] = {}
    best: list[str] = []

    def count(path: list[str]) -> int:
        return sum(1 for opcode in path if re.match(step, opcode))

    for one in body:
        if one.writes is None:
            continue
        before = max((paths.get(register, []) for register in one.reads), key=count, default=[])
        paths[one.writes] = [*before, one.opcode]
        if count(paths[one.writes]) > count(best):
            best = paths[one.writes]
    return best
