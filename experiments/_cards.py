"""Cards whose die is that of a chip with a file: that chip, with the size, the clock and the memory of the card's data sheet.

An experiment imports this module as `_cards`.
"""

from __future__ import annotations

from dataclasses import dataclass

import warpsim as ws
from warpsim.frontends.caches.walk import OtherSize


@dataclass(frozen=True)
class Card:
    """What the vendor's data sheet says of a card.

    Attributes:
        title: the vendor's name.
        like: the chip of params/gpus that stands for it: it has the same die, or a larger one of the same kind.
        sms: SMs that are enabled.
        clock_ghz: the highest clock of the SMs.
        pin_bandwidth_gbs: of the memory.
        sustained: the bandwidth that a copy attains over that of the pins, as on a chip with the same kind of memory.
        channels: share of the memory's channels, and of the slices of L2, of those of `like`.
        l2_mib: size of L2.
    """

    title: str
    like: str
    sms: int
    clock_ghz: float
    pin_bandwidth_gbs: float
    sustained: float
    channels: float = 1.0
    l2_mib: int = 6

    def gpu(self) -> ws.Gpu:
        """Returns the chip that stands for the card."""
        facts, sustained = ws.load_gpu(self.like).to_dict(), self.pin_bandwidth_gbs * self.sustained
        facts |= {"title": self.title, "sms": self.sms, "clock_ghz": self.clock_ghz}
        facts["memory"] |= {"pin_bandwidth_gbs": self.pin_bandwidth_gbs, "bandwidth_gbs": sustained}
        facts["memory"]["l2_store_gbs"] *= self.channels
        queue = facts["memory"]["queue"]
        queue["dram_gbs"] = 1.1 * sustained  # docs/chips.md
        queue["crossbar_gbs"] *= self.channels
        for stage in ("dram", "crossbar"):
            queue[f"{stage}_servers"] = round(queue[f"{stage}_servers"] * self.channels)
        return ws.Gpu.model_validate(facts)

    def caches(self) -> OtherSize:
        """Returns the caches of the card."""
        return OtherSize(self.like, self.sms, self.l2_mib << 20)


GDDR6 = 679 / 696
"""Sustained bandwidth over that of the pins: the A40's."""

CARDS = {
    "a4000": Card("NVIDIA RTX A4000", "a40", 48, 1.56, 448.0, GDDR6, 16 / 24, 4),
    "a6000": Card("NVIDIA RTX A6000", "a40", 84, 1.80, 768.0, GDDR6),
}
"""Name -> card with the die of the A40 (GA102), or with the next smaller one (GA104)."""


def chip_of(name: str) -> tuple[ws.Gpu, OtherSize | str]:
    """Returns a card, or the chip with a file of that name, and whose caches it has."""
    return (CARDS[name].gpu(), CARDS[name].caches()) if name in CARDS else (ws.load_gpu(name), name)
