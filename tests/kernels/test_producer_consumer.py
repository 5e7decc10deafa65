"""Producer and consumer warps: the kernel, and how many stages hide the latency of copies."""

import pytest

import warpsim as ws
from warpsim.kernels import producer_consumer
from warpsim.kernels.statements import Conditional


def test_the_warps_of_a_block():
    kernel = producer_consumer(3, tile_bytes=4096, consumers=7, iterations=10)
    assert kernel.block_warps == 8
    assert kernel.shared_bytes_per_block == 3 * 4096
    (split,) = kernel.body
    assert isinstance(split, Conditional) and split.warps == (0,)
    assert [(one.name, one.arrivals, one.ahead) for one in kernel.mbarriers] == [("full", 1, 0), ("empty", 7, 3)]


def test_copies_and_work_overlap_with_a_second_stage():
    """One block, whose copies and whose work take about as long: with one stage they add up, with two they overlap."""

    def cycles(stages, alpha, tiles=40):
        kernel = producer_consumer(stages, alpha=alpha, iterations=tiles)
        launch = ws.Launch(blocks=1, block_warps=5)
        return float(ws.simulate("h100", kernel, launch=launch, sms=1, memory="fixed", replicates=1).cycles.mean())

    latency = ws.load_gpu("h100").memory.latency_cycles
    add = ws.load_gpu("h100").ops["alu"].latency_cycles
    alpha = round(latency / add)
    one, two, many = (cycles(stages, alpha) / 40 for stages in (1, 2, 8))
    assert one == pytest.approx(latency + alpha * add, rel=0.25)
    assert two < 0.7 * one
    assert many == pytest.approx(alpha * add, rel=0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stages": 0}, "stages = 0: must be"),
        ({"stages": 33}, "stages = 33: must be"),
        ({"tile_bytes": 1000}, "tile_bytes = 1000: must be a multiple of 128"),
        ({"consumers": 64}, "consumers = 64: must be"),
        ({"alpha": 0}, "alpha = 0: must be"),
        ({"l2_hit": 1.5}, "l2_hit = 1.5: must be a number from 0 to 1"),
        ({"l2_hit": "all"}, "l2_hit = 'all': must be a number from 0 to 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        producer_consumer(**arguments)
