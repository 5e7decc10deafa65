"""Machine instructions become instructions of a kernel, block by block of the flow.

Each instruction keeps its own costs: the stall count is its gap, and a writer of a counter has a register of its own, which those
that wait for the counter read. Accesses are those of the sampled warps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from warpsim.frontends.accesses.patterns import ways_of_pattern
from warpsim.frontends.accesses.tally import Tally
from warpsim.frontends.caches.walk import Hits
from warpsim.frontends.execution.evaluation import Counts
from warpsim.frontends.launch.keys import Key
from warpsim.frontends.launch.tiles import Tile
from warpsim.frontends.machine_code.flow import Flow, Place
from warpsim.frontends.machine_code.flow import place as _place
from warpsim.frontends.machine_code.memory_instructions import space_of
from warpsim.frontends.machine_code.opcode_costs import gap_after, mean_passes, unit_costs
from warpsim.frontends.machine_code.opcodes import ASSUMED_SLEEP_NS, MATRIX_OPS, matrix_work, notes_of_unlisted, opcodes, sleep_ns
from warpsim.frontends.machine_code.operands import conditions, register_slots
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.program.access_fields import AccessFields
from warpsim.frontends.program.conditions import under, without_barriers
from warpsim.frontends.program.sampled import Sampled
from warpsim.frontends.waits.async_copies import CopyLog, barrier_address, bulk_of, is_peek, is_phase_test, role_of
from warpsim.frontends.waits.dependences import Waits, has_control_fields, is_group_product, products_left
from warpsim.frontends.waits.handovers import Handover
from warpsim.frontends.waits.sequence import in_order
from warpsim.hardware import files as params
from warpsim.hardware.architectures import list_architectures, newest_up_to
from warpsim.kernels.instruction import MOST_COUNTED, OPS_WITHOUT_RESULT, Access, Cost, Hints, Instruction
from warpsim.kernels.statements import Statement
from warpsim.units import ACCESSING_OPS, OPS

_COPIES, _PRODUCTS = 0, 1
"""Dependence counters that count asynchronous copies, where it is known how many are under way at the waits for them, and matrix
products of warp groups, where some wait leaves some under way."""

_ADDRESSING_OPS = (*ACCESSING_OPS, "constant")
"""Operation classes that read or write at addresses."""


@cache
def classes_of(arch: int) -> dict[str, Any]:
    """Returns the operation classes of an architecture's chips; those that every chip has where it is not described."""
    nearest = newest_up_to(arch, list_architectures())
    if nearest is None:
        return {name: {} for name in OPS}
    return dict(params.read_toml(params.resolve("architectures", nearest)).get("ops", {}))


