"""The command line, one module per command. A command checks the request, makes one call into the API, and prints.

Exit codes: 0: success; 1: the work failed; 2: the request was wrong, with a message on standard error. Modules import the rest
of the package inside functions, because imports take most of the time of a short command.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from warpsim import __version__
from warpsim.cli import (
    advise,
    compare,
    completion,
    experiment,
    fit,
    gpus,
    import_,
    kernels,
    measure,
    plan,
    plot,
    profile,
    report,
    simulate,
    slurm,
    status,
    sweep,
    time,
    trace,
    verify,
)
from warpsim.cli.common import FAILED, WRONG, CommandParser, RequestError, WorkError
from warpsim.cli.logs import show_messages

COMMANDS = (
    gpus, kernels, import_, simulate, time, profile, trace, advise, compare, plan, sweep, slurm, status, verify, plot, report,
    experiment, measure, fit, completion,
)  # fmt: skip
"""The modules of the commands, in the order of the help page. Each has a function `add`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # closed by the caller, as by a service
    sys.stderr = sys.stderr or open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know signs such as ±
    options = argparse.Namespace(interrupted="interrupted")
    try:
        options = make_parser().parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        show_messages(options)
        code = run(options)
        sys.stdout.flush()
        return code
    except RequestError as error:
        return _print_error(str(error), WRONG)
    except BrokenPipeError:  # the reader has closed the pipe, as in `warpsim gpus | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (WorkError, OSError) as error:
        return _print_error(str(error), FAILED)
    except KeyboardInterrupt:
        return _print_error(options.interrupted, FAILED)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="warpsim", description="A Monte Carlo simulator of GPU warp schedulers.")
    parser.add_argument("--version", action="version", version=f"warpsim {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS:
        command.add(commands)
    parser.set_defaults(program=parser)  # `warpsim completion` describes it
    return parser


def _print_error(message: str, code: int) -> int:
    print(f"warpsim: {message}", file=sys.stderr)
    return code
