"""CUDA sources to machine code: with the headers of CUDA and those beside the source, and without what only the host needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from warpsim.frontends.errors import CompileError, FrontEndError, NoKernelError, warn
from warpsim.frontends.launch.parameters import declared_in_source, types_in_source
from warpsim.frontends.machine_code.cubin import Parameter
from warpsim.frontends.machine_code.nvdisasm import disassemble
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.structures import may_have_structures, with_members
from warpsim.frontends.machine_code.symbols import pick_function, plain_name
from warpsim.frontends.sources.cuda_headers import decoded, included
from warpsim.frontends.sources.host_code import macros_of, without_host_code, without_text
from warpsim.frontends.sources.instances import kernel_templates, named_instances, namespaces_used, template_parameters
from warpsim.frontends.sources.nvrtc import compile_apart, compile_instances

_BY_ITSELF = "cuda_runtime.h", "stdint.h", "math.h", "limits.h", "algorithm"
"""Headers that nvcc includes by itself, or that many headers of the C++ library include."""

_WORDS = "-D__asm__=asm", "-D__volatile__=volatile", "-D__inline__=inline", "-D__extension__=", "-D__linux__=1", "-Dregister="
"""Words of other compilers, and of older C++, that nvcc knows, too, on Linux."""

_INTEGERS = ("--device-int128",) if sys.platform == "linux" else ()
"""The option with which there are integers of 128 bits, which nvcc has by itself where the compiler of the host has them."""

_ALL_FOR_DEVICE = "-default-device", "-w", *_INTEGERS, *_WORDS, *(f"-include={name}" for name in _BY_ITSELF)
"""Options with which what has no annotation is device code, not warned of, and these words and headers are there."""

_FOR_DEBUGGERS = "--device-debug"
"""The option with which the compiler tells the members of structures."""

_REFERENCES = "texture_references.h"
"""The header for texture references."""

_BY_NAME = {
    "cuda_fp16.h": re.compile(r"\b(?:__)?half2?\b"),
    "cuda_bf16.h": re.compile(r"\b(?:__)?nv_bfloat162?\b"),
    "iosfwd": re.compile(r"\bstd::[io]stream\b"),
    "limits": re.compile(r"\bstd::numeric_limits\b"),
    _REFERENCES: re.compile(r"\btexture\s*<"),
    "thrust/pair.h": re.compile(r"\bthrust::(?:make_)?pair\b"),
    "thrust/tuple.h": re.compile(r"\bthrust::(?:make_)?tuple\b"),
    "tuple": re.compile(r"\bstd::(?:(?:make_)?tuple|tie)\b"),
    "type_traits": re.compile(
        r"\bstd::(?:is_|aligned_storage|enable_if|conditional|decay|remove_|add_|make_(?:un)?signed|common_type|underlying_type|void_t"
        r"|integral_|true_type|false_type)"
    ),
}
"""Headers that those of other libraries bring, or that CUDA had, and the names that tell so."""

_OF_FOLDER = re.compile(r"(?:-I ?|--include-path[= ])(.+)")
"""An option that names a folder of headers."""

_BEFORE_OTHERS = "-I", "--include-path", "-D", "--define-macro"
"""Options that may stand before what they name."""

_ERROR = re.compile(r"(?:^|: )([^:\n]+)\((\d+)\): (error: .*)", re.MULTILINE)
"""An error in a log of NVRTC: file, line, message."""

_NAMES = "__nv_name_map"
"""The file to which NVRTC's errors belong where it does not find an instance that is asked for."""

_NO_INSTANCE = re.compile(r"^\s*#pragma nv_mangled_name (.+)$", re.MULTILINE)
"""The line that a log of NVRTC cites for an instance whose arguments it does not know."""

_CALL = re.compile(r"([A-Za-z_]\w*)[ \t]*\(")
"""A call of a macro at the beginning of a line, where those at file level stand."""

_NOT_THERE = re.compile(r'cannot open source file "([^"\n]+)"')
"""What a log of NVRTC says of a header that it is not given."""

