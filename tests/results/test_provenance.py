"""Provenance: a run can be repeated from it, with the same results."""

import json

import numpy as np
import pytest
import xarray as xr

import warpsim as ws
from tests.support.small_plans import small_plan
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Instruction, Kernel, Loop, mix
from warpsim.results import provenance
from warpsim.simulation.api import simulate
from warpsim.simulation.point import from_provenance
from warpsim.sweeps.local import sweep

KEPLER = load_gpu("kepler")


def odd_kernel() -> Kernel:
    """A kernel with every kind of statement."""
    body = (
        Loop(body=(Instruction("load", dst="r1", src=("r1",)),), trips=(2, 4)),
        Conditional(then=(Instruction("alu", dst="r1", src=("r1",)),), probability=0.5),
    )
    return Kernel(name="odd", inputs=("r1",), body=body)


@pytest.mark.parametrize(
    ("kernel", "launch"),
    [
        (mix(alpha=2), Launch(block_warps=2, resident_blocks=3)),
        (odd_kernel(), Launch(blocks=20, block_warps=4)),
        (odd_kernel(), Launch(block_warps=4, persistent=True)),
    ],
)
def test_a_run_can_be_repeated(kernel, launch):
    first = simulate(
        KEPLER, kernel, launch=launch, scheduler="gto", replicates=2, seed=5, sms=1, warmup=50, cycles=300
    )
    again = simulate(**from_provenance(first.attrs["provenance"]))
    xr.testing.assert_equal(first, again)
    assert again.attrs["provenance"] == first.attrs["provenance"]


def test_attributes_name_software_and_time():
    ds = simulate(KEPLER, mix(alpha=2), warps=4, sms=1, warmup=0, cycles=100)
    assert ds.attrs["source"].startswith("warpsim ")
    assert "+00:00 simulate kepler mix" in ds.attrs["history"]
    record = json.loads(ds.attrs["provenance"])
    assert set(record["software"]) == {"warpsim", "python", "numba", "numpy"}
    assert record["software"]["numpy"] == np.__version__
    assert record["call"]["gpu"]["ops"]["alu"]["interval_cycles"] == "2/3"


def test_history_grows_by_a_line():
    first = provenance.history("made")
    both = provenance.history("changed", first)
    assert both.splitlines()[0] == first
    assert both.splitlines()[1].endswith(" changed")


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"function": "sweep", "call": {}}'])
def test_other_text_is_rejected(text):
    with pytest.raises(ValueError, match=r"^provenance: must be"):
        from_provenance(text)


@pytest.mark.parametrize("chip", ["x", ["ab"], 7, None])
def test_a_chip_that_is_no_table_is_rejected(chip):
    record = json.loads(simulate(KEPLER, mix(alpha=2), warps=4, sms=1, warmup=0, cycles=100).attrs["provenance"])
    record["call"]["gpu"] = chip
    with pytest.raises(ValueError, match=r"^gpu = .*: must be the description of a chip$"):
        from_provenance(json.dumps(record))


def test_it_does_not_fill_a_screen():
    ds = ws.simulate("kepler", "mix", warps=4, sms=1, warmup=0, cycles=400)
    assert len(ds.provenance) > 2000
    assert len(ds._repr_html_().rpartition("class='xr-attrs'")[2]) < 1500
    for shown in (repr(ds.provenance), str(ds.provenance)):
        assert len(shown) < 130 and "from_provenance" in shown
    assert json.loads(ds.provenance)["function"] == "simulate"
    again = ws.simulate(**ws.from_provenance(ds.provenance))
    assert again.equals(ds)


def test_files_hold_the_whole_text(tmp_path):
    ds = ws.simulate("kepler", "mix", warps=4, sms=1, warmup=0, cycles=400)
    ds[["bandwidth"]].to_netcdf(tmp_path / "a.nc", engine="scipy")
    ds[["bandwidth"]].to_zarr(tmp_path / "a.zarr", consolidated=False)
    text = json.loads(ds.provenance)
    assert json.loads(xr.load_dataset(tmp_path / "a.nc", engine="scipy").provenance) == text
    assert json.loads(xr.open_zarr(tmp_path / "a.zarr", consolidated=False).provenance) == text
    stored = sweep(small_plan(), tmp_path / "b.zarr")
    assert len(str(stored.provenance)) < 130 and json.loads(stored.provenance)["function"] == "sweep"
