"""Atomics and reductions of a profiled launch that meet at few addresses, from counters of L2's slices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsim.frontends.machine_code.opcode_costs import FLOAT_UPDATE_CYCLES, is_sum_of_floats
from warpsim.kernels.instruction import Access
from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch
from warpsim.units import LINE_BYTES, WARP_LANES

_KINDS = ("red", "atom_dot_alu", "atom_dot_cas")
_OPCODES = ("RED", "ATOM.", "ATOMG")

_BASE = re.compile(r"\[(R\d+)")
_WRITTEN = re.compile(r"(@!?U?P\d+ )?[A-Z][\w.]* (?P<register>R\d+), (?P<sources>.*)")
_ARGUMENT = re.compile(r"(RZ, RZ, )?c\[0x0\]\[0x[0-9a-f]+\] *")  # of MOV and IMAD.MOV


@dataclass(frozen=True)
class Updates:
    """How the updates of a kernel meet.

    Attributes:
        addresses: number of addresses that all warps update; None: so many that they do not meet, or the report does not tell.
        threads: threads of an instruction whose updates follow one another, on average.
    """

    addresses: int | None
    threads: int

    def access(self) -> Access:
        """Returns an access of which as many threads have one address. What L2 updates is in L2."""
        offsets = (0,) * self.threads + tuple(LINE_BYTES * number for number in range(1, WARP_LANES - self.threads + 1))
        return Access(pattern="addresses", addresses=offsets, l2_hit=1.0, contended_addresses=self.addresses)


def updates(launch: ProfiledLaunch) -> Updates:
    """Returns how the updates of a launch meet.

    Updates of few addresses lie in few slices of L2. What the busiest slice has beyond its share of all other accesses are
    updates, and the number of slices with as many is that of the addresses. Where the report does not have the busiest slice, all
    updates meet if the kernel got their address as an argument.
    """
    slices = launch.get("device__attribute_l2s_count")
    whole, busiest = launch.get("lts__t_sectors.sum"), launch.get("lts__t_sectors.max")
    count = launch.sum_of(*(f"lts__t_sectors_srcunit_tex_op_{kind}.sum" for kind in _KINDS))
    executed = sum(one.executed for one in launch.code if _is_update(one.text))
    if not (count and executed):
        return Updates(None, 1)
    threads = min(WARP_LANES, max(1, round(count / executed)))
    if not (slices and whole and busiest):
        made = [number for number, one in enumerate(launch.code) if one.executed and _is_update(one.text)]
        return Updates(1, threads) if all(_at_argument(launch.code, number) for number in made) else Updates(None, 1)
    beyond = busiest - (whole - count) / slices
    addresses = max(1, round(count / beyond)) if beyond > 0 else slices
    return Updates(int(addresses) if addresses <= slices / 2 else None, threads)


def cycles_of_update(code: Iterable[ProfiledInstruction]) -> float:
    """Returns the cycles of L2 for an update of one address: of an integer one, of a sum of floating-point numbers more."""
    texts = [one.text for one in code if one.executed and _is_update(one.text)]
    return FLOAT_UPDATE_CYCLES if any(is_sum_of_floats(text) for text in texts) else 1.0


def _at_argument(code: Sequence[ProfiledInstruction], number: int) -> bool:
    """Returns whether the address of an update is an argument of the kernel, copied to its register before."""
    base = _BASE.search(code[number].text)
    for one in reversed(code[:number]):
        if base and (written := _WRITTEN.match(one.text)) and written["register"] == base[1]:
            return bool(_ARGUMENT.fullmatch(written["sources"]))
    return False


def _is_update(text: str) -> bool:
    guarded = text.startswith("@")
    return text.split(maxsplit=2)[1 if guarded else 0].startswith(_OPCODES) if text else False
