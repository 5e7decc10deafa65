"""Files that are no reports, and reports that are damaged."""

import pytest

from warpsim.profiles import report
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.report import list_launches


def test_files_that_are_no_reports(tmp_path):
    pytest.importorskip("ncu_report", reason="the reader of reports is not installed")
    for name, data, text in (
        ("text.ncu-rep", b"hello", "is not a report"),
        ("cut.ncu-rep", b"NVR\0\2\0\0\0\10\7\xff\0\0\0\10", "is truncated"),
        ("none.ncu-rep", None, "cannot be read"),
        ("empty.ncu-rep", b"NVR\0\2\0\0\0\10\7", "no launch that ncu-report"),
    ):
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(ProfileError, match=text):
            list_launches(tmp_path / name)


class DamagedAction:
    """A launch of which the reader returns the names of metrics, but not the metrics."""

    NameBase_DEMANGLED = NameBase_MANGLED = 0

    def name(self, _):
        return "kernel"

    def metric_names(self):
        return ["cycles"]

    def metric_by_name(self, _):
        return None


def test_damaged_data_of_a_launch_are_named(monkeypatch):
    monkeypatch.setattr(report, "_actions", lambda path: iter([(path, 0, DamagedAction(), [])]))
    for read in (report.list_launches, report.read_report, report.read_launch):
        with pytest.raises(ProfileError, match=r"a\.ncu-rep, launch 0: is damaged: AttributeError"):
            read("a.ncu-rep")
