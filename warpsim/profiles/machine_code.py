"""A kernel from the machine code that a report holds, where the profiler did not count executions by instruction.

Most reports are of this kind: the profiler's basic set has no such counts. The launch is in the report, and the front end of
machine code does the rest; what follows from arguments and data has to be given to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpsim.frontends.api import import_function
from warpsim.frontends.caches.walk import OtherSize
from warpsim.frontends.launch.keys import Key
from warpsim.frontends.machine_code.nvdisasm import described_by
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.instruction import Access
from warpsim.kernels.program import Kernel
from warpsim.profiles.chip import name_of, sms_of
from warpsim.profiles.code import machine_function
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.launch import ProfiledLaunch
from warpsim.profiles.report import read_code


@dataclass(frozen=True)
class LaunchedCode:
    """The machine code of a launch.

    Attributes:
        function: the kernel.
        launch: grid, block and bytes of dynamic shared memory, as the front ends take them, such as "64x64x1,16x16x1,0".
        caches: the chip of the report, as far as it is known, for `caches_of`.
    """

    function: MachineFunction
    launch: str
    caches: OtherSize | str | None


def launched_code(path: str | os.PathLike[str], launch: int = 0) -> LaunchedCode:
    """Returns the machine code of a launch of a report.

    Raises:
        MissingReaderError: the package ncu-report is not installed.
        ProfileError: the report cannot be read, has no launch of this number, or lacks its machine code or its grid; or the
            reader prints no text of the instructions, as of Volta.
    """
    one = read_code(path, launch)
    where = f"{one.report}, launch {one.number}"
    if not one.sections:
        raise ProfileError(f"{where}: the machine code of {one.name} is not in the report")
    if not any(each.text for each in one.code):
        raise ProfileError(f"{where}: the reader prints no text of instructions of sm_{one.arch}")
    function = described_by(machine_function(one, as_it_stands=True), one.sections[0].function)
    sizes = ["x".join(f"{one.need(f'launch__{what}_dim_{axis}'):.0f}" for axis in "xyz") for what in ("grid", "block")]
    dynamic = one.get("launch__shared_mem_per_block_dynamic") or 0
    return LaunchedCode(function, ",".join([*sizes, f"{dynamic:.0f}"]), _caches(one))


def _caches(launch: ProfiledLaunch) -> OtherSize | str | None:
    """Returns whose caches those of a launch are: of its own chip, with SMs and an L2 of the size that the report tells."""
    name, sms, l2_bytes = name_of(launch), sms_of(launch), launch.get("device__attribute_l2_cache_size")
    return OtherSize(name, sms, round(l2_bytes)) if sms and l2_bytes else name


def from_report(
    path: str | os.PathLike[str],
    launch: int = 0,
    *,
    args: Mapping[Any, Any] | Sequence[Any] = (),
    trips: Mapping[Key, int] | None = None,
    probabilities: Mapping[Key, float] | None = None,
    patterns: Mapping[Key, str | int | Access] | None = None,
    caches: Gpu | str | None = None,
) -> Kernel:
    """Imports a kernel from the machine code in a report, for the grid and the blocks of one of its launches.

    `from_profile` replays a launch with the counts of the profiler, and is nearer to the truth; this needs no counts.

    Args:
        path: the report (.ncu-rep).
        launch: number of the launch, from 0.
        args: arguments of the kernel, by number or in order; see `warpsim.kernels.from_cuda` for this and what follows.
        trips: loop -> number of trips.
        probabilities: branch -> probability that a warp does not jump.
        patterns: access -> its pattern.
        caches: chip whose caches decide how often accesses hit; None: that of the report.

    Raises:
        MissingReaderError: the package ncu-report is not installed.
        ProfileError: as in `launched_code`.
        FrontEndError: as in `warpsim.kernels.from_cuda`.
    """
    code = launched_code(path, launch)
    whose = code.caches if caches is None else caches
    return import_function(code.function, code.launch, args, trips, probabilities, patterns, whose)
