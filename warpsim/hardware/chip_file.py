"""Writes fitted values into chip files, and leaves the rest of the files as it is."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpsim.atomic_file import write_text
from warpsim.hardware import files as params
from warpsim.hardware.architectures import SUSTAINED_SHARE, complete
from warpsim.hardware.gpu import Gpu, GpuFileError, gpu_of_file, is_beside
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
    _write(file, _with_values(file.read_text(encoding="utf-8-sig"), {("memory", "queue"): _values(queue)}, _CONTENTION))


def write_fitted_memory(
    path: str | os.PathLike[str], base: str | os.PathLike[str], memory: Memory, fitted: str, bandwidth: str
) -> None:
    """Writes a new chip file: that of `base` with the latency, the bandwidth and the queue of `memory`. Its stem is the name.

    Where `base` states the contention that models know, that of `memory` replaces it.

    The file is written in one step. What was not fitted, and is the same as in `base`, or follows from the rest by the same rule,
    is left as it is. A table of latencies beside `base` stays there, and the latency at which it was measured stays the same.

    Args:
        path: of the new file.
        base: a chip or file.
        memory: the fitted one, of which only these values may differ from that of `base`.
        fitted: the comment of the latency, and of the DRAM stage.
        bandwidth: the comment of the bandwidths, where they differ.

    Raises:
        ValueError: the chip or file `base` does not exist or has inline tables, or the result is not a valid chip file.
        OSError: the file cannot be written.
    """
    _write(Path(path), _fitted_text(Path(path), params.resolve("gpus", base), memory, fitted, bandwidth))


def check_fitted(path: str | os.PathLike[str], base: str | os.PathLike[str]) -> None:
    """Checks, before a fit, that its values can be written into a copy of `base`.

    Raises:
        ValueError: they cannot, since `base` has inline tables, or `path` is no name of a chip.
    """
    file = params.resolve("gpus", base)
    text = _fitted_text(Path(path), file, gpu_of_file(params.read_toml(file, GpuFileError), file).memory, "", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path}: the name must be valid Unicode, as that of the chip") from None


def _fitted_text(path: Path, base: Path, memory: Memory, fitted: str, bandwidth: str) -> str:
    """Returns the text that `write_fitted_memory` writes."""
    text = base.read_text(encoding="utf-8-sig")
    as_of_base = tomllib.loads(text)
    as_read = as_of_base["memory"]
    crossbar = memory.queue.model_dump(include={"crossbar_servers", "crossbar_gbs"})
    dram = {key: value for key, value in _values(memory.queue).items() if key not in crossbar}
    tables = {("memory",): {"latency_cycles": memory.latency_cycles}, ("memory", "queue"): dram}
    text = _with_values(text, tables, fitted, restated=True)
    text = _with_values(text, {("memory",): _other(text, {"bandwidth_gbs": memory.bandwidth_gbs})}, bandwidth)
    stays = complete(as_of_base)[0]["memory"].get("pin_bandwidth_gbs") == memory.pin_bandwidth_gbs
    pins = f"as in {base.name}" if stays else f"rule: bandwidth_gbs / {SUSTAINED_SHARE:g}, since {base.name} has less"
    text = _with_values(text, {("memory",): _other(text, {"pin_bandwidth_gbs": memory.pin_bandwidth_gbs})}, pins)
    as_in_base = f"not fitted: as in {base.name}; the rate grows with the sustained bandwidth"
    text = _with_values(text, {("memory", "queue"): _other(text, crossbar, "queue")}, as_in_base)
    if "contention" in as_read:
        rule = "follows from the latency and the queue (M/D/1)"
        text = _with_values(text, {("memory", "contention"): memory.contention.model_dump()}, rule)
    return _with_values(_with_table_of(text, path, base, as_read, memory), {(): {"name": path.stem}}, "of this file")


def _with_table_of(text: str, path: Path, base: Path, as_read: Mapping[str, Any], memory: Memory) -> str:
    """Returns the text of a chip file with the table of latencies of `base`: its place, and the latency that goes with it."""
    changed: dict[str, Any] = {}
    table = as_read.get("distribution", "")
    if is_beside(base, table) and path.parent.resolve() != base.parent.resolve():
        changed["distribution"] = _path_from(path.parent.resolve(), (base.parent / table).resolve())
    at = as_read.get("measured_latency_cycles", as_read["latency_cycles"])
    if memory.measured and at != memory.latency_cycles and "measured_latency_cycles" not in as_read:
        changed["measured_latency_cycles"] = at
    return _with_values(text, {("memory",): changed}, f"the table is that of {base.name}")


def _path_from(folder: Path, file: Path) -> str:
    """Returns the path of a file from a folder; the whole path where there is none, as on another drive."""
    try:
        return Path(os.path.relpath(file, folder)).as_posix()
    except ValueError:
        return file.as_posix()


def _other(text: str, values: Mapping[str, Any], table: str | None = None) -> dict[str, Any]:
    """Returns those of some values of [memory], or of a table in it, that differ from what a chip file says or what follows."""
    memory = complete(tomllib.loads(text))[0]["memory"]
    found = memory if table is None else memory.get(table, {})
    return {key: value for key, value in values.items() if found.get(key) != value}


def _values(queue: Queue) -> dict[str, Any]:
    """Returns the values of a table [memory.queue]; None for a key that it must not have."""
    return {"base_latency_cycles": None, **queue.model_dump()}  # the key is that of warpsim 0.1


def _with_values(text: str, tables: Mapping[tuple[str, ...], Mapping[str, Any]], note: str, *, restated: bool = False) -> str:
    """Returns a text of TOML with other values in some of its tables, with a comment. A value of None removes the key.

    A value that stays the same keeps its comment, unless it is `restated`.

    Raises:
        ValueError: a table is an inline one, which has no place for comments.
    """
    import tomlkit

    document = tomlkit.parse(text)
    for keys, values in tables.items():
        table: Any = document
        for key in keys:
            if key not in table:
                table[key] = tomlkit.table()
            table = table[key]
            if isinstance(table, tomlkit.items.InlineTable):
                place = ".".join(keys)
                raise ValueError(f"{place} = {{...}}: must be a table [{place}], whose lines have room for the sources of values")
        for key, value in values.items():
            old = table.get(key)
            if value is None:
                table.pop(key, None)
            elif old != value or restated:
                new = tomlkit.item(value)
                column = 0 if old is None else len(old.as_string()) + len(old.trivia.comment_ws)
                new.trivia.comment_ws, new.trivia.comment = " " * max(2, column - len(new.as_string())), f"# {_one_line(note)}"
                table[key] = new
    return tomlkit.dumps(document)


def _one_line(note: str) -> str:
    """Returns a comment in which no character of a file's name ends the line, or cannot be in a file of TOML."""
    return "".join(character if character.isprintable() else "?" for character in note)


def _write(file: Path, text: str) -> None:
    """Writes a chip file in one step."""
    gpu_of_file(tomllib.loads(text), file)
    write_text(file, text)
