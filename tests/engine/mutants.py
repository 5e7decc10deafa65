"""Mutants of the engine: every single change of a comparison, an operation or a constant in `warpsim/engine/`."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ENGINE = Path(__file__).parents[2] / "warpsim" / "engine"
LEFT_OUT = {
    "__init__.py", "lane_rules.py", "speculation.py",  # for the compiler
    "constants.py", "machine.py", "state.py", "check.py",  # declarations, and the check of a state
    "threads.py",  # several threads, by which only compiled code runs
}  # fmt: skip
OTHER_COMPARISON = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
OTHER_OPERATION = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: the file of the engine.
        node: the number of the changed node in the tree of the file.
        line: the line of the node.
        statement: the line of its innermost statement; None at the top of a module, which every import reaches.
        change: what is done to it, in words.
        source: that line.
    """

    file: str
    node: int
    line: int
    statement: int | None
    change: str
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.change}: {self.source}"


@cache
def parsed(file: str) -> tuple[str, ast.Module, list[ast.AST]]:
    """Returns the source of a file, its tree, and the nodes of the tree in the order that numbers them."""
    source = (ENGINE / file).read_text()
    tree = ast.parse(source)
    return source, tree, list(ast.walk(tree))


def all_mutants() -> list[Mutant]:
    """Returns every mutant of the engine."""
    return [mutant for path in sorted(ENGINE.glob("*.py")) if path.name not in LEFT_OUT for mutant in mutants_of(path.name)]


def mutants_of(file: str) -> Iterator[Mutant]:
    """Yields every mutant of a file, without its decorators and classes, which plain Python does not run."""
    source, tree, nodes = parsed(file)
    text, skipped, statements = source.splitlines(), _skipped(file, tree), _statements(tree)
    for number, node in enumerate(nodes):
        change = None if id(node) in skipped else _change(node)
        if change:
            line = node.lineno  # type: ignore[attr-defined]
            yield Mutant(file, number, line, statements[id(node)], change, text[line - 1].strip())


def _skipped(file: str, tree: ast.Module) -> set[int]:
    """Returns the nodes that are not changed."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            skipped |= {id(inner) for decorator in node.decorator_list for inner in ast.walk(decorator)}
        elif isinstance(node, ast.ClassDef):
            skipped |= {id(inner) for inner in ast.walk(node)}
    return skipped


def _statements(tree: ast.Module) -> dict[int, int | None]:
    """Returns for each node the line of its innermost statement; None outside functions."""
    found: dict[int, int | None] = {}

    def visit(node: ast.AST, line: int | None, within: bool) -> None:
        if within and isinstance(node, ast.stmt):
            line = node.lineno
        found[id(node)] = line
        for inner in ast.iter_child_nodes(node):
            visit(inner, line, within or isinstance(node, ast.FunctionDef))

    visit(tree, None, False)
    return found


def _change(node: ast.AST) -> str | None:
    """Returns what is done to a node, in words; None: nothing."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER_COMPARISON:
        return f"{type(node.ops[0]).__name__} -> {OTHER_COMPARISON[type(node.ops[0])].__name__}"
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OTHER_OPERATION:
        return f"{type(node.op).__name__} -> {OTHER_OPERATION[type(node.op)].__name__}"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return f"{node.value} -> {node.value + 1}"
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("min", "max"):
        return "min <-> max"
    return None


def mutated(mutant: Mutant) -> CodeType:
    """Returns the code of a file with one change."""
    tree = ast.parse(parsed(mutant.file)[0])
    node: Any = list(ast.walk(tree))[mutant.node]
    if isinstance(node, ast.Compare):
        node.ops[0] = OTHER_COMPARISON[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = OTHER_OPERATION[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value += 1
    else:
        node.func.id = {"min": "max", "max": "min"}[node.func.id]
    return compile(tree, str(ENGINE / mutant.file), "exec")


REACHED: set[str] = set()
"""The statements of the engine that have run since it was emptied, as "file:line", where `record_statements` was called."""


def marked(file: str) -> CodeType:
    """Returns the code of a file, in which each statement of a function adds itself to `REACHED`."""
    tree = ast.parse(parsed(file)[0])
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        for node in list(ast.walk(function)):
            for name in ("body", "orelse"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    marks = [ast.parse(f"REACHED.add('{file}:{statement.lineno}')").body[0] for statement in block]
                    setattr(node, name, [one for pair in zip(marks, block, strict=True) for one in pair])
    return compile(tree, str(ENGINE / file), "exec")


class _Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports other code than that of the files of the engine."""

    def __init__(self, changed: Callable[[str], CodeType | None]) -> None:
        self.changed = changed

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        file = ENGINE / f"{name.rpartition('.')[2]}.py"
        if not name.startswith("warpsim.engine.") or self.changed(file.name) is None:
            return None
        return importlib.util.spec_from_file_location(name, file, loader=self)  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["REACHED"] = REACHED
        code = self.changed(Path(module.__file__ or "").name)
        assert code is not None
        exec(code, module.__dict__)


def import_engine(changed: Callable[[str], CodeType | None]) -> None:
    """Has this process import the engine, and all that builds on it, anew; `changed` returns the code of a file that differs."""
    for name in list(sys.modules):
        if name.startswith(("warpsim.engine", "warpsim.simulation", "tests.")) and name != __name__:
            del sys.modules[name]
    sys.meta_path.insert(0, _Importer(changed))


def import_mutant(mutant: Mutant) -> None:
    """Has this process import a mutant of the engine from now on."""
    import_engine(lambda file: mutated(mutant) if file == mutant.file else None)


def record_statements() -> None:
    """Has this process import the engine with `REACHED` from now on."""
    import_engine(lambda file: None if file in LEFT_OUT else marked(file))
