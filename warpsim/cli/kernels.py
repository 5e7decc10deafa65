"""warpsim kernels: prints a table of the kernels and their arguments."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, new_command


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "kernels", _run, "list the kernels and their arguments")


def _run(_: argparse.Namespace) -> int:
    from warpsim.kernels import kernel_arguments, list_kernels, load_kernel
    from warpsim.views.text_table import text_table

    rows = []
    for name in list_kernels():
        arguments = ", ".join(f"{key}={value}" for key, value in kernel_arguments(name).items())
        rows.append((name, load_kernel(name).title, arguments))
    print(text_table(rows, ("name", "title", "arguments")))
    return DONE
