"""The command line: a file for each command. A command checks the request, makes one call into the API, and prints.

Exit codes: 0 done; 1 the work failed; 2 the request was wrong, with a message on standard error. What a
command does not need is not imported: most of a short command's time is imports.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from warpsim import __version__
from warpsim.cli import (
    advise,
    compare,
    experiment,
    gpus,
    kernels,
    plan,
    plot,
    report,
    simulate,
    slurm,
    status,
    sweep,
    trace,
    verify,
)
from warpsim.cli.common import FAILED, WRONG, RequestError, WorkError

COMMANDS = (gpus, kernels, simulate, trace, advise, compare, plan, sweep, slurm, status, verify, plot, report, experiment)
"""The commands, in the order of the help page; each module has an `add`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        code = run(options)
        sys.stdout.flush()
        return code
    except RequestError as error:
        return _say(str(error), WRONG)
    except BrokenPipeError:  # the reader has seen enough, as in `warpsim gpus | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (WorkError, OSError) as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt:
        return _say("interrupted; the same command goes on where this one stopped", FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="warpsim", description="A Monte Carlo simulator of GPU warp schedulers.")
    parser.add_argument("--version", action="version", version=f"warpsim {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser


def _say(message: str, code: int) -> int:
    print(f"warpsim: {message}", file=sys.stderr)
    return code
