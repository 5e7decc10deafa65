"""The chip of a launch: its file, or that of a relative, with the measured clocks."""

import pytest

from tests.support.profiled_launches import launch
from warpsim.hardware.gpu import load_gpu
from warpsim.profiles.api import profile_of
from warpsim.profiles.chip import chip_name, chip_of
from warpsim.profiles.errors import ProfileError


@pytest.fixture(scope="module")
def profile():
    return profile_of(launch())


def test_an_l2_with_a_higher_clock_has_fewer_cycles_of_the_sms(profile):
    faster = profile_of(launch({"lts__cycles_elapsed.avg.per_second": 2.6e9})).gpu.memory
    own = profile.gpu.memory
    assert faster.l2_latency_cycles == pytest.approx((own.l2_latency_cycles + own.l1_latency_cycles) / 2, abs=1)
    assert profile_of(launch({"lts__cycles_elapsed.avg.per_second": 1e9})).gpu.memory.l2_latency_cycles == own.l2_latency_cycles


def test_the_chip_has_the_measured_clocks(profile):
    assert profile.gpu.clock_ghz == 1.3
    assert profile.gpu.memory.pin_bandwidth_gbs == pytest.approx(96 * 7.2)
    assert 250 < profile.gpu.memory.latency_cycles < 557  # the part of DRAM takes fewer cycles at a lower clock
    assert profile.launch.resident_blocks == 6


@pytest.mark.parametrize(
    ("title", "measured", "clock"),
    [
        ("NVIDIA A40", 6.8e9, 7.2e9), ("NVIDIA A40", 7.3e9, 7.3e9), ("NVIDIA A40", 6.4e9, 6.4e9),
        ("NVIDIA GeForce RTX 3080", 6.8e9, 6.8e9),
    ],
)  # fmt: skip
def test_a_memory_with_one_clock_has_it_where_less_was_measured(title, measured, clock):
    """Only a little less, and not that of a GeForce, which may be slower than its highest."""
    gpu, _ = chip_of(launch({
        "device__attribute_display_name": title,
        "device__attribute_max_mem_frequency_khz": 7.2e6,
        "device__attribute_max_gpu_frequency_khz": 1.31e6,
        "dram__cycles_elapsed.avg.per_second": measured,
    }))  # fmt: skip
    assert gpu.memory.pin_bandwidth_gbs == pytest.approx(96 * clock / 1e9)


def test_names_of_chips():
    assert chip_name("NVIDIA A100-PCIE-40GB", None) == "a100_40gb"
    assert chip_name("NVIDIA H100 PCIe", None) == "h100_pcie"
    assert chip_name("Tesla V100-SXM2-32GB", None) == "v100"
    assert chip_name("NVIDIA GeForce RTX 4060 Laptop GPU", None) is None
    assert chip_name("NVIDIA A100-SXM4-80GB", None) == chip_name("NVIDIA A100 80GB PCIe", 85e9) == "a100"
    assert chip_name("NVIDIA RTX A1000", 8e9) is None
    assert chip_name("NVIDIA B200", 180e9) == "b200"
    found = [chip_name(f"NVIDIA {one}", None) for one in ("A10", "A10G", "L4", "L40S", "L40")]
    assert found == ["a10", None, "l4", "l40s", "l40"]
    assert (chip_name("NVIDIA GH200 480GB", 101e9), chip_name("NVIDIA GH200 144G HBM3e", 150e9)) == ("gh200", None)


@pytest.mark.parametrize(
    ("arch", "title", "like", "note"),
    [
        ((8, 6), "NVIDIA GeForce RTX 3070", "a40", "has no file in params/gpus: latencies are those of a40"),
        ((8, 7), "Orin", "a40", "neither has another chip of sm_87: latencies and rates of units are those of a40"),
        ((10, 0), "NVIDIA B200", "b200", "has 84 SMs, and the file in params/gpus 148: latencies are those of b200"),
        ((10, 3), "NVIDIA B300", "b200", "neither has another chip of sm_103: latencies and rates of units are those of b200"),
        ((13, 0), "NVIDIA GeForce RTX 9090", "rtx5090", "chip of sm_130: latencies and rates of units are those of rtx5090"),
        ((8, 9), "NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090", "has 84 SMs, and the file in params/gpus 128"),
    ],
)
def test_a_chip_without_a_file_is_like_one_of_its_generation_and_says_so(arch, title, like, note):
    major, minor = arch
    one = launch({
        "device__attribute_compute_capability_major": major,
        "device__attribute_compute_capability_minor": minor,
        "device__attribute_display_name": title,
    })  # fmt: skip
    gpu, (found,) = chip_of(one)
    assert gpu.name == like and gpu.sms == 84 and gpu.title == title
    assert note in found
    assert profile_of(one).replay(replicates=1).cycles.mean > 0


def test_the_rate_of_l2_of_a_chip_without_a_file_follows_its_slices():
    """Of the A40, which it is like, L2 has 48 slices and the chip 84 SMs, as many as this one."""
    name = {"device__attribute_display_name": "NVIDIA RTX A6000"}
    unknown, half = (chip_of(launch(name | slices))[0] for slices in ({}, {"device__attribute_l2s_count": 24}))
    queue, fewer = unknown.memory.queue, half.memory.queue
    assert queue.crossbar_gbs == pytest.approx(load_gpu("a40").memory.queue.crossbar_gbs * 1.3 / 1.74)
    assert (fewer.crossbar_gbs, fewer.crossbar_servers) == (queue.crossbar_gbs / 2, queue.crossbar_servers / 2)
    assert fewer.dram_gbs == queue.dram_gbs


