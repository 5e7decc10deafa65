"""The instruction dependence graph of a kernel: which instructions must complete before another can issue (L III.C).

Loops are unrolled, and the two sides of a divergent conditional follow each other. An instruction depends on the last writer of
each register that it reads, on the last branch before it, and on the last barrier. A barrier depends on all instructions since
the previous barrier. Writing a register does not wait for its readers: the graph contains true dependences only. It ignores
program order otherwise. L is Lemeire et al. (docs/bibliography.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.models.parts.common import NotCoveredError

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes

MAX_NODES = 1_000_000
"""Largest number of instructions of an unrolled kernel."""


class Node(NamedTuple):
    """An instruction and its dependences: pairs of an earlier node's number and a register, "branch" or "barrier"."""

    instruction: Instruction
    after: tuple[tuple[int, str], ...]


def dependences(kernel: Kernel, *, repetitions: int = 1) -> list[Node]:
    """Unrolls a kernel into nodes in program order, without the exit.

    Args:
        kernel: any kernel that all warps execute alike.
        repetitions: repetitions of an endless loop.

    Raises:
        ValueError: `repetitions` is below 1.
        NotCoveredError: warps may take different paths, or there are more than `MAX_NODES` nodes.
    """
    if repetitions < 1:
        raise ValueError(f"repetitions = {repetitions}: must be at least 1")
    unrolled = _Unrolled(kernel, repetitions)
    unrolled.add(kernel.body)
    return unrolled.nodes


def dependence_graph(
    kernel: Kernel, *, repetitions: int = 1, latencies: Callable[[Instruction], tuple[str, float, float]] | None = None
) -> nx.DiGraph:
    """Returns the dependence graph as a networkx.DiGraph (requires networkx: `pip install 'warpsim[graph]'`).

    Args:
        kernel: any kernel that all warps execute alike.
        repetitions: repetitions of an endless loop.
        latencies: maps an instruction to its pipeline, issue latency and completion latency in cycles, such as
            `functools.partial(timing, chip)`; left out, the nodes have no latencies.

    Returns:
        Nodes 0, 1, ... in program order with the attributes `op`, `text` and, with `latencies`, `pipeline`,
        `issue_cycles` and `completion_cycles`; edges with the attribute `through`, a register, "branch" or
        "barrier" (the first one if there are several).

    Raises:
        ImportError: networkx is not installed.
        ValueError, NotCoveredError: as `dependences`, and as `latencies` raises.
    """
    import networkx as nx

    graph = nx.DiGraph(name=kernel.name)
    for number, node in enumerate(dependences(kernel, repetitions=repetitions)):
        instruction = node.instruction
        graph.add_node(number, op=instruction.op, text=instruction.comment or instruction.op)
        if latencies is not None:
            pipeline, issue, completion = latencies(instruction)
            graph.nodes[number].update(pipeline=pipeline, issue_cycles=issue, completion_cycles=completion)
        for before, through in node.after:
            if not graph.has_edge(before, number):
                graph.add_edge(before, number, through=through)
    return graph


def draw(graph: nx.DiGraph, ax: Axes) -> Axes:
    """Draws a dependence graph from top to bottom, with one row per step of its longest chain.

    Edges that others imply are left out; dashed edges go through a barrier or a branch. Nodes with latencies show them as
    issue / completion. The drawing is readable up to about fifty nodes.
    """
    import networkx as nx

    place = {
        node: ((column + 0.5) / len(nodes), -row)
        for row, nodes in enumerate(map(sorted, nx.topological_generations(graph)))
        for column, node in enumerate(nodes)
    }
    shown = list(nx.transitive_reduction(graph).edges)
    control = [edge for edge in shown if graph.edges[edge]["through"] in ("branch", "barrier")]
    data = [edge for edge in shown if edge not in control]
    for edges, style in ((data, "-"), (control, "--")):
        nx.draw_networkx_edges(graph, place, ax=ax, edgelist=edges, node_size=700, style=style, arrowsize=8)
    box = {"boxstyle": "round", "facecolor": "#ffffff", "edgecolor": "#000000"}
    nx.draw_networkx_labels(graph, place, ax=ax, labels={node: _label(graph, node) for node in graph}, font_size=6, bbox=box)
    ax.set_axis_off()
    return ax


def _label(graph: nx.DiGraph, node: int) -> str:
    values = graph.nodes[node]
    if "issue_cycles" not in values:
        return f"{node}\n{values['op']}"
    return f"{node}\n{values['op']}\n{values['issue_cycles']:g} / {values['completion_cycles']:g}"


@dataclass
class _Unrolled:
    kernel: Kernel
    repetitions: int
    nodes: list[Node] = field(default_factory=list)
    writer: dict[str, int] = field(default_factory=dict)  # register -> node
    branch: int | None = None
    barrier: int | None = None
    since: int = 0  # the first node after the last barrier
    ended: bool = False

    def add(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            if self.ended:
                return
            if isinstance(statement, Loop):
                self.loop(statement)
            elif isinstance(statement, Conditional):
                self.conditional(statement)
            elif statement.op == "exit":
                self.ended = True
            else:
                self.issue(statement)

    def issue(self, instruction: Instruction) -> None:
        number = len(self.nodes)
        if number == MAX_NODES:
            raise NotCoveredError(f"{self.kernel.name}: pipeline covers at most {MAX_NODES} instructions")
        after = [(self.writer[name], name) for name in dict.fromkeys(instruction.src) if name in self.writer]
        if self.branch is not None:
            after.append((self.branch, "branch"))
        if self.barrier is not None:
            after.append((self.barrier, "barrier"))
        if instruction.op == "barrier":
            after = [(before, "barrier") for before in range(self.since, number)] or after
            self.barrier, self.branch, self.since = number, None, number
        elif instruction.op == "branch":
            self.branch = number
        self.nodes.append(Node(instruction, tuple(after)))
        if instruction.dst is not None:
            self.writer[instruction.dst] = number

    def loop(self, loop: Loop) -> None:
        least, most = loop.trip_range
        if least != most:
            raise NotCoveredError(
                f"{self.kernel.name}: pipeline does not cover random numbers of trips, here {least} to {most}"
            )
        for _ in range(self.repetitions if loop.trips is None else least):
            self.add(loop.body)

    def conditional(self, conditional: Conditional) -> None:
        if conditional.divides_block:
            raise NotCoveredError(f"{self.kernel.name}: pipeline does not cover conditionals that warps take differently")
        self.issue(conditional.branch)
        if conditional.diverges or conditional.probability == 1.0:
            self.add(conditional.then)
        if conditional.diverges or conditional.probability == 0.0:
            self.add(conditional.orelse)
