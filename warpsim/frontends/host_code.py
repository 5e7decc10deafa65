"""What a CUDA source holds for the host, which NVRTC does not compile: headers of the host, and host functions.

In place of headers of the C and C++ libraries NVRTC is given short ones: types, constants and functions that device code uses.
Other headers that are not there are empty. Functions of the host are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from warpsim.hardware.files import params_dir

_EMPTY = "assert ctype errno locale malloc signal stdarg stdbool stddef stdio stdlib string time unistd"
"""Headers of C that hold nothing for a kernel, or what the compiler knows by itself."""

_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)

_DEVICE = re.compile(r"\b(__global__|__device__|constexpr|consteval)\b")
_SCOPE = re.compile(r'\bnamespace\b[^()]*$|\bextern\s+" *"\s*$')
_TYPE = re.compile(r"\b(struct|class|union|enum)\b[^()]*$")
_OF_LIBRARY = re.compile(r"\s*(static\s+|const\s+|extern\s+|using\s+)*std::")
_BRACE = re.compile(r"[{}]")
_NAMED_BEFORE = re.compile(r"\s*(typedef|using|friend|template\s*<[^;{}]*>\s*using)\b")


@cache
def short_headers() -> Mapping[str, bytes]:
    """Returns what NVRTC is given for headers of the host, by their names: the files of params/headers, and empty ones."""
    folder = params_dir() / "headers"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    empty = {f"{name}.h": b"" for name in _EMPTY.split()}
    return empty | {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def without_host_code(source: str) -> tuple[str, str]:
    """Returns a source with blanks in place of functions of the host, and these functions.

    Lines keep their numbers. Declarations of functions, and variables of the C++ library, are left out, too. Functions for the
    device, constexpr ones and those that a macro of the source annotates stay, as do types and other variables.
    """
    plain = _without_text(source)
    annotations = [name for name, text in _macros(source) if _DEVICE.search(text)]
    of_device = re.compile("|".join([_DEVICE.pattern, *(rf"\b{re.escape(name)}\b" for name in annotations)]))
    left_out: list[tuple[int, int]] = []
    begin = place = depth = 0  # of the present declaration; where it is looked at; open parentheses
    while place < len(plain):
        letter = plain[place]
        depth += (letter in "([") - (letter in ")]")
        head = plain[begin:place] if letter in ";{}" else ""
        if letter == "}" and depth <= 0:  # a namespace ends
            begin, depth = place + 1, 0
        elif letter == ";" and depth <= 0:
            is_function = head.rstrip().endswith(")") and re.match(r"\s*[\w:<>,*&\s]+?[\s*&]\w+\s*\(", head)
            if not of_device.search(head) and (_OF_LIBRARY.match(head) or (is_function and not _NAMED_BEFORE.match(head))):
                left_out.append((begin, place + 1))
            begin, depth = place + 1, 0
        elif letter == "{" and depth <= 0 and _SCOPE.search(head):
            begin, depth = place + 1, 0
        elif letter == "{" and depth <= 0:
            place = _end_of_braces(plain, place)
            if "=" not in _without_templates(head) and not _TYPE.search(head) and ")" in head:
                if not of_device.search(head):
                    left_out.append((begin, place + 1))
                begin = place + 1
        place += 1
    edges = [0, *(edge for span in left_out for edge in span), len(source)]
    parts = [_blank(source, a, b) if number % 2 else source[a:b] for number, (a, b) in enumerate(pairwise(edges))]
    return "".join(parts), "\n".join(source[first:end].strip() for first, end in left_out)


def included(source: str, folder: Path | None, folders: Sequence[Path]) -> tuple[dict[str, bytes], list[str]]:
    """Returns the headers that a source includes, without host code, by the names that it gives them; and those that are missing.

    Args:
        source: the text.
        folder: that of its file; None: it has none.
        folders: those of CUDA's own headers, which stay as they are.
    """
    headers, missing, seen = dict(short_headers()), [], set[Path]()
    todo = [(source, folder)]
    while todo:
        text, here = todo.pop()
        for quoted, bracketed in _INCLUDED.findall(text):
            name = quoted or bracketed
            path = None if here is None else here / name
            if name.startswith("thrust/"):  # what is called from the host
                headers[name] = b""
            if name in headers or any((each / name).is_file() for each in folders):
                continue
            if path is None or not path.is_file():
                headers[name] = b""
                if "." in name:  # others are the C++ library's
                    missing.append(name)
            elif path.resolve() not in seen:
                seen.add(path.resolve())
                content = path.read_text(encoding="utf-8", errors="replace")
                headers[name] = without_host_code(content)[0].encode()
                todo.append((content, path.parent))
    return headers, list(dict.fromkeys(missing))


def launched_instances(host_code: str) -> list[str]:
    """Returns the instances of templates that host code launches with constants, such as "k<float, 16>"."""
    found = re.findall(r"\b(\w+\s*<[^<>;(){}]*>)\s*<<<", host_code)
    return list(dict.fromkeys(re.sub(r"\s+", " ", one) for one in found))


_TEXT = re.compile(
    r'(?P<directive>^[ \t]*#(?:[^\n\\]|\\.)*)|(?P<string>"(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|\'(?:\\.|[^\'\\\n])*\'',
    flags=re.DOTALL | re.MULTILINE,
)


def _without_text(source: str) -> str:
    """Returns a source with blanks in place of comments, texts and directives; each place stays where it is."""
    return _TEXT.sub(lambda found: f'"{_spaces(found[0])[1:-1]}"' if found["string"] else _spaces(found[0]), source)


def _blank(source: str, first: int, end: int) -> str:
    """Returns blanks in place of a part of a source, whose directives stay, as their conditions may go on behind it."""
    kept = [(found.start(), found.end()) for found in _TEXT.finditer(source, first, end) if found["directive"]]
    edges = [first, *(edge for span in kept for edge in span), end]
    parts = [source[a:b] for a, b in pairwise(edges)]
    return "".join(part if number % 2 else _spaces(part) for number, part in enumerate(parts))


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _macros(source: str) -> list[tuple[str, str]]:
    """Returns the names of the macros of a source, and what they stand for."""
    return re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.)*)", source, flags=re.DOTALL | re.MULTILINE)


def _without_templates(head: str) -> str:
    """Returns a declaration without what stands in parentheses or angle brackets, where a default follows a "="."""
    before = ""
    while head != before:
        before, head = head, re.sub(r"<[^<>]*>|\([^()]*\)|operator\s*[=!<>+\-*/]+", "", head)
    return head


def _end_of_braces(plain: str, place: int) -> int:
    """Returns where the braces end that begin at a place, or the end of the text."""
    depth = 0
    for found in _BRACE.finditer(plain, place):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.start()
    return len(plain)
