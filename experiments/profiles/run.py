"""How far is the replay of a profiled launch from what the profiler measured? Launches of public Nsight Compute reports.

The reports are not part of the project: `sources.csv` names repository, commit and path of each, and `clone.sh` brings them into
a folder, which the environment variable WARPSIM_PROFILES names. What is not there is counted, and left out. `later.csv` names
those that were replayed for the first time when all rules for the others had been made, `third.csv` others after those, and
`fourth.csv` others once more.
"""

from __future__ import annotations

import csv
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.profiles.api import profile_of
from warpsim.profiles.errors import MissingReaderError, ProfileError
from warpsim.profiles.replay import BUDGET
from warpsim.profiles.report import read_report
from warpsim.profiles.roofline import roofline

HERE = Path(__file__).parent
COLUMNS = (
    "repository", "commit", "file", "launch", "gpu", "kernel", "grid", "microseconds", "waves", "cycles",
    "cycles_simulated", "half_width",
    "roofline", "roofline_by", "ipc", "ipc_simulated", "warps", "warps_simulated", "instructions_ratio", "distance",
    "distance_folded", "largest", "share", "sampling", "inputs", "seconds", "failure",
)  # fmt: skip
FOLDED = {
    "dispatch_stall": "math_pipe_throttle",
    "drain": "long_scoreboard",
    "branch_resolving": "wait",
    "tex_throttle": "lg_throttle",
}
"""States that `distance_folded` takes as another one, on both sides."""

SHORT_MICROSECONDS = 20.0
"""Launches that are shorter, or below one wave, stand in a table of their own."""


KINDS = {
    "matrix multiplication": ("gemm", "matmul", "matul", "vectorize", "warp_tile", "double_buffering"),
    "transposition": ("naiveGmem", "transpose"),
    "elementwise": ("silu", "add", "copyGmem", "init_matrix", "set_halo"),
    "reduction": ("rms_norm", "dot_prod"),
    "stencil": ("semi_discrete", "tendencies"),
    "search with data-dependent accesses": ("nodeBy", "nodeCalc", "searchKernel"),
    "atomics": ("dot_prod_naive",),
}
"""Kind of a kernel -> parts of names; the longest part that a name holds counts."""

OTHER = "other"

INPUTS = {
    "init_matrix_half": ("the rate at which a T4 starts blocks",),
    "static_kernel": ("the rate at which an A100 starts blocks",),
}
"""Kernel -> rates of the chip that were read from its own launch, since no source was found."""


LISTS = {
    "sources.csv": ("launches.csv", "tables.md", "profiles.png"),
    "later.csv": ("later.csv", "later.md", "later.png"),
    "third.csv": ("third.csv", "third.md", "third.png"),
    "fourth.csv": ("fourth.csv", "fourth.md", "fourth.png"),
}
"""List of reports -> the files of its launches, tables and figure."""


def main(out: Path, *, full: bool = False) -> int:
    """Replays all launches, and writes the tables and the figures. `full`: five replicates and twice the work of each."""
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(os.environ.get("WARPSIM_PROFILES", "reports"))
    for listed, (launches, page, picture) in LISTS.items():
        rows = list(_replays(wanted(listed), folder, 5 if full else 2, 2 * BUDGET if full else BUDGET, out / launches))
        text = tables(rows)
        (out / page).write_text(text, encoding="utf-8")
        print(text)
        figure(rows, out / picture)
    return 0


def wanted(listed: str) -> list[dict[str, str]]:
    """Returns the reports of a list: repository, commit, path, license and launches."""
    with (HERE / listed).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def path_of(folder: Path, source: dict[str, str]) -> Path:
    """Returns the file of a report of a list in the folder that `clone.sh` fills."""
    return folder / source["repository"].replace("/", "+") / source["commit"][:8] / source["path"]


def _replays(
    reports: list[dict[str, str]], folder: Path, replicates: int, budget: int, path: Path
) -> Iterator[dict[str, Any]]:
    """Yields the rows of all launches. Each row is written at once; those that the file holds already are taken from it."""
    old: list[dict[str, Any]] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as stream:
            old = list(csv.DictReader(stream))
    yield from old
    known = {(row["repository"], row["commit"], row["file"]) for row in old}
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="")
        if not old:
            writer.writeheader()
        for source in reports:
            if (source["repository"], source["commit"], source["path"]) not in known:
                for row in _of_report(folder, source, replicates, budget):
                    writer.writerow(row)
                    stream.flush()
                    yield row


