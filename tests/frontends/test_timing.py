"""When a warp makes its accesses: by the stall counts, waits and barriers of short listings."""

import numpy as np

import warpsim as ws
from tests.support.listings import function
from warpsim.frontends.caches.recorder import Recorder
from warpsim.frontends.caches.timing import MOST_AHEAD, Clock, times_of
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.launch.parameters import argument_bytes
from warpsim.frontends.machine_code.flow import make_flow
from warpsim.frontends.waits.dependences import waits_of

ADDRESS = ("--:-:0:-:2 S2R R0, SR_TID.X", "01:-:-:-:5 IMAD.WIDE R2, R0, 0x4, c[0x0][0x160]")


def timing(*rows, tick=1):
    one = function(*ADDRESS, *rows, "EXIT")
    flow = make_flow(one)
    recorder = Recorder(Given(flow, as_geometry((1, 32)), argument_bytes(one, ())), waits_of(flow), tick, [(0, 0, 0)])
    recorder.execute_blocks()
    return recorder.clock.timing(np.arange(len(recorder.calls)))


def test_instructions_take_their_stall_counts_and_each_warp_of_the_scheduler_a_turn():
    rows = ("--:-:0:-:4 LDG.E R4, [R2.64]", "--:-:-:-:3 FADD R8, R9, R9", "--:-:1:-:2 LDG.E R5, [R2.64+0x80]")
    assert timing(*rows).spent.tolist() == [2 + 5 + 4, 3 + 2, 1]
    assert timing(*rows, tick=4).spent.tolist() == [4 + 5 + 4, 4 + 4, 4]


def test_a_warp_waits_for_data_where_its_first_consumer_is():
    load, other = "--:-:0:-:4 LDG.E R4, [R2.64]", "--:-:1:-:2 LDG.E R5, [R2.64+0x80]"
    found = timing(load, other, "01:-:-:-:6 FADD R8, R4, R9", "--:-:-:-:7 FADD R8, R9, R9", "--:-:1:-:2 LDG.E R5, [R2.64+0x100]")
    assert found.arrives.tolist() == [2, 0, 0]  # before the third access; nothing waits for the others
    assert found.lead.tolist() == [6 + 7 + 2, 0, 0]


def test_asynchronous_copies_are_awaited_by_groups():
    copies = [f"--:-:-:-:2 LDGSTS.E.BYPASS.128 [R0], [R2.64+{hex(512 * n)}]" for n in range(2)]
    end = "--:-:0:-:1 LDGDEPBAR"
    found = timing(copies[0], end, copies[1], end, "--:-:-:-:1 DEPBAR.LE SB0, 0x1", "--:-:1:-:2 LDG.E R5, [R2.64]")
    assert found.arrives.tolist() == [2, 0, 0]


def test_barriers_before_each_access_are_counted():
    rows = ("--:-:0:-:4 LDG.E R4, [R2.64]", "BAR.SYNC 0x0", "BAR.SYNC 0x0", "--:-:1:-:2 LDG.E R5, [R2.64]", "BAR.SYNC 0x0")
    assert timing(*rows).barriers.tolist() == [0, 2, 3]


def test_what_is_awaited_much_later_counts_as_awaited_before():
    many = ["--:-:1:-:1 LDG.E R5, [R2.64+0x80]"] * (MOST_AHEAD + 9)
    found = timing("--:-:0:-:4 LDG.E R4, [R2.64]", *many, "01:-:-:-:6 FADD R8, R4, R9")
    assert found.arrives[0] == MOST_AHEAD and found.lead[0] == 0


def test_a_clock_without_copies_waits_for_none():
    clock = Clock(make_flow(function("EXIT")), {}, 1)
    clock.wait_for_copies(3)
    assert clock.copied == [] and clock.timing(np.arange(0)).spent.tolist() == [0]


def test_the_times_of_a_chip():
    gpu = ws.load_gpu("h100")
    times = times_of(gpu)
    assert (times.l1, times.l2, times.schedulers) == (gpu.memory.l1_latency_cycles, gpu.memory.l2_latency_cycles, 4)
    assert len(times.memory) == 64 and list(times.memory) == sorted(times.memory)
    assert abs(sum(times.memory) / 64 - gpu.memory.queue_latency_cycles) < 0.01 * gpu.memory.queue_latency_cycles
