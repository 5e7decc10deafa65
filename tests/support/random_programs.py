"""Random programs, with branches, loops, barriers, and costs and hints of their own."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.cases import REGISTERS
from warpsim.kernels import Access, Conditional, Cost, Hints, Instruction, Kernel, Loop, Mbarrier
from warpsim.kernels.instruction import OPS_WITHOUT_RESULT
from warpsim.units import ACCESSING_OPS, ATOMIC_OPS, MEMORY_OPS

_PROBABILITIES = (0.0, 0.1, 0.5, 0.9, 1.0)


@st.composite
def accesses(draw: st.DrawFn, random: bool = True, atomic: bool = False) -> Access:
    """Generates accesses to global memory with up to 32 requests, and with cache hits if `random`."""
    pattern = draw(st.sampled_from(["coalesced", "coalesced", "stride", "random", "broadcast", "addresses"]))
    size = draw(st.sampled_from([1, 2, 4, 4, 8, 16]))
    fields: dict[str, Any] = {"pattern": pattern, "bytes_per_thread": size}
    if pattern == "stride":
        fields["stride"] = draw(st.sampled_from([1, 2, 3, 32]))
    if pattern == "addresses":
        first, step = draw(st.integers(0, 64)), draw(st.integers(0, 40))
        fields["addresses"] = tuple(size * (first + step * lane % 97) for lane in range(32))
    if pattern != "random" and draw(st.booleans()):
        fields["offset_bytes"] = size * draw(st.integers(0, 5))
    if random and draw(st.integers(0, 2)) == 0:
        fields["l1_hit"] = 0.0 if atomic else draw(st.sampled_from(_PROBABILITIES))
        fields["l2_hit"] = draw(st.sampled_from(_PROBABILITIES))
    if atomic:
        fields["contended_addresses"] = draw(st.sampled_from([None, 1, 2, 100]))
    return Access(**fields)


@st.composite
def own_costs(draw: st.DrawFn, op: str) -> Cost | None:
    """Generates costs of single instructions, of a class that is not a barrier."""
    if draw(st.integers(0, 3)):
        return None
    fields: dict[str, Any] = {
        "interval_cycles": draw(st.sampled_from([None, "1/3", 1, "5/2", 6])),
        "gap_cycles": draw(st.sampled_from([None, None, 1, 4, 13])),
        "issue_slots": draw(st.sampled_from([None, None, 1, 4])),
    }
    if fields["gap_cycles"] is None:
        fields["gap_ns"] = draw(st.sampled_from([None, None, None, 1, 30]))
    if op in MEMORY_OPS and draw(st.booleans()):
        fields |= {"requests": draw(st.integers(1, 5)), "bytes_per_request": draw(st.sampled_from([32.0, 71.5, 128.0]))}
        fields["port_sectors"] = draw(st.sampled_from([None, None, 1.0, 7.5]))
        fields["requested_bytes"] = draw(st.sampled_from([None, None, 0, 32, 500, 1024]))
    if op in ACCESSING_OPS:
        fields["passes"] = draw(st.sampled_from([None, None, "1/2", 3, "7/2"]))
    if op in ATOMIC_OPS:
        fields["updates"] = draw(st.sampled_from([None, 1, 3, 32]))
        fields["update_intervals"] = draw(st.sampled_from([None, None, 1.0, 3.4]))
    if op not in (*MEMORY_OPS, "branch"):
        fields["latency_cycles"] = draw(st.sampled_from([None, 0, 3, 21]))
    return Cost(**fields)


@st.composite
def instructions(draw: st.DrawFn, random: bool, barriers: bool) -> Instruction:
    """Generates an instruction of any class but exit."""
    register = st.sampled_from(REGISTERS)
    reads = st.lists(register, min_size=draw(st.sampled_from([0, 1])), max_size=2)
    classes = ["load", "alu", "smem", "load", "store", "alu", "sfu", "load", "fp64", "alu", "branch"]
    classes += ["texture", "atomic", "reduction", "async_copy"] if draw(st.integers(0, 2)) == 0 else []
    op = draw(st.sampled_from(classes + ["barrier"] * 2 * barriers))
    if op == "barrier":
        return Instruction(op)
    fields: dict[str, Any] = {"src": draw(reads), "cost": draw(own_costs(op))}
    if draw(st.integers(0, 2)) == 0:
        machine = st.sampled_from(["R2", "R4", "R3", "R4.reuse", "R2.reuse", "", "R2:7", "R4:40"])
        fields["reads"] = draw(st.lists(machine, max_size=4))
    if op not in OPS_WITHOUT_RESULT:
        fields["dst"] = draw(st.one_of(st.none(), register, register, register))
    if op in MEMORY_OPS:
        fields["access"] = draw(accesses(random, atomic=op in ATOMIC_OPS))
        if random and draw(st.integers(0, 2)) == 0:
            late = {"l1_late_cycles": draw(st.integers(0, 50)), "l2_late_cycles": draw(st.integers(0, 50))}
            if op not in ATOMIC_OPS:
                late["l2_coalesced"] = draw(st.sampled_from([0.0, 0.25, 0.75]))
            update = {"l2_kept": draw(st.sampled_from(_PROBABILITIES))} if op == "store" else late
            fields["access"] = fields["access"].model_copy(update=update)
    if op == "smem" and draw(st.booleans()):
        fields["access"] = Access(pattern="stride", stride=draw(st.sampled_from([1, 2, 3, 8])))
    elif op == "smem":
        fields["ways"] = draw(st.integers(1, 5))
    return Instruction(op, **fields)


@st.composite
def bodies(
    draw: st.DrawFn,
    random: bool = True,
    barriers: str = "even",
    depth: int = 0,
    room: int = 8,
    diverged: bool = False,
) -> tuple:
    """Generates statements, nested up to two levels deep.

    `random` allows random numbers. `barriers`: "none", "even" (only where all warps of a block reach them), or "any".
    """
    statements: list[Any] = []
    for _ in range(draw(st.integers(4 if depth == 0 else 1, room))):
        kind = draw(st.sampled_from(["one"] * 4 + ["loop", "conditional"] * (depth < 2)))
        inner = {"random": random, "depth": depth + 1, "room": 3}
        if kind == "one":
            statements.append(draw(instructions(random, barriers != "none")))
        elif kind == "loop":
            chance = random and draw(st.booleans())
            low = draw(st.integers(1, 3))
            trips = (low, low + draw(st.integers(0, 2))) if chance else low
            within = "none" if chance and barriers == "even" else barriers
            body = draw(bodies(barriers=within, diverged=diverged, **inner))
            statements.append(Loop(body=body, trips=trips))
        else:
            how = draw(st.sampled_from(["warps", "diverges"] + ["probability"] * 2 * random))
            within = "none" if how != "diverges" and barriers == "even" else barriers
            apart = diverged or how == "diverges"
            sides = [draw(bodies(barriers=within, diverged=apart, **inner)) for _ in range(2)]
            for i in range(2):
                if not apart and draw(st.integers(0, 5)) == 0:
                    sides[i] = (*sides[i], Instruction("exit"))
            rule: dict[str, Any] = {"diverges": True}
            if how == "warps":
                rule = {"warps": draw(st.sampled_from([(0,), (1,), (0, 2), (1, 3)]))}
            elif how == "probability":
                rule = {"probability": draw(st.sampled_from(_PROBABILITIES))}
            reads = draw(st.lists(st.sampled_from(REGISTERS), max_size=2))
            orelse = sides[1] if draw(st.booleans()) else ()
            statements.append(Conditional(then=sides[0], orelse=orelse, src=reads, cost=draw(own_costs("branch")), **rule))
    return tuple(statements)


@st.composite
def hints(draw: st.DrawFn, op: str) -> Hints:
    """Generates hints that name few counters, so that one counts several instructions."""
    counter = st.sampled_from([0, 0, 1, 5])
    return Hints(
        waits=draw(st.lists(counter, max_size=2)) if draw(st.booleans()) else (),
        at_most=draw(st.sampled_from([0, 0, 0, 1, 2])),
        write=draw(st.one_of(st.none(), counter)) if op not in OPS_WITHOUT_RESULT else None,
        read=draw(counter) if draw(st.integers(0, 3)) == 0 else None,
        yields=draw(st.integers(0, 3)) == 0,
    )


@st.composite
def hinted(draw: st.DrawFn, statements: tuple, every: int = 4) -> tuple:
    """Generates the same statements of which so many in four have hints, and a few loads and waits more among them."""
    result: list[Any] = []
    for statement in statements:
        one = statement
        if isinstance(one, Loop):
            one = Loop(body=draw(hinted(one.body, every)), trips=one.trips)
        elif isinstance(one, Conditional):
            sides = {"then": draw(hinted(one.then, every)), "orelse": draw(hinted(one.orelse, every))}
            one = one.model_copy(update=sides)
        if not isinstance(one, Loop) and draw(st.integers(0, 3)) < every:
            one = one.model_copy(update={"hints": draw(hints(one.op if isinstance(one, Instruction) else "branch"))})
        if draw(st.integers(0, 3)) == 0 and not isinstance(one, Loop):
            dst = draw(st.sampled_from([None, *REGISTERS]))
            result.append(Instruction("load", dst=dst, access=draw(accesses()), hints=draw(hints("load"))))
        result.append(one)
    return tuple(result)


@st.composite
def pipelines(draw: st.DrawFn, block_warps: int, endless: bool = False) -> Kernel:
    """Generates kernels in which some warps of a block hand buffers to others through mbarriers, mostly without a deadlock."""
    producers = tuple(range(draw(st.integers(1, max(1, block_warps - 1)))))
    consumers = [warp for warp in range(block_warps) if warp not in producers]
    trips = draw(st.integers(1, 6))
    mbarriers = (
        Mbarrier(name="empty", arrivals=len(consumers) or 1, ahead=draw(st.sampled_from([2, 1, 3, 1, 2, 5, 0]))),
        Mbarrier(name="full", arrivals=len(producers)),
    )

    def named(role: str, name: str) -> Instruction:
        classes = ["alu", "smem", "sfu"] if role == "awaits" else ["alu", "smem", "async_copy", "async_copy"]
        op, registers = draw(st.sampled_from(classes)), st.sampled_from([None, *REGISTERS])
        access = {"access": draw(accesses())} if op == "async_copy" else {}
        return Instruction(op, dst=draw(registers), src=draw(st.sampled_from([(), REGISTERS[:1]])), **{role: name}, **access)

    def side(awaited: str, arrived: str, repeats: int) -> tuple:
        dst, reports = draw(st.sampled_from([None, "r3"])), draw(st.sampled_from([None, "full", "full", "empty"]))
        copy = Instruction("async_copy", dst=dst, access=draw(accesses()), reports=reports)
        copies = [copy] * draw(st.integers(0, 2))
        parts = [draw(bodies(barriers="none", depth=1, room=3)) for _ in range(2)]
        work = [named("awaits", awaited), *parts[0], *copies, *parts[1], named("arrives", arrived)]
        return (Loop(body=work, trips=repeats),)

    others = trips if draw(st.integers(0, 5)) else trips + draw(st.integers(-1, 1)) or 1
    if not consumers:
        body: tuple = (Loop(body=(named("arrives", "full"), named("awaits", "full")), trips=trips),)
    else:
        sides = side("empty", "full", trips), side("full", "empty", others)
        body = (Conditional(warps=producers, then=sides[0], orelse=sides[1]),)
    if endless:
        body = (Loop(body=body, trips=None),)
    return Kernel(name="pipeline", inputs=REGISTERS, mbarriers=mbarriers, body=body)


@st.composite
def kernels(draw: st.DrawFn, random: bool = True, barriers: str = "even", endless: bool = False) -> Kernel:
    """Generates kernels, with an endless loop at the end if `endless`."""
    body = draw(bodies(random, barriers))
    if endless:
        body = (*body[:2], Loop(body=draw(bodies(random, barriers)), trips=None))
    return Kernel(name="random", inputs=REGISTERS, body=body)
