"""The decorators of the engine, and where its machine code is kept.

Nothing in the engine allocates, so it is compiled without numba's reference counting (`_nrt`): with it, handing an array from
one function to the next costs two atomic operations, and the whole engine ran fifteen times slower.

Numba's disk cache does not notice an edit in a callee of another file. So the cache lives in a folder that is named by a
hash of all engine sources and of numba's version: another engine, another folder.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config

Function = TypeVar("Function", bound=Callable[..., Any])


def _engine_hash() -> str:
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _cache_folder() -> Path:
    """The folder for this engine's machine code: under NUMBA_CACHE_DIR if set, else the user's cache, else a temporary one."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    for root in (Path(chosen), Path(tempfile.gettempdir())):
        folder = root / "warpsim" / f"engine-{_engine_hash()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise OSError(f"no folder to keep compiled code in: tried {chosen} and {tempfile.gettempdir()}; set NUMBA_CACHE_DIR")


CACHE_FOLDER = _cache_folder()


def jit(function: Function) -> Function:
    """Compiles an entry point: releases the GIL, kept on disk."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_FOLDER)  # read when the decorator runs; other users of numba keep theirs
    try:
        compiled: Function = numba.njit(function, nogil=True, cache=True, error_model="numpy", _nrt=False)
    finally:
        config.CACHE_DIR = before
    return compiled


def inline(function: Function) -> Function:
    """Compiles a part of the machine, always inlined into its callers: the state is many arrays, too many to pass.

    It is compiled for each set of argument types, and a bare 1, an int32 and an int64 are three: callers hand over np.int64.
    """
    compiled: Function = numba.njit(function, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
    return compiled


def rare(function: Function) -> Function:
    """Compiles a part of the machine that runs seldom, on its own, so that the frequent parts keep the registers."""
    compiled: Function = numba.njit(function, nogil=True, error_model="numpy", _nrt=False)
    return compiled
