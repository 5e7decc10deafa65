"""What-if: a chip or a kernel with single fields changed, checked as its file would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsim.gpu import Gpu, GpuFileError
from warpsim.kernels import Kernel
from warpsim.residency import InvalidPoint

_KERNEL_FIELDS = ("registers_per_thread", "shared_bytes_per_block")


def changed_gpu(gpu: Gpu, fields: Mapping[str, Any]) -> Gpu:
    """The chip with fields changed.

    Args:
        gpu: a chip; the changed one keeps its name.
        fields: dotted key after "gpu." -> value, with the keys of a chip's file; "alu.latency_cycles" is short
            for "ops.alu.latency_cycles".

    Raises:
        InvalidPoint: it would be no chip: a key is unknown, a value is not allowed, or contradicts another; the message
            names key and value.
    """
    if not fields:
        return gpu
    data = gpu.to_dict()
    for key, value in fields.items():
        _set(gpu, data, _path(key), value)
    what = ", ".join(f"gpu.{key} = {value!r}" for key, value in fields.items())
    try:
        return Gpu.from_dict(data, source=f"{what} on {gpu.name}")
    except GpuFileError as error:
        raise InvalidPoint(str(error)) from None


def changed_kernel(kernel: Kernel, fields: Mapping[str, Any]) -> Kernel:
    """The kernel with other resources.

    Args:
        kernel: a kernel; the changed one keeps its name.
        fields: `registers_per_thread` or `shared_bytes_per_block` -> value.

    Raises:
        ValueError: another field, or a value that is not allowed.
    """
    if not fields:
        return kernel
    wrong = [name for name in fields if name not in _KERNEL_FIELDS]
    if wrong:
        raise ValueError(f"kernel.{wrong[0]}: must be one of {', '.join(f'kernel.{name}' for name in _KERNEL_FIELDS)}")
    values = {name: getattr(kernel, name) for name in type(kernel).model_fields}
    try:
        return type(kernel)(**{**values, **fields})
    except ValueError as error:
        what = ", ".join(f"kernel.{name} = {value!r}" for name, value in fields.items())
        raise ValueError(f"{what}: {error}") from None


def _path(key: str) -> list[str]:
    keys = key.split(".")
    return keys if keys[0] in Gpu.model_fields else ["ops", *keys]


def _set(gpu: Gpu, data: dict[str, Any], path: list[str], value: Any) -> None:
    if path[0] == "name":
        raise InvalidPoint(f"gpu.name = {value!r}: a changed chip keeps its name")
    if path[0] == "ops" and len(path) > 1 and path[1] not in gpu.ops:
        raise InvalidPoint(f"gpu.{'.'.join(path)}: {gpu.name} has no operation class {path[1]}; it has {', '.join(gpu.ops)}")
    *folders, last = path
    for folder in folders:
        inner = data.get(folder)
        if not isinstance(inner, dict):
            raise InvalidPoint(f"gpu.{'.'.join(path)}: {gpu.name} has no such field")
        data = inner
    data[last] = value
