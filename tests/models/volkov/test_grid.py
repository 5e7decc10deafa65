"""The finite grids of V 5.9 and 5.10."""

import pytest

import warpsim as ws
from warpsim.models.volkov import measured_grid

KEPLER, GT200, MAXWELL = ws.load_gpu("kepler"), ws.load_gpu("gt200"), ws.load_gpu("maxwell")
ARRAY = 2**29  # bytes


def loads_of(grid: object) -> int:
    return grid.iterations * grid.launch.blocks * grid.launch.block_warps


def test_a_warp_alone_lasts_for_a_million_cycles_and_the_grid_reads_most_of_the_array():
    grid = measured_grid(KEPLER, ws.kernels.mix(32), warps=64)
    assert grid.iterations == round(1e6 / (301 + 32 * 9))
    assert grid.kernel.body[0].trips == grid.iterations
    assert (grid.launch.block_warps, grid.launch.resident_blocks) == (4, 16)
    assert grid.waves == 4  # 4.8 without rounding
    assert grid.launch.blocks == 4 * 16 * 8
    assert ARRAY / 2 < loads_of(grid) * 128 <= ARRAY


def test_names_stand_for_the_chip_and_the_kernel():
    assert measured_grid("kepler", "mix", alpha=32, warps=64) == measured_grid(KEPLER, ws.kernels.mix(32), warps=64)


def test_the_literal_grid_reads_the_whole_array_and_leaves_the_last_wave_incomplete():
    grid = measured_grid(KEPLER, ws.kernels.mix(32), warps=64, whole_waves=False)
    assert grid.waves == pytest.approx(4.82, abs=0.01)
    assert loads_of(grid) * 128 == pytest.approx(ARRAY, rel=5e-3)


@pytest.mark.parametrize("whole_waves", [True, False])
def test_a_share_of_the_work_has_the_same_waves_of_shorter_warps(whole_waves):
    full = measured_grid(KEPLER, ws.kernels.mix(8), warps=40, whole_waves=whole_waves)
    tenth = measured_grid(KEPLER, ws.kernels.mix(8), warps=40, whole_waves=whole_waves, share=0.1)
    assert tenth.iterations == pytest.approx(full.iterations / 10, abs=0.5)
    assert tenth.waves == pytest.approx(full.waves, rel=1e-2)


def test_a_slice_has_its_share_of_the_grid():
    grid = measured_grid(KEPLER, ws.kernels.mix(32), warps=64, sms=2)
    assert (grid.waves, grid.launch.blocks) == (4, 4 * 16 * 2)


def test_without_memory_accesses_there_are_a_hundred_waves():
    grid = measured_grid(KEPLER, ws.kernels.chain("alu"), warps=32, block_warps=8)
    assert (grid.iterations, grid.waves, grid.launch.blocks) == (111_111, 100, 100 * 4 * 8)


def test_persistent_warps_share_the_array():
    grid = measured_grid(GT200, ws.kernels.chain("load"), warps=24, persistent=True)
    assert (grid.waves, grid.launch.blocks * grid.launch.block_warps) == (1, 24 * 30)
    assert loads_of(grid) * 128 == pytest.approx(ARRAY, rel=1e-3)
    adds = measured_grid(GT200, ws.kernels.chain("alu"), warps=24, persistent=True)
    assert (adds.waves, adds.iterations) == (1, round(1e8 / 24))


def test_a_grid_has_one_wave_at_least_and_then_fewer_trips():
    kernel = ws.kernels.mix(0)
    many = ws.Gpu.from_dict(MAXWELL.to_dict() | {"sms": 64})
    grid = measured_grid(many, kernel, warps=64)
    assert (grid.waves, grid.launch.blocks * grid.launch.block_warps) == (1, 64 * 64)
    assert grid.iterations == 1024 < 1e6 / 368


def test_the_work_of_the_grid_is_what_the_simulation_counts():
    grid = measured_grid(KEPLER, ws.kernels.mix(8), warps=8, share=1e-3, sms=1)
    ds = ws.simulate(KEPLER, grid.kernel, launch=grid.launch, sms=1)
    assert ds.ipc.sel(op="load").item() * ds.cycles.item() == pytest.approx(loads_of(grid))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kernel": ws.kernels.vector_add()}, "kernel = vector_add: must end in an endless loop"),
        ({"share": 0}, "share = 0: must be a number above 0 and up to 1"),
        ({"share": 1.5}, "share = 1.5: must be a number above 0 and up to 1"),
        ({"sms": 9}, "sms = 9: must be an integer from 1 to 8"),
        ({"warps": 65}, "warps = 65: must be an integer from 1 to 64 on kepler"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    call = {"kernel": ws.kernels.mix(8), "warps": 8} | arguments
    with pytest.raises(ValueError, match=words):
        measured_grid(KEPLER, call.pop("kernel"), **call)
