"""What the loads of profiled launches miss, as counted and as walked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsim.frontends.caches.reuse import hits_of
from warpsim.frontends.caches.until_enough import kind_of
from warpsim.frontends.caches.walk import STORE, caches_of
from warpsim.frontends.execution.evaluate import evaluate
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.launch.parameters import argument_bytes
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.program.convert import Requirements
from warpsim.frontends.waits.dependences import waits_of
from warpsim.profiles.launch import ProfiledLaunch
from warpsim.profiles.machine_code import launched_code
from warpsim.profiles.report import read_report

_LOADS = "pipe_lsu_mem_global_op_ld"


@dataclass(frozen=True)
class Found:
    """What the loads of a launch miss: sectors that L1 misses for each request of a warp, and which share of these L2 misses."""

    gpu: str
    function: str
    grid: str
    block: str
    sectors: float  # for each request
    l1_counted: float
    l1_walked: float
    l2_counted: float
    l2_walked: float


def of_launch(row: Mapping[str, str], folder: Path) -> Found:
    """Walks the accesses of one launch through the caches of its GPU."""
    path = folder / row["repository"].replace("/", "+") / row["commit"][:8] / row["path"]
    one = read_report(path)[int(row["launch"])]
    stated = (each.split("=") for each in row["arguments"].split())
    arguments = {int(number): float(value) if "." in value else int(value) for number, value in stated}
    l1, l2 = walked(path, one, arguments)
    requests, sectors = (one.need(f"l1tex__t_{what}_{_LOADS}.sum") for what in ("requests", "sectors"))
    hits = one.get(f"l1tex__t_sectors_{_LOADS}_lookup_hit.sum") or 0.0
    missed = one.get(*(f"lts__t_sectors_srcunit_tex_{what}lookup_miss.sum" for what in ("op_read_", ""))) or 0.0
    asked = one.need("lts__t_sectors_srcunit_tex_op_read.sum")
    size = {what: "x".join(f"{one.need(f'launch__{what}_dim_{axis}'):.0f}" for axis in "xy") for what in ("grid", "block")}
    gpu = str(one.metrics["device__attribute_display_name"]).removeprefix("NVIDIA ")
    return Found(
        gpu, row["function"], size["grid"], size["block"], sectors / requests, (sectors - hits) / requests, l1, missed / asked, l2
    )


def walked(path: Path, one: ProfiledLaunch, arguments: Mapping[int, float]) -> tuple[float, float]:
    """Returns what the loads of a launch miss in L1, and what in L2 of that."""
    code = launched_code(path, one.number)
    function, geometry = code.function, as_geometry(code.launch)
    given = Given(make_flow(function), geometry, argument_bytes(function, arguments))
    resources = Requirements(function.registers, function.shared_bytes + geometry.dynamic_shared)
    caches = caches_of(function.arch, resources, geometry.block_warps, code.caches)
    if caches is None:
        raise ValueError(f"{path}: the caches of sm_{function.arch} are not known")
    evaluation = evaluate(given)
    found = hits_of(given, evaluation, waits_of(given.flow), caches, {})
    requests = beyond_l1 = beyond_l2 = 0.0
    for place, hits in found.items():
        instruction, tally = function.code[place[1]], evaluation.accesses[place]
        if kind_of(instruction, evaluation.space_of(place, instruction)) != STORE:
            requests += tally.warps
            beyond_l1 += tally.sectors * (1.0 - hits.l1)
            beyond_l2 += tally.warps * (1.0 - hits.l1) * (1.0 - hits.l2) * hits.sectors
    return beyond_l1 / requests, beyond_l2 / beyond_l1
