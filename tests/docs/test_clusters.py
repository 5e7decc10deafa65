"""The page on many machines: its commands exist, its Python runs, the files that it names are there."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from tests.support.small_plans import small_plan
from warpsim.cli import make_parser
from warpsim.sweeps.local import sweep

ROOT = Path(__file__).parents[2]

PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")


def blocks(language):
    """Texts of the code blocks of a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def test_commands():
    lines = [line for text in blocks("") for line in text.replace("\\\n", "").splitlines() if line.startswith("warpsim ")]
    lines = [re.split(r"\s{3,}(?!-)", line)[0] for line in lines]  # without the explanation beside it
    assert len(lines) >= 8
    for line in lines:
        assert callable(make_parser().parse_args(shlex.split(line)[1:]).run), line


def test_the_records_of_tiles(tmp_path, monkeypatch):
    (code,) = [text for text in blocks("python") if "tile_records" in text]
    monkeypatch.chdir(tmp_path)
    sweep(small_plan(), "out.zarr", tiles=[0])
    module = ast.parse(code)
    names = {}
    exec(compile(ast.Module(module.body[:-1], []), "page", "exec"), names)
    record = eval(compile(ast.Expression(module.body[-1].value), "page", "eval"), names)
    assert {*record} == {"finished", "seconds", "host", "values", "points"}


def test_workers_of_dask_as_jobs_of_slurm():
    dask_jobqueue = pytest.importorskip("dask_jobqueue")
    (code,) = [text for text in blocks("python") if "SLURMCluster" in text]
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if ast.unparse(node.func) == "SLURMCluster"]
    options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    script = dask_jobqueue.SLURMCluster.job_cls("tcp://127.0.0.1:1", name="worker", **options).job_script()
    assert "#SBATCH -p short\n" in script and "#SBATCH -t 02:00:00\n" in script
    assert script.index("export NUMBA_CACHE_DIR=$SCRATCH/warpsim") < script.index("distributed.cli.dask_worker")


def test_files_that_the_page_names():
    names = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", PAGE)
    assert len(names) >= 5
    for name in names:
        assert (ROOT / name).exists(), name
