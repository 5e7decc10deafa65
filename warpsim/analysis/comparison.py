"""Comparison of all analytical models with the simulation of one kernel on one chip, over occupancy."""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr

from warpsim import models
from warpsim.analysis.advice import REPLICATES
from warpsim.arguments import InvalidPoint, choice, integer
from warpsim.hardware.gpu import Gpu, as_gpu
from warpsim.hardware.residency import resolve_launch
from warpsim.hardware.sections import MOST_SMS, SLICE_SMS
from warpsim.kernels import Kernel
from warpsim.kernels.files import as_kernel
from warpsim.kernels.iteration import stores_run_free
from warpsim.kernels.traversal import expected_executions
from warpsim.results import schema
from warpsim.simulation.api import builder_arguments, simulate_dataset
from warpsim.simulation.point import Point, free_stores, make_point
from warpsim.units import ACCESS_KINDS

__all__ = ["VARIANTS", "Comparison", "compare", "default_sms"]

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "volkov, refined": ("volkov", {"refined": True}),
    "add_or_overlap, add": ("add_or_overlap", {"times": "add"}),
    "cuda_guide, refined": ("cuda_guide", {"refined": True}),
    "huang, bandwidth": ("huang", {"bandwidth": True}),
}
"""Label of a variant -> a model and its arguments; every model is also compared with its defaults."""

_SHARED = ("scheduler", "block_warps")
"""Arguments of the simulation that are passed to the models that take them."""

_PREFERRED = ("load", "async_copy", "alu")
"""Operation classes whose throughput is compared first, where the caller does not say which."""

Answer = tuple[np.ndarray, list[str]]
"""Throughput and bottleneck of a model at each occupancy."""


@dataclass(frozen=True)
class Comparison:
    """Result of `compare`.

    Attributes:
        results: a Dataset with `throughput(replicate, warps)` of the simulation and `model_throughput(model, warps)`, both in
            ops/cycle/SM of the operation class `attrs["op"]`; `error(model, warps)`, relative to the mean of the simulation;
            `bottleneck(model, warps)` in the words of the model, or ""; `warp_iterations(replicate, warps)`, as `simulate` has
            it; and `provenance(warps)`, from which `from_provenance` repeats a simulation. Values are NaN where a model does
            not cover an occupancy.
        not_covered: model -> why it does not cover the kernel or the chip.
        notes: model -> its warnings, and the first occupancy that it does not cover.
    """

    results: xr.Dataset
    not_covered: dict[str, str]
    notes: dict[str, str]


def default_sms(gpu: Gpu, kernel: Kernel) -> int:
    """Returns how many SMs of a chip a comparison simulates, where the caller does not say: all of them if stores run free.

    A chip of up to MOST_SMS, which has no section, is simulated whole: a comparison runs each occupancy once. Advice runs many
    launches and changes, and simulates slices of such chips too (`warpsim.analysis.advice.quick`).
    """
    return SLICE_SMS if gpu.sms > MOST_SMS and not stores_run_free(kernel) else gpu.sms


