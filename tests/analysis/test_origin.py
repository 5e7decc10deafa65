"""What a result comes from: the plan or the point, and where the labels of a part of it stand on the axes."""

import math

import pytest

import warpsim as ws
from tests.support.small_plans import small_plan
from warpsim.analysis.origin import indices, origin
from warpsim.results.provenance import provenance
from warpsim.results.schema import build_dataset
from warpsim.simulation.point import make_point
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.tile import empty_arrays

PLANS = {
    "axes": small_plan(alpha=[0, 8, math.inf]),
    "together": small_plan(zip={"size": ["alpha", "warps"]}, alpha=[1, math.inf], warps=[4, 8]),
    "words": small_plan(warps="powers of 2 up to the chip's limit"),
    "one point": small_plan(gpu="kepler", alpha=1, warps=4, scheduler="gto"),
}


def empty(plan):
    """The result of a sweep of which nothing is done."""
    arrays = empty_arrays(plan, plan.grid.sizes)
    return build_dataset(arrays, plan.coordinates(), axes=plan.grid.axes, attrs=plan.attributes())


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_sweep_comes_from_its_plan(plan):
    results = empty(plan)
    made = origin(results.attrs["provenance"])
    assert isinstance(made, Plan)
    assert made.record() == plan.record()
    assert indices(made, results) == {name: list(range(size)) for name, size in zip(plan.axes, plan.sizes, strict=True)}


def test_a_part_keeps_its_indices():
    plan = PLANS["axes"]
    part = empty(plan).sel(gpu="kepler", alpha=[math.inf, 0]).isel(warps=slice(1, None))
    assert indices(plan, part) == {"gpu": [1], "alpha": [2, 0], "warps": [1, 2], "scheduler": [0, 1]}
    with pytest.raises(KeyError, match="5"):
        indices(plan, part.assign_coords(warps=[5, 8]))


@pytest.mark.parametrize("trace", [None, ws.Trace(occupancy=True)])
def test_a_run_comes_from_its_point(trace):
    point = make_point(ws.load_gpu("fermi"), ws.kernels.mix(alpha=4), warps=8, block_warps=4, sms=1, memory="fixed")
    results = ws.simulate(**{**vars(point), "warmup": 0, "cycles": 100}, trace=trace)
    made = origin(results.attrs["provenance"])
    assert made == make_point(**{**vars(point), "warmup": 0, "cycles": 100})


def test_what_is_no_origin():
    with pytest.raises(KeyError, match="settings"):
        origin(provenance("sweep", {}))
    with pytest.raises(ValueError, match="must be that of a call of sweep, but is of 'other'"):
        origin(provenance("other", {}))