def _of_report(folder: Path, source: dict[str, str], replicates: int, budget: int) -> Iterator[dict[str, Any]]:
    base = {"repository": source["repository"], "commit": source["commit"], "file": source["path"]}
    path = path_of(folder, source)
    numbers = [int(number) for number in source["launches"].split()]
    try:
        found = {one.number: one for one in read_report(path)} if path.exists() else {}
    except (ProfileError, MissingReaderError) as error:
        yield from ({**base, "launch": number, "failure": str(error)} for number in numbers)
        return
    for number in numbers:
        row = {**base, "launch": number}
        if number not in found:
            yield {**row, "failure": "the report is not here"}
            continue
        try:
            yield row | _replayed(found[number], replicates, budget)
        except ValueError as error:
            yield row | {"failure": str(error).replace(str(path), "report")[:300]}


def _replayed(one: Any, replicates: int, budget: int) -> dict[str, Any]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profile = profile_of(one)
        replay = profile.replay(replicates=replicates, budget=budget)
    bounds = roofline(profile)
    by = max(bounds, key=bounds.__getitem__)
    measured = profile.measured
    launch = profile.launch
    return {
        "gpu": profile.gpu.title,
        "kernel": profile.kernel.name,
        "grid": launch.blocks,
        "microseconds": round(measured.microseconds, 2),
        "waves": round((launch.blocks or 1) / profile.gpu.sms / (launch.resident_blocks or 1), 3),
        "cycles": round(measured.cycles),
        "cycles_simulated": round(replay.cycles.mean),
        "half_width": round(replay.cycles.half_width),
        "roofline": round(bounds[by]),
        "roofline_by": by,
        "ipc": round(measured.ipc, 4),
        "ipc_simulated": round(replay.ipc.mean, 4),
        "warps": "" if measured.warps is None else round(measured.warps, 2),
        "warps_simulated": round(replay.warps.mean, 2),
        "instructions_ratio": round(replay.instructions, 4),
        "distance": round(distance(measured.shares, replay.shares), 4),
        "distance_folded": round(distance(fold(measured.shares), fold(replay.shares)), 4),
        "largest": largest(measured.shares, replay.shares),
        "share": f"{replay.share:.3g}",
        "sampling": replay.sampling,
        "inputs": "; ".join((*profile.inputs, *INPUTS.get(profile.kernel.name, ()), *_of_another(profile.notes))),
        "seconds": round(time.perf_counter() - began, 1),
        "failure": "",
    }


def _of_another(notes: tuple[str, ...]) -> list[str]:
    """Returns what a chip without a file takes from another one."""
    return [note.partition(": ")[2] for note in notes if "params/gpus" in note]


def distance(a: dict[str, float], b: dict[str, float]) -> float:
    """Returns the total variation distance of two mixes of states; NaN where one of them is not known."""
    return 0.5 * sum(abs(a.get(state, 0.0) - b.get(state, 0.0)) for state in {*a, *b}) if a and b else math.nan


def fold(shares: dict[str, float]) -> dict[str, float]:
    """Returns a mix of states in which those of FOLDED are taken as another one."""
    found: dict[str, float] = {}
    for state, share in shares.items():
        found[FOLDED.get(state, state)] = found.get(FOLDED.get(state, state), 0.0) + share
    return found


def largest(measured: dict[str, float], simulated: dict[str, float]) -> str:
    """Returns the two states that differ most, simulated/measured in per cent."""
    states = sorted({*measured, *simulated}, key=lambda s: -abs(measured.get(s, 0.0) - simulated.get(s, 0.0)))[:2]
    return ", ".join(f"{s} {100 * simulated.get(s, 0.0):.0f}/{100 * measured.get(s, 0.0):.0f}" for s in states)


def error(row: dict[str, Any], column: str = "cycles_simulated") -> float:
    """Returns simulated over measured cycles - 1, in per cent."""
    return 100 * (float(row[column]) / float(row["cycles"]) - 1)