def compare(
    gpu: Gpu | str | os.PathLike[str],
    kernel: Kernel | str | os.PathLike[str],
    *,
    warps: Sequence[int] | None = None,
    op: str | None = None,
    block_warps: int | None = None,
    **simulated: Any,
) -> Comparison:
    """Simulates a kernel at several occupancies, and evaluates every model there.

    Args:
        gpu: the chip, or its name or file.
        kernel: the program of every warp, or its name or file.
        warps: occupancies in warps per SM, ascending; left out, every multiple of the schedulers that fits.
        op: operation class whose throughput is compared; left out, the first of the kernel's classes among "load", "async_copy"
            and "alu", else in the order of the results.
        block_warps: warps of a block, for simulation and models; left out, as for `simulate`.
        simulated: further arguments of `simulate`, such as `replicates` and `scheduler`, and of the builder of a named kernel.
            Where `replicates` is left out, there are 4. Where `sms` is left out, a chip of more than 31 SMs is simulated by a
            slice of 8 of them; None is the whole chip.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an occupancy does not fit or occurs twice, the kernel does not issue `op`, or another argument's value is
            not allowed.
    """
    builder = builder_arguments(simulated)
    gpu, kernel = as_gpu(gpu), as_kernel(kernel, **builder)
    simulated = {"replicates": REPLICATES, **{name: value for name, value in simulated.items() if name not in builder}}
    if (sms := default_sms(gpu, kernel)) < gpu.sms:
        simulated = {"sms": sms, **simulated}
    op = _first_op(gpu, kernel) if op is None else choice("op", op, _issued(gpu, kernel))
    if warps is not None and not isinstance(warps, Iterable):
        raise TypeError(f"warps = {warps!r}: must be several numbers, such as [8, 16]")
    occupancies = _occupancies(gpu, kernel, block_warps) if warps is None else list(warps)
    for n in occupancies:
        integer("warps", n, 1, gpu.sm.max_warps, of=gpu.name)
    if not occupancies or sorted(set(occupancies)) != occupancies:
        raise ValueError(f"warps = {occupancies}: must be at least one number, ascending, each once")
    how = {name: simulated.pop(name) for name in ("threads", "trace", "engine") if name in simulated}
    points = [make_point(gpu, kernel, warps=n, block_warps=block_warps, **simulated) for n in occupancies]
    if wrong := free_stores(points[0]):
        logging.getLogger("warpsim").warning(wrong)
    runs = [simulate_dataset(point, **how) for point in points]
    axis = xr.Variable("warps", np.array(occupancies), schema.coordinate_attrs("warps"))
    throughput = xr.concat([run["throughput"].sel(op=op, drop=True) for run in runs], axis).transpose("replicate", "warps")
    idle = [n for n in occupancies if not bool(throughput.sel(warps=n).all())]
    if idle:
        cycles = simulated.get("cycles", Point.cycles)
        raise ValueError(f"cycles = {cycles}: must be larger, since no {op} issued at {idle[0]} warps")

    shared = {**simulated, "block_warps": block_warps}
    answers: dict[str, Answer] = {}
    not_covered: dict[str, str] = {}
    notes: dict[str, str] = {}
    for label, (name, arguments) in sorted({**{n: (n, {}) for n in models.NAMES}, **VARIANTS}.items()):
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                given = {**_shared_arguments(name, shared), **arguments}
                answers[label], refused = _ask_where_covered(models.load(name), gpu, kernel, occupancies, op, given)
        except ValueError as error:
            not_covered[label] = str(error)
            continue
        said = [*refused, *(str(one.message) for one in warned)]
        if said:
            notes[label] = "; ".join(dict.fromkeys(said))

    dims = ("model", "warps")
    shape = (len(answers), len(occupancies))
    rates = np.array([values for values, _ in answers.values()]).reshape(shape)
    bounds = np.array([words for _, words in answers.values()], dtype=object).reshape(shape)
    errors = rates / throughput.mean("replicate").values - 1
    origins = [str.__str__(run.attrs["provenance"]) for run in runs]  # the whole text; NumPy would store the printed line
    results = xr.Dataset(
        {
            "throughput": throughput.assign_attrs(runs[0]["throughput"].attrs),
            "warp_iterations": xr.concat([run["warp_iterations"] for run in runs], axis).transpose("replicate", "warps"),
            "provenance": ("warps", origins, {"long_name": "provenance of each simulation"}),
            "model_throughput": (dims, rates, {"units": "ops/cycle/SM", "long_name": "throughput by a model"}),
            "error": (dims, errors, {"units": "1", "long_name": "relative error of a model against the simulation"}),
            "bottleneck": (dims, bounds, {"units": "1", "long_name": "bound that binds"}),
        },
        coords={"model": ("model", schema.labels(list(answers)), schema.coordinate_attrs("model"))},
        attrs={"gpu": gpu.name, "kernel": kernel.name, "op": op},
    )
    return Comparison(results, not_covered, notes)


