"""Ctrl-C in the middle of a sweep: it is never lost, and comes to no process but the first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_kept() -> Iterator[Callable[[], None]]:
    """Gives a function that raises KeyboardInterrupt where one has come, though a library has dropped it.

    pydantic does: what is raised while it calls a function of Python is lost now and then. Only signals that
    raise KeyboardInterrupt as Python has it are kept, and only in the main thread, where they come.
    """
    came = threading.Event()

    def keep(number: int, frame: object) -> None:
        came.set()
        raise KeyboardInterrupt

    def check() -> None:
        if came.is_set():
            raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    ours = [name for name in (signal.SIGINT, signal.SIGTERM) if here and signal.getsignal(name) is signal.default_int_handler]
    for name in ours:
        signal.signal(name, keep)
    try:
        yield check
    finally:
        for name in ours:
            signal.signal(name, signal.default_int_handler)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """SIGINT waits until the end, where the system can hold signals; processes that start meanwhile never get it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
