"""What people look at of a dataset: its card, which the Hugging Face hub reads too, and a sheet of a few sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fairgate.data.dataset import Dataset
from fairgate.data.manifest import Manifest
from fairgate.ground.errors import harmless
from fairgate.ground.markdown import literal, table
from fairgate.ground.pixels import UnreadableImage, decode

if TYPE_CHECKING:
    from PIL.Image import Image


_HUB_LICENCES = frozenset({"apache-2.0", "mit", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "unknown"})
_SIZES = [(10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M")]
SPLIT = "test"
"""What `datasets` calls a release's rows: they judge models, and train none."""
_REVIEW = "## Review"
_MOST_SUBJECTS = 100
_MOST_CELLS = 400


def dataset_card(manifest: Manifest, sections: Sequence[str] = (), files: str = "shard-*.parquet") -> str:
    """README.md of a dataset folder: YAML front matter for the hub, then prose, counts and how to load it.

    `sections` are Markdown (`## Review` ...), and come before the provenance. `files` are those that hold the rows.
    """
    parts = [
        f"---\n{_front_matter(manifest, files)}---",
        f"# {manifest.name} {manifest.version}",
        *([f"> **{_line(manifest.notice)}**"] if manifest.notice else []),
        *([manifest.about.strip().replace("<", "&lt;")] if manifest.about.strip() else []),
        _what_it_is(manifest, reviewed=any(section.startswith(_REVIEW) for section in sections)),
        "## Counts",
        *_counts(manifest),
        "## Loading",
        _loading(manifest),
        *sections,
        "## Provenance",
        _provenance(manifest),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(manifest: Manifest, files: str) -> str:
    import yaml

    licence = manifest.licence.lower()
    known = licence in _HUB_LICENCES
    front = {
        "pretty_name": f"{manifest.name} {manifest.version}",
        **({"license": licence} if known else {"license": "other", "license_name": harmless(manifest.licence)}),
        "tags": ["fairness", "counterfactual" if manifest.counterfactual else "labelled", "fairgate"],
        "size_categories": [next((size for limit, size in _SIZES if manifest.n_rows < limit), "10M<n<100M")],
        "configs": [{"config_name": "default", "data_files": [{"split": SPLIT, "path": files}]}],
    }
    return str(yaml.safe_dump(front, sort_keys=False, allow_unicode=True))


def _what_it_is(manifest: Manifest, *, reviewed: bool) -> str:
    images = "labels only, no images" if manifest.image_encoding == "none" else f"images as {manifest.image_encoding}"
    if manifest.members:
        shown = "the review below says how far they do" if reviewed else "nobody has reviewed how far they do"
        kind = (
            f"{manifest.n_rows:,} rows ({images}) in {manifest.n_sets:,} counterfactual sets of "
            f"{len(manifest.members)} members. The members of a set are made to show one subject and scene and to "
            f"differ in social attributes; {shown}."
        )
    else:
        kind = f"{manifest.n_rows:,} rows ({images}) in {manifest.n_sets:,} sets. The sets are not counterfactual."
    return (
        f"{kind}\n\nAttributes are perceived in an image, or were asked of its generator (prompted); they are never a "
        f"fact about a person.\n\nLicence: {_line(manifest.licence)}. Content fingerprint: `{manifest.fingerprint}`."
    )


def _counts(manifest: Manifest) -> list[str]:
    subjects = list(manifest.counts.subjects.items())
    parts = [_table(["subject", "images"], [[name, count] for name, count in subjects[:_MOST_SUBJECTS]], len(subjects))]
    for attribute, groups in manifest.attributes.items():
        parts.append(f"### By subject and {_line(attribute)}")
        rows: list[list[object]] = [
            [subject, *(manifest.counts.subject_groups[subject][attribute][group] for group in groups)]
            for subject, _ in subjects[:_MOST_SUBJECTS]
        ]
        totals = [manifest.counts.groups[attribute][group] for group in groups]
        parts.append(_table(["subject", *groups], [*rows, ["all", *totals]], len(subjects) + 1))
    for crossed, cells in manifest.counts.intersections.items():
        parts.append(f"### By {_line(crossed)}")
        listed: list[list[object]] = [[cell, count] for cell, count in list(cells.items())[:_MOST_CELLS]]
        parts.append(_table([crossed, "images"], listed, len(cells)))
    return parts


def _loading(manifest: Manifest) -> str:
    return (
        "```python\nfrom datasets import load_dataset\n\n"
        f'rows = load_dataset("datasets/{manifest.name}/{manifest.version}", split="{SPLIT}")\n```\n\n'
        "The path is that of this folder, from where you are. A row is one member: `image`, `set_id`, `member`, "
        "`subject`, `caption`, `path`, one column per attribute, then provenance and quality columns. All members of a "
        "set are in one shard. With "
        f'fairgate: `open_dataset("{manifest.ref}")`.'
    )


def _provenance(manifest: Manifest) -> str:
    recipe = json.dumps(manifest.recipe, indent=2, ensure_ascii=False)
    lineage = "\n".join(f"- {_line(name)}: `{_code(value)}`" for name, value in manifest.lineage.items())
    parts = [f"Written by fairgate {manifest.fairgate} with this recipe:", f"```json\n{recipe}\n```"]
    return "\n\n".join([*parts, *([f"Made from:\n\n{lineage}"] if lineage else [])])


def _table(header: list[str], rows: list[list[object]], n_all: int) -> str:
    shown = table([_cell(name) for name in header], [[_cell(value) for value in row] for row in rows])
    return shown + (f"\n\n{n_all - len(rows):,} more are in `manifest.json`." if n_all > len(rows) else "")


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else _line(str(value))


def _line(text: str) -> str:
    return literal(harmless(" ".join(text.split())))


def _code(text: str) -> str:
    """One line between backticks, where nothing can be escaped."""
    return harmless(" ".join(text.split())).replace("<", "&lt;").replace("`", "'")


MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 32
CELL: Final = 128
"""Pixels of a picture's longer side."""
_MARGIN, _LABEL = 6, 190


def shown_sets(dataset: Dataset, per_subject: int) -> list[tuple[str, str]]:
    """(subject, set_id) of the sets that a sheet shows: of every subject, evenly spread over its sets as stored."""
    sets: dict[str, dict[str, None]] = {}
    for subject, set_id in zip(dataset.index.subject, dataset.index.set_id, strict=True):
        sets.setdefault(str(subject), {})[str(set_id)] = None
    shown = []
    for subject, known in sets.items():
        ids = list(known)
        places = np.unique(np.linspace(0, len(ids) - 1, min(per_subject, len(ids))).astype(int))
        shown += [(subject, ids[place]) for place in places]
    return shown[:MOST_ROWS]


def contact_sheet(dataset: Dataset, per_subject: int = 3) -> Image:
    """A row per set, its members in stored order; at most 200 rows and 32 members. DatasetError for labels only.

    A picture that cannot be decoded is a red cell: a sheet is looked at to find such things.
    """
    shown = shown_sets(dataset, per_subject)
    images = dataset.images_of([set_id for _, set_id in shown])
    return picture_rows([(f"{subject}\n{set_id}", [data for _, data in images[set_id]]) for subject, set_id in shown])


def picture_rows(rows: Sequence[tuple[str, Sequence[bytes]]], heads: Sequence[str] = (), longest: int = CELL) -> Image:
    """A sheet with a row of encoded pictures under each label, of up to three lines; at most 200 rows of 32 pictures.

    `heads` are written above the columns, in up to two lines, and pictures that have them are framed. Pictures are
    scaled down to `longest` pixels, and letters are scaled like them. A picture that cannot be decoded is a red cell.
    """
    import PIL.Image
    import PIL.ImageDraw
    import PIL.ImageFont

    shown, scale = rows[:MOST_ROWS], longest / CELL
    margin, label, font = round(_MARGIN * scale), round(_LABEL * scale), PIL.ImageFont.load_default(10 * scale)
    columns = min(MOST_COLUMNS, max((len(pictures) for _, pictures in shown), default=0))
    pitch, above = longest + margin, round(30 * scale) if heads else 0
    size = (label + columns * pitch + margin, above + len(shown) * pitch + margin)
    sheet = PIL.Image.new("RGB", size, "white")
    pen = PIL.ImageDraw.Draw(sheet)
    for column, head in enumerate(heads[:columns]):
        pen.text((label + column * pitch, margin), _plain(head, 22, 2), fill="black", font=font)
    for row, (name, pictures) in enumerate(shown):
        top = above + margin + row * pitch
        pen.text((margin, top), _plain(name, 28, 3), fill="black", font=font)
        for column, data in enumerate(pictures[:columns]):
            picture, left = _shown(data, longest), label + column * pitch
            sheet.paste(picture, (left, top))
            if heads:
                pen.rectangle((left - 1, top - 1, left + picture.width, top + picture.height), outline="black")
    return sheet


def _plain(text: str, letters: int, lines: int) -> str:
    """Some lines of a label, in the letters that the font has."""
    plain = text.replace(" × ", ", ").encode("ascii", "replace").decode()
    return "\n".join(line[:letters] for line in plain.split("\n")[:lines])


def _shown(data: bytes, longest: int) -> Image:
    import PIL.Image

    try:
        picture = decode(data)
    except UnreadableImage:
        return PIL.Image.new("RGB", (longest, longest), "red")
    picture = picture.convert("RGB")
    if (times := longest // max(picture.size)) > 1:  # tiny models paint tiny pictures: shown in blocks, as they are
        return picture.resize((picture.width * times, picture.height * times), PIL.Image.Resampling.NEAREST)
    picture.thumbnail((longest, longest))
    return picture
