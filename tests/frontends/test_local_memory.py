"""Local memory in the walk through the caches: against counts by hand for an array of each thread.

An A100 has 192 KiB of L1 where no block uses shared memory. 1024 threads with 128 words each have 512 KiB: 4096 lines, of which
L1 holds 1536, three in eight. Those of 32 SMs, 16 MiB, fit into L2 with the copies in its other half.
"""

import warnings

import numpy as np
import pytest

from tests.support.listings import function, only
from warpsim.frontends.errors import AssumptionWarning
from warpsim.frontends.execution.local_memory import STACK_END, interleaved, within_stack
from warpsim.frontends.launch.geometry import as_geometry
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.kernels.instruction import Instruction

IN_L1 = 184 / 512
LAST = 4 * 127
"""Offset of the last word of the array."""

FRAME = ("MOV R1, c[0x0][0x28]", "IADD3 R1, R1, -0x200, RZ", "S2R R0, SR_TID.X")
FILL = (
    "MOV R6, RZ", ".L_fill:", "IMAD R5, R6, 0x4, R1", "STL [R5], R0", "IADD3 R6, R6, 0x1, RZ",
    "ISETP.LT.AND P0, PT, R6, 0x80, PT", "@P0 BRA `(.L_fill)",
)  # fmt: skip
GENERIC = ("IADD3 R2, P1, R7, c[0x0][0x20], RZ", "IADD3.X R3, RZ, c[0x0][0x24], RZ, P1, !PT", "LD.E R9, [R2.64]")


def read(*rows, words=128):
    """A loop of as many trips as words; R6 is the number of the trip."""
    loop = ("MOV R6, RZ", ".L_read:", *rows, "IADD3 R6, R6, 0x1, RZ")
    return (*loop, f"ISETP.LT.AND P0, PT, R6, {words:#x}, PT", "@P0 BRA `(.L_read)")


def ordered(step, first, *load):
    return read(f"IADD3 R8, R1, {first:#x}, RZ", f"IMAD R7, R6, {step:#x}, R8", *load)


def accesses(*rows, launch="32,1024", said=None, **choices):
    """The accesses of a kernel, by opcode; the last of each."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        found = to_kernel(function(*FRAME, *rows, "EXIT", shared=0), as_geometry(launch), Choices(**choices), name="f")
    texts = [str(note.message) for note in notes if note.category is AssumptionWarning]
    assert [said in text for text in texts] == ([True] if said else [])
    return {one.comment.split()[0].partition(".")[0]: one.access for one in only(found, Instruction) if one.access is not None}


@pytest.mark.parametrize("load", [("LDL R9, [R7]",), GENERIC], ids=["local", "generic"])
@pytest.mark.parametrize(("step", "first", "hit"), [(4, 0, 0.0), (-4, LAST, IN_L1)], ids=["forwards", "backwards"])
def test_an_array_that_does_not_fit_into_l1_hits_as_the_line_used_longest_ago_is_replaced(step, first, hit, load):
    """L1 has the words that were stored last. Forwards each load displaces what a later one asks for; backwards all are hit."""
    found = accesses(*FILL, *ordered(step, first, *load))
    loaded = found["LDL" if len(load) == 1 else "LD"]
    assert loaded.l1_hit == pytest.approx(hit, abs=0.01) and loaded.l2_hit == pytest.approx(1.0, abs=0.01)
    assert found["STL"].l1_hit == 0.0


@pytest.mark.parametrize("launch", ["32,128", "432,32,163840"], ids=["a wave", "several waves"])
def test_an_array_that_fits_into_l1_hits(launch):
    """64 KiB of 184, or 16 KiB of the 28 that shared memory leaves, which the blocks of later waves take over."""
    found = accesses(*FILL, *ordered(4, 0, "LDL R9, [R7]"), launch=launch)
    assert found["LDL"].l1_hit == 1.0


@pytest.mark.parametrize(("threads", "hit"), [(1024, 0.0), (128, 1.0)])
def test_local_memory_takes_room_in_l1(threads, hit):
    """Each thread comes back to its number in global memory after it has filled its array."""
    number = ("MOV R3, 0x4", "IMAD.WIDE R2, R0, R3, c[0x0][0x160]", "LDG.E R4, [R2.64]")
    assert accesses(*number, *FILL, "LDG.E R4, [R2.64]", launch=f"32,{threads}")["LDG"].l1_hit == pytest.approx(hit, abs=0.01)


def test_stores_are_written_through_and_overwrite_in_l2():
    """Each word is stored twice, one right behind the other; all that is stored fits into L2, which has it at the end."""
    twice = (*FILL[:4], "STL [R5], R6", *FILL[4:])
    once, again = (accesses(*rows, *ordered(4, 0, "LDL R9, [R7]"))["STL"] for rows in (FILL, twice))
    assert (once.l1_hit, once.l2_hit, once.l2_kept) == (0.0, 0.0, 1.0) and (again.l1_hit, again.l2_hit) == (0.0, 1.0)


def test_an_index_that_depends_on_data_may_be_any_of_the_frame():
    """Of random words L1 has its share, whatever it replaces: 160 KiB of 512, beside the shared memory that has the indices."""
    rows = (*FILL, *read("LDS R4, [R0.X4]", "IMAD R7, R4, 0x4, R1", "LDL R9, [R7]"))
    found = accesses(*rows, launch="32,1024,4096", said="the addresses of LDL depend on data: taken as coalesced")
    assert found["LDL"].l1_hit == pytest.approx(160 / 512, abs=0.02)
    assert accesses(*rows, launch="32,128,512", said="depend on data")["LDL"].l1_hit == 1.0


def test_an_index_that_the_threads_of_a_warp_have_in_common_is_within_the_frame():
    """Trip k reads its index from word k of shared memory. There is nothing to say where all of the array is in L1."""
    rows = (*FILL, *read("LDS R4, [R6.X4]", "IMAD R7, R4, 0x4, R1", "LDL R9, [R7]"))
    said = "each number in memory is taken to name a place of its own on the stack"
    found = accesses(*rows, launch="32,1024,4096", said=said)
    assert found["LDL"].l1_hit < 0.5 and found["LDL"].l2_hit > 0.99
    assert accesses(*rows, launch="32,128,512")["LDL"].l1_hit == 1.0


def test_without_caches_local_memory_hits_l1():
    found = accesses(*FILL, *ordered(4, 0, "LDL R9, [R7]"), caches="none")
    assert (found["LDL"].l1_hit, found["STL"].l1_hit, found["STL"].l2_hit) == (1.0, 0.0, 1.0)


def test_words_of_the_threads_of_a_warp_lie_side_by_side():
    assert (interleaved(np.full(64, 20), 4) == 5 * 128 + 4 * np.tile(np.arange(32), 2)).all()
    assert (interleaved(np.full(32, -1), 4) == -1).all()


def test_offsets_that_are_not_known_are_drawn_within_the_stack():
    pointer, drawn = np.array([STACK_END - 16]), np.array([0.0, 0.5, 0.99, 0.7])
    found = within_stack(np.array([-1, -1, -1, STACK_END + 4]), pointer, drawn, 4)
    assert (found == STACK_END - 16 + np.array([0, 8, 12, 4])).all()
    assert (within_stack(np.array([-1, 8]), np.array([-1]), np.array([0.5]), 4) == [-1, 8]).all()  # the pointer is not known
    assert (within_stack(np.array([-1, 8]), np.array([STACK_END]), np.array([0.5]), 4) == [-1, 8]).all()  # there is no frame