def test_another_chip_takes_in_stores_by_its_slices_and_its_clock():
    """The file of the RTX 4090 states no rate: its slices are as many as those of this A40, and its clock is higher."""
    profile = profile_of(launch({"device__attribute_l2s_count": 48, "lts__cycles_elapsed.avg.per_second": 1.3e9}))
    own, clock = profile.gpu.memory.l2_store_gbs, load_gpu("rtx4090").clock_ghz
    assert own == pytest.approx(48 * 32 * 1.3)
    assert profile.what_if(gpu="rtx4090").gpu.memory.l2_store_gbs == pytest.approx(own * clock / 1.3)
    assert profile.what_if(gpu="l40").gpu.memory.l2_store_gbs == pytest.approx(own * load_gpu("l40").clock_ghz / 1.3)
    stated = load_gpu("a40")
    assert profile.what_if(gpu=stated).gpu.memory.l2_store_gbs == stated.memory.l2_store_gbs
    nameless = load_gpu("rtx4090").model_copy(update={"name": "other"})
    rates = [gpu.memory.queue.crossbar_gbs for gpu in (nameless, profile.gpu)]
    assert profile.what_if(gpu=nameless).gpu.memory.l2_store_gbs == pytest.approx(own * rates[0] / rates[1])


@pytest.mark.parametrize(
    ("measured", "highest"),
    [(3.6e9, {"device__attribute_max_gpu_frequency_khz": 1.74e6}), (16e9, {})],
)
def test_a_correction_of_the_clocks_that_makes_no_sense_is_left(measured, highest):
    """It would make the SMs faster than the chip allows, 2.6 GHz, or less than half as fast as measured."""
    memory = {"dram__cycles_elapsed.avg.per_second": measured, "device__attribute_max_mem_frequency_khz": 7.2e6}
    gpu, (note,) = chip_of(launch(memory | highest))
    assert gpu.clock_ghz == 1.3 and "the clocks are left as measured" in note


@pytest.mark.parametrize(
    ("minor", "title", "khz", "like", "memory"),
    [
        (9, "NVIDIA GeForce RTX 4060", 8.501e6, "l40", "l40"),
        (9, "NVIDIA GeForce RTX 4080", 11.201e6, "rtx4090", "rtx4090"),
        (6, "NVIDIA GeForce RTX 3060", 7.501e6, "a40", "a40"),
        (6, "NVIDIA GeForce RTX 3070 Ti", 9.501e6, "a40", "rtx4090"),
    ],
)
def test_a_chip_without_a_file_has_the_rates_of_its_kind_of_memory(minor, title, khz, like, memory):
    gpu, _ = chip_of(launch({
        "device__attribute_compute_capability_minor": minor,
        "device__attribute_display_name": title,
        "device__attribute_max_mem_frequency_khz": khz,
        "dram__cycles_elapsed.avg.per_second": khz * 1e3,
    }))  # fmt: skip
    kind = load_gpu(memory).memory
    assert gpu.name == like and gpu.memory.writes == kind.writes
    assert gpu.memory.bandwidth_gbs / gpu.memory.pin_bandwidth_gbs == pytest.approx(kind.bandwidth_gbs / kind.pin_bandwidth_gbs)


@pytest.mark.parametrize(
    ("title", "rates"),
    [
        ("NVIDIA GeForce RTX 3070", (128, 64, 32, 256)), ("NVIDIA GeForce RTX 3090", (128, 64, 32, 256)),
        ("NVIDIA RTX A6000", (128, 128, 64, 256)),
    ],
)  # fmt: skip
def test_a_geforce_adds_products_of_matrices_in_single_precision_at_half_the_rate(title, rates):
    """The RTX 3070 and the A6000 have no files.

    By its whitepaper, an RTX 3090 attains 142, 71, 35.6 and 284 TFLOP/s, an RTX A6000 154.8, 154.8, 77.4 and 309.7.
    """
    gpu, _ = chip_of(launch({"device__attribute_display_name": title}))
    assert tuple(gpu.ops["tensor"].rates[kind] for kind in ("f16", "f16_f32", "tf32", "s8")) == rates


def test_an_l40_lends_its_memory_but_not_its_matrix_units():
    """By their data sheets, an RTX 4060 Ti attains as much per SM and cycle as an RTX 4090, and an L40 half."""
    ada = {"device__attribute_compute_capability_minor": 9, "device__attribute_max_mem_frequency_khz": 9.001e6}
    titles = ("NVIDIA GeForce RTX 4060 Ti", "NVIDIA L40")
    lent, own = (chip_of(launch(ada | {"device__attribute_display_name": title}))[0] for title in titles)
    assert (lent.name, own.name) == ("l40", "l40")
    assert (lent.ops["tensor"].rates["s8"], own.ops["tensor"].rates["s8"]) == (256, 128)


@pytest.mark.parametrize("title", ["NVIDIA GeForce GTX 1080", "NVIDIA TITAN X (Pascal)"])
def test_chips_before_volta_are_refused(title):
    pascal = {"device__attribute_compute_capability_major": 6, "device__attribute_compute_capability_minor": 1}
    with pytest.raises(ProfileError, match=r"sm_61.*machine code before sm_70 has no control fields"):
        profile_of(launch(pascal | {"device__attribute_display_name": title}))
