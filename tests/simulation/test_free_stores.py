"""Slices do not represent stores that no loads hold back: what advice and comparisons simulate then, and the warning."""

from __future__ import annotations

import pytest

from warpsim.analysis.advice import quick
from warpsim.analysis.comparison import default_sms
from warpsim.cli.windows import warn_of_free_stores
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.sections import SLICE_SMS
from warpsim.kernels import Access, Instruction, Kernel, Loop, load_kernel
from warpsim.kernels.iteration import MOST_STORES, stores_run_free
from warpsim.simulation.point import make_point

H100 = load_gpu("h100")


def loop(loads: int, stores: int, access: Access | None = None) -> Kernel:
    body = [Instruction("load", dst="r", src=("r",), access=access)] * loads + [Instruction("store", src=("r",))] * stores
    return Kernel(name="stores", inputs=("r",), body=(Loop(body=tuple(body), trips=None),))


@pytest.mark.parametrize(
    ("kernel", "free"),
    [
        (loop(0, 1), True),
        (loop(1, MOST_STORES), False),
        (loop(1, MOST_STORES + 1), True),
        (loop(1, 1, Access(l1_hit=1.0)), True),
        (loop(1, 1, Access(l2_hit=0.95)), True),
        (loop(1, 0), False),
        (Kernel(name="none", body=(Instruction("alu"),)), False),
        (load_kernel("cuda/copy"), False),
        (load_kernel("vector_add"), False),
    ],
)
def test_which_stores_run_free(kernel: Kernel, free: bool) -> None:
    assert stores_run_free(kernel) == free


def test_advice_and_comparisons_simulate_the_whole_chip_then(caplog: pytest.LogCaptureFixture) -> None:
    assert quick(make_point(H100, loop(0, 1), warps=8), ()).sms is None
    assert quick(make_point(H100, loop(1, 1), warps=8), ()).sms == SLICE_SMS
    assert default_sms(H100, loop(0, 1)) == H100.sms > default_sms(H100, loop(1, 1))
    for stores, sms, warned in ((1, 8, True), (1, None, False), (1, 132, False), (0, 8, False)):
        caplog.clear()
        with caplog.at_level("WARNING", logger="warpsim"):
            warn_of_free_stores(make_point(H100, loop(1 - stores, 1), warps=8, sms=sms))
        assert ("sms = 132 simulates the whole chip" in caplog.text) == warned


def test_stores_alone_attain_no_more_than_their_own_peak() -> None:
    import warpsim as ws

    found = ws.simulate(H100, loop(0, 1), warps=8, warmup=20_000, cycles=10_000)
    assert float(found["bandwidth"][0]) == pytest.approx(H100.memory.stores_gbs, rel=0.01)
    assert float(found["peak_fraction"][0]) == pytest.approx(1.0, abs=0.01)


def test_a_slice_of_free_stores_is_warned_of_in_python_too(caplog: pytest.LogCaptureFixture) -> None:
    import warpsim as ws

    with caplog.at_level("WARNING", logger="warpsim"):
        ws.simulate(H100, loop(0, 1), warps=4, sms=1, warmup=500, cycles=500)
    assert "nothing ties the stores of the slice to those of its echoes" in caplog.text


def test_a_comparison_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    import warpsim as ws

    with caplog.at_level("WARNING", logger="warpsim"):
        ws.compare(H100, loop(0, 1), warps=[4, 8], sms=1, warmup=500, cycles=500, replicates=2)
    assert caplog.text.count("nothing ties the stores of the slice") == 1
