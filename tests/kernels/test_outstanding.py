"""Which loads may be under way when a warp issues an access."""

import random

import pytest

from warpsim.kernels import Conditional, Hints, Instruction, Kernel, Loop
from warpsim.kernels.outstanding import MOST_OUTSTANDING, outstanding
from warpsim.kernels.steps import flatten
from warpsim.units import ACCESS_KINDS


def load(dst=None, src=(), **fields):
    return Instruction("load", dst=dst, src=src, **fields)


def add(dst, *src):
    return Instruction("alu", dst=dst, src=src)


STORE = Instruction("store", src=("x",))


def found(*body):
    """For each access of a program, in order, the loads that may be under way, named by their number among the accesses."""
    kernel = Kernel(name="k", registers_per_thread=16, inputs=("x",), body=body)
    accesses = [n for n, step in enumerate(flatten(kernel).steps) if step.instruction and step.instruction.op in ACCESS_KINDS]
    number = {step: place for place, step in enumerate(accesses)}
    what = outstanding(kernel)
    at = [{number[one]: times for one, times in what.at.get(access, {}).items()} for access in accesses]
    return at, {number[one] for one in what.unread}


def test_a_load_is_under_way_until_an_instruction_names_its_register():
    assert found(load("a"), STORE, add("b", "a"), STORE) == ([{}, {0: 1}, {}], set())
    assert found(load("a"), load("b"), add("b", "x"), STORE) == ([{}, {0: 1}, {0: 1}], set())  # to overwrite is to wait, too
    assert found(load("a"), load("a"), STORE) == ([{}, {}, {1: 1}], set())


def test_in_a_loop_the_latest_execution_alone_can_be_under_way():
    assert found(Loop(body=(load("a"), STORE, add("b", "a")), trips=8)) == ([{}, {0: 1}], set())
    assert found(Loop(body=(load("a"), STORE), trips=8), STORE) == ([{}, {0: 1}, {0: 1}], set())
    pipelined = Loop(body=(add("b", "a"), load("a"), STORE), trips="endless")
    assert found(load("a"), pipelined) == ([{}, {}, {1: 1}], set())


def test_where_ways_meet_a_load_of_one_of_them_may_be_under_way():
    either = Conditional(then=(load("a"),), orelse=(load("b"), add("c", "b")), probability=0.5)
    assert found(either, STORE) == ([{}, {}, {0: 1}], set())
    read = Conditional(then=(add("c", "a"),), probability=0.5)
    assert found(load("a"), read, STORE) == ([{}, {0: 1}], set())


def test_branches_wait_for_what_they_read():
    assert found(load("a"), Conditional(then=(STORE,), src=("a",), probability=0.5), STORE) == ([{}, {}, {}], set())


def test_loads_that_nobody_reads_are_told_apart():
    assert found(load(), STORE, load("a")) == ([{}, {}, {}], {0})


def test_hints_wait_for_counters_and_not_for_registers():
    counted = load("a", hints=Hints(write=0))
    test = Instruction("alu", dst="t", hints=Hints(waits=(0,), at_most=2))
    assert found(Loop(body=(counted, test, STORE), trips=9)) == ([{0: 2}, {0: 2}], set())
    assert found(Loop(body=(counted, STORE), trips=99)) == ([{0: MOST_OUTSTANDING}, {0: MOST_OUTSTANDING}], set())
    other = Instruction("alu", dst="t", hints=Hints(waits=(1,)))
    assert found(counted, other, STORE) == ([{}, {0: 1}], set())
    assert found(counted, add("b", "a"), STORE) == ([{}, {}], set())


def walked(steps, rng, most=400):
    """Yields the steps of a random way through a program."""
    number, left = 0, {}
    for _ in range(most):
        step = steps[number]
        yield number
        if step.instruction is not None and step.instruction.op == "exit":
            return
        number += 1
        if step.kind == "loop_begin":
            left[step.loop] = rng.randint(1, 4)
        elif step.kind == "loop_end":
            left[step.loop] -= 1
            number = step.target if left[step.loop] > 0 else number
        elif step.kind == "jump" or (step.kind == "branch" and rng.random() < 0.5):
            number = step.target


def random_body(rng, depth=0):
    registers = "abcd"
    body = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice(["load", "load", "store", "add", "add", "hinted", "test"] + ["loop", "if"] * (depth < 2))
        names = rng.sample(registers, 2)
        if kind == "load":
            body.append(load(rng.choice([None, names[0], names[0]]), (names[1],)))
        elif kind == "store":
            body.append(Instruction("store", src=(names[0],)))
        elif kind == "add":
            body.append(add(*names))
        elif kind == "hinted":
            body.append(load(names[0], hints=Hints(write=rng.randint(0, 1))))
        elif kind == "test":
            hints = Hints(waits=(rng.randint(0, 1),), at_most=rng.choice([0, 0, 1, 3]))
            body.append(Instruction("alu", dst=names[0], hints=hints))
        elif kind == "loop":
            body.append(Loop(body=random_body(rng, depth + 1), trips=(1, 4)))
        else:
            body.append(Conditional(then=random_body(rng, depth + 1), orelse=random_body(rng, depth + 1), probability=0.5))
    return tuple(body)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_under_way_on_any_way_is_outstanding(seed):
    """Loads that never return by themselves: what the instructions of random ways have not waited for is under way."""
    rng = random.Random(seed)
    kernel = Kernel(name="k", registers_per_thread=16, inputs=("x", *"abcd"), body=random_body(rng))
    steps, what = flatten(kernel).steps, outstanding(kernel)
    for _ in range(60):
        under_way = []  # (load, counter), the oldest first
        for number in walked(steps, rng):
            step = steps[number]
            hints = None if step.instruction is None else step.instruction.hints
            if hints is None and step.instruction is not None:
                named = {*step.src, step.dst} - {-1}
                under_way = [(one, counter) for one, counter in under_way if steps[one].dst not in named]
            for counter in () if hints is None else hints.waits:
                counted = [entry for entry in under_way if entry[1] == counter]
                for entry in counted[: max(0, len(counted) - hints.at_most)]:
                    under_way.remove(entry)
            if step.instruction is None or step.instruction.op not in ACCESS_KINDS:
                continue
            for one in {one for one, _ in under_way}:
                times = min(MOST_OUTSTANDING, sum(other == one for other, _ in under_way))
                assert one in what.unread or times <= what.at[number].get(one, 0)
            if step.instruction.op == "load":
                under_way.append((number, None if hints is None else hints.write))
