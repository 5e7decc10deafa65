"""Gives mutated inputs to the API and the command line, and prints every error that is not a documented one.

    python -m tests.support.fuzz NUMBER [KIND ...]

runs NUMBER cases of each kind, with 2 GB of memory besides what the libraries need. A documented error is raised on purpose: by
a `raise` of warpsim itself. The command line must end with exit code 0, 1 or 2.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import warpsim
from tests.support.cases import SMALL_GPU, small_gpu
from tests.support.mutations import EXTREMES, FLOATS, INTEGERS, TEXTS, mutated
from tests.support.small_plans import small_plan
from warpsim import cli
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Kernel, load_kernel
from warpsim.simulation.api import simulate_point
from warpsim.simulation.encode import encode
from warpsim.simulation.point import from_provenance as call_of
from warpsim.simulation.point import make_point, point_provenance
from warpsim.simulation.trace import Trace
from warpsim.sweeps.plan import Plan

GIGABYTES = 2
PACKAGE = str(Path(warpsim.__file__).parent)
KEPLER, MIX = load_gpu("kepler"), load_kernel("mix", alpha=4)
PROGRAM = {
    "name": "fuzz", "registers_per_thread": 16, "shared_bytes_per_block": 0, "inputs": ["r1", "r2"],
    "body": [
        {"op": "load", "dst": "r1", "src": ["r1"], "access": {"pattern": "stride", "stride": 2, "l1_hit": 0.0}},
        {"then": [{"op": "store", "src": ["r1"]}], "orelse": [{"op": "alu", "dst": "r2", "src": ["r1"]}], "probability": 0.5},
        {"op": "barrier"},
        {"op": "smem", "dst": "r2", "src": ["r2"], "ways": 4},
        {"trips": [2, 5], "body": [{"op": "alu", "dst": "r1", "src": ["r1", "r2"]}, {"op": "sfu", "dst": "r2", "src": ["r1"]}]},
        {"then": [{"op": "alu", "dst": "r1", "src": []}], "warps": [0, 3]},
    ],
}  # fmt: skip
PLAN = {
    "gpu": ["g80", "kepler"], "kernel": "mix", "alpha": [1, 8], "warps": [4, 8], "scheduler": ["lrr", "gto"], "replicates": 2,
    "sms": 1, "warmup": 0, "cycles": 400, "common": ["scheduler"], "gpu.alu.latency_cycles": [9, 10], "tile_points": 4,
    "seed": 7, "memory": "queue", "zip": {"size": ["alpha", "warps"]},
}  # fmt: skip
CALL = {"warps": 8, "block_warps": 4, "scheduler": "gto", "memory": "fixed", "replicates": 2, "seed": 3, "sms": 2, "warmup": 10,
        "cycles": 100}  # fmt: skip
LAUNCH = {"blocks": 10, "block_warps": 4, "resident_blocks": 2, "persistent": False}
TRACE = {"occupancy": 4, "warps": True, "issues": [0, 50], "states": True, "max_bytes": 10**6}


def a_chip(draw: Callable[[Any], Any]) -> None:
    gpu = Gpu.from_dict(draw(mutated(json.dumps(KEPLER.to_dict()))))
    encode_point(gpu, MIX)


def a_kernel(draw: Callable[[Any], Any]) -> None:
    data = draw(mutated(json.dumps(PROGRAM)))
    if isinstance(data, dict) and all(isinstance(key, str) for key in data):
        encode_point(KEPLER, Kernel(**data))


def encode_point(gpu: Gpu, kernel: Kernel, **call: Any) -> None:
    point = make_point(gpu, kernel, **call)
    point.streams()
    encode(point.gpu, point.kernel, point.launch, scheduler=point.scheduler, memory=point.memory, sms=point.sms)


def a_call(draw: Callable[[Any], Any]) -> None:
    call, launch, trace = (draw(mutated(json.dumps(valid))) for valid in (CALL, LAUNCH, TRACE))
    which = draw(st.integers(0, 2))
    if which == 0 and isinstance(call, dict):
        encode_point(KEPLER, MIX, **call)
    elif which == 1 and isinstance(launch, dict) and launch.keys() <= LAUNCH.keys():
        encode_point(KEPLER, MIX, launch=Launch(**{"block_warps": 4, **launch}))
    elif isinstance(trace, dict) and trace.keys() <= TRACE.keys():
        Trace(**trace)


def a_builder(draw: Callable[[Any], Any]) -> None:
    name = draw(st.sampled_from(["mix", "copy", "permute", "chain", "matrix_multiply", "vector_add"]))
    allowed = ["alpha", "ilp", "op", "pattern", "stride", "iterations", "ways", "random", "n", "unroll", "name"]
    arguments = draw(st.dictionaries(st.sampled_from(allowed), EXTREMES, max_size=2))
    encode_point(KEPLER, load_kernel(name, **arguments))


def a_plan(draw: Callable[[Any], Any]) -> None:
    settings = draw(mutated(json.dumps(PLAN)))
    if isinstance(settings, dict):
        plan = Plan(**settings)
        if plan.points < 1000:
            plan.layout()


class EnoughError(Exception):
    """A run has shown that it begins well."""


def a_run(draw: Callable[[Any], Any]) -> None:
    """Some hundred cycles of a small chip, as far as it is valid: the only kind that runs the engine."""
    gpu, kernel, call = (draw(mutated(json.dumps(valid), 2)) for valid in (SMALL_GPU, PROGRAM, CALL))
    which = draw(st.integers(0, 3))
    if not all(isinstance(value, dict) and all(isinstance(key, str) for key in value) for value in (gpu, kernel, call)):
        return
    point = make_point(
        Gpu.from_dict(gpu) if which == 0 else small_gpu(),
        Kernel(**kernel) if which == 1 else Kernel(**PROGRAM),
        **{**CALL, "sms": 1, **(call if which == 2 else {}), "replicates": 1, "cycles": 150, "warmup": 0},
    )
    end = time.monotonic() + 1.0

    def pause() -> None:
        if time.monotonic() > end:
            raise EnoughError

    with contextlib.suppress(EnoughError):
        simulate_point(replace(point, cycles=150), pause=pause)


POINT_TEXT = point_provenance(make_point(KEPLER, MIX, warps=8))
PLAN_TEXT = small_plan(gpu=["kepler"]).attributes()["provenance"]


def a_provenance(draw: Callable[[Any], Any]) -> None:
    if draw(st.booleans()):
        text = text_of(draw(mutated(POINT_TEXT)))
        read = lambda: make_point(**{name: value for name, value in call_of(text).items() if name != "trace"})  # noqa: E731
    else:
        text = text_of(draw(mutated(PLAN_TEXT)))
        read = lambda: Plan.from_provenance(text)  # noqa: E731
    read()


def text_of(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):  # the writer of a provenance has the limits of its own tools
        text = "[" * 100_000
    return text


STORE: list[Path] = []


def a_store(draw: Callable[[Any], Any]) -> None:
    """Somebody else's store: any metadata, with an inventory that agrees with it."""
    from warpsim.store.inventory import encoded, read_inventory
    from warpsim.store.place import place_of
    from warpsim.store.status import INVENTORY, tile_counts
    from warpsim.store.zarr_store import open_results, open_store
    from warpsim.sweeps.local import sweep
    from warpsim.sweeps.repair import verify

    if not STORE:
        STORE.append(Path(tempfile.mkdtemp()) / "out.zarr")
        sweep(small_plan(gpu="kepler", alpha=1, scheduler="lrr", warps=[4, 8]), STORE[0])
    path = STORE[0]
    files = read_inventory(place_of(path))
    assert files is not None
    key = "zarr.json" if draw(st.booleans()) else draw(st.sampled_from([key for key in files if key.endswith("zarr.json")]))
    content = text_of(draw(mutated(files[key].decode()))).encode()
    try:
        (path / key).write_bytes(content)
        (path / INVENTORY).write_bytes(encoded({**files, key: content}))
        verify(path)
        tile_counts(open_store(path, read_only=True).log)
        open_results(path)
    finally:
        (path / key).write_bytes(files[key])
        (path / INVENTORY).write_bytes(encoded(files))


