"""A plan and the plan of a store: labels do not matter, and settings that change nothing are refused."""

import io
import json
import re

import numpy as np
import pytest

from tests.support.small_plans import SHORT, small_plan
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.whatif import changed_gpu
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.store.place import StoreError
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.repair import repair, verify
from warpsim.sweeps.resume import differences


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
        ({"gpu.architecture": "sm_80"}, "gpu.architecture: a simulation does not read it"),
        ({"gpu.ops.reduction.latency_cycles": 9}, "change gpu.memory.latency_cycles instead"),
    ],
)
def test_fields_that_change_nothing_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Plan(gpu="kepler", kernel="mix", warps=8, **SHORT, **settings)


def test_records_differ_where_plans_do():
    assert differences(small_plan().record(), small_plan().record()) == []
    lines = differences(small_plan(seed=7).record(), small_plan().record())
    assert lines == ["settings.seed: 7 here, 2016 in the store"]
    kepler = load_gpu("kepler")
    faster = kepler.model_copy(update={"clock_ghz": 2.0})
    lines = differences(
        Plan(gpu=faster, kernel="mix", warps=4).record(), Plan(gpu=kepler, kernel="mix", warps=4).record()
    )
    assert lines == ["gpus.kepler.clock_ghz: 2.0 here, 1.124 in the store"]


def test_the_name_of_a_kernel_may_have_any_case(tmp_path):
    first = sweep(Plan(gpu="kepler", kernel="mix", alpha=[1, 2], warps=8, **SHORT), tmp_path / "a.zarr")
    again = sweep(Plan(gpu="KEPLER", kernel="MIX", alpha=[1, 2], warps=8, **SHORT), tmp_path / "a.zarr")
    assert again.equals(first)
    assert again.kernel.item() == "mix"
    Plan.from_provenance(again.attrs["provenance"])


def test_a_changed_table_of_latencies_is_another_plan(tmp_path):
    table = tmp_path / "own.csv"
    table.write_text("load_gbs,0,0.1,0.9,1\n5,100,200,300,400\n", encoding="utf-8")
    gpu = changed_gpu(load_gpu("kepler"), {"memory.distribution": str(table)})
    plan = {"gpu": gpu, "kernel": "mix", "alpha": [1], "memory": "measured", **SHORT}
    result = sweep(Plan(warps=[4], **plan), tmp_path / "a.zarr")
    table.write_text("load_gbs,0,0.1,0.9,1\n5,50,100,150,200\n", encoding="utf-8")
    with pytest.raises(StoreError, match="latency_tables"):
        sweep(Plan(warps=[4, 8], **plan), tmp_path / "a.zarr", extend=True)
    table.unlink()
    plan = Plan.from_provenance(result.attrs["provenance"])  # which holds the table
    (tmp_path / "a.zarr/ipc/c/0/0/0/0").unlink()
    repair(tmp_path / "a.zarr", verify(tmp_path / "a.zarr"))
    np.testing.assert_array_equal(sweep(plan, tmp_path / "a.zarr")["ipc"], result["ipc"])


FOREIGN = [
    ("gpus", "kepler", "memory", "distribution"),
    ("settings", "gpu"),
    ("settings", "kernel"),
    ("settings", "gpu.memory.distribution"),
]


@pytest.mark.parametrize("place", FOREIGN, ids=lambda place: ".".join(place))
def test_a_plan_of_somebody_else_opens_no_file_of_the_reader(place, tmp_path, monkeypatch):
    """Neither from provenance nor from a store, whose files the next sweep, verify and report read."""
    secret = tmp_path / "secret.toml"
    secret.write_text("key = 'mine'")
    plan = Plan(gpu="kepler", kernel="mix", alpha=1, warps=[4], **SHORT)
    provenance = json.loads(plan.attributes()["provenance"])
    *folders, last = place
    table = provenance["call"]
    for folder in folders:
        table = table[folder]
    table[last] = str(secret)
    opened, real = [], io.open
    monkeypatch.setattr(io, "open", lambda file, *given, **named: opened.append(str(file)) or real(file, *given, **named))
    secret.read_text()
    assert opened == [str(secret)]
    with pytest.raises(ValueError, match=r"never opened|from a file with arguments|no such field|is unknown"):
        Plan.from_provenance(json.dumps(provenance))
    assert opened.count(str(secret)) == 1


def test_an_operation_class_may_have_the_name_of_a_label(tmp_path):
    data = load_gpu("kepler").to_dict()
    data["ops"]["source"] = data["ops"]["alu"]
    kernel = Kernel(name="own", body=(Loop(trips=None, body=(Instruction("source", dst="r0", src=("r0",)),)),), inputs=("r0",))
    sweep(Plan(gpu=Gpu.from_dict(data), kernel=kernel, warps=4, **SHORT), tmp_path / "a.zarr")
    data["ops"]["source"] = data["ops"]["source"] | {"latency_cycles": 99}
    with pytest.raises(StoreError, match="another plan"):
        sweep(Plan(gpu=Gpu.from_dict(data), kernel=kernel, warps=4, **SHORT), tmp_path / "a.zarr")


def test_kernels_enter_the_seeds_of_any_plan_by_value():
    kernel = Kernel(name="own", body=(Loop(trips=None, body=(Instruction("load", dst="r0"),)),))
    renamed = kernel.model_copy(update={"name": "other", "title": "text"})
    plans = [Plan(gpu="kepler", kernel=own, warps=[4], common=[], **SHORT) for own in (kernel, renamed)]
    assert plans[0].streams((0,)) == plans[1].streams((0,))
    longer = Kernel(name="own", body=(Loop(trips=None, body=(Instruction("load", dst="r0"),) * 2),))
    assert Plan(gpu="kepler", kernel=longer, warps=[4], common=[], **SHORT).streams((0,)) != plans[0].streams((0,))
