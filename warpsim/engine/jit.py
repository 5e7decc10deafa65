"""The decorators of the engine, and where its machine code is kept.

Nothing in the engine allocates, so it is compiled without numba's reference counting (`_nrt`): with it, handing an array from
one function to the next costs two atomic operations, and the whole engine ran fifteen times slower.

Numba makes machine code, and two wrappers, of every function that another one calls, although all of them end up inside the
entry points. A part stays intermediate code here, and LLVM optimizes it only where it ends up: that takes a third of the time.

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
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

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


# How everything is compiled. Nothing allocates, divides by zero on purpose, or calls back into Python.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


class _PartLibrary(JITCodeLibrary):
    """The intermediate code of a part: machine code is made of the entry points only, which hold all parts that they call."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        pass  # there is no machine code that reads it


class _PartCompiler(Compiler):
    """Compiles a part into intermediate code."""

    def define_pipelines(self) -> Any:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _Part(CPUDispatcher):
    """A function that others call in compiled code. A call from Python compiles it for itself, which only tests need."""

    def __call__(self, *arguments: Any) -> Any:
        if not hasattr(self, "alone"):
            self.alone = numba.njit(self.py_func, **_OPTIONS)
        return self.alone(*arguments)


def _part(function: Function, **options: Any) -> Function:
    if config.DISABLE_JIT:
        return function
    options = {"nopython": True, "no_cpython_wrapper": True, **_OPTIONS, **options}
    part: Function = _Part(function, targetoptions=options, pipeline_class=_PartCompiler)
    return part


def jit(function: Function) -> Function:
    """Compiles an entry point: releases the GIL, kept on disk."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_FOLDER)  # read when the decorator runs; other users of numba keep theirs
    try:
        compiled: Function = numba.njit(function, cache=True, **_OPTIONS)
    finally:
        config.CACHE_DIR = before
    return compiled


def inline(function: Function) -> Function:
    """Compiles a part of the machine, always inlined into its callers: the state is many arrays, too many to pass.

    It is compiled for each set of argument types, and a bare 1, an int32 and an int64 are three: callers hand over np.int64.
    """
    return _part(function, forceinline=True)


def rare(function: Function) -> Function:
    """Compiles a part of the machine that runs seldom, on its own, so that the frequent parts keep the registers."""
    return _part(function)
