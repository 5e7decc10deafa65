"""Errors and warnings of the front ends; each message names the file or function, and what is needed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable


class FrontEndError(ValueError):
    """A kernel cannot be imported: a damaged binary, an unknown function, flow or arguments that are not supported."""


class CompileError(FrontEndError):
    """The CUDA compiler refused a source; the message holds its log."""


class NoKernelError(FrontEndError):
    """A binary holds no kernel; of a source, the message names the templates of kernels."""


class MissingToolError(RuntimeError):
    """A package or a device that is needed is not there; the message says which."""


class AssumptionWarning(UserWarning):
    """An import had to assume something; the message says what, where, and how to state it."""


def warn(name: str, notes: Iterable[str]) -> None:
    """Warns of what had to be assumed for a kernel or a file, at the line that called this package."""
    package, caller, level = __name__.partition(".")[0], sys._getframe(1), 2
    while caller.f_back is not None and caller.f_globals.get("__name__", "").partition(".")[0] == package:
        caller, level = caller.f_back, level + 1
    for note in dict.fromkeys(notes):
        warnings.warn(f"{name}: {note}", AssumptionWarning, stacklevel=level)
