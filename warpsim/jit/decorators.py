"""The decorators of the engine.

Nothing in the engine allocates, so it is compiled without numba's reference counting (`_nrt`): with it, handing an array from
one function to the next costs two atomic operations, and the whole engine ran fifteen times slower.

Numba makes machine code, and two wrappers, of every function that another one calls, although all of them end up inside the
entry points. A part stays intermediate code here, and LLVM optimizes it only where it ends up: that takes a third of the time.
Of numba's passes, only those run that do something to code as plain as the engine's.
"""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite.binding import Linkage
from llvmlite.binding.newpassmanagers import create_new_function_pass_manager
from numba.core import config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import CompilerPass, PassManager
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)
from numba.extending import intrinsic

from warpsim.jit.code_cache import cache_folder, keep_code

Function = TypeVar("Function", bound=Callable[..., Any])

CACHE_FOLDER = cache_folder()
"""The folder of this engine's machine code; None: it is compiled in every process."""

# How everything is compiled. Nothing allocates, divides by zero on purpose, or calls back into Python.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


class _PartLibrary(JITCodeLibrary):
    """The intermediate code of a part: machine code is made of the entry points only, which hold all parts that they call."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Makes code small, with variables in registers. Numba would have everything done here, and again where it ends up."""
        ll_module.data_layout = self._codegen._data_layout
        passes = create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, self._codegen._pass_builder())

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

    seldom = False

    def add_ir_module(self, ir_module: Any) -> None:
        super().add_ir_module(_kept_apart(ir_module, seldom=self.seldom))


class _SeldomLibrary(_ApartLibrary):
    seldom = True


def _kept_apart(ir_module: Any, *, seldom: bool = False) -> Any:
    """Has LLVM not inline the functions of a module, and perhaps take them for ones that are seldom called."""
    for function in ir_module.functions:
        if not function.is_declaration and "alwaysinline" not in function.attributes:
            function.attributes.add("noinline")
            if seldom:
                function.attributes.add("cold")
    return ir_module


class _EntryLibrary(JITCodeLibrary):
    """The machine code of an entry point, whose parts belong to it alone.

    Numba names record types by numbers, which it gives in order of use in a process. So parts for 16 and for 32 lanes can have
    one name if they were compiled in different processes; the linker would take the one that was loaded first for both.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.enable_object_caching()

    def add_ir_module(self, ir_module: Any) -> None:
        """Adds the entry point, or its wrapper, which writes the tuples that the entry point takes for constants."""
        super().add_ir_module(_kept_apart(ir_module))

    def _optimize_final_module(self) -> None:
        """Optimizes the module once. Numba does so twice, to remove reference counts, and vectorizes loops; neither helps."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        codegen: Any = self._codegen
        manager, builder = codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False)
        manager.run(self._final_module, builder)


class _Passes(PassManager):
    """Passes that run one after the other. Numba writes a report before each of them, and analyses the code anew behind it."""

    def __init__(self, *passes: type[CompilerPass]) -> None:
        super().__init__("engine")
        for each in passes:
            self.add_pass(each, each.__name__)
        self.finalize()
        self.made = [each() for each in passes]
        for made in self.made:
            made.analysis = self.dependency_analysis()

    def run(self, state: Any) -> None:
        for each in self.made:
            each.run_pass(state)


_PASSES = _Passes(
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    DeadBranchPrune,  # leaves out what serves options that are None
    GenericRewrites,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    AnnotateTypes,
    NativeLowering,
    NoPythonBackend,
)


class _Flags(Flags):
    """Flags that nobody changes any more. Numba looks them up with every operator that it types, and compares one by one."""

    __slots__ = ("known",)

    def __init__(self, flags: Flags) -> None:
        super().__init__(flags)
        self.known = self.values()

    def __hash__(self) -> int:
        return hash(_Flags)  # there are but a few

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self.known == other.known


class _EntryCompiler(CompilerBase):
    """Compiles an entry point."""

    library: type[JITCodeLibrary] = _EntryLibrary

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, return_type: Any, flags: Flags, types_: Any) -> None:
        super().__init__(typing, target, library, args, return_type, _Flags(flags), types_)

    def define_pipelines(self) -> list[PassManager]:
        self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return [_PASSES]

    def compile_extra(self, function: Any) -> Any:
        """Compiles a function with Python's garbage collection off: it would search ever more objects, and find little."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if collects:
                gc.enable()


class _PartCompiler(_EntryCompiler):
    """Compiles a part into intermediate code."""

    library = _PartLibrary


class _ApartCompiler(_EntryCompiler):
    library = _ApartLibrary


class _SeldomCompiler(_EntryCompiler):
    library = _SeldomLibrary


class _Part(CPUDispatcher):
    """A function that others call in compiled code. A call from Python compiles it for itself, which only tests need."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compiles the function for an int64 where it gets a constant, a member of an enumeration or a short integer."""
        return super().get_call_template(tuple(map(_as_parameter, args)), kws)

    def __call__(self, *arguments: Any) -> Any:
        if not hasattr(self, "alone"):
            self.alone = numba.njit(self.py_func, **_OPTIONS)
        return self.alone(*arguments)


def _as_parameter(of: Any) -> Any:
    """Returns the type of a parameter, of which that of an argument is given: int64 for all integers that fit into it."""
    of = of.dtype if isinstance(of, types.IntEnumMember) else types.unliteral(of)  # type: ignore[attr-defined]  # numba has no annotations
    is_short = isinstance(of, types.Integer) and of.bitwidth < 64  # type: ignore[attr-defined]  # as above
    return types.int64 if is_short else of


def _part(function: Function, compiler: type[CompilerBase], **options: Any) -> Function:
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
    """Compiles a part of the machine, always inlined into its callers, with which LLVM optimizes it."""
    return _part(function, _PartCompiler, forceinline=True)


def apart(function: Function) -> Function:
    """Compiles a part on its own: one that keeps the registers to itself, or one that many others call."""
    return _part(function, _ApartCompiler, forceinline=False)  # what a part does not set it inherits from its caller


def seldom(function: Function) -> Function:
    """Compiles a part on its own that runs seldom, or in a loop that needs its registers more.

    LLVM has its callers keep their registers wherever they do not call it.
    """
    return _part(function, _SeldomCompiler, forceinline=False)


def compiled_as(rule: Callable[..., Any]) -> Callable[[Function], Function]:
    """Replaces a plain function by LLVM's instructions, which a rule writes (lane_rules.py), unless nothing is compiled."""

    def replace(plain: Function) -> Function:
        if config.DISABLE_JIT:
            return plain

        # numba reads the names of the parameters
        name, code = plain.__name__, plain.__code__
        names = ", ".join(code.co_varnames[: code.co_argcount])
        scope = {"rule": rule}
        exec(f"def {name}(context, {names}): return rule({names})", scope)
        replaced: Function = intrinsic(scope[name])
        return replaced

    return replace
