"""Instances of templates that a CUDA source asks for: kernels that its host code names, with the constants that it gives them.

Host code is not parsed. Its macros are expanded, and a name in an argument is followed to what the function defines it as, or to
the arguments of the function's own template, wherever that is called. NVRTC decides whether the result is constant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from warpsim.frontends.brackets import end_of, without_templates
from warpsim.frontends.sources.host_code import without_text

_MOST_INSTANCES = 64
"""Instances of all kernels together, at most, as all of them are compiled."""

_DEEPEST = 8
"""Names, calls or macros that are followed one after another, at most."""

_LONGEST, _LONGEST_LIST, _MOST_LISTS = 1_000_000, 10_000, 20_000
"""Characters that macros insert into host code, and of the arguments of an instance; and lists of arguments, at most."""

_WORD = re.compile(r"(?<![\w:.])[A-Za-z_]\w*(?!\w|\s*::)")
_NAMED = re.compile(r"((?:\b\w+\s*::\s*)*)\b(\w+)\s*<(?![<=])")
_FUNCTION = re.compile(r"\b(\w+)\s*(?:<[^<>(){};]*>\s*)?\(")
_GOES_ON = re.compile(r"\)\s*\w")
_NAMESPACE = re.compile(r"\bnamespace\s+(\w+(?:\s*::\s*\w+)*)\s*\{")
_CALCULATED = re.compile(r"[-+/%?|^~!=]|<<|[*&]\s*\w")
"""An expression that stands in parentheses when it takes the place of a name. A type such as `const float *` must not."""

_ALONE, _BARE = re.compile(r"^\((\w+)\)$"), r"\1"
"""One word in parentheses, and without them."""


@dataclass(frozen=True)
class _Function:
    """A function of the host.

    Attributes:
        text: with its head.
        name: without its class; empty: it has none.
        parameters: of its template: name -> what it stands for where it is left out; None: it must be given.
    """

    text: str
    name: str
    parameters: Mapping[str, str | None]


def kernel_templates(device_code: Iterable[str]) -> dict[str, str]:
    """Returns the templates of kernels in some texts: name -> name with namespaces."""
    return {name: full for name, (full, _) in _templates(device_code).items()}


def template_parameters(device_code: Iterable[str]) -> dict[str, list[str]]:
    """Returns the parameters of these templates: name -> such as "typename T", "int N = 4"."""
    return {name: parameters for name, (_, parameters) in _templates(device_code).items()}


def _templates(device_code: Iterable[str]) -> dict[str, tuple[str, list[str]]]:
    """Returns the templates of kernels in some texts: name -> name with namespaces, and the parameters."""
    found: dict[str, tuple[str, list[str]]] = {}
    for text in device_code:
        if "__global__" not in text:
            continue
        plain = without_text(text)
        spaces = [(one.start(), end_of(plain, one.end() - 1), one[1]) for one in _NAMESPACE.finditer(plain)]
        for mark in re.finditer(r"\b__global__\b", plain):
            head = max(plain.rfind(letter, 0, mark.start()) for letter in ";{}") + 1
            name = _declared_name(plain, mark.end())
            template = re.search(r"\btemplate\s*<", plain[head : mark.start()])
            if name and template:
                around = [space for begin, end, space in spaces if begin < mark.start() < end]
                closed = _closed(plain, head + template.end() - 1)
                declared = _separated(plain[head + template.end() : closed]) if closed else []
                full = "::".join(["".join(space.split()) for space in around] + [name])
                found.setdefault(name, (full, [" ".join(one.split()) for one in declared]))
    return found


def _declared_name(plain: str, place: int) -> str | None:
    """Returns the name of a function behind a place, where its annotations, and macros for these, may have arguments."""
    while found := _FUNCTION.search(plain, place):
        place = end_of(plain, found.end() - 1)
        if not found[1].startswith("__") and not _GOES_ON.match(plain, place):
            return found[1]
    return None


def namespaces_used(host_code: str, device_code: Iterable[str]) -> list[str]:
    """Returns the namespaces whose names host code uses without them, as far as device code has these namespaces."""
    used = dict.fromkeys(re.findall(r"\busing\s+namespace\s+(\w+)\s*;", without_text(host_code)))
    texts = list(device_code)
    return [name for name in used if any(re.search(rf"\bnamespace\s+{name}\s*\{{", text) for text in texts)]


def named_instances(host_code: str, kernels: Mapping[str, str], macros: Mapping[str, str]) -> list[str]:
    """Returns the instances of kernels that host code launches, or names, such as "space::k<float, 16>".

    Args:
        host_code: functions of the host.
        kernels: templates of kernels, as from `kernel_templates`.
        macros: name -> what it stands for, its parameters first.
    """
    host, most = _Host(_expanded(without_text(host_code), macros)), max(1, _MOST_INSTANCES // max(1, len(kernels)))
    of_each = (dict.fromkeys(islice(host.instances(name, full), most)) for name, full in kernels.items())
    return [instance for instances in of_each for instance in instances]


class _Host:
    """Templates that functions of the host name, and what is constant in these functions.

    Attributes:
        templates: the function, then as from `_named`.
        lists: of arguments, looked at so far.
    """

    def __init__(self, plain: str) -> None:
        self.templates = [(function, *one) for function in _functions(plain) for one in _named(function.text)]
        self.lists = 0

    def instances(self, name: str, full: str) -> Iterator[str]:
        """Yields the instances of a kernel that are named; `full` is its name with namespaces."""
        for function, place, qualified, named, arguments in self.templates:
            if named == name:
                for constants in self._constants(function, place, arguments, 0):
                    given = ", ".join(_ALONE.sub(_BARE, " ".join(one.split())) for one in _separated(constants))
                    yield f"{qualified + name if qualified else full}<{given}>"

    def _constants(self, function: _Function, place: int, text: str, depth: int) -> Iterator[str]:
        """Yields a text of a function at a place with constants for names, once for each way to call the function's template."""
        self.lists += 1
        if self.lists > _MOST_LISTS:
            return
        for _ in range(_DEEPEST):
            if len(text) > _LONGEST_LIST:
                return
            values = {word: _value(function, word, place) for word in _words(text) if word not in function.parameters}
            if None in values.values():
                return
            known = {word: value for word, value in values.items() if value is not None and value != word}
            if not known:
                break
            text = _replaced(text, known)
        if not _words(text) & function.parameters.keys():
            yield text
            return
        for caller, called_at, arguments in self._calls(function, depth):
            for given in self._constants(caller, called_at, arguments, depth + 1):
                values = dict(function.parameters) | dict(zip(function.parameters, _separated(given), strict=False))
                constants = {name: value for name, value in values.items() if value is not None}
                if _words(text) & function.parameters.keys() <= constants.keys():
                    yield _replaced(text, constants)

    def _calls(self, function: _Function, depth: int) -> Iterator[tuple[_Function, int, str]]:
        """Yields where the template of a function is named, and with which arguments."""
        for caller, place, _, name, arguments in self.templates if depth < _DEEPEST else ():
            if caller is not function and name == function.name:
                yield caller, place, arguments


