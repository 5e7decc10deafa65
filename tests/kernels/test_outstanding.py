"""Which loads may be under way when a warp issues an access."""

import random

import pytest

from warpsim.kernels import Access, Conditional, Hints, Instruction, Kernel, Loop
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
    what, number = outcome(*body)
    return [{number[one]: times for one, times in what.loads[access].items()} for access in number]


def outcome(*body):
    """What may be under way in a program, and its accesses, numbered in order."""
    kernel = Kernel(name="k", registers_per_thread=16, inputs=("x", *"abcd"), body=body)
    accesses = [n for n, step in enumerate(flatten(kernel).steps) if step.instruction and step.instruction.op in ACCESS_KINDS]
    return outstanding(kernel), {step: place for place, step in enumerate(accesses)}


def test_a_load_is_under_way_until_an_instruction_names_its_register():
    assert found(load("a"), STORE, add("b", "a"), STORE) == [{}, {0: 1}, {}]
    assert found(load("a"), load("b"), add("b", "x"), STORE) == [{}, {0: 1}, {0: 1}]  # to overwrite is to wait, too
    assert found(load("a"), load("a"), STORE) == [{}, {}, {1: 1}]


def test_in_a_loop_the_latest_execution_alone_can_be_under_way():
    assert found(Loop(body=(load("a"), STORE, add("b", "a")), trips=8)) == [{}, {0: 1}]
    assert found(Loop(body=(load("a"), STORE), trips=8), STORE) == [{}, {0: 1}, {0: 1}]
    pipelined = Loop(body=(add("b", "a"), load("a"), STORE), trips="endless")
    assert found(load("a"), pipelined) == [{}, {}, {1: 1}]


def test_where_ways_meet_a_load_of_one_of_them_may_be_under_way():
    either = Conditional(then=(load("a"),), orelse=(load("b"), add("c", "b")), probability=0.5)
    assert found(either, STORE) == [{}, {}, {0: 1}]
    read = Conditional(then=(add("c", "a"),), probability=0.5)
    assert found(load("a"), read, STORE) == [{}, {0: 1}]


def test_branches_wait_for_what_they_read():
    assert found(load("a"), Conditional(then=(STORE,), src=("a",), probability=0.5), STORE) == [{}, {}, {}]


def test_sides_that_are_certain_are_not_passed_by():
    both = Conditional(then=(add("b", "a"),), orelse=(STORE,), diverges=True)
    assert found(load("a"), both, STORE) == [{}, {}, {}]
    once = Loop(body=(STORE, load("a")), trips=1)
    assert found(once, STORE) == [{}, {}, {1: 1}]


def test_loads_that_nobody_reads_are_told_apart():
    what, number = outcome(load(), STORE, load("a"))
    assert {number[one] for one in what.unread} == {0}
    assert all(not loads for loads in what.loads.values())


def test_counters_count_loads_whatever_their_registers():
    counted, other = load("a", hints=Hints(write=0)), load("b", hints=Hints(write=0))
    test = Instruction("alu", dst="t", hints=Hints(waits=(0,), at_most=2))
    what, number = outcome(Loop(body=(counted, other, test, STORE), trips=9))
    assert {number[one]: counter for one, counter in what.counted.items()} == {0: 0, 1: 0}
    assert [what.counters[access] for access in number] == [{0: 2}, {0: 3}, {0: 2}]
    what, number = outcome(Loop(body=(counted, STORE), trips=99))
    assert [what.counters[access] for access in number] == [{0: MOST_OUTSTANDING}, {0: MOST_OUTSTANDING}]


def test_a_register_that_is_overwritten_without_waiting_tells_nothing_of_a_load():
    hinted = Instruction("alu", dst="a", hints=Hints())
    assert found(load("a"), hinted, add("b", "a"), STORE) == [{}, {0: MOST_OUTSTANDING}]
    again = load("a", hints=Hints())
    assert found(Loop(body=(again, STORE), trips=9)) == [{0: MOST_OUTSTANDING}, {0: MOST_OUTSTANDING}]
    assert found(again, add("b", "a"), STORE) == [{}, {}]


def test_loads_beyond_what_echoes_look_back_are_left_out():
    many = [load(f"r{n}") for n in range(100)]
    at = found(*many, STORE)
    assert at[-1] == {n: 1 for n in range(100 - MOST_OUTSTANDING, 100)}
    cached = [load(f"r{n}", access=Access(l1_hit=0.5)) for n in range(30)]
    assert found(*cached, STORE)[-1] == {n: 1 for n in range(30)}  # they may not have left the SM


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


@pytest.mark.parametrize("seed", range(80))
def test_what_is_under_way_on_any_way_is_outstanding(seed):
    """Loads that never return by themselves, but in any order to counters: what nobody has waited for may be left."""
    rng = random.Random(seed)
    kernel = Kernel(name="k", registers_per_thread=16, inputs=("x", *"abcd"), body=random_body(rng))
    steps, what = flatten(kernel).steps, outstanding(kernel)
    for _ in range(60):
        under_way, writer, count = [], {}, 0  # (number of the access, load), the oldest first; register -> its latest writer
        for number in walked(steps, rng):
            step = steps[number]
            hints = None if step.instruction is None else step.instruction.hints
            if hints is None and step.instruction is not None:
                awaited = {writer.get(register) for register in (*step.src, step.dst)}
                under_way = [one for one in under_way if one not in awaited]
            for counter in () if hints is None else hints.waits:
                counted = [one for one in under_way if what.counted.get(one[1]) == counter]
                rng.shuffle(counted)  # they return in any order
                back = counted[hints.at_most :]
                under_way = [one for one in under_way if one not in back]
            if step.instruction is not None and step.instruction.op in ACCESS_KINDS:
                check(what, number, under_way, count)
                count += 1
            if step.dst >= 0:
                writer[step.dst] = count, number
            if step.instruction is not None and step.instruction.op == "load":
                under_way.append((count, number))


def check(what, number, under_way, now):
    for counter in set(what.counted.values()):
        counted = sum(what.counted.get(one) == counter for _, one in under_way)
        assert min(counted, MOST_OUTSTANDING) <= what.counters[number].get(counter, 0)
    for count, one in under_way:
        if one in what.counted or one in what.unread:
            continue
        later = sum(other == one and other_count > count for other_count, other in under_way)
        assert later < what.loads[number].get(one, 0) or now - count >= MOST_OUTSTANDING
