"""Flat programs: their steps, and the equivalence of flat and nested execution."""

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import examples
from warpsim.kernels import Conditional, Instruction, Kernel, Loop
from warpsim.kernels.steps import Step, flatten


def add(name):
    return Instruction("alu", dst=name)


def kernel(*body):
    return Kernel(name="test", inputs=("a", "b", "p"), body=body)


def kinds(program):
    return [step.kind for step in program.steps]


def test_registers_are_numbered_by_first_use_and_inputs_are_not_written():
    program = flatten(kernel(Instruction("alu", dst="c", src=["b", "b"]), Instruction("store", src=["c"])))
    assert program.registers == ("b", "c")
    assert program.written == {1}
    assert program.steps[0].src == (0,)
    assert program.steps[0].dst == 1
    assert program.steps[1].src == (1,)
    assert program.steps[1].dst == -1


def test_every_program_ends_with_exit():
    assert flatten(kernel()).steps == (Step("issue", Instruction("exit")),)


def test_a_loop_ends_with_a_jump_to_its_first_step():
    program = flatten(
        kernel(Loop(body=[Loop(body=[add("x")], trips=2)], trips=(1, 5)), Loop(body=[add("x")], trips=None))
    )
    assert kinds(program) == [
        *("loop_begin", "loop_begin", "issue", "loop_end", "loop_end"),
        *("loop_begin", "issue", "loop_end", "issue"),
    ]
    outer, inner = program.steps[0], program.steps[1]
    assert (outer.loop, outer.trips, outer.draws) == (0, (1, 5), True)
    assert (inner.loop, inner.trips, inner.draws) == (1, (2, 2), False)
    assert [program.steps[i].target for i in (3, 4, 7)] == [2, 1, 6]
    assert program.steps[7].trips == (-1, -1)
    assert program.loops == 3


def test_a_conditional_with_two_sides():
    program = flatten(
        kernel(Conditional(then=[add("x")], orelse=[add("y")], probability=0.25, src=["p"]), add("z"))
    )
    assert kinds(program) == ["branch", "issue", "jump", "issue", "issue", "issue"]
    branch, jump = program.steps[0], program.steps[2]
    assert branch.instruction == Instruction("branch", src=["p"])
    assert (branch.src, branch.target, branch.probability, branch.draws) == ((0,), 3, 0.25, True)
    assert jump.target == 4


def test_a_conditional_with_one_side():
    program = flatten(kernel(Conditional(then=[add("x")], warps=[0, 3]), add("z")))
    assert kinds(program) == ["branch", "issue", "issue", "issue"]
    assert (program.steps[0].target, program.steps[0].warps, program.steps[0].draws) == (2, (0, 3), False)


def test_a_diverging_conditional_executes_both_sides_in_line():
    program = flatten(kernel(Conditional(then=[add("x")], orelse=[add("y")], diverges=True)))
    assert kinds(program) == ["branch", "issue", "issue", "issue"]
    assert (program.steps[0].probability, program.steps[0].draws) == (1.0, False)


def test_a_branch_with_probability_1_still_draws():
    steps = flatten(kernel(Conditional(then=[add("x")], probability=1.0))).steps
    assert (steps[0].probability, steps[0].draws) == (1.0, True)


class _Chance:
    """Makes the random draws of warp `index` of its block, in order."""

    def __init__(self, seed, index):
        self.uniform, self.index = random.Random(seed).random, index

    def trips(self, low, high):
        return low if low == high else low + int(self.uniform() * (high - low + 1))

    def takes(self, probability, warps):
        return self.index in warps if warps is not None else self.uniform() < probability


def nested_issues(statements, chance):
    """Yields (op, dst) of the instructions that a warp issues in the nested form, up to "exit"."""
    for statement in statements:
        if isinstance(statement, Instruction):
            yield (statement.op, statement.dst)
            if statement.op == "exit":
                return True
        elif isinstance(statement, Loop):
            for _ in range(chance.trips(*statement.trip_range)):
                if (yield from nested_issues(statement.body, chance)):
                    return True
        else:
            yield ("branch", None)
            first = statement.diverges or chance.takes(statement.probability, statement.warps)
            for side, runs in ((statement.then, first), (statement.orelse, statement.diverges or not first)):
                if runs and (yield from nested_issues(side, chance)):
                    return True
    return False


def flat_issues(program, chance):
    """Yields (op, dst) of the instructions that a warp issues in the flat form, up to "exit"."""
    at, counters = 0, [0] * program.loops
    while True:
        step, at = program.steps[at], at + 1
        if step.kind == "issue":
            yield (step.instruction.op, program.registers[step.dst] if step.dst >= 0 else None)
            if step.instruction.op == "exit":
                return
        elif step.kind == "branch":
            yield ("branch", None)
            certain = not step.draws and step.warps is None
            if not (certain or chance.takes(step.probability, step.warps)):
                at = step.target
        elif step.kind == "loop_begin":
            counters[step.loop] = chance.trips(*step.trips)
        elif step.kind == "loop_end":
            counters[step.loop] -= 1
            at = step.target if counters[step.loop] else at
        else:
            at = step.target


instructions = st.integers(0, 99).map(lambda k: add(f"r{k}"))
exits = st.booleans().map(lambda leave: [Instruction("exit")] if leave else [])


def loops(body):
    trips = st.integers(1, 3) | st.tuples(st.integers(1, 2), st.integers(2, 4))
    return st.builds(lambda b, t: Loop(body=b, trips=t), st.lists(body, min_size=1, max_size=3), trips)


def conditionals(body):
    rule = st.one_of(
        st.sampled_from([0.0, 0.3, 1.0]).map(lambda p: {"probability": p}),
        st.just({"warps": (1,)}),
        st.just({"diverges": True}),
    )

    def make(then, orelse, rule, leave):
        if rule.get("diverges"):
            leave = []
        return Conditional(then=[*then, *leave], orelse=orelse, **rule)

    return st.builds(make, st.lists(body, min_size=1, max_size=3), st.lists(body, max_size=3), rule, exits)


statements = st.recursive(instructions, lambda body: loops(body) | conditionals(body), max_leaves=12)


def leaves_while_diverged(statement, diverged=False):
    """Whether there is an exit inside a divergent conditional, which is not allowed."""
    if isinstance(statement, Instruction):
        return diverged and statement.op == "exit"
    if isinstance(statement, Loop):
        return any(leaves_while_diverged(s, diverged) for s in statement.body)
    below = diverged or statement.diverges
    return any(leaves_while_diverged(s, below) for s in (*statement.then, *statement.orelse))


@examples(100)
@given(
    body=st.lists(statements.filter(lambda s: not leaves_while_diverged(s)), max_size=4),
    seed=st.integers(0, 2**32),
    index=st.integers(0, 1),
)
def test_the_flat_form_executes_the_same_instructions_as_the_nested_form(body, seed, index):
    program = kernel(*body)
    expected = list(nested_issues((*program.body, Instruction("exit")), _Chance(seed, index)))
    assert list(flat_issues(flatten(program), _Chance(seed, index))) == expected
