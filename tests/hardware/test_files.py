"""Parameter files: how they are found, and the lines for their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Discriminator, Tag, ValidationError, model_validator

from warpsim.hardware.fields import FROM_LIST, Count, Positive, StrictModel
from warpsim.hardware.file_errors import ParamsFileError, format_value, problems
from warpsim.hardware.files import list_names, params_dir, read_toml, resolve


class Circle(StrictModel):
    radius: Positive


class Box(StrictModel):
    sides: Annotated[tuple[Count, ...], FROM_LIST]
    lid: Circle | None = None

    @model_validator(mode="after")
    def _two_sides(self) -> Box:
        if len(self.sides) != 2:
            raise ValueError(f"sides = {list(self.sides)}: must be two")
        return self


Shape = Annotated[
    Annotated[Circle, Tag("circle")] | Annotated[Box, Tag("box")],
    Discriminator(lambda value: "circle" if "radius" in value else "box"),
]


class Drawing(StrictModel):
    colour: Literal["red", "green"]
    by_name: dict[str, Circle]
    shapes: Annotated[tuple[Shape, ...], FROM_LIST] = ()
    done: bool = False


def lines(data: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        Drawing.model_validate(data)
    error = ParamsFileError("file", problems(Drawing, caught.value))
    assert str(error) == "\n".join(error.errors)
    return [line.removeprefix("file: ") for line in error.errors]


def test_every_kind_of_error_has_its_line() -> None:
    shapes = [{"radius": 0}, {"sides": [1, "2"]}, {"sides": [1]}, {"sides": [1, 2], "lid": {"radios": 1}}, {"sides": 3}]
    assert lines({"by_name": {"a": 3, "b": {"radius": "1"}}, "shapes": shapes, "done": 1}) == [
        "colour is missing: must be 'red' or 'green'",
        "by_name.a = 3: must be a table of radius",
        'by_name.b.radius = "1": must be a number from 0.001 to 1e9',
        "shapes[0].radius = 0: must be a number from 0.001 to 1e9",
        'shapes[1].sides[1] = "2": must be an integer from 1 to 1000000',
        "shapes[2].sides = [1]: must be two",
        "shapes[3].lid.radius is missing: must be a number from 0.001 to 1e9",
        "shapes[3].lid.radios = 1: unknown key, did you mean 'radius'?; allowed here: radius",
        "shapes[4].sides = 3: must be a list",
        "done = 1: must be true or false",
    ]


def test_tables_and_lists_are_described() -> None:
    assert lines({"colour": "blue", "by_name": [], "shapes": "all", "size": 1}) == [
        "colour = \"blue\": must be 'red' or 'green'",
        "by_name = []: must be a table",
        'shapes = "all": must be a list',
        "size = 1: unknown key; allowed here: colour, by_name, shapes, done",
    ]


def test_long_values_are_cut() -> None:
    assert format_value("x" * 58) == '"' + "x" * 58 + '"'
    assert format_value("x" * 59) == '"' + "x" * 56 + "..."
    assert format_value({"a": [1, None]}) == '{"a": [1, null]}'


def test_names_and_paths(tmp_path: Path) -> None:
    assert "kepler" in list_names("gpus")
    assert resolve("gpus", "kepler") == params_dir() / "gpus" / "kepler.toml"
    file = tmp_path / "kepler.toml"
    with pytest.raises(ValueError, match="there is no file"):
        resolve("gpus", file)
    file.write_text("a = 1")
    assert resolve("gpus", str(file)) == file
    assert read_toml(file) == {"a": 1}
    file.write_bytes(b"\xff")
    with pytest.raises(ParamsFileError, match="not a TOML file"):
        read_toml(file)
    with pytest.raises(ValueError, match=r"there is no file cuda/softmx, did you mean 'cuda/softmax'\?"):
        resolve("kernels", "cuda/softmx")


def test_a_file_of_another_kind_is_no_unknown_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.cu").write_text("")
    with pytest.raises(ValueError, match=r"kernels: mine.cu is no .toml file; `warpsim import` makes one of CUDA"):
        resolve("kernels", "mine.cu")
    for name in ("./mine.cu", tmp_path / "mine.cu"):
        with pytest.raises(ValueError, match=r"kernels: .*mine.cu is no .toml file; `warpsim import` makes one of CUDA"):
            resolve("kernels", name)
    with pytest.raises(ValueError, match=r"gpus: mine.cu is no .toml file$"):
        resolve("gpus", "mine.cu")
