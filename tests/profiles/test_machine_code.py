"""Kernels from the machine code of reports that have no counts by instruction."""

from dataclasses import replace

import pytest

import warpsim as ws
from tests.support.profiled_launches import launch
from warpsim import cli
from warpsim.frontends.caches.walk import caches_of
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.cubin import Function, Parameter
from warpsim.frontends.program.convert import Requirements
from warpsim.kernels.traversal import walk
from warpsim.profiles import machine_code
from warpsim.profiles.code import machine_function
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.sections import Section

GRID = {f"launch__{what}_dim_{axis}": size for what, sizes in (("grid", (50, 4, 1)), ("block", (64, 4, 1)))
        for axis, size in zip("xyz", sizes, strict=True)}  # fmt: skip


def uncounted(metrics=None, texts=None):
    """The launch as a report of the basic set holds it: every instruction counts as executed once."""
    counted = launch(GRID | {"launch__shared_mem_per_block_dynamic": 512} | (metrics or {}), texts=texts)
    code = tuple(replace(one, executed=1, counts={}) for one in counted.code)
    function = Function("k", counted.words, 16, 256, (Parameter(0, 8),), 0x160)
    return replace(counted, code=code, sections=(Section(0x1000, 0, function),))


@pytest.fixture
def report(monkeypatch):
    """Has reports hold this launch; a test can replace what is in the list."""
    held = [uncounted()]
    monkeypatch.setattr(machine_code, "read_code", lambda path, number: held[0])
    return held


def test_all_of_the_machine_code_is_kept():
    found = machine_function(uncounted(), as_it_stands=True)
    assert [one.base for one in found.code] == ["S2R", "MOV", "IMAD", "LDG", "FMUL", "STG", "BRA", "EXIT", "BRA"]
    assert found.code[6].operands.endswith(f"({found.code[3].labels[0]})")


def test_the_grid_is_that_of_the_launch_and_the_rest_that_of_the_binary(report):
    code = machine_code.launched_code("a.ncu-rep")
    assert code.launch == "50x4x1,64x4x1,512"
    assert (code.function.parameter_base, code.function.shared_bytes, len(code.function.parameters)) == (0x160, 256, 1)


def test_the_caches_are_those_of_the_chip_of_the_report(report):
    """A chip without a file has those of its architecture; the report says how many SMs it has, and how much L2."""
    own = {"device__attribute_multiprocessor_count": 24.0, "device__attribute_l2_cache_size": 32.0 * 2**20}
    for title, name in (("NVIDIA A40", "a40"), ("NVIDIA GeForce RTX 4060 Laptop GPU", None)):
        like = caches_of(report[0].arch, Requirements(32, 0), 8, name)
        for known, expected in (({}, like), (own, replace(like, sms=24, l2_bytes=32 * 2**20))):
            report[0] = uncounted({"device__attribute_display_name": title} | known)
            of_report = machine_code.launched_code("a.ncu-rep").caches
            assert caches_of(report[0].arch, Requirements(32, 0), 8, of_report) == expected


def test_trips_are_asked_for_and_addresses_are_known(report):
    with pytest.raises(FrontEndError, match=r"at line 13 of kernel\.cu: its number of trips depends on data"):
        machine_code.from_report("a.ncu-rep")
    kernel = ws.from_report("a.ncu-rep", trips={16: 7})
    assert kernel.block_warps == 8 and kernel.shared_bytes_per_block == 768
    (loop,) = (one for _, one in walk(kernel.body) if isinstance(one, ws.Loop))
    assert loop.trips == 7
    assert [one.access.pattern for one in loop.body if one.op in ("load", "store")] == ["coalesced", "coalesced"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"metrics": {"launch__grid_dim_y": None}}, "launch__grid_dim_y is missing; collect it with ncu --section LaunchStats"),
        ({"texts": dict.fromkeys(range(9), "")}, "the reader prints no text of instructions of sm_86"),
    ],
)
def test_what_a_report_lacks_is_named(report, change, says):
    report[0] = uncounted(**change)
    with pytest.raises(ProfileError, match=says):
        machine_code.launched_code("a.ncu-rep")


def test_a_report_without_machine_code(report):
    report[0] = replace(uncounted(), sections=())
    with pytest.raises(ProfileError, match=r"the machine code of .* is not in the report"):
        machine_code.launched_code("a.ncu-rep")


def test_the_command_imports_a_launch_of_a_report(report, tmp_path, capsys):
    output = tmp_path / "k.toml"
    assert cli.main(["import", "a.ncu-rep", "--kernel", "0", "--trips", "16=7", "-o", str(output)]) == 0
    assert f"--kernel {output} --blocks 200" in capsys.readouterr().out
    assert ws.load_kernel(output).block_warps == 8


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--kernel", "first"], "--kernel first: must be the number of a launch, from 0"),
        (["--arch", "sm_90"], "--arch: must be left out, since a launch of the report says so"),
        (["--binary", "x.cubin"], "--binary: must be left out, since a.ncu-rep is no trace"),
    ],
)
def test_options_that_a_report_does_not_take(report, tmp_path, capsys, options, says):
    assert cli.main(["import", "a.ncu-rep", *options, "-o", str(tmp_path / "k.toml")]) == 2
    assert says in capsys.readouterr().err


def test_a_launch_that_is_not_there(monkeypatch, tmp_path, capsys):
    def read_code(path, number):
        raise ProfileError(f"launch = {number}: must be a number from 0 to 3; a.ncu-rep holds 4 launches")

    monkeypatch.setattr(machine_code, "read_code", read_code)
    assert cli.main(["import", "a.ncu-rep", "--kernel", "5", "-o", str(tmp_path / "k.toml")]) == 2
    assert "--kernel 5: must be a number from 0 to 3" in capsys.readouterr().err
