"""Errors of the front ends; each message names the file or function, and what is needed."""

from __future__ import annotations


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
