"""experiments/kernels: its kernels, and what follows from the chip files without chance."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim as ws
from tests.support.executions import counts
from tests.support.experiment_modules import modules_of


@pytest.fixture(scope="module")
def modules():
    names = ("examples", "talk", "tiles")
    return dict(zip(names, modules_of("kernels", *names), strict=True))


@pytest.mark.parametrize(("ilp", "threads"), [(1, 576), (2, 320), (4, 192)])
def test_parallelism_within_threads_replaces_threads(modules, ilp, threads):
    talk = modules["talk"]
    curve = talk.chain(ws.load_gpu("fermi"), ilp)
    assert 32 * talk.needed(curve, talk.FULL_SPEED) == threads == talk.NEEDED["fermi", ilp]


def test_products_with_several_outputs_have_the_occupancy_of_the_talk(modules):
    talk = modules["talk"]
    fermi = ws.load_gpu("fermi")
    for outputs, (_, warps, _) in talk.OUTPUTS.items():
        kernel = talk.several_outputs(outputs)
        assert ws.occupancy(fermi, kernel, block_warps=32 // outputs).warps == warps
        found = counts(kernel)
        assert (found["alu"], found["store"]) == (outputs * talk.WIDTH, outputs)
        assert found["smem"] == talk.WIDTH * (1 + outputs) + 2 * outputs * talk.WIDTH // talk.TILE


def test_black_scholes_is_read_from_machine_code_of_maxwell(modules):
    examples = modules["examples"]
    precise, fast = (counts(examples.black_scholes(name)) for name in examples.PRICES)
    assert (precise["load"], precise["store"]) == (fast["load"], fast["store"]) == (3, 2)
    assert sum(precise.values()) > 1.3 * sum(fast.values())
    assert examples.black_scholes(examples.PRICES[0]).ops <= set(ws.load_gpu("maxwell").ops)


def test_the_occupancy_that_attains_a_level(modules):
    examples = modules["examples"]
    curve = {4: np.array([10.0, 20.0]), 8: np.array([40.0, 40.0]), 12: np.array([38.0, 40.0])}
    assert examples.largest(curve) == 40
    assert examples.needed(curve, 15) == 4 and examples.needed(curve, 39.5) == 8 and np.isnan(examples.needed(curve, 41))
    assert examples.occupancy(ws.load_gpu("kepler"), curve, 15) == 6.25


def test_conflicts_make_shared_memory_the_bottleneck(modules):
    tiles = modules["tiles"]
    fermi = ws.load_gpu("fermi")
    bound = 64 * tiles._reads_bound(fermi)
    assert bound == pytest.approx(64 / 2 / 16, rel=0.01)  # two reads of 8 ways in 2 cycles each
    assert tiles.flops(fermi, 16, tiles.WAYS, 4, 1) == pytest.approx(bound, rel=0.05)
