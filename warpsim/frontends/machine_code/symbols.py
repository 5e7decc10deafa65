"""Names of functions in machine code, which compilers mangle (Itanium C++ ABI): their own names, and instances of templates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from warpsim.arguments import did_you_mean
from warpsim.frontends.errors import FrontEndError

_BUILT_IN = {
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
}
_OF_FILE = "_GLOBAL__N_", "_INTERNAL_"
"""How the names of namespaces begin that compilers make for what has no name outside its file."""

_VALUE, _NUMBER = re.compile(r"L([a-z])(n?)(\d+)E"), re.compile(r"(n?)(\d+)E")


def pick_function(names: Sequence[str], wanted: str | None, where: str) -> str:
    """Returns the name of the function that is meant: the only one, or that whose name is given.

    Args:
        names: those that are there, perhaps mangled.
        wanted: that of the function: mangled or not, with or without its namespaces and the arguments of its template; "::f" is
            that of no namespace, as is "f" if several have this name; None: the only one.
        where: what holds them, for messages.

    Raises:
        FrontEndError: there is no such function, or several are possible; the message lists those that are there.
    """
    shown = _shown(names)
    known = sorted(shown.values())
    there = ", ".join(known) or "none"
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise FrontEndError(f"function = None: {where} holds several; name one of: {there}" if names else f"{where}: no function")
    if wanted in names:
        return wanted
    found = _meant(names, wanted)
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(sorted(shown[name] for name in found))
        raise FrontEndError(f"function = {wanted!r}: several match; name one of: {several}")
    raise FrontEndError(f"function = {wanted!r}: is not in {where}{did_you_mean(wanted, known)}; functions there: {there}")


def _shown(names: Sequence[str]) -> dict[str, str]:
    """Returns the shortest name of each symbol that tells it from others: with namespaces, arguments of its template, or both."""
    forms = {name: (plain_name(name), qualified_name(name), instance_name(name), _qualified_instance(name)) for name in names}
    times = [Counter(of_kind) for of_kind in zip(*forms.values(), strict=True)]
    return {
        name: next((form for form, count in zip(each, times, strict=True) if count[form] == 1), name)
        for name, each in forms.items()
    }


def _meant(names: Sequence[str], wanted: str) -> list[str]:
    """Returns the symbols that a name can stand for: those that have it with all namespaces, or else those that end in it."""
    word = "::" + "".join(wanted.split()).removeprefix("::")
    forms = {name: [f"::{''.join(form(name).split())}" for form in (qualified_name, _qualified_instance)] for name in names}
    whole = [name for name, each in forms.items() if word in each]
    if whole or wanted.lstrip().startswith("::"):
        return whole
    return [name for name, each in forms.items() if any(form.endswith(word) for form in each)]


def plain_name(symbol: str) -> str:
    """Returns the function's own name in a mangled symbol: "softmax" of "_ZN2nn7softmaxEPKfPf"; others as they are."""
    names, _ = _divided(symbol)
    return names[-1]


def qualified_name(symbol: str) -> str:
    """Returns the function's name with its namespaces: "nn::softmax" of "_ZN2nn7softmaxEPKfPf"; others as they are.

    Namespaces that compilers make for names of a single file are left out.
    """
    names, _ = _divided(symbol)
    return "::".join(name for name in names if not name.startswith(_OF_FILE))


def _qualified_instance(symbol: str) -> str:
    """Returns the name with namespaces and the arguments of the template: "nn::scale<float>"; other symbols stay as they are."""
    instance, spaces = instance_name(symbol), qualified_name(symbol).rpartition("::")[0]
    return instance if instance == symbol or not spaces else f"{spaces}::{instance}"


def instance_name(symbol: str) -> str:
    """Returns the name with the arguments of the template: "scale<float, 128>" of "_Z5scaleIfLi128EEvPT_".

    Other symbols stay as they are. Arguments are known that are whole numbers, truth values, types of the language, and types
    that have a single name, with the values of enumerations: "add<(Kind)1>".
    """
    names, rest = _divided(symbol)
    arguments = _arguments(rest, [None] * len(names))
    return symbol if not arguments else f"{names[-1]}<{', '.join(arguments)}>"


def _divided(symbol: str) -> tuple[list[str], str]:
    """Returns the names in a symbol, the last of which is the function's own, and what follows them."""
    if not symbol.startswith("_Z"):
        return [symbol], ""
    nested = symbol.startswith("_ZN")  # of several names the last one; otherwise types follow the first one
    rest = symbol.removeprefix("_Z").removeprefix("N").removeprefix("K")  # K: a method that changes nothing
    names = []
    while found := re.match(r"\d+", rest):
        name, rest = _counted(rest, found)
        names.append(name)
        if not nested:
            break
    return (names, rest) if names and names[-1] else ([symbol], rest)


def _counted(rest: str, length: re.Match[str]) -> tuple[str, str]:
    """Returns a name of so many letters, and what follows it."""
    end = length.end() + int(length[0])
    return rest[length.end() : end], rest[end:]


def _arguments(rest: str, known: list[str | None]) -> list[str]:
    """Returns the arguments of a template with which a part of a symbol begins; none if one of them is not known.

    `known` are the names so far, to which a symbol can refer by number; None where no type has it.
    """
    found: list[str] = []
    if not rest.startswith("I"):
        return found
    rest = rest[1:]
    while not rest.startswith("E"):
        if value := _VALUE.match(rest):
            number = int(value[3])
            found.append(("false", "true")[number] if value[1] == "b" and number < 2 else f"{'-' if value[2] else ''}{number}")
            rest = rest[value.end() :]
        elif rest.startswith("L") and (length := re.match(r"\d+", rest[1:])):  # a value of an enumeration
            name, rest = _counted(rest[1:], length)
            if (value := _NUMBER.match(rest)) is None:
                return []
            known = [*known, name]
            found.append(f"({name}){'-' if value[1] else ''}{value[2]}")
            rest = rest[value.end() :]
        elif rest[:1] in _BUILT_IN:
            found.append(_BUILT_IN[rest[0]])
            rest = rest[1:]
        elif length := re.match(r"\d+", rest):
            name, rest = _counted(rest, length)
            known = [*known, name]
            found.append(name)
        elif again := re.match(r"S([0-9A-Z]*)_", rest):
            number = int(again[1], 36) + 1 if again[1] else 0
            name_again = known[number] if number < len(known) else None
            if name_again is None:
                return []
            found.append(name_again)
            rest = rest[again.end() :]
        else:
            return []
    return found
