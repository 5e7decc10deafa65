"""The chip of a profiled launch: a file of params/gpus with the clocks that the profiler measured.

L1 and L2 run with the SMs, so their latencies in cycles stay; the part of a latency that lies in DRAM is a time, and has more
cycles at a higher clock. Where the clock of L2 is higher, what lies in L2 takes fewer cycles of the SMs. The start of a block is
a time, too: it takes a V100 256 ns (experiments/streams), and a T4 not more than that at 0.585 GHz, where it would be 313 of its
cycles otherwise. The bandwidth of the pins is that of the memory at its measured clock. Where the time of a short launch was
measured too long, all clocks seem too slow, and that of the memory says by how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from warpsim.frontends.machine_code.sass import VOLTA
from warpsim.hardware.architectures import contention, number_of
from warpsim.hardware.gpu import Gpu, list_gpus, load_gpu
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch
from warpsim.profiles.traffic import l2_clock, l2_store_gbs
from warpsim.profiles.updates import cycles_of_update

_NAMES = (
    ("TITAN X", "titan_x"), ("V100", "v100"), ("T4", "t4"), ("A40", "a40"), ("4090", "rtx4090"), ("L40", "l40"), ("H200", "h200"),
    ("B200", "b200"), ("5090", "rtx5090"), ("2080 Ti", "rtx2080ti"), ("PRO 6000", "rtx_pro_6000"), ("A10", "a10"), ("L4", "l4"),
    ("L40S", "l40s"), ("3080", "rtx3080"), ("3090", "rtx3090"), ("GH200 480GB", "gh200"),
)  # fmt: skip

_LIKE = {70: "v100", 75: "t4", 80: "a100", 86: "a40", 89: "rtx4090", 90: "h100", 100: "b200", 120: "rtx5090"}
"""Compute capability times ten -> chip whose latencies a chip without a file has; others take the one below theirs."""

_GDDR6 = {89: (10.25e6, "l40")}
"""Compute capability times ten -> clock of the memory in kHz below which it is GDDR6 rather than GDDR6X, and the chip with GDDR6
whose latencies one without a file has then. Vendor's data sheets: up to 20 Gbit/s a pin, and from 21 on."""

_GDDR6X = {86: (9.4e6, "rtx4090")}
"""Compute capability times ten -> clock of the memory in kHz from which on it is GDDR6X rather than GDDR6, and the chip with
GDDR6X whose share of the pins' bandwidth, and cost of stores, one without a file has then. Vendor's data sheets: up to 16 Gbit/s
a pin, and from 19 on. Additions of arrays on RTX 3080 and 3070 Ti, from which the cost of stores is taken, pass 0.92 and 0.91 of
the pins."""

_HALF_ON_GEFORCE = {75: ("f16_f32",), 86: ("f16_f32", "tf32")}
"""Compute capability times ten -> matrix instructions that a GeForce executes at half the rate of the chip whose file stands for
it. Whitepapers of Turing and GA102: with sums in single precision, an RTX 2080 Ti attains 56.9 and an RTX 3090 71 TFLOP/s,
half of what they attain with those in half precision; a T4 and an A40 attain as much with either."""

_SLICES = {
    "v100": 64, "t4": 32, "a100": 80, "a100_40gb": 80, "a10": 48, "a40": 48, "rtx3080": 40, "rtx3090": 48, "rtx4090": 48,
    "l4": 24, "l40": 48, "l40s": 48, "h100": 80, "h100_pcie": 80, "h200": 96, "gh200": 96,
}  # fmt: skip
"""Chip -> slices of its L2, whose rate follows them: reports of these chips (experiments/profiles); of an A10 and an RTX 3090
those of an A40, which has the same die and as much L2, of an L40 and an L40S those of an RTX 4090, which has the same die, of
an H100 those of its version for PCIe, and of an H200 those in its file."""

_OTHER_SIZE = 0.1
"""Relative difference in SMs from which on a chip is another one than the file that its name suggests: a laptop's, or a slice."""

_PASSES = 0.1
"""Relative difference of clocks between passes of the profiler, at most."""

_LEAST_OF_BUS = 0.7
"""Bytes of the memory's bus over those of the partitions' peak, at least: a smaller ratio is due to another kind of memory."""

_LEAST_STRETCH = 0.5
"""Least measured time of a launch over the true one: a shorter one is due to a wrong clock of the memory."""


