"""Workloads of the papers: their instructions, and the arguments that their builders reject."""

import inspect
from collections import Counter

import numpy as np
import pytest

from warpsim.kernels import (
    Access,
    Conditional,
    Instruction,
    chain,
    copy,
    listing_3_1,
    listing_3_2,
    listing_3_3,
    mix,
    permute,
    vabs,
    vector_add,
    worksheet_3_2,
)
from warpsim.kernels.builders import BUILDERS
from warpsim.kernels.steps import flatten
from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.store.status import TILES


def test_arguments_have_no_names_of_stores():
    """A sweep has an array for each argument, beside those of the results and of its tiles."""
    for name, builder in BUILDERS.items():
        assert {TILES, *SWEEP_VARIABLES}.isdisjoint(inspect.signature(builder).parameters), name


def group(kernel):
    return [instruction.op for instruction in kernel.body[0].body]


@pytest.mark.parametrize(
    ("alpha", "ops"),
    [
        (0, "load"),
        (float("inf"), "alu"),
        (1, "load alu"),
        (3, "load alu alu alu"),
        (0.25, "load load load load alu"),
        (1.5, "load alu load alu alu"),
        (np.float64(2), "load alu alu"),
        (np.int64(2), "load alu alu"),
    ],
)
def test_mix_interleaves_evenly(alpha, ops):
    assert group(mix(alpha)) == ops.split()


@pytest.mark.parametrize("power", range(-4, 19))
def test_mix_represents_powers_of_root_2(power):
    alpha = 2 ** (power / 2)
    ops = Counter(group(mix(alpha)))
    assert ops["alu"] / ops["load"] == pytest.approx(alpha, rel=0.005)
    assert ops.total() <= 1024


def test_mix_has_as_few_of_the_rarer_kind_as_possible():
    assert Counter(group(mix(2.51))) == {"alu": 5, "load": 2}
    assert Counter(group(mix(1 / 2.51))) == {"alu": 2, "load": 5}
    assert Counter(group(mix(1023))) == {"alu": 1023, "load": 1}
    assert Counter(group(mix(1 / 1023))) == {"alu": 1, "load": 1023}


@pytest.mark.parametrize("many", [1, 3, 255, 256, 257, 511, 1000])
def test_mix_of_whole_numbers_is_exact(many):
    assert Counter(group(mix(many))) == {"alu": many, "load": 1}
    assert Counter(group(mix(1 / many))) == {"alu": 1, "load": many}


@pytest.mark.parametrize(
    ("alpha", "nearest"),
    [(1e-4, "0.000977517"), (5e-324, "0.000977517"), (5000, "1023"), (1e308, "1023"), (10**400, "1023")],
)
def test_mix_names_the_nearest_possible_alpha(alpha, nearest):
    with pytest.raises(ValueError) as caught:
        mix(alpha)
    assert f"alpha = {alpha!r}: must be 0, inf, or from 0.000977517 to 1023," in str(caught.value)
    assert str(caught.value).endswith(f"the nearest possible value is {nearest}")


def test_mix_is_one_chain_of_dependent_instructions():
    for kernel in (mix(4), mix(0.5, "sfu"), mix(2, "smem", ways=2)):
        assert all(i.dst == "r1" and i.src == ("r1",) for i in kernel.body[0].body)
        assert kernel.endless
    assert mix(2, iterations=7).body[0].trips == 7


def test_mix_passes_on_the_access_and_the_ways():
    assert mix(0, pattern="random").body[0].body[0].access == Access(pattern="random")
    assert mix(0, pattern="stride", stride=2).body[0].body[0].access == Access(pattern="stride", stride=2)
    assert mix(0, "smem", ways=4).body[0].body[0].ways == 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mix(-1), "alpha = -1: must be a number from 0, or inf"),
        (lambda: mix(float("nan")), "alpha = nan"),
        (lambda: mix("32"), "alpha = '32'"),
        (lambda: mix(True), "alpha = True"),
        (lambda: mix(1, "store"), "other = 'store': must be one of load, sfu, smem"),
        (lambda: mix(1, "smem", ways=0), "ways = 0: must be an integer from 1 to 32"),
        (lambda: mix(1, ways=2), "ways = 2: must be 1 for load"),
        (lambda: mix(1, pattern="zigzag"), "pattern = 'zigzag': must be one of coalesced, stride, random, broadcast"),
        (lambda: mix(1, "sfu", pattern="random"), "pattern = 'random': must be coalesced for sfu"),
        (lambda: mix(1, stride=2), "stride = 2: must be 1 unless pattern"),
        (lambda: mix(1, iterations=0), "iterations = 0: must be None (endless) or an integer from 1"),
        (lambda: chain("store"), "op = 'store'"),
        (lambda: chain("Add"), "op = 'Add'"),
        (lambda: chain("alu", 65), "ilp = 65: must be an integer from 1 to 64"),
        (lambda: chain("alu", 1.0), "ilp = 1.0"),
        (lambda: permute(1), "random = 1: must be True or False"),
        (lambda: vabs("yes"), "negative = 'yes': must be True or False"),
        (lambda: copy(0), "floats = 0: must be an integer from 1 to 252"),
        (lambda: copy(64, 4), "floats = 64: must be an integer from 1 to 63"),
        (lambda: copy(1, 3), "vector = 3: must be one of 1, 2, 4"),
        (lambda: listing_3_2("muls"), "kind = 'muls': must be one of adds, stores, loads"),
        (lambda: worksheet_3_2(0), "iterations = 0"),
    ],
)
def test_wrong_arguments_are_named(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)


