"""A release of captioned photographs of one person each, as `photographs`, `gensynth` and `genswap` build it; its
edits by the share of real persons among their neighbours (P_R), and sheets of edited photographs to be looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.builds.steps import BOX
from fairgate.data import Dataset, TextRows, decode, picture_rows
from fairgate.ground.errors import DatasetError, listed
from fairgate.ground.hashing import digest
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.models import SourceLike
from fairgate.records import StudyCell, StudyPicture, StudyTable
from fairgate.studies.papers.contract import mean_estimate, pictures_of

Rows = NDArray[np.intp]
ATTRIBUTE = "gender"
_TEXT = ("captions", "neutral_captions")
MOST_CAPTIONS = 20
"""Captions of an image that are taken; COCO has five."""
MAX_SIDE = 100_000


@dataclass(frozen=True, eq=False)
class Captioned:
    """A release under the name that tables call it. `captions` and `neutral_captions` have a tuple of texts per row."""

    name: str
    dataset: Dataset

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The recipes' columns, in stored order, with `p_real` where the release has it. Raises DatasetError."""
        wanted = [*_TEXT, *BOX]
        columns: dict[str, list[Any]] = {name: [] for name in wanted}
        for shard in self.dataset.manifest.shards:
            parquet = self.dataset.parquet(shard)
            names = parquet.schema_arrow.names
            if absent := [name for name in wanted if name not in names]:
                raise self._wrong(f"has no column '{absent[0]}'.")
            names_read = [*wanted, *(["p_real"] if "p_real" in names else [])]
            for group in range(parquet.num_row_groups):
                table = self.dataset.read_group(parquet, shard, group, columns=names_read)
                for name in names_read:
                    columns.setdefault(name, []).extend(table[name].to_pylist())
        for name in _TEXT:  # edits of a photograph share their texts
            cells = [cell if isinstance(cell, str) else None for cell in columns[name]]
            texts = {cell: self._texts(cell, name) for cell in dict.fromkeys(cells)}
            columns[name] = [texts[cell] for cell in cells]
        return columns

    def require(self, recipe: str) -> None:
        """Raise DatasetError where it is not of this recipe, or lacks what a study of captions needs: before any model
        is loaded."""
        if (made := self.dataset.manifest.recipe.get("name")) != recipe:
            raise DatasetError(
                f"dataset '{self.dataset.manifest.ref}' is of recipe '{made}', and is given as '{self.name}'.",
                where=str(self.dataset.folder),
                remedy=f"name a release or build of recipe '{recipe}' there",
            )
        assert self.groups
        for row in range(len(self.columns["captions"])):
            self.box(row)

    def _texts(self, stored: object, column: str) -> tuple[str, ...]:
        try:
            texts = json.loads(stored) if isinstance(stored, str) else None
        except (ValueError, RecursionError):
            texts = None
        captions = [text for text in texts if isinstance(text, str) and text.strip()] if isinstance(texts, list) else []
        if captions != texts or not 0 < len(captions) <= MOST_CAPTIONS:
            raise self._wrong(f"has a row whose '{column}' is no JSON list of 1 to {MOST_CAPTIONS} captions.")
        return tuple(captions)

    def _wrong(self, problem: str, remedy: str = "") -> DatasetError:
        return DatasetError(
            f"dataset '{self.dataset.manifest.ref}' {problem}",
            where=str(self.dataset.folder),
            remedy=remedy or "build it with one of the recipes photographs, gensynth, gensynth_unfiltered, genswap",
        )

    @cached_property
    def set_id(self) -> TextRows:
        """The photograph of every row."""
        return self.dataset.index.set_id

    @cached_property
    def owner(self) -> Rows:
        """The photograph of every row, coded 0, 1, ..."""
        return np.unique(self.set_id, return_inverse=True)[1]

    @cached_property
    def groups(self) -> tuple[str, str]:
        """The two groups of the attribute, in order. Raises DatasetError where there are others."""
        names = self.dataset.manifest.attributes.get(ATTRIBUTE, [])
        if len(names) != 2:
            raise self._wrong(
                f"has {len(names)} groups of '{ATTRIBUTE}' ({listed(names, 10)}), and the paper compares two.",
                "compare all of them by a suite: a probe of `kind: caption_retrieval`, and `metric: max_skew_at_k`",
            )
        return names[0], names[1]

    @cached_property
    def codes(self) -> Rows:
        """The group of every row: 0 the first, 1 the second."""
        assert self.groups
        return self.dataset.index.codes(ATTRIBUTE)[0]

    @cached_property
    def own(self) -> Rows:
        """A row for each photograph: its first."""
        return np.unique(self.set_id, return_index=True)[1]

    @property
    def neutral(self) -> list[str]:
        """Neutral captions of every photograph."""
        return [text for row in self.own for text in self.columns["neutral_captions"][row]]

    def rows_of(self, set_ids: TextRows) -> Rows:
        """Rows whose photograph is one of these."""
        return np.flatnonzero(np.isin(self.set_id, set_ids))

    def box(self, row: int) -> tuple[int, int, int, int]:
        """Where the person is: (left, top, right, bottom)."""
        corners = [self.columns[name][row] for name in BOX]
        if not all(isinstance(corner, int) and 0 <= corner <= MAX_SIDE for corner in corners):
            raise self._wrong(f"has a row whose box is {corners}, and not four whole numbers of pixels.")
        left, top, right, bottom = corners
        if left >= right or top >= bottom:
            raise self._wrong(f"has a row whose box is empty: {corners}.")
        return left, top, right, bottom


