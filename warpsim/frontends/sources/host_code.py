"""What a CUDA source holds for the host, which NVRTC does not compile.

A source is not parsed, but divided into declarations by its semicolons and braces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from warpsim.frontends.brackets import end_of, without_templates

_DEVICE = re.compile(r"\b(__global__|__device__|__constant__|__shared__|__managed__|constexpr|consteval)\b")
"""What makes a declaration one for the device, too."""

_FOR_HOST = re.compile(r"\b__host__\b")
"""What makes a declaration without such words one for the host, though a function of its name may be for the device."""

_UNKNOWN_ANNOTATION = re.compile(r"\b_*[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\b[A-Z]{2,}\b")
_NO_ANNOTATION = ("FILE", "NULL", "EXPORT", "DLL", "API", "WINAPI", "CALLBACK")
"""Words that may be macros for that, as they are not known, unless they end so."""

_ATTRIBUTE = re.compile(r"\b(?:alignas|__\w+__|__declspec)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\[\[[^\]]*\]\]")
_LABEL = re.compile(r"\s*(public|private|protected)\s*:")
"""What may stand in and before a declaration."""

_SCOPE = re.compile(r'\bnamespace\b[^()]*$|\bextern\s+" *"\s*$|\b(struct|class|union)\b[^()=]*$')
_ENUM = re.compile(r"\benum\b[^()]*$")
_FUNCTION = re.compile(r"[\w:<>,*& ]+?[ *&]\w+ ?\((?! ?[-+.\d\"'])")
_OF_TYPES = re.compile(r"(typedef|using|friend|template\s*<[^;{}]*>\s*using)\b")
_OF_LIBRARY = re.compile(
    r"((static|const|extern|using|thread_local|inline) )*((using|namespace) \w+ ?= ?)?std::(?!u?int(\d+|ptr)_t\b|size_t\b)"
)
"""What a declaration is, by what stands before its body or its semicolon: a scope, an enumeration, a function (a variable would
have a number or a text in its parentheses), a name of a type, or a name or a variable of the C++ library, whose integers device
code has, too."""

_NAME = re.compile(r"\b(\w+)\s*\(")
_CALL = re.compile(r"\s*(\w+)[ \t]*\(")
_LONGEST_HEAD = 10_000
"""Characters of a declaration that are looked at."""


@dataclass(frozen=True)
class _Declaration:
    """A declaration of a source.

    Attributes:
        begin: where it begins.
        end: behind its end.
        of_host: whether it is for the host alone.
        of_device: whether it is annotated for the device.
        within: begin and end of the type that it begins, or of which it is a variable; None: neither.
    """

    begin: int
    end: int
    of_host: bool
    of_device: bool
    within: tuple[int, int] | None = None


def without_host_code(source: str, macros: Mapping[str, str] | None = None, refused: Collection[int] = ()) -> tuple[str, str]:
    """Returns a source with blanks in place of functions of the host, and these functions.

    Lines keep their numbers. Declarations of functions, and variables of the C++ library, are left out, too. Functions for the
    device, constexpr ones and those that a macro may annotate stay, as do types and other variables. Of parts under `#if` those
    count in which NVRTC refuses lines, as it reads them; where it refuses none, the first one, unless its condition is 0, or
    asks for another system than Linux, or for another compiler than that of CUDA.

    Args:
        source: the text.
        macros: those that are defined elsewhere, with what they stand for.
        refused: numbers of lines that NVRTC refuses. The declarations that they belong to are left out, unless they are
            annotated for the device: a type as a whole, as its other variables would have other places.
    """
    plain = without_text(source, refused)
    found = list(_declarations(plain, {**(macros or {}), **macros_of(source)}))
    spans = [(one.begin, one.end) for one in found if one.of_host]
    for line in _places_of_lines(plain, refused):
        here = [one for one in found if one.begin < line.stop and one.end > line.start]
        spans += [one.within or (one.begin, one.end) for one in here if not one.of_device]
    left_out = _united([(_first_letter(plain, begin, end), end) for begin, end in spans])  # parts that do not count stand before
    edges = [0, *(edge for span in left_out for edge in span), len(source)]
    parts = [_blank(source, a, b) if number % 2 else source[a:b] for number, (a, b) in enumerate(pairwise(edges))]
    return "".join(parts), "\n".join(source[first:end].strip() for first, end in left_out)


def _places_of_lines(plain: str, numbers: Collection[int]) -> Iterator[range]:
    """Yields where lines of a text are, those that hold code; the first one has the number 1."""
    place = 0
    for number, line in enumerate(plain.split("\n"), 1):  # other separators of lines do not count for compilers
        if number in numbers and line.strip():
            yield range(place + len(line) - len(line.lstrip()), place + len(line.rstrip()))
        place += len(line) + 1


def _first_letter(plain: str, begin: int, end: int) -> int:
    """Returns where a declaration begins behind blanks."""
    return end - len(plain[begin:end].lstrip())


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns spans in their order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _declarations(plain: str, macros: Mapping[str, str]) -> Iterator[_Declaration]:
    """Yields the declarations of a text without texts and comments, those in namespaces and types among them."""
    of_device = _annotations(macros)
    declared = _declared_for_device(plain, of_device)
    types: list[tuple[int, int]] = []  # begin and end of those that are open
    begin = place = depth = 0  # of the present declaration; where it is looked at; open parentheses
    while place < len(plain):
        letter = plain[place]
        depth += (letter in "([") - (letter in ")]")
        if letter not in ";{}" or depth > 0:
            place += 1
            continue
        depth = 0
        calls = list(_calls_of_macros(plain, begin, place, macros))
        yield from _declared_by(calls, macros, of_device)
        begin = calls[-1][1] if calls else begin
        head = " ".join(_ATTRIBUTE.sub(" ", plain[begin:place].lstrip()[:_LONGEST_HEAD]).split())
        is_for_device = of_device.search(plain, begin, place) is not None
        while types and place >= types[-1][1]:
            types.pop()
        if letter == "}":  # a namespace or a type ends
            begin = place + 1
        elif letter == ";":
            is_function = head.endswith(")") and _FUNCTION.match(head) and not _OF_TYPES.match(head)
            of_host = not is_for_device and (_OF_LIBRARY.match(head) or (is_function and not _may_be_annotated(head)))
            within = None if is_function or not types else types[0]
            yield _Declaration(begin, place + 1, bool(of_host), is_for_device, within)
            begin = place + 1
        elif (scope := _SCOPE.search(without_templates(head, parentheses=True))) and not _FUNCTION.match(head):
            if scope[1]:
                types.append((begin, plain.find(";", end_of(plain, place)) + 1 or len(plain)))
                yield _Declaration(begin, place + 1, of_host=False, of_device=is_for_device, within=types[0])
            begin = place + 1
        else:
            place = end_of(plain, place)
            follows = plain[place + 1 : place + 200].lstrip()[:1]
            holds_values = "=" in without_templates(head, parentheses=True) or _ENUM.search(head) or follows in (",", "{")
            if ")" in head and not holds_values:
                name = _NAME.search(without_templates(head))
                is_declared = name is not None and name[1] in declared and not _FOR_HOST.search(head)
                of_host = not (is_for_device or _may_be_annotated(head) or is_declared)
                yield _Declaration(begin, place + 1, of_host, is_for_device or is_declared)
                begin = place + 1
        place += 1
    yield from _declared_by(_calls_of_macros(plain, begin, len(plain), macros), macros, of_device)


def _annotations(macros: Mapping[str, str]) -> re.Pattern[str]:
    """Returns what finds annotations of the device, or macros that stand for one."""
    found: set[str] = set()
    pattern = _DEVICE
    while fresh := {name for name, text in macros.items() if name not in found and pattern.search(text)}:
        found |= fresh
        pattern = re.compile("|".join([_DEVICE.pattern, *(rf"\b{re.escape(name)}\b" for name in sorted(found))]))
    return pattern


def _declared_for_device(plain: str, of_device: re.Pattern[str]) -> set[str]:
    """Returns the names of functions that are declared for the device; their definitions may stand elsewhere, as they are."""
    parts = (found[1] for found in re.finditer(r"([^;{}]*)([;{}]|\Z)", plain) if found[2] == ";")
    names = (_NAME.search(_ATTRIBUTE.sub(" ", one)) for one in parts if ")" in one and of_device.search(one))
    return {name[1] for name in names if name}


def _may_be_annotated(head: str) -> bool:
    """Returns whether a declaration has a word in capitals, not in its templates or parentheses, that could be an annotation."""
    words = (found[0] for found in _UNKNOWN_ANNOTATION.finditer(without_templates(head, parentheses=True)))
    return any(not word.endswith(_NO_ANNOTATION) for word in words)


def _declared_by(
    calls: Iterable[tuple[int, int, str]], macros: Mapping[str, str], of_device: re.Pattern[str]
) -> Iterator[_Declaration]:
    """Yields what calls of macros declare. Many a macro for functions of the host has `constexpr` variables in it."""
    for begin, end, macro in calls:
        if macro:
            annotations = {one[0] for one in of_device.finditer(macros[macro])} - {"constexpr", "consteval"}
            yield _Declaration(begin, end, of_host=False, of_device=bool(annotations))


def _calls_of_macros(plain: str, begin: int, end: int, macros: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Yields calls of macros that end without a semicolon, and labels of access, before a declaration: begin, end, the macro."""
    while True:
        label = _LABEL.match(plain, begin, end)
        called = _CALL.match(plain, begin, end)
        if label is not None:
            behind, name = label.end(), ""
        elif called is not None and macros.get(called[1], "").startswith("("):
            behind, name = end_of(plain, called.end() - 1) + 1, called[1]
        else:
            return
        if behind > end or (plain[behind:end].isspace() and end < len(plain)):  # it is the declaration
            return
        yield begin, behind, name
        begin = behind


