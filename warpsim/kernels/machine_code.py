"""Kernels from machine code: the functions of the front ends under the names that users call.

The front ends build on this room, so nothing here imports them; their module is loaded by name when one is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from warpsim.arguments import choice
from warpsim.hardware import files as params
from warpsim.hardware.gpu import list_gpus
from warpsim.kernels.arguments import Arguments
from warpsim.kernels.program import Kernel

FRONT_ENDS = ("from_cubin", "from_cuda", "from_sass", "from_trace", "from_triton", "launch_of")
"""Public functions of `warpsim.frontends.api`, which `warpsim.kernels` offers too."""


def front_end(name: str) -> Callable[..., Any]:
    """Returns a function of the front ends."""
    function: Callable[..., Any] = getattr(import_module("warpsim.frontends.api"), name)
    return function


def machine_code(
    listing: str,
    function: str | None = None,
    arch: str = "sm_80",
    grid: int | str = 1024,
    block: int | str = 256,
    shared: int = 0,
    args: Mapping[str, float] | str = "",
    trips: Mapping[str, int] | str = "",
    probabilities: Mapping[str, float] | str = "",
    patterns: Mapping[str, str | int] | str = "",
    caches: str = "",
    title: str = "",
) -> Kernel:
    """Imports a kernel from a listing of machine code, such as those of params/kernels/cuda.

    The 64 kernels that were imported last are kept, so that the same call returns at once.

    Args:
        listing: stem of the files NAME.ARCH.sass in params/kernels/cuda, or the path of one file.
        function: the kernel; may be left out where there is only one.
        arch: architecture whose listing is read, such as "sm_90".
        grid: blocks, as a number or as text such as "32x32".
        block: threads of a block, likewise.
        shared: bytes of dynamic shared memory of a block.
        args: arguments of the kernel by name, as a mapping or as text such as "n=1024,m=3"; further mappings likewise.
        trips: loop -> number of trips, where it depends on data; a loop is named by its line or label.
        probabilities: branch, or access under a predicate -> probability that a warp does not jump, or makes the access, where
            that depends on data; by line or address.
        patterns: access -> "coalesced", "random", "broadcast" or "one", where its addresses depend on data; by line or address.
            Of shared memory also the ways of a bank conflict, of constants how many of them a warp reads.
        caches: chip whose caches decide how often accesses hit; empty: one of the architecture; "none": no access hits.
        title: one-line description of the kernel.

    Raises:
        ValueError: there is no such listing or function, or the listing needs what is not given.
    """
    check = Arguments()
    for name, text in (("listing", listing), ("function", function), ("arch", arch), ("caches", caches), ("title", title)):
        if not isinstance(text, str) and not (name == "function" and text is None):
            check.wrong(name, text, "a text")
    for name, pairs in (("args", args), ("trips", trips), ("probabilities", probabilities), ("patterns", patterns)):
        if not isinstance(pairs, str | Mapping):
            check.wrong(name, pairs, "a mapping, or text: KEY=VALUE, or several with commas between")
    check.done()
    names = [path.name.split(".") for path in (params.params_dir() / "kernels" / "cuda").glob("*.sass")]
    if listed := sorted(name[1] for name in names if name[0] == listing):
        arch = choice("arch", arch, listed)
    path = params.resolve("kernels/cuda", listing if listing.endswith(".sass") else f"{listing}.{arch}")
    named = {"args": args, "trips": trips, "probabilities": probabilities, "patterns": patterns}
    mappings = tuple((name, tuple(_pairs(name, given).items())) for name, given in named.items())
    are_plain = all(isinstance(each, str | int | float) for _, pairs in mappings for pair in pairs for each in pair)
    in_a_file = caches.lower() not in ("", "none", *list_gpus())  # which may change
    make = _imported if are_plain and not in_a_file else _imported.__wrapped__
    kernel = make(path, _digest(path), function, f"{grid},{block},{shared}", mappings, caches)
    return kernel.model_copy(update={"title": title}) if title else kernel


@lru_cache(64)  # an import takes up to seconds
def _imported(
    path: Path,
    digest: str,
    function: str,
    launch: str,
    mappings: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...],
    caches: str,
) -> Kernel:
    """Imports a kernel from a listing of these contents."""
    given = {name: dict(pairs) for name, pairs in mappings}
    kernel: Kernel = front_end("from_sass")(path, function, launch, **given, caches=caches or None)
    return kernel


def _digest(path: Path) -> str:
    with suppress(OSError):  # the front end says why it cannot be read
        return sha256(path.read_bytes()).hexdigest()
    return ""


def _pairs(name: str, given: Mapping[str, Any] | str) -> dict[str, Any]:
    """Returns a mapping that may be given as text: "key=value,key=value" with numbers where they can be."""
    if not isinstance(given, str):
        return dict(given)
    found: dict[str, Any] = {}
    for text in filter(None, given.split(",")):
        key, separator, value = text.partition("=")
        if not separator:
            raise ValueError(f"{name} = {given!r}: must be KEY=VALUE, or several with commas between")
        found[key.strip()] = _number(value.strip())
    return found


def _number(text: str) -> int | float | str:
    for kind in (lambda: int(text, 0), lambda: float(text)):
        try:
            return kind()
        except ValueError:
            continue
    return text
