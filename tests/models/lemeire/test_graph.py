"""The instruction dependence graph of L III.C: dependences, kernels that are not covered, and the drawing."""

from __future__ import annotations

from functools import partial

import networkx as nx
import pytest
from matplotlib.figure import Figure

from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim.kernels import Conditional, Instruction, Loop, matrix_multiply, mix, vector_add
from warpsim.models import NotCoveredError
from warpsim.models.lemeire import graph as pipeline_graph
from warpsim.models.lemeire import pipeline
from warpsim.models.lemeire.graph import dependences


def test_vector_add_depends_through_registers_alone():
    graph = pipeline.dependence_graph(vector_add())
    assert len(graph) == 11
    through = {(a, b): values["through"] for a, b, values in graph.edges(data=True)}
    assert through == {
        (2, 3): "r0", (1, 3): "r3",  # IMAD reads what S2R wrote
        (3, 4): "r2", (3, 5): "r2", (3, 8): "r2",
        (4, 6): "r3", (5, 7): "r0",  # the loads
        (6, 9): "r3", (7, 9): "r0",  # FADD
        (8, 10): "r2", (9, 10): "r3",  # ST
    }  # fmt: skip
    assert graph.nodes[6] == {"op": "load", "text": "LD R3, [R3]"}


def test_nodes_carry_both_latencies():
    chip = pipeline.load_pipelines("fermi_c2050")
    graph = pipeline.dependence_graph(vector_add(), latencies=partial(pipeline.timing, chip))
    load = graph.nodes[6]
    assert (load["pipeline"], load["issue_cycles"], load["completion_cycles"]) == ("global memory", 23, 521)


def test_loops_are_unrolled_and_endless_ones_repeated():
    assert len(dependences(kernel(Loop(body=(ADD, LOAD), trips=3)))) == 6
    nodes = dependences(mix(4), repetitions=3)
    assert len(nodes) == 15
    assert [node.after for node in nodes[1:]] == [((k, "r1"),) for k in range(14)]


def test_the_graph_of_matrix_multiply():
    nodes = dependences(matrix_multiply(8, width=32))
    trip = 2 + 2 + 1 + 3 * 8 + 1 + 1
    assert len(nodes) == 4 * trip + 1
    assert nodes[4].instruction.op == "barrier"
    assert nodes[4].after == tuple((before, "barrier") for before in range(4))
    reads, multiply_add = nodes[5:7], nodes[7]
    assert [read.after for read in reads] == [((4, "barrier"),)] * 2
    assert multiply_add.after == ((5, "sa"), (6, "sb"), (4, "barrier"))  # the first has no sum before it
    assert nodes[10].after == ((8, "sa"), (9, "sb"), (7, "sum"), (4, "barrier"))
    following = nodes[trip]
    assert following.instruction.comment == "A[aIdx]"
    assert following.after == ((trip - 1, "branch"), (trip - 2, "barrier"))


def test_a_register_that_is_written_again_waits_for_no_reader():
    other = Instruction("alu", dst="r1", src=("r2",))
    assert dependences(kernel(LOAD, other))[1].after == ()


def test_divergent_sides_follow_each_other_and_unused_sides_are_removed():
    both = Conditional(diverges=True, then=(ADD,), orelse=(LOAD,))
    assert [node.instruction.op for node in dependences(kernel(both))] == ["branch", "alu", "load"]
    for probability, op in ((1.0, "alu"), (0.0, "load")):
        one = Conditional(probability=probability, then=(ADD,), orelse=(LOAD,))
        nodes = dependences(kernel(one))
        assert [node.instruction.op for node in nodes] == ["branch", op]
        assert nodes[1].after == ((0, "branch"),)
    leaves = Conditional(probability=1.0, then=(ADD, Instruction("exit")))
    assert len(dependences(kernel(leaves, LOAD))) == 2


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (Loop(body=(ADD,), trips=(1, 3)), "random numbers of trips, here 1 to 3"),
        (Conditional(probability=0.5, then=(ADD,)), "conditionals that warps take differently"),
        (Conditional(warps=(0,), then=(ADD,)), "conditionals that warps take differently"),
        (Loop(body=(Loop(body=(ADD, ADD), trips=10),), trips=10), "at most 150 instructions"),
    ],
)
def test_what_is_not_covered(statement, message, monkeypatch):
    monkeypatch.setattr(pipeline_graph, "MAX_NODES", 150)
    with pytest.raises(NotCoveredError, match=message):
        dependences(kernel(statement, BARRIER))


def test_repetitions_are_checked():
    with pytest.raises(ValueError, match="repetitions = 0: must be at least 1"):
        dependences(mix(4), repetitions=0)


def test_the_picture_has_a_row_for_each_step():
    graph = pipeline.dependence_graph(matrix_multiply(8, width=8))
    ax = pipeline.draw(graph, Figure().subplots())
    assert len(ax.texts) == len(graph)
    height = {int(text.get_text().split("\n")[0]): text.get_position()[1] for text in ax.texts}
    assert all(height[a] > height[b] for a, b in graph.edges)
    assert len(set(height.values())) == nx.dag_longest_path_length(graph, weight=None) + 1
