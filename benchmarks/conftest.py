"""Prints what the benchmarks found besides times."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    session = getattr(config, "_benchmarksession", None)
    lines = [
        f"{bench.name}: {value:.3g} {what}"
        for bench in (session.benchmarks if session else [])
        for what, value in bench.extra_info.items()
    ]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
