"""Whatever is done to machine code or to what is stated with it, an import ends in a kernel or in the documented errors."""

import random
import warnings
from pathlib import Path

import pytest

import warpsim as ws
from tests.support.damage import damaged
from warpsim.frontends import listings
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.execution import evaluator

LISTINGS = [listings.folder() / f"{stem}.sm_{arch}.sass" for stem, arch in (("vector", 80), ("rows", 90), ("reduction", 75))]


def other_operands(rows, at, draw):
    """Other numbers and opcodes."""
    opcode = draw.choice(["LEA", "SHF", "PRMT", "BMSK", "LOP3.LUT", "ISETP.GE"])
    rows[at] = rows[at].replace("0x", "0xffff").replace("IADD3", opcode)


def other_brackets(rows, at, draw):
    """Operands with other brackets, bars and signs, or fewer operands."""
    places = [place for place, character in enumerate(rows[at]) if character in "[]|,.+-"]
    if places:
        place = draw.choice(places)
        rows[at] = rows[at][:place] + draw.choice(["", "[", "]", "|", "][", "-", "c["]) + rows[at][place + draw.randint(0, 1) :]


def check(seed):
    draw = random.Random(seed)
    text = Path(draw.choice(LISTINGS)).read_text(encoding="utf-8")
    names = [row.split()[1] for row in text.splitlines() if row.startswith(".function")]
    stated = {
        "launch": draw.choice([(16, 64), "8x8,32x2", ((3, 5, 2), (7, 3)), (1, 1024)]),
        "args": draw.choice([{}, {"columns": 512, "n": 4096}, (None, None, 100), {0: 3}]),
        "trips": draw.choice([{}, {5: 3}]),
        "patterns": draw.choice([{}, {30: "random", "12": 2}]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            others = [other_operands, other_brackets]
            listing = damaged(text, draw, characters="0123456789RUP[].,-x!@:` ", separator=", ", others=others)
            ws.kernels.from_sass(listing, draw.choice(names), **stated)
        except FrontEndError as error:
            assert str(error), seed


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(evaluator, "MAX_STEPS", 5000)


def test_damaged_listings_end_in_the_documented_errors():
    for seed in range(150):
        check(seed)


@pytest.mark.verify
def test_damaged_listings_end_in_the_documented_errors_at_length():
    for seed in range(1000, 11_000):
        check(seed)
