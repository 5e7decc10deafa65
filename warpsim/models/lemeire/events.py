"""Algorithm 1 of the pipeline model: issue and completion events of one compute unit, compiled.

Times are whole ticks, `TICKS` per cycle, so that sums are exact. L is Lemeire et al. (docs/bibliography.md).
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

TICKS = 5040
"""Ticks per cycle, a multiple of all integers up to 10, so that fractions such as 7/4 and 1/6 are exact."""

_COMPLETION, _ISSUE = 0, 1  # at equal times completions come first, so that an issue at that time can use the result


class Program(NamedTuple):
    """A dependence graph as arrays of shape (nodes,), except for the last two; latencies are in ticks.

    The nodes `successors[first[k]:first[k + 1]]` wait for node k.
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
    """Appends a task to the queue of its pipeline; an idle pipeline finds it at its next retry."""
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
    """Returns the time of the last completion and the busy time of each pipeline, in ticks."""
    nodes = len(pipeline)
    per_group = group_warps * nodes
    waiting = np.empty(resident * per_group, np.int64)  # completions that a task (group, warp, node) still waits for
    missing = np.zeros((resident, nodes), np.int64)  # warps that have not completed a barrier, by group and node
    left = np.zeros(resident, np.int64)  # incomplete tasks of a group
    behind = np.empty(resident * per_group, np.int64)
    head, tail = np.full(pipelines, -1), np.full(pipelines, -1)
    idle_since = np.full(pipelines, -retry)  # the first retry is at time 0
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
        one, past = what - node, what - node + nodes  # tasks of this warp
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
_compiled = numba.njit(_run, nogil=True, cache=True)  # numba's cache only watches this file, which holds all callees


def run(
    program: Program, *, pipelines: int, group_warps: int, resident: int, groups: int, retry: int
) -> tuple[int, NDArray[np.int64]]:
    """Runs groups of warps on one compute unit until all are complete.

    Each pipeline issues the instruction that has been ready for longest. If there is none, it retries after `retry` ticks. A
    new group replaces a completed group at once. A barrier completes when all warps of the group have completed it.

    Args:
        program: program of each warp.
        pipelines: number of pipelines.
        group_warps: warps of a group.
        resident: resident groups.
        groups: groups in total.
        retry: ticks until an idle pipeline looks again.

    Returns:
        The time of the last completion in ticks, and the busy time of each pipeline in ticks, of shape (pipelines,).
    """
    end, taken = _compiled(*program, pipelines, group_warps, min(resident, groups), groups, retry)
    return int(end), taken
