"""Machine instructions become instructions of a kernel, block by block of the flow.

Each instruction keeps its own costs: the stall count is its gap, and a writer of a counter has a register of its own, which those
that wait for the counter read. Accesses are those of the sampled warps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from warpsim.frontends.accesses.patterns import (
    as_access,
    conflict_degree,
    matrix_rows,
    passes_in_l1,
    random_conflict,
    ways_of,
    ways_of_pattern,
)
from warpsim.frontends.accesses.store_runs import store_runs
from warpsim.frontends.accesses.tally import Tally
from warpsim.frontends.caches.walk import Hits
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.execution.evaluation import Counts
from warpsim.frontends.launch.keys import Key, keys_of
from warpsim.frontends.launch.tiles import Tile
from warpsim.frontends.machine_code.flow import Flow, Place
from warpsim.frontends.machine_code.flow import place as _place
from warpsim.frontends.machine_code.memory_instructions import Width, bytes_per_thread, is_widest, space_of
from warpsim.frontends.machine_code.opcode_costs import (
    FLOAT_UPDATE_CYCLES,
    gap_after,
    in_quarters,
    is_sum_of_floats,
    unit_costs,
)
from warpsim.frontends.machine_code.opcodes import ASSUMED_SLEEP_NS, MATRIX_OPS, matrix_work, notes_of_unlisted, opcodes, sleep_ns
from warpsim.frontends.machine_code.operands import conditions, register_slots
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.program.conditions import under, without_barriers
from warpsim.frontends.program.sampled import SPREAD, Sampled
from warpsim.frontends.waits.async_copies import CopyLog, barrier_address, bulk_of, is_peek, is_phase_test, role_of
from warpsim.frontends.waits.dependences import Waits, has_control_fields, is_group_product, products_left
from warpsim.frontends.waits.handovers import Handover
from warpsim.frontends.waits.sequence import in_order
from warpsim.hardware import files as params
from warpsim.hardware.architectures import list_architectures, newest_up_to
from warpsim.kernels.access import port_sectors
from warpsim.kernels.costs import BULK_INTERVAL
from warpsim.kernels.instruction import MAX_REQUESTS, MOST_COUNTED, OPS_WITHOUT_RESULT, Access, Cost, Hints, Instruction
from warpsim.kernels.statements import Statement
from warpsim.units import ACCESSING_OPS, ATOMIC_OPS, LINE_BYTES, OPS, SECTOR_BYTES, WARP_LANES

_COPIES, _PRODUCTS = 0, 1
"""Dependence counters that count asynchronous copies, where it is known how many are under way at the waits for them, and matrix
products of warp groups, where some wait leaves some under way."""

_NOT_WALKED = {"load": Hits(1.0, 0.0, 0.0), "store": Hits(0.0, 1.0, 0.0)}
"""Hits of local memory where the caches are not walked: L1 has what is loaded, and writes what is stored through to L2."""

_IN_L1 = ("load", "store")
"""Operation classes whose lines can pass L1 together. No counters tell that of updates and copies."""

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
        self.patterns = {str(key): value for key, value in patterns.items()}
        self.hits, self.sampled = hits, sampled
        unknown = [place for place, tally in accesses.items() if _is_unknown(tally) and self._distances(place) is None]
        self.lines_with_unknown = {self.function.code[index].line for _, index in unknown}
        self.by_counters = has_control_fields(flow)
        self.copies = CopyLog(0) if sampled is None else sampled.evaluation.copies
        self.handovers = handovers or {}
        self.products = products_left(flow)
        waited = {writer for place in waits for writer in self._writers(place)}
        self.registers = {index: f"v{index}" for index in sorted(waited)}
        self.unlisted: Counter[tuple[str, str]] = Counter()
        self.unshaped: Counter[str] = Counter()
        self.unnamed: dict[str, None] = {}
        self.used: set[str] = set()
        self.unknown: dict[str, None] = {}  # keys of the accesses with unknown addresses
        blocks = flow.blocks if self.by_counters else ()
        self.runs = {index: run for block in blocks for index, run in store_runs(self.function.code, block.code).items()}
        self.counts_copies = any(self._left_at(place) is not None for place in self.copies.left if place not in self.handovers)

    def notes(self) -> list[str]:
        """Returns what was assumed of opcodes and addresses."""
        found = notes_of_unlisted(self.unlisted)
        found += [
            f"the shape of {count} matrix instructions {opcode} is not known: taken as that of their class"
            for opcode, count in sorted(self.unshaped.items())
        ]
        unused = [key for key in self.patterns if key not in self.used]
        found += [*self.unnamed, *(() if self.sampled is None else self.sampled.notes)]
        others = f"; such are at {', '.join(self.unknown)}" if self.unknown else ", and none in the kernel"
        return found + [f"patterns[{key!r}]: no access with unknown addresses is there{others}" for key in unused]

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
        self.unnamed[f"{_place(self.flow.function, place[1])}: {what}"] = None
        return None

    def _phase(self, number: int, index: int) -> list[Statement]:
        """Returns the barrier that stands for a barrier in shared memory whose phase is tested."""
        if self.sampled is None or self.sampled.evaluation.block_warps == 1:
            return []
        if self.sampled.evaluation.is_for_all(number):
            return [Instruction("barrier", comment="the next phase of a barrier in shared memory")]
        where = _place(self.function, index)
        what = "some warps wait at a barrier in shared memory here, and others do not: they wait for copies of their own only"
        self.unnamed[f"{where}: {what}"] = None
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
                self.unnamed[f"{_place(self.function, index)}: {what}"] = None
                return without_barriers([one])[0]
            if share < 1.0:
                holds = f"a barrier stands under a condition, which holds in {share:.0%} of its executions"
                what = f"{holds}: all warps of a block are taken to come to it each time"
                self.unnamed[f"{_place(self.function, index)}: {what}"] = None
        if self.sampled is None or one.op not in ACCESSING_OPS or (number, index) not in self.accesses:
            return one
        rule = self.sampled.condition(number, index, come)
        if rule is not None and one.op == "smem" and rule.keys() == {"probability"}:
            return _made_at_times(one, rule["probability"])
        return one if rule is None else under(rule, [one], [], src=one.src, cost=Cost(gap_cycles=1))

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
        if self._space_of(one, (number, index)) == "shared":
            family = "shared"
        if not listed:
            self.unlisted[one.base, family] += 1
        op = self.table.operation(family, self.available)
        tally = self.accesses.get((number, index))
        if bulk_of(one) is not None and tally is None and self.sampled is None:
            what = f"a trace does not tell what {one.opcode} copies: nothing is taken"
            self.unnamed[f"{_place(self.function, index)}: {what}"] = None
        idle = op in _ADDRESSING_OPS and tally is not None and tally.warps == 0
        if idle or (space_of(one) and tally is None):
            op = self.table.operation(
                "integer", self.available
            )  # predicated off for all threads: it issues, and accesses nothing
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
            self._constants(one, op, tally, fields, cost)
        elif space_of(one) is not None and op in ACCESSING_OPS:
            self._access(one, (number, index), op, tally, fields, cost)
        return Instruction(op, **fields, cost=_cost(tuple(cost.items())))

    def _space_of(self, one: MachineInstruction, place: Place) -> str | None:
        """Returns which memory an instruction of a block accesses, by its opcode, or by its addresses where these are generic."""
        return space_of(one) if self.sampled is None else self.sampled.evaluation.space_of(place, one)

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
            self.unnamed[f"{_place(self.function, index)}: {what}"] = None
        return asked or ASSUMED_SLEEP_NS

    def _comment(self, one: MachineInstruction) -> str:
        where = "" if one.line is None else f"{self.function.source or 'line'}:{one.line} "
        return where + one.text.partition("(*")[0].strip()

    def _access(
        self,
        one: MachineInstruction,
        place: Place,
        op: str,
        tally: Tally | None,
        fields: dict[str, Any],
        cost: dict[str, Any],
    ) -> None:
        if bulk_of(one) is not None:
            self._bulk(one, op, place, fields, cost)
            return
        width = bytes_per_thread(one)
        if is_widest(one) and op != "smem":
            cost["requested_bytes"] = WARP_LANES * SECTOR_BYTES
        elif tally is not None and op != "smem" and tally.threads < (1 - SPREAD) * WARP_LANES * tally.warps:
            cost["requested_bytes"] = max(1, round(width * tally.threads / tally.warps))
        is_local = self._space_of(one, place) == "local"
        hit = self.hits.get(place, _NOT_WALKED.get(op) if is_local else None)
        addresses = None if tally is None or _is_unknown(tally) else tally.pattern()
        if addresses is None:
            self.unknown[str(keys_of(one)[0])] = None
        distances = self._distances(place) if addresses is None else None
        by_line = distances is None or one.line not in self.lines_with_unknown
        named = self._named(one, op, by_line=by_line) if addresses is None else None
        if distances is not None and named is None:
            hits_anywhere = is_local and (op == "store" or hit is None or hit.l1 == 1.0)
            if op != "smem" and not hits_anywhere:  # it matters where they begin
                self._note_unknown_begin(one, "a place of its own on the stack" if is_local else "data of its own")
            tally, addresses = distances, distances.pattern()
        if addresses is None:
            if named is None:
                self._note_unknown(one)
            if isinstance(named, int):
                fields["ways"] = named
            else:
                access = named or Access(bytes_per_thread=width)
                fields["access"] = _with_hits(access, hit, op) if is_local and hit is not None else access
            return
        if one.base in ("LDSM", "STSM"):
            rows = matrix_rows(one, addresses)
            if len(rows) < WARP_LANES:  # a pattern would be of 32 rows
                fields["ways"] = conflict_degree(rows, width)
                return
        elif tally is not None and op == "smem":
            ways = round(ways_of(one, tally))
            if ways != conflict_degree(addresses, width):
                fields["ways"] = ways
                return
        access = as_access(tuple(addresses.tolist()), width)
        if hit is not None and op != "smem":
            access = _with_hits(access, hit, op)
        fields["access"] = access
        if tally is not None and op != "smem" and (known := tally.warps - tally.unknown) > 0:
            asked, lines = tally.sectors / known, tally.lines / known
            sectors = asked if hit is None or hit.sectors <= 0.0 else hit.sectors
            if op in ATOMIC_OPS and tally.updates > 0:
                cost["updates"] = max(1, round(tally.updates / known))
            if op in ATOMIC_OPS and is_sum_of_floats(one.opcode):
                cost["update_intervals"] = FLOAT_UPDATE_CYCLES
            if op in ATOMIC_OPS and self.sampled is not None:
                fields["access"] = access.model_copy(update={"contended_addresses": self.sampled.contended(self.accesses[place])})
            of_pattern = len({address // SECTOR_BYTES for address in addresses.tolist()})
            enters = asked if op == "store" else sectors  # L2 takes in all that is stored, also what it writes to memory once
            if max(abs(sectors - of_pattern), abs(enters - of_pattern)) > SPREAD * of_pattern:
                cost["requests"] = max(1, round(lines))
                cost["bytes_per_request"] = round(sectors * SECTOR_BYTES / cost["requests"], 3)
                if op == "store":
                    written = width * tally.threads / tally.warps
                    cost["port_sectors"] = round(port_sectors(asked, written, lines) / cost["requests"], 3)
            if op in _IN_L1 and not is_local and not is_widest(one):
                cost |= _fewer_passes(tally, lines, width, cost)
            if place[1] in self.runs:
                share = 1.0 if abs(asked - of_pattern) <= SPREAD * of_pattern else asked / of_pattern
                cost |= self.runs[place[1]].costs(place[1], addresses, width, share)

    def _bulk(self, one: MachineInstruction, op: str, place: Place, fields: dict[str, Any], cost: dict[str, Any]) -> None:
        """States what a bulk copy moves: lines, all at once. It occupies the memory pipeline as any other instruction does."""
        where, length, hit = _place(self.function, place[1]), self.copies.bytes_of(place), self.hits.get(place)
        named = next((self.patterns[str(key)] for key in reversed(keys_of(one)) if str(key) in self.patterns), None)
        self.used |= {str(key) for key in keys_of(one)} & set(self.patterns)
        if isinstance(named, int) and named > 0:
            length = named
        elif isinstance(named, Tile):
            length = named.bytes
        elif length is None:
            what = f"the bytes that {one.opcode} copies are not known"
            raise FrontEndError(f"{where}: {what}; give patterns={{KEY: number}} with KEY its line and number its bytes")
        if hit is not None:
            fields["access"] = _with_hits(Access(), hit, op)
        elif isinstance(named, Access):
            fields["access"] = Access(l2_hit=named.l2_hit)
        elif (tally := self.accesses.get(place)) is None or tally.unknown >= tally.warps:
            what = f"the addresses of {one.opcode} are not known: {length} bytes, none of which hit L2"
            self.unnamed[f"{where}: {what}; give patterns with their tile, or in Python with an Access that has l2_hit"] = None
        lines = min(len(named.lines) if isinstance(named, Tile) else max(1, -(-length // LINE_BYTES)), MAX_REQUESTS)
        cost |= {"requests": lines, "bytes_per_request": round(length / lines, 3), "requested_bytes": length}
        cost["interval_cycles"] = BULK_INTERVAL

    def _constants(
        self, one: MachineInstruction, op: str, tally: Tally | None, fields: dict[str, Any], cost: dict[str, Any]
    ) -> None:
        """Adds the time of constants with an index, of which a warp reads one address after another."""
        known = tally is not None and not _is_unknown(tally)
        count = round(ways_of(one, tally)) if known and tally is not None else self._named(one, op)
        if count is None:
            self._note_unknown(one)
        elif op == "smem":
            fields["ways"] = count
        elif isinstance(count, int) and count > 1:
            each = self.classes[op]["interval_cycles"]
            cost["interval_cycles"] = count * each
            cost["latency_cycles"] = self.classes[op]["latency_cycles"] + (count - 1) * each

    def _distances(self, place: Place) -> Tally | None:
        """Returns what an access looks like within a warp, where it is only not known where it begins; or None."""
        return None if self.sampled is None else self.sampled.evaluation.begins_elsewhere(place)

    def _named(self, one: MachineInstruction, op: str, *, by_line: bool = True) -> Access | int | None:
        """Returns the pattern or the ways that the caller states for an access with unknown addresses; None: nothing.

        An address goes before a line, which counts with `by_line` only.
        """
        is_constant = space_of(one) == "constant"
        for key in map(str, reversed(keys_of(one))):
            if key not in self.patterns or (key == str(one.line) and not by_line):
                continue
            self.used.add(key)
            named = self.patterns[key]
            if (op == "smem" or is_constant) and type(named) is int and 1 <= named <= WARP_LANES:
                return named
            if is_constant:
                raise FrontEndError(f"patterns[{key!r}] = {named!r}: must be how many constants a warp reads, 1 to 32")
            if isinstance(named, Access):
                return named
            if named == "random" and op == "smem":
                return random_conflict(bytes_per_thread(one))
            if named in ("coalesced", "broadcast", "random"):
                return Access.model_validate({"pattern": named, "bytes_per_thread": bytes_per_thread(one)})
            allowed = '"coalesced", "broadcast", "random"' + (", a conflict of 1 to 32 ways" if op == "smem" else "")
            raise FrontEndError(f"patterns[{key!r}] = {named!r}: must be {allowed} or an Access")
        return None

    def _note_unknown(self, one: MachineInstruction) -> None:
        """Notes what is taken for the addresses of an instruction, of which nothing is known."""
        where = _place(self.function, self.function.code.index(one))
        assumed = "one for all threads" if space_of(one) == "constant" else "coalesced"
        self.unnamed[f"{where}: the addresses of {one.opcode} depend on data: taken as {assumed}; give patterns"] = None

    def _note_unknown_begin(self, one: MachineInstruction, named: str) -> None:
        """Notes what a number in memory is taken to name, where only the distances of addresses within a warp are known."""
        where = _place(self.function, self.function.code.index(one))
        what = f"where the accesses {one.opcode} of a warp begin depends on data"
        self.unnamed[f"{where}: {what}: each number in memory is taken to name {named}; give patterns"] = None


def _is_unknown(tally: Tally) -> bool:
    """Whether the addresses of most executions of an access are not known."""
    return 2 * tally.unknown > tally.warps


def _fewer_passes(tally: Tally, lines: float, width: Width, cost: Mapping[str, Any]) -> dict[str, str]:
    """Returns the passes that an access makes in L1, where these are fewer than its lines."""
    least = cost.get("requested_bytes", WARP_LANES * width) / LINE_BYTES
    passes = max(least, passes_in_l1(tally, width)) if lines > least else lines
    return {"passes": in_quarters(passes)} if passes < lines - SPREAD else {}


def _with_hits(access: Access, hit: Hits, op: str) -> Access:
    """Returns the access of an instruction with what it states of the caches."""
    found: dict[str, float] = {"l1_hit": round(float(hit.l1), 4), "l2_hit": round(float(hit.l2), 4)}
    if op == "store":
        found["l2_kept"] = round(float(hit.kept), 4)
    else:
        found |= {"l1_late_cycles": round(hit.l1_late), "l2_late_cycles": round(hit.l2_late)}
        if op not in ATOMIC_OPS:
            found["l2_coalesced"] = round(float(hit.coalesced), 4)
    return access.model_copy(update=found)


def _made_at_times(one: Instruction, share: float) -> Instruction:
    """Returns an access to shared memory of which this share is made: all take the pipeline, with the mean number of passes."""
    ways = one.ways if one.access is None else ways_of_pattern(one.access)
    own = {} if one.cost is None else one.cost.model_dump(exclude_none=True)
    return one.model_copy(update={"cost": Cost(**own | {"passes": in_quarters(share * ways)})})


@lru_cache(maxsize=4096)
def _cost(fields: tuple[tuple[str, Any], ...]) -> Cost | None:
    return Cost(**dict(fields)) if fields else None