def test_all_wrong_arguments_are_named_at_once():
    with pytest.raises(ValueError) as caught:
        mix(-1, "x", iterations=-2)
    assert [line.split(" = ")[0] for line in str(caught.value).splitlines()] == [
        "alpha",
        "other",
        "iterations",
    ]


@pytest.mark.parametrize(
    ("op", "name"), [("alu", "add_chain"), ("load", "load_chain"), ("fp64", "fp64_chain")]
)
def test_each_instruction_of_a_chain_depends_on_the_one_ilp_instructions_before(op, name):
    kernel = chain(op, 3)
    assert kernel.name == name
    assert [(i.op, i.dst, i.src) for i in kernel.body[0].body] == [
        (op, f"r{k}", (f"r{k}",)) for k in (1, 2, 3)
    ]


def test_the_longest_path_of_vector_add_takes_343_cycles():
    """V 3.8: loads 301, all else 9, ILP latency 3, and 0 in the four pairs; 201 more make 544."""
    seconds = (1, 5, 8, 11)
    times, ready = [], {}
    for index, step in enumerate(flatten(vector_add()).steps):
        in_order = times[-1] + (0 if index in seconds else 3) if times else 0
        times.append(max([in_order, *(ready[register] for register in step.src)]))
        ready[step.dst] = times[-1] + (301 if step.instruction.op == "load" else 9)
    assert times == [0, 0, 3, 12, 21, 21, 30, 33, 33, 334, 343, 343]


def test_vector_add_is_listing_3_5():
    kernel = vector_add()
    assert [i.comment.split()[0] for i in kernel.body] == (
        "MOV S2R S2R IMAD ISCADD ISCADD LD LD ISCADD FADD ST".split()
    )
    assert [(i.dst, i.src) for i in kernel.body] == [
        ("r1", ()),
        ("r3", ()),
        ("r0", ()),
        ("r2", ("r0", "r3")),
        ("r3", ("r2",)),
        ("r0", ("r2",)),
        ("r3", ("r3",)),
        ("r0", ("r0",)),
        ("r2", ("r2",)),
        ("r3", ("r3", "r0")),
        (None, ("r2", "r3")),
    ]


def test_permute_gathers_randomly_only_on_request():
    for random, pattern in ((False, "coalesced"), (True, "random")):
        loads = [i for i in permute(random).body if i.op == "load"]
        assert [i.access.pattern for i in loads] == ["coalesced", pattern]


def test_vabs_stores_only_negative_elements():
    for negative, probability in ((False, 0.0), (True, 1.0)):
        conditional = vabs(negative).body[-1]
        assert isinstance(conditional, Conditional)
        assert conditional.probability == probability
        assert [i.op for i in conditional.then] == ["alu", "store"]


@pytest.mark.parametrize(("floats", "vector"), [(1, 1), (4, 1), (8, 2), (14, 4), (252, 1)])
def test_copy_loads_all_before_it_stores(floats, vector):
    kernel = copy(floats, vector)
    memory = [i for i in kernel.body if i.op in ("load", "store")]
    assert [i.op for i in memory] == ["load"] * floats + ["store"] * floats
    assert all(i.access.bytes_per_thread == 4 * vector for i in memory)
    assert len({i.dst for i in memory[:floats]}) == floats
    assert kernel.registers_per_thread == 3 + floats * vector


def test_the_listings():
    assert [i.op for i in listing_3_1().body] == ["load", "smem", "alu", "sfu", "store"]
    for kind, op in (("adds", "alu"), ("stores", "store"), ("loads", "load")):
        assert [i.op for i in listing_3_2(kind).body] == 7 * [op]
        assert len({i.src for i in listing_3_2(kind).body}) == 7
    first, barrier, last = listing_3_3().body
    assert first.warps == (0,)
    assert [i.op for i in first.then] == ["load", "alu"]
    assert barrier == Instruction("barrier", comment="BAR.RED.POPC")
    assert last.op == "alu"


def test_the_worksheet_has_the_mix_of_table_3_2():
    body = worksheet_3_2().body[0].body
    kinds = Counter((i.op, i.ways, i.access.stride if i.access else 1) for i in body)
    assert kinds == {
        ("alu", 1, 1): 100,
        ("sfu", 1, 1): 5,
        ("smem", 1, 1): 10,
        ("smem", 2, 1): 10,
        ("load", 1, 1): 5,
        ("load", 1, 2): 5,
    }


def test_only_the_adds_after_sfu_instructions_can_be_dual_issued_in_the_worksheet():
    body = worksheet_3_2().body[0].body
    for first, second in zip(body, body[1:] + body[:1], strict=True):
        depends = first.dst in (*second.src, second.dst)
        assert depends == (first.op != "sfu")
        assert first.op != "sfu" or second.op == "alu"
