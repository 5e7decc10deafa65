"""Unit conversions, against the conversions that V prints."""

import pytest

from warpsim import units


def test_pin_bandwidth_of_maxwell_as_ipc() -> None:
    """V 3.2: 224 GB/s are 0.086 IPC per SM at 1.266 GHz on 16 SMs."""
    assert units.gbs_to_ipc(224, clock_ghz=1.266, sms=16) == pytest.approx(0.086, abs=5e-4)


@pytest.mark.parametrize(
    ("gbs", "clock_ghz", "sms", "ipc"),
    [
        (74, 1.350, 16, 0.0268),
        (138, 1.296, 30, 0.0277),
        (161, 1.400, 15, 0.0599),
        (154, 1.124, 8, 0.1338),
        (211, 1.266, 16, 0.0814),
    ],
)
def test_memory_throughput_of_table_4_1(gbs: float, clock_ghz: float, sms: int, ipc: float) -> None:
    """V Table 4.1 gives three digits, from GB/s that are rounded to whole numbers."""
    assert units.gbs_to_ipc(gbs, clock_ghz, sms) == pytest.approx(ipc, rel=0.005)


def test_bytes_per_cycle() -> None:
    """V Table 3.3: 10.4 bytes per cycle and SM are Maxwell's 211 GB/s."""
    assert units.gbs_to_bytes_per_cycle(211, 1.266) / 16 == pytest.approx(10.4, abs=0.05)


def test_conversions_are_inverse() -> None:
    assert units.bytes_per_cycle_to_gbs(units.gbs_to_bytes_per_cycle(154, 1.124), 1.124) == pytest.approx(154)
    assert units.ipc_to_gbs(units.gbs_to_ipc(154, 1.124, 8, 256), 1.124, 8, 256) == pytest.approx(154)


def test_one_instruction_is_32_ops() -> None:
    assert units.ipc_to_ops_per_cycle(4) == 128
