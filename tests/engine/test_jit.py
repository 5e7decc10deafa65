"""Each version of the engine has its own cache folder for machine code."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from warpsim.engine import jit


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A copy of the engine's sources."""
    copy = tmp_path / "engine"
    shutil.copytree(Path(jit.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(autouse=True)
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))


def loaded(engine: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("copied_jit", engine / "jit.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_same_sources_share_a_folder(engine: Path, tmp_path: Path) -> None:
    folder = loaded(engine).CACHE_FOLDER
    assert folder == loaded(engine).CACHE_FOLDER
    assert folder.is_dir()
    assert folder.parent.parent == tmp_path / "chosen"
    assert folder.name == jit.CACHE_FOLDER.name


@pytest.mark.parametrize("name", ["memory.py", "rng.py", "jit.py", "state.py"])
def test_an_edit_of_any_source_changes_the_folder(engine: Path, name: str) -> None:
    before = loaded(engine).CACHE_FOLDER
    with (engine / name).open("a") as source:
        source.write("# edited\n")
    assert loaded(engine).CACHE_FOLDER != before


def test_a_new_source_changes_the_folder(engine: Path) -> None:
    before = loaded(engine).CACHE_FOLDER
    (engine / "new.py").write_text("")
    assert loaded(engine).CACHE_FOLDER != before


def test_another_numba_changes_the_folder(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = loaded(engine).CACHE_FOLDER
    monkeypatch.setattr("numba.__version__", "0.0.1")
    assert loaded(engine).CACHE_FOLDER != before


def test_the_users_cache_without_a_choice(engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert loaded(engine).CACHE_FOLDER.parent.parent == tmp_path / "user"


def test_a_temporary_folder_where_the_chosen_one_cannot_be_made(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "chosen").write_text("a file, not a folder")
    assert loaded(engine).CACHE_FOLDER.parent.parent == tmp_path / "temporary"


def test_no_folder_at_all_says_what_to_set(engine: Path, tmp_path: Path) -> None:
    for name in ("chosen", "temporary"):
        (tmp_path / name).write_text("a file, not a folder")
    with pytest.raises(OSError, match="NUMBA_CACHE_DIR"):
        loaded(engine)


def test_other_users_of_numba_keep_their_cache(engine: Path) -> None:
    from numba.core import config

    before = config.CACHE_DIR
    loaded(engine).jit(lambda: None)
    assert before == config.CACHE_DIR
    assert os.environ["NUMBA_CACHE_DIR"] != str(jit.CACHE_FOLDER)
