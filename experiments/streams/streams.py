"""The kernels of gpu-stream and their measured curves, and the bandwidth that the simulator gives."""

from __future__ import annotations

from pathlib import Path

from _tables import read_rows

import warpsim as ws
from warpsim.kernels import Access, Cost, Instruction, Kernel
from warpsim.measure.record import read_record

HERE = Path(__file__).parent
BLOCKS = 2  # resident on each SM
WARP = 32  # threads
BYTES = 8  # of a double
STREAMS = {"read": (1, False), "init": (0, True), "scale": (1, True), "triad": (2, True), "3pt": (1, True), "5pt": (1, True)}
"""Kernel -> the streams that it reads, and whether it writes one."""

NEIGHBOURS = {"3pt": 2, "5pt": 4}
"""Kernel -> further loads of a thread, of its neighbours' elements, as many on either side."""

OF_RECORDS = {"init": "init", "read": "read", "copy": "scale", "triad": "triad"}
"""Stream of `warpsim measure` -> the kernel that does the same."""

RECORDS = {"h100, own": "h100", "h200, own": "h200"}
"""Name in the tables -> the chip whose record in ../hardware has streams."""

OPERATIONS = {"scale": 1, "triad": 1, "3pt": 2, "5pt": 5}
"""Kernel -> operations in double precision that wait for each other, by the machine code of NVRTC for sm_80."""

_INDEX = (
    Instruction("smem", dst="block", cost=Cost(gap_cycles=4)),
    Instruction("smem", dst="thread", cost=Cost(gap_cycles=2)),
    Instruction("imad", src=("block", "thread"), cost=Cost(gap_cycles=4)),
)
"""Computes the number of a thread's element from special registers, which come through the path of shared memory."""

_BOUND = (
    Instruction("int", cost=Cost(gap_cycles=2)),
    Instruction("int", cost=Cost(gap_cycles=4)),
    Instruction("int", cost=Cost(gap_cycles=13)),  # until a branch sees the predicate
    Instruction("branch"),
)
"""Compares that number with the length of the array, in 64 bits."""

_FLAG = (
    Instruction("int", cost=Cost(gap_cycles=13)),
    Instruction("imad", cost=Cost(gap_cycles=4)),
    Instruction("imad", cost=Cost(gap_cycles=6)),
)
"""Computes the address of a load that is never made, under a flag; only in `init` does the access come behind it."""

_ADDRESS = (
    Instruction("int", cost=Cost(gap_cycles=4)),
    Instruction("int", cost=Cost(gap_cycles=4)),
    Instruction("int", cost=Cost(gap_cycles=5)),
)
"""Computes the address of the first access. Those of the others are ready before their data."""

_NOT_STORED = (Instruction("fp64", src=("r0",), cost=Cost(gap_cycles=13)), Instruction("branch"))
"""Compares what `read` has loaded with a number that it never is."""

_ELEMENT = Access(bytes_per_thread=BYTES)
_BESIDE = Access(bytes_per_thread=BYTES, offset_bytes=BYTES)  # three lines instead of two
_ON_ITS_WAY = _BESIDE.model_copy(update={"l1_hit": 1.0})  # what it needs, other loads of this block have asked for
_SAME_BYTES = Cost(requested_bytes=0)  # the bandwidth counts each stream once
_BEYOND = Cost(interval_cycles=3, requests=1, bytes_per_request=1.0, requested_bytes=0)
"""Of a load that reaches into the next block's elements: it passes three lines, and waits for a sector that another SM asks for,
too, so that it moves once for both."""


def kernel(name: str, block_warps: int, *, bound: bool = True) -> Kernel:
    """Returns a kernel of gpu-stream: the address, loads, operations in double precision, a store and the exit.

    The order and the fixed waits of what computes the address are those of the machine code for sm_80. With `bound`, a thread
    compares its number with the length of the array, as in gpu-stream and not in `warpsim measure`. What the first and the last
    warp of a block load beyond its elements belongs to other blocks, on other SMs.
    """
    edges = [(warp == 0, warp == block_warps - 1) for warp in range(block_warps)] if name in NEIGHBOURS else []
    different = list(dict.fromkeys(edges)) or [(False, False)]
    before = [*_INDEX, *(_BOUND if bound else ()), *(_FLAG if bound and name == "init" else ()), *_ADDRESS]
    bodies = [[*before, *_body(name, *edge)] for edge in different]
    starts = [sum(len(body) + 1 for body in bodies[:number]) for number in range(len(bodies))]
    body = [step for path in bodies for step in (*path, Instruction("exit"))][:-1]
    entries = {"entries": starts, "entry_of_warp": [different.index(edge) for edge in edges]} if len(bodies) > 1 else {}
    return Kernel.model_validate(
        {"name": f"stream_{name}", "title": f"{name} of gpu-stream", "source": "gpu-stream", "body": body, **entries}
    )


