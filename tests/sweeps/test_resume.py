"""A plan and the plan of a store: labels do not matter, and settings that change nothing are refused."""

import re

import pytest

from tests.support.small_plans import SHORT
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan


def test_labels_of_chips_and_kernels_may_change(tmp_path):
    """A store made with other titles, years and comments holds the same plan, and the same random numbers."""
    kepler = load_gpu("kepler")
    relabelled = kepler.model_copy(update={"title": "my card", "generation": "mine", "year": 2001})
    load, add = Instruction("load", dst="r0"), Instruction("alu", dst="r0", src=("r0",))
    kernel = Kernel(name="own", body=(Loop(trips=None, body=(load, add.model_copy(update={"comment": "FFMA"}))),))
    plain = Kernel(name="own", title="text", source="a paper", body=(Loop(trips=None, body=(load, add)),))
    first = sweep(Plan(gpu=kepler, kernel=kernel, warps=[4, 8], **SHORT), tmp_path / "a.zarr")
    again = sweep(Plan(gpu=relabelled, kernel=plain, warps=[4, 8], **SHORT), tmp_path / "a.zarr")
    assert again.equals(first)
    assert sweep(Plan(gpu=relabelled, kernel=plain, warps=[4, 8], **SHORT)).equals(first.compute())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpu.memory.contention.b_cycles": [1, 2]}, "gpu.memory.contention.b_cycles: a simulation does not read it"),
        ({"gpu.memory.queue.dram_gbs": [100, 200], "memory": "fixed"}, "change gpu.memory.bandwidth_gbs instead"),
        ({"gpu.title": "x"}, "gpu.title: a simulation does not read it"),
    ],
)
def test_fields_that_change_nothing_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Plan(gpu="kepler", kernel="mix", warps=8, **SHORT, **settings)
