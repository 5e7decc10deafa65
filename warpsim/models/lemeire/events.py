"""Algorithm 1 of L (Lemeire et al., the pipeline performance model): issue and completion events of one compute unit.

It is compiled, and its times are whole ticks, `TICKS` to a cycle, so that nothing is rounded twice.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

TICKS = 5040
"""Ticks of a cycle: a multiple of all numbers up to 10, so that fractions such as 7/4 and 1/6 are exact."""

_COMPLETION, _ISSUE = 0, 1  # at equal times completions come first: a result is there for the issue at X + completion


class Program(NamedTuple):
    """A dependence graph in arrays, of shape (nodes,) but for the last two. Latencies are in ticks.

    What waits for node k are the nodes `successors[first[k]:first[k + 1]]`.
    """

    pipeline: NDArray[np.int64]
    issue: NDArray[np.int64]
    completion: NDArray[np.int64]
    barrier: NDArray[np.bool_]
    waits_for: NDArray[np.int64]
    first: NDArray[np.int64]
    successors: NDArray[np.int64]


def _make_ready(
    time: Any, task: Any, line: Any, retry: Any, events: Any, head: Any, tail: Any, behind: Any, idle_since: Any
) -> None:
    """Append a task to its pipeline's line; an idle pipeline finds it when it looks next."""
    behind[task] = -1
    if head[line] < 0:
        head[line] = task
    else:
        behind[tail[line]] = task
    tail[line] = task
    if idle_since[line] > _BUSY:
        looks = max(1, -((idle_since[line] - time) // retry))
        heapq.heappush(events, (idle_since[line] + looks * retry, _ISSUE, line))
        idle_since[line] = _BUSY


_BUSY = -(1 << 60)


def _run(
    pipeline: Any, issue: Any, completion: Any, barrier: Any, waits_for: Any, first: Any, successors: Any,
    pipelines: Any, group_warps: Any, resident: Any, groups: Any, retry: Any,
) -> Any:  # fmt: skip
    """Return the time of the last completion, in ticks, and the ticks for which each pipeline was taken."""
    nodes = len(pipeline)
    per_group = group_warps * nodes
    waiting = np.empty(resident * per_group, np.int64)  # for so many completions, by task: (group, warp, node)
    missing = np.zeros((resident, nodes), np.int64)  # warps that have not completed a barrier, by group and node
    left = np.zeros(resident, np.int64)  # tasks of a group
    behind = np.empty(resident * per_group, np.int64)
    head, tail = np.full(pipelines, -1), np.full(pipelines, -1)
    idle_since = np.full(pipelines, -retry)  # an issue event at 0
    taken = np.zeros(pipelines, np.int64)
    events = [(0, _COMPLETION, 0)]
    events.pop()
    started, time, end = 0, 0, 0
    to_start = np.arange(resident)
    starting = resident
    while True:
        for place in range(starting):
            if started == groups:
                break
            group = to_start[place]
            started += 1
            left[group] = per_group
            missing[group] = group_warps
            for task in range(group * per_group, (group + 1) * per_group):
                waiting[task] = waits_for[task % nodes]
                if waiting[task] == 0:
                    _make_ready(time, task, pipeline[task % nodes], retry, events, head, tail, behind, idle_since)
        starting = 0
        if len(events) == 0:
            return end, taken
        time, kind, what = heapq.heappop(events)
        if kind == _ISSUE:
            task = head[what]
            if task < 0:
                idle_since[what] = time
                continue
            head[what] = behind[task]
            node = task % nodes
            heapq.heappush(events, (time + completion[node], _COMPLETION, task))
            heapq.heappush(events, (time + issue[node], _ISSUE, what))
            taken[what] += issue[node]
            continue
        end = time
        group, node = what // per_group, what % nodes
        left[group] -= 1
        one, past = what - node, what - node + nodes  # the tasks of this warp
        if barrier[node]:
            missing[group, node] -= 1
            if missing[group, node] > 0:
                one, past = 0, 0
            else:
                one, past = group * per_group, (group + 1) * per_group
        for warp in range(one, past, nodes):
            for edge in range(first[node], first[node + 1]):
                task = warp + successors[edge]
                waiting[task] -= 1
                if waiting[task] == 0:
                    _make_ready(time, task, pipeline[successors[edge]], retry, events, head, tail, behind, idle_since)
        if left[group] == 0:
            to_start[0], starting = group, 1


_make_ready = numba.njit(_make_ready, nogil=True)
_compiled = numba.njit(_run, nogil=True, cache=True)  # its only callee is in this file, which numba's cache does watch


def run(
    program: Program, *, pipelines: int, group_warps: int, resident: int, groups: int, retry: int
) -> tuple[int, NDArray[np.int64]]:
    """Run groups of warps on one compute unit until all are complete.

    Each pipeline takes the instruction that has been ready for longest; if there is none, it looks again after
    `retry`. A group that completes is replaced at once. A barrier is complete when all warps of the group have
    completed it.

    Args:
        program: what each warp executes.
        pipelines: number of pipelines.
        group_warps: warps of a group.
        resident: groups at a time.
        groups: in all.
        retry: in ticks.

    Returns:
        The time of the last completion in ticks, and the ticks for which each pipeline was taken.
    """
    end, taken = _compiled(*program, pipelines, group_warps, min(resident, groups), groups, retry)
    return int(end), taken