def _body(name: str, first: bool, last: bool) -> list[Instruction]:
    """Returns the instructions of a warp, which is or is not the first or the last one of its block."""
    reads, writes = STREAMS[name]
    data, near = [f"r{k}" for k in range(reads)], [f"n{k}" for k in range(NEIGHBOURS.get(name, 0))]
    loads = [Instruction("load", dst=register, access=_ELEMENT) for register in data]
    for number, register in enumerate(near):  # on the left and on the right in turn
        beyond = number < 2 and (first, last)[number]
        loads.append(
            Instruction("load", dst=register, access=_BESIDE if beyond else _ON_ITS_WAY, cost=_BEYOND if beyond else _SAME_BYTES)
        )
    if not writes:
        return [*loads, *_NOT_STORED]
    compute = [Instruction("fp64", dst="result", src=(*data, *near))] if reads else []
    compute += [Instruction("fp64", dst="result", src=("result",))] * (OPERATIONS.get(name, 1) - 1)
    store = [Instruction("store", src=("result",) if reads else (), access=_ELEMENT)]
    return [*loads, *compute, *store]


def measured() -> dict[str, dict[str, dict[int, float]]]:
    """Returns the measured bandwidths in GB/s: chip -> kernel -> threads of a block -> bandwidth.

    They are those of gpu-stream, and of the records in ../hardware, which have no `3pt` and `5pt`.
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in read_rows(HERE / "gpu_stream.csv"):
        for name in STREAMS:
            found.setdefault(row["chip"], {}).setdefault(name, {})[int(row["threads"])] = float(row[name])
    for title, chip in RECORDS.items():
        table = read_record(HERE.parent / "hardware" / f"{chip}.record").tables["streams"].where(elements=1, resident=BLOCKS)
        for kind, name in OF_RECORDS.items():
            part = table.where(kernel=kind)
            gbs = part.column("bytes") / part.column("median_ms") / 1e6
            found.setdefault(title, {})[name] = dict(zip(part.column("block").tolist(), gbs.tolist(), strict=True))
    return found


def chip_of(title: str) -> ws.Gpu:
    """Returns the chip of a name in the tables."""
    return ws.load_gpu(RECORDS.get(title, title))


def below_the_knee(curve: dict[int, float], share: float = 0.9) -> list[int]:
    """Returns the block sizes at which a curve is below a share of its peak."""
    peak = max(curve.values())
    return [threads for threads, gbs in curve.items() if gbs < share * peak]


def bandwidth(
    gpu: ws.Gpu,
    name: str,
    threads: int,
    *,
    bound: bool = True,
    sms: int = 8,
    warmup: int = 10_000,
    cycles: int = 50_000,
    seed: int = 0,
) -> float:
    """Returns the simulated bandwidth of the chip in GB/s, in the steady state of a slice."""
    launch = ws.Launch(block_warps=threads // WARP, resident_blocks=BLOCKS)
    run = ws.simulate(
        gpu,
        kernel(name, threads // WARP, bound=bound),
        launch=launch,
        sms=sms,
        warmup=warmup,
        cycles=cycles,
        seed=seed,
        replicates=1,
    )
    return float(run.bandwidth.values.mean())


def residency(gpu: ws.Gpu, name: str, threads: int, gbs: float) -> float:
    """Returns for how many cycles a seat is taken up by a block, from the bandwidth (Little's law)."""
    reads, writes = STREAMS[name]
    moved = BLOCKS * threads * BYTES * (reads + writes) * gpu.sms
    return moved * gpu.clock_ghz / gbs
