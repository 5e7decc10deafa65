"""warpsim gpus: prints a table of the chips, or the file of one."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, new_command, request
from warpsim.cli.output import add_file, add_json, check_template, print_file, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "gpus", _run, "list the chips, or print the file of one with its sources")
    add_file(parser, "chip")
    add_json(parser, "the chips, or one of them,")


def _run(options: argparse.Namespace) -> int:
    from warpsim.hardware.gpu import list_gpus, load_gpu
    from warpsim.views.text_table import text_table

    check_template(options)
    if options.name is not None:
        with request():
            gpu = load_gpu(options.name)
        if options.json:
            print_json(gpu.to_dict())
        else:
            print_file("gpus", options.name, template=options.template)
            if not options.template:
                _print_filled_in(options.name)
        return DONE
    header = ("name", "chip", "year", "SMs", "GHz", "schedulers/SM", "warps/SM", "GB/s")
    gpus = sorted(map(load_gpu, list_gpus()), key=lambda gpu: gpu.year)
    numbers = [
        (g.name, g.title, g.year, g.sms, g.clock_ghz, g.sm.schedulers, g.sm.max_warps, g.memory.bandwidth_gbs) for g in gpus
    ]
    if options.json:
        print_json([dict(zip(header, row, strict=True)) for row in numbers])
    else:
        rows = [[f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row] for row in numbers]
        print(text_table(rows, header))
    return DONE


def _print_filled_in(name: str) -> None:
    """Prints, as comments of a chip file, what the file leaves out, with the source of each value."""
    import tomlkit

    from warpsim.hardware import files
    from warpsim.hardware.architectures import filled_in, legend

    data = files.read_toml(files.resolve("gpus", name))
    values = filled_in(data)
    if not values:
        return
    print(f"\n# What this file leaves out is that of {data['architecture']}, or follows from the rest by a rule.")
    print(*legend(data["architecture"]), "#", sep="\n")
    words = [f"{key} = {tomlkit.item(value).as_string()}" for key, value, _ in values]
    width = max(map(len, words))
    for word, (_, _, source) in zip(words, values, strict=True):
        print(f"# {word:<{width}}  # {source}")
