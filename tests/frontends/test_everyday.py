"""The everyday kernels: their listings are those of their sources, and their counts are what the sources say."""

import warnings

import pytest

import warpsim as ws
from tests.support.executions import counts
from warpsim.frontends import listings
from warpsim.frontends.machine_code.sass_text import parse_listing
from warpsim.kernels.traversal import walk

NAMES = [name for name in ws.list_kernels() if name.startswith("cuda/")]
SOURCES = sorted(listings.folder().glob("*.cu"))


def load(name, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing has to be assumed
        return ws.load_kernel(f"cuda/{name}", **{"caches": "none"} | arguments)  # a walk takes half a second


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_loads_without_an_assumption(name):
    arch = listings.ARCHITECTURES[NAMES.index(name) % 4]  # the tests below have further ones
    kernel = load(name.removeprefix("cuda/"), arch=arch, caches="")
    assert kernel.title and kernel.block_warps and counts(kernel)["load"] + counts(kernel)["async_copy"] >= 1
    assert kernel.ops <= set(ws.load_gpu("a100").ops)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_listings_are_those_of_the_sources(source, compiler):
    arch = "sm_80"
    kept = (source.parent / f"{source.stem}.{arch}.sass").read_text(encoding="utf-8")
    made = listings.make_listing(source, arch)
    if f"NVRTC {compiler}" in kept.splitlines()[0]:
        assert made == kept
    assert {one.name for one in parse_listing(made)} == {one.name for one in parse_listing(kept)}


@pytest.mark.parametrize("arch", ["sm_70", *listings.ARCHITECTURES])
def test_counts_are_those_of_the_source(arch):
    n = 1024
    for name, tile in (("matmul_8", 8), ("matmul_16_conflicts", 16), ("matmul_32", 32)):
        found = counts(load(name, arch=arch))
        assert (found["alu"], found["load"], found["store"], found["barrier"]) == (n, 2 * n / tile, 1, 2 * n / tile), name
    found = counts(load("matmul_outputs", arch=arch))
    assert (found["alu"], found["load"], found["store"]) == (4 * n, 2 * 4 * n / 32, 4)
    found = counts(load("softmax", arch=arch))
    assert (found["load"], found["store"], found["barrier"]) == (3 * 4096 / 256, 4096 / 256, 3)
    found = counts(load("stencil", arch=arch))
    assert found["store"] == pytest.approx(126 * (1 - 4 / (64 * 8)), rel=0.02)  # all planes but two; few warps lie at the edges
    for floats in (1, 5, 14):
        found = counts(load("copy", arch=arch, function=f"copy_{floats}"))
        assert (found["load"], found["store"]) == (floats, floats)


def accesses(kernel, op):
    return [statement.access for _, statement in walk(kernel.body) if getattr(statement, "op", "") == op and statement.access]


def ways(kernel, gpu="a100"):
    from warpsim.kernels.access import conflict_ways

    chip = ws.load_gpu(gpu)
    return {conflict_ways(one, chip) for _, one in walk(kernel.body) if getattr(one, "op", "") == "smem" and one.access}


def test_an_architecture_without_a_listing_is_named():
    with pytest.raises(ValueError, match=r"arch = 'sm_86': must be one of sm_70, sm_75, sm_80, sm_89, sm_90"):
        load("softmax", arch="sm_86")


@pytest.mark.parametrize("arch", listings.ARCHITECTURES)
def test_accesses_are_those_of_the_source(arch):
    assert {one.stride for one in accesses(load("transpose_naive", arch=arch), "store")} == {2048}
    assert {one.pattern for one in accesses(load("transpose_padded", arch=arch), "store")} == {"coalesced"}
    assert max(ways(load("transpose_shared", arch=arch))) == 32
    assert max(ways(load("transpose_padded", arch=arch))) == 1
    assert max(ways(load("matmul_16_conflicts", arch=arch))) > max(ways(load("matmul_16", arch=arch)))
    assert {one.pattern for one in accesses(load("permute", arch=arch), "load")} == {"coalesced", "random"}


def test_the_seven_reductions_differ_as_their_comments_say():
    kernels = [load("reduction", function=f"reduce_{k}") for k in range(6)]
    kernels.append(load("reduction", function="reduce_6", grid=128, args="n=1048576"))
    found = [counts(kernel) for kernel in kernels]
    assert [kernel["load"] for kernel in found] == [1, 1, 1, 2, 2, 2, 32]
    assert max(ways(kernels[1])) > 1 and max(ways(kernels[2])) == 1
    assert found[4]["barrier"] < found[3]["barrier"]
