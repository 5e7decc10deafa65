"""The page on sweeps: its plans are plans, its Python runs, its commands exist."""

import re
from pathlib import Path

import pytest

from warpsim.cli import make_parser
from warpsim.sweeps.plan import Plan

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", blocks("toml"))
def test_plans(tmp_path, text):
    (tmp_path / "plan.toml").write_text(text)
    plan = Plan.from_toml(tmp_path / "plan.toml")
    assert 2 <= plan.points < 2000
    assert Plan.from_provenance(plan.attributes()["provenance"]).record() == plan.record()


def test_python():
    names = {}
    for text in blocks("python"):
        exec(text, names)
    assert names["results"].sizes["replicate"] == 3
    assert names["results"]["alpha"].values.tolist() == [0, 4, 2]
    assert names["results"]["valid"].all()


def test_commands():
    lines = [line for text in blocks("sh") for line in text.splitlines()]
    assert len(lines) >= 5
    for line in lines:
        program, *arguments = line.split()
        assert program == "warpsim"
        assert callable(make_parser().parse_args(arguments).run)
