"""Writes fitted values into chip files, and leaves the rest of the files as it is."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpsim.atomic_file import write_text
from warpsim.hardware import files as params
from warpsim.hardware.architectures import complete
from warpsim.hardware.gpu import Gpu, GpuFileError, gpu_of_file
from warpsim.hardware.memory import Memory, Queue

_CONTENTION = "fitted: experiments/memory_contention"


def write_queue_parameters(path: str | os.PathLike[str], queue: Queue) -> None:
    """Writes fitted parameters into the table [memory.queue] of a chip file.

    Each value that changes gets the comment "fitted: experiments/memory_contention". Parameters that the fit does not have are
    removed. The file is replaced in one step.

    Raises:
        ValueError: the file is not a valid chip file, before or after the change.
        OSError: the file cannot be written.
    """
    file = Path(path)
    Gpu.from_dict(params.read_toml(file, GpuFileError), source=str(file))  # its queue may be that of another chip: it is replaced
    _write(file, _with_values(file.read_text(encoding="utf-8"), {("memory", "queue"): _values(queue)}, _CONTENTION))


def write_fitted_memory(
    path: str | os.PathLike[str], base: str | os.PathLike[str], memory: Memory, fitted: str, bandwidth: str
) -> None:
    """Writes a new chip file: that of `base` with the latency, the bandwidth and the queue of `memory`. Its stem is the name.

    Where `base` states the contention that models know, that of `memory` replaces it.

    The file is written in one step. What was not fitted, and is the same as in `base`, or follows from the rest by the same rule,
    is left as it is.

    Args:
        path: of the new file.
        base: a chip or file.
        memory: the fitted one, of which only these values may differ from that of `base`.
        fitted: the comment of the latency, and of the DRAM stage.
        bandwidth: the comment of the bandwidths, where they differ.

    Raises:
        ValueError: the chip or file `base` does not exist, or the result is not a valid chip file.
        OSError: the file cannot be written.
    """
    file, text = Path(path), params.resolve("gpus", base).read_text(encoding="utf-8")
    crossbar = memory.queue.model_dump(include={"crossbar_servers", "crossbar_gbs"})
    dram = {key: value for key, value in _values(memory.queue).items() if key not in crossbar}
    text = _with_values(text, {("memory",): {"latency_cycles": memory.latency_cycles}, ("memory", "queue"): dram}, fitted)
    of_memory = memory.model_dump(include={"bandwidth_gbs", "pin_bandwidth_gbs"})
    text = _with_values(text, {("memory",): _other(text, of_memory)}, bandwidth)
    as_in_base = f"not fitted: as in {Path(base).name}; the rate grows with the sustained bandwidth"
    text = _with_values(text, {("memory", "queue"): _other(text, crossbar, "queue")}, as_in_base)
    if "contention" in tomllib.loads(text)["memory"]:
        rule = "follows from the latency and the queue (M/D/1)"
        text = _with_values(text, {("memory", "contention"): memory.contention.model_dump()}, rule)
    _write(file, _with_values(text, {(): {"name": file.stem}}, "of this file"))


def _other(text: str, values: Mapping[str, Any], table: str | None = None) -> dict[str, Any]:
    """Returns those of some values of [memory], or of a table in it, that differ from what a chip file says or what follows."""
    memory = complete(tomllib.loads(text))[0]["memory"]
    found = memory if table is None else memory.get(table, {})
    return {key: value for key, value in values.items() if found.get(key) != value}


def _values(queue: Queue) -> dict[str, Any]:
    """Returns the values of a table [memory.queue]; None for a key that it must not have."""
    return {"base_latency_cycles": None, **queue.model_dump()}  # the key is that of warpsim 0.1


def _with_values(text: str, tables: Mapping[tuple[str, ...], Mapping[str, Any]], note: str) -> str:
    """Returns a text of TOML with other values in some of its tables, with a comment. A value of None removes the key."""
    import tomlkit

    document = tomlkit.parse(text)
    for keys, values in tables.items():
        table: Any = document
        for key in keys:
            if key not in table:
                table[key] = tomlkit.table()
            table = table[key]
        for key, value in values.items():
            old = table.get(key)
            if value is None:
                table.pop(key, None)
            elif old != value:
                new = tomlkit.item(value)
                column = 0 if old is None else len(old.as_string()) + len(old.trivia.comment_ws)
                new.trivia.comment_ws, new.trivia.comment = " " * max(2, column - len(new.as_string())), f"# {note}"
                table[key] = new
    return tomlkit.dumps(document)


def _write(file: Path, text: str) -> None:
    """Writes a chip file in one step."""
    gpu_of_file(tomllib.loads(text), file)
    write_text(file, text)
