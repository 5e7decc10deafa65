"""Which earlier instructions an instruction waits for.

From Volta on the machine code says so itself: a writer holds one of six counters, and a wait mask names the counters that must
have come to zero; `DEPBAR.LE SBk, n` waits until at most n are left, in order, and `WARPGROUP.DEPBAR.LE gsb0, n` until at most n
groups of matrix products are. Instructions of fixed latency need neither, since the stall counts of those between keep their
consumers away. Before Volta, and where the encodings are not known, every register that is read waits for its last writers.

The writers that may be outstanding at a point are found by data flow over the basic blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from warpsim.frontends.machine_code.flow import Flow
from warpsim.frontends.machine_code.operands import read, written
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.waits.async_copies import barrier_address, counter_and_left, listed_counters, role_of
from warpsim.kernels.instruction import COUNTERS, MOST_COUNTED

Writers = frozenset[int]
"""Indices of instructions."""

Queue = tuple[Writers, ...]
"""Writers that hold a counter, the oldest first; those that came on different paths at the same place stand together."""

Waits = dict[tuple[int, int], tuple[int, ...]]
"""(block, instruction) -> instructions that it waits for, in order."""

_COPIES, _REPORTED, _PRODUCTS, _GROUPS = range(COUNTERS, COUNTERS + 4)
"""Places of the queues of asynchronous copies that no counter holds yet, of those that report to a barrier, of products of a warp
group that are in no group yet, and of groups of these (gsb0)."""


def has_control_fields(flow: Flow) -> bool:
    """Whether every instruction that can be reached has control fields."""
    code = flow.function.code
    return all(code[index].control is not None for block in flow.blocks for index in block.code)


def waits_of(flow: Flow) -> Waits:
    """Returns for each instruction which earlier ones it waits for."""
    return _by_counters(flow) if has_control_fields(flow) else _by_registers(flow)


def products_left(flow: Flow) -> dict[tuple[int, int], int]:
    """Returns for each wait that leaves some groups of matrix products under way how many products these have.

    Its keys are (block, instruction). A register cannot tell the products of a loop's trip from those of the trip before, so that
    they have to be counted.
    """
    code = flow.function.code
    if not has_control_fields(flow) or not any(_is_product_wait(one) and counter_and_left(one)[1] for one in code):
        return {}
    left: dict[tuple[int, int], int] = {}
    _by_counters(flow, left)
    return left


def is_group_product(one: MachineInstruction) -> bool:
    """Returns whether an instruction is a matrix product of a warp group, such as HGMMA."""
    return one.base.endswith("GMMA")


def _is_product_wait(one: MachineInstruction) -> bool:
    return one.opcode.startswith("WARPGROUP.DEPBAR")


_State = TypeVar("_State")


def _solve(
    flow: Flow, start: _State, transfer: Callable[[int, _State, Waits | None], _State], join: Callable[[_State, _State], _State]
) -> Waits:
    """Repeats a forward data flow until nothing changes, then collects what each instruction waits for."""
    entry: dict[int, _State] = {0: start}
    todo = [0]
    while todo:
        block = min(todo)
        todo.remove(block)
        after = transfer(block, entry[block], None)
        for target in flow.blocks[block].successors:
            joined = join(entry[target], after) if target in entry else after
            if target not in entry or joined != entry[target]:
                entry[target] = joined
                if target not in todo:
                    todo.append(target)
    waits: Waits = {}
    for block, state in sorted(entry.items()):
        transfer(block, state, waits)
    return waits


def _by_counters(flow: Flow, left: dict[tuple[int, int], int] | None = None) -> Waits:
    """Returns the waits by counters; `left` is filled as `products_left` returns it."""
    code = flow.function.code

    def transfer(block: int, state: tuple[Queue, ...], waits: Waits | None) -> tuple[Queue, ...]:
        queues = list(state)
        for index in flow.blocks[block].code:
            one = code[index]
            control = one.control
            assert control is not None
            waited: set[int] = set()
            if control.wait:
                for counter in range(COUNTERS):
                    if control.wait >> counter & 1:
                        waited.update(*queues[counter])
                        queues[counter] = ()
            if one.base == "DEPBAR" or _is_product_wait(one):
                waited |= _partial_wait(one, queues)
            if waits is not None and left is not None and _is_product_wait(one) and queues[_GROUPS]:
                left[block, index] = sum(_products_in(group, code) for group in queues[_GROUPS])
            role = role_of(one)
            if role == "test":
                waited.update(*queues[_REPORTED])
            if waits is not None and waited:
                waits[block, index] = tuple(sorted(waited))
            if role == "copy":
                queues[_COPIES] = (frozenset().union(*queues[_COPIES], {index}),)
            elif role == "report":
                queues[_REPORTED] = (frozenset().union(*queues[_REPORTED], *queues[_COPIES]),)
            elif role == "bulk" and barrier_address(one) is not None:
                queues[_REPORTED] = (frozenset().union(*queues[_REPORTED], {index}),)
            elif is_group_product(one):
                queues[_PRODUCTS] = (frozenset().union(*queues[_PRODUCTS], {index}),)
                if "gsb0" in one.operands:
                    queues[_GROUPS] = _shortened((*queues[_GROUPS], *queues[_PRODUCTS]))
                    queues[_PRODUCTS] = ()
            if control.write is not None:
                group = frozenset({index})
                if one.base in ("LDGDEPBAR", "ARRIVES"):  # holds the counter until the copies so far have arrived
                    group, queues[_COPIES] = frozenset().union(*queues[_COPIES]), ()
                queues[control.write] = _shortened((*queues[control.write], group))
        return tuple(queues)

    def join(a: tuple[Queue, ...], b: tuple[Queue, ...]) -> tuple[Queue, ...]:
        return tuple(_joined(x, y) for x, y in zip(a, b, strict=True))

    start: tuple[Queue, ...] = ((),) * (_GROUPS + 1)
    return _solve(flow, start, transfer, join)


def _products_in(group: Writers, code: Sequence[MachineInstruction]) -> int:
    """Returns how many products a group has; where several groups stand together, how many they have in the mean, rounded up."""
    groups = sum("gsb0" in code[index].operands for index in group)
    return -(-len(group) // groups)


def _partial_wait(one: MachineInstruction, queues: list[Queue]) -> set[int]:
    """Returns the writers that a DEPBAR waits for, and takes them off their queue.

    A writer that is also among those that may be left, as the same copy of a later trip of a loop is, is not waited for: a
    register has one last writer only.
    """
    counter, left = counter_and_left(one)
    if one.base == "WARPGROUP":
        counter = _GROUPS
    waited: set[int] = set()
    for number in listed_counters(one):  # all that these count
        waited.update(*queues[number])
        queues[number] = ()
    if counter < 0:
        return waited
    queue = queues[counter]
    rest = queue[len(queue) - left :] if left else ()
    queues[counter] = rest
    return waited | (set().union(*queue[: len(queue) - len(rest)]) - set().union(*rest))


def _shortened(queue: Queue) -> Queue:
    if len(queue) <= MOST_COUNTED:
        return queue
    return (queue[0] | queue[1], *queue[2:])


def _joined(a: Queue, b: Queue) -> Queue:
    """Returns two queues as one: the youngest of both stand together, and so on."""
    if a == b:
        return a
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    offset = len(longer) - len(shorter)
    return (*longer[:offset], *(x | y for x, y in zip(longer[offset:], shorter, strict=True)))


def _by_registers(flow: Flow) -> Waits:
    code = flow.function.code

    def transfer(block: int, state: dict[str, Writers], waits: Waits | None) -> dict[str, Writers]:
        last = dict(state)
        for index in flow.blocks[block].code:
            one = code[index]
            results = written(one)
            if waits is not None:
                needs = {writer for name in (*read(one), *results) for writer in last.get(name, ())}
                if needs:
                    waits[block, index] = tuple(sorted(needs))
            for name in results:
                old = last.get(name, frozenset()) if one.guard else frozenset[int]()
                last[name] = old | {index}
        return last

    def join(a: dict[str, Writers], b: dict[str, Writers]) -> dict[str, Writers]:
        return {name: a.get(name, frozenset()) | b.get(name, frozenset()) for name in a.keys() | b.keys()}

    start: dict[str, Writers] = {}
    return _solve(flow, start, transfer, join)
