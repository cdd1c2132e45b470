"""The tables, figures and sheets of pictures of a study of edits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from fairgate.data import CELL, picture_rows
from fairgate.formulas.metrics import fitzpatrick_type
from fairgate.ground.png import png_of
from fairgate.ground.text import slug
from fairgate.records import Estimate, StudyCell, StudyFigure, StudyPicture, StudyTable
from fairgate.studies.papers.contract import ResampledNumber, mean_of, series_of
from fairgate.studies.papers.edited_faces import SHOWN, FoundEdits, resampled
from fairgate.studies.papers.refined_prompts import NOTE, effect


def _keys(edits: FoundEdits) -> Iterator[tuple[str, int, str]]:
    for kind in edits.words:
        for code, name in enumerate(edits.chosen.names):
            yield kind, code, name


def reader_table(edits: FoundEdits) -> StudyTable:
    index, chosen = edits.chosen.release.index, edits.chosen
    truth = np.asarray(index.attributes[edits.attribute], dtype=object)[chosen.rows]
    right = edits.before.perceived == truth
    rows: list[list[StudyCell]] = []
    for code, name in enumerate(chosen.names):
        own = right[chosen.groups == code]
        rows.append([name, Estimate(value=float(own.mean()), n=len(own))])
    return StudyTable(
        name="reader",
        title="Does the reader perceive what the release records, before any edit?",
        source="section 5: CLIP is right about every unedited image",
        columns=["group", "accuracy"],
        rows=rows,
        note="Flips say nothing of a group that the reader gets wrong.",
    )


def _strength_columns(edits: FoundEdits, what: str) -> list[str]:
    return [f"{what}, {strength:g}" for strength in edits.strengths]


def main_table(edits: FoundEdits) -> StudyTable:
    rows: list[list[StudyCell]] = [
        [
            name,
            kind,
            *(edits.flips[kind, strength, code].estimate() for strength in edits.strengths),
            *(edits.lighter[kind, strength, code].estimate() for strength in edits.strengths),
        ]
        for kind, code, name in _keys(edits)
    ]
    return StudyTable(
        name="changes",
        title="Edits that change the perceived group, and the skin of the average face",
        source="table 1",
        columns=["group", "words", *_strength_columns(edits, "flips"), *_strength_columns(edits, "ITA change")],
        rows=rows,
        note="ITA in degrees, after less before: above 0 the average face is lighter.",
    )


def means_table(edits: FoundEdits) -> StudyTable:
    """Of every attribute's group, and of all: the mean of its crossed groups, each alike."""
    chosen, kinds = edits.chosen, [(kind, [kind]) for kind in edits.words]
    groups = [of for by_group in chosen.by_attribute.values() for of in by_group.items()]
    rows: list[list[StudyCell]] = []
    for (group, codes), (name, several) in product(
        [*groups, ("all", range(len(chosen.names)))], [*kinds, ("all", list(edits.words))]
    ):
        images = sum(edits.originals[code].n for code in codes)
        cells = [
            mean_of([numbers[key] for key in product(several, strengths, codes)])
            for numbers, strengths in (
                *((edits.flips, [strength]) for strength in edits.strengths),
                *((edits.lighter, [strength]) for strength in edits.strengths),
                (edits.lighter, edits.strengths),
            )
        ]
        rows.append([group, name, *(replace(cell, n=images).estimate() for cell in cells)])
    columns = [*_strength_columns(edits, "flips"), *_strength_columns(edits, "ITA change"), "ITA change, all"]
    return StudyTable(
        name="means",
        title="Means of the edits of each attribute's groups",
        source="section 4.2.1",
        columns=["group", "words", *columns],
        rows=rows,
        note="Every crossed group counts alike, whatever its size.",
    )