def chip_name(title: str, memory_bytes: float | None) -> str | None:
    """Returns the name of the chip's file, by its vendor's name and the size of its memory; None: there is none."""
    known = list_gpus()
    words = title.replace("-", " ").split()
    if "A100" in words:
        return "a100_40gb" if "40GB" in words or ("80GB" not in words and (memory_bytes or 0) < 50e9) else "a100"
    if "H100" in words:
        return "h100_pcie" if "PCIe" in words else "h100"
    for part, name in _NAMES:
        if (part in title if " " in part else part in words) and name in known:
            return name
    return None


def chip_of(launch: ProfiledLaunch) -> tuple[Gpu, tuple[str, ...]]:
    """Returns the chip of a launch at its measured clocks, and what had to be assumed.

    A chip without a file takes the latencies of one of its architecture, and its own number of SMs, clocks and bandwidth.

    Raises:
        ProfileError: the chip is older than Volta, or the report lacks clocks.
    """
    base, notes = _nearest(launch)
    data = base.to_dict()
    stretch = stretched(launch)
    measured = launch.need("gpc__cycles_elapsed.avg.per_second") / 1e9
    clock = measured * stretch
    pins = (pin_bandwidth(launch) or base.memory.pin_bandwidth_gbs / stretch) * stretch
    memory = data["memory"]
    lead = max(1.0, (l2_clock(launch) or measured) / measured)
    at_l2, of_l2 = _latencies_of_l2(base, lead)
    kind = _memory_like(launch, base) if notes else base
    share = kind.memory.bandwidth_gbs / kind.memory.pin_bandwidth_gbs
    ratio = pins / base.memory.pin_bandwidth_gbs
    latency = round(of_l2 + (base.memory.latency_cycles - at_l2) * clock / base.clock_ghz)
    sms = sms_of(launch) or base.sms
    queue = memory["queue"]
    slices = _slices_over(base, launch) if notes else 1.0
    faster = lead * clock / base.clock_ghz * slices
    stores = l2_store_gbs(launch)
    if stores is not None:
        memory["l2_store_gbs"] = stores * stretch
    elif memory.get("l2_store_gbs"):
        memory["l2_store_gbs"] *= faster
    memory |= {"latency_cycles": latency, "pin_bandwidth_gbs": pins, "bandwidth_gbs": share * pins, "measured": False}
    memory["measured_latency_cycles"], memory["writes"] = None, kind.to_dict()["memory"].get("writes")
    for key in ("l2_latency_cycles", "l2_far_latency_cycles", "store_drain_cycles"):
        if memory.get(key):
            memory[key] = max(1, round(memory[key] * of_l2 / at_l2))
    data["block_launch_cycles"] = max(1, round(base.block_launch_cycles * clock / base.clock_ghz))
    if memory.get("atomic_interval_cycles"):
        memory["atomic_interval_cycles"] *= cycles_of_update(launch.code) * measured / (l2_clock(launch) or measured)
    queue |= {"dram_gbs": queue["dram_gbs"] * ratio, "crossbar_gbs": queue["crossbar_gbs"] * faster, "latency_offset_cycles": 0.0}
    if notes:
        queue |= {"dram_servers": max(1, round(queue["dram_servers"] * ratio))}
        queue |= {"crossbar_servers": max(1, round(queue["crossbar_servers"] * slices))}
    memory["contention"] = contention(memory, clock)
    data |= {"title": _title(launch), "sms": sms, "clock_ghz": clock, "memory": memory}
    if name_of(launch) is None:
        data["ops"]["tensor"] = _matrix_units(base, launch)
    if stretch == 1.0 and (wrong := _stretch(launch)) != 1.0:
        reason = f"by the clock of the memory, the measured time is {wrong:.3g} times the true one"
        notes = (*notes, f"{reason}, but no clock of the SMs of this chip would agree with that: the clocks are left as measured")
    if stretch != 1.0:
        longer = f"by the fixed clock of the memory, the measured time is {stretch:.2f} times the true one"
        notes = (*notes, f"the clock of the SMs seems {measured:.2f} GHz and is taken as {clock:.2f}: {longer}")
    return Gpu.from_dict(data, source=f"{launch.report}, launch {launch.number}"), notes