_UNKNOWN = re.compile(r'error: (?:identifier "(\w+)" is undefined|(?:class template )?"?(\w+)"? is not a template)')
"""What a log of NVRTC says of a name that is not declared."""

_ELSEWHERE = re.compile(r"Unresolved extern function '(\w+)'")
"""What a log of NVRTC says of a function that another file defines."""

_MARK = re.compile(r"\s(?:[^\n()]*\s)?__global__[^()]*$")
"""What a macro stands for that marks kernels, and has no parameters."""

_LAMBDA = re.compile(r"\]\s*(?:__host__\s+)?__device__\s*(?:__host__\s*)?[({]")
"""The beginning of a lambda for the device, behind what it captures."""

_OF_LAMBDA = (
    "; no instance for a lambda can be asked for, as the type of a lambda has no name: pass a functor with a name in its place "
    "(struct F with an operator()), and name that instance, such as 'f<F>'"
)

_NO_CONSTANT = re.compile(r"error: (?:dynamic initialization is not supported|expression must have a constant value)")
"""What a log of NVRTC says of a constant that it does not compute."""

_CONSTANT = re.compile(r"^((?:static\s+)?)const(?=\s+(?:float|double)\s+\w+\s*=)", re.MULTILINE)
"""The word of a constant at file level that may be computed from others; locals stand indented."""

_MOST_LINES = 8
"""Lines that are left out and that a message names, at most."""

_OF_HOST = "NVRTC compiles device code only; a cubin of nvcc can be imported in place of the source"


def compiled_source(
    text: str, name: str, arch: str, function: str | None, defines: Mapping[str, int] | None, options: Sequence[str]
) -> MachineFunction:
    """Returns a kernel of a source; `name` is the path of its file, or empty.

    NVRTC compiles the source as it is. If it refuses that, it compiles it without what is for the host, and with the instances of
    templates that the host names, as far as they are constants; and without other declarations that it refuses, such as
    variables of types of a library, unless they are annotated for the device.
    """
    options = _joined(options)
    short, folder = (Path(name).name, Path(name).parent) if name else ("source.cu", None)
    toolkit, wanted = _toolkit_headers(), [function] if function and "<" in function else []
    folders = [Path(one[1]) for one in map(_OF_FOLDER.match, options) if one]
    flags = ["-lineinfo", *(f"--include-path={each}" for each in toolkit)]

    def kernel_of(source: str, options: Sequence[str], headers: Mapping[str, bytes], instances: Sequence[str]) -> MachineFunction:
        what: dict[str, Any] = {"defines": defines, "headers": headers, "instances": instances}
        cubin, symbols = compile_instances(source, short, arch, options=options, **what)
        sources, functions = [text, *map(decoded, headers.values())], dict[str, MachineFunction]()
        try:
            functions = disassemble(cubin, short)
            found = pick(functions, symbols.get(function, function) if function else None, short)
        except FrontEndError as error:
            raise _with_templates(error, function, sources, {plain_name(symbol) for symbol in functions}) from None
        if function is None and (others := sorted(kernel_templates([text]).keys() - set(map(plain_name, functions)))):
            without = f"apart from templates of which host code names no instance with constants: {', '.join(others)}"
            warn(short, [f"{plain_name(found.name)} is the only kernel, {without}"])
        named = named_parameters(found, sources)
        if named is found and folders:  # a header of theirs may declare it, or bring a macro that does
            sources += map(decoded, included(text, folder, folders, toolkit).texts.values())
            named = named_parameters(found, sources)
        found, name = named, plain_name(found.name)
        types = [kind for each in sources for kind in types_in_source(each, name)]
        if found.variables or may_have_structures(found, types, sources):
            with suppress(FrontEndError):  # their members, and the types of variables, stay unknown
                return with_members(found, compile_apart(source, short, arch, options=[*options, _FOR_DEBUGGERS], **what))
        return found

    beside = {} if folder is None else {path.name: path.read_bytes() for path in sorted(folder.glob("*.cuh"))}
    with suppress(CompileError):
        here = [] if folder is None else [f"--include-path={folder}"]
        return kernel_of(text, [*flags, *options, *here], beside, wanted)
    flags = [*_ALL_FOR_DEVICE, *flags, *(option for option in options if not _OF_FOLDER.match(option))]
    refused: dict[str, dict[int, str]] = {}
    asked: list[str] = []
    given, failure, folds = None, "", False
    while True:
        headers = included(text, folder, folders, toolkit, refused, asked)
        of_device, of_host = without_host_code(text, headers.macros, refused.get(short, ()))
        if folds:
            of_device = _CONSTANT.sub(r"\1constexpr", of_device)
        device_code = [of_device, *map(decoded, headers.texts.values())]
        has_kernels, all_host = any("__global__" in each for each in device_code), f"{headers.of_host}\n{of_host}"
        if failure and (given == (of_device, headers) or not has_kernels):
            hints = [*_what_was_left_out(refused, failure, headers.missing, all_host), *_where_it_is_included(folder, short)]
            hints += [] if has_kernels else [f"there is no kernel (__global__) in {short} or its headers"]
            raise CompileError("\n".join([failure, *hints])) from None
        given = of_device, headers
        macros = {**headers.macros, **macros_of(text)}
        instances = _instances(function, kernel_templates(device_code), all_host, macros, device_code)
        names = "".join(f"\nusing namespace {space};" for space in namespaces_used(all_host, device_code))
        brought = [f"-include={name}" for name, use in _BY_NAME.items() if any(use.search(each) for each in device_code)]
        compiled = partial(kernel_of, of_device + names, [*brought, *flags], headers.texts)
        try:
            found = compiled(instances) if wanted else _with_instances(compiled, instances)
        except NoKernelError as error:
            named = f"; host code names {', '.join(instances[:_MOST_LINES])}, not all with constants" if instances else ""
            raise NoKernelError(f"{error}{named}") from None
        except CompileError as error:
            failure = str(error)
            if wanted and {file for file, _, _ in _ERROR.findall(failure)} == {_NAMES}:
                what = f"function = {function!r}: is no instance of a kernel's template in {short}"
                raise CompileError(f"{what}{_templates_there(device_code)}\n{failure}") from None
            if not_there := _NOT_THERE.findall(failure):
                asked += not_there
            elif _NO_CONSTANT.search(failure) and not folds:
                folds = True
            else:
                _note_refusals(refused, failure, headers.whole)
                _note_calls_alike(refused.get(short, {}), text, macros)
        else:
            warn(short, _assumptions(headers.missing, refused, brought))
            return found


