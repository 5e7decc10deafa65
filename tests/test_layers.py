"""Imports run one way, and no module hides a public function: the house rules that the folder listing promises."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import warpsim

PACKAGE = Path(warpsim.__file__).parent

FOUNDATION = {"units", "arguments", "atomic_file"}
"""Modules at the top of the package, which import nothing of it."""

MAY_IMPORT = {
    "jit": set(),
    "engine": {"jit"},
    "results": set(),
    "hardware": set(),
    "kernels": {"hardware"},
    "reference": {"hardware", "kernels"},
    "frontends": {"jit", "hardware", "kernels"},
    "measure": {"hardware", "frontends"},
    "models": {"hardware", "kernels", "results"},
    "simulation": {"jit", "engine", "reference", "hardware", "kernels", "results"},
    "store": {"results"},
    "sweeps": {"hardware", "kernels", "simulation", "results", "store"},
    "profiles": {"hardware", "kernels", "frontends", "simulation", "results"},
    "analysis": {"hardware", "kernels", "models", "simulation", "results", "sweeps"},
    "views": {"results", "analysis"},
    "cli": {
        "hardware", "kernels", "models", "simulation", "results", "store", "sweeps", "analysis", "views", "frontends", "measure",
        "profiles",
    },
    "__main__": {"cli"},  # python -m warpsim
}
"""Room -> the rooms that it may import besides itself and the foundation. Imports for types alone are free."""


def modules():
    """Every module but the package's own page, by its dotted name inside the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if parts[0] not in ("experiments", "__init__"):  # an installed package holds the experiments too
            yield name, path


def imported(path, *, for_types=False):
    """Dotted names that a module imports when it runs, at the top or in a function; perhaps also those for types alone."""
    names = set()
    todo = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if not for_types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
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


def test_every_room_has_a_place():
    rooms = {name.split(".")[0] for name, _ in modules()}
    assert rooms - FOUNDATION == set(MAY_IMPORT)


def test_the_rules_have_no_circle():
    order = []
    left = dict(MAY_IMPORT)
    while left:
        free = [room for room, needs in left.items() if needs <= set(order)]
        assert free, left
        order += free
        left = {room: needs for room, needs in left.items() if room not in free}


@pytest.mark.parametrize(("name", "path"), [pytest.param(*module, id=module[0]) for module in modules()])
def test_imports_run_one_way(name, path):
    room = name.split(".")[0]
    allowed = set() if room in FOUNDATION else {room, *MAY_IMPORT[room]}
    if room not in ("engine", "jit", *FOUNDATION):
        allowed |= FOUNDATION
    for target in imported(path):
        if target.startswith("warpsim."):  # `from warpsim import __version__` is free
            assert target.split(".")[1] in allowed, f"{name} imports {target}"


def test_modules_have_no_circle():
    """Imports form no circle, neither those at the top of modules and packages nor those in functions."""
    needs = {name: {t.removeprefix("warpsim.") for t in imported(path)} for name, path in modules()}
    done = set()
    while len(done) < len(needs):
        free = {name for name in needs if name not in done and not (needs[name] & set(needs)) - done - {name}}
        assert free, sorted(set(needs) - done)
        done |= free


@pytest.mark.parametrize(("row", "for_types"), [("arrows between rooms", False), ("arrows, with imports for types", True)])
def test_the_page_on_the_architecture_counts_the_imports(row, for_types):
    rooms = FOUNDATION | set(MAY_IMPORT)
    arrows = {
        (name.split(".")[0], target.split(".")[1])
        for name, path in modules()
        for target in imported(path, for_types=for_types)
        if target.startswith("warpsim.") and target.split(".")[1] in rooms - {name.split(".")[0]}
    }
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (.*) \| \d+ \| (\d+) \|$", page, re.MULTILINE)
    assert {("rooms", str(len(rooms))), (row, str(len(arrows)))} <= set(table)


@pytest.mark.parametrize(
    "path", [path for room in ("engine", "jit") for path in sorted((PACKAGE / room).glob("*.py"))], ids=lambda path: path.stem
)
def test_the_engine_imports_numpy_and_numba_only(path):
    roots = {name.split(".")[0] for name in imported(path)} - {"warpsim"}
    assert roots <= {"numpy", "numba", "llvmlite"} | sys.stdlib_module_names  # llvmlite is the compiler of numba


@pytest.mark.parametrize(
    "module", ["hardware.gpu", "kernels", "hardware.latency", "hardware.residency", "results.schema", "sweeps.plan"]
)
def test_descriptions_do_without_the_engine(module):
    code = f"import sys, warpsim.{module}; assert not {{'numba', 'warpsim.engine', 'xarray'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True)


ROOMS = sorted(f"frontends/{path.parent.name}" for path in PACKAGE.glob("frontends/*/__init__.py"))


def named_on_the_page(package):
    """The modules and packages that the page of a package names, in this order."""
    page = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8")))
    names = "((?:[a-z_]+, )*[a-z_]+)"
    lists = re.findall(f"^ *{names} ", page, re.MULTILINE) + re.findall(f"; {names}: ", page)
    return [name for names in lists for name in names.split(", ")]


@pytest.mark.parametrize("package", ["frontends", *ROOMS, "measure", "profiles"])
def test_the_page_of_a_package_names_its_modules(package):
    inside = [*(PACKAGE / package).glob("*.py"), *(path.parent for path in (PACKAGE / package).glob("*/__init__.py"))]
    assert sorted(named_on_the_page(package)) == sorted(path.stem for path in inside if path.stem != "__init__")


def test_packages_of_the_front_ends_import_what_stands_above_them():
    order = named_on_the_page("frontends")
    for name, path in modules():
        if name.startswith("frontends."):
            room = name.split(".")[1]
            for target in imported(path):
                if target.startswith("warpsim.frontends."):
                    assert order.index(target.split(".")[2]) <= order.index(room), f"{name} imports {target}"


def test_no_module_bears_the_name_of_a_public_function():
    functions = {name for name in warpsim.__all__ if callable(getattr(warpsim, name))}
    assert {"simulate", "sweep", "occupancy"} <= functions
    commands_aside = {name.split(".")[-1] for name, _ in modules() if not name.startswith("cli.")}
    assert not functions & commands_aside


def test_the_public_names_are_there_and_no_others():
    assert dir(warpsim) == sorted(warpsim.__all__)
    for name in warpsim.__all__:
        assert getattr(warpsim, name) is not None
    with pytest.raises(AttributeError, match="simulated"):
        warpsim.simulated  # noqa: B018


def test_the_package_itself_imports_nothing():
    code = "import sys, warpsim; assert not {'numpy', 'pydantic', 'xarray', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True)
