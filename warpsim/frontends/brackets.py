"""Brackets in C++ text: where they end, and declarations without what stands in them."""

from __future__ import annotations

import re

_PAIRS = {"(": re.compile(r"[()]"), "{": re.compile(r"[{}]")}
_IN_TEMPLATES = re.compile(r"<[^<>]*>|operator\s*[=!<>+\-*/]+")
_IN_BOTH = re.compile(rf"{_IN_TEMPLATES.pattern}|\([^()]*\)")


def end_of(text: str, place: int) -> int:
    """Returns where the bracket ends that is opened at a place, or the end of the text."""
    depth, opening = 0, text[place]
    for found in _PAIRS[opening].finditer(text, place):
        depth += 1 if found[0] == opening else -1
        if not depth:
            return found.start()
    return len(text)


def without_templates(text: str, *, parentheses: bool = False) -> str:
    """Returns a declaration without what stands in angle brackets, operators among them, and perhaps in parentheses."""
    inner, before = _IN_BOTH if parentheses else _IN_TEMPLATES, ""
    while text != before:
        before, text = text, inner.sub("", text)
    return text
