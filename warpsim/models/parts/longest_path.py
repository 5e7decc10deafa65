"""Issue times of one warp, as the longest path of the weights and dependencies of its instructions.

This is the simple form that models before Volkov's use. Each instruction follows its predecessor by a weight, and the writers of
its registers by a latency. `warp_path` has the further rules of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warpsim.kernels import Instruction

_MAX_REPETITIONS = 128
_SAME = 1e-6  # cycles


class Path(NamedTuple):
    """Issue times in cycles, and the number of repetitions of the sequence that they span.

    `times` has the shape (repetitions x instructions + 1, ...). The last time is the start of the next repetition, or the end
    of the warp. Further dimensions are those of the weights and latencies.
    """

    times: NDArray[np.float64]
    repetitions: int

    @property
    def cycles(self) -> NDArray[np.float64]:
        """Cycles of one repetition."""
        return np.asarray((self.times[-1] - self.times[0]) / self.repetitions)


def longest_path(
    instructions: Sequence[Instruction], weights: Sequence[Any], latencies: Sequence[Mapping[str, Any]], *, endless: bool
) -> Path:
    """Returns the issue times of a warp, or of whole periods of its endless loop in the steady state.

    Args:
        instructions: instructions in program order.
        weights: least distance of each instruction to the next one; a number, or an array of the same shape for all.
        latencies: distance of each instruction to one that reads or overwrites its result, by the operation class of the
            latter ("": any other class). An instruction without result, or with an empty mapping, delays no other.
        endless: whether the sequence repeats; otherwise the end of a warp waits for all results.
    """
    now = np.zeros(np.broadcast_shapes(*(np.shape(weight) for weight in weights)))
    ready: dict[str, Mapping[str, Any]] = {}
    times: list[Any] = []
    seen: list[NDArray[np.float64]] = []
    for _ in range(1, _MAX_REPETITIONS + 1 if endless else 2):
        for instruction, weight, latency in zip(instructions, weights, latencies, strict=True):
            now = _issue(instruction, now, ready)
            times.append(now)
            if instruction.dst:
                ready[instruction.dst] = {op: now + cycles for op, cycles in latency.items()}
            now = now + weight
        if not endless:
            waits = [at[""] for at in ready.values() if at]
            return Path(np.array([*times, np.max([now, *waits], axis=0)]), 1)
        # The future depends on this state alone: a period ends when the state recurs.
        state = np.array([np.maximum(at[op], now) - now for _, at in sorted(ready.items()) for op in sorted(at)])
        for back, before in enumerate(reversed(seen), start=1):
            if state.shape == before.shape and np.allclose(state, before, rtol=0, atol=_SAME):
                return _last(times, back, len(instructions), _issue(instructions[0], now, ready))
        seen.append(state)
    return _last(times, _MAX_REPETITIONS // 2, len(instructions), _issue(instructions[0], now, ready))


def _issue(instruction: Instruction, now: Any, ready: Mapping[str, Mapping[str, Any]]) -> Any:
    """Returns the issue time of an instruction: at least `now`, and when its registers are ready."""
    for register in (*instruction.src, *((instruction.dst,) if instruction.dst else ())):
        at = ready.get(register, {})
        now = np.maximum(now, at.get(instruction.op, at.get("", 0.0)))
    return now


def _last(times: list[Any], repetitions: int, length: int, following: Any) -> Path:
    return Path(np.array([*times[-repetitions * length :], following]), repetitions)