def refined_tables(plain: FoundEdits, refined: FoundEdits) -> Iterator[StudyTable]:
    """Of every attribute's group, and of all: numbers with the plain prompt, with the refined one, and the effect."""
    chosen = plain.chosen
    groups = [(name, codes) for of in chosen.by_attribute.values() for name, codes in of.items()]
    groups.append(("all", list(range(len(chosen.names)))))
    for name, what, both in (
        ("flips", "Flips", (plain.flips, refined.flips)),
        ("word", "Edits that the reader takes for their word", (plain.words_shown, refined.words_shown)),
        *((("skin", "Change of ITA, degrees", (plain.lighter, refined.lighter)),) if plain.aligned else ()),
    ):
        rows: list[list[StudyCell]] = []
        for (group, codes), kind, strength in product(groups, plain.words, plain.strengths):
            keys, images = [(kind, strength, code) for code in codes], sum(plain.originals[code].n for code in codes)
            means = [replace(mean_of([numbers[key] for key in keys]), n=images) for numbers in both]
            rows.append([group, kind, f"{strength:g}", *effect(*means)])
        yield StudyTable(
            name=f"refined-{name}",
            title=f"{what}, by the plain and by the refined prompt",
            source="the paper's future work",
            columns=["group", "words", "strength", "plain", "refined", "effect"],
            rows=rows,
            note=f"{NOTE} An edit that shows its word less often changes less. Every crossed group counts alike.",
        )


def words_table(edits: FoundEdits) -> StudyTable:
    groups = list(edits.labels) if len(edits.labels) > 2 else [next(iter(edits.labels))]  # of two, the rest is known
    weights = edits.weights
    rows: list[list[StudyCell]] = []
    for word in (word for words in edits.words.values() for word in words):
        cells: list[StudyCell] = [word]
        for group, strength in product(groups, edits.strengths):
            taken = (edits.edits[word, strength].perceived == group).astype(np.float64)
            cells.append(resampled(taken, weights).estimate())
        rows.append(cells)
    return StudyTable(
        name="words",
        title=f"Share of edits perceived as {' or '.join(groups)}, by word",
        source="section 4.2.1, by word",
        columns=["word", *(column for group in groups for column in _strength_columns(edits, group))],
        rows=rows,
    )


def drift_table(edits: FoundEdits) -> StudyTable:
    """Of every watched attribute, class of words and crossed group: what edits gain, by strength."""
    rows: list[list[StudyCell]] = []
    for name, (kind, code, group) in product(dict.fromkeys(name for name, _ in edits.drift), _keys(edits)):
        gained = [edits.drift[name, (kind, strength, code)].estimate() for strength in edits.strengths]
        rows.append([name, group, kind, *gained])
    return StudyTable(
        name="drift",
        title="Edits that show what no prompt asks for, less originals that do, as shares",
        source="not in the paper: the metric attribute_drift",
        columns=["watched", "group", "words", *_strength_columns(edits, "gained")],
        rows=rows,
        note="Above 0, edits add it. Not corrected for the reader's error: a reader that is wrong about edits alone "
        "shows a drift that is not there.",
    )


def _type(measured: ResampledNumber) -> str:
    return f"type {fitzpatrick_type(measured.value)}" if np.isfinite(measured.value) else "–"


def originals_table(edits: FoundEdits) -> StudyTable:
    return StudyTable(
        name="original-faces",
        title="ITA of the average face of the originals, degrees",
        source="table 2",
        columns=["group", "ITA", "Fitzpatrick"],
        rows=[[name, edits.originals[code].estimate(), _type(edits.originals[code])]
              for code, name in enumerate(edits.chosen.names)],
    )  # fmt: skip


def edited_table(edits: FoundEdits) -> StudyTable:
    rows: list[list[StudyCell]] = []
    for kind, code, name in _keys(edits):
        angles = [edits.after[kind, strength, code] for strength in edits.strengths]
        rows.append([name, kind, *(angle.estimate() for angle in angles), *map(_type, angles)])
    return StudyTable(
        name="edited-faces",
        title="ITA of the average face of the edits, degrees",
        source="table 3",
        columns=["group", "words", *_strength_columns(edits, "ITA"), *_strength_columns(edits, "Fitzpatrick")],
        rows=rows,
    )