def _nearest(launch: ProfiledLaunch) -> tuple[Gpu, tuple[str, ...]]:
    """Returns the chip of params/gpus that a launch's chip is, or that is most like it, and in the latter case a note."""
    title = _title(launch)
    if launch.arch < VOLTA:
        raise ProfileError(
            f"{launch.report}, launch {launch.number}: {title} (sm_{launch.arch}): machine code before sm_{VOLTA} has no control "
            "fields, and is not replayed"
        )
    name = name_of(launch)
    if name is not None:
        own, sms = load_gpu(name), sms_of(launch)
        if sms is None or abs(sms / own.sms - 1) <= _OTHER_SIZE:
            return own, ()
        return own, (f"{title} has {sms} SMs, and the file in params/gpus {own.sms}: latencies are those of {name}",)
    arch = max(known for known in _LIKE if known <= launch.arch)
    what = f"{title} has no file in params/gpus"
    if arch != launch.arch:
        what += f", and neither has another chip of sm_{launch.arch}"
    rest = "latencies" if arch == launch.arch else "latencies and rates of units"
    fastest, with_gddr6 = _GDDR6.get(arch, (0.0, ""))
    like = with_gddr6 if _memory_khz(launch, math.inf) < fastest else _LIKE[arch]
    return load_gpu(like), (f"{what}: {rest} are those of {like}",)


def _matrix_units(base: Gpu, launch: ProfiledLaunch) -> dict[str, Any]:
    """Returns the class `tensor` of a chip without a file: an L40, whose memory others have, has slower ones."""
    units: dict[str, Any] = load_gpu(_LIKE[number_of(base.architecture)]).to_dict()["ops"]["tensor"]
    if "GeForce" in _title(launch):
        rates = units["rates"]
        rates |= {kind: str(Fraction(rates[kind]) / 2) for kind in _HALF_ON_GEFORCE.get(launch.arch, ())}
    return units


def _slices_over(base: Gpu, launch: ProfiledLaunch) -> float:
    """Returns the slices of L2 of a launch's chip over those of the chip that it is like; if not known, the ratio of SMs."""
    slices, known = launch.get("device__attribute_l2s_count"), _SLICES.get(base.name)
    return slices / known if slices and known else (sms_of(launch) or base.sms) / base.sms


def _memory_like(launch: ProfiledLaunch, like: Gpu) -> Gpu:
    """Returns the chip whose memory one without a file has: that which it is like, or one with the same kind of memory."""
    slowest, with_gddr6x = _GDDR6X.get(launch.arch, (math.inf, like.name))
    return load_gpu(with_gddr6x) if _memory_khz(launch, 0.0) >= slowest else like


def _memory_khz(launch: ProfiledLaunch, unknown: float) -> float:
    """Returns the highest clock of the memory, or what stands for an unknown one."""
    return launch.get("device__attribute_max_mem_frequency_khz") or unknown


def name_of(launch: ProfiledLaunch) -> str | None:
    """Returns the name of the file of a launch's chip; None: there is none."""
    return chip_name(_title(launch), launch.get("device__attribute_total_memory"))


def _title(launch: ProfiledLaunch) -> str:
    """Returns the vendor's name of the chip."""
    return str(launch.metrics.get("device__attribute_display_name") or "unknown chip")


def sms_of(launch: ProfiledLaunch) -> int | None:
    """Returns the number of SMs; None: the report does not tell."""
    count = launch.get("device__attribute_multiprocessor_count", "launch__sm_count")
    return round(count) if count else None


def _latencies_of_l2(gpu: Gpu, lead: float) -> tuple[float, float]:
    """Returns the latency of L2 in cycles of the SM, and the same with an L2 of a clock that is `lead` times as high.

    The part of L1 stays.
    """
    memory = gpu.memory
    known = memory.cycles_to_l2
    own = min(memory.l1_latency_cycles or 0, known)
    return known, own + (known - own) / lead


def with_rates_of_l2(chip: Gpu, own: Gpu, code: Sequence[ProfiledInstruction]) -> Gpu:
    """Returns another chip than a launch's own one with what the launch says of L2: the rate of stores, the time of its updates.

    The clock of L2 is not known of the other chip. Its updates take as many cycles of the SMs as they take cycles of L2.
    """
    memory: dict[str, float] = {}
    if chip.memory.l2_store_gbs is None and own.memory.l2_store_gbs is not None:
        memory["l2_store_gbs"] = own.memory.l2_store_gbs * _ratio_of_l2(chip, own)
    interval = chip.memory.atomic_interval_cycles
    if interval and interval != own.memory.atomic_interval_cycles:  # otherwise it is that of the launch, which has the factor
        memory["atomic_interval_cycles"] = interval * cycles_of_update(code)
    return chip.model_copy(update={"memory": chip.memory.model_copy(update=memory)}) if memory else chip


