"""The decorators of the engine.

Nothing in the engine allocates, so it is compiled without numba's reference counting (`_nrt`): with it, handing an array from
one function to the next costs two atomic operations, and the whole engine ran fifteen times slower.

Numba makes machine code, and two wrappers, of every function that another one calls, although all of them end up inside the
entry points. A part stays intermediate code here, and LLVM optimizes it only where it ends up: that takes a third of the time.
"""

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite.binding import Linkage
from numba.core import config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.extending import models, register_model, typeof_impl

from warpsim.engine.code_cache import cache_folder, keep_code

Function = TypeVar("Function", bound=Callable[..., Any])
Record = TypeVar("Record", bound=type[tuple[Any, ...]])

CACHE_FOLDER = cache_folder()
"""The folder of this engine's machine code; None: it is compiled in every process."""

# How everything is compiled. Nothing allocates, divides by zero on purpose, or calls back into Python.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


class _ShortlyNamed(types.NamedTuple):  # type: ignore[name-defined]  # numba has no annotations
    """The type of a tuple of arrays, with a short name.

    Numba's own name lists all fields of all records, and stands in the name of every function that takes the tuple: compiling
    took an eighth longer, and the compiled code ten times the room.
    """

    def __init__(self, fields: Any, named_tuple: type) -> None:
        super().__init__(fields, named_tuple)
        long = str(self).encode()
        self.name = f"{named_tuple.__name__}_{hashlib.blake2b(long, digest_size=8).hexdigest()}"


register_model(_ShortlyNamed)(models.TupleModel)


def shortly_named(named_tuple: Record) -> Record:
    """Gives the compiled functions that take a tuple of arrays short names."""

    @typeof_impl.register(named_tuple)  # type: ignore[untyped-decorator]  # as above
    def type_of(value: Any, context: Any) -> types.Type:
        return _ShortlyNamed([typeof_impl(each, context) for each in value], named_tuple)

    return named_tuple


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


class _ApartLibrary(_PartLibrary):
    """A part that LLVM does not inline either."""

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if not function.is_declaration and "alwaysinline" not in function.attributes:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)


class _EntryLibrary(JITCodeLibrary):
    """The machine code of an entry point, whose parts belong to it alone.

    Numba names record types by numbers, which it gives in order of use in a process. So parts for 16 and for 32 lanes can have
    one name if they were compiled in different processes; the linker would take the one that was loaded first for both.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.enable_object_caching()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class _EntryCompiler(Compiler):
    """Compiles an entry point."""

    library: type[JITCodeLibrary] = _EntryLibrary

    def define_pipelines(self) -> Any:
        self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _PartCompiler(_EntryCompiler):
    """Compiles a part into intermediate code."""

    library = _PartLibrary


class _ApartCompiler(_EntryCompiler):
    library = _ApartLibrary


class _Part(CPUDispatcher):
    """A function that others call in compiled code. A call from Python compiles it for itself, which only tests need."""

    def __call__(self, *arguments: Any) -> Any:
        if not hasattr(self, "alone"):
            self.alone = numba.njit(self.py_func, **_OPTIONS)
        return self.alone(*arguments)


def _part(function: Function, compiler: type[Compiler], **options: Any) -> Function:
    if config.DISABLE_JIT:
        return function
    options = {"nopython": True, "no_cpython_wrapper": True, **_OPTIONS, **options}
    part: Function = _Part(function, targetoptions=options, pipeline_class=compiler)
    return part


def jit(function: Function) -> Function:
    """Compiles an entry point: releases the GIL, kept on disk."""
    compiled: Function = numba.njit(function, pipeline_class=_EntryCompiler, **_OPTIONS)
    if CACHE_FOLDER is not None and compiled is not function:  # numba returns the function itself if it must not compile
        keep_code(compiled, CACHE_FOLDER)
    return compiled


def inline(function: Function) -> Function:
    """Compiles a part of the machine, always inlined into its callers: the state is many arrays, too many to pass.

    It is compiled for each set of argument types, and a bare 1, an int32 and an int64 are three: callers hand over np.int64.
    """
    return _part(function, _PartCompiler, forceinline=True)


def apart(function: Function) -> Function:
    """Compiles a part on its own, which runs seldom, or long at a time: so that the other parts, or it, keep the registers."""
    return _part(function, _ApartCompiler, forceinline=False)  # what a part does not set it inherits from its caller
