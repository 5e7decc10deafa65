"""How often each block and each edge of a flow was taken, from executions per instruction.

An edge is known where it is the only way out of a block or the only way into one; the other way out of a block has the rest. A
function that is called from several places was counted in sum; each call takes the share of its own executions.
"""

from __future__ import annotations

from statistics import median

from warpsim.frontends.machine_code.flow import Flow
from warpsim.frontends.machine_code.opcode_costs import MEETS

Edge = tuple[int, int]


class Flows:
    """Executions of a flow.

    Args:
        flow: blocks and loops.
        executed: instruction -> executions.
        shares: instruction -> share of threads whose guard was true.

    Attributes:
        counts: block -> executions.
        entries: loop -> times that it was entered.
    """

    def __init__(self, flow: Flow, executed: list[int], shares: list[float]) -> None:
        self.flow, self.shares = flow, shares
        self.before: list[list[int]] = [[] for _ in flow.blocks]
        for number, block in enumerate(flow.blocks):
            for target in block.successors:
                self.before[target].append(number)
        self.executed = executed
        self.sums = [self._sum(block.code) for block in flow.blocks]
        self.counts = self._split(self.sums)
        self.edges, self.sure = self._find_edges()
        self.entries = {number: self._entries(number) for number in range(len(flow.loops))}

    def _sum(self, code: range) -> float:
        """Returns the executions of a block; where the parts of a warp meet, each of them executes an instruction."""
        others = [index for index in code if self.flow.function.code[index].base != MEETS]
        return float(median(self.executed[index] for index in others or code))

    def repeats(self, number: int, index: int) -> float:
        """Returns how often an instruction of a block was executed each time that a warp came to the block."""
        return self.executed[index] / self.sums[number] if self.sums[number] else 1.0

    def most_repeats(self, base: str) -> float:
        """Returns the largest number of times that an instruction of one opcode was executed where a warp came to it."""
        code = self.flow.function.code
        return max(
            (
                self.repeats(number, index)
                for number, block in enumerate(self.flow.blocks)
                for index in block.code
                if code[index].base == base
            ),
            default=1.0,
        )

    def _split(self, sums: list[float]) -> dict[int, float]:
        """Divides the counts of called functions among their copies."""
        copies: dict[int, int] = {}
        for block in self.flow.blocks:
            copies[block.code.start] = copies.get(block.code.start, 0) + 1
        share = [1.0] * len(sums)
        for number, block in enumerate(self.flow.blocks):
            if copies[block.code.start] == 1 or not sums[number]:
                continue
            earlier = [other for other in self.before[number] if other < number]
            calls = [
                other for other in earlier if self.flow.last(other).base == "CALL" and number in self.flow.blocks[other].targets
            ]
            if calls:
                share[number] = min(1.0, sum(sums[other] * share[other] for other in calls) / sums[number])
            elif earlier:
                share[number] = max(share[other] for other in earlier)
        return {number: total * share[number] for number, total in enumerate(sums)}

    def _find_edges(self) -> tuple[dict[Edge, float], set[Edge]]:
        edges: dict[Edge, float] = {}
        sure: set[Edge] = set()
        for number, block in enumerate(self.flow.blocks):
            last = self.flow.last(number)
            leaves = last.base == "EXIT"
            for target in block.successors:
                if not self.counts[target]:
                    edges[number, target] = 0.0
                elif len(block.successors) == 1 and not leaves:
                    edges[number, target] = self.counts[number]
                elif len(self.before[target]) == 1 and target != 0:
                    edges[number, target] = self.counts[target]
                else:
                    continue
                sure.add((number, target))
        for number, block in enumerate(self.flow.blocks):
            rest = [target for target in block.successors if (number, target) not in edges]
            left = max(0.0, self.counts[number] - sum(edges.get((number, target), 0.0) for target in block.successors))
            if len(rest) == 1:
                edges[number, rest[0]] = left
            elif rest:
                jumps = self.shares[block.code[-1]]
                for target in rest:
                    edges[number, target] = left * (1 - jumps if target == block.following else jumps / max(1, len(rest) - 1))
        return edges, sure

    def _entries(self, loop: int) -> float:
        header, blocks = self.flow.loops[loop].header, self.flow.loops[loop].blocks
        into = [(other, header) for other in self.before[header]]
        outside = [edge for edge in into if edge[0] not in blocks]
        back = [edge for edge in into if edge[0] in blocks]
        entered = sum(self.edges[edge] for edge in outside)
        rest = self.counts[header] - sum(self.edges[edge] for edge in back)
        if not outside:  # the loop begins the kernel
            return max(rest, 1.0)
        if all(edge in self.sure for edge in outside) or not all(edge in self.sure for edge in back) or rest <= 0:
            return min(entered, self.counts[header])
        return rest
