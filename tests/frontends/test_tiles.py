"""Tiles: what copies by tensor maps move, as the caller states it."""

import warnings

import pytest

from tests.frontends.test_async_copies import AFTER, BULK, imported, instructions, one
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.launch.tiles import tiles_of
from warpsim.frontends.waits.async_copies import corner_of

COPY = (*BULK, "UMOV UR11, UR10", "UMOV UR10, URZ", "UTMALDG.2D [UR8], [UR4]", *AFTER)
PLACE = "0x100"


def test_a_tile_says_which_lines_a_copy_moves():
    tiles = tiles_of({"a": "tile:4096x100:64x3:2", 7: "tile:8:8:4:A", "b": "tile:8:8:4:A", "c": "coalesced", "d": 3})
    assert tiles.keys() == {"a", "7", "b"}
    assert tiles["a"].bytes == 64 * 3 * 2 and tiles["a"].lines.tolist() == [0, 8192, 16384]
    assert tiles["7"].array == tiles["b"].array == 0 and tiles["a"].array is None
    assert tiles_of({1: "tile:256x4:256x2:2"})["1"].lines.tolist() == [0, 128, 256, 384, 512, 640, 768, 896]


def test_dimensions_that_are_not_dense():
    """A matrix of 4096 columns of 2 bytes, as columns in groups of 64: rows are 8192 bytes apart, and groups 128."""
    (tile,) = tiles_of({1: "tile:64x4096/8192x64/128:64x2x3:2"}).values()
    assert tile.strides == (2, 8192, 128)
    assert sorted(tile.lines.tolist()) == [0, 128, 256, 8192, 8320, 8448]
    first, later, other = (int(tile.first(corner, number)) for corner, number in (((0, 0, 0), 7), ((0, 5, 2), 7), ((0, 0, 0), 8)))
    assert later - first == 5 * 8192 + 2 * 128 and other - first > 64 * 4096 * 2
    assert int(tile.first((0, -1, 2), 7)) == -1  # not known
    assert first - int(tile.first((0, 2**32 - 1, 0), 7)) == 8192  # row -1
    (named,) = tiles_of({1: "tile:64x4096:64x2:2:A"}).values()
    assert named.first((0, 0), 7) == named.first((0, 0), 8)


@pytest.mark.parametrize(
    "text",
    [
        "tile", "tile:", "tile:8x8:8x8", "tile:8x8:8:2", "tile:8x8:8x9:2", "tile:0x8:0x8:2", "tile:8x8:8x8:0", "tile:8x8/0:8x8:2",
        "tile:1x1x1x1x1x1:1x1x1x1x1x1:2", "tile:9999999999x9999999999:8x8:2", "tile:8x8:8x8:2:A:B", "tile:8,8:8,8:2",
    ],
)  # fmt: skip
def test_wrong_tiles(text):
    with pytest.raises(FrontEndError, match=r"patterns\['5'\] = 'tile"):
        tiles_of({5: text})


def test_coordinates_follow_the_barrier():
    assert [place.name for place in corner_of(one("UTMALDG.3D [UR8], [UR4]"))] == ["UR10", "UR11", "UR12"]
    assert corner_of(one("UTMASTG.2D [UR8], [UR4]")) == corner_of(one("UBLKCP.S.G [UR8], [UR4], UR6")) == ()


def test_copies_of_known_tiles_hit_what_other_blocks_have_copied():
    """Block n copies 64 rows of 128 bytes from row n on, 63 of which the block before has copied."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = imported(*COPY, arch=90, launch="4096,128", patterns={PLACE: "tile:64x8192:64x64:2"})
    (copy,) = instructions(kernel, "async_copy")
    assert (copy.cost.requests, copy.cost.bytes_per_request, copy.cost.requested_bytes) == (64, 128.0, 8192)
    assert 0.45 < copy.access.l2_hit < 0.9  # of the two halves of its lines, one has a new line
    apart = imported(*COPY, arch=90, launch="128,128", patterns={PLACE: "tile:64x8192/65536:64x1:2"})
    same = imported(*(row.replace("UR11, UR10", "UR11, URZ") for row in COPY), arch=90, launch="128,128",
                    patterns={PLACE: "tile:64x8192/65536:64x1:2"})  # fmt: skip
    assert [instructions(each, "async_copy")[0].access.l2_hit for each in (apart, same)] == [0.0, pytest.approx(1, abs=0.02)]


def test_a_tile_of_more_dimensions_than_its_copy():
    with pytest.raises(FrontEndError, match=r"UTMALDG\.2D copies a tile of 2 dimensions, and not 3"):
        imported(*COPY, arch=90, patterns={PLACE: "tile:64x64x64:64x1x1:2"})


def test_a_tile_of_another_access():
    with pytest.raises(FrontEndError, match=r"patterns\['0x10'\] = .*must be"):
        imported("S2R R0, SR_TID.X", "LDG.E R4, [R2.64]", "EXIT", patterns={"0x10": "tile:64x64:64x1:2"})