def _ratio_of_l2(chip: Gpu, own: Gpu) -> float:
    """Returns the rate at which another chip's L2 takes in stores over that of a launch's chip.

    The other one has more slices, and a higher clock, by as much as its file has over the file of the launch's chip, to which the
    rates of stage 1 lead. Where the slices are not known, the rates of stage 1 are compared directly.
    """
    rate, own_rate = chip.memory.queue.crossbar_gbs, own.memory.queue.crossbar_gbs
    slices, own_slices = _SLICES.get(chip.name), _SLICES.get(own.name)
    if not (slices and own_slices):
        return rate / own_rate
    base = load_gpu(own.name)
    return base.memory.queue.crossbar_gbs / own_rate * slices * chip.clock_ghz / (own_slices * base.clock_ghz)


def scaled(gpu: Gpu, latency: float, bandwidth: float) -> Gpu:
    """Returns a chip with factors of the latency and of the bandwidth of DRAM. The latency contains that of L2, which stays."""
    if latency == bandwidth == 1:
        return gpu
    data = gpu.to_dict()
    memory, queue = data["memory"], data["memory"]["queue"]
    of_l2 = min(memory["latency_cycles"], round(gpu.memory.mean_l2_latency_cycles or 1))
    memory["latency_cycles"] = max(of_l2, round(memory["latency_cycles"] * latency))
    for key in ("pin_bandwidth_gbs", "bandwidth_gbs"):
        memory[key] *= bandwidth
    queue["dram_gbs"] *= bandwidth
    queue["crossbar_gbs"] = max(queue["crossbar_gbs"], queue["dram_gbs"])
    memory["contention"] = contention(memory, gpu.clock_ghz)
    memory["measured"], memory["measured_latency_cycles"] = False, None
    return Gpu.from_dict(data, source=f"latency = {latency}, bandwidth = {bandwidth} on {gpu.name}")


def stretched(launch: ProfiledLaunch) -> float:
    """Returns by how much the time of a launch was measured too long, so that all clocks seem as much too slow; 1: it was not.

    Counts of cycles do not contain what the profiler adds to the time of a short launch. The clock of the memory, which is fixed,
    tells. Small differences between the passes of the profiler are left, and so are clocks whose correction makes no sense: that
    of the SMs would be above the highest of the chip, or less than half of the measured one.
    """
    ratio, highest = _stretch(launch), launch.get("device__attribute_max_gpu_frequency_khz")
    corrected = ratio * launch.need("gpc__cycles_elapsed.avg.per_second")
    too_high = highest is not None and corrected > highest * 1e3 * (1 + _PASSES)
    return 1.0 if too_high or ratio < _LEAST_STRETCH else ratio


def _stretch(launch: ProfiledLaunch) -> float:
    """Returns the highest clock of the memory over the measured one; 1: not known, or nearly the same."""
    seems, is_fixed = launch.get("dram__cycles_elapsed.avg.per_second"), launch.get("device__attribute_max_mem_frequency_khz")
    ratio = is_fixed * 1e3 / seems if seems and is_fixed else 1.0
    return ratio if ratio > 1 + _PASSES or ratio < 1 - _PASSES else 1.0


def _of_bus(launch: ProfiledLaunch, peak: float) -> float:
    """Returns the bytes per cycle of the memory's bus, where a partition of the chip has no memory; else the peak itself.

    The peak of a GeForce RTX 2080 Ti is that of six partitions, 96 bytes, and its bus has 352 bits.
    """
    width = launch.get("device__attribute_global_memory_bus_width")
    bus = width / 8 * 2 if width else peak  # two transfers a cycle
    return bus if _LEAST_OF_BUS * peak < bus < peak else peak


def _memory_clock(launch: ProfiledLaunch) -> float | None:
    """Returns the clock of the memory in Hz; None: the report does not tell.

    It is the measured one, but the highest where that is a little above: cycles and time of a short launch are those of different
    passes of the profiler, and the memory of a board for servers or workstations has one clock while kernels run.
    """
    measured, highest = launch.get("dram__cycles_elapsed.avg.per_second"), _memory_khz(launch, 0.0) * 1e3
    is_fixed = "GeForce" not in _title(launch)
    return highest if measured and is_fixed and measured < highest < measured * (1 + _PASSES) else measured


def pin_bandwidth(launch: ProfiledLaunch) -> float | None:
    """Returns the bandwidth of the memory's pins at its clock, in GB/s; None: the report does not tell."""
    peak, clock = launch.get("dram__bytes.sum.peak_sustained"), _memory_clock(launch)
    if peak and clock:
        return _of_bus(launch, peak) * clock / 1e9
    rate = launch.get("dram__bytes.sum.per_second")
    share = launch.get(
        "dram__throughput.avg.pct_of_peak_sustained_elapsed", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    )
    return rate / share / 1e7 if rate and share and share > 0.2 else None
