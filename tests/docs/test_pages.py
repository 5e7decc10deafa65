"""The pages as a whole: their Python runs, their commands exist, and their lists are complete."""

import re
import shlex
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest

import warpsim as ws
from tests.test_layers import FOUNDATION, MAY_IMPORT
from warpsim.cli import make_parser

ROOT = Path(__file__).parents[2]

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "experiments").rglob("*.md"))]


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, *languages):
    """Code blocks of a page in one of these languages; `{code-cell} python` is a cell that the site executes."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", text(page), re.MULTILINE | re.DOTALL)
    return [re.sub(r"\A:tags:.*\n", "", code) for language, code in found if language.strip() in languages]


def cells(page, heading):
    """First cells of the rows of the table below a heading, without their backticks."""
    section = re.split(r"^#+ ", text(page).split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|")] for row in rows]


EXECUTED = ["README.md", *(f"docs/{name}.md" for name in (
    "quickstart", "kernels", "debugging", "report", "tutorials/own_kernel", "tutorials/own_chip", "tutorials/own_policy",
))]  # fmt: skip


@pytest.mark.parametrize("page", EXECUTED)
def test_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes = blocks(page, "python", "{code-cell} python")
    assert codes
    names = {}
    for code in codes:
        exec(code, names)
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page):
    lines = [line for code in blocks(page, "sh") for line in code.replace("\\\n", "").splitlines()]
    for line in lines:
        if line.startswith("warpsim "):
            assert callable(make_parser().parse_args(shlex.split(line)[1:]).run), line


def test_the_page_of_commands_lists_all():
    shown = re.findall(r"^\| `warpsim (\w+)` \|", text("docs/commands.md"), re.MULTILINE)
    (actions,) = [action for action in make_parser()._actions if action.choices]
    assert shown and sorted(shown) == sorted(actions.choices)


def test_the_rooms_are_those_of_the_import_rules():
    table = {room: set(needs) for (rooms, _, needs) in cells("docs/architecture.md", "Rooms") for room in rooms}
    assert table == MAY_IMPORT | {name: set() for name in FOUNDATION}


def test_places_in_the_architecture_exist():
    places = [name for row in cells("docs/architecture.md", "Where to find") for name in row[1] if "/" in name]
    assert len(places) >= 15
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_the_reference_has_every_public_name():
    pages = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "api").glob("*.md")))
    documented = set(re.findall(r"^\.\. (?:auto\w+|py:data):: (warpsim[\w.]*)", pages, re.MULTILINE))
    modules = {"kernels", "models", "plots", "__version__"}
    public = {f"warpsim.{name}" for name in ws.__all__ if name not in modules}
    public |= {f"warpsim.models.{name}" for name in (*ws.models.__all__, *ws.models.NAMES)}
    public |= {f"warpsim.kernels.{name}" for name in ws.kernels.__all__ if name not in ws.__all__}
    assert public <= documented
    assert "warpsim.plots" in documented and ws.plots.__all__  # it documents all that `__all__` lists


def test_the_page_of_results_explains_every_label():
    from warpsim.results.schema import OPS, SLOTS, STATES

    assert [row[0][0] for row in cells("docs/results.md", "Warp states")] == list(STATES)
    assert [row[0][0] for row in cells("docs/results.md", "Scheduler-cycles")] == list(SLOTS)
    operations = next(row[1] for row in cells("docs/results.md", "Dimensions") if row[0] == ["op"])
    assert operations == list(OPS)


def test_the_bibliography_has_every_author_that_the_code_cites():
    known = text("docs/bibliography.md")
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "warpsim").rglob("*.py")]
    cited = {name for source in sources for name in re.findall(r"([A-Z][\w-]+) et al\b", source)}
    cited |= {name for source in sources for name in re.findall(r"(?:&|and) ([A-Z][a-z]+),? (?:19|20)\d\d\b", source)}
    assert len(cited) >= 10 and not {name for name in cited if name not in known}


def test_the_worked_timeline_is_what_the_machine_does():
    section = text("docs/model.md").split("\n## 10. ")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]
    kernel, grid = ws.kernels.listing_3_1(), ws.Launch(blocks=1, block_warps=2)
    trace = ws.Trace(issues=(0, 1000), states=True)
    run = ws.simulate(ws.load_gpu("kepler"), kernel, launch=grid, memory="fixed", trace=trace).isel(replicate=0)
    assert [row[0].strip("`") for row in rows] == [line.partition(" # ")[0] for line in run.line_text.values]
    for slot, column in ((0, 2), (1, 4)):
        assert [int(row[column]) for row in rows] == run.issue_cycle[run.issue_slot == slot].values.tolist()
    for line, row in enumerate(rows):
        for state in run.state.values:
            stalls = [re.fullmatch(rf"`{state}` (\d+)(?:-(\d+))?", row[column]) for column in (1, 3)]
            cycles = sum(int(found[2] or found[1]) - int(found[1]) + 1 for found in stalls if found)
            assert state == "selected" or run.line_warp_cycles.sel(line=line, state=state) == cycles, (row[0], state)
    assert run.cycles == 345 and "`cycles` = 345" in section


def test_the_citation_is_of_this_version():
    citation = dict(re.findall(r"^([\w-]+): (.+)$", text("CITATION.cff"), re.MULTILINE))
    assert citation["version"] == ws.__version__
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", citation["date-released"])
    assert citation["cff-version"] == "1.2.0" and citation["license"] == "BSD-3-Clause"
    assert {"message", "title", "type"} <= set(citation)
    assert "Copyright (c) 2026, the warpsim developers" in text("LICENSE")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(\s*([^)\s]+?)\s*\)", prose):
        path = target.split("#")[0]
        if path and "://" not in target:
            assert (page.parent / path).exists(), target
