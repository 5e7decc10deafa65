"""Whatever is done to machine code or to what is stated with it, an import ends in a kernel or in the documented errors."""

import random
import warnings
from pathlib import Path

import pytest

import warpsim as ws
from warpsim.frontends import evaluate, listings

LISTINGS = [listings.folder() / f"{stem}.sm_{arch}.sass" for stem, arch in (("vector", 80), ("rows", 90), ("reduction", 75))]


def damaged(text, draw):
    """A listing with a few lines removed, doubled, exchanged, or with other characters or operands."""
    rows = text.splitlines()
    start = draw.randrange(len(rows))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(rows))
        change = draw.randrange(6)
        if change == 0:
            del rows[at : at + draw.randint(1, 5)]
        elif change == 1:
            rows.insert(at, rows[start % len(rows)])
        elif change == 2:
            other = draw.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        elif change == 3 and rows[at]:
            place = draw.randrange(len(rows[at]))
            rows[at] = rows[at][:place] + draw.choice("0123456789RUP[].,-x!@:` ") + rows[at][place + draw.randint(0, 2) :]
        elif change == 4:
            words = rows[at].split(", ")
            draw.shuffle(words)
            rows[at] = ", ".join(words)
        else:
            rows[at] = (
                rows[at]
                .replace("0x", "0xffff")
                .replace("IADD3", draw.choice(["LEA", "SHF", "PRMT", "BMSK", "LOP3.LUT", "ISETP.GE"]))
            )
        if not rows:
            break
    return "\n".join(rows)


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
            ws.kernels.from_sass(damaged(text, draw), draw.choice(names), **stated)
        except ValueError as error:
            assert str(error), seed


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(evaluate, "MAX_STEPS", 5000)


def test_damaged_listings_end_in_the_documented_errors():
    for seed in range(150):
        check(seed)


@pytest.mark.verify
def test_damaged_listings_end_in_the_documented_errors_at_length():
    for seed in range(1000, 11_000):
        check(seed)
