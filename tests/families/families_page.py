"""docs/reference/families.md, as runs of its cells say it: `python tests/families` writes it.

The page holds no word on what works that was not run: `test_families_page.py` runs the cells again and holds them
against it, and renders the page from what it says.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from family_files import FORMS, STORED, run_form
from family_probes import COLUMNS
from family_rows import ROWS, nested
from family_runs import Bench, Cell, Refusal

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "families.md"
WORKS = "✓"
Said = str
"""What a cell of the page says: WORKS, or the text of a refusal."""
Cells = Mapping[str, Mapping[str, Said]]
"""Cells by row and column."""
WRAPPERS = {"peft": "peft:DIR?base=", "debiased": "debiased:FILE?model="}
"""URIs that hold another model's."""
BASES = [key for key in ROWS if key.partition("-")[0] not in WRAPPERS] + ["peft-hf", "debiased-hf"]

_INTRODUCTION = """\
# Which probe with which model

<!-- Written by `python tests/families`; tests/families/test_families_page.py says when it is stale. -->

Every cell was run: a suite on a tiny model with random weights, in the format in which its library saves it, evaluated
as `fairgate check` does. ✓ means a finite number for every picture. A number is a refusal, whose text is below its
table; all of them are raised before a picture is read. How well a published checkpoint does, the page does not say.
"""


_SET_ASIDE = """\
## Settings that are not used

What the library would read of a folder, and fairgate does not. `tests/families/test_differential.py` holds fairgate's
numbers to the library's without the setting. A notice of the record names settings of decoding, and a safety checker.

| a folder's setting | what is judged |
| --- | --- |
| decoding of `vlm:` (sampling, beams, penalties, words that are forbidden or forced) | the likeliest token each time |
| a chat template of the language model of `captions:` | the URI's text |
| no processor_config.json of a BLIP-2 | as config.json implies |
| the safety checker of a pipeline, the watermark of an SDXL | pictures as they are painted |
| an image encoder of a Stable Diffusion; the class of its img2img | the text-to-image pipeline of the same parts |
| padding in the tokenizer.json of an OWL-ViT, longer than its texts | the padding of its config |
| a `sample_size` of two sides | squares of the longer one |
"""


@dataclass(frozen=True)
class Section:
    """A table of the page: titles by key, and what is said before it."""

    title: str
    said: str
    rows: Mapping[str, str]
    columns: Mapping[str, str]


SECTIONS: dict[str, Section] = {
    "probes": Section(
        "Probes",
        "[Models](../use/models.md) has the URIs, [probes](probes.md) has the settings.\n"
        "Models with fixed labels (classifier, timm, torchvision, onnx, features) need the suite's words among these;\n"
        "with `how: likelihood` also a label for the abstention.",
        {key: row.title for key, row in ROWS.items()},
        {key: f"{one.title}{f', {one.asked}' if one.asked else ''}" for key, one in COLUMNS.items()},
    ),
    "nested": Section(
        "A model in another one",
        "Adapters and mitigations have the URI of a model in theirs.",
        {key: ROWS[key].title for key in BASES},
        {key: f"`{form}`" for key, form in WRAPPERS.items()},
    ),
    "files": Section(
        "Files",
        "Weights as training leaves them. ✓ means the answers of the library's own file, or, of bfloat16, those of a\n"
        "file of float32 with the same rounded numbers. Pickles are read with `weights_only`, as tensors alone.",
        {key: f"`{one.title}`" for key, one in STORED.items()},
        {key: form.title for key, form in FORMS.items()},
    ),
}


def said(cell: Cell) -> Said:
    """A cell as the page shows it."""
    return cell.text if isinstance(cell, Refusal) else WORKS


def render(tables: Mapping[str, Cells]) -> str:
    """The page, from the cells of every section."""
    parts = [_INTRODUCTION, *_tried(), *(_section(one, tables[key]) for key, one in SECTIONS.items()), _SET_ASIDE]
    return "\n".join(parts)


def _section(section: Section, cells: Cells) -> str:
    notes: dict[str, int] = {}
    lines = [_line(["model", *section.columns.values()]), _line(["---", *[":-:"] * len(section.columns)])]
    for key, title in section.rows.items():
        lines.append(_line([title, *(_numbered(cells[key][column], notes) for column in section.columns)]))
    listed = [f"{number}. {text}" for text, number in notes.items()]
    return "\n".join([f"## {section.title}\n", section.said, "", *lines, "", *listed, ""])


def _numbered(text: Said, notes: dict[str, int]) -> str:
    return text if text == WORKS else f"{notes.setdefault(text, len(notes) + 1)}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tried() -> list[str]:
    kinds = {row.title: ", ".join(f"`{kind}`" for kind in row.kinds if kind) for row in ROWS.values()}
    lines = [_line([title, names]) for title, names in kinds.items() if names]
    return ["## Models that were tried\n", _line(["model", "kinds"]), _line(["---", "---"]), *lines, ""]


def read(page: str) -> dict[str, Cells]:
    """The cells of a page that `render` wrote."""
    return {key: _cells(page, section) for key, section in SECTIONS.items()}


def _cells(page: str, section: Section) -> Cells:
    part = page.partition(f"## {section.title}\n")[2].partition("\n## ")[0]
    notes = dict(re.findall(r"^(\d+)\. (.+)$", part, re.MULTILINE))
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    by_title = {title: [notes.get(cell, cell) for cell in cells] for title, *cells in lines}
    return {
        row: dict(zip(section.columns, by_title.get(title, []), strict=False)) for row, title in section.rows.items()
    }


def run_row(bench: Bench, key: str, kind: str | None = None) -> dict[str, Cell]:
    """A row of the first table."""
    return {column: bench.run(ROWS[key], column, kind) for column in COLUMNS}


def run_nested(bench: Bench, key: str, column: str) -> dict[str, Cell]:
    """A row of the second table, by a probe that the model in it answers."""
    uris = nested(key, bench.root)
    return {wrapper: bench.evaluate(uris[form], column) for wrapper, form in WRAPPERS.items()}


def answered(cells: Mapping[str, Said]) -> str:
    """The first probe that a model answers, by its row of the first table."""
    return next(column for column, cell in cells.items() if cell == WORKS)


def run() -> dict[str, Cells]:
    """Every cell, on the first kind of each row."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        probes = {key: _said(run_row(bench, key)) for key in ROWS}
        return {
            "probes": probes,
            "nested": {key: _said(run_nested(bench, key, answered(probes[key]))) for key in BASES},
            "files": {
                key: _said({name: run_form(bench, one, form) for name, form in FORMS.items()})
                for key, one in STORED.items()
            },
        }


def _said(cells: Mapping[str, Cell]) -> dict[str, Said]:
    return {column: said(cell) for column, cell in cells.items()}