def _joined(options: Sequence[str]) -> list[str]:
    """Returns options of which those that stand before their folder or macro, such as "-I", are one with it."""
    found: list[str] = []
    for option in options:
        if found and found[-1] in _BEFORE_OTHERS:
            found[-1] += ("=" if found[-1].startswith("--") else "") + option
        else:
            found.append(option)
    return found


def _with_templates(error: FrontEndError, function: str | None, sources: Sequence[str], there: Collection[str]) -> FrontEndError:
    """Returns the error that a kernel is not there, with the templates that are, and what to do if a lambda is their argument.

    `there` are the names of the kernels that are there, without the arguments of templates.
    """
    templates = template_parameters(sources)
    has_none = isinstance(error, NoKernelError)
    is_for_lambda = templates and (has_none or function in templates) and any(map(_LAMBDA.search, sources))
    if function in templates and function not in there and not (has_none or is_for_lambda):
        what = f"function = {function!r}: is a template, and host code names no instance with constants"
        how = f"name one, such as '{function}<{', '.join(map(_example, templates[function]))}>'"
        kernels = f"; functions there: {', '.join(sorted(there))}" if there else ""
        return FrontEndError(f"{what}: {how} of {_declared(function, templates[function])}{kernels}")
    message = f"{error}{_OF_LAMBDA if is_for_lambda else ''}"
    if function is None and not has_none and (others := {name: templates[name] for name in templates if name not in there}):
        return type(error)(f"{message}; or an instance of a template: {_listed(others)}")
    return type(error)(message + (_templates_there(sources) if has_none and templates else ""))


