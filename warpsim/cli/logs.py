"""Messages of the commands on standard error, through Python's `logging`."""

from __future__ import annotations

import argparse
import logging
import sys


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Adds the options -v and -q."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-v", "--verbose", action="store_true", help="also say what takes how long")
    how.add_argument("-q", "--quiet", action="store_true", help="no progress and no notes; only results, warnings and errors")


class _Handler(logging.Handler):
    """Writes to the standard error of the moment, which tests replace; each warning once."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if record.levelno == logging.WARNING:
            if text in self.warnings:
                return
            self.warnings.add(text)
        print(text, file=sys.stderr, flush=True)


def show_messages(options: argparse.Namespace) -> None:
    """Shows the messages of the logger "warpsim": warnings with --quiet, everything with --verbose, notes otherwise."""
    logger = logging.getLogger("warpsim")
    for handler in [one for one in logger.handlers if isinstance(one, _Handler)]:
        logger.removeHandler(handler)
    handler = _Handler()
    handler.setFormatter(logging.Formatter("warpsim: %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    quiet, verbose = getattr(options, "quiet", False), getattr(options, "verbose", False)
    logger.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