class PersonInBlack(SourceLike):
    """The pictures of a release with the person's box in black: a source for models. Rows and names are its own."""

    def __init__(self, release: Captioned) -> None:
        super().__init__(release.dataset)
        self.release = release

    @property
    def fingerprint(self) -> str:
        """Of the content and of the boxes."""
        boxes = [self.release.box(row) for row in range(len(self))]
        return digest({"of": self.source.fingerprint, "black": boxes})

    @property
    def name(self) -> str:
        """The release's: what was fitted on it is not shown its pictures either."""
        return self.release.dataset.name

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """As PNG."""
        from PIL import ImageDraw

        for rows, encoded in self.source.image_batches(batch_size):
            blacked = []
            for row, data in zip(rows.tolist(), encoded, strict=True):
                picture = decode(data).convert("RGB")
                left, top, right, bottom = self.release.box(row)
                ImageDraw.Draw(picture).rectangle((left, top, right - 1, bottom - 1), fill="black")
                blacked.append(png_of(picture))
            yield rows, blacked


TENTHS = 10
PER_ROW = 3
"""Pairs of each tenth or decile on its sheet."""
PHOTOGRAPHS = 6


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
    edited = []
    for photograph in np.split(np.argsort(release.owner, kind="stable"), np.cumsum(np.bincount(release.owner))[:-1]):
        ones, others = (photograph[release.codes[photograph] == code].tolist() for code in (0, 1))
        pairs = zip(ones, others, strict=False)
        edited += [Pair((first, second), (float(column[first]) + float(column[second])) / 2) for first, second in pairs]
    return edited


def tenth(score: float) -> int:
    """0 for a score under 0.1, 9 from 0.9 on.

    >>> tenth(0.0), tenth(0.1), tenth(0.3), tenth(1.0)
    (0, 1, 3, 9)
    """
    return min(TENTHS - 1, int(round(score * TENTHS, 9)))


