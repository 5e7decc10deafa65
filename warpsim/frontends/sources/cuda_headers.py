"""Headers for CUDA sources, where NVRTC does not find them or does not take them.

In place of those of the C and C++ libraries it is given short ones, with the types, constants and functions that device code
uses. Those beside the source come without host code, those of other folders first with it, and those that are not there are
empty where NVRTC asks for them: others stand under conditions that do not hold.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from warpsim.frontends.sources.host_code import macros_of, without_host_code
from warpsim.hardware.files import params_dir

_EMPTY = (
    "assert ctype errno getopt locale malloc memory mpi omp pthread signal stdarg stdbool stddef stdio stdlib string"
)
"""Headers of C, and of common libraries for the host, that hold nothing for a kernel, or what the compiler knows by itself."""

_THRUST_OF_DEVICE = {f"thrust/{name}.h" for name in "complex functional pair tuple iterator/zip_iterator".split()}
"""Headers of Thrust with types that kernels use. NVRTC compiles these, and not the others, which the host calls."""

_CUB_OF_HOST = "cub/device/", "cub/util_allocator.cuh"
"""Beginnings of the names of headers of CUB that the host calls, and NVRTC does not take."""

_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


@cache
def short_headers() -> Mapping[str, bytes]:
    """Returns what NVRTC is given for headers of the host, by their names: the files of params/headers, and empty ones."""
    folder = params_dir() / "headers"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    empty = {f"{name}.h": b"" for name in _EMPTY.split()}
    return empty | {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@dataclass(frozen=True)
class Headers:
    """The headers that a source includes.

    Attributes:
        texts: name there -> what NVRTC is given.
        whole: names of those that are given with their host code.
        missing: names of those that are not there, and are empty.
        macros: name -> what it stands for, its parameters first.
        of_host: host code that they held.
    """

    texts: Mapping[str, bytes]
    whole: frozenset[str]
    missing: Sequence[str]
    macros: Mapping[str, str]
    of_host: str


def included(
    source: str,
    folder: Path | None,
    folders: Sequence[Path],
    toolkit: Sequence[Path],
    refused: Mapping[str, Collection[int]] | None = None,
    asked: Collection[str] = (),
) -> Headers:
    """Returns the headers that a source includes. Those of other folders are without host code where NVRTC has refused them.

    Args:
        source: the text.
        folder: that of its file; None: it has none.
        folders: other folders of headers.
        toolkit: folders of CUDA's own headers, which stay as they are.
        refused: name of a header -> lines that NVRTC refuses (`without_host_code`); none: it is only known that it does.
        asked: headers that are not there and that NVRTC asks for.
    """
    texts: dict[str, str] = {}
    whole: set[str] = set()
    refused = refused or {}
    headers, missing = dict(short_headers()), []
    todo, seen = [(source, folder)], dict[Path, str]()
    while todo:
        text, here = todo.pop()
        for quoted, bracketed in _INCLUDED.findall(text):
            name = quoted or bracketed
            places = [each / name for each in (*([] if here is None else [here]), *folders)]
            path = next((path for path in places if path.is_file()), None)
            of_thrust = name.startswith("thrust/") and name not in _THRUST_OF_DEVICE
            if of_thrust or name.startswith(_CUB_OF_HOST) or name.endswith("_interop.h"):  # what is called from the host
                headers[name] = b""
            if name in headers or name in texts or any((each / name).is_file() for each in toolkit):
                continue
            if path is None:
                if "." not in name:  # that of the C++ library
                    headers[name] = b""
                elif name in asked:
                    headers[name] = b""
                    missing.append(name)
            elif path.resolve() in seen:  # by another name
                headers[name] = f'#include "{seen[path.resolve()]}"'.encode()
            else:
                texts[name], seen[path.resolve()] = decoded(path.read_bytes()), name
                todo.append((texts[name], path.parent))
                if name not in refused and any(path.is_relative_to(each) for each in folders):
                    whole.add(name)
    macros = {name: text for each in texts.values() for name, text in macros_of(each).items()}
    of_host = []
    for name, text in texts.items():
        of_device, left_out = (text, "") if name in whole else without_host_code(text, macros, refused.get(name, ()))
        headers[name] = of_device.encode()
        of_host.append(left_out)
    return Headers(headers, frozenset(whole), list(dict.fromkeys(missing)), macros, "\n".join(filter(None, of_host)))


def encoding_of(data: bytes) -> str:
    """Returns the encoding of a text by the mark at its begin: UTF-16, as editors and shells of Windows write it, or UTF-8."""
    return "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def decoded(data: bytes) -> str:
    """Returns the text of a source: UTF-8, with or without a mark at its begin, UTF-16 with one, or else Latin-1.

    Lines end as on Unix.
    """
    try:
        text = data.decode(encoding_of(data))
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")