def _functions(plain: str) -> Iterator[_Function]:
    """Yields what host code has at file level: each begins where the one before it ends, with its declarations."""
    begin = 0
    while begin < len(plain):
        opened = plain.find("{", begin)
        end = len(plain) if opened < 0 else end_of(plain, opened) + 1
        head = plain[begin : end if opened < 0 else opened]
        name = _FUNCTION.search(without_templates(head))
        template = re.search(r"\btemplate\s*<", head)
        closed = _closed(head, template.end() - 1) if template else None
        declared = _separated(head[template.end() : closed]) if template and closed else []
        parameters = (re.fullmatch(r"(?s)[^=]*?(\w+)\s*(?:=(.*))?", one) for one in declared)
        named = {one[1]: None if one[2] is None else one[2].strip() for one in parameters if one}
        yield _Function(plain[begin:end], name[1] if name else "", named)
        begin = end


def _named(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yields templates with arguments in a text: where each stands, its namespaces, its name, the arguments."""
    for found in _NAMED.finditer(text):
        closed = _closed(text, found.end() - 1)
        if closed is not None:
            yield found.start(), "".join(found[1].split()), found[2], " ".join(text[found.end() : closed].split())


def _closed(text: str, place: int) -> int | None:
    """Returns where the angle bracket ends that is opened at a place; None: it is none."""
    depth = 0
    while place < len(text) and text[place] not in ";{}":
        letter = text[place]
        depth += (letter == "<") - (letter == ">")
        if depth == 0:
            return place
        place = end_of(text, place) + 1 if letter == "(" else place + 1
    return None


def _separated(text: str, *, templates: bool = True) -> list[str]:
    """Returns the parts of a list, without blanks around them; to a macro, angle brackets are no brackets."""
    parts, depth, begin, place = [], 0, 0, 0
    while place < len(text):
        letter = text[place]
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "<" and templates:
            place = _closed(text, place) or place
        elif letter == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
        place += 1
    return [*parts, text[begin:].strip()] if text.strip() else []


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _replaced(text: str, values: Mapping[str, str]) -> str:
    """Returns an expression with values in place of names."""
    inserted = {word: f"({value})" if _CALCULATED.search(value) else value for word, value in values.items()}
    return _WORD.sub(lambda found: inserted.get(found[0], found[0]), text)


def _value(function: _Function, word: str, place: int) -> str | None:
    """Returns what a name stands for that a function defines, the last one before a place; the name itself, if it defines none.

    None: it declares the name, but not as a constant.
    """
    text = function.text[:place]
    definitions = [*re.finditer(rf"(?<![\w.>:]){word}\s*=(?!=)|\bconst(?:expr)?\b[\w:\s]*\s{word}\s*\{{", text)]
    types = [*re.finditer(rf"\btypedef\s+([^;]*?)\s*\b{word}\s*;", text)]
    if types and (not definitions or types[-1].start() > definitions[-1].start()):
        return types[-1][1]
    if definitions:
        value = _separated(re.split(r"[;{}]", function.text[definitions[-1].end() :], maxsplit=1)[0])[:1]
        return value[0] if value and word not in _words(value[0]) else None
    is_declared = re.search(rf"\b(?:int|long|size_t|unsigned|bool|auto|float|double|typename|class)\s+{word}\b\s*[^=\w\s]", text)
    return None if is_declared else word


def _expanded(plain: str, macros: Mapping[str, str]) -> str:
    """Returns host code with what its macros with parameters stand for."""
    called = {name: one for name, text in macros.items() if (one := _parts_of_macro(text)) is not None}
    if not called:
        return plain
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, called))})\s*\(")
    for _ in range(_DEEPEST):
        parts: list[str] = []
        length, at = 0, 0
        while (found := pattern.search(plain, at)) and length < _LONGEST:
            end = end_of(plain, found.end() - 1)
            inserted = _inserted(*called[found[1]], _separated(plain[found.end() : end], templates=False))
            parts += [plain[at : found.start()], inserted]
            length, at = length + len(inserted), end + 1
        if not at:
            break
        plain = "".join([*parts, plain[at:]])
    return plain


def _parts_of_macro(text: str) -> tuple[list[str], str] | None:
    """Returns the parameters and the text of a macro; None: it has no parameters, or is one for the device."""
    found = re.match(r"\(([\w\s,.]*)\)(.*)", text.replace("\\\n", " "), re.DOTALL)
    return (_separated(found[1]), without_text(found[2])) if found else None


def _inserted(parameters: Collection[str], text: str, arguments: list[str]) -> str:
    """Returns the text of a macro with its arguments; what stands between `##` is one word."""
    values = dict(zip(parameters, arguments, strict=False))
    if "..." in parameters:
        values["__VA_ARGS__"] = ", ".join(arguments[len(parameters) - 1 :])
    return re.sub(r"\s*##\s*", "", re.sub(r"[A-Za-z_]\w*", lambda found: values.get(found[0], found[0]), text))
