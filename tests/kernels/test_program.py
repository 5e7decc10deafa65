"""Programs: rejected values and their messages, serialization, and the identity of a kernel."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.random_programs import kernels
from tests.support.strategies import examples
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop, Mbarrier, barriers_not_reached_by_all
from warpsim.kernels.traversal import walk
from warpsim.kernels.whatif import _edited, _same_conditional, without

ADD = Instruction("alu", dst="r1", src=["r1"])
BARRIER = Instruction("barrier")
EXIT = Instruction("exit")


def kernel(*body, inputs=("r1",)):
    return Kernel(name="test", inputs=inputs, body=body)


def everything():
    return kernel(
        Instruction("load", dst="r2", src=["r1"], access=Access(pattern="stride", stride=2, l1_hit=0.25)),
        Instruction("smem", dst="r3", src=["r2"], ways=4),
        Loop(body=[ADD, Loop(body=[ADD], trips=3)], trips=[1, 4]),
        Conditional(then=[ADD], orelse=[EXIT], probability=0.5, src=["r3"]),
        Conditional(then=[ADD], warps=[0, 2]),
        Conditional(then=[ADD], orelse=[ADD], diverges=True),
        Loop(body=[ADD], trips=None),
    )


def test_a_kernel_can_be_restored_from_json():
    first = everything()
    assert Kernel.model_validate(first.model_dump(mode="json")) == first
    assert Kernel.model_validate_json(first.model_dump_json()) == first
    assert hash(Kernel.model_validate(first.model_dump(mode="json"))) == hash(first)


def labelled(program, name, text):
    """Returns a copy with other labels: name, title, source, and the comment of every instruction."""
    fields = {field: getattr(program, field) for field in Kernel.model_fields}
    body = _edited(program.body, lambda instruction: [instruction.model_copy(update={"comment": text})], _same_conditional)
    return Kernel(**{**fields, "name": name, "title": text, "source": text, "body": body})


@examples(100)
@given(kernels(), st.text(min_size=1), st.text())
def test_labels_are_not_part_of_the_identity(program, name, text):
    assert labelled(program, name, text).identity() == program.identity()


@examples(100)
@given(kernels(), st.booleans())
def test_everything_but_labels_is_part_of_the_identity(program, endless):
    """The kernel can be rebuilt from its identity, so kernels that differ in more than labels have different ones."""
    if endless:
        program = kernel(Loop(body=program.body or [ADD], trips=None), inputs=program.inputs)
    identity = json.loads(json.dumps(program.identity()))
    assert Kernel.model_validate({"name": "x", **identity}) == labelled(program, "x", "")


OTHERS = {
    "registers_per_thread": 17,
    "shared_bytes_per_block": 1,
    "inputs": ("r1", "r2"),
    "body": (ADD,),
    "mbarriers": (Mbarrier(name="full", arrivals=1),),
}


LABELS = {"name", "title", "source", "block_warps"}


@pytest.mark.parametrize("field", sorted(set(Kernel.model_fields) - LABELS - {"entries", "entry_of_warp"}))
def test_each_field_but_labels_changes_the_identity(field):
    program = kernel(Instruction("load", dst="r2", src=["r1"]), *everything().body)
    changed = Kernel(**{**{name: getattr(program, name) for name in Kernel.model_fields}, field: OTHERS[field]})
    assert changed.identity() != program.identity()


def test_lists_and_a_positional_operation_are_accepted():
    assert Instruction("alu", dst="r1", src=["r1", "r2"]) == Instruction(op="alu", dst="r1", src=("r1", "r2"))
    with pytest.raises(TypeError, match="op"):
        Instruction("alu", op="sfu")


def test_models_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        ADD.op = "sfu"


def test_loads_and_stores_are_coalesced_by_default():
    assert Instruction("load", dst="r1").access == Access(pattern="coalesced", bytes_per_thread=4)
    assert Instruction("store").access == Access()
    assert Instruction("smem", dst="r1").access is None
    assert ADD.access is None


def test_a_range_of_one_number_of_trips_is_a_number():
    assert Loop(body=[ADD], trips=(3, 3)) == Loop(body=[ADD], trips=3)
    assert Loop(body=[ADD], trips=(2, 3)).trip_range == (2, 3)
    assert Loop(body=[ADD], trips=None).trip_range == (-1, -1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Instruction("Alu"), "op"),
        (lambda: Instruction("alu", dst=1), "dst"),
        (lambda: Instruction("alu", src="r1"), "src"),
        (lambda: Instruction("alu", colour="red"), "colour"),
        (lambda: Instruction("alu", access=Access()), "access = 'coalesced': must be left out for alu; only load, store, "),
        (lambda: Instruction("alu", ways=2), "ways = 2: must be 1 for alu"),
        (lambda: Instruction("smem", ways=33), "ways"),
        (lambda: Instruction("smem", ways=2, access=Access()), "ways = 2: must be 1 if access is given"),
        (lambda: Instruction("smem", access=Access(pattern="random")), 'access.pattern = "random"'),
        (
            lambda: Instruction("smem", access=Access(l2_hit=0.5)),
            "access.l1_hit, access.l2_hit = 0.0, 0.5: must be 0 for smem",
        ),
        (lambda: Instruction("store", dst="r1"), "dst = 'r1': must be left out, since store writes no register"),
        (
            lambda: Instruction("barrier", src=["r1"]),
            "src = ['r1']: must be left out, since barrier reads no register",
        ),
        (lambda: Access(pattern="zigzag"), "pattern"),
        (lambda: Access(bytes_per_thread=3), "bytes_per_thread"),
        (lambda: Access(stride=2), "stride = 2: must be 1 unless pattern"),
        (lambda: Access(offset_bytes=2), "offset_bytes = 2: must be a multiple of bytes_per_thread = 4"),
        (lambda: Access(pattern="random", offset_bytes=4), "offset_bytes = 4: must be 0 with pattern"),
        (lambda: Access(pattern="addresses"), "addresses = None: must be given with pattern"),
        (lambda: Access(addresses=[0] * 32), "must be given with pattern"),
        (lambda: Access(pattern="addresses", addresses=[0] * 31), "31 numbers: must be 32 numbers, one per thread"),
        (lambda: Access(pattern="addresses", addresses=[0] * 31 + [2]), "addresses = [2, ...]: each must be a multiple"),
        (lambda: Access(l1_hit=1.5), "l1_hit"),
        (lambda: Loop(body=[], trips=1), "body"),
        (lambda: Loop(body=[ADD], trips=0), "trips"),
        (lambda: Loop(body=[ADD], trips=(0, 2)), "1 <= low <= high"),
        (lambda: Loop(body=[ADD], trips=(3, 2)), "1 <= low <= high"),
        (lambda: Loop(body=[ADD], trips=1.5), "trips"),
        (lambda: Loop(body=[ADD]), "trips"),
        (lambda: Conditional(then=[ADD]), "exactly one of the three must be given"),
        (lambda: Conditional(then=[ADD], probability=0.5, diverges=True), "0.5, None, True: exactly one"),
        (lambda: Conditional(then=[ADD], probability=float("nan")), "probability"),
        (lambda: Conditional(then=[ADD], warps=[]), "warps = []: must name at least one warp, and each only once"),
        (lambda: Conditional(then=[ADD], warps=[64]), "warps"),
        (lambda: Conditional(then=[], probability=0.5), "then"),
        (lambda: kernel(3), "body"),
    ],
)
def test_a_wrong_value_is_named(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)


def test_an_unwritten_register_is_named_with_its_instruction():
    with pytest.raises(ValueError, match=r"body\[1\]\.src = 'r7': sfu reads .* available here: r1, r2"):
        kernel(Instruction("alu", dst="r2"), Instruction("sfu", dst="r3", src=["r7"]))
    with pytest.raises(ValueError, match=r"body\[0\]\.src = 'p0': branch reads"):
        kernel(Conditional(then=[ADD], probability=0.5, src=["p0"]))


def test_all_problems_of_a_program_are_named_at_once():
    with pytest.raises(ValueError) as caught:
        kernel(Loop(body=[ADD], trips=None), EXIT, Instruction("alu", src=["a", "b"]), inputs=())
    message = str(caught.value)
    for part in ("body[0].trips", "body[0].body[0].src = 'r1'", "body[1].op", "src = 'a'", "src = 'b'"):
        assert part in message


WRITE_R2 = Instruction("alu", dst="r2")
READ_R2 = Instruction("alu", src=["r2"])


@pytest.mark.parametrize(
    "body",
    [
        [Conditional(then=[WRITE_R2], probability=0.5), READ_R2],
        [Conditional(then=[ADD], orelse=[WRITE_R2], probability=0.5), READ_R2],
        [Conditional(then=[WRITE_R2], orelse=[READ_R2], diverges=True)],
        [Loop(body=[WRITE_R2, READ_R2], trips=2)],
        [Loop(body=[WRITE_R2], trips=2), READ_R2],
    ],
)
def test_a_register_written_on_some_path_before_may_be_read(body):
    kernel(*body)


@pytest.mark.parametrize(
    "body",
    [
        [READ_R2, WRITE_R2],
        [Loop(body=[READ_R2, WRITE_R2], trips=2)],
        [Conditional(then=[WRITE_R2], orelse=[READ_R2], probability=0.5)],
        [Conditional(then=[WRITE_R2, EXIT], probability=0.5), READ_R2],
    ],
)
def test_a_register_written_on_no_path_before_may_not_be_read(body):
    with pytest.raises(ValueError, match="'r2'"):
        kernel(*body)


@pytest.mark.parametrize(
    "body",
    [
        [EXIT],
        [Loop(body=[EXIT], trips=2)],
        [Conditional(then=[EXIT, ADD], probability=0.5)],
        [Conditional(then=[EXIT], diverges=True)],
        [Conditional(then=[Conditional(then=[EXIT], probability=0.5)], diverges=True)],
    ],
)
def test_exit_is_allowed_only_at_the_end_of_a_side(body):
    with pytest.raises(ValueError, match=r'op = "exit"'):
        kernel(*body)


def test_exit_may_end_a_side_and_an_endless_loop_the_kernel():
    leave = Conditional(then=[EXIT], probability=0.5)
    assert kernel(Loop(body=[ADD, leave], trips=None)).endless
    assert not kernel(leave).endless
    assert not kernel().endless


def test_an_endless_loop_inside_another_is_refused():
    with pytest.raises(ValueError, match=r"body\[0\]\.body\[0\]\.trips = endless"):
        kernel(Loop(body=[Loop(body=[ADD], trips=None)], trips=None))


ALU, LOAD = Instruction("alu"), Instruction("load", dst="r1", src=["r1"])


def two_paths(**changes):
    fields = {"body": (ALU, EXIT, LOAD, ALU), "entries": (0, 2), "entry_of_warp": (0, 1, 1)}
    return Kernel(name="paths", inputs=("r1",), **(fields | changes))


def test_paths_go_from_entry_to_entry():
    kernel = two_paths()
    assert kernel.paths() == [(0, (ALU, EXIT)), (2, (LOAD, ALU))]
    assert [kernel.entry_of(number) for number in range(5)] == [0, 2, 2, 0, 2]
    assert kernel.shares() == [1 / 3, 2 / 3]
    assert kernel.most_frequent_path() == Kernel(name="paths", inputs=("r1",), body=(LOAD, ALU))
    assert two_paths(entry_of_warp=(0, 1, 0)).most_frequent_path() == Kernel(name="paths", inputs=("r1",), body=(ALU,))
    assert kernel.identity() != two_paths(entry_of_warp=(0, 1)).identity()
    assert Kernel.model_validate({"name": "paths", **kernel.identity()}) == kernel


@pytest.mark.parametrize(
    "changes",
    [
        {"entries": (1, 2)}, {"entries": (0,)}, {"entries": (0, 1)}, {"entries": (0, 4)}, {"entries": ()}, {"entry_of_warp": ()},
        {"entry_of_warp": (0, 2)}, {"entry_of_warp": (1,)}, {"body": (ALU, EXIT, Loop(body=(ALU,), trips=None))},
    ],
)  # fmt: skip
def test_entries_that_name_no_paths_are_refused(changes):
    with pytest.raises(ValueError, match="entr"):
        two_paths(**changes)


def test_an_edited_program_keeps_its_paths():
    edited = without(two_paths(), "load")
    assert (edited.body, edited.entries) == ((ALU, EXIT, ALU), (0, 2))


def test_a_register_of_another_path_is_not_written():
    with pytest.raises(ValueError, match="r2"):
        two_paths(body=(Instruction("alu", dst="r2"), EXIT, Instruction("alu", src=("r2",)), ALU))


def test_ops_include_branch_and_exit():
    assert kernel().ops == {"exit"}
    assert everything().ops == {"alu", "load", "smem", "branch", "exit"}


def test_walk_gives_paths_in_program_order():
    paths = [path for path, _ in walk(everything().body)]
    assert paths[:7] == [
        *("body[0]", "body[1]", "body[2]", "body[2].body[0]", "body[2].body[1]"),
        *("body[2].body[1].body[0]", "body[3]"),
    ]
    assert "body[3].orelse[0]" in paths


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ([BARRIER, Loop(body=[BARRIER], trips=3), Loop(body=[BARRIER], trips=None)], []),
        ([Conditional(then=[BARRIER], diverges=True)], []),
        ([Conditional(then=[BARRIER], probability=1.0), Conditional(then=[BARRIER], probability=0.0)], []),
        ([ADD, Conditional(then=[ADD], orelse=[BARRIER], probability=0.5)], ["body[1].orelse[0]"]),
        ([Conditional(then=[ADD, Loop(body=[BARRIER], trips=2)], warps=[0])], ["body[0].then[1].body[0]"]),
        ([Loop(body=[BARRIER], trips=(1, 2)), BARRIER], ["body[0].body[0]"]),
    ],
)
def test_barriers_that_not_all_warps_reach_are_found(body, paths):
    assert barriers_not_reached_by_all(kernel(*body)) == paths


def test_the_mean_trips_of_a_loop():
    alu = (Instruction("alu"),)
    assert [Loop(body=alu, trips=trips).mean_trips for trips in (1, 8, (2, 5), None)] == [1.0, 8.0, 3.5, 1.0]


def test_how_often_the_sides_of_a_conditional_are_executed():
    rules = ({"probability": 0.25}, {"warps": (0, 5)}, {"diverges": True})
    drawn, named, both = (Conditional(then=(Instruction("alu"),), **rule) for rule in rules)
    assert (drawn.sides(), drawn.sides(4)) == ((0.25, 0.75), (0.25, 0.75))
    assert (named.sides(), named.sides(4), named.sides(8)) == ((0.5, 0.5), (0.25, 0.75), (0.25, 0.75))
    assert (both.sides(), both.sides(4)) == ((1.0, 1.0), (1.0, 1.0))
    assert [drawn.falls_through(warp) for warp in (0, 5)] == [0.25, 0.25]
    assert [named.falls_through(warp) for warp in (0, 4, 5)] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("levels", "trips", "says"),
    [
        (17, 2, "body: loops that repeat are nested 17 levels deep: must be at most 16"),
        (2000, 1, "body: statements are nested 2000 levels deep: must be at most 200"),
    ],
)
def test_statements_that_are_nested_too_deeply_are_refused(levels, trips, says):
    body = Instruction("alu")
    for _ in range(levels):
        body = Loop(body=(body,), trips=trips)
    with pytest.raises(ValueError, match=says):
        Kernel(name="deep", body=(body,))
