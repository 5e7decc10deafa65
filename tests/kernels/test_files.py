"""Kernel files: those of the package, and the messages for files with errors."""

import inspect
import shutil
from importlib import import_module

import pytest

from warpsim import kernels
from warpsim.engine.constants import MOST_STEPS
from warpsim.hardware.files import params_dir
from warpsim.kernels import (
    KernelFileError,
    Loop,
    builders,
    kernel_arguments,
    list_kernels,
    listing_3_3,
    load_kernel,
    mix,
    vector_add,
)
from warpsim.kernels.files import write_kernel
from warpsim.kernels.machine_code import FRONT_ENDS
from warpsim.kernels.statements import MAX_STATEMENTS

WORKLOADS = {
    *("mix", "mix_sfu", "mix_smem", "add_chain", "load_chain", "sfu_chain", "smem_chain"),
    *("vector_add", "permute", "vabs", "copy", "worksheet_3_2"),
    *("listing_3_1", "listing_3_2_adds", "listing_3_2_stores", "listing_3_2_loads", "listing_3_3"),
}


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        path = tmp_path / "own.toml"
        path.write_text(text)
        return path

    return write_file


def errors(path, **arguments):
    with pytest.raises(KernelFileError) as caught:
        load_kernel(path, **arguments)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def test_every_workload_has_a_file():
    assert set(list_kernels()) >= WORKLOADS


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_file_gives_the_kernel_of_its_name(name):
    assert load_kernel(name).name == name


def test_arguments_replace_those_of_the_file():
    assert load_kernel("mix") == mix(32)
    assert load_kernel("mix", alpha=4) == mix(4)
    assert load_kernel("smem_chain", ways=2, ilp=3) == builders.chain("smem", 3, ways=2)
    assert load_kernel("mix_sfu", alpha=2, iterations=9) == mix(2, "sfu", iterations=9)


def test_the_arguments_of_a_kernel_are_listed():
    assert kernel_arguments("copy") == {"floats": 1, "vector": 1}
    assert kernel_arguments("smem_chain")["op"] == "smem"
    assert kernel_arguments("vector_add") == {}


def test_programs_in_files_equal_those_of_the_builders():
    assert load_kernel("vector_add") == vector_add()
    assert load_kernel("listing_3_3") == listing_3_3()


OTHERS = {"barriers_not_reached_by_all", "kernel_arguments", "list_kernels", "load_kernel"}


def test_every_public_builder_can_be_named_in_a_file():
    functions = {name for name in kernels.__all__ if inspect.isfunction(getattr(kernels, name))}
    assert set(builders.BUILDERS) == functions - OTHERS - set(FRONT_ENDS)


def test_a_title_of_any_characters_is_written_and_read(tmp_path):
    kernel = mix(alpha=1, iterations=2).model_copy(update={"title": "sum 😀 \"a\\b\" \u2713 \x7f \n end"})
    (tmp_path / "own.toml").write_text(write_kernel(kernel), encoding="utf-8")
    assert load_kernel(tmp_path / "own.toml") == kernel


def test_a_program_with_loops_and_conditionals(write):
    kernel = load_kernel(
        write(
            """
            name = "own"
            inputs = ["r1"]
            shared_bytes_per_block = 1024
            body = [
                {trips = [2, 3], body = [{op = "load", dst = "r1", access = {pattern = "random"}}]},
                {then = [{op = "exit"}], orelse = [{op = "smem", dst = "r2", ways = 2}], probability = 0.5},
                {trips = "endless", body = [{op = "alu", dst = "r1", src = ["r1", "r2"]}]},
            ]
            """
        )
    )
    assert kernel.body[0].trip_range == (2, 3)
    assert kernel.body[1].orelse[0].ways == 2
    assert kernel.body[2].trips is None
    assert isinstance(kernel.body[2], Loop)


def test_all_errors_of_a_program_are_named_at_once(write):
    found = errors(
        write(
            """
            name = ""
            colour = "red"
            registers_per_thread = 0
            body = [
                {op = "Alu", dst = "1", src = "r1"},
                {op = "load", dst = "r1", access = {pattern = "zigzag", size = 1}},
                {op = "load", dst = "r1", access = {stride = 2}},
                {op = "store", dst = "r1", ways = 2},
                {trips = 0, body = [{op = "alu", latency = 2}]},
                {trips = [3, 1], body = []},
                {then = [{op = "alu"}], probability = 2.0},
                {then = [{op = "alu"}]},
                {then = 3, warps = [0]},
                {colour = "red"},
                3,
            ]
            """
        )
    )
    for start in (
        'body[0].op = "Alu": must be a name of lower-case letters',
        'body[0].dst = "1": must be a name',
        'body[0].src = "r1": must be a list',
        'body[1].access.pattern = "zigzag": must be \'coalesced\', \'stride\'',
        "body[1].access.size = 1: unknown key",
        "body[2].access.stride = 2: must be 1 unless",
        "body[3].dst = 'r1': must be left out",
        "body[3].ways = 2: must be 1 for store",
        "body[4].trips = 0: must be an integer from 1",
        "body[4].body[0].latency = 2: unknown key",
        "body[5].trips = [3, 1]: must be an integer from 1",
        "body[5].body = []: must have at least 1 item",
        "body[6].probability = 2.0: must be a number from 0 to 1",
        "body[7].probability, warps, diverges = None, None, False: exactly one of the three must be given",
        "body[8].then = 3: must be a list",
        'body[9] = {"colour": "red"}: must be a table with op',
        "body[10] = 3: must be a table with op",
        'name = "": must be text that is not empty',
        'colour = "red": unknown key',
        "registers_per_thread = 0: must be an integer from 1 to 255",
    ):
        assert any(line.startswith(start) for line in found), start
    assert len(found) == 20


