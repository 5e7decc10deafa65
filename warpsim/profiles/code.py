"""The instructions of a profiled launch as a machine function.

The text comes from the report's reader, the control fields from the cubin inside the report.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace

from warpsim.frontends.machine_code.operands import conditions
from warpsim.frontends.machine_code.sass import VOLTA, Control, MachineFunction, MachineInstruction, decode_control
from warpsim.profiles.encodings import WORD_BYTES, decoded
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch, how_to_collect
from warpsim.profiles.sections import address_of, calls_of

_TEXT = re.compile(r"(?:(@!?U?P(?:\d|T))\s+)?([A-Z][A-Za-z0-9_.]*)\s*(.*)")
_JUMPS = ("BRA", "JMP", "CALL", "BRX", "JMX")
_OFFSET_BITS = 50
_NOTHING = Control(stall=1, yields=False, write=None, read=None, wait=0, reuse=0)


def machine_function(launch: ProfiledLaunch, *, as_it_stands: bool = False) -> MachineFunction:
    """Returns the machine code of a launch. Exits stand for what no warp executed, and nothing for jumps that no thread took.

    `as_it_stands`: nothing is left out, as the instructions have not been counted.

    Raises:
        ProfileError: the report has no counts of instructions or no machine code, or the chip is older than Volta.
    """
    where = f"{launch.report}, launch {launch.number}"
    if not launch.code:
        collect = how_to_collect("inst_executed")
        raise ProfileError(
            f"{where}: executions per instruction are missing; collect them with {collect}, or import the machine code: "
            "warpsim import REPORT -o kernel.toml"
        )
    if launch.arch < VOLTA:
        raise ProfileError(
            f"{where}: sm_{launch.arch}: machine code before sm_{VOLTA} has no control fields, and is not replayed"
        )
    if launch.words is None:
        raise ProfileError(f"{where}: the machine code of {launch.name} is not in the report")
    places, calls = {one.address for one in launch.code}, calls_of(launch.sections)
    found = [_instruction(one, launch, where) for one in launch.code]
    returns = any(made.base == "RET" for made, _ in found)
    led_to = {calls.get(made.address, stated) for made, stated in found}
    code: list[MachineInstruction] = []
    targets: set[int] = set()
    for counted, after, (made, stated) in zip(launch.code, (*launch.code[1:], None), found, strict=True):
        target = calls.get(made.address, stated) if made.base == "CALL" else stated
        passed = after is not None and after.executed == counted.executed and after.address not in led_to
        off = counted.counts.get("thread_inst_executed_true") == 0.0  # its guard let no thread through
        if as_it_stands:
            passed = off = False
        if (made.base in _JUMPS and off) or (passed and made.base == "BRA" and conditions(made)):
            made = replace(made, opcode="NOP", operands="")
        elif target in places:
            targets.add(target)
            made = replace(made, operands=_with_label(made, target))
            if made.base == "CALL" and not returns:  # compilers put calls that never return where warps reconverge
                made = replace(made, opcode="BRA")
        code.append(made)
    labelled = tuple(replace(one, labels=(_label(one.address),)) if one.address in targets else one for one in code)
    files = [one.line[0] for one in launch.code if one.line]
    return MachineFunction(
        name=launch.name,
        arch=launch.arch,
        code=labelled,
        registers=round(launch.need("launch__registers_per_thread")),
        shared_bytes=round(launch.get("launch__shared_mem_per_block_static") or 0),
        source=max(set(files), key=files.count) if files else "",
    )


def _instruction(one: ProfiledInstruction, launch: ProfiledLaunch, where: str) -> tuple[MachineInstruction, int | None]:
    """Returns an instruction, and the address that it jumps to."""
    if not one.executed:  # the flow ends where no warp went
        return MachineInstruction(one.address, "EXIT", "", control=_NOTHING), None
    words = launch.words or b""
    if not 0 <= one.address <= len(words) - WORD_BYTES:
        raise ProfileError(f"{where}: address {one.address:#x}: is in a function that is called, and is not in the report")
    low, high = struct.unpack_from("<QQ", words, one.address)
    text = one.text.rstrip(" ;") or decoded(low)
    found = _TEXT.fullmatch(text)
    if not found:
        raise ProfileError(f"{where}: address {one.address:#x}: {text!r} is no instruction")
    guard, opcode, operands = found[1] or "", found[2], found[3].strip()
    made = MachineInstruction(
        one.address, opcode, operands, guard, line=one.line[1] if one.line else None, control=decode_control(high)
    )
    if made.base not in _JUMPS:
        return made, None
    stated = re.search(r"0x([0-9a-f]+)\s*$", operands)
    if stated:
        return made, address_of(launch.sections, int(stated[1], 16)) if launch.sections else int(stated[1], 16) - launch.base
    offset = low >> 32 | (high & (1 << _OFFSET_BITS - 32) - 1) << 32  # bits 32 to 81, from the next instruction on
    return made, one.address + WORD_BYTES + (offset - (1 << _OFFSET_BITS) if offset >> _OFFSET_BITS - 1 else offset)


def _label(address: int) -> str:
    return f".L_{address:x}"


def _with_label(one: MachineInstruction, target: int) -> str:
    before = re.sub(r"\s*(`\([^)]*\))?\s*(0x[0-9a-f]+)?\s*$", "", one.operands)
    return f"{before} `({_label(target)})".strip()
