"""Imports run one way, and no module hides a public function: the house rules that the folder listing promises."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import warpsim

PACKAGE = Path(warpsim.__file__).parent

MAY_IMPORT = {
    "units": (),
    "params": (),
    "gpu": ("params", "units"),
    "kernels": ("params", "gpu"),
    "latency": ("params", "gpu"),
    "residency": ("units", "gpu"),
    "engine": (),
    "drive": ("engine",),
    "trace": ("drive",),
    "encode": ("units", "gpu", "kernels", "latency", "residency", "engine", "foresight"),
    "foresight": ("engine",),
    "store": ("gpu", "kernels", "residency", "trace"),
    "readout": ("units", "gpu", "store", "engine"),
    "records": ("units", "gpu", "kernels", "store.schema", "engine", "drive", "readout", "trace"),
    "simulation": (
        "gpu", "kernels", "residency", "store", "encode", "engine", "drive", "readout", "trace", "records",
    ),
    "calibration": ("units", "gpu", "kernels", "residency", "readout", "simulation", "store.schema"),
    "models": ("units", "params", "gpu", "kernels", "latency", "residency", "store.schema"),
    "batch": ("units", "gpu", "kernels", "residency", "simulation", "store"),
    "results": ("store.schema",),
    "comparison": ("units", "gpu", "kernels", "latency", "residency", "models", "simulation", "store.schema", "batch"),
    "bounds": ("units", "residency", "simulation", "models", "batch"),
    "advice": (
        "gpu", "kernels", "residency", "simulation", "models", "batch.fields", "results.statistics", "store.schema",
    ),
    "side_by_side": ("gpu", "kernels", "residency", "models", "simulation", "store.schema"),
    "cli": (
        "gpu", "kernels", "residency", "drive", "simulation", "store", "batch", "results", "models", "comparison", "bounds",
        "advice", "side_by_side", "trace",
    ),
}
"""Part of the package -> the parts that it may import, itself aside; those of types alone are free."""


def modules():
    """Every module but the package's own page, by its dotted name inside the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if parts[0] not in ("experiments", "__init__"):  # an installed package holds the experiments too
            yield name, path


def imported(path):
    """Dotted names that a module imports when it runs: at the top or in a function, but not for types alone."""
    names = set()
    todo = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {name if is_module(name) else node.module for name in inside}
        todo += ast.iter_child_nodes(node)
    return names


def is_module(name):
    place = PACKAGE.parent.joinpath(*name.split("."))
    return name.startswith("warpsim.") and (place.with_suffix(".py").is_file() or place.is_dir())


def test_every_part_has_a_place():
    assert {name.split(".")[0] for name, _ in modules()} == set(MAY_IMPORT)


def test_the_rules_have_no_circle():
    order = []
    left = {part: {name.split(".")[0] for name in allowed} for part, allowed in MAY_IMPORT.items()}
    while left:
        free = [part for part, needs in left.items() if needs <= set(order)]
        assert free, left
        order += free
        left = {part: needs for part, needs in left.items() if part not in free}


@pytest.mark.parametrize(("name", "path"), [pytest.param(*module, id=module[0]) for module in modules()])
def test_imports_run_one_way(name, path):
    part = name.split(".")[0]
    for target in imported(path):
        if target == "warpsim":  # the version
            continue
        inside = target.removeprefix("warpsim.")
        if inside != target and inside.split(".")[0] != part:
            allowed = MAY_IMPORT[part]
            assert any(inside == rule or inside.startswith(f"{rule}.") for rule in allowed), f"{name} imports {target}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "engine").glob("*.py")), ids=lambda path: path.stem)
def test_the_engine_imports_numpy_and_numba_only(path):
    roots = {name.split(".")[0] for name in imported(path)} - {"warpsim"}
    assert roots <= {"numpy", "numba", "llvmlite"} | sys.stdlib_module_names  # llvmlite is the compiler of numba


@pytest.mark.parametrize("module", ["gpu", "kernels", "latency", "residency", "store.schema", "batch.plan"])
def test_descriptions_do_without_the_engine(module):
    code = f"import sys, warpsim.{module}; assert not {{'numba', 'warpsim.engine', 'xarray'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True)


def test_no_module_bears_the_name_of_a_public_function():
    functions = {name for name in warpsim.__all__ if callable(getattr(warpsim, name))}
    assert {"simulate", "sweep", "occupancy"} <= functions
    commands_aside = {name.split(".")[-1] for name, _ in modules() if not name.startswith("cli.")}
    assert not functions & commands_aside


def test_the_public_names_are_there_and_no_others():
    assert dir(warpsim) == sorted(warpsim.__all__)
    for name in warpsim.__all__:
        assert getattr(warpsim, name) is not None
    with pytest.raises(AttributeError, match="module 'warpsim' has no attribute 'simulated'"):
        warpsim.simulated  # noqa: B018


def test_the_package_itself_imports_nothing():
    code = "import sys, warpsim; assert not {'numpy', 'pydantic', 'xarray', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True)
