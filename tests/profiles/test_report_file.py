"""Files that are no reports, and reports that are damaged."""

import math
import struct

import pytest

from warpsim.frontends.machine_code.cubin import Cubin, Function
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


class CountedAction:
    """A launch of two instructions at 0x10 and 0x20, of which one metric has other counts."""

    NameBase_DEMANGLED = NameBase_MANGLED = 0

    def __init__(self, metric, counts):
        self.counts = {"inst_executed": [8.0, 8.0], "memory_l1_wavefronts_shared": [0.0, 8.0]} | {metric: counts}

    def name(self, _):
        return "kernel"

    def metric_names(self):
        return list(self.counts)

    def metric_by_name(self, name):
        return Counted(self.counts[name])

    def sass_by_pc(self, pc):
        return "EXIT"

    def source_info(self, pc):
        return None

    def rule_results_as_dicts(self):
        return []


class Counted:
    """A metric with a value for each of some instructions."""

    def __init__(self, counts):
        self.counts = counts

    def num_instances(self):
        return len(self.counts)

    def has_correlation_ids(self):
        return True

    def correlation_ids(self):
        return Counted([0x10, 0x20])

    def value(self, index=None):
        return sum(self.counts) if index is None else self.counts[index]


@pytest.mark.parametrize("metric", ["inst_executed", "memory_l1_wavefronts_shared", "smsp__pcsamp_warps_issue_stalled_wait"])
@pytest.mark.parametrize("count", [math.nan, math.inf, -1.0])
def test_counters_that_are_none_are_named(monkeypatch, metric, count):
    action = CountedAction(metric, [8.0, count])
    monkeypatch.setattr(report, "_actions", lambda path: iter([(path, 0, action, [])]))
    with pytest.raises(ProfileError, match=rf"a\.ncu-rep, launch 0: is damaged: .*{metric} at 0x20 = {count:g}: must be finite"):
        report.read_launch("a.ncu-rep")
    action.counts[metric][1] = 4.0
    assert [one.address for one in report.read_launch("a.ncu-rep").code] == [0, 16]


def test_of_two_functions_of_one_name_the_executed_one_is_taken(monkeypatch):
    """The texts of the instructions are EXIT, opcode 0x14d."""
    action = CountedAction("inst_executed", [8.0, 8.0])
    codes = [struct.pack("<QQ", number | 7 << 12, 0) * 2 for number in (0x020, 0x14D)]
    cubins = [Cubin(80, {"kernel": Function("kernel", code, 16, 0, (), None)}) for code in codes]
    for given in (cubins, cubins[::-1]):
        monkeypatch.setattr(report, "_actions", lambda path, given=given: iter([(path, 0, action, given)]))
        assert report.read_launch("a.ncu-rep").words == codes[1]


def test_damaged_data_of_a_launch_are_named(monkeypatch):
    monkeypatch.setattr(report, "_actions", lambda path: iter([(path, 0, DamagedAction(), [])]))
    for read in (report.list_launches, report.read_report, report.read_launch):
        with pytest.raises(ProfileError, match=r"a\.ncu-rep, launch 0: is damaged: AttributeError"):
            read("a.ncu-rep")


def test_a_launch_without_a_name_is_damaged(monkeypatch):
    action = CountedAction("inst_executed", [8.0, 8.0])
    action.name = lambda base: None
    monkeypatch.setattr(report, "_actions", lambda path: iter([(path, 0, action, [])]))
    for read in (report.list_launches, report.read_report, report.read_launch):
        with pytest.raises(ProfileError, match=r"a\.ncu-rep, launch 0: is damaged: it has no name"):
            read("a.ncu-rep")