def tables(rows: list[dict[str, Any]]) -> str:
    """Returns the tables of the page, in Markdown."""
    good = [row for row in rows if not row["failure"]]
    long = [row for row in good if float(row["microseconds"]) >= SHORT_MICROSECONDS and float(row["waves"]) >= 1]
    lines = [
        f"{len(rows)} launches, {len(good)} replayed.",
        "",
        "| launches | n | cycles: mean / median / p90 of the error, % | roofline, the same | IPC median, % | warps median, % "
        "| stall mix: median / p90 distance, % | folded |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines.append(_line("all", good))
    lines.append(_line("at least 20 us and one wave", long))
    lines.append(_line("the same, each kernel one vote", _votes(long)))
    for chip in sorted({row["gpu"] for row in long}):
        lines.append(_line(chip, [row for row in long if row["gpu"] == chip]))
    for kind in dict.fromkeys((*KINDS, OTHER)):
        of_kind = [row for row in _votes(long) if kind_of(row["kernel"]) == kind]
        if of_kind:
            lines.append(_line(f"{kind}, each kernel one vote", of_kind))
    lines.append(_line("each kernel one vote, without those of which a rate is an input", _votes(_predicted(long))))
    lines += ["", "What the launches give beside machine code, grid and blocks:", "", "| input | launches |", "| --- | --- |"]
    given = Counter(what for row in good for what in row["inputs"].split("; "))
    lines += [f"| {what} | {count} |" for what, count in given.most_common()]
    worst = sorted(long, key=lambda row: -abs(error(row)))[:10]
    lines += [
        "",
        "The worst ten:",
        "",
        "| chip | kernel | grid | cycles | error, % | roofline, % | largest differences of states |",
    ]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    lines += [
        f"| {row['gpu']} | {row['kernel']} | {row['grid']} | {row['cycles']} | {error(row):+.0f} | {error(row, 'roofline'):+.0f} "
        f"| {row['largest']} |"
        for row in worst
    ]
    lines += ["", "Not replayed:", ""]
    lines += [
        f"* {count}: {cause}" for cause, count in Counter(_cause(row["failure"]) for row in rows if row["failure"]).most_common()
    ]
    if len(good) == len(rows):
        lines.append("None.")
    return "\n".join(lines) + "\n"


def kind_of(kernel: str) -> str:
    """Returns the kind of a kernel, by its name."""
    fits = [(len(part), kind) for kind, parts in KINDS.items() for part in parts if part in kernel]
    return max(fits)[1] if fits else OTHER


def _predicted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["kernel"] not in INPUTS]


def _cause(failure: str) -> str:
    return failure.rpartition(": ")[2] if "launch " in failure else failure


def _votes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns for each kernel of a chip the launch with the median error."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["repository"], row["gpu"], row["kernel"]), []).append(row)
    return [sorted(group, key=lambda row: abs(error(row)))[len(group) // 2] for group in groups.values()]


def _line(name: str, rows: list[dict[str, Any]]) -> str:
    if not rows:
        return f"| {name} | 0 | | | | | | |"

    def spread(values: list[float]) -> str:
        array = np.abs(np.array(values))
        return f"{array.mean():.1f} / {np.median(array):.1f} / {np.quantile(array, 0.9):.1f}"

    def relative(a: str, b: str) -> str:
        pairs = [(float(row[a]), float(row[b])) for row in rows if row[b] not in ("", None) and float(row[b])]
        return f"{np.median([100 * abs(x / y - 1) for x, y in pairs]):.1f}" if pairs else ""

    def mix(column: str) -> str:
        values = np.array([100 * float(row[column]) for row in rows])
        return f"{np.nanmedian(values):.1f} / {np.nanquantile(values, 0.9):.1f}"

    return (
        f"| {name} | {len(rows)} | {spread([error(row) for row in rows])} | {spread([error(row, 'roofline') for row in rows])} "
        f"| {relative('ipc_simulated', 'ipc')} | {relative('warps_simulated', 'warps')} "
        f"| {mix('distance')} | {mix('distance_folded')} |"
    )


def figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Draws simulated over measured: cycles with the roofline, IPC, achieved warps, and distances of the stall mixes."""
    import matplotlib.pyplot as plt

    good = [row for row in rows if not row["failure"]]
    if not good:
        return
    made, axes = plt.subplots(1, 4, figsize=(14, 4.4), layout="constrained")
    chips = sorted({row["gpu"] for row in good})
    for number, chip in enumerate(chips):
        of = [row for row in good if row["gpu"] == chip]
        x = [float(row["cycles"]) for row in of]
        color = f"C{number}"
        axes[0].plot(x, [1 + error(row) / 100 for row in of], "o", ms=4, color=color, label=chip)
        axes[0].plot(x, [1 + error(row, "roofline") / 100 for row in of], "x", ms=3, color=color, alpha=0.5)
        axes[1].plot([float(r["ipc"]) for r in of], [float(r["ipc_simulated"]) for r in of], "o", ms=4, color=color)
        of = [row for row in of if row["warps"] not in ("", None)]
        axes[2].plot([float(r["warps"]) for r in of], [float(r["warps_simulated"]) for r in of], "o", ms=4, color=color)
        axes[3].plot([float(r["cycles"]) for r in of], [100 * float(r["distance"]) for r in of], "o", ms=4, color=color)
    axes[0].set(
        xscale="log", yscale="log", xlabel="measured cycles", ylabel="simulated / measured", title="cycles; crosses: roofline"
    )
    axes[0].axhline(1, color="0.5", lw=1)
    made.legend(loc="outside lower center", ncols=5, fontsize=7)
    for axis, title in ((axes[1], "IPC"), (axes[2], "achieved warps of an SM")):
        axis.axline((0, 0), slope=1, color="0.5", lw=1)
        axis.set(xlabel="measured", ylabel="simulated", title=title)
    axes[3].set(xscale="log", xlabel="measured cycles", ylabel="total variation, %", title="distance of the stall mixes")
    made.savefig(path, dpi=110)
    plt.close(made)
