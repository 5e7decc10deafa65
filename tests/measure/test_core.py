"""The benchmarks of the SM, on the machine that executes PTX: they find the latencies and intervals that it has."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")

from tests.measure import ptx_machine as machine
from tests.measure.ptx_machine import PtxDevice
from warpsim.measure import core
from warpsim.measure.derive import derive
from warpsim.measure.operations import OPERATIONS
from warpsim.measure.record import Record
from warpsim.measure.session import QUICK, Session

EFFORT = replace(QUICK, trips=2, repetitions=1, warps=(1, 2, 8))


def session():
    return Session(PtxDevice(sms=2), EFFORT)


@pytest.mark.parametrize(
    "name, latency, interval, scope",
    [
        ("fadd", 4, 1, "scheduler"),
        ("ffma", 4, 1, "scheduler"),
        ("dfma", 8, 2, "scheduler"),
        ("rsqrt", 19, 8, "scheduler"),
        ("lds", machine.SHARED_LATENCY, machine.SHARED_INTERVAL, "sm"),
    ],
)
def test_chains_find_latency_and_interval(monkeypatch, name, latency, interval, scope):
    monkeypatch.setattr(core, "OPERATIONS", {"lds": OPERATIONS["lds"]} | {name: OPERATIONS[name]})
    monkeypatch.setattr(core, "CONFLICT_WAYS", ())
    if name != "lds":
        monkeypatch.setattr(core, "OPERATIONS", {name: OPERATIONS[name]})
    values = derive(Record({}, {"chains": core.chains(session())}))
    assert values[f"ops.{name}.latency_cycles"].value == latency
    assert values[f"ops.{name}.scope"].value == scope
    in_scope = values[f"ops.{name}.interval_sm_cycles"].value * (4 if scope == "scheduler" else 1)
    # Where all four schedulers wait for one unit, the youngest warps end first, and the last one alone cannot fill the unit.
    assert in_scope == pytest.approx(interval, rel=0.12 if scope == "sm" else 0.02)


def test_the_cost_of_the_loop_is_not_part_of_the_latency(monkeypatch):
    monkeypatch.setattr(core, "OPERATIONS", {"fadd": OPERATIONS["fadd"]})
    monkeypatch.setattr(core, "CONFLICT_WAYS", ())
    values = derive(Record({}, {"chains": core.chains(session())}))
    assert 0 < values["branch.loop_cycles"].value < 20


def test_barriers_cost_their_latency():
    values = derive(Record({}, {"barriers": core.barriers(Session(PtxDevice(sms=1), replace(EFFORT, trips=1)))}))
    curve = dict(values["barrier.curve"].value)
    assert curve[1] == machine.BARRIER_LATENCY
    assert curve[8] == machine.BARRIER_LATENCY + 8 / 4 - 1  # two warps of a scheduler arrive one after the other


def test_the_order_of_issue_shows_the_policy():
    table = core.issue_order(session())
    assert len(table.rows) == 4 * 32 * (1 + 2 + 4)
    values = derive(Record({}, {"issue_order": table}))
    for gap, _, run, order in values["issue.order"].value:
        if gap == 0:
            assert run == 32.0, "greedy: a warp that is never held goes on to its end"
            rest = order[1:]  # the first is the warp that issued last before the barrier opened
            assert rest == sorted(rest)[::-1], "then the youngest"


def test_memory_instructions_are_counted_from_clock_to_clock(monkeypatch):
    monkeypatch.setattr(core, "COUNTS", (1, 2, 9))
    table = core.memory_issue(session())
    assert len(table.rows) == 4 * 3 * (1 + 2 + 3 + 4)
    alone = table.where(kind="global_load", schedulers=1)
    assert np.all(alone.column("cycles") == alone.column("count") + 1)  # this machine has no queue
    shared = table.where(kind="shared_load", schedulers=1)
    assert np.array_equal(shared.column("cycles"), 2 * shared.column("count"))
