"""Fixtures of several files. What they need is imported in them: most files do without."""

import getpass

import pytest

from tests.support.small_plans import PLAN_TOML, small_plan


@pytest.fixture
def plan(tmp_path):
    """The file of a small plan."""
    file = tmp_path / "plan.toml"
    file.write_text(PLAN_TOML)
    return file


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The store of a small plan, for reading only."""
    from warpsim.sweeps.local import sweep

    path = tmp_path_factory.mktemp("sweep") / "out.zarr"
    sweep(small_plan(), path)
    return path


@pytest.fixture
def scratch(tmp_path):
    """The scratch folder of a Slurm script; its compiled code is that of these tests, so that no task compiles."""
    from warpsim.jit.decorators import CACHE_FOLDER

    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / f"warpsim-{getpass.getuser()}").symlink_to(CACHE_FOLDER.parent.parent)
    return folder
