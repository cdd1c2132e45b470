"""docs/families.md, as runs of its cells say it: `python tests/families` writes it.

The page holds no word on what works that was not run: `test_families_page.py` runs the cells again and holds them
against it, and renders the page from what it says.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from family_probes import COLUMNS
from family_rows import ROWS
from family_runs import Bench, Cell, Refusal

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
WORKS = "✓"
Said = str
"""What a cell of the page says: WORKS, or the text of a refusal."""
Table = Mapping[str, Mapping[str, Said]]
"""Cells by row and column."""

_INTRODUCTION = """\
# Which probe with which model

<!-- Written by `python tests/families`; tests/families/test_families_page.py says when it is stale. -->

Every cell was run: a suite with this probe, on a tiny model with random weights in the format in which its library
saves it, evaluated as `fairgate check` does. ✓ means a finite number for every picture. A number is a refusal, whose
text is below; all of them are raised before a picture is read. How well a published checkpoint does, it does not say.
[models.md](models.md) says how a URI is written, [suite files](reference/suite.md) what a probe can be set to. Models
with fixed labels (classifier, timm, torchvision, features) need the suite's words among these; with `how: likelihood`
also a label for the abstention.

## Probes
"""


def said(cell: Cell) -> Said:
    """A cell as the page shows it."""
    return cell.text if isinstance(cell, Refusal) else WORKS


def render(table: Table) -> str:
    """The page."""
    notes: dict[str, int] = {}
    head = ["model", *(f"{one.title}{f', {one.asked}' if one.asked else ''}" for one in COLUMNS.values())]
    lines = [head, ["---", *[":-:"] * len(COLUMNS)]]
    for key, row in ROWS.items():
        cells = [_numbered(table[key][column], notes) for column in COLUMNS]
        lines.append([row.title, *cells])
    return "\n".join([_INTRODUCTION, *map(_line, lines), "", *_notes(notes), "", *_tried()]) + "\n"


def _numbered(text: Said, notes: dict[str, int]) -> str:
    return text if text == WORKS else f"{notes.setdefault(text, len(notes) + 1)}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _notes(notes: Mapping[str, int]) -> list[str]:
    return [f"{number}. {text}" for text, number in notes.items()]


def _tried() -> list[str]:
    lines = ["## Models that were tried", "", _line(["model", "tried on"]), _line(["---", "---"])]
    kinds = {row.title: ", ".join(f"`{kind}`" for kind in row.kinds if kind) for row in ROWS.values()}
    return [*lines, *(_line([title, names]) for title, names in kinds.items() if names)]


def read(page: str) -> Table:
    """The cells of a page that `render` wrote."""
    notes = dict(re.findall(r"^(\d+)\. (.+)$", page, re.MULTILINE))
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    by_title = {cells[0]: cells[1:] for cells in lines if len(cells) == len(COLUMNS) + 1}
    return {
        key: {
            column: cell if cell == WORKS else notes[cell]
            for column, cell in zip(COLUMNS, by_title[row.title], strict=True)
        }
        for key, row in ROWS.items()
        if row.title in by_title
    }


def run() -> Table:
    """Every cell, on the first model of each row."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        return {key: {column: said(bench.run(row, column)) for column in COLUMNS} for key, row in ROWS.items()}
