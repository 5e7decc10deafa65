"""warpsim measure: microbenchmarks on this machine's GPU, and a chip file from them."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.cli.common import DONE, Commands, RequestError, WorkError, check_output, make_output_folder, new_command
from warpsim.cli.output import add_json, print_json

if TYPE_CHECKING:
    from warpsim.measure.values import Value

_logger = logging.getLogger("warpsim")


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "measure", _run, "measure this machine's GPU, and write a chip file")
    parser.add_argument("-o", "--output", required=True, metavar="CHIP.toml", help="the chip file; its stem is the chip's name")
    parser.add_argument("--record", metavar="FOLDER", help="where the raw numbers go (default: CHIP.record beside the chip file)")
    parser.add_argument("--from-record", metavar="FOLDER", help="measure nothing: evaluate the raw numbers of this folder")
    parser.add_argument("--device", type=int, metavar="N", help="number of the GPU (default: 0)")
    parser.add_argument("--quick", action="store_true", help="fewer points, in a third of the time")
    add_json(parser, "the measured values, doubts about them, and the files written")


def _run(options: argparse.Namespace) -> int:
    if options.from_record is not None:
        given = {"record": options.record is not None, "device": options.device is not None, "quick": options.quick}
        for name in (name for name, is_given in given.items() if is_given):
            raise RequestError(f"--{name}: must be left out with --from-record, which measures nothing")
    output = Path(options.output)
    if not output.parent.is_dir():
        raise RequestError(f"-o = {options.output}: there is no folder {output.parent}")

    from warpsim.frontends.errors import FrontEndError, MissingToolError
    from warpsim.measure.benchmarks import run_benchmarks
    from warpsim.measure.chipfile import IncompleteError, check_path, write_chip
    from warpsim.measure.derive import derive, lines
    from warpsim.measure.device import CudaDevice, DeviceError
    from warpsim.measure.plausibility import doubts
    from warpsim.measure.record import Record, RecordError, read_record
    from warpsim.measure.session import FULL, QUICK

    try:
        check_path(output)
    except ValueError as error:
        raise RequestError(f"-o: {error}") from error
    check_output(output, ["toml"])
    folder = Path(options.from_record if options.from_record is not None else options.record or output.with_suffix(".record"))
    try:
        if options.from_record is not None:
            record = read_record(folder)
        else:
            effort = QUICK if options.quick else FULL
            device = CudaDevice(options.device or 0)
            make_output_folder("--record", folder)
            _logger.info("%s; raw numbers go to %s", device.properties.name, folder)
            record = run_benchmarks(device, effort, say=_logger.info, keep=partial(Record.write, folder=folder))
            record.write(folder)
    except (MissingToolError, RecordError) as error:
        raise RequestError(str(error)) from error
    except (FrontEndError, DeviceError) as error:
        raise WorkError(str(error)) from error
    try:
        values = derive(record)
        written = write_chip(output, record, values, finish=partial(_fit_queue, values=values))
    except (RecordError, IncompleteError) as error:
        raise RequestError(f"{folder}: {error}") from error
    doubtful = list(doubts(record, values))
    for doubt in doubtful:
        _logger.warning("doubtful: %s", doubt)
    if options.json:
        found = {name: {"value": value.value, "unit": value.unit, "how": value.how} for name, value in values.items()}
        print_json({"values": found, "doubts": doubtful, "files": written})
        return DONE
    for line in lines(values):
        print(line)
    for path in written:
        print(f"wrote {path}")
    return DONE


def _fit_queue(chip: Path, values: Mapping[str, Value]) -> None:
    """Fits the queue of a chip file to the measured curve of latency against throughput, where it has enough points."""
    import numpy as np

    from warpsim.analysis.measured_curve import CurveError, MeasuredCurve, fit_measured, write_fitted
    from warpsim.hardware.gpu import load_gpu

    _, gbs, cycles = np.array(values["memory.contention_curve"].value).T
    _logger.info("fitting the queue of the memory to the measured curve")
    try:
        found = fit_measured(load_gpu(chip), MeasuredCurve(gbs, cycles))
    except CurveError as error:
        _logger.warning("the queue of the memory is not fitted, but follows the rules: %s", error)
        return
    write_fitted(chip, chip, found, "latency against throughput (V 6.4)")
    for doubt in found.doubts:
        _logger.warning("doubtful: the queue of the memory: %s", doubt)
    _logger.info("the queue of the memory: rms error %g %% at the points of the curve", found.rms_percent)