_TEXT = re.compile(
    r"""(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.)*)
    |\bR"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"
    |(?P<string>"(?:\\.|[^"\\\n])*")
    |//[^\n]*
    |/\*.*?\*/
    |(?<!\w)'(?:\\.|[^'\\\n])*'""",
    flags=re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_FALSE = {
    "0", "_WIN32", "WIN32", "_WIN64", "WIN64", "_MSC_VER", "__APPLE__", "__MACOSX", "MACOSX", "__QNX__",
    "__HIP__", "__HIPCC__", "__HIP_PLATFORM_AMD__", "__HIP_DEVICE_COMPILE__", "USE_ROCM",
}  # fmt: skip
"""Words that are false in a condition: NVRTC compiles as on Linux, and for GPUs of NVIDIA."""

_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(.*)", re.DOTALL)


def without_text(source: str, compiled: Collection[int] = ()) -> str:
    """Returns a source with blanks in place of comments, texts, directives and parts that do not count under `#if`.

    `compiled` are numbers of lines of which it is known that they count (`without_host_code`).
    """
    parts, at, known = [], 0, _known_parts(source, compiled)
    counts = [True]  # of each `#if` that is open: whether its present part counts
    counted = [True]  # whether a part of it has counted so far
    for found in _TEXT.finditer(source):
        code, text = source[at : found.start()], found[0]
        parts.append(code if all(counts) else _spaces(code))
        parts.append(f'"{_spaces(text)[1:-1]}"' if found["string"] and all(counts) else _spaces(text))
        at = found.end()
        condition = _CONDITION.match(text) if found["directive"] else None
        if condition is None:
            continue
        word = condition[1]
        if word.startswith("if"):
            counts.append(known.get(found.start(), word == "ifndef" or not _never_holds(condition[2])))
            counted.append(counts[-1])
        elif len(counts) > 1 and word == "endif":
            counts.pop()
            counted.pop()
        elif len(counts) > 1:
            counts[-1], counted[-1] = known.get(found.start(), not counted[-1]), True
    parts.append(source[at:] if all(counts) else _spaces(source[at:]))
    return "".join(parts)


def _known_parts(source: str, lines: Collection[int]) -> dict[int, bool]:
    """Returns where parts under `#if` begin, and whether they count, where some have these lines: those do, and no others."""
    known: dict[int, bool] = {}
    conditions: list[list[int]] = []  # those that are open: where their parts begin
    place, line = 0, 1
    for found in _TEXT.finditer(source) if lines else ():
        condition = _CONDITION.match(found[0]) if found["directive"] else None
        if condition is None:
            continue
        first, line = line, line + source.count("\n", place, found.start())
        if not set(lines).isdisjoint(range(first, line)):
            known |= {parts[-1]: True for parts in conditions}
        place = found.start()
        if condition[1].startswith("if"):
            conditions.append([place])
        elif conditions and condition[1] == "endif":
            parts = conditions.pop()
            known |= {part: part in known for part in parts if not known.keys().isdisjoint(parts)}
        elif conditions:
            conditions[-1].append(place)
    return known


def _never_holds(condition: str) -> bool:
    """Returns whether a condition is 0, or asks for other systems."""
    words = set(re.findall(r"\w+", condition)) - {"defined"}
    return bool(words) and words <= _FALSE and re.fullmatch(r"[\w\s()|&]+", condition) is not None


def _blank(source: str, first: int, end: int) -> str:
    """Returns blanks in place of a part of a source, whose directives stay, as their conditions may go on behind it."""
    kept = [(found.start(), found.end()) for found in _TEXT.finditer(source, first, end) if found["directive"]]
    edges = [first, *(edge for span in kept for edge in span), end]
    parts = [source[a:b] for a, b in pairwise(edges)]
    return "".join(part if number % 2 else _spaces(part) for number, part in enumerate(parts))


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def macros_of(source: str) -> dict[str, str]:
    """Returns the names of the macros of a source, and what they stand for, their parameters first."""
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.)*)", source, flags=re.DOTALL | re.MULTILINE)
    return dict(found)