def test_a_list_of_too_many_statements_is_refused_before_they_are_looked_at():
    many = [{"op": "alu"}] * 20_000_000
    for body, place in ((many, "body"), ([{"trips": 2, "body": many}], "body[0].body")):
        with pytest.raises(ValueError) as caught:
            kernels.Kernel(name="long", body=body)
        assert str(caught.value).startswith(f'{place} = [{{"op": "alu"}}, {{"op"')
        assert str(caught.value).endswith("must have at most 131072 items, not 20000000")


def test_a_list_has_no_more_statements_than_the_engine_takes_lines():
    assert MAX_STATEMENTS == MOST_STEPS


def test_errors_of_the_program_as_a_whole(write):
    found = errors(write('name = "x"\nbody = [{op = "alu", src = ["r9"]}, {op = "exit"}]'))
    assert [line.split(":")[0] for line in found] == ['body[1].op = "exit"', "body[0].src = 'r9'"]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", ["name is missing: must be text", "body is missing: must be a list"]),
        ('builder = "mox"', ['builder = "mox": must be one of mix, chain']),
        ('builder = "mix"\nname = "x"', ['name = "x": unknown key; allowed here: builder, arguments']),
        ('builder = "mix"\narguments = 3', ["arguments = 3: must be a table"]),
        ('builder = "mix"', ["arguments.alpha is missing"]),
        (
            'builder = "mix"\n[arguments]\nbeta = 3\ngamma = 4',
            ["arguments.beta = 3: unknown argument; mix takes alpha", "arguments.gamma = 4"],
        ),
        (
            'builder = "mix"\n[arguments]\nalpha = -1\nways = 40',
            ["arguments.alpha = -1: must be a number from 0", "arguments.ways = 40: must be an integer from 1 to 32"],
        ),
        ("builder =", ["not a TOML file"]),
    ],
)
def test_errors_of_a_file(write, text, starts):
    found = errors(write(text))
    assert len(found) == len(starts)
    for line, start in zip(found, starts, strict=True):
        assert line.startswith(start)


def test_a_file_may_leave_an_argument_to_the_caller(write):
    path = write('builder = "mix"\n[arguments]\nother = "sfu"')
    assert load_kernel(path, alpha=2) == mix(2, "sfu")
    assert "alpha" not in kernel_arguments(path)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"beta = 3: unknown; kernel 'mix' takes alpha, other"):
        load_kernel("mix", beta=3)
    with pytest.raises(ValueError, match=r"alpha = 1: unknown; kernel 'vector_add' takes no arguments"):
        load_kernel("vector_add", alpha=1)
    with pytest.raises(ValueError, match="alpha = -1"):
        load_kernel("mix", alpha=-1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"args": 5}, "args = 5: must be a mapping, or text: KEY=VALUE"),
        ({"trips": True}, "trips = True: must be a mapping, or text: KEY=VALUE"),
        ({"function": 5, "listing": 7}, "listing = 7: must be a text\nfunction = 5: must be a text"),
        ({"args": "text"}, "args = 'text': must be KEY=VALUE"),
    ],
)
def test_wrong_types_of_a_listing_are_named(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        load_kernel("cuda/saxpy", **arguments)


def test_a_kernel_of_machine_code_is_imported_once(tmp_path):
    """The import of cuda/softmax takes two seconds, too long for a loop that names it."""
    module = import_module("warpsim.kernels.machine_code")  # the package has the function under this name
    module._imported.cache_clear()
    first = load_kernel("cuda/saxpy", grid=64)
    assert load_kernel("cuda/saxpy", grid=64).body is first.body
    assert load_kernel("cuda/saxpy", grid=65).body is not first.body
    assert load_kernel("cuda/saxpy", grid=64, title="mine").title == "mine"

    listing = shutil.copyfile(params_dir() / "kernels/cuda/vector.sm_80.sass", tmp_path / "own.sass")
    own = kernels.machine_code(str(listing), "saxpy", grid=64, args={"n": 2048})
    assert kernels.machine_code(str(listing), "saxpy", grid=64, args={"n": 2048}).body is own.body
    listing.write_text(listing.read_text().replace(" FFMA ", " MUFU.EX2 "))
    assert kernels.machine_code(str(listing), "saxpy", grid=64, args={"n": 2048}) != own


def test_unknown_kernels_are_named():
    with pytest.raises(ValueError, match=r"'mox' is unknown, did you mean 'mix'\?"):
        load_kernel("mox")
    with pytest.raises(ValueError, match=r"there is no file /nowhere/own\.toml"):
        load_kernel("/nowhere/own.toml")
    with pytest.raises(TypeError, match="3 is not a name or a path"):
        load_kernel(3)