def by_tenth(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Pairs by tenths of the range of P_R, 0 to 1, some of them empty: the paper's text counts so ("only one image with
    an averaged score between 0.7-0.8", its 8th decile)."""
    groups: list[list[Pair]] = [[] for _ in range(TENTHS)]
    for pair in pairs:
        groups[tenth(pair.score)].append(pair)
    return {f"{at / TENTHS:g} to {(at + 1) / TENTHS:g}": group for at, group in enumerate(groups)}


def by_decile(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Pairs in ten equal groups by P_R, low ones first, each named by its lowest and highest; equal ones in stored
    order, so that neighbouring groups may share a number."""
    ordered = sorted(pairs, key=lambda pair: pair.score)
    parts = np.array_split(np.arange(len(ordered)), TENTHS)
    groups = [[ordered[place] for place in part] for part in parts]
    spans = (f"{group[0].score:.3f} to {group[-1].score:.3f}" if group else "no pair" for group in groups)
    return {f"{at}: {span}": group for at, (span, group) in enumerate(zip(spans, groups, strict=True), 1)}


def neighbour_tables(release: Captioned, taken: NDArray[np.float64] | str, seed: int) -> list[StudyTable]:
    """Figure 4 in numbers: `taken` (rows,) is 1 for edits that the first model takes for their group, or a reason."""
    pairs = pairs_of(release)
    ways = {
        "real-neighbours": ("by their mean share of real neighbours (P_R)", by_tenth),
        "neighbour-deciles": ("by deciles of P_R", by_decile),
    }
    tables = []
    for name, (title, grouped) in ways.items():
        rows: list[list[StudyCell]] = []
        for span, mine in grouped(pairs).items():
            cell: StudyCell = None
            if mine and not isinstance(taken, str):
                first, second = np.array([pair.rows for pair in mine]).T
                rng = stream(seed, "interval", name, span)
                cell = mean_estimate((taken[first] + taken[second]) / 2, rng, units=release.owner[first])
            rows.append([span, len(mine), cell])
        about = (
            f"Of {release.name}. The share of real images among an edit's neighbours, averaged over a pair; gender "
            "seen by the first model, zero-shot; limits resample photographs, which have several pairs each."
        )
        tables.append(
            StudyTable(
                name=name,
                title=f"Pairs of edits {title}",
                source="figure 4",
                columns=["P_R", "pairs", "gender seen"],
                rows=rows if pairs else [],
                note=about if pairs else f"{release.name} records no P_R (column p_real).",
            )
        )
    return tables


def pair_sheets(
    original: Captioned, genswap: Captioned, gensynth: Captioned, scored: Captioned, seed: int
) -> list[tuple[StudyPicture, bytes]]:
    """Figure 3, photographs with both kinds of edits, and figure 4, pairs of each tenth and decile of P_R."""
    rng = stream(seed, "sheets")
    shared = sorted(set(original.set_id) & set(genswap.set_id) & set(gensynth.set_id))
    chosen = [shared[place] for place in np.sort(rng.permutation(len(shared))[:PHOTOGRAPHS])] if shared else []
    sheets = []
    if chosen:
        datasets = [release.dataset for release in (original, genswap, gensynth)]
        rows = [(name, [data for each in datasets for _, data in each.images_of([name])[name]]) for name in chosen]
        photographs = StudyPicture(
            name="photographs",
            title="Photographs, swapped faces and edits; columns: original, two by GenSwap, two by GenSynth",
            source="figure 3",
            alt="In each row a photograph, its two versions with a swapped face, and its two edited versions.",
        )
        sheets.append((photographs, png_of(picture_rows(rows))))
    pairs = pairs_of(scored)
    for name, grouped in {"tenth": by_tenth, "decile": by_decile}.items():
        rows = []
        for span, mine in grouped(pairs).items():
            drawn = [mine[at] for at in rng.permutation(len(mine))[:PER_ROW]]
            if drawn:
                images = pictures_of(scored.dataset, (row for pair in drawn for row in pair.rows))
                rows.append((span, list(images.values())))
        if rows:
            picture = StudyPicture(
                name=f"{name}s",
                title=f"Pairs of edits by {name} of P_R",
                source="figure 4",
                alt=f"In each row pairs of edits whose mean share of real neighbours is in one {name}, low ones first.",
            )
            sheets.append((picture, png_of(picture_rows(rows))))
    return sheets
