"""Traces in the format of NVBit's tracer for Accel-Sim, written for tests."""

from collections.abc import Iterable, Sequence
from pathlib import Path

HEAD = """\
-kernel name = {name}
-kernel id = 1
-grid dim = ({grid},1,1)
-block dim = ({block},1,1)
-shmem = {shared}
-nregs = 16
-binary version = {arch}
-cuda stream id = 0
-shmem base_addr = 0x00007f0000000000
-local mem base_addr = 0x00007f1000000000
-nvbit version = 1.5.5
-accelsim tracer version = 4

#traces format = PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width [adrrescompress?] [mem_addresses]

"""

Warp = Sequence[str]


def trace_text(
    blocks: Iterable[Sequence[Warp]], *, grid: int, block: int, name: str = "_Z4copyPfS_", arch: int = 80, shared: int = 0
) -> str:
    """Returns a trace: for each block its warps, for each warp its lines."""
    rows = [HEAD.format(name=name, grid=grid, block=block, shared=shared, arch=arch)]
    for number, warps in enumerate(blocks):
        rows.append(f"\n#BEGIN_TB\n\nthread block = {number},0,0\n")
        for warp, lines in enumerate(warps):
            rows.append(f"\nwarp = {warp}\ninsts = {len(lines)}\n" + "".join(f"{line}\n" for line in lines))
        rows.append("\n#END_TB\n")
    return "".join(rows)


def copying_warp(at: int, trips: int = 1) -> list[str]:
    """A warp that copies 128 bytes in each trip of a loop, with addresses in each of the three forms in turn."""
    rows = ["0000 ffffffff 1 R2 S2R 0 0", "0010 ffffffff 1 R4 IMAD.WIDE 2 R2 R3 0"]
    for trip in range(trips):
        first = at + 128 * trip
        forms = (
            f"1 {first:#x} 4",
            "0 " + " ".join(f"{first + 4 * lane:#x}" for lane in range(32)),
            f"2 {first:#x} " + " ".join("4" for _ in range(31)),
        )
        rows += [
            f"0020 ffffffff 1 R6 LDG.E 1 R4 4 {forms[trip % 3]}",
            "0030 ffffffff 1 R7 FADD 2 R6 R6 0",
            f"0040 ffffffff 0 STG.E 2 R8 R7 4 1 {first + (1 << 32):#x} 4",
            "0050 ffffffff 1 R4 IADD3 1 R4 0",
            "0060 ffffffff 0 BRA 0 0",
        ]
    return [*rows, "0070 ffffffff 0 EXIT 0 0"]


def write_list(folder: Path, *traces: str) -> Path:
    """Writes traces and their list; returns the list."""
    names = [f"kernel-{number}.traceg" for number in range(1, len(traces) + 1)]
    for name, text in zip(names, traces, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / "kernelslist.g"
    path.write_text("MemcpyHtoD,0x00007f0000000000,4096\n" + "".join(f"{name}\n" for name in names), encoding="utf-8")
    return path
