"""warpsim fit: fits the memory of a chip to a measured curve, and writes the chip's file."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from warpsim.cli.common import DONE, Commands, RequestError, check_output, new_command, request
from warpsim.cli.output import add_json, print_json

_logger = logging.getLogger("warpsim")


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "fit", _run, "fit a chip's memory to a measured curve, and write its file")
    parser.add_argument(
        "curve", metavar="MEASURED.csv", help="columns bandwidth_gbs and latency_cycles or latency_ns, or warps and bandwidth_gbs"
    )
    parser.add_argument("--gpu", required=True, metavar="GPU", help="the chip to start from: a name or a file")
    parser.add_argument(
        "--bandwidth", type=float, metavar="GB/s", help="sustained bandwidth (default: the chip's, or the curve's highest)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="CHIP.toml", help="the new file; its stem is the chip's name"
    )
    add_json(parser, "the fitted memory, the errors, and doubts about the fit")


def _run(options: argparse.Namespace) -> int:
    from warpsim.analysis.measured_curve import fit_measured, read_curve, write_fitted
    from warpsim.hardware.chip_file import check_fitted
    from warpsim.hardware.gpu import load_gpu
    from warpsim.views.text_table import text_table

    output: Path = options.output
    check_output(output, ["toml"])
    with request():
        gpu = load_gpu(options.gpu)
        try:
            measured = read_curve(options.curve, gpu)
        except OSError as error:
            raise RequestError(f"{options.curve}: {error.strerror}") from error
        check_fitted(output, options.gpu)
        highest, pins = measured.bandwidth_gbs.max(), gpu.memory.pin_bandwidth_gbs
        if highest > pins:
            text = "the curve reaches %g GB/s, and the memory of %s only %g: the new chip gets as much; does a cache serve it?"
            _logger.warning(text, highest, gpu.name, pins)
        found = fit_measured(gpu, measured, sustained_gbs=options.bandwidth)
        write_fitted(output, options.gpu, found, Path(options.curve).name, options.bandwidth)
    for doubt in found.doubts:
        _logger.warning("doubtful: %s", doubt)
    if options.json:
        memory = found.gpu.memory
        print_json({
            "output": output, "latency_cycles": memory.latency_cycles, "dram_servers": memory.queue.dram_servers,
            "dram_gbs": memory.queue.dram_gbs, "rms_percent": found.rms_percent, "errors_percent": found.errors_percent,
            "servers_as_good": found.as_good, "doubts": found.doubts,
        })  # fmt: skip
        return DONE
    if measured.warps is None:
        assert measured.latency_cycles is not None
        header, values = ("GB/s", "latency, cycles", "error, %"), measured.latency_cycles
        first = measured.bandwidth_gbs
    else:
        header, values, first = ("warps", "GB/s", "error, %"), measured.bandwidth_gbs, measured.warps.astype(float)
    rows = [
        (f"{x:g}", f"{y:.5g}", "saturated" if error != error else f"{error:+.1f}")
        for x, y, error in zip(first, values, found.errors_percent, strict=True)
    ]
    print(text_table(rows, header))
    memory = found.gpu.memory
    servers = f"{memory.queue.dram_servers} servers of {memory.queue.dram_gbs:g} GB/s together"
    print(f"{output}: unloaded latency {memory.latency_cycles} cycles, {servers}")
    print(f"rms error {found.rms_percent:g} %")
    return DONE
