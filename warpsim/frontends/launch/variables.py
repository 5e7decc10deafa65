"""Variables in constant memory: the values that arguments of their names give, or that the source gives at the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warpsim.frontends.launch.parameters import address_of, bytes_of, is_pointer, listed, parameters_of
from warpsim.frontends.machine_code.cubin import NUMBER, NUMBER_SIZES, Variable
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.symbols import plain_name

_Arguments = Mapping[str | int, float] | Sequence[float | None]

_FIRST_ARRAY = 1 << 16
"""The number of the array to which the first variable would point; those of parameters are before, those of the device behind."""


def with_values(function: MachineFunction, arguments: _Arguments) -> tuple[MachineFunction, _Arguments]:
    """Returns a kernel whose variables have the values that arguments by name give, and the other arguments.

    A parameter of the same name goes before. Pointers that are not given take addresses of their own.

    Raises:
        FrontEndError: a value does not fit.
    """
    variables = [
        replace(one, value=address_of(number)) if is_pointer(one) and not one.value else one
        for number, one in enumerate(function.variables, _FIRST_ARRAY)
    ]
    if not isinstance(arguments, Mapping):
        return replace(function, variables=tuple(variables)), arguments
    parameters = {one.name for each in parameters_of(function)[1] for one in (each, *each.members)}
    places = {name: place for place, one in enumerate(variables) if (name := plain_name(one.name)) not in parameters}
    others = {key: value for key, value in arguments.items() if key not in places}
    for key in arguments.keys() - others.keys():
        variable = variables[places[str(key)]]
        variables[places[str(key)]] = replace(variable, value=bytes_of(key, arguments[key], variable))
    return replace(function, variables=tuple(variables)), others


def notes_of_variables(function: MachineFunction) -> tuple[str, ...]:
    """Returns, in words, which variables that the code reads are not known, as the host sets them."""
    unknown = [one for one in function.variables if not (one.value or _is_float(one))]
    if not unknown:
        return ()
    numbers = [plain_name(one.name) for one in unknown if one.size in NUMBER_SIZES]
    how = f"; give them as arguments, such as --args {numbers[0]}=number" if numbers else ""
    return (f"the host sets variables in constant memory: {listed(plain_name(one.name) for one in unknown)}{how}",)


def initial_values(function: MachineFunction, arguments: _Arguments) -> tuple[str, ...]:
    """Returns, in words, which integers in constant memory are taken to keep the values that the source gives them."""
    given = arguments.keys() if isinstance(arguments, Mapping) else ()
    numbers = {plain_name(one.name): one for one in function.variables if one.size in NUMBER_SIZES and not _is_float(one)}
    kept = [
        f"{name}={int.from_bytes(one.value, 'little', signed=one.signed is not False)}"
        for name, one in numbers.items()
        if one.value and name not in given
    ]
    if not kept:
        return ()
    how = "those that the host sets have to be given as arguments"
    return (f"variables in constant memory are taken to keep the values that the source gives them: {listed(kept)}; {how}",)


def _is_float(variable: Variable) -> bool:
    return variable.kind == NUMBER and not variable.integer