class Emitter:
    """Makes the instructions of blocks.

    Args:
        flow: whose blocks they are.
        waits: instruction -> instructions for which it waits.
        accesses: what the accesses look like.
        patterns: what the caller states of them.
        hits: how often they hit.
        sampled: which warps make them; None: all that issue them.
        handovers: what instructions do at mbarriers of the kernel.
    """

    def __init__(
        self,
        flow: Flow,
        waits: Waits,
        accesses: Mapping[Place, Tally],
        patterns: Mapping[Key, str | int | Access | Tile],
        hits: Mapping[Place, Hits],
        sampled: Sampled | None = None,
        handovers: Mapping[Place, Handover] | None = None,
    ) -> None:
        self.flow, self.function, self.waits, self.accesses = flow, flow.function, waits, accesses
        self.table, self.classes = opcodes(), classes_of(self.function.arch)
        self.available = frozenset(self.classes)
        self.sampled = sampled
        self.by_counters = has_control_fields(flow)
        self.copies = CopyLog(0) if sampled is None else sampled.evaluation.copies
        self.handovers = handovers or {}
        self.products = products_left(flow)
        waited = {writer for place in waits for writer in self._writers(place)}
        self.registers = {index: f"v{index}" for index in sorted(waited)}
        self.unlisted: Counter[tuple[str, str]] = Counter()
        self.unshaped: Counter[str] = Counter()
        self.assumed: dict[str, None] = {}
        self.access_fields = AccessFields(flow, self.classes, accesses, patterns, hits, sampled, self.copies, self.assumed)
        self.counts_copies = any(self._left_at(place) is not None for place in self.copies.left if place not in self.handovers)

    def notes(self) -> list[str]:
        """Returns what was assumed of opcodes and addresses."""
        found = notes_of_unlisted(self.unlisted)
        found += [
            f"the shape of {count} matrix instructions {opcode} is not known: taken as that of their class"
            for opcode, count in sorted(self.unshaped.items())
        ]
        found += [*self.assumed, *(() if self.sampled is None else self.sampled.notes)]
        return found + self.access_fields.notes_of_patterns()

    def block(self, number: int, come: Counts) -> list[Statement]:
        """Returns the instructions of a block, to which each warp comes in the program in proportion to `come`."""
        found: list[Statement] = []
        made = in_order(
            [index for index in self.flow.blocks[number].code if self._counts(index)],
            waited=lambda index: self.waited((number, index)),
            hints=lambda index: self._hints(number, index),
            make=lambda index, sources: self.instruction(number, index, sources),
        )
        for index, one in made:
            found.append(self._if_made(number, index, one, come))
            if is_phase_test(self.function.code[index]) and (number, index) not in self.handovers:
                rest = self.function.code[index : self.flow.blocks[number].code.stop]
                found += [] if is_peek(rest) else self._phase(number, index)
        return found

    def _hints(self, number: int, index: int) -> Hints | None:
        """Returns the hints of a copy or a matrix product that is counted, or of a wait for such ones; otherwise None."""
        one = self.function.code[index]
        if (number, index) in self.products:
            return Hints(waits=(_PRODUCTS,), at_most=min(self.products[number, index], MOST_COUNTED - 1))
        if self.products and is_group_product(one):
            return Hints(write=_PRODUCTS)
        role = role_of(one)
        if (number, index) in self.handovers and role == "test":
            return None
        if role in ("wait", "test") and (left := self._left_at((number, index))) is not None:
            return Hints(waits=(_COPIES,), at_most=left)
        is_counted = role == "copy" or (role == "bulk" and barrier_address(one) is not None)
        return Hints(write=_COPIES) if self.counts_copies and is_counted and (number, index) in self.accesses else None

    def _left_at(self, place: Place) -> int | None:
        """Returns how many copies may be under way at a wait for copies; None if that is not known, or more than are counted."""
        left = self.copies.left_at(place)
        if left is None or left < MOST_COUNTED:
            return left
        what = f"more than {MOST_COUNTED} asynchronous copies of a warp are under way: they are not waited for"
        self.assumed[f"{_place(self.flow.function, place[1])}: {what}"] = None
        return None

    def _phase(self, number: int, index: int) -> list[Statement]:
        """Returns the barrier that stands for a barrier in shared memory whose phase is tested."""
        if self.sampled is None or self.sampled.evaluation.block_warps == 1:
            return []
        if self.sampled.evaluation.is_for_all(number):
            return [Instruction("barrier", comment="the next phase of a barrier in shared memory")]
        where = _place(self.function, index)
        what = "some warps wait at a barrier in shared memory here, and others do not: they wait for copies of their own only"
        self.assumed[f"{where}: {what}"] = None
        return []

    def _if_made(self, number: int, index: int, one: Instruction, come: Counts) -> Statement:
        """Returns an instruction, under a condition if it is an access that only some of the warps make.

        An access to shared memory that other warps make each time stands under none, since the last warp counts at a barrier.
        At a barrier that is off for most warps nobody waits; to any other, all are taken to come.
        """
        if self.sampled is not None and one.op == "barrier" and self.function.code[index].guard:
            share = self.sampled.share(number, index)
            if share < 0.5:
                what = f"a barrier stands under a condition, which holds in {share:.2g} of its executions: nobody waits there"
                self.assumed[f"{_place(self.function, index)}: {what}"] = None
                return without_barriers([one])[0]
            if share < 1.0:
                holds = f"a barrier stands under a condition, which holds in {share:.0%} of its executions"
                what = f"{holds}: all warps of a block are taken to come to it each time"
                self.assumed[f"{_place(self.function, index)}: {what}"] = None
        if self.sampled is None or one.op not in ACCESSING_OPS or (number, index) not in self.accesses:
            return one
        rule = self.sampled.condition(number, index, come)
        if rule is not None and one.op == "smem" and (share := rule.pop("probability", None)) is not None:
            one = _made_at_times(one, share)
        return under(rule, [one], [], src=one.src, cost=Cost(gap_cycles=1)) if rule else one

    def waited(self, place: Place) -> tuple[str, ...]:
        """Returns the registers for which an instruction waits."""
        return tuple(self.registers[writer] for writer in self._writers(place))

    def _writers(self, place: Place) -> tuple[int, ...]:
        """Returns the instructions for whose results one waits; no asynchronous copies where it waits for a count of them."""
        code, writers = self.function.code, self.waits.get(place, ())
        role = role_of(code[place[1]])
        if role == "test" or (role == "wait" and place in self.copies.left):
            return tuple(writer for writer in writers if role_of(code[writer]) not in ("copy", "bulk"))
        return writers

    def _counts(self, index: int) -> bool:
        """Whether an instruction is one of the program: an exit that ends it is implied, and padding is never issued."""
        one = self.function.code[index]
        return not (one.base == "EXIT" and not conditions(one))

    def instruction(self, number: int, index: int, sources: tuple[str, ...]) -> Instruction:
        """Returns an instruction of a block, with the registers that it waits for."""
        one = self.function.code[index]
        family, listed = self.table.family(one)
        if self.access_fields.space_of(one, (number, index)) == "shared":
            family = "shared"
        if not listed:
            self.unlisted[one.base, family] += 1
        op = self.table.operation(family, self.available)
        tally = self.accesses.get((number, index))
        if bulk_of(one) is not None and tally is None and self.sampled is None:
            what = f"a trace does not tell what {one.opcode} copies: nothing is taken"
            self.assumed[f"{_place(self.function, index)}: {what}"] = None
        idle = op in _ADDRESSING_OPS and tally is not None and tally.warps == 0
        if idle or (space_of(one) and tally is None):
            # It is predicated off for all threads: it issues, and accesses nothing
            op = self.table.operation("integer", self.available)
        fields: dict[str, Any] = {"src": () if op == "barrier" else sources, "comment": self._comment(one)}
        if (handover := self.handovers.get((number, index))) is not None:
            fields[handover.role] = handover.name
        cost: dict[str, Any] = {}
        if index in self.registers and op not in OPS_WITHOUT_RESULT:
            fields["dst"] = self.registers[index]
        if op == "sleep":
            cost["gap_ns"] = self._sleep(one, index)
        elif self.by_counters and one.control is not None and family != "fence":
            cost["gap_cycles"] = gap_after(one)
        if op in MATRIX_OPS:
            cost |= self._matrix(one)
        cost |= unit_costs(one, self.function.arch, self.classes.get(op, {}).get("interval_cycles", 1))
        if self.by_counters and op not in ACCESSING_OPS:
            fields["reads"] = register_slots(one)
        if space_of(one) == "constant" and op in _ADDRESSING_OPS:
            self.access_fields.add_constants(one, op, tally, fields, cost)
        elif space_of(one) is not None and op in ACCESSING_OPS:
            self.access_fields.add_access(one, (number, index), op, tally, fields, cost)
        return Instruction(op, **fields, cost=_cost(tuple(cost.items())))

    def _matrix(self, one: MachineInstruction) -> dict[str, Any]:
        """Returns what a matrix instruction has to multiply; where that is not known, as much as its class says."""
        work = matrix_work(one)
        if work is not None:
            return {"multiply_adds": work[0], "operands": work[1]}
        if one.base != "WARPGROUP":
            self.unshaped[one.opcode] += 1
        return {}

    def _sleep(self, one: MachineInstruction, index: int) -> int:
        asked = sleep_ns(one)
        if asked is None:
            what = f"how long {one.opcode} sleeps depends on data: taken as {ASSUMED_SLEEP_NS} ns"
            self.assumed[f"{_place(self.function, index)}: {what}"] = None
        return asked or ASSUMED_SLEEP_NS

    def _comment(self, one: MachineInstruction) -> str:
        where = "" if one.line is None else f"{self.function.source or 'line'}:{one.line} "
        return where + one.text.partition("(*")[0].strip()


def _made_at_times(one: Instruction, share: float) -> Instruction:
    """Returns an access to shared memory of which this share is made: all take the pipeline, with the mean number of passes."""
    cost, ways = one.cost or Cost(), one.ways if one.access is None else ways_of_pattern(one.access)
    passes = mean_passes(share * float(cost.passes or ways))
    return one.model_copy(update={"cost": cost.model_copy(update={"passes": passes})})


@lru_cache(maxsize=4096)
def _cost(fields: tuple[tuple[str, Any], ...]) -> Cost | None:
    return Cost(**dict(fields)) if fields else None