def _templates_there(sources: Iterable[str]) -> str:
    """Returns the templates of kernels in some texts, for a message."""
    return f"; templates there: {_listed(template_parameters(sources)) or 'none'}"


def _listed(templates: Mapping[str, Sequence[str]]) -> str:
    """Returns templates with their parameters, as many as a message names."""
    found = [_declared(name, parameters) for name, parameters in sorted(templates.items())]
    more = f" and {len(found) - _MOST_LINES} more" if len(found) > _MOST_LINES else ""
    return ", ".join(found[:_MOST_LINES]) + more


def _declared(name: str, parameters: Sequence[str]) -> str:
    return f"{name}<{', '.join(parameters)}>"


def _example(parameter: str) -> str:
    """Returns an argument that a parameter of a template can have: of one that is neither a type nor a number, its own name."""
    kind = parameter.partition("=")[0].split()
    if kind[0] in ("class", "typename"):
        return "float"
    if kind[0] == "bool":
        return "true"
    of_numbers = {"int", "unsigned", "long", "short", "char", "size_t", "uint32_t", "int32_t", "uint64_t", "int64_t", "const"}
    return "128" if {*kind[:-1]} <= of_numbers else kind[-1]


def _instances(
    function: str | None, kernels: Mapping[str, str], of_host: str, macros: Mapping[str, str], device_code: Sequence[str]
) -> list[str]:
    """Returns the instances of templates that are compiled, too: the one that is wanted, or those of the host.

    A kernel that is wanted and is no template needs none.
    """
    name, bracket, arguments = (function or "").partition("<")
    if bracket:
        return [f"{kernels.get(name, name)}<{arguments}"]
    name = name.rpartition("::")[2]
    if name and name not in kernels and any(declared_in_source(text, name) for text in device_code):
        return []
    return named_instances(of_host, {name: kernels[name]} if name in kernels else kernels, macros)


def _note_refusals(refused: dict[str, dict[int, str]], failure: str, whole: Collection[str]) -> None:
    """Notes which lines NVRTC refuses; or only that it refuses headers that are whole, as what else it refuses may follow."""
    errors = _ERROR.findall(failure)
    of_whole = {file for file, _, _ in errors if file in whole}
    for file in of_whole:
        refused[file] = {}
    for file, line, message in errors if not of_whole else ():
        refused.setdefault(file, {}).setdefault(int(line), message)


def _note_calls_alike(refused: dict[int, str], text: str, macros: Mapping[str, str]) -> None:
    """Notes the other calls at file level of a macro of which NVRTC refuses one, as it may name one at a time."""
    calls = {number: one[1] for number, line in enumerate(text.split("\n"), 1) if (one := _CALL.match(line)) and one[1] in macros}
    why = {calls[line]: message for line, message in refused.items() if line in calls}
    for line, macro in calls.items():
        if macro in why:
            refused.setdefault(line, why[macro])


def _assumptions(missing: Sequence[str], refused: Mapping[str, Mapping[int, str]], options: Sequence[str]) -> Iterator[str]:
    """Yields what was assumed of a source: headers that are missing, lines that NVRTC refuses, and references as objects."""
    if f"-include={_REFERENCES}" in options:
        yield "texture references, which CUDA has had no longer since version 12, are taken as texture objects"
    if of_kernels := [name for name in missing if not name.startswith("sys/")]:
        yield f"headers that are not there are taken as empty: {', '.join(of_kernels)}"
    if places := [f"{file}:{line}" for file, lines in refused.items() for line in sorted(lines)]:
        more = f" and {len(places) - _MOST_LINES} more" if len(places) > _MOST_LINES else ""
        yield f"what NVRTC refuses, and the kernel does not need, is left out: {', '.join(places[:_MOST_LINES])}{more}"


