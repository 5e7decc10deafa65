"""warpsim kernels: prints a table of the kernels and their arguments, or the file of one."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, new_command, request
from warpsim.cli.output import add_file, add_json, check_template, print_file, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "kernels", _run, "list the kernels and their arguments, or print the file of one")
    add_file(parser, "kernel")
    add_json(parser, "the kernels, or one of them,")


def _run(options: argparse.Namespace) -> int:
    from warpsim.kernels import kernel_arguments, list_kernels, load_kernel
    from warpsim.kernels.files import kernel_title
    from warpsim.views.text_table import text_table

    check_template(options)
    if options.name is not None:
        with request():
            kernel = load_kernel(options.name)
        if options.json:
            print_json({"arguments": kernel_arguments(options.name), "kernel": kernel.model_dump(mode="json")})
        else:
            print_file("kernels", options.name, template=options.template)
        return DONE
    known = {name: (kernel_title(name), kernel_arguments(name)) for name in list_kernels()}
    if options.json:
        print_json([{"name": name, "title": title, "arguments": arguments} for name, (title, arguments) in known.items()])
    else:
        rows = [
            (name, title, ", ".join(f"{key}={value}" for key, value in arguments.items() if value != "" and key != "title"))
            for name, (title, arguments) in known.items()
        ]
        print(text_table(rows, ("name", "title", "arguments")))
    return DONE
