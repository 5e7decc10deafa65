"""The page on models: its examples print what the page shows, and every model has a section."""

import re
from pathlib import Path

import pytest

from warpsim import models

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_every_model_has_a_section_with_an_example():
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(models.NAMES)
    for name, section in sections.items():
        assert re.search(r"\*\*Papers?\.\*\*", section), name
        assert "**Needs**" in section, name
        assert re.search(r"\*\*(Do not b|B)elieve", section), name
        assert "```python" in section, name


def test_examples_print_what_the_page_shows(capsys):
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    names = {}
    for (_, code), (_, shown) in zip(blocks[::2], blocks[1::2], strict=True):
        exec(code, names)
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("path", re.findall(r"\]\((\.\./[^)]+)\)", PAGE))
def test_links(path):
    assert (Path(__file__).parents[2] / "docs" / path).is_file()