def _first_op(gpu: Gpu, kernel: Kernel) -> str:
    """Returns the class that is compared where none is named."""
    missing = [name for name in sorted(kernel.ops) if name not in gpu.ops]
    issued = missing or _issued(gpu, kernel)  # whoever makes the point says what the chip lacks
    if not issued:
        raise ValueError(f"kernel: {kernel.name}: must have an instruction other than exit, whose throughput is compared")
    return next(name for name in (*_PREFERRED, *issued) if name in issued)


def _issued(gpu: Gpu, kernel: Kernel) -> list[str]:
    return [name for name in schema.result_ops([gpu]) if name in kernel.ops and name != "exit"]


def _occupancies(gpu: Gpu, kernel: Kernel, block_warps: int | None) -> list[int]:
    """Returns the multiples of the schedulers that the chip can hold, in warps per SM."""
    found = []
    refused: InvalidPoint | None = None
    for warps in range(gpu.sm.schedulers, gpu.sm.max_warps + 1, gpu.sm.schedulers):
        try:
            resolve_launch(gpu, kernel, warps, block_warps)
        except InvalidPoint as error:
            refused = error
            continue
        found.append(warps)
    if refused is not None and not found:
        raise refused
    return found


def _shared_arguments(name: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the simulation that a model takes."""
    known = inspect.signature(models.load(name).throughput).parameters
    return {key: shared[key] for key in _SHARED if shared.get(key) is not None and key in known}


def _ask_where_covered(
    model: ModuleType, gpu: Gpu, kernel: Kernel, occupancies: list[int], op: str, arguments: Mapping[str, Any]
) -> tuple[Answer, list[str]]:
    """Returns the answer of a model, with NaN at occupancies that it does not cover, and its errors there.

    Raises:
        ValueError: the model covers none of the occupancies. Since the simulation has run, the arguments are right, and any
            ValueError of a model means that it does not cover the kernel.
    """
    try:
        return _ask(model, gpu, kernel, occupancies, op, arguments), []
    except ValueError:
        if len(occupancies) == 1:
            raise
    values, words, refused = np.full(len(occupancies), np.nan), [""] * len(occupancies), {}
    for place, n in enumerate(occupancies):
        try:
            (values[place],), (words[place],) = _ask(model, gpu, kernel, [n], op, arguments)
        except ValueError as error:
            refused[n] = error
    if len(refused) == len(occupancies):
        raise refused[occupancies[0]]
    return (values, words), [f"not at {n} warps: {error}" for n, error in refused.items()][:1]


def _share_of_class(kernel: Kernel, op: str) -> float:
    """Returns the share of an operation class in what models, to which all accesses are loads or stores, count as one class."""
    times: dict[str, float] = {}
    for one, count in expected_executions(kernel.body, kernel.block_warps):
        times[one.op] = times.get(one.op, 0.0) + count
    kind = ACCESS_KINDS.get(op, op)
    return times.get(op, 0.0) / sum(count for name, count in times.items() if ACCESS_KINDS.get(name, name) == kind)


def _ask(
    model: ModuleType, gpu: Gpu, kernel: Kernel, occupancies: list[int], op: str, arguments: Mapping[str, Any]
) -> Answer:
    """Returns the throughput and the bottleneck of a model at each occupancy."""
    found = model.throughput(gpu, kernel, warps=occupancies, **arguments)
    of_class = _share_of_class(kernel, op) * found["throughput"].sel(op=ACCESS_KINDS.get(op, op))
    values = of_class.broadcast_like(xr.DataArray(occupancies, dims="warps")).values
    if "bottleneck" in found:
        return values, [str(word) for word in np.broadcast_to(found["bottleneck"].values, len(occupancies))]
    bottleneck: Callable[..., Any] | None = getattr(model, "bottleneck", None)
    if bottleneck is None:
        return values, [""] * len(occupancies)
    known = inspect.signature(bottleneck).parameters
    given = {key: value for key, value in arguments.items() if key in known}
    if "warps" not in known:
        return values, [str(bottleneck(gpu, kernel, **given))] * len(occupancies)
    return values, [str(bottleneck(gpu, kernel, warps=n, **given)) for n in occupancies]
