"""Headers for CUDA sources, where NVRTC does not find them or does not take them.

In place of those of the C and C++ libraries it is given short ones, with the types, constants and functions that device code
uses. Those beside the source come without host code, and others that are not there are empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

from warpsim.frontends.host_code import macros_of, without_host_code
from warpsim.hardware.files import params_dir

_EMPTY = "assert ctype errno locale malloc signal stdarg stdbool stddef stdio stdlib string time unistd"
"""Headers of C that hold nothing for a kernel, or what the compiler knows by itself."""

_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


@cache
def short_headers() -> Mapping[str, bytes]:
    """Returns what NVRTC is given for headers of the host, by their names: the files of params/headers, and empty ones."""
    folder = params_dir() / "headers"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    empty = {f"{name}.h": b"" for name in _EMPTY.split()}
    return empty | {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def included(
    source: str,
    folder: Path | None,
    folders: Sequence[Path],
    toolkit: Sequence[Path],
    refused: Mapping[str, Collection[int]] | None = None,
) -> tuple[dict[str, bytes], list[str], dict[str, str]]:
    """Returns the headers that a source includes, by their names there, without host code; those that are missing; and macros.

    Args:
        source: the text.
        folder: that of its file; None: it has none.
        folders: other folders of headers.
        toolkit: folders of CUDA's own headers, which stay as they are.
        refused: name of a header -> lines that NVRTC refuses (`without_host_code`).
    """
    texts: dict[str, str] = {}
    headers, missing = dict(short_headers()), []
    todo, seen = [(source, folder)], dict[Path, str]()
    while todo:
        text, here = todo.pop()
        for quoted, bracketed in _INCLUDED.findall(text):
            name = quoted or bracketed
            places = [each / name for each in (*([] if here is None else [here]), *folders)]
            path = next((path for path in places if path.is_file()), None)
            if name.startswith("thrust/"):  # what is called from the host
                headers[name] = b""
            if name in headers or name in texts or any((each / name).is_file() for each in toolkit):
                continue
            if path is None:
                headers[name] = b""
                if "." in name:  # others are the C++ library's
                    missing.append(name)
            elif path.resolve() in seen:  # by another name
                headers[name] = f'#include "{seen[path.resolve()]}"'.encode()
            else:
                texts[name], seen[path.resolve()] = decoded(path.read_bytes()), name
                todo.append((texts[name], path.parent))
    macros = {name: text for each in texts.values() for name, text in macros_of(each).items()}
    refused = refused or {}
    headers |= {name: without_host_code(text, macros, refused.get(name, ()))[0].encode() for name, text in texts.items()}
    return headers, list(dict.fromkeys(missing)), macros


def decoded(data: bytes) -> str:
    """Returns the text of a source: UTF-8, with or without a mark at its begin, or else Latin-1; lines end as on Unix."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")
