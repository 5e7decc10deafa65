"""How functions become machine code: those of the engine, and of other inner loops. It imports numba and llvmlite only.

* decorators.py: `jit` for entry points, and `inline`, `apart`, `seldom` and `compiled_as` for their parts.
* handles.py: a tuple of arrays that functions hand on as one pointer. aliases.py: what LLVM is told about what is in it.
* code_cache.py: where the machine code is kept.
"""
