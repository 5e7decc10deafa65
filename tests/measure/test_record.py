"""Records as files: what is written comes back, and damage is an error that names the file."""

import pytest

from warpsim import atomic_file
from warpsim.measure.record import Record, RecordError, Table, read_record

TABLE = Table("What a row is.", {"name": "", "x": "GB/s", "n": ""}, [("a, b", 1.5, 3), ("c", 2.0, -4), ("1e3", 0.25, 0)])
RECORD = Record(
    {"device": {"name": 'H "x"', "sms": 132, "clock ghz": 1.98}, "run": {"ok": True, "list": [1, 2.5], "effort": {"trips": 3}}},
    {"t": TABLE},
)


def test_a_record_comes_back(tmp_path):
    RECORD.write(tmp_path / "r")
    again = read_record(tmp_path / "r")
    assert again.metadata == RECORD.metadata
    assert again.tables["t"].about == TABLE.about and again.tables["t"].units == TABLE.units
    assert list(again.tables["t"].rows) == [("a, b", 1.5, 3), ("c", 2.0, -4), (1000.0, 0.25, 0)]


def test_a_table_is_read_with_any_reader_of_csv(tmp_path):
    RECORD.write(tmp_path / "r")
    lines = (tmp_path / "r" / "t.csv").read_text().splitlines()
    assert lines[:4] == ["# What a row is.", "# x: GB/s", "# rows written: 3", "name,x,n"]


def test_columns_and_rows_are_chosen_by_name():
    assert TABLE.column("n").tolist() == [3, -4, 0]
    assert TABLE.where(name="c").rows == [("c", 2.0, -4)]
    assert TABLE.values("x") == [0.25, 1.5, 2.0]
    with pytest.raises(KeyError, match="column = 'y': one of name, x, n"):
        TABLE.column("y")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("record.toml", None, "not the head of a record"),
        ("record.toml", "format = ", "not the head of a record"),
        ("record.toml", "format = 99\ntables = []", "format: 1"),
        ("record.toml", "format = 1", "tables: the names"),
        ("t.csv", None, "not a table"),
        ("t.csv", "", "comments, a head and rows"),
        ("t.csv", "# x\na,b\n1\n", "row 1 has 1 values: 2"),
        ("t.csv", "# x\n# rows written: 2\na,b\n1,2\n", "rows = 1: 2 were written"),
        ("t.csv", "# x\na,b\n1,2\n3,4", "the last line is cut off"),
        ("t.csv", "# x\na,a\n1,2\n", "columns = a, a: each must have a name of its own"),
        ("record.toml", 'format = 1\ntables = ["../t"]', "tables: the names"),
    ],
)
def test_damage_is_named(tmp_path, name, text, message):
    RECORD.write(tmp_path / "r")
    path = tmp_path / "r" / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordError, match=message) as error:
        read_record(tmp_path / "r")
    assert str(path) in str(error.value)


def test_a_byte_order_mark_and_windows_line_endings_are_read(tmp_path):
    RECORD.write(tmp_path / "r")
    for path in (tmp_path / "r").iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_record(tmp_path / "r").tables["t"].units == TABLE.units


def test_an_interrupted_record_leaves_the_one_before(tmp_path):
    class Broken(list):
        def __iter__(self):
            yield ("d", 1.0, 1)
            raise KeyboardInterrupt

    RECORD.write(tmp_path / "r")
    before = {path.name: path.read_text() for path in (tmp_path / "r").iterdir()}
    tables = {"new": TABLE, "t": Table(TABLE.about, TABLE.units, Broken())}
    with pytest.raises(KeyboardInterrupt):
        Record({"run": {}}, tables).write(tmp_path / "r")
    assert {path.name: path.read_text() for path in (tmp_path / "r").iterdir()} == before


@pytest.mark.parametrize("files", range(3))
def test_the_head_is_the_last_to_be_replaced(tmp_path, monkeypatch, files):
    """A record of more tables, of which not all files got to their places, is still the one before."""
    moved = []

    def replaced(source, target):
        if len(moved) == files:
            raise KeyboardInterrupt
        moved.append(target)
        moved_for_good(source, target)

    RECORD.write(tmp_path / "r")
    moved_for_good = atomic_file.os.replace
    monkeypatch.setattr(atomic_file.os, "replace", replaced)
    with pytest.raises(KeyboardInterrupt):
        Record(RECORD.metadata, {"t": TABLE, "u": TABLE}).write(tmp_path / "r")
    assert list(read_record(tmp_path / "r").tables) == ["t"]
