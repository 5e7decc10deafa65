"""What the instructions of a kernel access, and what that costs: addresses, requests, passes, hits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsim.frontends.accesses.patterns import as_access, conflict_degree, matrix_rows, passes_in_l1, random_conflict, ways_of
from warpsim.frontends.accesses.store_runs import store_runs
from warpsim.frontends.accesses.tally import Tally
from warpsim.frontends.caches.walk import Hits
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.launch.keys import Key, keys_of
from warpsim.frontends.launch.tiles import Tile
from warpsim.frontends.machine_code.flow import Flow, Place
from warpsim.frontends.machine_code.flow import place as _place
from warpsim.frontends.machine_code.memory_instructions import Width, bytes_per_thread, is_widest, space_of
from warpsim.frontends.machine_code.opcode_costs import FLOAT_UPDATE_CYCLES, in_quarters, is_sum_of_floats, mean_passes
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.program.sampled import SPREAD, Sampled
from warpsim.frontends.waits.async_copies import CopyLog, bulk_of
from warpsim.frontends.waits.dependences import has_control_fields
from warpsim.kernels.access import port_sectors
from warpsim.kernels.costs import BULK_INTERVAL
from warpsim.kernels.instruction import MAX_REQUESTS, Access
from warpsim.units import ATOMIC_OPS, LINE_BYTES, SECTOR_BYTES, WARP_LANES

_NOT_WALKED = {"load": Hits(1.0, 0.0, 0.0), "store": Hits(0.0, 1.0, 0.0)}
"""Hits of local memory where the caches are not walked: L1 has what is loaded, and writes what is stored through to L2."""

_ONE_OF_GRID = "one"
"""The pattern of an access of all threads of the grid to one address."""

_IN_L1 = ("load", "store")
"""Operation classes whose lines can pass L1 together. No counters tell that of updates and copies."""


class AccessFields:
    """Adds to instructions what they access, and what that costs.

    Args:
        flow: whose instructions they are.
        classes: the operation classes of the chips of its architecture.
        accesses: what the accesses look like.
        patterns: what the caller states of them.
        hits: how often they hit.
        sampled: which warps make them; None: all that issue them.
        copies: asynchronous copies and the waits for them.
        assumed: takes what is said of accesses that are not known.
    """

    def __init__(
        self,
        flow: Flow,
        classes: Mapping[str, Any],
        accesses: Mapping[Place, Tally],
        patterns: Mapping[Key, str | int | Access | Tile],
        hits: Mapping[Place, Hits],
        sampled: Sampled | None,
        copies: CopyLog,
        assumed: dict[str, None],
    ) -> None:
        self.function, self.classes, self.accesses, self.hits = flow.function, classes, accesses, hits
        self.patterns = {str(key): value for key, value in patterns.items()}
        self.sampled, self.copies, self.assumed = sampled, copies, assumed
        unknown = [place for place, tally in accesses.items() if _is_unknown(tally) and self._distances(place) is None]
        self.lines_with_unknown = {self.function.code[index].line for _, index in unknown}
        self.used: set[str] = set()
        self.unknown: dict[str, None] = {}  # keys of the accesses with unknown addresses
        blocks = flow.blocks if has_control_fields(flow) else ()
        self.runs = {index: run for block in blocks for index, run in store_runs(self.function.code, block.code).items()}

    def notes_of_patterns(self) -> list[str]:
        """Returns which patterns the caller has stated for nothing."""
        unused = [key for key in self.patterns if key not in self.used]
        others = f"; such are at {', '.join(self.unknown)}" if self.unknown else ", and none in the kernel"
        return [f"patterns[{key!r}]: no access with unknown addresses is there{others}" for key in unused]

    def space_of(self, one: MachineInstruction, place: Place) -> str | None:
        """Returns which memory an instruction of a block accesses, by its opcode, or by its addresses where these are generic."""
        return space_of(one) if self.sampled is None else self.sampled.evaluation.space_of(place, one)

    def add_access(
        self,
        one: MachineInstruction,
        place: Place,
        op: str,
        tally: Tally | None,
        fields: dict[str, Any],
        cost: dict[str, Any],
    ) -> None:
        """Adds to the fields and the cost of an instruction what it accesses, by its tally, and how often that hits."""
        if bulk_of(one) is not None:
            self._bulk(one, op, place, fields, cost)
            return
        width = bytes_per_thread(one)
        if is_widest(one) and op != "smem":
            cost["requested_bytes"] = WARP_LANES * SECTOR_BYTES
        elif tally is not None and op != "smem" and tally.threads < (1 - SPREAD) * WARP_LANES * tally.warps:
            cost["requested_bytes"] = max(1, round(width * tally.threads / tally.warps))
        is_local = self.space_of(one, place) == "local"
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
                if op in ATOMIC_OPS and is_sum_of_floats(one.opcode):
                    cost["update_intervals"] = FLOAT_UPDATE_CYCLES
                access = named or Access(bytes_per_thread=width)
                fields["access"] = _with_hits(access, hit, op) if is_local and hit is not None else access
            return
        if one.base in ("LDSM", "STSM"):
            rows = matrix_rows(one, addresses)
            if len(rows) < WARP_LANES:  # a pattern would be of 32 rows
                fields["ways"] = conflict_degree(rows, width)
                return
        elif tally is not None and op == "smem":
            mean = ways_of(one, tally)
            ways = round(mean)
            if (passes := mean_passes(mean)) != ways:
                cost["passes"] = passes
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
            self.assumed[f"{where}: {what}; give patterns with their tile, or in Python with an Access that has l2_hit"] = None
        lines = min(len(named.lines) if isinstance(named, Tile) else max(1, -(-length // LINE_BYTES)), MAX_REQUESTS)
        cost |= {"requests": lines, "bytes_per_request": round(length / lines, 3), "requested_bytes": length}
        cost["interval_cycles"] = BULK_INTERVAL

    def add_constants(
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
            if named == _ONE_OF_GRID and op != "smem":
                return _one_of_grid(op, bytes_per_thread(one))
            if named in ("coalesced", "broadcast", "random"):
                return Access.model_validate({"pattern": named, "bytes_per_thread": bytes_per_thread(one)})
            more = "a conflict of 1 to 32 ways" if op == "smem" else f'"{_ONE_OF_GRID}"'
            allowed = f'"coalesced", "broadcast", "random", {more}'
            raise FrontEndError(f"patterns[{key!r}] = {named!r}: must be {allowed} or an Access")
        return None

    def _note_unknown(self, one: MachineInstruction) -> None:
        """Notes what is taken for the addresses of an instruction, of which nothing is known."""
        where = _place(self.function, self.function.code.index(one))
        assumed = "one for all threads" if space_of(one) == "constant" else "coalesced"
        self.assumed[f"{where}: the addresses of {one.opcode} depend on data: taken as {assumed}; give patterns"] = None

    def _note_unknown_begin(self, one: MachineInstruction, named: str) -> None:
        """Notes what a number in memory is taken to name, where only the distances of addresses within a warp are known."""
        where = _place(self.function, self.function.code.index(one))
        what = f"where the accesses {one.opcode} of a warp begin depends on data"
        self.assumed[f"{where}: {what}: each number in memory is taken to name {named}; give patterns"] = None


def _one_of_grid(op: str, width: Width) -> Access:
    """Returns an access of all threads of the grid to one address: it is in L1, or in L2 where that is updated or stored."""
    contended = 1 if op in ATOMIC_OPS else None
    of_l1 = op not in ATOMIC_OPS and op != "store"
    return Access(
        pattern="broadcast", bytes_per_thread=width, l1_hit=float(of_l1), l2_hit=1.0, contended_addresses=contended
    )


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
