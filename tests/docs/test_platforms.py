"""What README, Makefile and the recipes promise about installation."""

import itertools
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def commands(page):
    return [line for block in re.findall(r"^```sh\n(.*?)^```", text(page), re.M | re.S) for line in block.splitlines()]


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md", "docs/quickstart.md", "docs/platforms.md"])
def test_plans_of_the_commands_are_in_the_repository(page):
    lines = [shlex.split(line) for line in commands(page)]
    made = {word for line in lines for option, word in itertools.pairwise(line) if option == "-o"}
    plans = [word for line in lines for word in line if word.endswith((".toml", ".yml", ".def")) and word not in made]
    assert [plan for plan in plans if not (ROOT / plan).is_file()] == []


def test_make_run_installs_what_the_commands_of_the_readme_need():
    (extras,) = re.findall(r"^\.venv/installed: WHAT = \.\[(.*)\]$", text("Makefile"), re.M)
    needed = {line.split()[1] for line in commands("README.md") if line.startswith("warpsim ")} & {"report", "trace"}
    assert needed == {"report", "trace"} <= {*extras.split(",")}
    assert ".venv/bin/warpsim" in text("README.md")


def test_the_first_figure_is_a_small_part_of_the_sweep():
    from warpsim.sweeps.plan import Plan

    folder = ROOT / "experiments" / "cusp"
    first, whole = (Plan.from_toml(folder / name) for name in ("plan_first.toml", "plan.toml"))
    assert list(first.axes) == list(whole.axes)

    def work(plan):
        return plan.points * plan.replicates.most * (plan.settings["warmup"] + plan.settings["cycles"])

    assert work(first) * 40 < work(whole)


def test_the_recipes_name_files_that_exist():
    recipe = text("docs/recipes/warpsim.def")
    copied = [line.split()[0] for line in recipe.split("%files")[1].split("%post")[0].splitlines() if line.strip()]
    assert copied and all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "warpsim", "params", "experiments"} <= {*copied}
    environment = text("docs/recipes/environment.yml")
    (place,) = re.findall(r"- -e (\S+)\[", environment)
    assert (ROOT / "docs" / "recipes" / place / "pyproject.toml").resolve() == ROOT / "pyproject.toml"
