"""Files that are written atomically."""

import errno
from pathlib import Path

import pytest

from warpsim.atomic_file import atomic_write


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path):
    file = tmp_path / "file.txt"
    file.write_text("before")
    with pytest.raises(OSError, match="full"), atomic_write(file) as name:
        Path(name).write_text("incomplete")
        raise OSError(errno.ENOSPC, "full")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file.txt": "before"}
    with atomic_write(file) as name:
        Path(name).write_text("after")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file.txt": "after"}


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "elsewhere" / "file.txt")
    with atomic_write(link) as name:
        Path(name).write_text("text")
    assert link.is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file.txt"]
