"""warpsim kernels: the kernels and their arguments, as a table."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, new_command


def add(commands: Commands) -> None:
    """Add the command."""
    new_command(commands, "kernels", _run, "list the kernels and their arguments")


def _run(_: argparse.Namespace) -> int:
    from warpsim.kernels import kernel_arguments, list_kernels, load_kernel
    from warpsim.views.summary import table

    rows = []
    for name in list_kernels():
        arguments = ", ".join(f"{key}={value}" for key, value in kernel_arguments(name).items())
        rows.append((name, load_kernel(name).title, arguments))
    print(table(rows, ("name", "title", "arguments")))
    return DONE
