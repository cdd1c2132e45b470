"""Edits by the share of real persons among their neighbours (P_R), and sheets of edited photographs to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import decode
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.records import StudyCell, StudyPicture, StudyTable
from fairgate.studies.papers.captioned import Captioned

if TYPE_CHECKING:
    from PIL.Image import Image

TENTHS = 10
PER_TENTH = 3
"""Pairs of each tenth on the sheet."""
PHOTOGRAPHS = 6
CELL = 96
"""Pixels of a picture's longer side."""
_MARGIN, _LABEL = 6, 170


@dataclass(frozen=True, slots=True)
class Pair:
    """Two edits of a photograph, one of each group, and their mean P_R."""

    rows: tuple[int, int]
    score: float


def pairs_of(release: Captioned) -> list[Pair]:
    """An edit of the first group with one of the second, in stored order; none where no P_R is recorded."""
    column = release.columns.get("p_real")
    if column is None:
        return []
    found = []
    for photograph in np.split(np.argsort(release.owner, kind="stable"), np.cumsum(np.bincount(release.owner))[:-1]):
        ones, others = (photograph[release.codes[photograph] == code].tolist() for code in (0, 1))
        pairs = zip(ones, others, strict=False)
        found += [Pair((one, other), (float(column[one]) + float(column[other])) / 2) for one, other in pairs]
    return found


def tenth(score: float) -> int:
    """0 for a score under 0.1, 9 from 0.9 on.

    >>> tenth(0.0), tenth(0.1), tenth(0.3), tenth(1.0)
    (0, 1, 3, 9)
    """
    return min(TENTHS - 1, int(round(score * TENTHS, 9)))


def _span(place: int) -> str:
    return f"{place / TENTHS:g} to {(place + 1) / TENTHS:g}"


def decile_table(release: Captioned, taken: NDArray[np.float64] | str) -> StudyTable:
    """Figure 4 in numbers: `taken` (rows,) is 1 for edits that the first model takes for their group, or a reason."""
    pairs = pairs_of(release)
    rows: list[list[StudyCell]] = []
    for place in range(TENTHS):
        mine = [pair for pair in pairs if tenth(pair.score) == place]
        seen = [] if isinstance(taken, str) else [float(taken[list(pair.rows)].mean()) for pair in mine]
        rows.append([_span(place), len(mine), float(np.mean(seen)) if seen else None])
    return StudyTable(
        name="real-neighbours",
        title="Pairs of edits by their mean share of real neighbours (P_R)",
        source="figure 4",
        columns=["P_R", "pairs", "gender seen"],
        rows=rows if pairs else [],
        note=f"Of {release.name}. The share of real images among an edit's neighbours, averaged over a pair; gender "
        "seen by the first model, zero-shot."
        if pairs
        else f"{release.name} records no P_R (column p_real).",
    )


def pair_sheets(
    original: Captioned, genswap: Captioned, gensynth: Captioned, scored: Captioned, seed: int
) -> list[tuple[StudyPicture, bytes]]:
    """Figure 3, photographs with both kinds of edits, and figure 4, pairs of each tenth of P_R."""
    rng = stream(seed, "sheets")
    known = sorted(set(original.set_id) & set(genswap.set_id) & set(gensynth.set_id))
    chosen = [known[place] for place in np.sort(rng.permutation(len(known))[:PHOTOGRAPHS])] if known else []
    found = []
    if chosen:
        rows = [
            (name, [data for one in (original, genswap, gensynth) for _, data in one.dataset.images_of([name])[name]])
            for name in chosen
        ]
        alt = "In each row a photograph, its two versions with a swapped face, and its two edited versions."
        heads = ["original", "GenSwap", "", "GenSynth", ""]
        found.append(
            (_about("photographs", "Photographs, swapped faces and edits", "figure 3", alt), _sheet(rows, heads))
        )
    if pairs := pairs_of(scored):
        shown = []
        for place in range(TENTHS):
            mine = [pair for pair in pairs if tenth(pair.score) == place]
            drawn = [mine[at] for at in rng.permutation(len(mine))[:PER_TENTH]]
            if drawn:
                shown.append((_span(place), [data for pair in drawn for data in _pictures(scored, pair)]))
        alt = "In each row pairs of edits whose mean share of real neighbours is in one tenth, low ones first."
        found.append(
            (_about("tenths", "Pairs of edits by tenth of P_R", "figure 4", alt), _sheet(shown, ["pair", ""] * 3))
        )
    return found


def _about(name: str, title: str, source: str, alt: str) -> StudyPicture:
    return StudyPicture(name=name, title=title, source=source, alt=alt)


def _pictures(release: Captioned, pair: Pair) -> list[bytes]:
    [name] = {release.set_id[row] for row in pair.rows}
    members = dict(release.dataset.images_of([name])[name])
    return [members[release.dataset.index.member[row]] for row in pair.rows]


def _sheet(rows: Sequence[tuple[str, Sequence[bytes]]], heads: Sequence[str]) -> bytes:
    import PIL.Image
    import PIL.ImageDraw

    pitch, top = CELL + _MARGIN, 24
    columns = max(len(pictures) for _, pictures in rows)
    sheet = PIL.Image.new("RGB", (_LABEL + columns * pitch + _MARGIN, top + len(rows) * pitch + _MARGIN), "white")
    pen = PIL.ImageDraw.Draw(sheet)
    for column, head in enumerate(heads[:columns]):
        pen.text((_LABEL + column * pitch, _MARGIN), head, fill="black")
    for number, (label, pictures) in enumerate(rows):
        y = top + number * pitch
        pen.text((_MARGIN, y), label[:26].encode("ascii", "replace").decode(), fill="black")
        for column, data in enumerate(pictures):
            sheet.paste(_cell(decode(data).convert("RGB")), (_LABEL + column * pitch, y))
    return png_of(sheet)


def _cell(picture: Image) -> Any:
    import PIL.Image

    if (times := CELL // max(picture.size)) > 1:
        return picture.resize((picture.width * times, picture.height * times), PIL.Image.Resampling.NEAREST)
    picture.thumbnail((CELL, CELL))
    return picture
