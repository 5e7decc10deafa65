"""Tells when the engine is compiled."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any

_LOGGER = logging.getLogger("warpsim")


@functools.cache
def announce_compilation() -> None:
    """Makes a compilation of the engine log a line when it starts, and one when it ends.

    Machine code that is loaded from the cache is not compiled, and logs nothing.
    """
    from numba.core import event

    from warpsim.jit.decorators import CACHE_FOLDER

    class Listener(event.Listener):  # type: ignore[misc]
        start = 0.0

        def on_start(self, event: Any) -> None:
            if _ours(event):
                self.start = time.perf_counter()
                kept = "; the machine code is kept for later runs" if CACHE_FOLDER is not None else ""
                _LOGGER.info("compiling the engine, which takes up to a minute%s", kept)

        def on_end(self, event: Any) -> None:
            if _ours(event):
                _LOGGER.info("compiled in %.0f s", time.perf_counter() - self.start)

    event.register("numba:compile", Listener())


def _ours(event: Any) -> bool:
    """Returns whether a compilation is that of the entry point that holds almost the whole engine."""
    function = event.data["dispatcher"].py_func
    return (function.__module__, function.__name__) == ("warpsim.engine.chip", "run")
