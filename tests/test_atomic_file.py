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


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    file = tmp_path / "file.txt"
    with atomic_write(file) as first:
        Path(first).write_text("first")
        with pytest.raises(OSError, match="full"), atomic_write(file) as second:
            Path(second).write_text("second")
            raise OSError(errno.ENOSPC, "full")
        with atomic_write(file) as third:
            Path(third).write_text("third")
        assert file.read_text() == "third"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file.txt": "first"}


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "elsewhere" / "file.txt")
    with atomic_write(link) as name:
        Path(name).write_text("text")
    assert link.is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file.txt"]


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"file\.txt"), atomic_write(tmp_path / "file.txt"):
        raise OSError(errno.ENOSPC, "No space left on device")
