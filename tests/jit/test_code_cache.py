"""Machine code of the engine is kept in a folder for each version, which nobody but the user can write, with checksums."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import warpsim
from warpsim.jit import code_cache

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes of folders are those of POSIX")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the sources of the engine, and of how it is compiled."""
    for room in ("engine", "jit"):
        original = Path(warpsim.__file__).parent / room
        shutil.copytree(original, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.fixture(autouse=True)
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))


def loaded(sources: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("copied_cache", sources / "jit" / "code_cache.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def folder_of(sources: Path) -> Path:
    folder: Path = loaded(sources).cache_folder()
    assert folder is not None
    return folder


def test_the_same_sources_share_a_folder(sources: Path, tmp_path: Path) -> None:
    folder = folder_of(sources)
    assert folder == folder_of(sources)
    assert folder.parent.parent == tmp_path / "chosen"
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["engine/memory.py", "engine/rng.py", "jit/decorators.py", "jit/aliases.py"])
def test_an_edit_of_any_source_changes_the_folder(sources: Path, name: str) -> None:
    before = folder_of(sources)
    with (sources / name).open("a") as source:
        source.write("# edited\n")
    assert folder_of(sources) != before


def test_a_new_source_changes_the_folder(sources: Path) -> None:
    before = folder_of(sources)
    (sources / "engine" / "new.py").write_text("")
    assert folder_of(sources) != before


@pytest.mark.parametrize(("name", "value"), [("numba.__version__", "0.0.1"), ("numba.core.config.BOUNDSCHECK", 1)])
def test_another_numba_or_setting_changes_the_folder(
    sources: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    before = folder_of(sources)
    monkeypatch.setattr(name, value)
    assert folder_of(sources) != before


def test_the_users_cache_without_a_choice(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert folder_of(sources).parent.parent == tmp_path / "user"


def refused(sources: Path, caplog: pytest.LogCaptureFixture) -> str:
    cache = loaded(sources)
    caplog.clear()
    assert cache.cache_folder() is None
    assert cache.cache_folder() is None
    (record,) = caplog.records  # once, and it says what to set
    message = record.getMessage()
    assert "compiled code is not kept" in message and "NUMBA_CACHE_DIR" in message
    return message


def test_without_a_home_folder_nothing_is_kept(
    sources: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", unknown)
    assert "there is no home folder" in refused(sources, caplog)


def test_a_folder_that_cannot_be_made(sources: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "chosen").write_text("a file, not a folder")
    assert str(tmp_path / "chosen") in refused(sources, caplog)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750])
def test_a_folder_that_others_can_use(sources: Path, caplog: pytest.LogCaptureFixture, mode: int) -> None:
    folder = folder_of(sources)
    folder.chmod(mode)
    assert f"{folder} has mode {mode:o}, not 700" in refused(sources, caplog)


def test_a_folder_in_which_others_can_rename_it(sources: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder_of(sources)
    (tmp_path / "chosen").chmod(0o777)
    assert f"everybody can write to {tmp_path / 'chosen'}" in refused(sources, caplog)
    (tmp_path / "chosen").chmod(0o1777)  # as /tmp
    folder_of(sources)


def test_a_link_to_a_folder(sources: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_of(sources)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert "is no folder" in refused(sources, caplog)


def test_folders_of_others(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = folder_of(sources)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert f"{folder.parent} belongs to another user" in refused(sources, caplog)


FUNCTION = """
import sys
from pathlib import Path
import numba
from warpsim.jit.code_cache import keep_code

def twice(x):
    return 2 * x

compiled = numba.njit(twice)
keep_code(compiled, Path(sys.argv[1]))
assert compiled(21) == 42
print(sum(compiled.stats.cache_hits.values()))
"""


def uses(program: Path, folder: Path) -> tuple[int, str]:
    """Returns the number of compiled functions found in the folder, and what was said."""
    command = [sys.executable, str(program), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return int(done.stdout), done.stderr


def test_damaged_files_are_dropped_and_compiled_again(tmp_path: Path) -> None:
    folder, program = tmp_path / "code", tmp_path / "program.py"
    folder.mkdir()
    program.write_text(FUNCTION)
    assert uses(program, folder) == (0, "")
    assert uses(program, folder) == (1, "")
    (index,), (data,) = folder.rglob("*.nbi"), folder.rglob("*.nbc")
    whole = {file: file.read_bytes() for file in (index, data)}
    changes = {
        "flipped": lambda content: content[:100] + bytes([content[100] ^ 4]) + content[101:],
        "truncated": lambda content: content[: len(content) // 2],
        "empty": lambda _: b"",
    }
    for file, damage in ((index, "flipped"), (data, "truncated"), (data, "flipped"), (index, "empty")):
        file.write_bytes(changes[damage](whole[file]))
        hits, said = uses(program, folder)
        assert hits == 0
        assert said.count("is damaged; it is compiled again") == 1 and len(said.splitlines()) == 1
        assert uses(program, folder) == (1, "")


def test_the_code_of_another_key_is_compiled_again(tmp_path: Path) -> None:
    folder, program = tmp_path / "code", tmp_path / "program.py"
    folder.mkdir()
    program.write_text(FUNCTION + "assert compiled(1.25) == 2.5\n")
    assert uses(program, folder) == (0, "")
    assert uses(program, folder) == (1, "")
    of_integers, of_floats = sorted(folder.rglob("*.nbc"))
    of_integers.write_bytes(of_floats.read_bytes())
    assert uses(program, folder) == (0, "")
    assert uses(program, folder) == (1, "")


def test_other_users_of_numba_keep_their_cache(tmp_path: Path) -> None:
    import numba
    from numba.core import config

    before = config.CACHE_DIR
    code_cache.keep_code(numba.njit(uses), tmp_path)
    assert before == config.CACHE_DIR
