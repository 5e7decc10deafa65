"""warpsim gpus: prints a table of the chips."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, new_command


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "gpus", _run, "list the chips")


def _run(_: argparse.Namespace) -> int:
    from warpsim.hardware.gpu import list_gpus, load_gpu
    from warpsim.views.text_table import text_table

    header = ("name", "chip", "year", "SMs", "GHz", "schedulers/SM", "warps/SM", "GB/s")
    rows = [
        (
            gpu.name,
            gpu.title,
            str(gpu.year),
            str(gpu.sms),
            f"{gpu.clock_ghz:g}",
            str(gpu.sm.schedulers),
            str(gpu.sm.max_warps),
            f"{gpu.memory.bandwidth_gbs:g}",
        )
        for gpu in sorted(map(load_gpu, list_gpus()), key=lambda gpu: gpu.year)
    ]
    print(text_table(rows, header))
    return DONE