def image_table(edits: FoundEdits) -> StudyTable:
    rows: list[list[StudyCell]] = []
    for kind, code, name in _keys(edits):
        own, missing = edits.chosen.groups == code, 0
        cells: list[StudyCell] = [name, kind]
        for strength in edits.strengths:
            seen = [edits.edits[word, strength].angles[own] for word in edits.words[kind]]
            change = np.array(seen) - edits.before.angles[own]
            known = change[np.isfinite(change)]
            images = int(np.isfinite(change).any(axis=0).sum())
            missing += change.size - known.size
            cells.append(Estimate(value=float(known.mean()) if known.size else None, n=images,
                                  why=None if known.size else "no picture has an angle"))  # fmt: skip
        rows.append([*cells, missing])
    return StudyTable(
        name="skin-by-image",
        title="Mean change of ITA, each edit less its own image, degrees",
        source="not in the paper: the metric lightening",
        columns=["group", "words", *_strength_columns(edits, "ITA change"), "edits without an angle"],
        rows=rows,
        note="Edits that lost more than half of their skin count here, and not in lightening.",
    )


def figures(edits: FoundEdits) -> Iterator[StudyFigure]:
    for kind, (attribute, groups) in product(edits.words, edits.chosen.by_attribute.items()):
        of_reader = attribute == edits.attribute
        numbers, what = (edits.flips, "flips") if of_reader else (edits.lighter, "skin")
        if not of_reader and not edits.aligned:
            continue
        series = []
        for group, codes in groups.items():
            parts = [mean_of([numbers[kind, strength, code] for code in codes]) for strength in edits.strengths]
            series.append(series_of(group, list(edits.strengths), [part.estimate() for part in parts]))
        yield StudyFigure(
            name=slug(f"{what} {attribute} {kind}"),
            title=f"{'Flips of the perceived group' if of_reader else 'Change of skin tone'} by {attribute}, {kind}",
            source="figures 3, 20 and 21, " + ("left" if of_reader else "middle"),
            kind="lines",
            x_label="edit strength (share of the schedule)",
            y_label="share of edits" if of_reader else "change of ITA (degrees, above 0 lighter)",
            series=series,
            reference={} if of_reader else {"unchanged": 0.0},
        )


def sheets(edits: FoundEdits) -> Iterator[tuple[StudyPicture, bytes]]:
    from PIL import Image

    names = edits.chosen.names
    columns = list(product(edits.words, edits.strengths))
    rows = []
    for code, name in enumerate(names):
        faces = [edits.faces[code], *(edits.faces[*column, code] for column in columns)]
        rows.append((name, [png_of(Image.fromarray(face)) for face in faces]))
    heads = ["original", *(f"{kind}\nat {strength:g}" for kind, strength in columns)]
    averages = StudyPicture(
        name="average-faces",
        title="Average faces of the originals, and of their edits by class of words and strength",
        source="figures 12 to 15",
        alt="A row of average faces for every group, the originals first",
    )
    longest = max(CELL, *(max(face.shape[:2]) for face in edits.faces.values()))
    yield averages, png_of(picture_rows(rows, heads, longest), optimize=True)
    for code, name in enumerate(names):
        own = np.flatnonzero(edits.chosen.groups == code)[:SHOWN]
        shown = [("original", [edits.before.shown[at] for at in own])]
        for word, strength in product((word for words in edits.words.values() for word in words), edits.strengths):
            shown.append((f"{word}\nat {strength:g}", [edits.edits[word, strength].shown[at] for at in own]))
        picture = StudyPicture(
            name=slug(f"edits {name}"),
            title=f"Edits of {name}",
            source="figures 4 to 11",
            alt=f"Pictures of {name} in the first row; below, a row of their edits for every word and strength",
        )
        yield picture, png_of(picture_rows(shown), optimize=True)