def a_command(draw: Callable[[Any], Any]) -> None:
    """Options with any values; and files of chips, kernels and plans, in TOML, as far as TOML has such values."""
    text = st.sampled_from([*TEXTS, *map(str, INTEGERS[:30]), *map(str, FLOATS)])
    options = {"--warps": "8", "--block-warps": "4", "--replicates": "1", "--seed": "1", "--sms": "1", "--warmup": "0",
               "--cycles": "50", "--scheduler": "lrr", "--memory": "fixed", "--blocks": "2", "--set": "alpha=4"}  # fmt: skip
    chosen = {name: options[name] for name in draw(st.lists(st.sampled_from(list(options)), max_size=4, unique=True))}
    for name in draw(st.lists(st.sampled_from(list(options)), min_size=1, max_size=2)):
        chosen[name] = draw(text)
        if name == "--set":
            chosen[name] = f"{draw(st.sampled_from(['alpha', 'ilp', 'op', 'x']))}={chosen[name]}"
    given = [word for pair in chosen.items() for word in pair]
    command = ["advise", "--help"] if not given else ["plan", draw(text)]
    if draw(st.booleans()):
        command = ["occupancy"] if draw(st.booleans()) else ["simulate", "--gpu", draw(text), "--kernel", draw(text), *given]
    run_command(command)
    run_file(draw)


