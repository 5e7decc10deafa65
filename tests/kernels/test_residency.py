"""The occupancy calculator by name."""

from __future__ import annotations

import pytest

import warpsim as ws
from warpsim.hardware import residency


def test_names_and_arguments_of_the_builder():
    expected = residency.occupancy(ws.load_gpu("kepler"), ws.kernels.matrix_multiply(tile=8), 2)
    assert ws.occupancy("kepler", "matrix_multiply", 2, tile=8) == expected
    assert ws.occupancy("KEPLER", ws.kernels.mix(8), block_warps=4).warps == 64
    with pytest.raises(ValueError, match="'keplr' is unknown"):
        ws.occupancy("keplr", "mix", 2)
    with pytest.raises(TypeError, match="gpu = 4"):
        ws.occupancy(4, "mix", 2)
