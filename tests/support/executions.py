"""What a warp executes of a program."""

from collections import Counter
from collections.abc import Iterable, Iterator

from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Statement
from warpsim.kernels.traversal import expected_executions


def expected_ops(statements: Iterable[Statement], block_warps: int | None = None) -> Iterator[tuple[str, float]]:
    """Operation classes with the expected number of executions by a warp, as `expected_executions`."""
    return ((instruction.op, times) for instruction, times in expected_executions(statements, block_warps))


def counts(kernel: Kernel) -> Counter[str]:
    """How often a warp is expected to execute each operation class."""
    total: Counter[str] = Counter()
    for op, times in expected_ops(kernel.body):
        total[op] += times
    return total