def run_file(draw: Callable[[Any], Any]) -> None:
    import tomlkit

    kind = draw(st.sampled_from(["gpu", "kernel", "plan"]))
    valid = {"gpu": KEPLER.to_dict(), "kernel": PROGRAM, "plan": PLAN}[kind]
    plain = json.loads(json.dumps(valid), object_hook=lambda table: {k: v for k, v in table.items() if v is not None})
    try:
        text = tomlkit.dumps(draw(mutated(json.dumps(plain))))
    except Exception:  # TOML has no such value
        text = draw(st.sampled_from(["x = " + "[" * 5000, "x = " + "{a=" * 5000, f"x = {'9' * 5000}", "x = 1e999", "\0", "= 1",
                                     "x = 0001-01-01T00:00:00+99:99", "[[a]]\n" * 5000, "[a" + ".a" * 5000 + "]"]))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file.toml"
        file.write_bytes(text.encode("utf-8", "replace"))
        if kind == "plan":
            Plan.from_toml(file)
        elif kind == "gpu":
            load_gpu(file)
        else:
            load_kernel(file)


def run_command(command: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            code = cli.main(command)
        except SystemExit as end:
            code = end.code
    assert code in (0, 2) or (code == 1 and said.getvalue()), (code, command)


KINDS = {
    "chip": a_chip, "kernel": a_kernel, "call": a_call, "builder": a_builder, "plan": a_plan, "provenance": a_provenance,
    "store": a_store, "command": a_command, "run": a_run,
}  # fmt: skip


def documented(error: BaseException) -> bool:
    """Whether warpsim raised an error on purpose."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return isinstance(error, ValueError | TypeError | RuntimeError) and frame.filename.startswith(PACKAGE) and "raise" in line


def failures(kind: str, number: int, start: int = 2016) -> dict[str, str]:
    """Runs cases of one kind. Returns the place and type of each undocumented error -> the end of its traceback."""
    found: dict[str, str] = {}

    @seed(start)
    @settings(
        max_examples=number, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def run(data: Any) -> None:
        try:
            KINDS[kind](data.draw)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            if "hypothesis" in frames[-1].filename or "hypothesis" in type(error).__module__:
                raise
            if not documented(error):
                own = next((frame for frame in reversed(frames) if frame.filename.startswith(PACKAGE)), frames[-1])
                where = f"{kind}: {os.path.relpath(own.filename, PACKAGE)}:{own.lineno} {own.name}: {type(error).__name__}"
                text = f"{str(error)[:200]}"
                found.setdefault(where, text)

    run()
    return found


def main(number: str, *kinds: str) -> int:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + GIGABYTES * 2**30,) * 2)
    code = 0
    for kind in kinds or KINDS:
        for where, text in failures(kind, int(number)).items():
            print(f"{where}: {text}")
            code = 1
    for path in STORE:
        shutil.rmtree(path.parent, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
