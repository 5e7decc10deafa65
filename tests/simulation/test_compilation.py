"""Compilation is announced, and is over before the time of a sweep is taken."""

import logging
import time

from numba.core import event

from tests.support.small_plans import small_plan
from warpsim.engine import bits, chip
from warpsim.engine.state import lanes_for
from warpsim.simulation import api
from warpsim.simulation.api import compile_engine
from warpsim.simulation.compilation import announce_compilation
from warpsim.simulation.encode import encode
from warpsim.sweeps import local
from warpsim.sweeps.plan import Plan


def test_a_compilation_of_the_engine_is_announced(caplog):
    announce_compilation()
    announce_compilation()  # once is enough
    with caplog.at_level(logging.INFO, "warpsim"):
        with event.trigger_event("numba:compile", data={"dispatcher": Dispatcher(bits)}):
            pass
        assert not caplog.messages
        with event.trigger_event("numba:compile", data={"dispatcher": Dispatcher(chip)}):
            assert [message.partition(",")[0] for message in caplog.messages] == ["compiling the engine"]
    assert caplog.messages[1:] == ["compiled in 0 s"]


class Dispatcher:
    """What numba reports: the function that it compiles."""

    def __init__(self, module):
        def run():
            pass

        run.__module__ = module.__name__
        self.py_func = run


def test_the_engine_is_compiled_before_the_time_is_taken(monkeypatch):
    monkeypatch.setattr(local, "compile_engine", lambda points: time.sleep(0.5))
    seen = []
    local.sweep(small_plan(alpha=1, warps=4), progress=seen.append)
    assert seen[0].seconds < 0.25


def test_a_finished_store_needs_no_compilation(monkeypatch, tmp_path):
    local.sweep(small_plan(alpha=1, warps=4), tmp_path / "out.zarr")
    monkeypatch.setattr(local, "compile_engine", None)
    local.sweep(small_plan(alpha=1, warps=4), tmp_path / "out.zarr")


def test_it_compiles_for_the_occupancies_of_the_points(monkeypatch):
    points = [*small_plan(gpu=["g80", "fermi", "kepler"], warps=[4, 24, 48]).some_points()]
    assert {point.launch.resident_warps for point in points} == {4, 24, 48}
    ran = engines_of(points, monkeypatch)
    assert {lanes for lanes, _ in ran} == {16, 32}  # g80 has one scheduler, for 24 warps


def test_it_compiles_for_the_options_of_the_points(monkeypatch):
    """Only a chip with options of the core, or a kernel with hints, needs the engine that serves them."""
    plans = [Plan(gpu=["kepler", "v100", "h100"], kernel=kernel, warps=8) for kernel in ("add_chain", "cuda/saxpy")]
    ran = engines_of([point for plan in plans for point in plan.some_points()], monkeypatch)
    assert set(ran) == {(16, True), (16, False)}


def engines_of(points, monkeypatch):
    """Returns the engines that are compiled for some points, each of which is needed: lanes, and whether it has no options."""
    ran = []
    monkeypatch.setattr(api, "simulate_point", lambda point: ran.append(encoded(point)))
    compile_engine(points)
    done, needed = [[engine_of(machine) for machine in machines] for machines in (ran, map(encoded, points))]
    assert set(done) == set(needed) and len(done) == len(set(done))
    return done


def engine_of(machine):
    chip = machine.chip[0]
    return lanes_for(int(chip.seats * chip.block_warps), int(chip.schedulers)), machine.reads is None


def test_it_builds_no_points_that_differ_in_what_does_not_matter():
    points = [*small_plan(alpha=1, warps=[4, 8], seed=[*range(50)], sms=[1, 2]).some_points()]
    assert len(points) == 4
    assert {point.launch.resident_warps for point in points} == {4, 8}


def encoded(point):
    return encode(point.gpu, point.kernel, point.launch, scheduler=point.scheduler, memory=point.memory, sms=1)