def _with_instances(kernel_of: Callable[[Sequence[str]], MachineFunction], instances: Sequence[str]) -> MachineFunction:
    """Returns a kernel that is compiled with those instances of templates that are constant, or without any."""
    try:
        return kernel_of(instances)
    except CompileError as error:
        unknown = {"".join(one.split()) for one in _NO_INSTANCE.findall(str(error))}
        known = [one for one in instances if "".join(one.split()) not in unknown]
        if len(known) < len(instances):
            return _with_instances(kernel_of, known)
        if instances:  # what is wrong may be in another kernel than the one that is wanted
            with suppress(FrontEndError):
                return kernel_of([])
        raise


def _what_was_left_out(
    refused: Mapping[str, Mapping[int, str]], failure: str, missing: Sequence[str], of_host: str
) -> Iterator[str]:
    """Yields what a message says beside the log of NVRTC: what was left out, and what there is to do."""
    left_out = [f"{file}({line}): {text}" for file, lines in refused.items() for line, text in lines.items()]
    if before := [one for one in left_out if one not in failure]:
        yield f"refused before, and left out: {'; '.join(before[:_MOST_LINES])}"
    if has_constants := any(map(_NO_CONSTANT.search, left_out)):
        yield "NVRTC does not compute all constants that nvcc does: write their values, or make them macros (-D)"
    if missing:
        how = "; those of cuRAND come with pip install nvidia-curand" if any(map(_is_of_curand, missing)) else ""
        yield f"headers that are not there, and were taken as empty (-I names their folder): {', '.join(missing)}{how}"
    if outside := {plain_name(symbol): None for symbol in _ELSEWHERE.findall(failure)}:
        yield f"defined in another file, which this one must include: {', '.join(outside)}"
    host, unknown = without_text(of_host), dict.fromkeys(name or template for name, template in _UNKNOWN.findall(failure))
    named = [] if has_constants else [name for name in unknown if re.search(rf"\b{name}\b(?!\s*<<<)", host)]
    if named:
        how = "__device__ marks what kernels need"
        yield f"named in what seems to be for the host, and was left out: {', '.join(named[:_MOST_LINES])}; {how}"
    if of_host or missing:
        yield _OF_HOST


def _is_of_curand(header: str) -> bool:
    return header.startswith("curand")


def _where_it_is_included(folder: Path | None, name: str) -> Iterator[str]:
    """Yields that another source in the folder includes this one, which may need what stands before it there."""
    for path in () if folder is None else sorted(folder.glob("*.cu")):
        if re.search(rf'#[ \t]*include[ \t]*"(?:\./)?{re.escape(name)}"', decoded(path.read_bytes())):
            yield f"{path.name} includes {name}: import that file, if this one needs what stands before it there"
            return


def named_parameters(function: MachineFunction, sources: Iterable[str]) -> MachineFunction:
    """Returns a function whose parameters have the names and types that a CUDA source gives them, if one of them declares it."""
    name, sources = plain_name(function.name), list(sources)
    marks = [word for each in sources for word, text in macros_of(each).items() if _MARK.match(text)]
    is_mark = re.compile(rf"\b(?:{'|'.join(marks)})\b(?=[^\n]*\b{re.escape(name)}\b)") if marks else None
    for source in sources:
        source = is_mark.sub("__global__", source) if is_mark else source
        declared = declared_in_source(source, name) if "__global__" in source else ()
        if declared and len(declared) == len(function.parameters):
            named = (Parameter(one.offset, one.size, *facts) for one, facts in zip(function.parameters, declared, strict=True))
            return replace(function, parameters=tuple(named))
    return function


def pick(functions: Mapping[str, MachineFunction], wanted: str | None, where: str) -> MachineFunction:
    """Returns the function that is wanted, by its name, or the only one; `where` is where they are, for messages."""
    return functions[pick_function(list(functions), wanted, where)]


def _toolkit_headers() -> list[Path]:
    """Returns the folders of CUDA's headers, such as cuda_fp16.h, mma.h and cuda/pipeline, of the wheels that are installed."""
    wheels = find_spec("nvidia")
    places = (wheels.submodule_search_locations or ()) if wheels else ()
    folders = [path for place in places for path in sorted(Path(place).glob("*/include"))]
    return [path for folder in folders for path in (folder, folder / "cccl") if path.is_dir()]
