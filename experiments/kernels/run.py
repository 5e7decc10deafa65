"""Do the kernels of V 3.10, of the talk VT and of Lemeire et al. behave on the simulated chips as on hardware?"""

from __future__ import annotations

import csv
from pathlib import Path

import examples
import talk
import tiles
from _tables import KINDS, count_within, markdown_table, replace_tables

from warpsim.views.plots import paper

HERE = Path(__file__).parent


def main(out: Path, *, full: bool) -> int:
    """Runs the three parts. Writes kernels.csv, three figures, and the tables of the page."""
    out.mkdir(parents=True, exist_ok=True)
    replicates = 8 if full else 2
    of_talk, of_tiles, of_examples = talk.simulate(replicates), tiles.simulate(replicates), examples.simulate(replicates)
    rows = [*talk.rows(of_talk), *tiles.rows(of_tiles), *examples.rows(of_examples)]
    with (out / "kernels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    tables = [rows, list(tiles.statements(of_tiles)), list(talk.today(replicates))]
    replace_tables(HERE / "README.md", "\n".join(markdown_table(table) for table in tables))
    with paper():
        talk.figure(of_talk).savefig(out / "talk.png", dpi=150)
        tiles.figure(of_tiles).savefig(out / "tiles.png", dpi=150)
        examples.figure(of_examples).savefig(out / "examples.png", dpi=150)
    for kind in KINDS:
        (within_5, count), (within_15, _) = count_within(rows, kind, 5), count_within(rows, kind, 15)
        print(f"{kind}: {count} numbers, {within_5} within 5 %, {within_15} within 15 %")
    return 0
